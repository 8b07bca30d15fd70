//! Crashes of durable maps of Pea Hash, at every instant.
#![cfg(target_os = "linux")]

use nunatak::Pea;
use nunatak::durable::{InFile, Map, Options, Persistency, Simulation};
use nunatak_harness::crashed_histories::crashed_histories;
use nunatak_harness::crashes::{
    Action, Contents, Thoroughness, crash_history, history, killed_again_and_again,
    short_operations, short_operations_after_a_sync,
};
use std::time::Duration;

type Design = InFile<Pea>;

const EVERY_IMAGE: Thoroughness = Thoroughness { images: 4096, second: 7, moments: 1, journal: 0 };
const SOME_IMAGES: Thoroughness = Thoroughness { images: 4, second: 37, moments: 9, journal: 0 };

#[test]
fn short_operations_in_persistent_memory() {
    let actions = short_operations();
    let images = crash_history::<Design>(&actions, Persistency::Lines, EVERY_IMAGE);
    assert!(images > 100, "{images}");
}

#[test]
fn short_operations_in_the_page_cache() {
    let actions = short_operations_after_a_sync();
    // Copies of pages are torn in too many ways for all of them.
    let look = Thoroughness { images: 12, ..EVERY_IMAGE };
    let images = crash_history::<Design>(&actions, Persistency::Pages, look);
    assert!(images > 100, "{images}");
}

#[test]
fn histories_in_persistent_memory() {
    for seed in 0..2 {
        crash_history::<Design>(&history(seed, 300, 150), Persistency::Lines, SOME_IMAGES);
    }
}

#[test]
fn histories_in_the_page_cache() {
    for seed in 0..1 {
        crash_history::<Design>(&history(seed, 300, 150), Persistency::Pages, SOME_IMAGES);
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
    let few = Thoroughness { images: 3, second: 5, moments: 397, journal: 0 };
    let splits = (0..150).map(|key| Action::Insert(key, key + 1));
    let merges = (0..140).map(Action::Remove).chain([Action::Shrink, Action::Insert(150, 7)]);
    let all: Vec<Action> = splits.chain(merges).collect();
    for persistency in [Persistency::Lines, Persistency::Pages] {
        crash_history::<Design>(&grows(), persistency, few);
        crash_history::<Design>(&all, persistency, Thoroughness { moments: 47, ..few });
    }
}

/// A power cut leaves all of the map as it was at the last sync, or, while one is under way,
/// at that one: not each key by itself.
#[test]
fn a_power_cut_leaves_one_instant() {
    let options = Options::new().threads(1).segment_buckets(2);
    let simulation = Simulation::new(Persistency::Pages);
    let map: Map<u64, u64, Design> = simulation.create(&options).unwrap();
    let (mut contents, mut synced) = (Contents::new(), Contents::new());
    let actions = history(5, 200, 120).into_iter().filter(|action| *action != Action::Shrink);
    for (number, action) in actions.enumerate() {
        // More syncs than a history has.
        let action = if number % 12 == 7 { Action::Sync } else { action };
        let before = simulation.moment();
        action.run(&map);
        action.apply(&mut contents);
        let after = simulation.moment();
        for moment in (before..=after).step_by(5).chain([after]) {
            for image in simulation.crash(moment).images(3, moment as u64) {
                let cut = Simulation::of(&image, Persistency::Pages);
                let map: Map<u64, u64, Design> = cut.open(&options).unwrap_or_else(|e| {
                    panic!("{e} {number} {action:?} {before} {moment} {after}")
                });
                let found: Contents = map.iter().collect();
                let is_ending = action == Action::Sync && found == contents;
                let is_over = action == Action::Sync && moment == after;
                assert!(is_ending || found == synced && !is_over, "{number}: {action:?}");
            }
        }
        if action == Action::Sync {
            synced = contents.clone();
        }
    }
    assert!(!synced.is_empty());
}

#[test]
fn processes_that_sync_nothing() {
    killed_again_and_again::<Design>(12);
}

#[test]
fn crashed_histories_are_linearizable() {
    crashed_histories::<Map<u64, u64, Design>>(60, 40, Duration::ZERO);
    crashed_histories::<Map<u64, u64, Design>>(20, 40, Duration::from_micros(20));
}
