//! Crashes of durable maps of Pea Hash, at every instant.
#![cfg(target_os = "linux")]

use nunatak::Pea;
use nunatak::durable::{InFile, Persistency};
use nunatak_harness::crashed_histories::crashed_histories;
use nunatak_harness::crashes::{
    Action, Thoroughness, crash_history, history, killed_again_and_again,
};
use std::time::Duration;

type Map = InFile<Pea>;

const EVERY_IMAGE: Thoroughness = Thoroughness { images: 4096, second: 7, moments: 1, journal: 0 };
const SOME_IMAGES: Thoroughness = Thoroughness { images: 5, second: 37, moments: 6, journal: 0 };

#[test]
fn short_operations_in_persistent_memory() {
    let mut actions: Vec<Action> = (0..12).map(|key| Action::Insert(key, key * 3)).collect();
    actions.extend((0..12).map(|key| Action::Update(key, key * 5)));
    actions.extend((0..6).map(Action::Remove));
    actions.extend((0..6).map(|key| Action::Insert(key, key)));
    let images = crash_history::<Map>(&actions, Persistency::Lines, EVERY_IMAGE);
    assert!(images > 100, "{images}");
}

#[test]
fn short_operations_in_the_page_cache() {
    let mut actions: Vec<Action> = (0..5).map(|key| Action::Insert(key, key * 3)).collect();
    actions.push(Action::Sync);
    actions.extend((0..3).map(|key| Action::Update(key, key * 5)));
    actions.extend((0..2).map(Action::Remove));
    actions.extend((0..2).map(|key| Action::Insert(key, key)));
    // Copies of pages are torn in too many ways for all of them.
    let look = Thoroughness { images: 16, ..EVERY_IMAGE };
    let images = crash_history::<Map>(&actions, Persistency::Pages, look);
    assert!(images > 100, "{images}");
}

#[test]
fn histories_in_persistent_memory() {
    for seed in 0..2 {
        crash_history::<Map>(&history(seed, 300, 150), Persistency::Lines, SOME_IMAGES);
    }
}

#[test]
fn histories_in_the_page_cache() {
    for seed in 0..2 {
        crash_history::<Map>(&history(seed, 300, 150), Persistency::Pages, SOME_IMAGES);
    }
}

/// A history in which the file grows and shrinks by extents.
fn grows() -> Vec<Action> {
    let inserts = (0..40).map(|key| Action::Insert(key, key + 1)).chain([Action::Reserve(800)]);
    let others = (0..8).map(|key| Action::Insert(key, key + 2)).chain([Action::Shrink]);
    inserts.chain(others).chain((0..8).map(|key| Action::Update(key, key + 3))).collect()
}

/// Segments are split, merged and moved, and the file grows and shrinks.
#[test]
fn segments_and_extents() {
    let few = Thoroughness { images: 3, second: 5, moments: 197, journal: 0 };
    let splits = (0..150).map(|key| Action::Insert(key, key + 1));
    let merges = (0..140).map(Action::Remove).chain([Action::Shrink, Action::Insert(150, 7)]);
    let all: Vec<Action> = splits.chain(merges).collect();
    for persistency in [Persistency::Lines, Persistency::Pages] {
        crash_history::<Map>(&grows(), persistency, few);
        crash_history::<Map>(&all, persistency, Thoroughness { moments: 23, ..few });
    }
}

#[test]
fn processes_that_sync_nothing() {
    killed_again_and_again::<Map>(12);
}

#[test]
fn crashed_histories_are_linearizable() {
    crashed_histories::<Map>(60, 40, Duration::ZERO);
    crashed_histories::<Map>(20, 40, Duration::from_micros(20));
}
