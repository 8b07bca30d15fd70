//! Exactly one of the threads that compete for a key wins.

use super::{together, upset};
use crate::effort::scaled;
use crate::random::Random;
use crate::sample::Sample;
use crate::subject::Subject;
use nunatak::{Compute, ConcurrentMap, Op, Outcome, Request, Stop};
use std::sync::atomic::{AtomicU64, Ordering};

const THREADS: usize = 4;

/// Makes all threads compete for every key, and checks how often each key is won.
fn compete(keys: u64, attempt: impl Fn(usize, u64) -> bool + Sync) {
    let wins: Vec<AtomicU64> = (0..keys).map(|_| AtomicU64::new(0)).collect();
    together(THREADS, |thread| {
        for (key, wins) in wins.iter().enumerate() {
            let won = attempt(thread, key as u64);
            wins.fetch_add(u64::from(won), Ordering::Relaxed);
        }
    });
    for (key, wins) in wins.into_iter().enumerate() {
        assert_eq!(wins.into_inner(), 1, "how often key {key} was won");
    }
}

/// Every way to insert an absent key succeeds for one thread, and the others see that thread's
/// value. The table grows all the while.
///
/// # Panics
/// If the map fails the check.
pub fn one_insert_wins<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    let keys = scaled(30_000) as u64;
    for kind in 0..4 {
        let map = &subject.adversarial();
        let winners: Vec<AtomicU64> = (0..keys).map(|_| AtomicU64::new(u64::MAX)).collect();
        let seen: Vec<AtomicU64> = (0..keys).map(|_| AtomicU64::new(u64::MAX)).collect();
        compete(keys, |thread, number| {
            let (key, value) = (K::sample(number), V::sample(thread as u64));
            let present = match kind {
                0 => map.try_insert(key, value).err(),
                1 => map.compute(key, |present| match present {
                    Some(_) => Compute::Keep,
                    None => Compute::Put(value.clone()),
                }),
                2 => {
                    let mut batch = [Op::new(Request::TryInsert(key, value))];
                    map.execute(&mut batch, Stop::AtFirstFailure);
                    match batch {
                        [Op { outcome: Outcome::Occupied(value), .. }] => Some(value),
                        [op] => (op.outcome != Outcome::Inserted).then(|| panic!("{op:?}")),
                    }
                }
                _ => {
                    let got = map.get_or_insert_with(key, || value.clone());
                    (got != value).then_some(got)
                }
            };
            match &present {
                None => winners[number as usize].store(thread as u64, Ordering::SeqCst),
                Some(value) => {
                    let others = seen[number as usize].swap(value.number(), Ordering::SeqCst);
                    assert!([u64::MAX, value.number()].contains(&others), "two were present");
                }
            }
            present.is_none()
        });
        for (number, (winner, seen)) in winners.into_iter().zip(seen).enumerate() {
            let winner = winner.into_inner();
            assert_eq!(map.get(&K::sample(number as u64)), Some(V::sample(winner)));
            assert_eq!(winner, seen.into_inner(), "what the others saw of key {number}");
        }
        assert_eq!(map.len() as u64, keys);
    }
}

/// Every way to remove a key succeeds for one thread, which gets its value.
///
/// # Panics
/// If the map fails the check.
pub fn one_remove_wins<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    let keys = scaled(30_000) as u64;
    for kind in 0..4 {
        let map = &subject.adversarial();
        (0..keys).for_each(|key| drop(map.insert(K::sample(key), V::sample(key + 1))));
        compete(keys, |thread, number| {
            let key = K::sample(number);
            let removed = match kind {
                0 => map.remove(&key),
                1 => map.remove_if(&key, |_| true),
                2 => map.compute(key, |_| Compute::Remove),
                _ => {
                    let mut removed = [None];
                    map.remove_many(&[key], &mut removed).expect("room for one");
                    removed[0].take()
                }
            };
            if number.is_multiple_of(1000) {
                let mut random = Random::new(number);
                upset::<K, V, _>(map, &mut random, (1 + thread as u64) << 32);
            }
            if let Some(value) = &removed {
                assert_eq!(value.number(), number + 1, "the value of another key");
            }
            removed.is_some()
        });
        assert_eq!((map.len(), map.iter().count()), (0, 0));
    }
}

/// Several threads run `retain` and `clear` at once and beside inserts: they remove what they
/// should, and the final length is right.
///
/// # Panics
/// If the map fails the check.
pub fn retain_and_clear_compete<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    let map = &subject.adversarial();
    for round in 0..scaled(200) as u64 {
        let keys = 400;
        together(THREADS, |thread| match thread {
            0 | 1 => (0..keys).for_each(|key| {
                drop(map.insert(K::sample(key * 2 + thread as u64), V::sample(key)));
            }),
            2 => map.retain(|key, _| key.number() % 4 > 1),
            _ if round.is_multiple_of(2) => map.clear(),
            _ => map.retain(|_, value| value.number() % 8 > 0),
        });
        assert_eq!(map.iter().count(), map.len());
        map.retain(|key, _| key.number() % 3 > 0);
        let left = map.iter().map(|(key, _)| key.number());
        assert!(left.into_iter().all(|key| key % 3 > 0), "retain passed a key over");
        map.clear();
        assert_eq!((map.len(), map.iter().count()), (0, 0), "after clear");
    }
}
