//! The maps of byte strings that are compared.

use crate::targets::Hasher;
use clap::ValueEnum;
use nunatak::TurboBlobMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Name {
    /// `nunatak::TurboBlobMap`.
    Turbo,
    /// The same in batches.
    TurboBatch,
    /// `nunatak::durable::TurboBlobMap`, never synced.
    #[cfg(target_os = "linux")]
    TurboFile,
    /// `dashmap::DashMap` of boxed byte strings.
    Dashmap,
    /// `papaya::HashMap` of boxed byte strings.
    Papaya,
    /// `scc::HashMap` of boxed byte strings.
    Scc,
}

/// A map of byte strings that grows from nothing.
pub(super) trait Target: Sync {
    fn new() -> Self;

    /// Stores all; how many keys were new.
    fn put(&self, keys: &[Vec<u8>], values: &[Vec<u8>]) -> usize;

    /// How many keys have the value that is beside them, which is compared where it is.
    fn count_equal(&self, keys: &[Vec<u8>], values: &[Vec<u8>]) -> usize;

    /// Takes all out; how many there were.
    fn delete(&self, keys: &[Vec<u8>]) -> usize;
}

/// How many of them.
fn count(each: impl Iterator<Item = bool>) -> usize {
    each.map(usize::from).sum()
}

pub(super) struct Turbo(TurboBlobMap<Hasher>);

impl Target for Turbo {
    fn new() -> Self {
        Self(TurboBlobMap::with_hasher(Hasher::default()))
    }

    fn put(&self, keys: &[Vec<u8>], values: &[Vec<u8>]) -> usize {
        let put = |(key, value): (&Vec<u8>, &Vec<u8>)| !self.0.put(key, value).expect("memory");
        count(keys.iter().zip(values).map(put))
    }

    fn count_equal(&self, keys: &[Vec<u8>], values: &[Vec<u8>]) -> usize {
        let is_equal = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            self.0.get_with(key, |found| found == value).unwrap_or(false)
        };
        count(keys.iter().zip(values).map(is_equal))
    }

    fn delete(&self, keys: &[Vec<u8>]) -> usize {
        count(keys.iter().map(|key| self.0.delete(key)))
    }
}

pub(super) struct TurboBatch(TurboBlobMap<Hasher>);

impl Target for TurboBatch {
    fn new() -> Self {
        Self(TurboBlobMap::with_hasher(Hasher::default()))
    }

    fn put(&self, keys: &[Vec<u8>], values: &[Vec<u8>]) -> usize {
        let entries: Vec<(&[u8], &[u8])> =
            keys.iter().zip(values).map(|(key, value)| (&**key, &**value)).collect();
        self.0.put_many(&entries).expect("memory")
    }

    fn count_equal(&self, keys: &[Vec<u8>], values: &[Vec<u8>]) -> usize {
        let mut equal = 0;
        self.0.pin().get_many(keys, |at, value| {
            equal += usize::from(value.is_some_and(|value| value == values[at]));
        });
        equal
    }

    fn delete(&self, keys: &[Vec<u8>]) -> usize {
        self.0.delete_many(keys)
    }
}

/// In a file that goes with it.
#[cfg(target_os = "linux")]
pub(super) struct TurboFile {
    map: nunatak::durable::TurboBlobMap,
    _directory: tempfile::TempDir,
}

#[cfg(target_os = "linux")]
impl Target for TurboFile {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("room for a file");
        let map = nunatak::durable::TurboBlobMap::create(directory.path().join("map"));
        Self { map: map.expect("room for a file"), _directory: directory }
    }

    fn put(&self, keys: &[Vec<u8>], values: &[Vec<u8>]) -> usize {
        let put = |(key, value): (&Vec<u8>, &Vec<u8>)| !self.map.put(key, value).expect("room");
        count(keys.iter().zip(values).map(put))
    }

    fn count_equal(&self, keys: &[Vec<u8>], values: &[Vec<u8>]) -> usize {
        let is_equal = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            self.map.get_with(key, |found| found == value).unwrap_or(false)
        };
        count(keys.iter().zip(values).map(is_equal))
    }

    fn delete(&self, keys: &[Vec<u8>]) -> usize {
        count(keys.iter().map(|key| self.map.delete(key).expect("it is open")))
    }
}

type Bytes = Box<[u8]>;

pub(super) struct Dashmap(dashmap::DashMap<Bytes, Bytes, Hasher>);

impl Target for Dashmap {
    fn new() -> Self {
        Self(dashmap::DashMap::with_hasher(Hasher::default()))
    }

    fn put(&self, keys: &[Vec<u8>], values: &[Vec<u8>]) -> usize {
        let put = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            self.0.insert(key.as_slice().into(), value.as_slice().into()).is_none()
        };
        count(keys.iter().zip(values).map(put))
    }

    fn count_equal(&self, keys: &[Vec<u8>], values: &[Vec<u8>]) -> usize {
        let is_equal = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            self.0.get(key.as_slice()).is_some_and(|found| **found == **value)
        };
        count(keys.iter().zip(values).map(is_equal))
    }

    fn delete(&self, keys: &[Vec<u8>]) -> usize {
        count(keys.iter().map(|key| self.0.remove(key.as_slice()).is_some()))
    }
}

pub(super) struct Papaya(papaya::HashMap<Bytes, Bytes, Hasher>);

impl Target for Papaya {
    fn new() -> Self {
        Self(papaya::HashMap::with_hasher(Hasher::default()))
    }

    fn put(&self, keys: &[Vec<u8>], values: &[Vec<u8>]) -> usize {
        let put = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            self.0.pin().insert(key.as_slice().into(), value.as_slice().into()).is_none()
        };
        count(keys.iter().zip(values).map(put))
    }

    fn count_equal(&self, keys: &[Vec<u8>], values: &[Vec<u8>]) -> usize {
        let is_equal = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            self.0.pin().get(key.as_slice()).is_some_and(|found| **found == **value)
        };
        count(keys.iter().zip(values).map(is_equal))
    }

    fn delete(&self, keys: &[Vec<u8>]) -> usize {
        count(keys.iter().map(|key| self.0.pin().remove(key.as_slice()).is_some()))
    }
}

pub(super) struct Scc(scc::HashMap<Bytes, Bytes, Hasher>);

impl Target for Scc {
    fn new() -> Self {
        Self(scc::HashMap::with_hasher(Hasher::default()))
    }

    fn put(&self, keys: &[Vec<u8>], values: &[Vec<u8>]) -> usize {
        let put = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            self.0.upsert_sync(key.as_slice().into(), value.as_slice().into()).is_none()
        };
        count(keys.iter().zip(values).map(put))
    }

    fn count_equal(&self, keys: &[Vec<u8>], values: &[Vec<u8>]) -> usize {
        let is_equal = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            self.0.read_sync(key.as_slice(), |_, found| **found == **value).unwrap_or(false)
        };
        count(keys.iter().zip(values).map(is_equal))
    }

    fn delete(&self, keys: &[Vec<u8>]) -> usize {
        count(keys.iter().map(|key| self.0.remove_sync(key.as_slice()).is_some()))
    }
}
