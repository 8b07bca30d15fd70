//! The models of Pea Hash, for every medium of segments.

pub(crate) use super::chosen::Chosen;
use super::models::{Model, check, spawn};
use super::{MOST_PREEMPTIONS, map};
use nunatak::Strategy;

/// Returns the `n`th key of the first segment with this first bucket and fingerprint; `child` are
/// the bits by which a split tells keys apart.
fn key(child: u64, bucket: u64, fingerprint: u64, n: u64) -> u64 {
    assert!(child < 4 && bucket < 2 && n < 1 << 10);
    let hash: u64 = child << 61 | bucket << 18 | fingerprint << 10 | n;
    hash.rotate_left(1)
}

const SINGLE: &[Strategy] = &[Strategy::Single];
const TWO_CHOICE: &[Strategy] = &[Strategy::TwoChoice];
const STASH: &[Strategy] = &[Strategy::Stash];
const ALL: &[Strategy] = &[Strategy::Single, Strategy::TwoChoice, Strategy::Stash];

fn a_visible_key_stays_visible() {
    check(MOST_PREEMPTIONS.min(3), || {
        let [stays, goes, comes] = [0, 1, 2].map(|n| key(0, 0, 5, n));
        let map = map(SINGLE, &[(stays, 20), (goes, 40)]);
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
    check(MOST_PREEMPTIONS.min(3), || {
        let [goes, comes] = [0, 1].map(|n| key(0, 0, 5, n));
        let map = map(SINGLE, &[(key(0, 0, 6, 0), 0), (goes, 40)]);
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
    check(MOST_PREEMPTIONS.min(3), || {
        let [goes, comes] = [5, 6].map(|fingerprint| key(0, 0, fingerprint, 0));
        let map = map(SINGLE, &[(goes, 40)]);
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
    for strategies in [SINGLE, TWO_CHOICE] {
        check(MOST_PREEMPTIONS.min(2), move || {
            let contested = key(0, 1, 5, 0);
            let map = map(strategies, &[]);
            let other = spawn(&map, move |map| map.insert(contested, 1));
            let mine = map.insert(contested, 2);
            let others = other.join().unwrap();
            assert!(matches!((mine, others), (None, Some(2)) | (Some(1), None)));
            assert_eq!(map.remove(&contested), Some(if mine.is_none() { 1 } else { 2 }));
            assert_eq!((map.get(&contested), map.len()), (None, 0));
        });
    }
}

/// Each insert locks first the bucket that the other one locks second.
fn crossing_inserts_end() {
    check(MOST_PREEMPTIONS.min(2), || {
        let [low, high] = [key(0, 0, 5, 0), key(0, 1, 6, 0)];
        let map = map(TWO_CHOICE, &[(key(0, 0, 7, 1), 1)]);
        let other = spawn(&map, move |map| map.insert(high, 1));
        assert_eq!(map.insert(low, 2), None);
        assert_eq!(other.join().unwrap(), None);
        assert_eq!((map.get(&low), map.get(&high), map.len()), (Some(2), Some(1), 3));
    });
}

/// The strategy changes while a key of the same bucket is looked up.
fn a_key_of_the_second_bucket_is_seen_again() {
    check(MOST_PREEMPTIONS.min(2), || {
        let entries = [0, 1, 2].map(|n| (key(0, 0, 5 + n, n), n));
        let comes = key(0, 0, 9, 9);
        let map = map(ALL, &entries);
        let writer = spawn(&map, move |map| assert_eq!(map.insert(comes, 60), None));
        let first = map.get(&comes);
        let second = map.get(&comes);
        assert!(first.is_none() || second == Some(60), "it was there before");
        assert_eq!(map.get(&entries[2].0), Some(2));
        writer.join().unwrap();
        assert_eq!(map.get(&comes), Some(60));
    });
}

/// All buckets are full, and a removal makes room outside of the stash.
fn a_key_of_the_stash_is_not_stored_twice() {
    check(MOST_PREEMPTIONS.min(2), || {
        let map = map(STASH, &[]);
        for n in 0..6 {
            map.insert(key(0, n % 2, 5 + n, n), n);
        }
        let stashed = key(0, 0, 20, 20);
        map.insert(stashed, 1);
        let goes = key(0, 0, 5, 0);
        let other = spawn(&map, move |map| map.remove(&goes));
        assert_eq!(map.insert(stashed, 2), Some(1));
        assert_eq!(other.join().unwrap(), Some(0));
        assert_eq!(map.insert(stashed, 3), Some(2));
        assert_eq!(map.remove(&stashed), Some(3));
        assert_eq!(map.get(&stashed), None);
    });
}

/// A split moves a key that is read, and a key that is changed.
fn a_split_loses_nothing() {
    check(MOST_PREEMPTIONS.min(2), || {
        let entries = [0, 1, 2].map(|n| (key(n, 0, 5 + n, n), n));
        let map = map(SINGLE, &entries);
        let comes = key(3, 0, 9, 9);
        let splitter = spawn(&map, move |map| assert_eq!(map.insert(comes, 60), None));
        assert_eq!(map.update(&entries[2].0, 70), Some(2));
        assert_eq!(map.get(&entries[2].0), Some(70));
        assert_eq!(map.get(&entries[0].0), Some(0));
        splitter.join().unwrap();
        assert_eq!(map.get(&entries[2].0), Some(70));
        assert_eq!((map.get(&comes), map.len()), (Some(60), 4));
    });
}

fn a_key_is_not_missed_while_its_segment_is_split() {
    check(MOST_PREEMPTIONS.min(2), || {
        let entries = [0, 1, 2].map(|n| (key(n, 0, 5 + n, n), n));
        let map = map(SINGLE, &entries);
        let splitter = spawn(&map, |map| assert_eq!(map.insert(key(3, 0, 9, 9), 60), None));
        assert_eq!(map.get(&entries[1].0), Some(1));
        assert_eq!(map.get(&entries[2].0), Some(2));
        splitter.join().unwrap();
    });
}

pub(crate) const MODELS: &[Model] = &[
    ("a visible key stays visible", a_visible_key_stays_visible),
    ("a key that was seen is seen again", a_key_that_was_seen_is_seen_again),
    ("a value is its key's", a_value_is_its_keys),
    ("one of two inserts wins", one_of_two_inserts_wins),
    ("crossing inserts end", crossing_inserts_end),
    ("a key of the second bucket is seen again", a_key_of_the_second_bucket_is_seen_again),
    ("a key of the stash is not stored twice", a_key_of_the_stash_is_not_stored_twice),
    ("a split loses nothing", a_split_loses_nothing),
    (
        "a key is not missed while its segment is split",
        a_key_is_not_missed_while_its_segment_is_split,
    ),
];
