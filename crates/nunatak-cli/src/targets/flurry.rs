//! `flurry::HashMap`: Java's `ConcurrentHashMap` in Rust.

use super::{Hasher, MapName, Target, WordTarget};
use flurry::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Flurry(HashMap<u64, u64, Hasher>);

impl Target for Flurry {
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
        let change = |_: &u64, value: &u64| Some(change(*value));
        self.0.pin().compute_if_present(&key, change).is_some()
    }

    #[inline]
    fn remove(&self, key: u64) -> Option<u64> {
        self.0.pin().remove(&key).copied()
    }
}

pub(crate) struct FlurryWords(HashMap<Box<str>, AtomicU64, Hasher>);

impl WordTarget for FlurryWords {
    fn empty() -> Self {
        Self(HashMap::with_hasher(Hasher::default()))
    }

    #[inline]
    fn count(&self, word: &str) {
        let map = self.0.pin();
        let count = map.get(word).unwrap_or_else(|| {
            match map.try_insert(word.into(), AtomicU64::default()) {
                Ok(count) => count,
                Err(present) => present.current,
            }
        });
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn for_each(&self, mut visit: impl FnMut(&str, u64)) {
        for (word, count) in &self.0.pin() {
            visit(word, count.load(Ordering::Relaxed));
        }
    }
}
