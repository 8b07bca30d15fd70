//! Tables that begin small, under a model checker: every interleaving, up to a number of preemptions,
//! of a few operations on a table of one slot, which becomes a TurboHash when it has a second pair.
//! One model for each property.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p nunatak --test loom_growing
//! ```
//!
//! With `--cfg nunatak_seeded_bugs` as well, the steps that rest on an interleaving are left out in
//! turn, and a model must find each. (`seeded_growing` finds the others.)
#![cfg(loom)]

#[path = "models/chosen.rs"]
mod chosen;
mod models;

use chosen::Chosen;
use models::{Model, check, spawn};
use nunatak::{GrowingTurbo, InlineMap};
use std::sync::Arc;

type Map = InlineMap<u64, u64, Chosen, GrowingTurbo>;

const FIRST: u64 = 1;
const SECOND: u64 = 2;

/// Returns a map of one pair, which fills its slot.
fn map() -> Arc<Map> {
    let map = Map::with_hasher(Chosen);
    assert_eq!(map.insert(FIRST, 10), None);
    Arc::new(map)
}

fn a_key_is_seen_while_the_table_grows() {
    check(3, || {
        let map = map();
        let grower = spawn(&map, |map| {
            assert_eq!(map.insert(SECOND, 20), None);
            assert_eq!(map.insert(FIRST, 11), Some(10));
        });
        let seen = [map.get(&FIRST), map.get(&FIRST)];
        assert!([[10, 10], [10, 11], [11, 11]].map(|seen| seen.map(Some)).contains(&seen));
        grower.join().unwrap();
        assert_eq!((map.get(&FIRST), map.get(&SECOND), map.len()), (Some(11), Some(20), 2));
    });
}

fn a_change_while_the_table_grows_is_kept() {
    check(3, || {
        let map = map();
        let grower = spawn(&map, |map| assert_eq!(map.insert(SECOND, 20), None));
        assert_eq!(map.insert(FIRST, 11), Some(10));
        assert_eq!(map.get(&FIRST), Some(11));
        grower.join().unwrap();
        assert_eq!((map.get(&FIRST), map.get(&SECOND), map.len()), (Some(11), Some(20), 2));
    });
}

fn a_removal_while_the_table_grows_is_kept() {
    check(3, || {
        let map = map();
        let grower = spawn(&map, |map| assert_eq!(map.insert(SECOND, 20), None));
        assert_eq!(map.remove(&FIRST), Some(10));
        assert_eq!(map.get(&FIRST), None);
        grower.join().unwrap();
        assert_eq!((map.get(&FIRST), map.get(&SECOND), map.len()), (None, Some(20), 1));
    });
}

fn one_of_two_inserts_grows_the_table() {
    check(3, || {
        let map = map();
        let other = spawn(&map, |map| map.try_insert(SECOND, 20));
        let mine = map.try_insert(SECOND, 21);
        let others = other.join().unwrap();
        assert!(matches!((mine, others), (Ok(()), Err(21)) | (Err(20), Ok(()))));
        assert_eq!((map.len(), map.get(&FIRST)), (2, Some(10)));
    });
}

fn a_walk_yields_a_key_once() {
    check(3, || {
        let map = map();
        let grower = spawn(&map, |map| assert_eq!(map.insert(SECOND, 20), None));
        let mut walk = map.iter();
        let seen: Vec<_> = walk.by_ref().collect();
        assert_eq!(seen.iter().filter(|&&pair| pair == (FIRST, 10)).count(), 1);
        assert!(seen.len() == 1 || seen.contains(&(SECOND, 20)) && seen.len() == 2);
        drop(walk);
        grower.join().unwrap();
    });
}

const MODELS: &[Model] = &[
    ("a key is seen while the table grows", a_key_is_seen_while_the_table_grows),
    ("a change while the table grows is kept", a_change_while_the_table_grows_is_kept),
    ("a removal while the table grows is kept", a_removal_while_the_table_grows_is_kept),
    ("one of two inserts grows the table", one_of_two_inserts_grows_the_table),
    ("a walk yields a key once", a_walk_yields_a_key_once),
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
        &[
            (Bug::SmallChangedAfterGrowth, "a change while the table grows is kept"),
            (Bug::GrownTablePublishedRelaxed, "a key is seen while the table grows"),
        ],
        MODELS,
    );
}
