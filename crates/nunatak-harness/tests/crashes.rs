//! Crashes of durable maps, at every instant.
#![cfg(target_os = "linux")]

use nunatak::durable::{InFile, Map, Options, Persistency, Simulation};
use nunatak::{Blocks, Iceberg};
use nunatak_harness::crashed_histories::crashed_histories;
use nunatak_harness::crashes::{
    Action, Thoroughness, crash_after, crash_history, extents, history, settled_by_others,
    short_operations, short_operations_after_a_sync, synced_while_moving,
};

use std::time::Duration;

/// Blocks so small that a hundred keys double the table several times and fill all three levels.
type Small = Map<u64, u64, InFile<Iceberg<Blocks<8, 2>>>>;

const EVERY_IMAGE: Thoroughness = Thoroughness { images: 4096, second: 7, moments: 1, journal: 0 };
const SOME_IMAGES: Thoroughness = Thoroughness { images: 6, second: 37, moments: 3, journal: 0 };

#[test]
fn short_operations_in_persistent_memory() {
    let actions = short_operations();
    let images = crash_history::<Small>(&actions, Persistency::Lines, EVERY_IMAGE);
    assert!(images > 100, "{images}");
}

#[test]
fn short_operations_in_the_page_cache() {
    let actions = short_operations_after_a_sync();
    let images = crash_history::<Small>(&actions, Persistency::Pages, EVERY_IMAGE);
    assert!(images > 100, "{images}");
}

/// Long histories are checked at sampled moments.
const FEW_MOMENTS: Thoroughness = Thoroughness { images: 5, second: 17, moments: 401, journal: 0 };

#[test]
fn files_that_grow_and_shrink() {
    for persistency in [Persistency::Lines, Persistency::Pages] {
        crash_history::<Small>(&extents(), persistency, FEW_MOMENTS);
        crash_history::<Small>(&settled_by_others(33), persistency, SOME_IMAGES);
    }
}

#[test]
fn syncs_while_keys_move() {
    let (before, actions) = synced_while_moving();
    for persistency in [Persistency::Lines, Persistency::Pages] {
        crash_after::<Small>(&before, &actions, persistency, SOME_IMAGES);
    }
}

#[test]
fn histories_in_persistent_memory() {
    for seed in 0..4 {
        crash_history::<Small>(&history(seed, 300, 150), Persistency::Lines, SOME_IMAGES);
    }
}

#[test]
fn histories_in_the_page_cache() {
    for seed in 0..4 {
        crash_history::<Small>(&history(seed, 300, 150), Persistency::Pages, SOME_IMAGES);
    }
}

/// Room for a few transactions, so that the journal is often full.
const JOURNAL: u64 = 64 << 10;

#[test]
fn short_operations_with_a_journal() {
    let mut actions: Vec<Action> = (0..5).map(|key| Action::Insert(key, key * 3)).collect();
    actions.push(Action::Sync);
    for key in 0..4 {
        actions.extend([Action::Update(key, key * 5), Action::Sync, Action::Remove(key)]);
        actions.extend([Action::Sync, Action::Insert(key, key)]);
    }
    let look = Thoroughness { images: 32, journal: JOURNAL, ..EVERY_IMAGE };
    let images = crash_history::<Small>(&actions, Persistency::Pages, look);
    assert!(images > 100, "{images}");
}

#[test]
fn histories_with_a_journal() {
    let look = Thoroughness { journal: JOURNAL, ..SOME_IMAGES };
    for seed in 0..2 {
        crash_history::<Small>(&history(seed, 300, 150), Persistency::Pages, look);
    }
    let (before, actions) = synced_while_moving();
    crash_after::<Small>(&before, &actions, Persistency::Pages, look);
    let look = Thoroughness { journal: JOURNAL, ..FEW_MOMENTS };
    crash_history::<Small>(&extents(), Persistency::Pages, look);
}

/// A process is killed, the next one opens and changes its file, and then the power is cut. The
/// file must have what both processes have synced.
#[test]
fn a_sync_after_a_killed_process_counts() {
    let options = Options::new().journal(JOURNAL);
    let first = Simulation::new(Persistency::Pages);
    let map: Small = first.create(&options).unwrap();
    for key in 0..10 {
        assert_eq!(map.insert(key, key).unwrap(), None);
        map.sync().unwrap();
    }
    let killed = first.crash(first.moment()).latest();
    let second = Simulation::of(&killed, Persistency::Pages).of_killed();
    let map: Small = second.open(&options).unwrap();
    for key in 5..15 {
        map.insert(key, key + 100).unwrap();
        map.sync().unwrap();
        for image in second.crash(second.moment()).images(8, key) {
            let third = Simulation::of(&image, Persistency::Pages);
            let map: Small = third.open(&options).unwrap();
            let expected = |of: u64| if (5..=key).contains(&of) { of + 100 } else { of };
            for of in 0..=key.max(9) {
                assert_eq!(map.get(&of), Some(expected(of)));
            }
            assert_eq!(map.len() as u64, key.max(9) + 1);
        }
    }
}

#[test]
fn crashed_histories_are_linearizable() {
    crashed_histories::<Small>(60, 40, Duration::ZERO);
    crashed_histories::<Small>(20, 40, Duration::from_micros(20));
}
