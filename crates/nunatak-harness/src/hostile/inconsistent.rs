//! Hashers that contradict themselves.

use super::hooks::{self, Errors};
use super::victim::{Shared, Victim, belongs, works};
use super::watch;
use crate::effort::scaled;
use crate::random::Random;
use crate::stress::together;

const KEYS: u64 = 300;

/// Three threads use a map in which every third hash is wrong: in all its bits, or in its lowest or
/// highest byte. Keys may be missed, or be present more than once; in maps of words they may have
/// the values of others. Each key is dropped exactly once. Keys that come when hashes are right
/// again are found. Nothing is leaked.
///
/// # Panics
/// If the map fails the check.
pub fn wrong_hashes_are_harmless(build: fn() -> Shared) {
    for (seed, errors) in (0..).zip([Errors::All, Errors::Low, Errors::High]) {
        let map = build();
        watch::step(|| format!("{errors:?}"));
        hooks::set_errors(errors);
        together(3, |thread| {
            let mut random = Random::new(seed * 8 + thread as u64);
            for round in 0..scaled(4000) {
                watch::tick();
                operate(&*map, &mut random, round);
            }
        });
        watch::step(|| format!("{errors:?}, of a large map"));
        grow_and_shrink(&*map);
        hooks::set_errors(Errors::None);
        watch::step(|| format!("{errors:?}, after it"));
        works(&*map, seed);
        drop(map);
        hooks::nothing_is_used_after_its_end();
        assert_eq!(hooks::alive(), 0, "keys and values were leaked");
    }
}

/// Uses so many keys that every kind of table grows, also in the default configuration.
fn grow_and_shrink(map: &dyn Victim) {
    let keys = 1 << 17..(1 << 17) + scaled(40_000) as u64;
    let advance = |key: u64| {
        if key.is_multiple_of(64) {
            watch::tick();
        }
        key
    };
    keys.clone().for_each(|key| map.put(advance(key)));
    drop(map.cut());
    keys.for_each(|key| map.remove(advance(key)));
    map.shrink();
    drop(map.iterate());
}

/// Runs a random operation, now and then on all keys.
pub(super) fn operate(map: &dyn Victim, random: &mut Random, round: usize) {
    let key = random.below(KEYS);
    if round % 400 == 399 {
        return whole(map, random, key);
    }
    match random.below(16) {
        0..5 => map.put(key),
        5 => map.try_put(key),
        6..9 => map.get(key).into_iter().for_each(|value| belongs(key, value)),
        9..12 => map.remove(key),
        12 => map.decide(key),
        13 if random.once_in(4) => map.reclaim(key),
        14 if random.once_in(4) => {
            map.batch(&[key, key + 1, key, key + 7, key + 100, key + 101, key + 102]);
        }
        _ => map.put(key + KEYS * random.below(3)),
    }
}

fn whole(map: &dyn Victim, random: &mut Random, key: u64) {
    match random.below(7) {
        0 => drop(map.iterate()),
        1 => drop(map.cut()),
        2 => map.retain(&mut |other| other % 3 != key % 3),
        3 => map.reserve(200),
        4 => map.shrink(),
        5 => map.look(),
        _ => map.clear(),
    }
}
