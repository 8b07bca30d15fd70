//! Hashes that moves of keys need, where the hasher is the caller's.
//!
//! A key goes to a place by its hash, which a slot does not hold. The caller's hasher may
//! panic, wait and use the map, so that it is asked while nothing is held and no operation is
//! announced: a move that lacks hashes lists the tags and leaves everything as it is. The
//! operation that wanted it leaves the table, asks for them, and tries again. So each key is
//! hashed once for a move, and what the hasher would say another time does not matter.

use crate::hash::HashCodec;
use crate::sync::{AtomicUsize, Mutex, Ordering};
use std::collections::HashMap;

/// A tag and the half that it is of, which are a word.
pub(in crate::table) type Key = (u64, usize);

#[derive(Debug, Default)]
pub(in crate::table) struct Hashes {
    lists: Mutex<Lists>,
    /// How many are wanted: a hint, read and written relaxed.
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

    /// Whether some are to be asked for.
    pub(in crate::table) fn are_wanted<P: HashCodec>(&self) -> bool {
        P::runs_callers_code() && self.wanted.load(Ordering::Relaxed) != 0
    }

    /// The keys that were moved.
    pub(in crate::table) fn forget(&self, keys: impl Iterator<Item = Key>) {
        let mut lists = self.lists.lock();
        for key in keys {
            lists.known.remove(&key);
        }
    }

    /// Whether the hashes of all keys are known; if not, they are wanted.
    pub(in crate::table) fn want(&self, keys: impl Iterator<Item = Key>) -> bool {
        let mut lists = self.lists.lock();
        let Lists { wanted, known } = &mut *lists;
        wanted.extend(keys.filter(|key| !known.contains_key(key)));
        self.wanted.store(wanted.len(), Ordering::Relaxed);
        wanted.is_empty()
    }

    /// Forgets all keys: those that were removed before they were moved stay known.
    pub(in crate::table) fn clear(&self) {
        self.lists.lock().known.clear();
    }

    /// Asks the caller's hasher for what is wanted, while nothing is announced or held by this
    /// thread; whether that was anything.
    pub(in crate::table) fn ask<P: HashCodec>(&self, codec: &P) -> bool {
        if !P::runs_callers_code() || self.wanted.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let wanted = {
            let mut lists = self.lists.lock();
            // Under the lock, as in `want`: or else what another thread wants now is not hinted at.
            self.wanted.store(0, Ordering::Relaxed);
            core::mem::take(&mut lists.wanted)
        };
        // If it panics, the next move wants them again.
        let hash = |key: Key| (key, codec.hash_of_tag(key.0, key.1));
        let hashes: Vec<_> = wanted.into_iter().map(hash).collect();
        self.lists.lock().known.extend(hashes);
        true
    }
}
