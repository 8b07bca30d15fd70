//! Duplicate keys of Pea Hash under a randomised scheduler: whole operations of several
//! threads through compaction, value buffers, splits, merges and snapshots.
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" cargo test --release -p nunatak --test shuttle_multi
//! ```
#![cfg(all(shuttle, not(nunatak_seeded_bugs)))]

use nunatak::{PeaMap, PeaMultiMap};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

type Map = PeaMultiMap<u64, u64, BuildHasherDefault<DefaultHasher>>;

/// Two segments of two buckets of three slots, and buffers of four values.
fn small() -> Arc<Map> {
    let builder = PeaMap::<u64, u64>::builder().hasher(BuildHasherDefault::default());
    Arc::new(builder.segment_buckets(2).build_multi().unwrap())
}

fn spawn(map: &Arc<Map>, run: impl FnOnce(&Map) + Send + 'static) -> thread::JoinHandle<()> {
    let map = Arc::clone(map);
    thread::spawn(move || run(&map))
}

fn sorted(map: &Map, key: u64) -> Vec<u64> {
    let mut values: Vec<u64> = map.get_all(&key).collect();
    values.sort_unstable();
    values
}

/// Two threads give keys values that a third one counts meanwhile.
fn no_value_is_lost() {
    let map = small();
    let writers = [0, 1].map(|thread| {
        spawn(&map, move |map| {
            for n in 0..12 {
                map.insert(n % 3, thread * 100 + n);
                map.insert(50 + thread * 20 + n, n);
            }
        })
    });
    let mut seen = 0;
    for _ in 0..6 {
        let now = map.count(&1);
        assert!(now >= seen, "{now} after {seen}");
        seen = now;
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(sorted(&map, 1), [1, 4, 7, 10, 101, 104, 107, 110]);
    assert_eq!((map.len(), map.iter().count()), (48, 48));
}

/// What is there all the time is found while others come and go.
fn staying_values_are_found() {
    let map = small();
    (0..9).for_each(|value| map.insert(value % 2, value));
    let writer = spawn(&map, |map| {
        for round in 0..3 {
            (0..8).for_each(|n| map.insert(n, 100 + round));
            (0..8).for_each(|n| assert!(map.remove_one(&n, &(100 + round))));
            map.shrink_to_fit().unwrap();
        }
    });
    for _ in 0..6 {
        let stay: Vec<u64> = sorted(&map, 1).into_iter().filter(|&value| value < 100).collect();
        assert_eq!(stay, [1, 3, 5, 7]);
    }
    writer.join().unwrap();
    assert_eq!((sorted(&map, 0), map.len()), (vec![0, 2, 4, 6, 8], 9));
}

/// Of two threads that take all values of a key, each value is one's.
fn values_are_taken_once() {
    let map = small();
    (0..10).for_each(|value| map.insert(7, value));
    let other = Arc::clone(&map);
    let theirs = thread::spawn(move || other.drain(&7).collect::<Vec<u64>>());
    let mut all: Vec<u64> = map.drain(&7).collect();
    let mine = all.len();
    all.extend(theirs.join().unwrap());
    assert!(mine == 0 || mine == 10, "{mine}");
    all.sort_unstable();
    assert_eq!(all, (0..10).collect::<Vec<u64>>());
    assert!(map.is_empty());
}

/// A cut has a value only with the one that came before it.
fn snapshots_are_cuts() {
    let map = small();
    let writer = spawn(&map, |map| {
        for n in 0..8 {
            map.insert(1, n);
            map.insert(2, n);
        }
    });
    for _ in 0..2 {
        let cut: Vec<(u64, u64)> = map.snapshot().unwrap().collect();
        let [first, second] = [1, 2].map(|of| cut.iter().filter(|(key, _)| *key == of).count());
        assert!(first == second || first == second + 1, "{first} and {second}");
    }
    writer.join().unwrap();
}

#[test]
fn every_scenario_holds() {
    let scenarios: [(&str, fn()); 4] = [
        ("no value is lost", no_value_is_lost),
        ("staying values are found", staying_values_are_found),
        ("values are taken once", values_are_taken_once),
        ("snapshots are cuts", snapshots_are_cuts),
    ];
    for (name, scenario) in scenarios {
        let start = std::time::Instant::now();
        let config = || {
            let mut config = Config::new();
            config.stack_size = 0x80000;
            config
        };
        Runner::new(RandomScheduler::new(1500), config()).run(scenario);
        Runner::new(PctScheduler::new(3, 1500), config()).run(scenario);
        println!("{name}: {:?}", start.elapsed());
    }
}
