//! `dashmap::DashMap`: shards of a hash table, with a lock for each shard.

use super::{Hasher, MapName, Target, WordTarget};
use dashmap::DashMap;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Dashmap(DashMap<u64, u64, Hasher>);

impl Target for Dashmap {
    fn with_capacity(_: MapName, items: usize) -> Self {
        Self(DashMap::with_capacity_and_hasher(items, Hasher::default()))
    }

    fn empty(_: MapName) -> Self {
        Self(DashMap::with_hasher(Hasher::default()))
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key).map(|value| *value)
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> Option<u64> {
        self.0.insert(key, value)
    }

    #[inline]
    fn update(&self, key: u64, value: u64) -> bool {
        self.modify(key, |_| value)
    }

    #[inline]
    fn modify(&self, key: u64, change: impl Fn(u64) -> u64) -> bool {
        let entry = self.0.get_mut(&key);
        entry.map(|mut value| *value = change(*value)).is_some()
    }

    #[inline]
    fn remove(&self, key: u64) -> Option<u64> {
        self.0.remove(&key).map(|(_, value)| value)
    }
}

pub(crate) struct DashmapWords(DashMap<Box<str>, AtomicU64, Hasher>);

impl WordTarget for DashmapWords {
    fn empty() -> Self {
        Self(DashMap::with_hasher(Hasher::default()))
    }

    #[inline]
    fn count(&self, word: &str) {
        if let Some(count) = self.0.get(word) {
            count.fetch_add(1, Ordering::Relaxed);
        } else {
            let count = self.0.entry(word.into()).or_default();
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn for_each(&self, mut visit: impl FnMut(&str, u64)) {
        for entry in &self.0 {
            visit(entry.key(), entry.value().load(Ordering::Relaxed));
        }
    }
}
