//! Files that are filled, emptied and compacted, closed and opened again, many times: what a
//! session leaves in a page, another session must not take for its own.
#![cfg(target_os = "linux")]

use nunatak::durable::{
    IcebergBlobMap, InFile, Map, Options, PeaBlobMap, PeaMap, PeaMultiMap, TurboBlobMap, TurboMap,
};
use nunatak::{Blocks, Iceberg};
use nunatak_harness::Random;
use nunatak_harness::crashable::Crashable;
use nunatak_harness::crashes::{MultiAction, MultiContents};
use nunatak_harness::effort::scaled;
use std::collections::BTreeMap;
use std::path::Path;

/// Runs sessions of a map: each has a number of keys of its own, and may end compact.
fn live<M, C: Default>(
    name: &str,
    open: impl Fn(&Path) -> M,
    mut change: impl FnMut(&M, &mut C, &mut Random, u64),
    shrink: impl Fn(&M),
    check: impl Fn(&M, &C),
) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("map");
    let mut random = Random::new(7);
    let mut contents = C::default();
    for session in 0..scaled(60) {
        let map = open(&path);
        check(&map, &contents);
        let keys = [40, 400, 2000, 6000][random.below(4) as usize];
        for _ in 0..random.below(12_000) {
            change(&map, &mut contents, &mut random, keys);
        }
        if random.once_in(2) {
            shrink(&map);
        }
        // In half of the sessions the map goes on after it was checked.
        if random.once_in(2) {
            check(&map, &contents);
            (0..2000).for_each(|_| change(&map, &mut contents, &mut random, keys));
        }
        println!("{name}, session {session}: {keys} keys");
    }
    check(&open(&path), &contents);
}

/// Draws a key and whether it is removed. Keys from `keys` on are only removed.
fn draw(random: &mut Random, keys: u64) -> (u64, bool) {
    let key = random.below(6000);
    (key, key >= keys || random.once_in(5))
}

fn lives_on<M: Crashable>(name: &str) {
    let options = Options::new().segment_buckets(16).shards(16);
    live(
        name,
        |path| M::open_or_create_file(path, &options).expect("the map"),
        |map: &M, contents: &mut BTreeMap<u64, u64>, random, keys| {
            let (key, is_removed) = draw(random, keys);
            let value = random.below(1 << 40);
            let (found, expected) = match is_removed {
                true => (map.take(key), contents.remove(&key)),
                false => (map.put(key, value), contents.insert(key, value)),
            };
            assert_eq!(found.expect("a change"), expected, "{name}");
        },
        |map| map.shrink().expect("a smaller map"),
        |map, contents| {
            assert!(map.contents() == *contents, "{name}");
            assert_eq!(map.check(), Ok(contents.len()), "{name}");
        },
    );
}

#[test]
fn what_a_session_leaves_is_not_taken_for_pairs() {
    lives_on::<Map<u64, u64, InFile<Iceberg<Blocks<32, 4>>>>>("iceberg");
    lives_on::<PeaMap<u64, u64>>("pea");
    lives_on::<TurboMap<u64, u64>>("turbo");
    lives_on::<TurboBlobMap>("turbo-blobs");
    lives_on::<PeaBlobMap>("pea-blobs");
    lives_on::<IcebergBlobMap>("iceberg-blobs");
}

#[test]
fn nor_for_one_of_many_values() {
    let options = Options::new().segment_buckets(16);
    live(
        "pea-multi",
        |path| PeaMultiMap::<u64, u64>::open_or_create_with(path, &options).expect("the map"),
        |map, contents: &mut MultiContents, random, keys| {
            let (key, is_removed) = draw(random, keys);
            let action = match is_removed {
                true => MultiAction::RemoveAll(key),
                false => MultiAction::Insert(key, random.below(1 << 40)),
            };
            action.run(map);
            action.apply(contents);
        },
        |map| map.shrink_to_fit().expect("a smaller map"),
        |map, contents| {
            let mut found = MultiContents::new();
            map.iter().for_each(|(key, value)| found.entry(key).or_default().push(value));
            found.values_mut().for_each(|values| values.sort_unstable());
            assert!(found == *contents);
            assert_eq!(map.verify(), Ok(map.len()));
        },
    );
}
