//! Maps of keys with many values, and what users of the other maps make of them.

use crate::targets::{Hasher, Shards};
use clap::ValueEnum;
use dashmap::DashMap;
use nunatak::PeaMultiMap;

/// How many keys an operation on many is about.
const BATCH: usize = 256;

/// A map that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Name {
    /// `nunatak::PeaMultiMap`.
    Pea,
    /// The same, many keys at a time.
    PeaBatch,
    /// `dashmap::DashMap<u64, Vec<u64>>`.
    Dashmap,
    /// `scc::HashMap<u64, Vec<u64>>`.
    Scc,
    /// 256 shards of `RwLock<HashMap<u64, Vec<u64>>>`.
    Sharded,
}

/// A map of keys with many values.
pub(super) trait Target: Sync {
    fn new() -> Self;

    fn insert(&self, pairs: &[(u64, u64)]);

    /// Copies all values of each key, one key after the other; how many they are.
    fn copy(&self, keys: &[u64], values: &mut Vec<u64>) -> usize;

    /// Takes all values of each key out; how many they are.
    fn remove(&self, keys: &[u64]) -> usize;
}

pub(super) struct Pea(PeaMultiMap<u64, u64, Hasher>);

impl Target for Pea {
    fn new() -> Self {
        Self(PeaMultiMap::new())
    }

    fn insert(&self, pairs: &[(u64, u64)]) {
        for &(key, value) in pairs {
            self.0.insert(key, value);
        }
    }

    fn copy(&self, keys: &[u64], values: &mut Vec<u64>) -> usize {
        let copy = |key| {
            values.clear();
            self.0.copy_all(key, values)
        };
        keys.iter().map(copy).sum()
    }

    fn remove(&self, keys: &[u64]) -> usize {
        keys.iter().map(|key| self.0.remove_all(key)).sum()
    }
}

pub(super) struct PeaBatch(PeaMultiMap<u64, u64, Hasher>);

impl Target for PeaBatch {
    fn new() -> Self {
        Self(PeaMultiMap::new())
    }

    fn insert(&self, pairs: &[(u64, u64)]) {
        pairs.chunks(BATCH).for_each(|pairs| self.0.insert_many(pairs));
    }

    fn copy(&self, keys: &[u64], values: &mut Vec<u64>) -> usize {
        let mut ends = [0; BATCH];
        let copy = |keys: &[u64]| {
            values.clear();
            let _ = self.0.copy_all_many(keys, values, &mut ends);
            values.len()
        };
        keys.chunks(BATCH).map(copy).sum()
    }

    fn remove(&self, keys: &[u64]) -> usize {
        let mut removed = [0; BATCH];
        let remove = |keys: &[u64]| -> usize {
            let _ = self.0.remove_all_many(keys, &mut removed);
            removed[..keys.len()].iter().sum()
        };
        keys.chunks(BATCH).map(remove).sum()
    }
}

pub(super) struct Dashmap(DashMap<u64, Vec<u64>, Hasher>);

impl Target for Dashmap {
    fn new() -> Self {
        Self(DashMap::with_hasher(Hasher::default()))
    }

    fn insert(&self, pairs: &[(u64, u64)]) {
        for &(key, value) in pairs {
            self.0.entry(key).or_default().push(value);
        }
    }

    fn copy(&self, keys: &[u64], values: &mut Vec<u64>) -> usize {
        let copy = |key| {
            values.clear();
            if let Some(found) = self.0.get(key) {
                values.extend_from_slice(&found);
            }
            values.len()
        };
        keys.iter().map(copy).sum()
    }

    fn remove(&self, keys: &[u64]) -> usize {
        keys.iter().filter_map(|key| self.0.remove(key)).map(|(_, values)| values.len()).sum()
    }
}

pub(super) struct Scc(scc::HashMap<u64, Vec<u64>, Hasher>);

impl Target for Scc {
    fn new() -> Self {
        Self(scc::HashMap::with_hasher(Hasher::default()))
    }

    fn insert(&self, pairs: &[(u64, u64)]) {
        for &(key, value) in pairs {
            self.0.entry_sync(key).or_default().get_mut().push(value);
        }
    }

    fn copy(&self, keys: &[u64], values: &mut Vec<u64>) -> usize {
        let copy = |key| {
            values.clear();
            self.0.read_sync(key, |_, found| values.extend_from_slice(found));
            values.len()
        };
        keys.iter().map(copy).sum()
    }

    fn remove(&self, keys: &[u64]) -> usize {
        keys.iter().filter_map(|key| self.0.remove_sync(key)).map(|(_, values)| values.len()).sum()
    }
}

pub(super) struct Sharded(Shards<u64, Vec<u64>>);

impl Target for Sharded {
    fn new() -> Self {
        Self(Shards::with_capacity(0))
    }

    fn insert(&self, pairs: &[(u64, u64)]) {
        for &(key, value) in pairs {
            self.0.of(&key).write().entry(key).or_default().push(value);
        }
    }

    fn copy(&self, keys: &[u64], values: &mut Vec<u64>) -> usize {
        let copy = |key: &u64| {
            values.clear();
            if let Some(found) = self.0.of(key).read().get(key) {
                values.extend_from_slice(found);
            }
            values.len()
        };
        keys.iter().map(copy).sum()
    }

    fn remove(&self, keys: &[u64]) -> usize {
        let remove = |key: &u64| self.0.of(key).write().remove(key);
        keys.iter().filter_map(remove).map(|values| values.len()).sum()
    }
}
