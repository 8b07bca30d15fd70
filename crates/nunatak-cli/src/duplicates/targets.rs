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
    /// `nunatak::durable::PeaMultiMap` in a file.
    #[cfg(target_os = "linux")]
    PeaFile,
    /// The same, many keys at a time.
    #[cfg(target_os = "linux")]
    PeaFileBatch,
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

    /// Closes its file and opens it again, if it has one: in how many seconds.
    fn reopen(&mut self) -> Option<f64> {
        None
    }
}

/// A map of this library.
pub(super) trait Multi: Sync {
    fn new() -> Self;
    fn reopen(&mut self) -> Option<f64> {
        None
    }
    fn insert(&self, key: u64, value: u64);
    fn insert_many(&self, pairs: &[(u64, u64)]);
    fn copy_all(&self, key: u64, values: &mut Vec<u64>) -> usize;
    fn copy_all_many(&self, keys: &[u64], values: &mut Vec<u64>, ends: &mut [usize]);
    fn remove_all(&self, key: u64) -> usize;
    fn remove_all_many(&self, keys: &[u64], removed: &mut [usize]);
}

type InRam = PeaMultiMap<u64, u64, Hasher>;

impl Multi for InRam {
    fn new() -> Self {
        Self::new()
    }

    fn insert(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn insert_many(&self, pairs: &[(u64, u64)]) {
        self.insert_many(pairs);
    }

    fn copy_all(&self, key: u64, values: &mut Vec<u64>) -> usize {
        self.copy_all(&key, values)
    }

    fn copy_all_many(&self, keys: &[u64], values: &mut Vec<u64>, ends: &mut [usize]) {
        self.copy_all_many(keys, values, ends).expect(LONG_ENOUGH);
    }

    fn remove_all(&self, key: u64) -> usize {
        self.remove_all(&key)
    }

    fn remove_all_many(&self, keys: &[u64], removed: &mut [usize]) {
        self.remove_all_many(keys, removed).expect(LONG_ENOUGH);
    }
}

const WORKS: &str = "the disk has room for the file";
const LONG_ENOUGH: &str = "the results are as many as the requests";

/// In a file that goes with it.
#[cfg(target_os = "linux")]
pub(super) struct InFile {
    map: Option<nunatak::durable::PeaMultiMap<u64, u64>>,
    directory: tempfile::TempDir,
}

#[cfg(target_os = "linux")]
impl InFile {
    fn map(&self) -> &nunatak::durable::PeaMultiMap<u64, u64> {
        self.map.as_ref().expect("it is open but while it is opened again")
    }
}

#[cfg(target_os = "linux")]
impl Multi for InFile {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect(WORKS);
        let path = directory.path().join("map");
        let map = nunatak::durable::PeaMultiMap::create(path).expect(WORKS);
        Self { map: Some(map), directory }
    }

    fn reopen(&mut self) -> Option<f64> {
        self.map.take()?.close().expect(WORKS);
        let begin = std::time::Instant::now();
        let path = self.directory.path().join("map");
        self.map = Some(nunatak::durable::PeaMultiMap::open(path).expect(WORKS));
        Some(begin.elapsed().as_secs_f64())
    }

    fn insert(&self, key: u64, value: u64) {
        self.map().insert(key, value).expect(WORKS);
    }

    fn insert_many(&self, pairs: &[(u64, u64)]) {
        self.map().insert_many(pairs).expect(WORKS);
    }

    fn copy_all(&self, key: u64, values: &mut Vec<u64>) -> usize {
        self.map().copy_all(&key, values)
    }

    fn copy_all_many(&self, keys: &[u64], values: &mut Vec<u64>, ends: &mut [usize]) {
        self.map().copy_all_many(keys, values, ends).expect(LONG_ENOUGH);
    }

    fn remove_all(&self, key: u64) -> usize {
        self.map().remove_all(&key).expect(WORKS)
    }

    fn remove_all_many(&self, keys: &[u64], removed: &mut [usize]) {
        self.map().remove_all_many(keys, removed).expect(WORKS);
    }
}

/// One operation after the other.
pub(super) struct Singly<M>(M);

impl<M: Multi> Target for Singly<M> {
    fn new() -> Self {
        Self(M::new())
    }

    fn reopen(&mut self) -> Option<f64> {
        self.0.reopen()
    }

    fn insert(&self, pairs: &[(u64, u64)]) {
        for &(key, value) in pairs {
            self.0.insert(key, value);
        }
    }

    fn copy(&self, keys: &[u64], values: &mut Vec<u64>) -> usize {
        let copy = |key: &u64| {
            values.clear();
            self.0.copy_all(*key, values)
        };
        keys.iter().map(copy).sum()
    }

    fn remove(&self, keys: &[u64]) -> usize {
        keys.iter().map(|key| self.0.remove_all(*key)).sum()
    }
}

/// Many operations at a time.
pub(super) struct Batched<M>(M);

impl<M: Multi> Target for Batched<M> {
    fn new() -> Self {
        Self(M::new())
    }

    fn reopen(&mut self) -> Option<f64> {
        self.0.reopen()
    }

    fn insert(&self, pairs: &[(u64, u64)]) {
        pairs.chunks(BATCH).for_each(|pairs| self.0.insert_many(pairs));
    }

    fn copy(&self, keys: &[u64], values: &mut Vec<u64>) -> usize {
        let mut ends = [0; BATCH];
        let copy = |keys: &[u64]| {
            values.clear();
            self.0.copy_all_many(keys, values, &mut ends);
            values.len()
        };
        keys.chunks(BATCH).map(copy).sum()
    }

    fn remove(&self, keys: &[u64]) -> usize {
        let mut removed = [0; BATCH];
        let remove = |keys: &[u64]| -> usize {
            self.0.remove_all_many(keys, &mut removed);
            removed[..keys.len()].iter().sum()
        };
        keys.chunks(BATCH).map(remove).sum()
    }
}

pub(super) type Pea = Singly<InRam>;
pub(super) type PeaBatch = Batched<InRam>;
#[cfg(target_os = "linux")]
pub(super) type PeaFile = Singly<InFile>;
#[cfg(target_os = "linux")]
pub(super) type PeaFileBatch = Batched<InFile>;

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
