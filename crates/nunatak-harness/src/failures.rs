//! Panics of the caller's code, at any of its calls.

use crate::random::Random;
use crate::sample::Sample;
use nunatak::{Compute, ConcurrentMap};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts calls down and panics at one of them. Clones share the count.
#[derive(Debug, Clone)]
pub struct Fuse {
    calls_left: Arc<AtomicUsize>,
}

/// The payload of a burnt fuse's panic.
#[derive(Debug)]
struct Burnt;

const DISARMED: usize = usize::MAX;

impl Default for Fuse {
    /// Makes a fuse that never burns until it is armed.
    fn default() -> Self {
        Self { calls_left: Arc::new(AtomicUsize::new(DISARMED)) }
    }
}

impl Fuse {
    /// Makes the call after `calls` calls panic.
    pub fn arm(&self, calls: usize) {
        self.calls_left.store(calls, Ordering::SeqCst);
    }

    /// Makes no call panic.
    pub fn disarm(&self) {
        self.calls_left.store(DISARMED, Ordering::SeqCst);
    }

    /// Counts a call of the caller's code.
    ///
    /// # Panics
    /// If it is the chosen call. A fuse burns once.
    pub fn call(&self) {
        let step = |left| match left {
            DISARMED => None,
            0 => Some(DISARMED),
            left => Some(left - 1),
        };
        if self.calls_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step) == Ok(0) {
            // Unwinds without a message, which would fill the test's output.
            resume_unwind(Box::new(Burnt));
        }
    }
}

/// Runs `f`. Returns `None` if a fuse burnt meanwhile; other panics continue.
pub fn catch<R>(f: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(value) => Some(value),
        Err(payload) if payload.is::<Burnt>() => None,
        Err(payload) => resume_unwind(payload),
    }
}

/// Makes the fuse burn at its `calls`th call amid operations on an empty map; `map` must call it.
/// For each of its keys the panicked operation was done or was not done, and nothing else is
/// different.
///
/// # Panics
/// If the map fails the check.
pub fn survives<K: Sample, V: Sample, M: ConcurrentMap<K, V>>(map: &M, fuse: &Fuse, calls: usize) {
    let mut model: HashMap<u64, u64> = (0..20).map(|key| (key, key)).collect();
    for &key in model.keys() {
        assert_eq!(map.insert(K::sample(key), V::sample(key)), None);
    }
    let mut random = Random::new(calls as u64);
    fuse.arm(calls);
    for round in 0..300 {
        let keys = [random.below(60), 60 + random.below(200)];
        let after = 1000 + round;
        let done = catch(|| operate::<K, V, M>(map, round % 8, keys, after));
        if done.is_none() {
            fuse.disarm();
        }
        for key in keys {
            let got = catch(|| map.get(&K::sample(key)));
            // A second try, if the fuse burnt in the get itself.
            let got = got.unwrap_or_else(|| map.get(&K::sample(key))).map(|value| value.number());
            let before = model.get(&key).copied();
            assert!(
                got == before || got == Some(after) || got.is_none(),
                "key {key} has {got:?}, but had {before:?} and was given {after}"
            );
            match got {
                Some(value) => model.insert(key, value),
                None => model.remove(&key),
            };
        }
        if done.is_none() {
            break;
        }
    }
    fuse.disarm();
    still_usable::<K, V, M>(map, &model);
}

fn operate<K: Sample, V: Sample, M: ConcurrentMap<K, V>>(
    map: &M,
    kind: u64,
    keys: [u64; 2],
    value: u64,
) {
    let [first, second] = keys.map(K::sample);
    let value = V::sample(value);
    match kind {
        0 | 1 => {
            map.insert_many(&[(first, value.clone()), (second, value)], &mut [None, None])
                .expect("room for two");
        }
        2 => drop(map.try_insert(first, value)),
        3 => drop(map.update(&first, value)),
        4 => drop(map.compute(second, |_| Compute::Put(value.clone()))),
        5 => drop(map.remove(&first)),
        6 => drop(map.get_or_insert_with(second, || value.clone())),
        _ => drop(map.fetch_update(&first, |_| Some(value.clone()))),
    }
}

/// Checks that the map holds the model's entries, and can grow, shrink and be emptied.
fn still_usable<K: Sample, V: Sample, M: ConcurrentMap<K, V>>(map: &M, model: &HashMap<u64, u64>) {
    let mut entries: Vec<_> = map.iter().map(|(k, v)| (k.number(), v.number())).collect();
    let mut expected: Vec<_> = model.iter().map(|(&k, &v)| (k, v)).collect();
    entries.sort_unstable();
    expected.sort_unstable();
    assert_eq!(entries, expected, "entries after the panic");
    assert_eq!(map.len(), model.len(), "len after the panic");
    for key in 10_000..10_400 {
        assert_eq!(map.insert(K::sample(key), V::sample(key)), None);
    }
    assert_eq!(map.snapshot().expect("memory for a snapshot").count(), model.len() + 400);
    for (&key, &value) in model {
        assert_eq!(map.remove(&K::sample(key)), Some(V::sample(value)), "key {key}");
    }
    assert_eq!(map.shrink_to_fit(), Ok(()));
    map.clear();
    assert_eq!((map.len(), map.iter().count()), (0, 0), "after all was removed");
}
