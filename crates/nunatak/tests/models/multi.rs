//! The models of duplicate keys, for every medium of segments.

use super::models::{Model, check, spawn};
use super::{Map, key, map_of};
use nunatak::Strategy;
use std::sync::Arc;

/// Returns the second bucket of a key, of four, as the map chooses it.
fn second_of_four(key: u64) -> u64 {
    let hash = key.rotate_right(1);
    let (first, second) = (hash >> 18 & 3, hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40 & 3);
    if second == first { first ^ 1 } else { second }
}

fn map(strategy: Strategy, entries: &[(u64, u64)]) -> Arc<Map> {
    map_of(2, strategy, entries)
}

fn all(map: &Map, key: u64) -> Vec<u64> {
    let mut values: Vec<u64> = map.get_all(&key).collect();
    values.sort_unstable();
    values
}

/// A reader finds the values that a key had at one moment.
fn values_are_of_one_moment() {
    check(3, || {
        let map = map(Strategy::Single, &[(key(0, 0, 0), 1)]);
        let writer = spawn(&map, |map| {
            map.insert(key(0, 0, 0), 2);
            assert!(map.remove_one(&key(0, 0, 0), &1));
        });
        let found = all(&map, key(0, 0, 0));
        assert!([vec![1], vec![1, 2], vec![2]].contains(&found), "{found:?}");
        writer.join().unwrap();
        assert_eq!(all(&map, key(0, 0, 0)), [2]);
    });
}

/// A bucket is full, so the values of a key move to a buffer.
fn compaction_hides_nothing() {
    check(3, || {
        let [many, one] = [key(0, 0, 0), key(0, 0, 1)];
        let map = map(Strategy::Single, &[(one, 7), (many, 1), (many, 2)]);
        let writer = spawn(&map, move |map| map.insert(many, 3));
        let found = all(&map, many);
        assert!([vec![1, 2], vec![1, 2, 3]].contains(&found), "{found:?}");
        assert_eq!(map.get(&one), Some(7));
        writer.join().unwrap();
        assert_eq!((all(&map, many), map.stats().pointers), (vec![1, 2, 3], 1));
    });
}

/// A buffer is full, so its values move to another.
fn a_buffer_grows_under_readers() {
    check(3, || {
        let many = key(0, 0, 0);
        let map = map(Strategy::Single, &[1, 2, 3, 4].map(|value| (many, value)));
        assert_eq!(map.stats().buffered, 4);
        let writer = spawn(&map, move |map| {
            map.insert(many, 5);
            assert!(map.remove_one(&many, &1));
        });
        let found = all(&map, many);
        let right = [vec![1, 2, 3, 4], vec![1, 2, 3, 4, 5], vec![2, 3, 4, 5]];
        assert!(right.contains(&found), "{found:?}");
        writer.join().unwrap();
    });
}

/// The last but one value is removed, and the last one moves back to a slot.
fn a_buffer_goes_under_readers() {
    check(3, || {
        let many = key(0, 0, 0);
        let map = map(Strategy::Single, &[1, 2, 3, 4].map(|value| (many, value)));
        assert!(map.remove_one(&many, &3) && map.remove_one(&many, &4));
        let writer = spawn(&map, move |map| assert!(map.remove_one(&many, &1)));
        let count = map.count(&many);
        assert!(count == 1 || count == 2, "{count}");
        assert!(map.contains_pair(&many, &2));
        writer.join().unwrap();
        assert_eq!((all(&map, many), map.stats().pointers), (vec![2], 0));
    });
}

/// The values of a key in both of its buckets are removed at once.
fn all_values_go_at_once() {
    check(3, || {
        let many = key(0, 0, 0);
        let map = map(Strategy::TwoChoice, &[(many, 1), (many, 2)]);
        let writer = spawn(&map, move |map| assert_eq!(map.remove_all(&many), 2));
        let found = map.count(&many);
        assert!(found == 0 || found == 2, "{found}");
        writer.join().unwrap();
        assert_eq!((map.count(&many), map.len()), (0, 0));
    });
}

/// To a reader it looks as if values moved from one bucket to the other.
fn both_buckets_are_of_one_moment() {
    check(3, || {
        let many = key(0, 0, 0);
        let map = map(Strategy::TwoChoice, &[(many, 1), (many, 2)]);
        let writer = spawn(&map, move |map| {
            assert!(map.remove_one(&many, &1));
            map.insert(many, 3);
            assert!(map.remove_one(&many, &2));
        });
        let found = all(&map, many);
        let right = [vec![1, 2], vec![2], vec![2, 3], vec![3]];
        assert!(right.contains(&found), "{found:?}");
        writer.join().unwrap();
        assert_eq!(all(&map, many), [3]);
    });
}

/// Another key fills a key's second bucket, and compaction moves values of both keys without a lock
/// of the key's first bucket.
fn compaction_for_another_key_hides_nothing() {
    check(3, || {
        let keys = |bucket| (0..200).map(move |n| key(0, bucket, n));
        let many = keys(0).find(|&key| second_of_four(key) == 1).unwrap();
        let other = keys(1).find(|&key| second_of_four(key) > 1).unwrap();
        let map = map_of(4, Strategy::TwoChoice, &[1, 2, 3, 4].map(|value| (many, value)));
        (5..9).for_each(|value| map.insert(other, value));
        assert_eq!(map.stats().pointers, 0);
        let writer = spawn(&map, move |map| map.insert(other, 9));
        assert_eq!(all(&map, many), [1, 2, 3, 4]);
        writer.join().unwrap();
        assert_eq!((map.stats().pointers, all(&map, other)), (1, vec![5, 6, 7, 8, 9]));
    });
}

/// A split moves pointers and values.
fn a_split_loses_no_value() {
    check(3, || {
        let [many, other, comes] = [key(0, 0, 0), key(1, 0, 1), key(1, 0, 2)];
        let entries = [(many, 1), (many, 2), (other, 7), (many, 3), (key(0, 0, 3), 8)];
        let map = map(Strategy::Single, &entries);
        let splitter = spawn(&map, move |map| map.insert(comes, 9));
        map.insert(many, 4);
        assert_eq!(all(&map, many), [1, 2, 3, 4]);
        splitter.join().unwrap();
        assert_eq!(all(&map, many), [1, 2, 3, 4]);
        assert_eq!((map.get(&other), map.get(&comes), map.len()), (Some(7), Some(9), 7));
    });
}

pub(crate) const MODELS: &[Model] = &[
    ("values are of one moment", values_are_of_one_moment),
    ("compaction hides nothing", compaction_hides_nothing),
    ("a buffer grows under readers", a_buffer_grows_under_readers),
    ("a buffer goes under readers", a_buffer_goes_under_readers),
    ("all values go at once", all_values_go_at_once),
    ("both buckets are of one moment", both_buckets_are_of_one_moment),
    ("compaction for another key hides nothing", compaction_for_another_key_hides_nothing),
    ("a split loses no value", a_split_loses_no_value),
];
