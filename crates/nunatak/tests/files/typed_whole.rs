//! What a typed map does as a whole: its size, its syncs, its end.

use crate::temporary::Temporary;
use nunatak::durable::{Options, Persistency, Simulation, TypedMap};
use nunatak::{Error, FileError};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn small() -> Options {
    Options::new().shards(2)
}

#[test]
fn a_typed_map_is_measured_synced_and_cleared() {
    let directory = Temporary::new();
    let path = directory.path();
    let map: TypedMap<u64, String> = TypedMap::create_with(&path, &small()).unwrap();
    assert!(map.is_empty());
    let small_bytes = map.file_bytes();
    map.reserve(100_000).unwrap();
    let reserved = map.file_bytes();
    assert!(reserved > small_bytes);
    assert_eq!(reserved, fs::metadata(&path).unwrap().len());
    map.shrink_to_fit().unwrap();
    assert!(map.file_bytes() < reserved);

    map.insert(&1, "a").unwrap();
    assert!(!map.is_empty());
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    map.before_sync(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
    .unwrap();
    let before = map.last_sync();
    map.sync().unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert!(map.last_sync() > before);

    map.clear().unwrap();
    assert_eq!((map.is_empty(), map.get(&1)), (true, Ok(None)));
    map.close().unwrap();
    let map: TypedMap<u64, String> = TypedMap::open_with(&path, &small()).unwrap();
    assert!(map.recovery().was_closed && map.is_empty());
}

#[test]
fn a_value_is_updated_unless_the_closure_declines() {
    let directory = Temporary::new();
    let map: TypedMap<u64, String> = TypedMap::create_with(directory.path(), &small()).unwrap();
    map.insert(&1, "a").unwrap();
    let longer = |value: &String| (value.len() < 2).then(|| format!("{value}b"));
    assert_eq!(map.fetch_update(&1, longer), Ok(Ok("a".into())));
    assert_eq!(map.fetch_update(&1, longer), Ok(Err(Some("ab".into()))));
    assert_eq!(map.fetch_update(&2, longer), Ok(Err(None)));
    assert_eq!((map.get(&1), map.len()), (Ok(Some("ab".into())), 1));
}

#[test]
fn a_sync_that_fails_is_the_maps_failure_and_the_error_of_its_end() {
    let simulation = Simulation::new(Persistency::Pages);
    let map: TypedMap<u64, String> = simulation.create_typed(&small()).unwrap();
    map.insert(&1, "a").unwrap();
    assert_eq!(map.failure(), None);
    simulation.fail_sync_after(0);
    let error = map.sync().unwrap_err();
    assert_eq!(map.failure(), Some(error));
    assert_eq!(map.insert(&1, "b"), Err(Error::File(FileError::Poisoned)));
    assert!(map.close().is_err());
}
