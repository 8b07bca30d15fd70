//! The reference map, which is simple enough to be seen correct.

use nunatak::{BatchError, Compute, ConcurrentMap, Error, MemoryUsage, Op, Outcome, Request, Stop};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::mem::{replace, size_of};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A hash map behind one lock. Closures run without the lock, and their decision takes effect if
/// the entry is still the one that they saw.
///
/// ```
/// use nunatak::ConcurrentMap;
/// use nunatak_harness::ReferenceMap;
/// let map: ReferenceMap<u64, u64> = ReferenceMap::with_capacity(10);
/// map.insert(1, 2);
/// assert_eq!(map.get(&1), Some(2));
/// ```
#[derive(Debug)]
pub struct ReferenceMap<K, V, S = RandomState> {
    hasher: S,
    state: Mutex<State<K, V>>,
}

#[derive(Debug)]
struct State<K, V> {
    /// By the caller's hash, which is computed before the lock is taken. So a hasher that panics
    /// leaves nothing half done.
    buckets: HashMap<u64, Vec<Entry<K, V>>>,
    len: usize,
    stamps: u64,
}

#[derive(Debug, Clone)]
struct Entry<K, V> {
    key: K,
    value: V,
    /// Unique to each value, so that equal values can be told apart.
    stamp: u64,
}

/// The condition of a change.
#[derive(Clone, Copy)]
enum When {
    Always,
    Absent,
    Present,
    Unchanged(u64),
}

impl When {
    fn holds<K, V>(self, entry: Option<&Entry<K, V>>) -> bool {
        match self {
            Self::Always => true,
            Self::Absent => entry.is_none(),
            Self::Present => entry.is_some(),
            Self::Unchanged(stamp) => entry.is_some_and(|entry| entry.stamp == stamp),
        }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> ReferenceMap<K, V> {
    /// Makes an empty map with room for `capacity` entries.
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_capacity_and_hasher(capacity, RandomState::new())
    }
}

impl<K: Clone + Eq + Hash, V: Clone, S: BuildHasher> ReferenceMap<K, V, S> {
    /// Makes an empty map with room for `capacity` entries, which hashes with `hasher`.
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        let state = State { buckets: HashMap::with_capacity(capacity), len: 0, stamps: 0 };
        Self { hasher, state: Mutex::new(state) }
    }

    /// A panic of the caller's code leaves the state as it was, so poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, key: &K) -> Option<Entry<K, V>> {
        let hash = self.hasher.hash_one(key);
        let state = self.lock();
        state.buckets.get(&hash)?.iter().find(|entry| entry.key == *key).cloned()
    }

    /// Stores the value and returns the replaced one, or returns the value that is there instead.
    fn put(&self, key: K, value: V, when: When) -> Result<Option<V>, Option<V>> {
        let hash = self.hasher.hash_one(&key);
        let mut state = self.lock();
        let stamp = state.stamps;
        let State { buckets, len, stamps } = &mut *state;
        let present = buckets
            .get_mut(&hash)
            .and_then(|bucket| bucket.iter_mut().find(|entry| entry.key == key));
        if !when.holds(present.as_deref()) {
            return Err(present.map(|entry| entry.value.clone()));
        }
        *stamps += 1;
        match present {
            Some(entry) => {
                entry.stamp = stamp;
                Ok(Some(replace(&mut entry.value, value)))
            }
            None => {
                buckets.entry(hash).or_default().push(Entry { key, value, stamp });
                *len += 1;
                Ok(None)
            }
        }
    }

    /// Removes the key. Returns `None` also if the condition does not hold.
    fn take(&self, key: &K, when: When) -> Option<V> {
        let hash = self.hasher.hash_one(key);
        let mut state = self.lock();
        let bucket = state.buckets.get_mut(&hash)?;
        let at = bucket.iter().position(|entry| entry.key == *key)?;
        if !when.holds(bucket.get(at)) {
            return None;
        }
        let Entry { key, value, .. } = bucket.swap_remove(at);
        if bucket.is_empty() {
            state.buckets.remove(&hash);
        }
        state.len -= 1;
        // The key's destructor is the caller's code.
        drop(state);
        drop(key);
        Some(value)
    }

    fn entries(&self) -> Vec<Entry<K, V>> {
        self.lock().buckets.values().flatten().cloned().collect()
    }

    fn execute_one(&self, request: &Request<K, V>) -> Outcome<V> {
        let found = |before: Option<V>, then: fn(V) -> Outcome<V>, otherwise: Outcome<V>| {
            before.map_or(otherwise, then)
        };
        match request.clone() {
            Request::Get(key) => found(self.get(&key), Outcome::Found, Outcome::Missing),
            Request::Insert(key, value) => {
                found(self.insert(key, value), Outcome::Replaced, Outcome::Inserted)
            }
            Request::TryInsert(key, value) => {
                found(self.try_insert(key, value).err(), Outcome::Occupied, Outcome::Inserted)
            }
            Request::Update(key, value) => {
                found(self.update(&key, value), Outcome::Replaced, Outcome::Missing)
            }
            Request::Remove(key) => found(self.remove(&key), Outcome::Removed, Outcome::Missing),
        }
    }
}

/// Checks only that a batch's results fit.
fn fits(requests: usize, results: usize) -> Result<(), BatchError> {
    if results < requests { Err(BatchError { requests, results }) } else { Ok(()) }
}

impl<K: Clone + Eq + Hash, V: Clone, S: BuildHasher> ConcurrentMap<K, V> for ReferenceMap<K, V, S> {
    type Stats = usize;

    fn get(&self, key: &K) -> Option<V> {
        self.find(key).map(|entry| entry.value)
    }

    fn insert(&self, key: K, value: V) -> Option<V> {
        self.put(key, value, When::Always).unwrap_or_else(|present| present)
    }

    fn try_insert(&self, key: K, value: V) -> Result<(), V> {
        match self.put(key, value, When::Absent) {
            Ok(_) | Err(None) => Ok(()),
            Err(Some(present)) => Err(present),
        }
    }

    fn update(&self, key: &K, value: V) -> Option<V> {
        self.put(key.clone(), value, When::Present).ok().flatten()
    }

    fn compare_exchange(&self, key: &K, current: &V, new: V) -> Result<V, Option<V>>
    where
        V: PartialEq,
    {
        self.fetch_update(key, |present| (present == current).then(|| new.clone()))
    }

    fn fetch_update<F>(&self, key: &K, mut f: F) -> Result<V, Option<V>>
    where
        F: FnMut(&V) -> Option<V>,
    {
        loop {
            let Some(Entry { value, stamp, .. }) = self.find(key) else { return Err(None) };
            let Some(new) = f(&value) else { return Err(Some(value)) };
            if self.put(key.clone(), new, When::Unchanged(stamp)).is_ok() {
                return Ok(value);
            }
        }
    }

    fn compute<F>(&self, key: K, mut f: F) -> Option<V>
    where
        F: FnMut(Option<&V>) -> Compute<V>,
    {
        loop {
            let (value, when) = match self.find(&key) {
                Some(entry) => (Some(entry.value), When::Unchanged(entry.stamp)),
                None => (None, When::Absent),
            };
            let done = match f(value.as_ref()) {
                Compute::Keep => true,
                Compute::Put(new) => self.put(key.clone(), new, when).is_ok(),
                Compute::Remove => value.is_none() || self.take(&key, when).is_some(),
            };
            if done {
                return value;
            }
        }
    }

    fn remove(&self, key: &K) -> Option<V> {
        self.take(key, When::Always)
    }

    fn remove_if<F>(&self, key: &K, mut condition: F) -> Option<V>
    where
        F: FnMut(&V) -> bool,
    {
        loop {
            let Entry { value, stamp, .. } = self.find(key)?;
            if !condition(&value) {
                return None;
            }
            if let Some(removed) = self.take(key, When::Unchanged(stamp)) {
                return Some(removed);
            }
        }
    }

    fn get_many(&self, keys: &[K], values: &mut [Option<V>]) -> Result<usize, BatchError> {
        fits(keys.len(), values.len())?;
        let mut present = 0;
        for (key, value) in keys.iter().zip(values) {
            *value = self.get(key);
            present += usize::from(value.is_some());
        }
        Ok(present)
    }

    fn insert_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, BatchError> {
        fits(entries.len(), previous.len())?;
        let mut new = 0;
        for ((key, value), previous) in entries.iter().zip(previous) {
            *previous = self.insert(key.clone(), value.clone());
            new += usize::from(previous.is_none());
        }
        Ok(new)
    }

    fn update_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, BatchError> {
        fits(entries.len(), previous.len())?;
        let mut present = 0;
        for ((key, value), previous) in entries.iter().zip(previous) {
            *previous = self.update(key, value.clone());
            present += usize::from(previous.is_some());
        }
        Ok(present)
    }

    fn remove_many(&self, keys: &[K], removed: &mut [Option<V>]) -> Result<usize, BatchError> {
        fits(keys.len(), removed.len())?;
        let mut present = 0;
        for (key, removed) in keys.iter().zip(removed) {
            *removed = self.remove(key);
            present += usize::from(removed.is_some());
        }
        Ok(present)
    }

    fn execute(&self, operations: &mut [Op<K, V>], stop: Stop) -> usize {
        for (at, operation) in operations.iter_mut().enumerate() {
            operation.outcome = self.execute_one(&operation.request);
            if stop == Stop::AtFirstFailure && !operation.outcome.is_success() {
                return at + 1;
            }
        }
        operations.len()
    }

    fn prefetch(&self, _key: &K) {}

    fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.entries().into_iter().map(|entry| (entry.key, entry.value))
    }

    fn snapshot(&self) -> Result<impl Iterator<Item = (K, V)>, Error> {
        Ok(self.iter())
    }

    fn retain<F>(&self, mut keep: F)
    where
        F: FnMut(&K, &V) -> bool,
    {
        for Entry { key, .. } in self.entries() {
            self.remove_if(&key, |value| !keep(&key, value));
        }
    }

    fn len(&self) -> usize {
        self.lock().len
    }

    fn reserve(&self, additional: usize) -> Result<(), Error> {
        if additional > isize::MAX as usize / size_of::<Entry<K, V>>().max(64) {
            return Err(Error::CapacityOverflow);
        }
        let buckets = &mut self.lock().buckets;
        buckets.try_reserve(additional).map_err(|_| Error::OutOfMemory { bytes: additional })
    }

    fn shrink_to_fit(&self) -> Result<(), Error> {
        self.lock().buckets.shrink_to_fit();
        Ok(())
    }

    fn load_factor(&self) -> f64 {
        let state = self.lock();
        state.len as f64 / state.buckets.capacity().max(state.len).max(1) as f64
    }

    fn memory_usage(&self) -> MemoryUsage {
        let state = self.lock();
        let buckets = state.buckets.capacity() * (size_of::<(u64, Vec<Entry<K, V>>)>() + 1);
        let bytes = buckets + state.len * size_of::<Entry<K, V>>();
        MemoryUsage { mapped: bytes, resident: bytes }
    }

    fn stats(&self) -> usize {
        self.len()
    }
}
