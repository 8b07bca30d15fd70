//! Duplicate keys of Pea Hash under a randomised scheduler: whole operations of several
//! threads through compaction, value buffers, splits, merges and snapshots.
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" cargo test --release -p nunatak --test shuttle_multi
//! ```
#![cfg(shuttle)]

use nunatak::{CheckedMedium, PeaMap, PeaMultiMap};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

type Hash = BuildHasherDefault<DefaultHasher>;
type InRam = PeaMultiMap<u64, u64, Hash>;
type Durable = PeaMultiMap<u64, u64, Hash, CheckedMedium>;

/// Maps of two segments of two buckets of three slots, and buffers of four values. Their keys have
/// the highest bit, which every tag of a durable table has.
trait Map: Sized + Send + Sync + 'static {
    fn small() -> Arc<Self>;
    fn insert(&self, key: u64, value: u64);
    fn remove_one(&self, key: u64, value: u64) -> bool;
    fn drain(&self, key: u64) -> Vec<u64>;
    fn count(&self, key: u64) -> usize;
    fn all(&self, key: u64) -> Vec<u64>;
    fn pairs(&self) -> Vec<(u64, u64)>;
    fn cut(&self) -> Vec<(u64, u64)>;
    fn len(&self) -> usize;
    fn shrink(&self);
}

fn with_highest(key: u64) -> u64 {
    key | 1 << 63
}

macro_rules! impl_map {
    ($map:ty, $build:ident) => {
        impl Map for $map {
            fn small() -> Arc<Self> {
                let builder = PeaMap::<u64, u64>::builder().hasher(Hash::default());
                Arc::new(builder.segment_buckets(2).$build().unwrap())
            }
            fn insert(&self, key: u64, value: u64) {
                self.insert(with_highest(key), value);
            }
            fn remove_one(&self, key: u64, value: u64) -> bool {
                self.remove_one(&with_highest(key), &value)
            }
            fn drain(&self, key: u64) -> Vec<u64> {
                self.drain(&with_highest(key)).collect()
            }
            fn count(&self, key: u64) -> usize {
                self.count(&with_highest(key))
            }
            fn all(&self, key: u64) -> Vec<u64> {
                self.get_all(&with_highest(key)).collect()
            }
            fn pairs(&self) -> Vec<(u64, u64)> {
                self.iter().map(|(key, value)| (key & !(1 << 63), value)).collect()
            }
            fn cut(&self) -> Vec<(u64, u64)> {
                let cut = self.snapshot().unwrap();
                cut.map(|(key, value)| (key & !(1 << 63), value)).collect()
            }
            fn len(&self) -> usize {
                self.len()
            }
            fn shrink(&self) {
                self.shrink_to_fit().unwrap();
            }
        }
    };
}

impl_map!(InRam, build_multi);
impl_map!(Durable, build_checked_multi);

fn spawn<M: Map>(map: &Arc<M>, run: impl FnOnce(&M) + Send + 'static) -> thread::JoinHandle<()> {
    let map = Arc::clone(map);
    thread::spawn(move || run(&map))
}

fn sorted<M: Map>(map: &M, key: u64) -> Vec<u64> {
    let mut values: Vec<u64> = map.all(key);
    values.sort_unstable();
    values
}

/// Two threads insert values of keys that a third thread counts meanwhile.
fn no_value_is_lost<M: Map>() {
    let map = M::small();
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
        let now = map.count(1);
        assert!(now >= seen, "{now} after {seen}");
        seen = now;
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(sorted(&*map, 1), [1, 4, 7, 10, 101, 104, 107, 110]);
    assert_eq!((map.len(), map.pairs().len()), (48, 48));
}

/// Values that stay are found while others come and go.
fn staying_values_are_found<M: Map>() {
    let map = M::small();
    (0..9).for_each(|value| map.insert(value % 2, value));
    let writer = spawn(&map, |map| {
        for round in 0..3 {
            (0..8).for_each(|n| map.insert(n, 100 + round));
            (0..8).for_each(|n| assert!(map.remove_one(n, 100 + round)));
            map.shrink();
        }
    });
    for _ in 0..6 {
        let stay: Vec<u64> = sorted(&*map, 1).into_iter().filter(|&value| value < 100).collect();
        assert_eq!(stay, [1, 3, 5, 7]);
    }
    writer.join().unwrap();
    assert_eq!((sorted(&*map, 0), map.len()), (vec![0, 2, 4, 6, 8], 9));
}

/// Two threads remove all values of a key: each value goes to one of them.
fn values_are_taken_once<M: Map>() {
    let map = M::small();
    (0..10).for_each(|value| map.insert(7, value));
    let other = Arc::clone(&map);
    let theirs = thread::spawn(move || other.drain(7));
    let mut all = map.drain(7);
    let mine = all.len();
    all.extend(theirs.join().unwrap());
    assert!(mine == 0 || mine == 10, "{mine}");
    all.sort_unstable();
    assert_eq!(all, (0..10).collect::<Vec<u64>>());
    assert_eq!(map.len(), 0);
}

/// A cut that has a value has the one that came before it.
fn snapshots_are_cuts<M: Map>() {
    let map = M::small();
    let writer = spawn(&map, |map| {
        for n in 0..8 {
            map.insert(1, n);
            map.insert(2, n);
        }
    });
    for _ in 0..2 {
        let cut = map.cut();
        let [first, second] = [1, 2].map(|of| cut.iter().filter(|(key, _)| *key == of).count());
        assert!(first == second || first == second + 1, "{first} and {second}");
    }
    writer.join().unwrap();
}

fn every_scenario_holds<M: Map>(schedules: usize) {
    let scenarios: [(&str, fn()); 4] = [
        ("no value is lost", no_value_is_lost::<M>),
        ("staying values are found", staying_values_are_found::<M>),
        ("values are taken once", values_are_taken_once::<M>),
        ("snapshots are cuts", snapshots_are_cuts::<M>),
    ];
    for (name, scenario) in scenarios {
        let start = std::time::Instant::now();
        let config = || {
            let mut config = Config::new();
            config.stack_size = 0x80000;
            config
        };
        Runner::new(RandomScheduler::new(schedules), config()).run(scenario);
        Runner::new(PctScheduler::new(3, schedules), config()).run(scenario);
        println!("{name}: {:?}", start.elapsed());
    }
}

#[test]
fn every_scenario_holds_in_ram() {
    every_scenario_holds::<InRam>(1000);
}

#[test]
fn every_scenario_holds_in_durable_memory() {
    every_scenario_holds::<Durable>(500);
}
