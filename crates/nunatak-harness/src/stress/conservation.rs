//! Inserted and removed values balance.

use super::{Running, together, upset};
use crate::effort::scaled;
use crate::random::Random;
use crate::sample::Sample;
use crate::subject::Subject;
use nunatak::{Compute, ConcurrentMap, Op, Outcome, Request, Stop};

/// Few values, so that one is often replaced by its equal.
const VALUES: usize = 3;
const KEYS: u64 = 5;

/// For each value, how often it was inserted minus how often it was removed.
type Balance = [i64; VALUES];

/// Whatever threads do to keys, as many copies of every value are left as were inserted and not
/// removed, also when equal values replace each other, and while the map grows and shrinks.
///
/// # Panics
/// If the map fails the check.
pub fn values_are_conserved<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    check_map::<K, V, _>(&subject.adversarial(), 4, 200_000);
}

/// The same with many more threads than processors.
///
/// # Panics
/// If the map fails the check.
pub fn values_are_conserved_by_many_threads<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    check_map::<K, V, _>(&subject.adversarial(), 16, 30_000);
}

pub(crate) fn check_map<K, V, M>(map: &M, threads: usize, operations: usize)
where
    K: Sample,
    V: Sample,
    M: ConcurrentMap<K, V> + Sync,
{
    let running = Running::new(threads);
    let balances = together(threads + 1, |thread| {
        let mut random = Random::new(thread as u64);
        let mut balance = [0; VALUES];
        if thread == threads {
            while running.any() {
                upset::<K, V, _>(map, &mut random, 1 << 32);
            }
        } else {
            let _run = running.one();
            for _ in 0..scaled(operations) {
                operate::<K, V, M>(map, &mut random, &mut balance);
            }
        }
        balance
    });
    let mut left = [0; VALUES];
    map.iter().for_each(|(_, value)| left[value.number() as usize] += 1);
    let mut total = [0; VALUES];
    for balance in balances {
        total.iter_mut().zip(balance).for_each(|(total, each)| *total += each);
    }
    assert_eq!(left, total, "values were lost or made up");
    assert_eq!(map.len() as i64, left.iter().sum(), "len");
}

/// Makes one random change, and counts it.
fn operate<K: Sample, V: Sample, M: ConcurrentMap<K, V>>(
    map: &M,
    random: &mut Random,
    balance: &mut Balance,
) {
    let key = K::sample(random.below(KEYS));
    let number = random.below(VALUES as u64);
    let value = V::sample(number);
    let mut took = |value: Option<V>| {
        let before = value.is_some();
        value.into_iter().for_each(|value| balance[value.number() as usize] -= 1);
        before
    };
    // Whether `number` was inserted.
    let put = match random.below(10) {
        0 => {
            took(map.insert(key, value));
            true
        }
        1 => map.try_insert(key, value).is_ok(),
        2 => {
            took(map.remove(&key));
            false
        }
        3 => took(map.update(&key, value)),
        4 => {
            let current = V::sample(random.below(VALUES as u64));
            took(map.compare_exchange(&key, &current, value).ok())
        }
        5 => took(map.fetch_update(&key, |_| Some(value.clone())).ok()),
        6 => {
            took(map.compute(key, |_| Compute::Put(value.clone())));
            true
        }
        7 => {
            took(map.compute(key, |_| Compute::Remove));
            false
        }
        8 => {
            took(map.remove_if(&key, |present| *present == value));
            false
        }
        _ => return operate_batch::<K, V, M>(map, key, value, balance),
    };
    balance[number as usize] += i64::from(put);
}

/// Runs a batch whose operations depend on each other.
fn operate_batch<K: Sample, V: Sample, M: ConcurrentMap<K, V>>(
    map: &M,
    key: K,
    value: V,
    balance: &mut Balance,
) {
    let number = value.number() as usize;
    let mut batch = [
        Op::new(Request::Remove(key.clone())),
        Op::new(Request::TryInsert(key.clone(), value.clone())),
        Op::new(Request::Update(key, value)),
    ];
    assert_eq!(map.execute(&mut batch, Stop::Never), batch.len());
    for op in batch {
        match op.outcome {
            Outcome::Inserted => balance[number] += 1,
            Outcome::Removed(value) => balance[value.number() as usize] -= 1,
            Outcome::Replaced(value) => {
                balance[number] += 1;
                balance[value.number() as usize] -= 1;
            }
            Outcome::Missing | Outcome::Occupied(_) => {}
            outcome => panic!("{:?} came to {outcome:?}", op.request),
        }
    }
}

/// Threads move amounts between keys by `fetch_update` and `compare_exchange`; the total stays.
///
/// # Panics
/// If the map fails the check.
pub fn transfers_keep_the_total<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    const ACCOUNTS: u64 = 20;
    const START: u64 = 1_000_000;
    let map = &subject.adversarial();
    (0..ACCOUNTS).for_each(|key| drop(map.insert(K::sample(key), V::sample(START))));
    let running = Running::new(3);
    let add = |key: &K, amount: u64| {
        let add = |value: &V| Some(V::sample(value.number() + amount));
        map.fetch_update(key, add).expect("the account exists");
    };
    together(4, |thread| {
        let mut random = Random::new(thread as u64);
        if thread == 3 {
            while running.any() {
                upset::<K, V, _>(map, &mut random, 1 << 32);
            }
            return;
        }
        let _run = running.one();
        for _ in 0..scaled(150_000) {
            let from = K::sample(random.below(ACCOUNTS));
            let to = K::sample(random.below(ACCOUNTS));
            let amount = random.below(100);
            let present = map.get(&from).expect("the account exists");
            let rest = V::sample(present.number() - amount);
            match map.compare_exchange(&from, &present, rest) {
                Ok(before) => assert_eq!(before, present),
                Err(other) => {
                    // An equal value may be there again by now, so only the existence of the
                    // account is known.
                    assert!(other.is_some(), "an account was missed");
                    let subtract = |value: &V| Some(V::sample(value.number() - amount));
                    map.fetch_update(&from, subtract).expect("the account exists");
                }
            }
            add(&to, amount);
        }
    });
    let total: u64 = map.iter().map(|(_, value)| value.number()).sum();
    assert_eq!(total, ACCOUNTS * START);
}
