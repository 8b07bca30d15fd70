//! Hashers, keys, values and closures that use the map that calls them.

use super::hooks::{self, Hook, hooked};
use super::victim::{Count, Handle, Local, Shared, Victim, works};
use super::watch;
use crate::effort::scaled;
use crate::random::Random;
use crate::stress::together;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The first key of hooks.
const THEIRS: u64 = 1 << 16;

/// The number of keys of the operations that call hooks.
const KEYS: u64 = 48;

/// Uses the map in every way, from within one of its calls, and makes it grow and shrink.
fn meddle(map: &dyn Victim, number: u64, from: u64) {
    let keys = from..from + 40;
    match number % 13 {
        0 => keys.for_each(|key| map.put(key)),
        1 => keys.for_each(|key| map.remove(key)),
        2 => keys.for_each(|key| assert!(map.get(key).is_none_or(|value| value == key))),
        3 => drop(map.iterate()),
        4 => drop(map.cut()),
        5 => map.shrink(),
        6 => map.reserve(150),
        7 => map.reclaim(from),
        8 => map.batch(&[from, from + 1, from, from + 5]),
        9 => map.retain(&mut |key| key < from),
        10 => map.decide(from + 1),
        11 => map.try_put(from + 2),
        _ => map.look(),
    }
}

/// Makes a hook that meddles `budget` times until `count` is reset: a closure whose key changes
/// each time would run for ever.
fn meddling<H: Handle>(handle: H, count: Count, salt: u64, from: u64, budget: u64) -> Hook {
    let number = Count::default();
    Rc::new(move |event| {
        if count.next() < budget {
            meddle(handle.victim(), number.next().wrapping_mul(5) + event as u64 + salt, from);
        }
    })
}

/// Runs one thread's operations on keys of its own, while its hooks meddle with other keys. Each
/// operation does what it does without hooks.
fn keys_of_ones_own<H: Handle>(handle: &H, seed: u64) {
    let (map, count) = (handle.victim(), Count::default());
    let hook = meddling(handle.clone(), count.clone(), seed, THEIRS, 6);
    let mut random = Random::new(seed);
    let mut model = BTreeSet::new();
    hooked(hook, || {
        for round in 0..scaled(500) as u64 {
            count.reset();
            let key = random.below(KEYS);
            let kind = random.below(12);
            watch::step(|| format!("round {round} of seed {seed}: operation {kind} on {key}"));
            match kind {
                0..3 => (map.put(key), model.insert(key)).0,
                3 => (map.try_put(key), model.insert(key)).0,
                4 => (map.decide(key), model.insert(key)).0,
                5 => {
                    let keys = [key, key / 2, key];
                    map.batch(&keys);
                    model.extend(keys);
                }
                6..9 => (map.remove(key), model.remove(&key)).0,
                9 => {
                    let own = map.cut().into_iter().filter(|&key| key < KEYS);
                    assert_eq!(own.collect::<BTreeSet<_>>(), model, "a snapshot, {round}");
                }
                10 => {
                    let own = map.iterate().into_iter().filter(|&key| key < KEYS);
                    assert_eq!(own.collect::<BTreeSet<_>>(), model, "an iteration, {round}");
                }
                _ if random.once_in(4) => map.shrink(),
                _ => map.reclaim(THEIRS),
            }
            let present = model.contains(&key).then_some(key);
            assert_eq!(map.get(key), present, "round {round}, operation {kind} on {key}");
        }
    });
    for key in 0..KEYS {
        assert_eq!(map.get(key), model.contains(&key).then_some(key), "key {key} in the end");
    }
}

/// The same, with hooks that meddle with the operations' own keys.
fn keys_in_common<H: Handle>(handle: &H, seed: u64) {
    let (map, count) = (handle.victim(), Count::default());
    let hook = meddling(handle.clone(), count.clone(), seed, 0, 6);
    let mut random = Random::new(seed);
    hooked(hook, || {
        for round in 0..scaled(500) {
            count.reset();
            watch::step(|| format!("round {round} of seed {seed}, keys in common"));
            super::inconsistent::operate(map, &mut random, round);
        }
    });
}

fn check<H: Handle>(build: impl Fn() -> H) {
    for seed in 0..3 {
        let handle = build();
        keys_of_ones_own(&handle, seed);
        watch::step(|| format!("after seed {seed}"));
        works(handle.victim(), seed);
        keys_in_common(&handle, seed);
        watch::step(|| format!("after seed {seed}, keys in common"));
        works(handle.victim(), seed + 100);
        drop(handle);
        hooks::nothing_is_used_after_its_end();
        assert_eq!(hooks::alive(), 0, "keys and values were leaked");
    }
}

/// The caller's code may use the map, to a depth of two.
///
/// # Panics
/// If the map fails the check.
pub fn callers_may_call_back(build: fn() -> Shared) {
    check(build);
}

/// The same for a map of one thread.
///
/// # Panics
/// If the map fails the check.
pub fn callers_may_call_back_locally(build: fn() -> Local) {
    check(build);
}

/// The same with several threads at a time.
///
/// # Panics
/// If the map fails the check.
pub fn callers_of_threads_may_call_back(build: fn() -> Shared) {
    let map = build();
    together(3, |thread| keys_in_common(&map, thread as u64));
    watch::step(|| "after all threads".into());
    works(&*map, 0);
    drop(map);
    hooks::nothing_is_used_after_its_end();
    assert_eq!(hooks::alive(), 0, "keys and values were leaked");
}
