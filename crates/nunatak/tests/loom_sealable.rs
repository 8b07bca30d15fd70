//! Sealable values under a model checker: every interleaving, up to a number of preemptions, of
//! uses and of sealing, alone and in a map. One model for each property.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p nunatak --test loom_sealable
//! ```
//!
//! With `--cfg nunatak_seeded_bugs` as well, each step that sealing rests on is left out in
//! turn, and a model must find it.
#![cfg(loom)]

mod models;

use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use models::{Model, check, spawn};
use nunatak::{DlhtBoxedMap, DlhtMap, Sealable};
use std::sync::Arc;

fn value(n: &AtomicU64) -> u64 {
    n.load(Relaxed)
}

/// Counts twice, and returns how many of the uses were allowed.
fn add_twice(count: &Sealable<AtomicU64>) -> u64 {
    (0..2).map(|_| u64::from(count.with(|n| n.fetch_add(1, Relaxed)).is_ok())).sum()
}

fn what_a_condition_saw_is_the_last_state() {
    check(3, || {
        let count = Arc::new(Sealable::new(AtomicU64::new(0)));
        let other = spawn(&count, add_twice);
        let mut seen = 0;
        let is_sealed = count.seal_if(|n| {
            seen = value(n);
            true
        });
        let added = other.join().unwrap();
        assert_eq!(value(count.peek()), added);
        assert!(!is_sealed || seen == added, "{seen} seen, {added} added");
        assert!(is_sealed || added == 2, "a use was refused though nobody sealed");
    });
}

fn who_finds_a_value_sealed_finds_its_last_state() {
    check(3, || {
        let count = Arc::new(Sealable::new(AtomicU64::new(0)));
        let other = spawn(&count, |count| {
            count.with(|n| n.store(1, Relaxed)).is_ok() && count.seal_if(|_| true)
        });
        if count.is_sealed() {
            assert_eq!(value(count.peek()), 1);
        }
        assert!(other.join().unwrap());
    });
}

fn one_of_two_seals() {
    check(3, || {
        let count = Arc::new(Sealable::new(AtomicU64::new(0)));
        let other = spawn(&count, |count| count.seal_if(|_| true));
        let mine = count.seal_if(|_| true);
        assert!(mine != other.join().unwrap());
    });
}

type Map = DlhtBoxedMap<u64, Sealable<AtomicU64>>;

fn map() -> Arc<Map> {
    let builder = DlhtMap::<u64, u64>::builder().initial_bins(2).growth_factor(2);
    Arc::new(builder.transfer_chunk(1).build_boxed().unwrap())
}

fn add(map: &Map) {
    map.modify_or_insert_with(2, || AtomicU64::new(0), |n| n.fetch_add(1, Relaxed));
}

/// Returns what the condition saw, if the entry was removed.
fn take_out(map: &Map) -> u64 {
    let mut seen = 0;
    let see = |_: &u64, n: &AtomicU64| {
        seen = value(n);
        true
    };
    map.remove_sealed_if(&2, see, |_, _| ()).map_or(0, |()| seen)
}

fn a_map_loses_no_change() {
    check(2, || {
        let map = map();
        add(&map);
        let other = spawn(&map, add);
        let removed = take_out(&map);
        other.join().unwrap();
        let present = map.get_with(&2, |n| value(n.peek())).unwrap_or(0);
        assert_eq!(removed + present, 2, "{removed} were removed");
        assert_eq!(map.len(), usize::from(present > 0));
    });
}

fn an_entry_is_taken_out_once() {
    check(2, || {
        let map = map();
        add(&map);
        let other = spawn(&map, take_out);
        let mine = take_out(&map);
        assert_eq!(mine + other.join().unwrap(), 1);
        assert_eq!(map.len(), 0);
    });
}

const MODELS: &[Model] = &[
    ("what a condition saw is the last state", what_a_condition_saw_is_the_last_state),
    (
        "who finds a value sealed finds its last state",
        who_finds_a_value_sealed_finds_its_last_state,
    ),
    ("one of two seals", one_of_two_seals),
    ("a map loses no change", a_map_loses_no_change),
    ("an entry is taken out once", an_entry_is_taken_out_once),
];

#[test]
fn every_property_holds() {
    models::every_property_holds(MODELS);
}

#[cfg(nunatak_seeded_bugs)]
#[test]
fn every_seeded_bug_is_found() {
    use nunatak::seeded::Bug;
    let saw = "what a condition saw is the last state";
    let bugs = [
        (Bug::SealedInUse, saw),
        (Bug::SealedInUse, "a map loses no change"),
        (Bug::UseLeavesVersion, saw),
        (Bug::UseLeavesVersion, "a map loses no change"),
        (Bug::UseEndsRelaxed, saw),
        (Bug::SealLooksRelaxed, saw),
        (Bug::SealedSeenRelaxed, "who finds a value sealed finds its last state"),
    ];
    models::every_seeded_bug_is_found(&bugs, MODELS);
}
