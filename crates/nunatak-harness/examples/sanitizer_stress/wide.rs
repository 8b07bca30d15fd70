//! Maps whose values have two words.

use super::stress::{KEYS, ROUNDS, THREADS, run_threads, value};
use nunatak::{DlhtMap, IcebergMap, WideDesign, WideMap};
use std::ffi::c_void;

type Map<D> = WideMap<u64, (u64, u64), D>;

struct Task<'m, D: WideDesign> {
    map: &'m Map<D>,
    seed: u64,
}

/// A value whose words belong together.
fn words(key: u64, n: u64) -> (u64, u64) {
    (value(key, n), !value(key, n))
}

fn check(key: u64, (first, second): (u64, u64)) {
    assert!(first >> 32 == key && second == !first, "a value of another key, or of two values");
}

fn step<D: WideDesign>(map: &Map<D>, random: u64, round: u64) {
    let key = random >> 40 & (KEYS - 1);
    match random >> 32 & 15 {
        0..=3 => map.get(&key).into_iter().for_each(|found| check(key, found)),
        4..=7 => map.insert(key, words(key, round)).into_iter().for_each(|found| check(key, found)),
        8..=10 => map.remove(&key).into_iter().for_each(|found| check(key, found)),
        11 => map.update(&key, words(key, round)).into_iter().for_each(|found| check(key, found)),
        12 => {
            let _ = map.fetch_update(&key, |_| Some(words(key, round)));
        }
        // Keys of this round only, so that the map grows.
        13 => _ = map.insert(KEYS + round, words(KEYS + round, 0)),
        14 if round.is_multiple_of(512) => {
            map.retain(|&key, _| key < KEYS);
            map.shrink_to_fit().expect("memory for a smaller index");
        }
        15 if round % 512 == 1 => {
            let cut = map.snapshot().expect("memory for a copy");
            cut.for_each(|(key, found)| check(key, found));
        }
        _ => {
            let keys = [key, key ^ 1, key ^ 2];
            let mut values = [None; 3];
            map.get_many(&keys, &mut values).expect("as many results");
            for (key, found) in keys.into_iter().zip(values) {
                found.into_iter().for_each(|found| check(key, found));
            }
        }
    }
}

extern "C" fn thread<D: WideDesign>(task: *mut c_void) -> *mut c_void {
    // SAFETY: `run` keeps the tasks until it has joined the threads.
    let task = unsafe { &*task.cast::<Task<'_, D>>() };
    let mut random = task.seed;
    for round in 0..ROUNDS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        step(task.map, random, round);
    }
    std::ptr::null_mut()
}

fn run_on<D: WideDesign>(map: &Map<D>) {
    let task = |seed| Task { map, seed: seed * 7919 + 1 };
    let mut tasks: Vec<Task<'_, D>> = (0..THREADS as u64).map(task).collect();
    run_threads(&mut tasks, thread::<D>);
    map.iter().for_each(|(key, found)| check(key, found));
    assert_eq!(map.len(), map.iter().count());
    println!("{} entries of two words, nothing wrong", map.len());
}

pub(super) fn run() {
    let builder = DlhtMap::<u64, u64>::builder().initial_bins(2).growth_factor(2);
    run_on(&builder.transfer_chunk(2).build_wide().expect("valid options"));
    let builder = IcebergMap::<u64, u64>::builder();
    run_on(&builder.build_wide().expect("valid options"));
}
