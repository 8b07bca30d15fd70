//! The hidden keys of a map of records, and the value words of their records.
//!
//! The slot of a hidden key stores only the key word, which several keys may share.
//!
//! Invariants
//! 1. A hidden key is on the list from before a slot hides it until no slot does.
//! 2. While a record is kept here nothing else has its value word.

use crate::sync::{Backoff, Mutex};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A namespace, and the bytes of a key.
type Key = (u16, Vec<u8>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A thread is about to hide the key, or to show or abort it.
    Unsettled,
    /// The key is hidden, and this is the value word of its record.
    Kept(u64),
}

/// Several shards, so that threads that hide keys seldom wait for each other.
const SHARDS: usize = 16;

/// The hidden keys of a map.
#[derive(Debug)]
pub(super) struct HiddenKeys(Box<[Mutex<HashMap<Key, State>>]>);

impl Default for HiddenKeys {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl HiddenKeys {
    /// Returns the place on the list of a key with this key word.
    pub(super) fn of(&self, word: u64, key: Key) -> ListedKey<'_> {
        ListedKey { shard: &self.0[word as usize % SHARDS], key }
    }

    /// Takes all kept records off the list.
    pub(super) fn drain(&self) -> Vec<u64> {
        let mut kept = Vec::new();
        for shard in &self.0 {
            kept.extend(shard.lock().drain().filter_map(|(_, state)| match state {
                State::Kept(value_word) => Some(value_word),
                State::Unsettled => None,
            }));
        }
        kept
    }
}

/// A key's place on the list, whether the key is on it or not.
#[derive(Debug)]
pub(crate) struct ListedKey<'h> {
    shard: &'h Mutex<HashMap<Key, State>>,
    key: Key,
}

impl ListedKey<'_> {
    /// Enters a key before it is hidden; false if it is hidden already. Waits while another thread
    /// is about to hide the key or to end that, which takes it a few instructions.
    pub(crate) fn enter(&self) -> bool {
        let mut backoff = Backoff::new();
        loop {
            match self.shard.lock().entry(self.key.clone()) {
                Entry::Occupied(entered) if *entered.get() == State::Unsettled => {}
                Entry::Occupied(_) => return false,
                Entry::Vacant(vacant) => {
                    vacant.insert(State::Unsettled);
                    return true;
                }
            }
            backoff.wait();
        }
    }

    /// Whether the key is hidden; `None` while a thread hides it or ends that.
    pub(crate) fn is_hidden(&self) -> Option<bool> {
        match self.shard.lock().get(&self.key) {
            None => Some(false),
            Some(State::Kept(_)) => Some(true),
            Some(State::Unsettled) => None,
        }
    }

    /// Keeps the record of a key that is hidden now, until a thread shows or aborts it.
    pub(crate) fn keep(&self, value_word: u64) {
        self.shard.lock().insert(self.key.clone(), State::Kept(value_word));
    }

    /// Takes the record of a hidden key, which belongs to the caller then.
    pub(crate) fn take(&self) -> Option<u64> {
        let mut shard = self.shard.lock();
        match core::mem::replace(shard.get_mut(&self.key)?, State::Unsettled) {
            State::Kept(value_word) => Some(value_word),
            State::Unsettled => None,
        }
    }

    /// Takes a key off the list that is not hidden any more.
    pub(crate) fn strike(&self) {
        self.shard.lock().remove(&self.key);
    }
}
