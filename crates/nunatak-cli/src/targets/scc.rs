//! `scc::HashMap`: buckets of entries, with a lock for each bucket.

use super::{Hasher, MapName, Target, WordTarget};
use scc::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Scc(HashMap<u64, u64, Hasher>);

impl Target for Scc {
    fn with_capacity(_: MapName, items: usize) -> Self {
        Self(HashMap::with_capacity_and_hasher(items, Hasher::default()))
    }

    fn empty(_: MapName) -> Self {
        Self(HashMap::with_hasher(Hasher::default()))
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.read_sync(&key, |_, value| *value)
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> Option<u64> {
        self.0.upsert_sync(key, value)
    }

    #[inline]
    fn update(&self, key: u64, value: u64) -> bool {
        self.modify(key, |_| value)
    }

    #[inline]
    fn modify(&self, key: u64, change: impl Fn(u64) -> u64) -> bool {
        let change = |_: &u64, value: &mut u64| *value = change(*value);
        self.0.update_sync(&key, change).is_some()
    }

    #[inline]
    fn remove(&self, key: u64) -> Option<u64> {
        self.0.remove_sync(&key).map(|(_, value)| value)
    }
}

pub(crate) struct SccWords(HashMap<Box<str>, AtomicU64, Hasher>);

impl WordTarget for SccWords {
    fn empty() -> Self {
        Self(HashMap::with_hasher(Hasher::default()))
    }

    #[inline]
    fn count(&self, word: &str) {
        let counted = self.0.read_sync(word, |_, count| count.fetch_add(1, Ordering::Relaxed));
        if counted.is_none() {
            let count = self.0.entry_sync(word.into()).or_default();
            count.get().fetch_add(1, Ordering::Relaxed);
        }
    }

    fn for_each(&self, mut visit: impl FnMut(&str, u64)) {
        self.0.iter_sync(|word, count| {
            visit(word, count.load(Ordering::Relaxed));
            true
        });
    }
}
