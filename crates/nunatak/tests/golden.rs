//! Files that an earlier build has written can be read and changed. With `NUNATAK_WRITE=1` writes
//! the files of the present version of the format, if there are none.
#![cfg(all(target_os = "linux", not(modelled)))]

mod kinds;

use kinds::{Kind, Test, for_each_kind};
use nunatak::durable::{FileMap, IcebergMap, MapInFile, Options};
use nunatak::{Error, FileError};
use std::fs;
use std::path::{Path, PathBuf};

const KEYS: u64 = 500;

fn golden(name: &str, version: u32) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden.join(format!("{name}-{version}.map"))
}

/// The versions that can be read, and the one that is written.
const VERSIONS: [u32; 2] = [2, PRESENT];
const PRESENT: u32 = 3;

struct Reading(u32);

/// The first version that a kind of map was written in.
fn first_version(kind: &str) -> u32 {
    if kind == "iceberg-blobs" { 3 } else { 2 }
}

impl Test for Reading {
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        if self.0 < first_version(kind.name) {
            return;
        }
        let golden = golden(kind.name, self.0);
        let is_present = self.0 == PRESENT;
        if std::env::var_os("NUNATAK_WRITE").is_some() && is_present && !golden.exists() {
            kind.create(&golden, KEYS).close().unwrap();
        }
        let map = FileMap::<T>::open_with(&golden, &Options::new().read_only(true)).unwrap();
        assert!(kind.is_whole(&map, KEYS), "{}", kind.name);
        assert_eq!(map.verify(), Ok(KEYS as usize), "{}", kind.name);
        assert_eq!((kind.remove)(&map, 1), Err(Error::File(FileError::ReadOnly)));
        let has_checksums = is_present && kind.name != "iceberg";
        assert_eq!(map.page_checksums().is_some(), has_checksums, "{}", kind.name);
        // A copy can be changed, too.
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        fs::copy(&golden, &path).unwrap();
        let map = kind.open(&path).unwrap();
        assert!(map.recovery().was_closed);
        (KEYS..5 * KEYS).for_each(|key| (kind.put)(&map, key).unwrap());
        assert!(kind.is_whole(&map, 5 * KEYS), "{}", kind.name);
        assert_eq!((kind.remove)(&map, 1), Ok(true));
        assert_eq!(map.verify(), Ok(5 * KEYS as usize - 1), "{}", kind.name);
    }
}

#[test]
fn files_of_earlier_versions_are_read() {
    VERSIONS.iter().for_each(|&version| for_each_kind(&Reading(version)));
}

/// Version 1 was never published.
#[test]
fn a_file_of_version_1_is_refused() {
    let opened = IcebergMap::<u64, u64>::open(golden("iceberg", 1));
    let older = FileError::OlderVersion { found: 1, known: 2 };
    assert_eq!(opened.map(drop), Err(Error::File(older)));
}
