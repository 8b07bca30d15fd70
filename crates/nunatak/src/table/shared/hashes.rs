//! Hashes that moves of keys need, where the hasher is the caller's.
//!
//! A hash chooses the new place of a key, and a slot does not hold the hash. The caller's hasher
//! may panic, wait and use the map, so it is called while nothing is held and no operation is
//! announced (R7). A move that lacks hashes lists the tags and leaves everything as it is. The
//! operation ends its announcement, asks for the hashes, and tries again. So each key is hashed
//! once for a move (R8).

use crate::hash::HashCodec;
use crate::sync::{AtomicUsize, Mutex, Ordering};
use std::collections::HashMap;

/// A tag and the half that it belongs to. Together they stand for a word.
pub(in crate::table) type Key = (u64, usize);

#[derive(Debug, Default)]
pub(in crate::table) struct Hashes {
    lists: Mutex<Lists>,
    /// How many hashes are wanted: a hint, read and written relaxed.
    wanted: AtomicUsize,
}

#[derive(Debug, Default)]
struct Lists {
    wanted: Vec<Key>,
    known: HashMap<Key, u64, foldhash::fast::FixedState>,
}

impl Hashes {
    pub(in crate::table) fn of(&self, key: Key) -> Option<u64> {
        self.lists.lock().known.get(&key).copied()
    }

    /// Returns whether hashes must be asked for.
    pub(in crate::table) fn are_wanted<P: HashCodec>(&self) -> bool {
        P::runs_callers_code() && self.wanted.load(Ordering::Relaxed) != 0
    }

    /// Forgets the hashes of keys that were moved.
    pub(in crate::table) fn forget(&self, keys: impl Iterator<Item = Key>) {
        let mut lists = self.lists.lock();
        for key in keys {
            lists.known.remove(&key);
        }
    }

    /// Returns whether the hashes of all these keys are known. Lists the missing ones as wanted.
    pub(in crate::table) fn want(&self, keys: impl Iterator<Item = Key>) -> bool {
        let mut lists = self.lists.lock();
        let Lists { wanted, known } = &mut *lists;
        wanted.extend(keys.filter(|key| !known.contains_key(key)));
        self.wanted.store(wanted.len(), Ordering::Relaxed);
        wanted.is_empty()
    }

    /// Forgets all hashes. A key that was removed before its move would stay known otherwise.
    pub(in crate::table) fn clear(&self) {
        self.lists.lock().known.clear();
    }

    /// Asks the caller's hasher for the wanted hashes. Returns whether there were any. This thread
    /// must hold nothing and have announced nothing.
    pub(in crate::table) fn ask<P: HashCodec>(&self, codec: &P) -> bool {
        if !P::runs_callers_code() || self.wanted.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let wanted = {
            let mut lists = self.lists.lock();
            // Under the lock, as in `want`: otherwise the hint would miss a wish of another thread.
            self.wanted.store(0, Ordering::Relaxed);
            core::mem::take(&mut lists.wanted)
        };
        // If the hasher panics, the next move wants these hashes again.
        let hash = |key: Key| (key, codec.hash_of_tag(key.0, key.1));
        let hashes: Vec<_> = wanted.into_iter().map(hash).collect();
        self.lists.lock().known.extend(hashes);
        true
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::hash::{IdentityCodec, WordCodec};
    use std::hash::RandomState;

    #[test]
    fn wanted_hashes_are_asked_for_once() {
        type Codec = WordCodec<RandomState>;
        let codec = Codec::new(RandomState::new());
        let hashes = Hashes::default();
        let words = [10, 20, 30].map(|word| codec.hash(word));
        let keys = [0, 1, 2]
            .map(|at| (codec.tag([10, 20, 30][at], words[at]), (words[at] >> 63) as usize));
        let known = || keys.map(|key| hashes.of(key));
        assert!(!hashes.are_wanted::<Codec>() && !hashes.ask(&codec));
        assert!(!hashes.want(keys.into_iter()));
        assert!(hashes.are_wanted::<Codec>() && !hashes.are_wanted::<IdentityCodec>());
        assert_eq!(known(), [None; 3]);
        assert!(hashes.ask(&codec) && !hashes.are_wanted::<Codec>() && !hashes.ask(&codec));
        assert_eq!(known(), words.map(Some));
        assert!(hashes.want(keys.into_iter()) && !hashes.are_wanted::<Codec>());
        hashes.forget([keys[1]].into_iter());
        assert_eq!(known(), [Some(words[0]), None, Some(words[2])]);
        hashes.clear();
        assert_eq!(known(), [None; 3]);
    }
}
