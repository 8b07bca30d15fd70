//! Snapshots, and consecutive reads of one thread, see changes in the order in which they were
//! made.

use super::{Running, together, upset};
use crate::effort::scaled;
use crate::random::Random;
use crate::sample::Sample;
use crate::subject::Subject;
use nunatak::{ConcurrentMap, Op, Request, Stop};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of counters that a writer raises, always in the same order.
const CHAIN: u64 = 40;
const WRITERS: usize = 3;

/// Returns a key of a counter, far from the writer's other counters and from those of other
/// writers.
fn counter(writer: usize, at: u64) -> u64 {
    (at * WRITERS as u64 + writer as u64) * 0x0010_0001
}

fn chain<K: Sample>(writer: usize) -> impl DoubleEndedIterator<Item = K> {
    (0..CHAIN).map(move |at| K::sample(counter(writer, at)))
}

/// Checks the counters of a chain, each of which was raised before the next one.
fn check_chain(counters: &[u64], done: u64) {
    assert!(counters.is_sorted_by(|a, b| a >= b), "no cut: {counters:?}");
    let [first, .., last] = counters else { panic!("{counters:?} is no chain") };
    assert!(first - last <= 1, "no cut: {counters:?}");
    assert!(*last >= done, "{done} was done before, but is not in {counters:?}");
}

/// Writers raise counters in turn, singly and in batches, and see what they did. In a snapshot no counter
/// is ahead of an earlier one or more than one ahead of the last, and all changes from before the snapshot
/// are in it.
///
/// # Panics
/// If the map fails the check.
pub fn snapshots_are_cuts<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    let map = &subject.adversarial();
    let done: [AtomicU64; WRITERS] = Default::default();
    write_and(map, &done, scaled(5000) as u64, || {
        let before: Vec<u64> = done.iter().map(|done| done.load(Ordering::SeqCst)).collect();
        let cut: BTreeMap<u64, u64> = map
            .snapshot()
            .expect("memory for a snapshot")
            .map(|(key, value)| (key.number(), value.number()))
            .collect();
        for (writer, &before) in before.iter().enumerate() {
            let counters: Vec<u64> = (0..CHAIN).map(|at| cut[&counter(writer, at)]).collect();
            check_chain(&counters, before);
        }
    });
}

/// The same counters, read one after the other and in batches, the last one first: each is at least
/// as high as the ones read before.
///
/// # Panics
/// If the map fails the check.
pub fn reads_keep_the_order<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    let map = &subject.adversarial();
    let done: [AtomicU64; WRITERS] = Default::default();
    let backwards: Vec<Vec<K>> = (0..WRITERS).map(|writer| chain(writer).rev().collect()).collect();
    write_and(map, &done, scaled(10_000) as u64, || {
        for keys in &backwards {
            let one_by_one: Vec<_> = keys.iter().map(|key| map.get(key)).collect();
            let mut at_once = vec![None; keys.len()];
            assert_eq!(map.get_many(keys, &mut at_once), Ok(keys.len()));
            for values in [one_by_one, at_once] {
                let counters: Vec<u64> =
                    values.iter().map(|value| value.as_ref().expect("present").number()).collect();
                assert!(counters.is_sorted(), "a later read saw an older state: {counters:?}");
            }
        }
    });
}

/// Runs the writers, a thread that makes the map grow and shrink, and one that calls `look`
/// repeatedly.
fn write_and<K, V, M>(map: &M, done: &[AtomicU64; WRITERS], rounds: u64, look: impl Fn() + Sync)
where
    K: Sample,
    V: Sample,
    M: ConcurrentMap<K, V> + Sync,
{
    for key in (0..WRITERS).flat_map(chain::<K>) {
        map.insert(key, V::sample(0));
    }
    let running = Running::new(WRITERS);
    together(WRITERS + 2, |thread| {
        if thread < WRITERS {
            let _run = running.one();
            for round in 1..=rounds {
                raise::<K, V, M>(map, thread, round);
                own_changes_are_seen::<K, V, M>(map, thread, round);
                done[thread].store(round, Ordering::SeqCst);
                if round.is_multiple_of(500) {
                    own_changes_are_in_a_snapshot::<K, V, M>(map, thread, round);
                }
            }
        } else if thread == WRITERS {
            let mut random = Random::new(7);
            while running.any() {
                upset::<K, V, M>(map, &mut random, 1 << 40);
            }
        } else {
            while running.any() {
                look();
            }
        }
    });
    look();
}

/// Raises all counters of a writer, in order. Each writer uses other operations.
fn raise<K: Sample, V: Sample, M: ConcurrentMap<K, V>>(map: &M, writer: usize, round: u64) {
    let value = || V::sample(round);
    match writer {
        0 => chain(writer).for_each(|key| {
            let before = map.fetch_update(&key, |value| Some(V::sample(value.number() + 1)));
            assert_eq!(before, Ok(V::sample(round - 1)));
        }),
        1 => {
            let entries: Vec<_> = chain::<K>(writer).map(|key| (key, value())).collect();
            let mut previous = vec![None; entries.len()];
            assert_eq!(map.insert_many(&entries, &mut previous), Ok(0));
            assert!(previous.into_iter().flatten().all(|value| value == V::sample(round - 1)));
        }
        _ => {
            let mut batch: Vec<_> =
                chain(writer).map(|key| Op::new(Request::Update(key, value()))).collect();
            assert_eq!(map.execute(&mut batch, Stop::AtFirstFailure), batch.len());
        }
    }
}

/// Also in the middle of a snapshot, and while the map grows.
fn own_changes_are_seen<K: Sample, V: Sample, M: ConcurrentMap<K, V>>(
    map: &M,
    writer: usize,
    round: u64,
) {
    for key in chain(writer) {
        assert_eq!(map.get(&key), Some(V::sample(round)), "a get misses its own thread's change");
    }
}

fn own_changes_are_in_a_snapshot<K, V, M>(map: &M, writer: usize, round: u64)
where
    K: Sample,
    V: Sample,
    M: ConcurrentMap<K, V>,
{
    let own = |key: u64| (0..CHAIN).any(|at| counter(writer, at) == key);
    let cut = map.snapshot().expect("memory for a snapshot");
    let counters: Vec<_> =
        cut.filter(|(key, _)| own(key.number())).map(|(_, value)| value.number()).collect();
    assert_eq!(counters, [round; CHAIN as usize], "a snapshot misses its own thread's changes");
}

/// Writers insert ascending keys and remove them a little later: a snapshot holds an interval of
/// them.
///
/// # Panics
/// If the map fails the check.
pub fn snapshots_hold_no_gaps<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    const WINDOW: u64 = 30;
    let map = &subject.adversarial();
    let running = Running::new(2);
    together(3, |thread| {
        if thread == 2 {
            while running.any() {
                let mut windows = [const { Vec::new() }; 2];
                for (key, _) in map.snapshot().expect("memory for a snapshot") {
                    windows[(key.number() >> 32) as usize].push(key.number());
                }
                for mut window in windows {
                    window.sort_unstable();
                    let interval = window.is_sorted_by(|a, b| a + 1 == *b);
                    assert!(interval, "no cut: {window:?}");
                    assert!(window.len() as u64 <= WINDOW + 1, "no cut: {window:?}");
                }
            }
            return;
        }
        let _run = running.one();
        let key = |at: u64| K::sample((thread as u64) << 32 | at);
        for at in 0..scaled(300_000) as u64 {
            assert_eq!(map.insert(key(at), V::sample(at)), None);
            if at >= WINDOW {
                assert_eq!(map.remove(&key(at - WINDOW)), Some(V::sample(at - WINDOW)));
            }
        }
    });
    assert_eq!(map.len() as u64, 2 * WINDOW.min(scaled(300_000) as u64));
}

/// A map grows by inserts of ascending keys and by `reserve`. A snapshot holds the entries from the
/// start and an interval of the others, each key once.
///
/// # Panics
/// If the map fails the check.
pub fn snapshots_of_growing_maps_are_whole<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    const STAYING: u64 = 300;
    for round in 0..scaled(40) as u64 {
        let map = &subject.adversarial();
        (0..STAYING).for_each(|key| drop(map.insert(K::sample(key), V::sample(key))));
        let running = Running::new(2);
        together(3, |thread| match thread {
            0 => {
                let _run = running.one();
                (STAYING..1500).for_each(|key| drop(map.insert(K::sample(key), V::sample(key))));
            }
            1 => {
                let _run = running.one();
                for wanted in 1..8 {
                    map.reserve(wanted * 500).expect("memory for a larger table");
                }
            }
            _ => {
                while running.any() {
                    let cut = map.snapshot().expect("memory for a snapshot");
                    let mut keys: Vec<u64> = cut.map(|(key, _)| key.number()).collect();
                    keys.sort_unstable();
                    assert!(
                        keys.iter().copied().eq(0..keys.len() as u64),
                        "round {round}: {keys:?}"
                    );
                    assert!(keys.len() as u64 >= STAYING, "round {round}: {}", keys.len());
                }
            }
        });
    }
}
