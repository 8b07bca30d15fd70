//! Files that are read while another map changes and syncs them.
#![cfg(all(target_os = "linux", not(modelled)))]

use nunatak::durable::{
    BlobDesign, BlobsInFile, FileMap, IcebergMap, InFile, InPages, MapInFile, Options,
};
use nunatak::durable::{PeaMap, PeaMultiMap, TurboMap};
use nunatak::{Error, FileError, Iceberg, Pea, Turbo};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// The keys of a round: more and more, then few again, so that files grow and shrink.
fn keys_of(round: u64) -> u64 {
    [100, 1000, 3000, 9000, 200][round as usize % 5]
}

/// Reads a file again and again while a map changes it. Between two syncs all keys get the number of
/// the round, and others go; `read` returns the pairs of a map.
fn is_read<T: MapInFile>(
    change: impl Fn(&FileMap<T>, u64, Option<u64>) + Sync,
    read: impl Fn(&FileMap<T>) -> Vec<(u64, u64)>,
) where
    FileMap<T>: Sync,
{
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let options = Options::new().segment_buckets(16).shards(16);
    let map = FileMap::<T>::create_with(&path, &options).unwrap();
    let (synced, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !is_over.load(Ordering::Relaxed) {
                round += 1;
                let keys = keys_of(round);
                (0..keys).for_each(|key| change(&map, key, Some(round)));
                (keys..keys_of(round - 1)).for_each(|key| change(&map, key, None));
                map.sync().unwrap();
                synced.store(round, Ordering::Release);
                if round.is_multiple_of(10) {
                    map.shrink_to_fit().unwrap();
                }
            }
            println!("{round} rounds");
        });
        let mut seen = Vec::new();
        for _ in 0..3000 {
            if seen.len() >= 12 {
                break;
            }
            let before = synced.load(Ordering::Acquire);
            let beside = match FileMap::<T>::open_beside(&path) {
                Ok(beside) => beside,
                Err(error) => {
                    is_over.store(true, Ordering::Relaxed);
                    panic!("{error}");
                }
            };
            let pairs = read(&beside);
            let round = pairs.first().map_or(0, |pair| pair.1);
            let is_right = round >= before
                && pairs.iter().all(|pair| pair.1 == round)
                && (round == 0 || pairs.len() as u64 == keys_of(round))
                && beside.verify() == Ok(pairs.len());
            is_over.fetch_or(!is_right, Ordering::Relaxed);
            assert!(is_right, "round {round} after {before}, {:?}", beside.verify());
            seen.push(round);
            assert!(seen.is_sorted());
            seen.dedup();
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(seen.len() >= 12, "{seen:?}");
    });
}

#[test]
fn pea_files_are_read_beside_their_writer() {
    is_read(
        |map: &PeaMap<u64, u64>, key, value| match value {
            Some(value) => drop(map.insert(key, value).unwrap().is_some()),
            None => drop(map.remove(&key).unwrap().is_some()),
        },
        |map| map.iter().collect(),
    );
}

#[test]
fn turbo_files_are_read_beside_their_writer() {
    is_read(
        |map: &TurboMap<u64, u64>, key, value| match value {
            Some(value) => drop(map.insert(key, value).unwrap().is_some()),
            None => drop(map.remove(&key).unwrap().is_some()),
        },
        |map| map.iter().collect(),
    );
}

#[test]
fn files_of_many_values_are_read_beside_their_writer() {
    is_read(
        |map: &PeaMultiMap<u64, u64>, key, value| {
            map.remove_all(&(key / 50 + key % 50 * 1000)).unwrap();
            if let Some(value) = value {
                map.insert(key / 50 + key % 50 * 1000, value).unwrap();
            }
        },
        |map| map.iter().collect(),
    );
}

fn are_byte_strings_read<D: BlobDesign>() {
    let number = |bytes: &[u8]| u64::from_le_bytes(*bytes.first_chunk().unwrap());
    is_read(
        |map: &FileMap<BlobsInFile<D>>, key, value| match value {
            Some(value) => {
                let bytes = value.to_le_bytes().repeat(1 + key as usize % 40);
                map.put(&key.to_le_bytes(), &bytes).unwrap();
            }
            None => {
                map.delete(&key.to_le_bytes()).unwrap();
            }
        },
        |map| {
            map.iter()
                .map(|(key, value)| {
                    assert_eq!(value, value[..8].repeat(1 + number(&key) as usize % 40));
                    (number(&key), number(&value))
                })
                .collect()
        },
    );
}

#[test]
fn byte_strings_are_read_beside_their_writer() {
    are_byte_strings_read::<InFile<Turbo>>();
    are_byte_strings_read::<InFile<Pea>>();
    are_byte_strings_read::<InPages<Iceberg>>();
}

#[test]
fn others_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let map: IcebergMap<u64, u64> = IcebergMap::create(&path).unwrap();
    let beside = |path: &Path| IcebergMap::<u64, u64>::open_beside(path).map(|map| map.len());
    assert_eq!(beside(&path), Err(Error::File(FileError::InUse)));
    map.insert(1, 2).unwrap();
    map.close().unwrap();
    assert_eq!(beside(&path), Ok(1));
    // Of another kind.
    let path = directory.path().join("pea");
    let _map: PeaMap<u64, u64> = PeaMap::create(&path).unwrap();
    assert!(matches!(
        TurboMap::<u64, u64>::open_beside(&path).unwrap_err(),
        Error::File(FileError::OtherKind { .. })
    ));
    assert!(matches!(
        PeaMap::<u64, u64>::open_beside(directory.path().join("none")).unwrap_err(),
        Error::File(FileError::Io { .. })
    ));
}
