//! Memory follows the number of entries, not of operations.

use super::together;
use crate::effort::scaled;
use crate::random::mix;
use crate::sample::Sample;
use crate::subject::Subject;
use nunatak::ConcurrentMap;
use std::ops::Range;

const POPULATION: u64 = 1000;
/// Bytes that a map may hold beyond the need of its entries: pages, and lists of memory to be
/// freed.
const SLACK: usize = 1 << 20;
/// How many keys each thread removes, each time inserting another one.
const CHURN: usize = 250_000;
/// The smallest leak of each insert that a short churn finds, too: a pair of words.
const LEAK: usize = 16;

/// Entries that come and go need constant memory if their number is constant.
///
/// # Panics
/// If the map fails the check.
pub fn churn_needs_no_more<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    const THREADS: u64 = 2;
    let map = &subject.build(0);
    let key = |thread: u64, at: u64| K::sample(mix(at * THREADS + thread));
    let share = POPULATION / THREADS;
    for thread in 0..THREADS {
        (0..share).for_each(|at| drop(map.insert(key(thread, at), V::sample(at))));
    }
    let start = map.memory_usage().mapped;
    let churn = |thread: u64, steps: Range<u64>| {
        for at in steps {
            assert!(map.remove(&key(thread, at)).is_some());
            assert_eq!(map.insert(key(thread, at + share), V::sample(at)), None);
            if at.is_multiple_of(256) {
                map.update(&key(thread, at + share), V::sample(at + 1));
            }
        }
    };
    // Growth by one step, by a factor that may be 8, with both tables for a while.
    let bound = 10 * start + SLACK;
    // Enough inserts that a leak exceeds the bound, whatever the effort. An interpreter has no time
    // for so many.
    let enough = if cfg!(miri) { 0 } else { bound / LEAK / THREADS as usize };
    let steps = scaled(CHURN).max(enough.min(CHURN)) as u64;
    together(THREADS as usize, |thread| churn(thread as u64, 0..steps));
    // Until now a descheduled thread with a guard may have held what the other one retired. Now no
    // thread does, and the continuing thread frees what the others left.
    let settled = steps + 1024;
    churn(0, steps..settled);
    let memory_after = |at| {
        churn(0, at..at + 1);
        map.memory_usage().mapped
    };
    let most = (settled..settled + 4096).map(memory_after).max().unwrap_or(start);
    // What is removed waits for guards, and in files for the next sync. On a busy machine or disk a
    // guard or a sync may have lasted so long that the map took more, and some maps keep what they
    // have. A leak takes as much again.
    if most > bound {
        let ends = [settled + 4096, steps];
        together(THREADS as usize, |thread| {
            churn(thread as u64, ends[thread]..ends[thread] + steps)
        });
        let again = map.memory_usage().mapped;
        assert!(again <= most + bound / 2, "{again} bytes for what was {start} bytes of entries");
    }
    assert_eq!(map.len() as u64, POPULATION);
}

/// A map that was large gives memory back when it is told to shrink, many times.
///
/// # Panics
/// If the map fails the check.
pub fn shrinking_gives_memory_back<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S) {
    let map = subject.build(0);
    let many = scaled(50_000).max(1000) as u64;
    // A map that was large keeps the smallest of the tables that grow without bound.
    let empty = subject.build(100).memory_usage().mapped;
    for round in 0..4 {
        (0..many).for_each(|key| drop(map.insert(K::sample(key), V::sample(key))));
        let large = map.memory_usage().mapped;
        (10..many).for_each(|key| assert!(map.remove(&K::sample(key)).is_some()));
        assert_eq!(map.shrink_to_fit(), Ok(()));
        let small = map.memory_usage().mapped;
        assert!(
            small <= large / 4 || small <= 2 * empty,
            "round {round}: {small} bytes are left of {large}, of an empty map's {empty}"
        );
        for key in 0..20 {
            let expected = (key < 10).then(|| V::sample(key));
            assert_eq!(map.get(&K::sample(key)), expected, "round {round}, key {key}");
        }
    }
}

/// Reserved memory is there: inserting so many entries maps no more.
///
/// # Panics
/// If the map fails the check.
pub fn reserved_room_suffices<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S) {
    for many in [100, 1000, 20_000] {
        let built = subject.build(many);
        let reserved = subject.build(0);
        reserved.reserve(many).expect("memory for a larger table");
        for map in [built, reserved] {
            let tables = subject.reservable(&map);
            (0..many as u64).for_each(|key| drop(map.insert(K::sample(key), V::sample(key))));
            let grown = subject.reservable(&map);
            // Entries outside of the table may be counted as well.
            let entries = many * (64 + size_of::<K>() + size_of::<V>());
            assert!(grown < 2 * tables + entries, "{tables} bytes became {grown} for {many}");
        }
    }
}
