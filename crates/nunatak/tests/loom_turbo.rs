//! TurboHash under a model checker: every interleaving, up to a number of preemptions, of a few
//! operations on two shards of one or two buckets of three slots, with the memory orders of the
//! code. One model for each property.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p nunatak --test loom_turbo
//! ```
//!
//! With `--cfg nunatak_seeded_bugs` as well, the steps that rest on an interleaving are left out in
//! turn, and a model must find each. (The scenarios of `shuttle_turbo` and `seeded_turbo` find the
//! others.)
#![cfg(loom)]

#[path = "models/chosen.rs"]
mod chosen;
mod models;

use chosen::Chosen;
use models::{Model, check, spawn};
use nunatak::{CheckedTurbo, InlineMap, TurboMap};
use std::sync::Arc;

type Map = TurboMap<u64, u64, Chosen>;

/// Returns the `n`th key of a shard with this bucket of four and this fingerprint.
fn key(shard: u64, bucket: u64, fingerprint: u64, n: u64) -> u64 {
    assert!(shard < 2 && bucket < 4 && n < 1 << 10);
    let hash: u64 = shard << 63 | bucket << 61 | fingerprint << 10 | n;
    hash.rotate_left(1)
}

fn map(entries: &[(u64, u64)]) -> Arc<Map> {
    with_capacity(0, entries)
}

fn with_capacity(capacity: usize, entries: &[(u64, u64)]) -> Arc<Map> {
    let builder = TurboMap::<u64, u64>::builder().hasher(Chosen).capacity(capacity);
    let map: Map = builder.build().unwrap();
    for &(key, value) in entries {
        map.insert(key, value);
    }
    Arc::new(map)
}

fn a_visible_key_stays_visible() {
    check(3, || {
        let [stays, goes, comes] = [0, 1, 2].map(|n| key(0, 0, 5, n));
        let map = map(&[(stays, 20), (goes, 40)]);
        let writer = spawn(&map, move |map| {
            assert_eq!(map.remove(&goes), Some(40));
            assert_eq!(map.insert(comes, 60), None);
        });
        assert_eq!(map.get(&stays), Some(20));
        assert!(matches!(map.get(&comes), None | Some(60)));
        writer.join().unwrap();
    });
}

/// The same in durable memory. There a change writes back under the lock, and so does a read that
/// finds the slot locked.
fn a_visible_key_stays_visible_in_durable_memory() {
    check(3, || {
        let [stays, goes, comes] = [0, 1, 2].map(|n| key(0, 0, 5, n));
        let map: InlineMap<u64, u64, Chosen, CheckedTurbo> = InlineMap::with_hasher(Chosen);
        map.insert(stays, 20);
        map.insert(goes, 40);
        let map = Arc::new(map);
        let writer = spawn(&map, move |map| {
            assert_eq!(map.remove(&goes), Some(40));
            assert_eq!(map.insert(comes, 60), None);
        });
        assert_eq!(map.get(&stays), Some(20));
        assert!(matches!(map.get(&comes), None | Some(60)));
        writer.join().unwrap();
    });
}

fn a_key_that_was_seen_is_seen_again() {
    check(3, || {
        let [goes, comes] = [0, 1].map(|n| key(0, 0, 5, n));
        let map = map(&[(key(0, 0, 6, 0), 0), (goes, 40)]);
        let writer = spawn(&map, move |map| {
            map.remove(&goes);
            map.insert(comes, 60);
        });
        let first = map.get(&comes);
        let second = map.get(&comes);
        assert!(first.is_none() || second == Some(60), "it was there before");
        writer.join().unwrap();
    });
}

fn a_value_is_its_keys() {
    check(3, || {
        let [goes, comes] = [5, 6].map(|fingerprint| key(0, 0, fingerprint, 0));
        let map = map(&[(goes, 40)]);
        let writer = spawn(&map, move |map| {
            map.remove(&goes);
            map.insert(comes, 60);
        });
        assert!(matches!(map.get(&goes), None | Some(40)));
        assert!(matches!(map.get(&comes), None | Some(60)));
        writer.join().unwrap();
        assert_eq!((map.get(&goes), map.get(&comes)), (None, Some(60)));
    });
}

fn one_of_two_inserts_wins() {
    check(3, || {
        let contested = key(0, 1, 5, 0);
        let map = map(&[]);
        let other = spawn(&map, move |map| map.insert(contested, 1));
        let mine = map.insert(contested, 2);
        let others = other.join().unwrap();
        assert!(matches!((mine, others), (None, Some(2)) | (Some(1), None)));
        assert_eq!(map.remove(&contested), Some(if mine.is_none() { 1 } else { 2 }));
        assert_eq!((map.get(&contested), map.len()), (None, 0));
    });
}

/// A key goes to the bucket behind its own, which is full.
fn a_key_behind_its_bucket_is_seen_again() {
    check(3, || {
        let entries = [0, 1, 2].map(|n| (key(0, 0, 5 + n, n), n));
        // Four buckets a shard.
        let map = with_capacity(4, &entries);
        let comes = key(0, 0, 8, 8);
        let writer = spawn(&map, move |map| assert_eq!(map.insert(comes, 60), None));
        let first = map.get(&comes);
        let second = map.get(&comes);
        assert!(first.is_none() || second == Some(60), "it was there before");
        assert_eq!(map.get(&entries[2].0), Some(2));
        writer.join().unwrap();
        assert_eq!((map.get(&comes), map.stats().distances[1]), (Some(60), 1));
    });
}

/// A shard is rehashed while one of its keys is read, and another is changed.
fn a_larger_shard_loses_nothing() {
    check(2, || {
        let entries = [0, 1, 2].map(|n| (key(0, n, 5 + n, n), n));
        let map = map(&entries);
        let comes = key(0, 3, 9, 9);
        let grower = spawn(&map, move |map| assert_eq!(map.insert(comes, 60), None));
        assert_eq!(map.update(&entries[2].0, 70), Some(2));
        assert_eq!(map.get(&entries[2].0), Some(70));
        assert_eq!(map.get(&entries[0].0), Some(0));
        grower.join().unwrap();
        assert_eq!(map.get(&entries[2].0), Some(70));
        assert_eq!((map.get(&comes), map.len()), (Some(60), 4));
    });
}

/// Another shard gets a shard's old buckets before a reader has looked at them.
fn buckets_that_are_used_again_are_not_taken_for_the_shards() {
    check(2, || {
        let entries = [0, 1, 2].map(|n| (key(0, n, 5 + n, n), n));
        let map = map(&entries);
        let grower = spawn(&map, |map| {
            map.insert(key(0, 3, 9, 9), 60);
            map.insert(key(1, 0, 5, 0), 70);
        });
        assert_eq!(map.get(&entries[1].0), Some(1));
        assert_eq!(map.get(&entries[2].0), Some(2));
        grower.join().unwrap();
    });
}

const MODELS: &[Model] = &[
    ("a key behind its bucket is seen again", a_key_behind_its_bucket_is_seen_again),
    ("a visible key stays visible", a_visible_key_stays_visible),
    (
        "a visible key stays visible in durable memory",
        a_visible_key_stays_visible_in_durable_memory,
    ),
    ("a key that was seen is seen again", a_key_that_was_seen_is_seen_again),
    ("a value is its key's", a_value_is_its_keys),
    ("one of two inserts wins", one_of_two_inserts_wins),
    ("a larger shard loses nothing", a_larger_shard_loses_nothing),
    (
        "buckets that are used again are not taken for the shard's",
        buckets_that_are_used_again_are_not_taken_for_the_shards,
    ),
];

#[test]
fn every_property_holds() {
    models::every_property_holds(MODELS);
}

#[cfg(nunatak_seeded_bugs)]
#[test]
fn every_seeded_bug_is_found() {
    use nunatak::seeded::Bug;
    models::every_seeded_bug_is_found(
        &[(
            Bug::DescriptorNotAskedAgain,
            "buckets that are used again are not taken for the shard's",
        )],
        MODELS,
    );
}
