//! Seeded bugs in the durability of keys with many values: a crash test shows each. (One test,
//! since a bug is set for the whole process.)
#![cfg(all(nunatak_seeded_bugs, target_os = "linux"))]

use nunatak::durable::PeaMultiMap;
use nunatak::durable::Persistency::{self, Lines, Pages};
use nunatak::seeded::{Bug, seed};
use nunatak_harness::crashes::{
    MultiAction, Thoroughness, crash_history, multi_history, one_of_each,
};
use std::panic::catch_unwind;

const LOOK: Thoroughness = Thoroughness { images: 12, second: 61, moments: 1, journal: 0 };

/// Returns a short history: values become buffers, one value of each is removed, and then all
/// values of some keys.
fn brief() -> Vec<MultiAction> {
    let inserts = (0..8).flat_map(|key| (0..4).map(move |n| MultiAction::Insert(key, n)));
    let holes = (0..8).map(|key| MultiAction::RemoveOne(key, key % 4));
    let removals = (0..4).map(MultiAction::RemoveAll);
    inserts.chain(holes).chain(removals).collect()
}

/// Returns whether any history shows the bug.
fn is_found(persistency: Persistency, bug: Bug) -> bool {
    let is_found_in = |actions: &[MultiAction]| {
        seed(Some(bug));
        let found =
            catch_unwind(|| crash_history::<PeaMultiMap<u64, u64>>(actions, persistency, LOOK))
                .is_err();
        seed(None);
        found
    };
    is_found_in(&brief()) || is_found_in(&multi_history(1, 120)) || is_found_in(&one_of_each())
}

#[test]
fn bugs_of_numbers_are_found() {
    // Each failure that the test expects would print a panic message.
    std::panic::set_hook(Box::new(|_| {}));
    let bugs = [
        (Lines, Bug::InsertUnflushed),
        (Lines, Bug::ReplaceUnfenced),
        (Lines, Bug::RemoveUnfenced),
        (Lines, Bug::BufferUnflushed),
        (Lines, Bug::BufferUnfenced),
        (Lines, Bug::LogUnflushed),
        (Lines, Bug::LogUnfenced),
        (Lines, Bug::LogNotEmptied),
        (Lines, Bug::LogNotRepeated),
        (Lines, Bug::CompactedUnlogged),
        (Lines, Bug::HoleUnlogged),
        (Lines, Bug::RemovedUnlogged),
        (Lines, Bug::BuffersNotFreed),
        (Lines, Bug::BuffersNotFound),
        (Pages, Bug::LogNotRepeated),
        (Pages, Bug::CompactedUnlogged),
        (Pages, Bug::HoleUnlogged),
        (Pages, Bug::SyncOmitted),
    ];
    let begin = std::time::Instant::now();
    let missed: Vec<_> = bugs
        .into_iter()
        .filter(|&(persistency, bug)| {
            let found = is_found(persistency, bug);
            println!("{:?}: {bug:?} in {persistency:?}: {found}", begin.elapsed());
            !found
        })
        .collect();
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
