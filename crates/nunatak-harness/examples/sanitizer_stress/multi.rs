//! Maps of duplicate keys.

use super::stress::{KEYS, ROUNDS, THREADS, run_threads, value};
use nunatak::{PeaBlobMultiMap, PeaMap, PeaMultiMap};
use nunatak_harness::blob_multi::{number, text};
use std::ffi::c_void;

/// A map in RAM or in a file.
pub(super) trait Multi: Sync {
    fn insert(&self, key: u64, value: u64);
    fn remove_one(&self, key: u64, value: u64);
    fn remove_all(&self, key: u64);
    fn all(&self, key: u64) -> Vec<u64>;
    fn look(&self, key: u64, value: u64);
    fn cut(&self) -> Vec<(u64, u64)>;
    fn shrink(&self);
}

macro_rules! impl_multi {
    ($map:ty, $done:expr) => {
        impl Multi for $map {
            fn insert(&self, key: u64, value: u64) {
                $done(self.insert(key, value));
            }
            fn remove_one(&self, key: u64, value: u64) {
                let _ = $done(self.remove_one(&key, &value));
            }
            fn remove_all(&self, key: u64) {
                let _ = $done(self.remove_all(&key));
            }
            fn all(&self, key: u64) -> Vec<u64> {
                self.get_all(&key).collect()
            }
            fn look(&self, key: u64, value: u64) {
                assert!(self.get(&key).is_none_or(|found| found >> 32 == key));
                let _ = (self.count(&key), self.contains_pair(&key, &value));
            }
            fn cut(&self) -> Vec<(u64, u64)> {
                self.snapshot().expect("memory for a cut").collect()
            }
            fn shrink(&self) {
                self.shrink_to_fit().expect("memory for a merge");
            }
        }
    };
}

impl_multi!(PeaMultiMap<u64, u64>, core::convert::identity);
#[cfg(target_os = "linux")]
impl_multi!(nunatak::durable::PeaMultiMap<u64, u64>, |done: Result<_, _>| done
    .expect("a disk that works"));

impl Multi for PeaBlobMultiMap<u64> {
    fn insert(&self, key: u64, value: u64) {
        self.insert(&text(key), value).expect("memory for a key");
    }
    fn remove_one(&self, key: u64, value: u64) {
        self.remove_one(&text(key), &value);
    }
    fn remove_all(&self, key: u64) {
        self.remove_all(&text(key));
    }
    fn all(&self, key: u64) -> Vec<u64> {
        self.get_all(&text(key)).collect()
    }
    fn look(&self, key: u64, value: u64) {
        assert!(self.get(&text(key)).is_none_or(|found| found >> 32 == key));
        let _ = (self.count(&text(key)), self.contains_pair(&text(key), &value));
    }
    fn cut(&self) -> Vec<(u64, u64)> {
        let cut = self.snapshot().expect("memory for a cut");
        cut.map(|(key, value)| (number(&key), value)).collect()
    }
    fn shrink(&self) {
        self.shrink_to_fit().expect("memory for a merge");
    }
}

struct Task<'m, M> {
    map: &'m M,
    seed: u64,
    rounds: u64,
}

fn step<M: Multi>(map: &M, random: u64, round: u64) {
    // A few keys have many values.
    let key = if random & 1 == 0 { random >> 40 & 3 } else { random >> 40 & (KEYS - 1) };
    let n = random >> 20 & 0xFF;
    match random >> 32 & 15 {
        0..=6 => map.insert(key, value(key, n)),
        7..=9 => map.remove_one(key, value(key, n)),
        10 if round.is_multiple_of(8) => map.remove_all(key),
        12 if round.is_multiple_of(512) => map.shrink(),
        13 if round % 512 == 1 => {
            assert!(map.cut().into_iter().all(|(key, value)| value >> 32 == key));
        }
        // Keys of this round only, so that the map grows.
        14 => map.insert(KEYS + round, value(KEYS + round, 0)),
        _ => {
            assert!(map.all(key).into_iter().all(|found| found >> 32 == key));
            map.look(key, value(key, n));
        }
    }
}

extern "C" fn thread<M: Multi>(task: *mut c_void) -> *mut c_void {
    // SAFETY: `run_on` keeps the tasks until it has joined the threads.
    let task = unsafe { &*task.cast::<Task<'_, M>>() };
    let mut random = task.seed;
    for round in 0..task.rounds {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        step(task.map, random, round);
    }
    std::ptr::null_mut()
}

pub(super) fn run(buckets: usize) {
    let builder = PeaMap::<u64, u64>::builder().segment_buckets(buckets);
    let map = builder.build_multi().expect("valid options");
    run_on(&map, ROUNDS);
    assert_eq!(map.len(), map.iter().count());
    println!("{} values, nothing wrong", map.len());

    let builder = PeaMap::<u64, u64>::builder().segment_buckets(buckets);
    let map: PeaBlobMultiMap<u64> = builder.build_blob_multi().expect("valid options");
    run_on(&map, ROUNDS / 4);
    assert_eq!(map.len(), map.iter().count());
    println!("{} values of byte strings, nothing wrong", map.len());
}

pub(super) fn run_on<M: Multi>(map: &M, rounds: u64) {
    let task = |seed| Task { map, seed: seed * 7919 + 1, rounds };
    let mut tasks: Vec<Task<'_, M>> = (0..THREADS as u64).map(task).collect();
    run_threads(&mut tasks, thread::<M>);
}
