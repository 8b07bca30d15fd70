//! Properties of IcebergHT in RAM and in durable media: one model for each.

#[path = "chosen.rs"]
mod chosen;

use crate::Map;
use crate::models::{self, Model, spawn};
pub(crate) use chosen::Chosen;
use std::sync::Arc;

/// Runs the other `check` with at most as many preemptions as there is time for.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    models::check(preemptions.min(crate::MOST_PREEMPTIONS), model);
}

/// Likewise for models of ten thousands of executions.
fn check_at_length(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    models::check_at_length(preemptions.min(crate::MOST_PREEMPTIONS), model);
}

/// Returns the hash of a key.
fn hash(key: u64) -> u64 {
    key.rotate_right(1)
}

/// Returns the `n`th key of this row and fingerprint, in the lower half of the columns.
fn key(row: u64, fingerprint: u64, n: u64) -> u64 {
    let hash: u64 = row << 10 | fingerprint << 46 | n;
    assert!(n < 1 << 10 && hash >> 62 == 0);
    hash.rotate_left(1)
}

/// Returns the rows of the two back yard blocks that a key may be in, as the map chooses them.
fn back_rows(key: u64, rows: u64) -> [u64; 2] {
    [0x243F_6A88_85A3_08D3_u64, 0x1319_8A2E_0370_7345].map(|factor| {
        let product = u128::from(hash(key)) * u128::from(factor);
        (product as u64 ^ (product >> 64) as u64) >> 10 & (rows - 1)
    })
}

/// Returns the first key of a row whose back yard rows are these, before and after the next
/// doubling.
fn key_behind(row: u64, fingerprint: u64, before: (u64, [u64; 2]), after: [u64; 2]) -> u64 {
    let is_one =
        |key: &u64| back_rows(*key, before.0) == before.1 && back_rows(*key, 2 * before.0) == after;
    (0..1 << 10).map(|n| key(row, fingerprint, n)).find(is_one).expect("one of a thousand")
}

fn map(entries: &[(u64, u64)]) -> Arc<Map> {
    let map: Map = crate::small(Chosen);
    for &(key, value) in entries {
        map.insert(key, value);
    }
    Arc::new(map)
}

/// Fills so many slots of a row's front block with keys that stay there.
fn fill(map: &Map, row: u64, slots: u64) {
    for n in 0..slots {
        map.insert(key(row, 1 + n, 0), n);
    }
}

/// Makes a map in which a row's front block is full.
fn full(row: u64, entries: &[(u64, u64)]) -> Arc<Map> {
    let map = map(&[]);
    if row > 0 {
        double(&map);
    }
    fill(&map, row, 8);
    for &(key, value) in entries {
        map.insert(key, value);
    }
    map
}

/// Doubles the rows and settles all blocks.
fn double(map: &Map) {
    let rows = map.stats().blocks / 2;
    let slots = rows * 2 * 10;
    map.reserve(slots + 1 - map.len()).unwrap();
    assert_eq!(map.stats().blocks, 4 * rows);
}

fn a_visible_key_stays_visible() {
    check(3, || {
        // All keys have one fingerprint.
        let [stays, goes, comes] = [0, 1, 2].map(|n| key(0, 5, n));
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

fn a_key_that_was_seen_is_seen_again() {
    check(3, || {
        let [goes, comes] = [0, 1].map(|n| key(0, 5, n));
        // Not in the slot that is looked at first, even with the right fingerprint.
        let map = map(&[(key(0, 6, 0), 0), (goes, 40)]);
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

fn a_key_that_was_missed_is_not_in_its_slot() {
    check(3, || {
        let goes = key(0, 5, 0);
        let map = map(&[(key(0, 6, 0), 0), (goes, 40)]);
        let slot = map.slot(&goes).unwrap();
        let writer = spawn(&map, move |map| map.remove(&goes));
        let first = map.get(&goes);
        let second = map.get_at(&slot);
        assert!(first.is_some() || second.is_none(), "it was gone before");
        writer.join().unwrap();
    });
}

fn a_pair_is_never_torn() {
    check(3, || {
        let [goes, comes] = [0, 1].map(|n| key(0, 5, n));
        let map = map(&[(goes, 20)]);
        // The slot goes to another key, and the reader has loaded its words one by one.
        let writer = spawn(&map, move |map| {
            map.remove(&goes);
            map.insert(comes, 40);
        });
        assert!(matches!(map.get(&goes), None | Some(20)));
        assert!(matches!(map.get(&comes), None | Some(40)));
        writer.join().unwrap();
    });
}

fn a_key_is_inserted_once() {
    check(3, || {
        // Into the last slot, whose fingerprint lends a bit to the lock.
        let new = key(0, 9, 0);
        let map = map(&[]);
        fill(&map, 0, 7);
        let other = spawn(&map, move |map| map.try_insert(new, 1).is_ok());
        let mine = map.try_insert(new, 2).is_ok();
        let theirs = other.join().unwrap();
        assert!(mine != theirs, "one of two inserts of a key wins");
        assert_eq!(map.remove(&new), Some(if mine { 2 } else { 1 }));
        assert_eq!(map.remove(&new), None, "the key was there twice");
    });
}

fn a_key_is_inserted_once_behind_a_full_block() {
    check(3, || {
        let new = key(0, 20, 0);
        let map = full(0, &[]);
        let other = spawn(&map, move |map| map.try_insert(new, 1).is_ok());
        let mine = map.try_insert(new, 2).is_ok();
        assert!(mine != other.join().unwrap(), "one of two inserts of a key wins");
        assert_eq!(map.remove(&new), Some(if mine { 2 } else { 1 }));
        assert_eq!(map.remove(&new), None, "the key was there twice");
    });
}

fn all_levels_lose_nothing() {
    check(2, || {
        // The back yard has one free slot, so one of two keys goes to level 3.
        let map = full(0, &[(key(0, 20, 0), 0)]);
        let [mine, theirs] = [1, 2].map(|n| key(0, 20, n));
        let other = spawn(&map, move |map| {
            map.insert(theirs, 5);
            map.remove(&theirs)
        });
        assert_eq!(map.insert(mine, 7), None);
        assert_eq!(map.update(&mine, 8), Some(7));
        assert_eq!(other.join().unwrap(), Some(5));
        assert_eq!((map.get(&mine), map.get(&theirs), map.len()), (Some(8), None, 10));
    });
}

fn a_removal_returns_the_last_put() {
    check(3, || {
        let it = key(0, 5, 0);
        let map = map(&[(it, 1)]);
        let other = spawn(&map, move |map| map.remove(&it));
        let replaced = map.update(&it, 7);
        let removed = other.join().unwrap();
        assert_eq!(removed, Some(if replaced.is_some() { 7 } else { 1 }));
        assert_eq!((map.get(&it), map.len()), (None, 0));
    });
}

fn a_key_is_visible_throughout_a_doubling() {
    check(3, || {
        let moves = key(1, 5, 0);
        let map = map(&[(moves, 20)]);
        let grower = spawn(&map, double);
        assert_eq!(map.get(&moves), Some(20));
        grower.join().unwrap();
        assert_eq!(map.get(&moves), Some(20));
    });
}

fn a_key_behind_is_visible_throughout_a_doubling() {
    check(3, || {
        let moves = key_behind(0, 20, (1, [0, 0]), [1, 1]);
        let map = full(0, &[(moves, 20)]);
        assert_eq!(map.slot(&moves).unwrap().level(), 2);
        let grower = spawn(&map, double);
        assert_eq!(map.get(&moves), Some(20));
        grower.join().unwrap();
        assert_eq!(map.get(&moves), Some(20));
    });
}

fn no_put_is_lost_in_a_doubling() {
    check(2, || {
        let moves = key(1, 5, 0);
        let map = map(&[(moves, 20)]);
        let grower = spawn(&map, double);
        assert_eq!(map.update(&moves, 7), Some(20));
        grower.join().unwrap();
        assert_eq!(map.get(&moves), Some(7));
    });
}

fn no_insert_is_lost_in_a_doubling() {
    check(2, || {
        let new = key(1, 5, 0);
        let map = map(&[]);
        let grower = spawn(&map, double);
        assert_eq!(map.insert(new, 20), None);
        grower.join().unwrap();
        assert_eq!((map.get(&new), map.len()), (Some(20), 1));
    });
}

fn no_removal_is_lost_in_a_doubling() {
    check(2, || {
        // A key of the other half, which helpers do not settle first.
        let moves = key(1, 5, 0) | 1;
        let map = map(&[(moves, 20)]);
        let grower = spawn(&map, double);
        assert_eq!(map.remove(&moves), Some(20));
        grower.join().unwrap();
        assert_eq!((map.get(&moves), map.len()), (None, 0));
    });
}

/// A key whose front block is settled long after its blocks of the back yard.
fn no_put_behind_is_lost_in_a_doubling() {
    check_at_length(2, || {
        let moves = key_behind(1, 20, (2, [0, 0]), [2, 2]);
        let map = full(1, &[(moves, 20)]);
        assert_eq!(map.slot(&moves).unwrap().level(), 2);
        let grower = spawn(&map, double);
        assert_eq!(map.update(&moves, 7), Some(20));
        grower.join().unwrap();
        assert_eq!(map.get(&moves), Some(7));
    });
}

fn no_insert_behind_is_lost_in_a_doubling() {
    check_at_length(2, || {
        let new = key_behind(1, 20, (2, [0, 0]), [2, 2]);
        let map = full(1, &[]);
        let grower = spawn(&map, double);
        assert_eq!(map.insert(new, 20), None);
        grower.join().unwrap();
        assert_eq!((map.get(&new), map.len()), (Some(20), 9));
    });
}

/// A key of level 3 is found by marks that a doubling hands on.
fn no_chained_key_is_lost_in_a_doubling() {
    check(1, || {
        let moves = |n| key(0, 20, n);
        let map = full(0, &[(moves(0), 0), (moves(1), 1), (moves(2), 2)]);
        assert_eq!(map.slot(&moves(2)).unwrap().level(), 3);
        let grower = spawn(&map, double);
        assert_eq!(map.get(&moves(2)), Some(2));
        assert_eq!(map.update(&moves(2), 7), Some(2));
        grower.join().unwrap();
        assert_eq!(map.get(&moves(2)), Some(7));
    });
}

fn nothing_is_lost_in_a_halving() {
    check(2, || {
        let moves = key(1, 5, 0);
        let map = map(&[(moves, 20)]);
        double(&map);
        let shrinker = spawn(&map, |map| map.shrink_to_fit().unwrap());
        assert_eq!(map.update(&moves, 7), Some(20));
        assert_eq!(map.get(&moves), Some(7));
        shrinker.join().unwrap();
        assert_eq!((map.get(&moves), map.stats().blocks), (Some(7), 2));
    });
}

/// A thread that comes late to a block that was given up does not damage the block's next use.
fn a_block_that_is_given_up_can_be_taken_again() {
    check_at_length(2, || {
        let [mine, theirs] = [5, 6].map(|fingerprint| key(1, fingerprint, 0));
        let map = map(&[(mine, 20)]);
        double(&map);
        let resizer = spawn(&map, move |map| {
            map.shrink_to_fit().unwrap();
            double(map);
            map.insert(theirs, 1);
        });
        assert_eq!(map.update(&mine, 7), Some(20));
        resizer.join().unwrap();
        assert_eq!((map.get(&mine), map.get(&theirs)), (Some(7), Some(1)));
    });
}

fn a_snapshot_is_a_cut() {
    check(2, || {
        let [a, b] = [0, 1].map(|half| key(0, 5, 0) | half);
        let map = map(&[(a, 0), (b, 0)]);
        let writer = spawn(&map, move |map| {
            map.update(&a, 1);
            map.update(&b, 1);
        });
        let cut: std::collections::BTreeMap<_, _> = map.snapshot().unwrap().collect();
        assert!((cut[&a], cut[&b]) != (0, 1), "the later put without the earlier one");
        assert_eq!(cut.len(), 2);
        writer.join().unwrap();
        assert_eq!((map.get(&a), map.get(&b)), (Some(1), Some(1)));
    });
}

pub(crate) const MODELS: &[Model] = &[
    ("a visible key stays visible", a_visible_key_stays_visible),
    ("a key that was seen is seen again", a_key_that_was_seen_is_seen_again),
    ("a key that was missed is not in its slot", a_key_that_was_missed_is_not_in_its_slot),
    ("a pair is never torn", a_pair_is_never_torn),
    ("a key is inserted once", a_key_is_inserted_once),
    ("a key is inserted once behind a full block", a_key_is_inserted_once_behind_a_full_block),
    ("all levels lose nothing", all_levels_lose_nothing),
    ("a removal returns the last put", a_removal_returns_the_last_put),
    ("a key is visible throughout a doubling", a_key_is_visible_throughout_a_doubling),
    (
        "a key behind is visible throughout a doubling",
        a_key_behind_is_visible_throughout_a_doubling,
    ),
    ("no put is lost in a doubling", no_put_is_lost_in_a_doubling),
    ("no insert is lost in a doubling", no_insert_is_lost_in_a_doubling),
    ("no removal is lost in a doubling", no_removal_is_lost_in_a_doubling),
    ("no chained key is lost in a doubling", no_chained_key_is_lost_in_a_doubling),
    ("nothing is lost in a halving", nothing_is_lost_in_a_halving),
    ("a snapshot is a cut", a_snapshot_is_a_cut),
    // The slowest models are last.
    ("no put behind is lost in a doubling", no_put_behind_is_lost_in_a_doubling),
    ("no insert behind is lost in a doubling", no_insert_behind_is_lost_in_a_doubling),
    ("a block that is given up can be taken again", a_block_that_is_given_up_can_be_taken_again),
];
