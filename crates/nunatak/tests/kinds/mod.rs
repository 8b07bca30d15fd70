//! The kinds of maps in files, for tests that hold for all of them.
#![allow(dead_code, reason = "each test uses some of this")]

use nunatak::durable::{
    BlobDesign, BlobsInFile, FileMap, IcebergMap, InFile, InPages, MapInFile, Options, PeaMap,
    PeaMultiMap, TurboMap,
};
use nunatak::{Error, Iceberg, Pea, Turbo};
use std::path::Path;

/// A kind of map, whose keys are numbers.
pub(crate) struct Kind<T: MapInFile> {
    pub(crate) name: &'static str,
    /// Adds a key that is absent.
    pub(crate) put: fn(&FileMap<T>, u64) -> Result<(), Error>,
    /// Whether the key is there, with the value that `put` gives it.
    pub(crate) has: fn(&FileMap<T>, u64) -> bool,
    pub(crate) remove: fn(&FileMap<T>, u64) -> Result<bool, Error>,
}

impl<T: MapInFile> Kind<T> {
    /// Creates a small map with these keys.
    pub(crate) fn create(&self, path: &Path, keys: u64) -> FileMap<T> {
        let map = FileMap::<T>::create_with(path, &small()).unwrap();
        (0..keys).for_each(|key| (self.put)(&map, key).unwrap());
        map
    }

    pub(crate) fn open(&self, path: &Path) -> Result<FileMap<T>, Error> {
        FileMap::open(path)
    }

    /// Whether the map holds exactly the first so many keys.
    pub(crate) fn is_whole(&self, map: &FileMap<T>, keys: u64) -> bool {
        map.len() as u64 == keys && (0..keys).all(|key| (self.has)(map, key))
    }
}

pub(crate) fn small() -> Options {
    Options::new().segment_buckets(8).shards(2)
}

/// A test of one kind.
pub(crate) trait Test {
    fn run<T: MapInFile>(&self, kind: &Kind<T>);
}

/// Runs a test for every kind.
pub(crate) fn for_each_kind(test: &impl Test) {
    test.run(&Kind {
        name: "iceberg",
        put: |map: &IcebergMap<u64, u64>, key| map.insert(key, !key).map(drop),
        has: |map, key| map.get(&key) == Some(!key),
        remove: |map, key| Ok(map.remove(&key)?.is_some()),
    });
    test.run(&Kind {
        name: "pea",
        put: |map: &PeaMap<u64, u64>, key| map.insert(key, !key).map(drop),
        has: |map, key| map.get(&key) == Some(!key),
        remove: |map, key| Ok(map.remove(&key)?.is_some()),
    });
    // Keys with one value to forty.
    test.run(&Kind {
        name: "pea-multi",
        put: |map: &PeaMultiMap<u64, u64>, n| map.insert(n % 97 % 40, n),
        has: |map, n| map.get_all(&(n % 97 % 40)).any(|value| value == n),
        remove: |map, n| map.remove_one(&(n % 97 % 40), &n),
    });
    test.run(&Kind {
        name: "turbo",
        put: |map: &TurboMap<u64, u64>, key| map.insert(key, !key).map(drop),
        has: |map, key| map.get(&key) == Some(!key),
        remove: |map, key| Ok(map.remove(&key)?.is_some()),
    });
    test.run(&of_blobs::<InFile<Turbo>>("turbo-blobs"));
    test.run(&of_blobs::<InFile<Pea>>("pea-blobs"));
    test.run(&of_blobs::<InPages<Iceberg>>("iceberg-blobs"));
}

fn of_blobs<D: BlobDesign>(name: &'static str) -> Kind<BlobsInFile<D>> {
    Kind {
        name,
        put: |map, n| map.put(&n.to_le_bytes(), &bytes(n)).map(drop),
        has: |map, n| map.get(&n.to_le_bytes()).is_some_and(|found| found == bytes(n)),
        remove: |map, n| map.delete(&n.to_le_bytes()),
    }
}

fn bytes(n: u64) -> Vec<u8> {
    let length = if n == 7 { 70_000 } else { n % 300 };
    (0..length).map(|at| (n + at) as u8).collect()
}
