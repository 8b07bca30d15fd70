//! Random sequences of operations against `std::collections::HashMap`.

use crate::effort::scaled;
use crate::sample::Sample;
use crate::steps::{Pair, Room, Step};
use crate::subject::Subject;
use nunatak::{Compute, ConcurrentMap, Request, Stop};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Keys that implementations may have taken for something else: markers,
/// signs, what only high bits tell apart.
const ADVERSARIAL_KEYS: [u64; 14] = [
    0,
    1,
    2,
    3,
    u64::MAX,
    u64::MAX - 1,
    u64::MAX - 2,
    1 << 63,
    (1 << 63) - 1,
    (1 << 63) + 1,
    1 << 40,
    2 << 40,
    3 << 40,
    4 << 40,
];

const CAPACITIES: [usize; 7] = [0, 1, 7, 64, 100, 1000, 10_000];

fn key() -> impl Strategy<Value = u64> {
    prop_oneof![
        5 => 0..24_u64,
        3 => prop::sample::select(&ADVERSARIAL_KEYS[..]),
        1 => 0..3000_u64,
    ]
}

fn value() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..100_u64, 1 => any::<u64>()]
}

fn room() -> impl Strategy<Value = Room> {
    prop_oneof![
        6 => Just(Room::Exact),
        1 => (1..4_usize).prop_map(Room::Spare),
        1 => (1..4_usize).prop_map(Room::Short),
    ]
}

/// Mostly short; sometimes so long that the table grows on the way.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..24_usize, 1 => 200..1500_usize]
}

fn keys() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        prop::collection::vec(key(), 0..24),
        (0..1000_u64, length()).prop_map(|(first, n)| (first..first + n as u64).collect()),
    ]
}

fn request() -> impl Strategy<Value = Request<u64, u64>> {
    (key(), value(), 0..5).prop_map(|(key, value, kind)| match kind {
        0 => Request::Get(key),
        1 => Request::Insert(key, value),
        2 => Request::TryInsert(key, value),
        3 => Request::Update(key, value),
        _ => Request::Remove(key),
    })
}

fn decision() -> impl Strategy<Value = Compute<u64>> {
    prop_oneof![
        1 => Just(Compute::Keep),
        2 => value().prop_map(Compute::Put),
        1 => Just(Compute::Remove),
    ]
}

fn one_key() -> impl Strategy<Value = Step> {
    prop_oneof![
        key().prop_map(Step::Get),
        key().prop_map(Step::ContainsKey),
        (key(), value()).prop_map(|(key, value)| Step::Insert(key, value)),
        (key(), value()).prop_map(|(key, value)| Step::TryInsert(key, value)),
        (key(), value()).prop_map(|(key, value)| Step::Update(key, value)),
        (key(), any::<bool>(), value()).prop_map(|(key, matching, new)| Step::CompareExchange {
            key,
            matching,
            new
        }),
        (key(), prop::option::of(value())).prop_map(|(key, new)| Step::FetchUpdate { key, new }),
        (key(), decision()).prop_map(|(key, decision)| Step::Compute { key, decision }),
        (key(), value()).prop_map(|(key, value)| Step::GetOrInsertWith(key, value)),
        key().prop_map(Step::Remove),
        key().prop_map(Step::RemoveIfOdd),
        key().prop_map(Step::Prefetch),
    ]
}

/// Keys with values that differ.
fn numbered() -> impl Strategy<Value = Vec<(u64, u64)>> {
    (keys(), value())
        .prop_map(|(keys, first)| keys.into_iter().zip((first..=u64::MAX).chain(0..)).collect())
}

fn batch() -> impl Strategy<Value = Step> {
    let stop = prop_oneof![Just(Stop::Never), Just(Stop::AtFirstFailure)];
    prop_oneof![
        (keys(), room()).prop_map(|(keys, room)| Step::GetMany { keys, room }),
        (numbered(), room()).prop_map(|(entries, room)| Step::InsertMany { entries, room }),
        (numbered(), room()).prop_map(|(entries, room)| Step::UpdateMany { entries, room }),
        (keys(), room()).prop_map(|(keys, room)| Step::RemoveMany { keys, room }),
        (prop::collection::vec(request(), 0..40), stop)
            .prop_map(|(requests, stop)| Step::Execute { requests, stop }),
    ]
}

fn whole() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Iterate),
        3 => Just(Step::Snapshot),
        2 => (2..5_u64).prop_map(Step::RetainMultiplesOf),
        1 => Just(Step::Clear),
        1 => (0..3000_usize).prop_map(Step::Reserve),
        1 => Just(Step::ReserveTooMuch),
        2 => Just(Step::ShrinkToFit),
        2 => Just(Step::Observe),
    ]
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![12 => one_key(), 4 => batch(), 2 => whole()]
}

/// Fails with the shortest sequence of steps that it finds to fail.
pub(crate) fn check_cases<M, K, V>(cases: u32, steps: usize, build: impl Fn(Option<usize>) -> M)
where
    K: Sample,
    V: Sample,
    M: ConcurrentMap<K, V>,
{
    let cases = u32::try_from(scaled(cases as usize)).unwrap_or(u32::MAX);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let capacity = prop::option::of(prop::sample::select(&CAPACITIES[..]));
    let sequences = (capacity, prop::collection::vec(step(), 1..steps));
    let outcome = TestRunner::new(config).run(&sequences, |(capacity, steps)| {
        let map = build(capacity);
        let mut pair = Pair::<K, V, M>::new(&map);
        steps.iter().for_each(|step| pair.apply(step));
        pair.apply(&Step::Iterate);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Every operation, in any order, does to the map what it does to the model.
///
/// # Panics
/// If not.
pub fn agrees_with_a_hash_map<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S) {
    check_cases::<_, K, V>(400, 120, |capacity| match capacity {
        Some(capacity) => subject.build(capacity),
        None => subject.adversarial(),
    });
}
