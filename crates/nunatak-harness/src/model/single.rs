//! Maps with one value a key, whose model is `std::collections::HashMap`.

use super::{Model, check_cases};
use crate::sample::Sample;
use crate::subject::Subject;
use nunatak::{BatchError, Compute, ConcurrentMap, Error, Op, Outcome, Request, Stop};
use proptest::prelude::*;
use std::collections::HashMap;
use std::marker::PhantomData;

/// An operation, on keys and values made from these numbers.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Get(u64),
    ContainsKey(u64),
    Insert(u64, u64),
    TryInsert(u64, u64),
    Update(u64, u64),
    CompareExchange { key: u64, matching: bool, new: u64 },
    FetchUpdate { key: u64, new: Option<u64> },
    Compute { key: u64, decision: Compute<u64> },
    GetOrInsertWith(u64, u64),
    Remove(u64),
    RemoveIfOdd(u64),
    GetMany { keys: Vec<u64>, room: Room },
    InsertMany { entries: Vec<(u64, u64)>, room: Room },
    UpdateMany { entries: Vec<(u64, u64)>, room: Room },
    RemoveMany { keys: Vec<u64>, room: Room },
    Execute { requests: Vec<Request<u64, u64>>, stop: Stop },
    Iterate,
    Snapshot,
    RetainMultiplesOf(u64),
    Clear,
    Reserve(usize),
    ReserveTooMuch,
    ShrinkToFit,
    Prefetch(u64),
    Observe,
}

/// The length of a batch's output, compared with what the batch needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    Short(usize),
    Exact,
    Spare(usize),
}

impl Room {
    fn results(self, requests: usize) -> usize {
        match self {
            Self::Short(by) => requests.saturating_sub(by),
            Self::Exact => requests,
            Self::Spare(by) => requests + by,
        }
    }
}

/// The contents of outputs before a batch, which show what the batch wrote.
const UNTOUCHED: u64 = 0xDEAD;

/// Keys that implementations may confuse with others: markers, signs, keys that differ in high bits
/// only.
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

/// Draws a length: mostly short, sometimes so long that the table grows on the way.
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

/// Draws keys with distinct values.
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

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![12 => one_key(), 4 => batch(), 2 => whole()]
}

/// The expected contents of a map.
pub(crate) struct Single<K, V> {
    model: HashMap<u64, u64>,
    types: PhantomData<(K, V)>,
}

impl<K, V> Default for Single<K, V> {
    fn default() -> Self {
        Self { model: HashMap::new(), types: PhantomData }
    }
}

impl<K: Sample, V: Sample, M: ConcurrentMap<K, V>> Model<M> for Single<K, V> {
    type Step = Step;

    fn step() -> impl Strategy<Value = Step> {
        step()
    }

    fn apply(&mut self, map: &M, step: &Step) {
        match *step {
            Step::Compute { key, decision } => self.compute(map, key, decision),
            Step::CompareExchange { .. } | Step::FetchUpdate { .. } | Step::RemoveIfOdd(_) => {
                self.conditional(map, step);
            }
            Step::GetMany { .. }
            | Step::InsertMany { .. }
            | Step::UpdateMany { .. }
            | Step::RemoveMany { .. } => {
                self.batch(map, step);
            }
            Step::Execute { ref requests, stop } => self.execute(map, requests, stop),
            Step::Iterate
            | Step::Snapshot
            | Step::RetainMultiplesOf(_)
            | Step::Clear
            | Step::Reserve(_)
            | Step::ReserveTooMuch
            | Step::ShrinkToFit
            | Step::Observe => self.whole(map, step),
            _ => self.single(map, step),
        }
        assert_eq!(map.len(), self.model.len(), "len");
    }

    fn compare(&self, map: &M) {
        self.agrees(map.iter());
    }
}

impl<K: Sample, V: Sample> Single<K, V> {
    fn single<M: ConcurrentMap<K, V>>(&mut self, map: &M, step: &Step) {
        let model = &mut self.model;
        match *step {
            Step::Get(key) => {
                assert_eq!(map.get(&K::sample(key)), model.get(&key).copied().map(V::sample));
            }
            Step::ContainsKey(key) => {
                assert_eq!(map.contains_key(&K::sample(key)), model.contains_key(&key));
            }
            Step::Insert(key, value) => {
                let before = model.insert(key, value).map(V::sample);
                assert_eq!(map.insert(K::sample(key), V::sample(value)), before);
            }
            Step::TryInsert(key, value) => {
                let expected = match model.get(&key) {
                    Some(&present) => Err(V::sample(present)),
                    None => Ok(()),
                };
                model.entry(key).or_insert(value);
                assert_eq!(map.try_insert(K::sample(key), V::sample(value)), expected);
            }
            Step::Update(key, value) => {
                let before = model.get_mut(&key).map(|v| std::mem::replace(v, value));
                assert_eq!(map.update(&K::sample(key), V::sample(value)), before.map(V::sample));
            }
            Step::GetOrInsertWith(key, value) => {
                let absent = !model.contains_key(&key);
                let expected = V::sample(*model.entry(key).or_insert(value));
                let mut made = false;
                let got = map.get_or_insert_with(K::sample(key), || {
                    made = true;
                    V::sample(value)
                });
                assert_eq!((got, made), (expected, absent));
            }
            Step::Remove(key) => {
                let before = model.remove(&key).map(V::sample);
                assert_eq!(map.remove(&K::sample(key)), before);
            }
            Step::Prefetch(key) => map.prefetch(&K::sample(key)),
            _ => unreachable!("{step:?} is not about one key"),
        }
    }

    fn conditional<M: ConcurrentMap<K, V>>(&mut self, map: &M, step: &Step) {
        let model = &mut self.model;
        match *step {
            Step::CompareExchange { key, matching, new } => {
                let present = model.get(&key).copied();
                let current = V::sample(present.unwrap_or(0) ^ u64::from(!matching));
                let got = map.compare_exchange(&K::sample(key), &current, V::sample(new));
                let expected = match present {
                    Some(present) if matching => {
                        model.insert(key, new);
                        Ok(V::sample(present))
                    }
                    present => Err(present.map(V::sample)),
                };
                assert_eq!(got, expected);
            }
            Step::FetchUpdate { key, new } => {
                let present = model.get(&key).copied();
                let got = map.fetch_update(&K::sample(key), |value| {
                    assert_eq!(Some(value.number()), present, "the closure's argument");
                    new.map(V::sample)
                });
                let expected = match (present, new) {
                    (Some(present), Some(new)) => {
                        model.insert(key, new);
                        Ok(V::sample(present))
                    }
                    (present, _) => Err(present.map(V::sample)),
                };
                assert_eq!(got, expected);
            }
            Step::RemoveIfOdd(key) => {
                let present = model.get(&key).copied();
                let got = map.remove_if(&K::sample(key), |value| {
                    assert_eq!(Some(value.number()), present, "the closure's argument");
                    value.number() % 2 == 1
                });
                let removed = present.filter(|value| value % 2 == 1);
                if removed.is_some() {
                    model.remove(&key);
                }
                assert_eq!(got, removed.map(V::sample));
            }
            _ => unreachable!("{step:?} has no condition"),
        }
    }

    fn compute<M: ConcurrentMap<K, V>>(&mut self, map: &M, key: u64, decision: Compute<u64>) {
        let present = self.model.get(&key).copied();
        let got = map.compute(K::sample(key), |value| {
            assert_eq!(value.map(V::number), present, "the closure's argument");
            match decision {
                Compute::Keep => Compute::Keep,
                Compute::Put(new) => Compute::Put(V::sample(new)),
                Compute::Remove => Compute::Remove,
            }
        });
        assert_eq!(got, present.map(V::sample));
        match decision {
            Compute::Keep => None,
            Compute::Put(new) => self.model.insert(key, new),
            Compute::Remove => self.model.remove(&key),
        };
    }

    fn batch<M: ConcurrentMap<K, V>>(&mut self, map: &M, step: &Step) {
        let samples = |keys: &[u64]| keys.iter().copied().map(K::sample).collect::<Vec<_>>();
        match step {
            Step::GetMany { keys, room } => {
                let expected: Vec<_> =
                    keys.iter().map(|key| self.model.get(key).copied()).collect();
                let found = expected.iter().flatten().count();
                check_batch::<V>(&expected, *room, found, |out| map.get_many(&samples(keys), out));
            }
            Step::InsertMany { entries, room } => {
                let executed = room.results(entries.len()) >= entries.len();
                let expected: Vec<_> = entries
                    .iter()
                    .map(|&(key, value)| executed.then(|| self.model.insert(key, value)).flatten())
                    .collect();
                let new = expected.iter().filter(|before| before.is_none()).count();
                let entries: Vec<_> =
                    entries.iter().map(|&(k, v)| (K::sample(k), V::sample(v))).collect();
                check_batch::<V>(&expected, *room, new, |out| map.insert_many(&entries, out));
            }
            Step::UpdateMany { entries, room } => {
                let executed = room.results(entries.len()) >= entries.len();
                let expected: Vec<_> = entries
                    .iter()
                    .map(|&(key, value)| {
                        let present = self.model.get_mut(&key).filter(|_| executed);
                        present.map(|present| std::mem::replace(present, value))
                    })
                    .collect();
                let found = expected.iter().flatten().count();
                let entries: Vec<_> =
                    entries.iter().map(|&(k, v)| (K::sample(k), V::sample(v))).collect();
                check_batch::<V>(&expected, *room, found, |out| map.update_many(&entries, out));
            }
            Step::RemoveMany { keys, room } => {
                let executed = room.results(keys.len()) >= keys.len();
                let expected: Vec<_> = keys
                    .iter()
                    .map(|key| executed.then(|| self.model.remove(key)).flatten())
                    .collect();
                let found = expected.iter().flatten().count();
                check_batch::<V>(&expected, *room, found, |out| {
                    map.remove_many(&samples(keys), out)
                });
            }
            _ => unreachable!("{step:?} is no batch"),
        }
    }

    fn execute<M: ConcurrentMap<K, V>>(
        &mut self,
        map: &M,
        requests: &[Request<u64, u64>],
        stop: Stop,
    ) {
        let mut batch: Vec<_> = requests.iter().map(|r| Op::new(sample_request(*r))).collect();
        let mut stopped = false;
        let mut executed = 0;
        let mut expected = Vec::new();
        for &request in requests {
            let outcome =
                if stopped { Outcome::Pending } else { execute_model(&mut self.model, request) };
            executed += usize::from(!stopped);
            stopped |= stop == Stop::AtFirstFailure && !outcome.is_success();
            expected
                .push(Op { request: sample_request(request), outcome: sample_outcome(outcome) });
        }
        assert_eq!(map.execute(&mut batch, stop), executed, "how many were executed");
        assert_eq!(batch, expected);
    }

    fn whole<M: ConcurrentMap<K, V>>(&mut self, map: &M, step: &Step) {
        match *step {
            Step::Iterate => self.agrees(map.iter()),
            Step::Snapshot => self.agrees(map.snapshot().expect("memory for a snapshot")),
            Step::RetainMultiplesOf(factor) => {
                map.retain(|key, value| {
                    let expected = self.model.get(&key.number());
                    assert_eq!(expected, Some(&value.number()), "retain's argument");
                    value.number().is_multiple_of(factor)
                });
                self.model.retain(|_, value| value.is_multiple_of(factor));
            }
            Step::Clear => {
                map.clear();
                self.model.clear();
            }
            Step::Reserve(additional) => assert_eq!(map.reserve(additional), Ok(())),
            Step::ReserveTooMuch => assert!(matches!(
                map.reserve(usize::MAX),
                Err(Error::CapacityOverflow | Error::OutOfMemory { .. })
            )),
            Step::ShrinkToFit => assert_eq!(map.shrink_to_fit(), Ok(())),
            Step::Observe => {
                assert_eq!(map.is_empty(), self.model.is_empty());
                let load = map.load_factor();
                assert!((0.0..=1.0).contains(&load), "a load factor of {load}");
                // A map may keep all colliding keys beside its slots, so entries do not imply a
                // load; but a load implies entries.
                assert!(load == 0.0 || !self.model.is_empty(), "a load factor of {load}");
                let usage = map.memory_usage();
                assert!(usage.resident <= usage.mapped, "{usage:?}");
                assert!(!format!("{:?}", map.stats()).is_empty());
            }
            _ => unreachable!("{step:?} is not about the whole map"),
        }
    }

    /// Returns whether these are the model's entries, each once.
    fn agrees(&self, entries: impl Iterator<Item = (K, V)>) {
        let mut entries: Vec<_> =
            entries.map(|(key, value)| (key.number(), value.number())).collect();
        entries.sort_unstable();
        let mut expected: Vec<_> = self.model.iter().map(|(&k, &v)| (k, v)).collect();
        expected.sort_unstable();
        assert_eq!(entries, expected, "entries");
    }
}

/// Calls a batch and compares all that it returns and writes.
fn check_batch<V: Sample>(
    expected: &[Option<u64>],
    room: Room,
    count: usize,
    call: impl FnOnce(&mut [Option<V>]) -> Result<usize, BatchError>,
) {
    let (requests, results) = (expected.len(), room.results(expected.len()));
    let mut out = vec![Some(V::sample(UNTOUCHED)); results];
    let returned = call(&mut out);
    let mut written = expected.to_vec();
    if results < requests {
        assert_eq!(returned, Err(BatchError { requests, results }));
        written.clear();
    } else {
        assert_eq!(returned, Ok(count), "what a batch counts");
    }
    written.resize(results, Some(UNTOUCHED));
    let out: Vec<_> = out.iter().map(|value| value.as_ref().map(V::number)).collect();
    assert_eq!(out, written, "a batch's results");
}

fn execute_model(model: &mut HashMap<u64, u64>, request: Request<u64, u64>) -> Outcome<u64> {
    let before = model.get(request.key()).copied();
    match (request, before) {
        (Request::Insert(key, value) | Request::Update(key, value), Some(before)) => {
            model.insert(key, value);
            Outcome::Replaced(before)
        }
        (Request::Insert(key, value) | Request::TryInsert(key, value), None) => {
            model.insert(key, value);
            Outcome::Inserted
        }
        (Request::Remove(key), Some(before)) => {
            model.remove(&key);
            Outcome::Removed(before)
        }
        (Request::TryInsert(..), Some(before)) => Outcome::Occupied(before),
        (Request::Get(_), Some(before)) => Outcome::Found(before),
        (Request::Get(_) | Request::Update(..) | Request::Remove(_), None) => Outcome::Missing,
    }
}

fn sample_request<K: Sample, V: Sample>(request: Request<u64, u64>) -> Request<K, V> {
    match request {
        Request::Get(key) => Request::Get(K::sample(key)),
        Request::Insert(key, value) => Request::Insert(K::sample(key), V::sample(value)),
        Request::TryInsert(key, value) => Request::TryInsert(K::sample(key), V::sample(value)),
        Request::Update(key, value) => Request::Update(K::sample(key), V::sample(value)),
        Request::Remove(key) => Request::Remove(K::sample(key)),
    }
}

fn sample_outcome<V: Sample>(outcome: Outcome<u64>) -> Outcome<V> {
    match outcome {
        Outcome::Pending => Outcome::Pending,
        Outcome::Found(value) => Outcome::Found(V::sample(value)),
        Outcome::Missing => Outcome::Missing,
        Outcome::Inserted => Outcome::Inserted,
        Outcome::Replaced(value) => Outcome::Replaced(V::sample(value)),
        Outcome::Occupied(value) => Outcome::Occupied(V::sample(value)),
        Outcome::Removed(value) => Outcome::Removed(V::sample(value)),
    }
}

/// Checks that every operation, in any order, has the same effect on the map and on the model.
///
/// # Panics
/// If map and model disagree.
pub fn agrees_with_a_hash_map<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S) {
    check_cases::<Single<K, V>, _>(400, 120, |capacity| match capacity {
        Some(capacity) => subject.build(capacity),
        None => subject.adversarial(),
    });
}
