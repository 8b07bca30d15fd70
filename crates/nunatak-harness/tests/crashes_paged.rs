//! Crashes, at every instant, of durable maps that rely on the order of their stores: Pea Hash, and
//! TurboHash, each with words and with byte strings.
#![cfg(target_os = "linux")]

use nunatak::durable::{
    BlobDesign, BlobsInFile, FileMap, IcebergBlobMap, InFile, InPages, PeaBlobMap, PeaMap,
    Persistency, Simulation, TurboBlobMap, TurboMap,
};
use nunatak::{Iceberg, Pea, Turbo};
use nunatak_harness::crashable::Crashable;
use nunatak_harness::crashed_histories::crashed_histories;
use nunatak_harness::crashes::{
    Action, Contents, Thoroughness, blobs_are_kept_for_power_cuts, colliding, crash_history,
    history, killed_again_and_again, short_operations, short_operations_after_a_sync,
    small_options,
};
use std::time::Duration;

const EVERY_IMAGE: Thoroughness = Thoroughness { images: 4096, second: 7, moments: 1, journal: 0 };
const SOME_IMAGES: Thoroughness = Thoroughness { images: 3, second: 53, moments: 17, journal: 0 };

fn short_operations_in_persistent_memory<M: Crashable>() {
    let actions = short_operations();
    let images = crash_history::<M>(&actions, Persistency::Lines, EVERY_IMAGE);
    assert!(images > 100, "{images}");
}

fn short_operations_in_the_page_cache<M: Crashable>() {
    let actions = short_operations_after_a_sync();
    // Copies of pages can be torn in too many ways to check all.
    let look = Thoroughness { images: 12, ..EVERY_IMAGE };
    let images = crash_history::<M>(&actions, Persistency::Pages, look);
    assert!(images > 100, "{images}");
}

fn histories_in_persistent_memory<M: Crashable>() {
    for seed in 0..2 {
        crash_history::<M>(&history(seed, 300, 150), Persistency::Lines, SOME_IMAGES);
    }
}

fn histories_in_the_page_cache<M: Crashable>() {
    for seed in 0..1 {
        crash_history::<M>(&history(seed, 300, 150), Persistency::Pages, SOME_IMAGES);
    }
}

/// Returns a history in which the file grows and shrinks by extents.
fn grows() -> Vec<Action> {
    let inserts = (0..40).map(|key| Action::Insert(key, key + 1)).chain([Action::Reserve(800)]);
    let others = (0..8).map(|key| Action::Insert(key, key + 2)).chain([Action::Shrink]);
    inserts.chain(others).chain((0..8).map(|key| Action::Update(key, key + 3))).collect()
}

/// Checks crashes while segments are split, merged and moved, shards grow, shrink and are moved,
/// and the file grows and shrinks.
fn segments_and_extents<M: Crashable>() {
    let few = Thoroughness { images: 2, second: 17, moments: 397, journal: 0 };
    let splits = (0..150).map(|key| Action::Insert(key, key + 1));
    let merges = (0..140).map(Action::Remove).chain([Action::Shrink, Action::Insert(150, 7)]);
    let all: Vec<Action> = splits.chain(merges).collect();
    for persistency in [Persistency::Lines, Persistency::Pages] {
        crash_history::<M>(&grows(), persistency, few);
        crash_history::<M>(&all, persistency, Thoroughness { moments: 47, ..few });
    }
}

/// Checks that a power cut leaves the whole map as of the last sync, not each key by itself. A cut
/// during a sync may also leave the map as of that sync.
fn a_power_cut_leaves_one_instant<M: Crashable>() {
    let options = small_options();
    let simulation = Simulation::new(Persistency::Pages);
    let map = M::create(&simulation, &options).unwrap();
    let (mut contents, mut synced) = (Contents::new(), Contents::new());
    let actions = history(5, 200, 120).into_iter().filter(|action| *action != Action::Shrink);
    for (number, action) in actions.enumerate() {
        // The test syncs more often than a history does.
        let action = if number % 12 == 7 { Action::Sync } else { action };
        let before = simulation.moment();
        action.run(&map);
        action.apply(&mut contents);
        let after = simulation.moment();
        for moment in (before..=after).step_by(5).chain([after]) {
            for image in simulation.crash(moment).images(3, moment as u64) {
                let cut = Simulation::of(&image, Persistency::Pages);
                let map = M::open(&cut, &options).unwrap_or_else(|e| {
                    panic!("{e} {number} {action:?} {before} {moment} {after}")
                });
                let found = map.contents();
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

fn processes_that_sync_nothing<M: Crashable>() {
    killed_again_and_again::<M>(12);
}

fn crashed_histories_are_linearizable<M: Crashable>() {
    let seldomer = M::SELDOMER.min(4) as u64;
    crashed_histories::<M>(60 / seldomer, 40, Duration::ZERO);
    crashed_histories::<M>(20 / seldomer, 40, Duration::from_micros(20));
}

#[test]
fn blobs_are_kept_until_a_sync() {
    blobs_are_kept_for_power_cuts::<InFile<Turbo>>();
    blobs_are_kept_for_power_cuts::<InFile<Pea>>();
    blobs_are_kept_for_power_cuts::<InPages<Iceberg>>();
}

/// Checks crashes of byte strings in chains. `chained` returns how many of a map's are there.
fn chained_byte_strings<D: BlobDesign>(chained: impl Fn(&D::Stats) -> usize) {
    let simulation = Simulation::new(Persistency::Pages);
    let map: FileMap<BlobsInFile<D>> = simulation.create(&small_options()).unwrap();
    let is_insert = |action: &Action| matches!(action, Action::Insert(..));
    colliding().into_iter().take_while(is_insert).for_each(|action| action.run(&map));
    let found = chained(&map.stats());
    assert!(found > 40, "{found} of {} are in chains", map.len());
    let few = Thoroughness { images: 2, moments: 47, ..SOME_IMAGES };
    for persistency in [Persistency::Lines, Persistency::Pages] {
        let images = crash_history::<FileMap<BlobsInFile<D>>>(&colliding(), persistency, few);
        assert!(images > 20, "{images}");
    }
}

#[test]
fn byte_strings_in_chains_of_pea_hash() {
    chained_byte_strings::<InFile<Pea>>(|stats| stats.chained);
}

#[test]
fn byte_strings_in_level_three() {
    chained_byte_strings::<InPages<Iceberg>>(|stats| stats.levels[2]);
}

/// Makes tests of the named functions for a map.
macro_rules! crash_suite {
    ($name:ident, $map:ty, [$($test:ident)*]) => {
        mod $name {
            use super::*;
            $(
                #[test]
                fn $test() {
                    super::$test::<$map>();
                }
            )*
        }
    };
    ($name:ident, $map:ty, and $($test:ident)*) => {
        crash_suite!($name, $map, [
            short_operations_in_persistent_memory
            short_operations_in_the_page_cache
            histories_in_persistent_memory
            histories_in_the_page_cache
            a_power_cut_leaves_one_instant
            crashed_histories_are_linearizable
            $($test)*
        ]);
    };
}

crash_suite!(pea, PeaMap<u64, u64>, and segments_and_extents processes_that_sync_nothing);
crash_suite!(turbo, TurboMap<u64, u64>, and segments_and_extents processes_that_sync_nothing);
// Opening these maps after a crash syncs them.
crash_suite!(blobs, TurboBlobMap, and);
crash_suite!(iceberg_blobs, IcebergBlobMap, and segments_and_extents);
crash_suite!(pea_blobs, PeaBlobMap, and segments_and_extents);
