//! `papaya::HashMap`: open addressing of pointers to entries, lock-free.

use super::{Hasher, MapName, Target, WordTarget};
use papaya::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Papaya(HashMap<u64, u64, Hasher>);

impl Target for Papaya {
    fn with_capacity(_: MapName, items: usize) -> Self {
        Self(HashMap::with_capacity_and_hasher(items, Hasher::default()))
    }

    fn empty(_: MapName) -> Self {
        Self(HashMap::with_hasher(Hasher::default()))
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.pin().get(&key).copied()
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> Option<u64> {
        self.0.pin().insert(key, value).copied()
    }

    #[inline]
    fn update(&self, key: u64, value: u64) -> bool {
        self.modify(key, |_| value)
    }

    #[inline]
    fn modify(&self, key: u64, change: impl Fn(u64) -> u64) -> bool {
        self.0.pin().update(key, |&value| change(value)).is_some()
    }

    #[inline]
    fn remove(&self, key: u64) -> Option<u64> {
        self.0.pin().remove(&key).copied()
    }
}

pub(crate) struct PapayaWords(HashMap<Box<str>, AtomicU64, Hasher>);

impl WordTarget for PapayaWords {
    fn empty() -> Self {
        Self(HashMap::with_hasher(Hasher::default()))
    }

    #[inline]
    fn count(&self, word: &str) {
        let map = self.0.pin();
        let count = map
            .get(word)
            .unwrap_or_else(|| map.get_or_insert_with(word.into(), AtomicU64::default));
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn for_each(&self, mut visit: impl FnMut(&str, u64)) {
        for (word, count) in &self.0.pin() {
            visit(word, count.load(Ordering::Relaxed));
        }
    }
}
