//! Keys that are always present are always found, with their own values.

use super::{Running, together, upset};
use crate::effort::scaled;
use crate::random::Random;
use crate::sample::Sample;
use crate::subject::Subject;
use nunatak::{Compute, ConcurrentMap, Op, Outcome, Request, Stop};

/// The number of keys that are never removed.
const STABLE: u64 = 200;
/// The first key of the threads that make the map grow.
const OTHERS: u64 = 1 << 32;

/// Returns a value that tells its key and its round.
fn of(key: u64, round: u64) -> u64 {
    key << 24 | round & 0xFF_FFFF
}

fn owner(value: u64) -> u64 {
    value >> 24
}

/// While the map grows and shrinks and their values change, keys that are never removed are found
/// by every kind of read, and exactly once by an iterator and a snapshot. No value is ever another
/// key's.
///
/// # Panics
/// If the map fails the check.
pub fn stable_keys_are_never_missed<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    let map = &subject.adversarial();
    (0..STABLE).for_each(|key| drop(map.insert(K::sample(key), V::sample(of(key, 0)))));
    let running = Running::new(3);
    together(5, |thread| match thread {
        0 | 1 => {
            let _run = running.one();
            let mut random = Random::new(thread as u64);
            let from = OTHERS * (1 + thread as u64);
            (0..scaled(200)).for_each(|_| upset::<K, V, _>(map, &mut random, from));
        }
        2 => {
            let _run = running.one();
            change_values::<K, V, _>(map, scaled(300_000) as u64);
        }
        3 => {
            let mut random = Random::new(3);
            while running.any() {
                (0..20).for_each(|_| read_one::<K, V, _>(map, random.below(STABLE)));
                read_many::<K, V, _>(map, &mut random);
            }
        }
        _ => {
            while running.any() {
                each_once::<K, V>(map.iter());
                each_once::<K, V>(map.snapshot().expect("memory for a snapshot"));
            }
        }
    });
    assert_eq!(map.len() as u64, STABLE);
    each_once::<K, V>(map.iter());
}

fn change_values<K: Sample, V: Sample, M: ConcurrentMap<K, V>>(map: &M, rounds: u64) {
    let mut random = Random::new(2);
    for round in 0..rounds {
        let number = random.below(STABLE);
        let (key, new) = (K::sample(number), V::sample(of(number, round)));
        let before = match round % 4 {
            0 => map.insert(key, new),
            1 => map.update(&key, new),
            2 => map.fetch_update(&key, |_| Some(new.clone())).ok(),
            _ => map.compute(key, |_| Compute::Put(new.clone())),
        };
        let before = before.expect("the key is present");
        assert_eq!(owner(before.number()), number, "another key's value");
    }
}

fn read_one<K: Sample, V: Sample, M: ConcurrentMap<K, V>>(map: &M, number: u64) {
    let key = K::sample(number);
    let value = map.get(&key).unwrap_or_else(|| panic!("get misses key {number}"));
    assert_eq!(owner(value.number()), number, "another key's value");
    assert!(map.contains_key(&key), "contains_key misses key {number}");
    let occupied = map.try_insert(key.clone(), V::sample(0));
    assert!(occupied.is_err(), "try_insert misses key {number}");
    let declined = map.fetch_update(&key, |_| None);
    assert!(matches!(declined, Err(Some(_))), "fetch_update misses key {number}");
    assert_eq!(map.get(&K::sample(OTHERS - 1 - number)), None, "a key that was never inserted");
}

fn read_many<K: Sample, V: Sample, M: ConcurrentMap<K, V>>(map: &M, random: &mut Random) {
    let numbers: Vec<u64> = (0..1 + random.below(60)).map(|_| random.below(STABLE)).collect();
    let keys: Vec<K> = numbers.iter().copied().map(K::sample).collect();
    let mut values = vec![None; keys.len()];
    assert_eq!(map.get_many(&keys, &mut values), Ok(keys.len()), "get_many misses keys");
    let mut batch: Vec<_> = keys.into_iter().map(|key| Op::new(Request::Get(key))).collect();
    assert_eq!(map.execute(&mut batch, Stop::AtFirstFailure), numbers.len());
    for ((number, value), op) in numbers.iter().zip(values).zip(batch) {
        let value: V = value.expect("counted as present");
        assert_eq!(owner(value.number()), *number, "another key's value");
        let Outcome::Found(value) = op.outcome else { panic!("execute misses key {number}") };
        assert_eq!(owner(value.number()), *number, "another key's value");
    }
}

fn each_once<K: Sample, V: Sample>(entries: impl Iterator<Item = (K, V)>) {
    let stable = entries.filter(|(key, _)| key.number() < STABLE);
    let mut keys: Vec<u64> = stable
        .map(|(key, value)| {
            assert_eq!(owner(value.number()), key.number(), "another key's value");
            key.number()
        })
        .collect();
    keys.sort_unstable();
    assert!(keys.iter().copied().eq(0..STABLE), "not each stable key once: {keys:?}");
}

/// Under churn by every kind of change, a value always belongs to its key, a snapshot yields no key
/// twice, and the final length of the map is right.
///
/// # Panics
/// If the map fails the check.
pub fn values_belong_to_their_keys<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    const KEYS: u64 = 300;
    let map = &subject.adversarial();
    let check = |key: u64, value: Option<V>| {
        let value = value.map(|value| value.number());
        assert_eq!(value.map_or(key, owner), key, "another key's value");
    };
    together(4, |thread| {
        let mut random = Random::new(thread as u64);
        for round in 0..scaled(150_000) as u64 {
            let number = random.below(KEYS);
            let (key, value) = (K::sample(number), V::sample(of(number, round)));
            match random.below(12) {
                0..3 => check(number, map.insert(key, value)),
                3 => check(number, map.try_insert(key, value).err()),
                4..7 => check(number, map.remove(&key)),
                7 => check(number, map.update(&key, value)),
                8 => check(number, map.compute(key, |_| Compute::Put(value.clone()))),
                9 => check(number, map.compute(key, |_| Compute::Remove)),
                10 => check(number, map.remove_if(&key, |value| value.number().is_multiple_of(2))),
                _ => check(number, map.get(&key)),
            }
            if random.once_in(2000) {
                yields_once(map.snapshot().expect("memory for a snapshot"), &check);
                map.shrink_to_fit().expect("memory for a smaller table");
            }
            if random.once_in(4000) {
                map.retain(|key, value| {
                    assert_eq!(owner(value.number()), key.number(), "another key's value");
                    value.number() % 8 > 0
                });
            }
        }
    });
    assert_eq!(yields_once(map.iter(), &check), map.len());
    let found = (0..KEYS).filter(|key| map.contains_key(&K::sample(*key))).count();
    assert_eq!(found, map.len(), "as many as len says");
}

fn yields_once<K: Sample, V: Sample>(
    entries: impl Iterator<Item = (K, V)>,
    check: &impl Fn(u64, Option<V>),
) -> usize {
    let mut keys = Vec::new();
    for (key, value) in entries {
        check(key.number(), Some(value));
        keys.push(key.number());
    }
    let yielded = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(yielded, keys.len(), "a key was yielded twice");
    yielded
}
