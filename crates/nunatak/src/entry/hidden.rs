//! Which keys of records are hidden, and the words of their records.
//!
//! The slot of a hidden key says its word only, which keys may share.
//!
//! Invariants
//! 1. A key that is hidden is on the list since before a slot says so, and until none does.
//! 2. While a record is kept here nothing else has its word.

use crate::sync::{Backoff, Mutex};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A namespace, and bytes.
type Key = (u16, Vec<u8>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A thread is about to hide the key, or to end that.
    Unsettled,
    /// It is hidden, and this is the word of its record.
    Kept(u64),
}

/// So that threads seldom wait for each other to hide keys.
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
    /// The place of a key of this word.
    pub(super) fn of(&self, word: u64, key: Key) -> ListedKey<'_> {
        ListedKey { shard: &self.0[word as usize % SHARDS], key }
    }

    /// Takes all records off that are kept here.
    pub(super) fn drain(&self) -> Vec<u64> {
        let mut kept = Vec::new();
        for shard in &self.0 {
            kept.extend(shard.lock().drain().filter_map(|(_, state)| match state {
                State::Kept(second) => Some(second),
                State::Unsettled => None,
            }));
        }
        kept
    }
}

/// A key that is, or would be, on the list.
#[derive(Debug)]
pub(crate) struct ListedKey<'h> {
    shard: &'h Mutex<HashMap<Key, State>>,
    key: Key,
}

impl ListedKey<'_> {
    /// Enters a key that is to be hidden; false if it is hidden already. Waits for another
    /// thread that is about to hide it, or to end that: for a few of its instructions.
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

    /// Keeps the record of a key that is hidden now, for whoever ends that.
    pub(crate) fn keep(&self, second: u64) {
        self.shard.lock().insert(self.key.clone(), State::Kept(second));
    }

    /// The record of a hidden key, which is the caller's then.
    pub(crate) fn take(&self) -> Option<u64> {
        let mut shard = self.shard.lock();
        match core::mem::replace(shard.get_mut(&self.key)?, State::Unsettled) {
            State::Kept(second) => Some(second),
            State::Unsettled => None,
        }
    }

    /// Strikes a key off that is not hidden any more.
    pub(crate) fn strike(&self) {
        self.shard.lock().remove(&self.key);
    }
}
