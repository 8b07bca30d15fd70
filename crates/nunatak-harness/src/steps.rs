//! One step of a sequence of operations, applied to a map and to a model of it.

use crate::sample::Sample;
use nunatak::{BatchError, Compute, ConcurrentMap, Error, Op, Outcome, Request, Stop};
use std::collections::HashMap;
use std::marker::PhantomData;

/// An operation. Its numbers stand for keys and values.
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

/// The size of a batch's output, compared with the needed size.
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

/// The contents of outputs before a batch, to see what the batch wrote.
const UNTOUCHED: u64 = 0xDEAD;

/// A map and the model that it must agree with.
pub(crate) struct Pair<'m, K, V, M> {
    map: &'m M,
    model: HashMap<u64, u64>,
    types: PhantomData<(K, V)>,
}

impl<'m, K: Sample, V: Sample, M: ConcurrentMap<K, V>> Pair<'m, K, V, M> {
    /// Makes a pair. The map must be empty.
    pub(crate) fn new(map: &'m M) -> Self {
        Self { map, model: HashMap::new(), types: PhantomData }
    }

    /// Applies the step to both.
    ///
    /// # Panics
    /// If they disagree.
    pub(crate) fn apply(&mut self, step: &Step) {
        match *step {
            Step::Compute { key, decision } => self.compute(key, decision),
            Step::CompareExchange { .. } | Step::FetchUpdate { .. } | Step::RemoveIfOdd(_) => {
                self.conditional(step);
            }
            Step::GetMany { .. }
            | Step::InsertMany { .. }
            | Step::UpdateMany { .. }
            | Step::RemoveMany { .. } => self.batch(step),
            Step::Execute { ref requests, stop } => self.execute(requests, stop),
            Step::Iterate
            | Step::Snapshot
            | Step::RetainMultiplesOf(_)
            | Step::Clear
            | Step::Reserve(_)
            | Step::ReserveTooMuch
            | Step::ShrinkToFit
            | Step::Observe => self.whole(step),
            _ => self.single(step),
        }
        assert_eq!(self.map.len(), self.model.len(), "len");
    }

    fn single(&mut self, step: &Step) {
        let Self { map, model, .. } = self;
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

    fn conditional(&mut self, step: &Step) {
        let Self { map, model, .. } = self;
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

    fn compute(&mut self, key: u64, decision: Compute<u64>) {
        let present = self.model.get(&key).copied();
        let got = self.map.compute(K::sample(key), |value| {
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

    fn batch(&mut self, step: &Step) {
        let map = self.map;
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

    fn execute(&mut self, requests: &[Request<u64, u64>], stop: Stop) {
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
        assert_eq!(self.map.execute(&mut batch, stop), executed, "how many were executed");
        assert_eq!(batch, expected);
    }

    fn whole(&mut self, step: &Step) {
        let map = self.map;
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
                // Colliding keys may all be kept beside the slots, so entries don't imply a load;
                // but a load implies entries.
                assert!(load == 0.0 || !self.model.is_empty(), "a load factor of {load}");
                let usage = map.memory_usage();
                assert!(usage.resident <= usage.mapped, "{usage:?}");
                assert!(!format!("{:?}", map.stats()).is_empty());
            }
            _ => unreachable!("{step:?} is not about the whole map"),
        }
    }

    /// Checks that these are the model's entries, each once.
    fn agrees(&self, entries: impl Iterator<Item = (K, V)>) {
        let mut entries: Vec<_> =
            entries.map(|(key, value)| (key.number(), value.number())).collect();
        entries.sort_unstable();
        let mut expected: Vec<_> = self.model.iter().map(|(&k, &v)| (k, v)).collect();
        expected.sort_unstable();
        assert_eq!(entries, expected, "entries");
    }
}

/// Calls a batch, and compares all its results and outputs.
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
