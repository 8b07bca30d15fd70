//! Byte strings with any number of values under a randomised scheduler: keys whose last value is
//! removed while threads add values to them, read them, and walk over them.
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" cargo test --release -p nunatak --test shuttle_blob_multi
//! ```
#![cfg(shuttle)]
#![allow(dead_code, reason = "scenarios of other maps")]

mod schedules;

use nunatak::{PeaBlobMultiMap, PeaMap};
use schedules::Scenario;
use shuttle::thread;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

type Hash = BuildHasherDefault<DefaultHasher>;
type Map = PeaBlobMultiMap<u64, Hash>;

fn small() -> Arc<Map> {
    let builder = PeaMap::<u64, u64>::builder().hasher(Hash::default()).segment_buckets(2);
    Arc::new(builder.build_blob_multi().unwrap())
}

fn spawn(map: &Arc<Map>, run: impl FnOnce(&Map) + Send + 'static) -> thread::JoinHandle<()> {
    let map = Arc::clone(map);
    thread::spawn(move || run(&map))
}

/// Each thread adds a value and finds it, until it removes it. Meanwhile the others remove the
/// last value of the key.
fn what_is_added_stays() {
    let map = small();
    let threads = [1, 2, 3].map(|thread| {
        spawn(&map, move |map| {
            for round in 0..2 {
                let value = 10 * thread + round;
                map.insert(b"key", value).unwrap();
                assert!(map.contains_pair(b"key", &value), "{value} is gone");
                assert!(map.get_all(b"key").any(|of| of == value), "{value} is gone");
                assert!(map.remove_one(b"key", &value), "{value} is gone");
            }
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((map.len(), map.reclaim(), map.blob_stats().blobs), (0, 0, 0));
}

/// As [`what_is_added_stays`], by batches of two keys.
fn what_a_batch_adds_stays() {
    let map = small();
    let threads = [1, 2].map(|thread| {
        spawn(&map, move |map| {
            for round in 0..2 {
                let value = 10 * thread + round;
                map.insert_many(&[("one", value), ("two", value)]).unwrap();
                let mut counts = [0; 2];
                map.count_many(&["two", "one"], &mut counts).unwrap();
                assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
                assert!(map.remove_one(b"one", &value) && map.remove_one(b"two", &value));
            }
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((map.len(), map.reclaim(), map.blob_stats().blobs), (0, 0, 0));
}

/// Two threads take all values of a key, and others come: each value is taken once.
fn values_are_taken_once() {
    let map = small();
    map.insert(b"key", 0).unwrap();
    let takers = [0, 1].map(|_| {
        let map = Arc::clone(&map);
        thread::spawn(move || {
            let first: Vec<u64> = map.drain(b"key").collect();
            first.into_iter().chain(map.drain(b"key")).collect::<Vec<u64>>()
        })
    });
    let adder = spawn(&map, |map| (1..4).for_each(|value| map.insert(b"key", value).unwrap()));
    let mut all: Vec<u64> = takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
    adder.join().unwrap();
    all.extend(map.drain(b"key"));
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3]);
}

/// Walks and cuts read keys that other threads remove meanwhile, and never another key in their
/// place.
fn walks_read_the_keys_of_their_values() {
    let map = small();
    let writer = spawn(&map, |map| {
        for round in 0..3 {
            for key in [1, 2] {
                map.insert(key.to_string().as_bytes(), 10 * key + round).unwrap();
            }
            assert_eq!(map.remove_all(b"1"), 1);
            map.reclaim();
            assert_eq!(map.remove_all(b"2"), 1);
        }
    });
    for _ in 0..2 {
        let pairs = map.iter().chain(map.snapshot().unwrap());
        pairs.for_each(|(key, value)| assert_eq!(key, (value / 10).to_string().as_bytes()));
    }
    writer.join().unwrap();
}

const SCENARIOS: [Scenario; 4] = [
    ("what is added stays", 6_000, what_is_added_stays),
    ("what a batch adds stays", 3_000, what_a_batch_adds_stays),
    ("values are taken once", 4_000, values_are_taken_once),
    ("walks read the keys of their values", 3_000, walks_read_the_keys_of_their_values),
];

#[test]
fn every_scenario_holds() {
    schedules::every_scenario_holds(&SCENARIOS);
}

#[cfg(nunatak_seeded_bugs)]
#[test]
fn seeded_bugs_are_found() {
    use nunatak::seeded::Bug;
    schedules::seeded_bugs_are_found(
        &[
            (Bug::KeyNotKept, "what is added stays"),
            (Bug::KeyForgottenWithValue, "what is added stays"),
        ],
        &SCENARIOS,
    );
}
