//! DLHT under a model checker: every interleaving, up to a number of preemptions, of a few
//! operations on a table of two bins, with the memory orders of the code. One model for each
//! property.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p nunatak --test loom_dlht
//! ```
//!
//! With `--cfg nunatak_seeded_bugs` as well, each step that the protocol rests on is left out in
//! turn, and a model must find it.
#![cfg(loom)]

#[path = "models/chosen.rs"]
mod chosen;
mod models;

use chosen::Chosen;
use models::{Model, check, check_at_length, spawn};
use nunatak::{DlhtMap, Modulo};
use std::hash::BuildHasher;
use std::sync::Arc;

type Map = DlhtMap<u64, u64, Modulo>;

/// Two bins; even keys share one.
fn map(entries: &[(u64, u64)]) -> Arc<Map> {
    let builder = DlhtMap::<u64, u64>::builder().hasher(Modulo).initial_bins(2);
    let map: Map = builder.growth_factor(2).transfer_chunk(1).build().unwrap();
    for &(key, value) in entries {
        map.insert(key, value);
    }
    Arc::new(map)
}

fn a_visible_key_stays_visible() {
    check(3, || {
        let map = map(&[(2, 20), (4, 40)]);
        let writer = spawn(&map, |map| {
            assert_eq!(map.remove(&4), Some(40));
            assert_eq!(map.insert(6, 60), None);
        });
        assert_eq!(map.get(&2), Some(20));
        assert!(matches!(map.get(&6), None | Some(60)));
        writer.join().unwrap();
    });
}

fn a_pair_is_never_torn() {
    check(3, || {
        let map = map(&[(2, 20)]);
        // The slot goes to another key, and the reader has loaded its words one by one.
        let writer = spawn(&map, |map| {
            map.remove(&2);
            map.insert(4, 40);
        });
        assert!(matches!(map.get(&2), None | Some(20)));
        assert!(matches!(map.get(&4), None | Some(40)));
        writer.join().unwrap();
    });
}

fn an_inserted_value_is_whole() {
    check(3, || {
        let map = map(&[]);
        let writer = spawn(&map, |map| map.insert(2, 20));
        assert!(matches!(map.get(&2), None | Some(20)));
        writer.join().unwrap();
    });
}

fn a_key_is_inserted_once() {
    check(2, || {
        let map = map(&[]);
        let other = spawn(&map, |map| map.try_insert(2, 1).is_ok());
        let mine = map.try_insert(2, 2).is_ok();
        let theirs = other.join().unwrap();
        assert!(mine != theirs, "one of two inserts of a key wins");
        assert_eq!(map.remove(&2), Some(if mine { 2 } else { 1 }));
        assert_eq!(map.remove(&2), None, "the key was there twice");
    });
}

fn both_keys_of_a_bin_are_inserted() {
    check(2, || {
        let map = map(&[]);
        let other = spawn(&map, |map| map.insert(4, 40));
        map.insert(2, 20);
        other.join().unwrap();
        assert_eq!((map.get(&2), map.get(&4), map.len()), (Some(20), Some(40), 2));
    });
}

fn a_put_meets_one_incarnation() {
    check(3, || {
        let map = map(&[(2, 1)]);
        // The same pair is in the same slot again: a put that read it before must neither be lost
        // nor be seen before it.
        let other = spawn(&map, |map| {
            let removed = map.remove(&2);
            map.insert(2, 1);
            removed
        });
        let replaced = map.update(&2, 7);
        let seen = map.get(&2);
        let removed = other.join().unwrap();
        let last = map.get(&2);
        match (replaced, removed) {
            (Some(1), Some(7)) => assert_eq!(last, Some(1), "before the removal"),
            (Some(1), Some(1)) => assert_eq!((seen, last), (Some(7), Some(7)), "after it"),
            (None, Some(1)) => assert_eq!(last, Some(1), "between"),
            other => panic!("impossible: {other:?}"),
        }
    });
}

fn a_removal_returns_the_last_put() {
    check(3, || {
        let map = map(&[(2, 1)]);
        let other = spawn(&map, |map| map.remove(&2));
        let replaced = map.update(&2, 7);
        let removed = other.join().unwrap();
        assert_eq!(removed, Some(if replaced.is_some() { 7 } else { 1 }));
        assert_eq!((map.get(&2), map.len()), (None, 0));
    });
}

fn a_removed_slot_is_used_again() {
    check(2, || {
        let map = map(&[(2, 1)]);
        let other = spawn(&map, |map| map.remove(&2));
        map.insert(4, 4);
        other.join().unwrap();
        // Fifteen keys fit a bin only if every slot is used.
        let stats = map.stats();
        assert_eq!(stats.bins_by_entries[1], 1, "{stats:?}");
    });
}

fn a_key_is_visible_throughout_a_transfer() {
    check(2, || {
        let map = map(&[(2, 20)]);
        let grower = spawn(&map, |map| map.reserve(4).unwrap());
        assert_eq!(map.get(&2), Some(20));
        grower.join().unwrap();
        assert_eq!(map.get(&2), Some(20));
    });
}

fn no_put_is_lost_in_a_transfer() {
    check(2, || {
        let map = map(&[(2, 20)]);
        let grower = spawn(&map, |map| map.reserve(4).unwrap());
        assert_eq!(map.update(&2, 7), Some(20));
        grower.join().unwrap();
        assert_eq!(map.get(&2), Some(7));
    });
}

fn no_insert_is_lost_in_a_transfer() {
    check(2, || {
        let map = map(&[]);
        let grower = spawn(&map, |map| map.reserve(4).unwrap());
        assert_eq!(map.insert(2, 20), None);
        grower.join().unwrap();
        assert_eq!((map.get(&2), map.len()), (Some(20), 1));
    });
}

fn no_removal_is_lost_in_a_transfer() {
    check(2, || {
        let map = map(&[(2, 20)]);
        let grower = spawn(&map, |map| map.reserve(4).unwrap());
        assert_eq!(map.remove(&2), Some(20));
        grower.join().unwrap();
        assert_eq!((map.get(&2), map.len()), (None, 0));
    });
}

fn a_claimed_slot_has_its_link() {
    check(3, || {
        let builder = DlhtMap::<u64, u64>::builder().hasher(Modulo).initial_bins(2).link_ratio(4);
        let map: Map = builder.build().unwrap();
        // They fill the bin's own slots: the next key is behind a link.
        [2, 4, 6].map(|key| map.insert(key, key));
        let map = Arc::new(map);
        let writer = spawn(&map, |map| map.insert(8, 80));
        assert!(matches!(map.get(&8), None | Some(80)));
        writer.join().unwrap();
        assert!(map.get(&8) == Some(80) && map.stats().link_buckets_taken > 0.0);
    });
}

/// Even keys share a bin, which has a link: behind it are an empty slot and the slot of this key.
fn linked_map(key: u64, value: u64) -> Arc<Map> {
    let builder = DlhtMap::<u64, u64>::builder().hasher(Modulo).initial_bins(2).link_ratio(4);
    let map: Map = builder.build().unwrap();
    for (filler, value) in [(2, 2), (4, 4), (6, 6), (100, 100), (key, value)] {
        map.insert(filler, value);
    }
    map.remove(&100);
    Arc::new(map)
}

fn a_key_behind_a_link_is_inserted_once() {
    check(2, || {
        let map = linked_map(8, 8);
        map.remove(&8);
        let other = spawn(&map, |map| map.try_insert(10, 1).is_ok());
        let mine = map.try_insert(10, 2).is_ok();
        let theirs = other.join().unwrap();
        assert!(mine != theirs, "one of two inserts of a key wins");
        assert_eq!(map.remove(&10), Some(if mine { 2 } else { 1 }));
        assert_eq!((map.remove(&10), map.len()), (None, 3));
    });
}

fn a_removal_behind_a_link_returns_the_last_put() {
    check(2, || {
        let map = linked_map(8, 1);
        let other = spawn(&map, |map| map.remove(&8));
        let replaced = map.update(&8, 7);
        assert_eq!(map.insert(10, 10), None);
        let removed = other.join().unwrap();
        assert_eq!(removed, Some(if replaced.is_some() { 7 } else { 1 }));
        assert_eq!((map.get(&8), map.get(&10), map.len()), (None, Some(10), 4));
    });
}

fn a_snapshot_is_a_cut() {
    check_at_length(2, || {
        let map = map(&[(2, 0), (3, 0)]);
        let writer = spawn(&map, |map| {
            map.update(&2, 1);
            map.update(&3, 1);
        });
        let mut cut: Vec<_> = map.snapshot().unwrap().collect();
        cut.sort_unstable();
        assert!(cut != [(2, 0), (3, 1)], "the later put without the earlier one");
        assert_eq!(cut.len(), 2);
        writer.join().unwrap();
        assert_eq!((map.get(&2), map.get(&3)), (Some(1), Some(1)));
    });
}

fn a_change_during_a_snapshot_is_seen() {
    check(2, || {
        let map = map(&[(2, 0)]);
        let writer = spawn(&map, |map| {
            map.update(&2, 1);
            assert_eq!(map.get(&2), Some(1));
        });
        drop(map.snapshot().unwrap());
        writer.join().unwrap();
    });
}

/// A hasher that a map calls while it holds nothing: one with fields.
#[derive(Clone, Copy, Default)]
struct Asked {
    chosen: Chosen,
    _field: u8,
}

impl BuildHasher for Asked {
    type Hasher = <Chosen as BuildHasher>::Hasher;
    fn build_hasher(&self) -> Self::Hasher {
        self.chosen.build_hasher()
    }
}

/// The hasher is the caller's, so a transfer asks for hashes first. A key arrives in a bin after
/// that and before the bin is taken.
fn a_key_that_comes_after_hashes_were_asked_for_is_moved() {
    check(2, || {
        let builder = DlhtMap::<u64, u64>::builder().hasher(Asked::default()).initial_bins(2);
        let builder = builder.growth_factor(2).transfer_chunk(1);
        let map: DlhtMap<u64, u64, Asked> = builder.build().unwrap();
        let map = Arc::new(map);
        map.insert(2, 20);
        let other = spawn(&map, |map| assert_eq!(map.insert(4, 40), None));
        map.reserve(2).unwrap();
        assert_eq!(map.get(&2), Some(20));
        other.join().unwrap();
        assert_eq!((map.get(&2), map.get(&4), map.len()), (Some(20), Some(40), 2));
    });
}

const MODELS: &[Model] = &[
    (
        "a key that comes after hashes were asked for is moved",
        a_key_that_comes_after_hashes_were_asked_for_is_moved,
    ),
    ("a visible key stays visible", a_visible_key_stays_visible),
    ("a pair is never torn", a_pair_is_never_torn),
    ("an inserted value is whole", an_inserted_value_is_whole),
    ("a key is inserted once", a_key_is_inserted_once),
    ("both keys of a bin are inserted", both_keys_of_a_bin_are_inserted),
    ("a put meets one incarnation", a_put_meets_one_incarnation),
    ("a removal returns the last put", a_removal_returns_the_last_put),
    ("a removed slot is used again", a_removed_slot_is_used_again),
    ("a key is visible throughout a transfer", a_key_is_visible_throughout_a_transfer),
    ("no put is lost in a transfer", no_put_is_lost_in_a_transfer),
    ("no insert is lost in a transfer", no_insert_is_lost_in_a_transfer),
    ("no removal is lost in a transfer", no_removal_is_lost_in_a_transfer),
    ("a claimed slot has its link", a_claimed_slot_has_its_link),
    ("a key behind a link is inserted once", a_key_behind_a_link_is_inserted_once),
    ("a removal behind a link returns the last put", a_removal_behind_a_link_returns_the_last_put),
    ("a snapshot is a cut", a_snapshot_is_a_cut),
    ("a change during a snapshot is seen", a_change_during_a_snapshot_is_seen),
];

#[test]
fn every_property_holds() {
    models::every_property_holds(MODELS);
}

#[cfg(nunatak_seeded_bugs)]
#[test]
fn every_seeded_bug_is_found() {
    use nunatak::seeded::Bug;
    let bugs = [
        (Bug::RollbackForgotten, "a key that comes after hashes were asked for is moved"),
        (Bug::HitWithoutHeaderRecheck, "a pair is never torn"),
        (Bug::MissWithoutHeaderRecheck, "no put is lost in a transfer"),
        (Bug::PublishBeforeValue, "a visible key stays visible"),
        (Bug::PublishWithoutCas, "a key is inserted once"),
        (Bug::FreeWithoutVersion, "a pair is never torn"),
        (Bug::ScanIgnoresPending, "a key is inserted once"),
        (Bug::MissDuringTransfer, "a key is visible throughout a transfer"),
        (Bug::TransferWithoutKilling, "no insert is lost in a transfer"),
        (Bug::TransferReadsThenReplaces, "no put is lost in a transfer"),
        (Bug::TransferDoneBeforeCopy, "a key is visible throughout a transfer"),
        (Bug::RemoveForgetsRelease, "a removed slot is used again"),
        (Bug::RemoveByStaleValue, "a put meets one incarnation"),
        (Bug::RemoveByStaleValue, "a removal returns the last put"),
        (Bug::RemoveByStaleValue, "a removal behind a link returns the last put"),
        (Bug::ScanIgnoresPending, "a key behind a link is inserted once"),
        (Bug::SnapshotWithoutGrace, "a snapshot is a cut"),
        (Bug::SnapshotWithoutMarking, "a snapshot is a cut"),
        (Bug::LookInAnyState, "a change during a snapshot is seen"),
        (Bug::PublishRelaxed, "a key is inserted once"),
        (Bug::MovedRelaxed, "a key is visible throughout a transfer"),
        (Bug::HeaderRecheckRelaxed, "a pair is never torn"),
        (Bug::ClaimBeforeLink, "a claimed slot has its link"),
    ];
    models::every_seeded_bug_is_found(&bugs, MODELS);
}
