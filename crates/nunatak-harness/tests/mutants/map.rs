//! The reference map with one bug.

use nunatak::{BatchError, Compute, ConcurrentMap, Error, MemoryUsage, Op, Stop};
use nunatak_harness::{Data, ReferenceMap, Subject};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The bug of a [`Mutant`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    BatchReversed,
    ClearKeepsOne,
    ComputeNotAtomic,
    ExecuteIgnoresStop,
    FetchUpdateNotAtomic,
    GetAnswersFromACache,
    GetMissesNowAndThen,
    GetOrInsertKeepsItsOwn,
    IterationRepeats,
    IterationSkips,
    LengthOffByOne,
    MemoryGrows,
    PanicLosesTheEntry,
    RemoveLeaks,
    RemoveNotAtomic,
    RemoveReturnsAnother,
    RetainAsksTwice,
    RetainDoesNotLookAgain,
    ShortOutputIsFilled,
    ShrinkKeepsMemory,
    SnapshotInPieces,
    TryInsertNotAtomic,
    TryInsertOverwrites,
    UpdateManyInserts,
    UpdateReturnsAStaleValue,
}

/// Builds maps with the bug.
pub(crate) struct Mutants(pub(crate) Bug);

impl<K: Data, V: Data> Subject<K, V> for Mutants {
    type Map = Mutant<K, V>;

    fn build(&self, capacity: usize) -> Self::Map {
        Mutant {
            bug: self.0,
            map: ReferenceMap::with_capacity(capacity),
            operations: AtomicUsize::new(0),
            cache: Mutex::new(HashMap::new()),
        }
    }
}

pub(crate) struct Mutant<K, V> {
    bug: Bug,
    map: ReferenceMap<K, V>,
    operations: AtomicUsize,
    cache: Mutex<HashMap<K, V>>,
}

impl<K, V> Mutant<K, V> {
    fn has(&self, bug: Bug) -> bool {
        self.bug == bug
    }

    /// Returns true once in `operations` calls.
    fn once_in(&self, operations: usize) -> bool {
        self.operations.fetch_add(1, Ordering::Relaxed) % operations == operations - 1
    }

    /// Opens the window of a race.
    fn race(&self) {
        if self.once_in(8) {
            thread::yield_now();
        }
    }
}

impl<K: Data, V: Data> ConcurrentMap<K, V> for Mutant<K, V> {
    type Stats = usize;

    fn get(&self, key: &K) -> Option<V> {
        if self.has(Bug::GetMissesNowAndThen) && self.once_in(5000) {
            return None;
        }
        if self.has(Bug::GetAnswersFromACache) {
            let mut cache = self.cache.lock().unwrap();
            if self.once_in(16) {
                cache.clear();
            }
            if let Some(value) = cache.get(key) {
                return Some(value.clone());
            }
            let value = self.map.get(key)?;
            cache.insert(key.clone(), value.clone());
            return Some(value);
        }
        self.map.get(key)
    }

    fn insert(&self, key: K, value: V) -> Option<V> {
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.map.insert(key, value)
    }

    fn try_insert(&self, key: K, value: V) -> Result<(), V> {
        match self.bug {
            Bug::TryInsertOverwrites => self.map.insert(key, value).map_or(Ok(()), Err),
            Bug::TryInsertNotAtomic => match self.map.get(&key) {
                Some(present) => Err(present),
                None => {
                    self.race();
                    self.map.insert(key, value);
                    Ok(())
                }
            },
            _ => self.map.try_insert(key, value),
        }
    }

    fn update(&self, key: &K, value: V) -> Option<V> {
        if self.has(Bug::UpdateReturnsAStaleValue) {
            let stale = self.map.get(key);
            self.race();
            return self.map.update(key, value).and(stale);
        }
        self.map.update(key, value)
    }

    fn compare_exchange(&self, key: &K, current: &V, new: V) -> Result<V, Option<V>>
    where
        V: PartialEq,
    {
        self.map.compare_exchange(key, current, new)
    }

    fn fetch_update<F>(&self, key: &K, mut f: F) -> Result<V, Option<V>>
    where
        F: FnMut(&V) -> Option<V>,
    {
        if self.has(Bug::FetchUpdateNotAtomic) {
            let Some(present) = self.map.get(key) else { return Err(None) };
            let Some(new) = f(&present) else { return Err(Some(present)) };
            self.race();
            self.map.update(key, new);
            return Ok(present);
        }
        self.map.fetch_update(key, f)
    }

    fn compute<F>(&self, key: K, mut f: F) -> Option<V>
    where
        F: FnMut(Option<&V>) -> Compute<V>,
    {
        match self.bug {
            Bug::ComputeNotAtomic => {
                let present = self.map.get(&key);
                let decision = f(present.as_ref());
                self.race();
                match decision {
                    Compute::Keep => present,
                    Compute::Put(value) => self.map.insert(key, value).and(present),
                    Compute::Remove => self.map.remove(&key).and(present),
                }
            }
            Bug::PanicLosesTheEntry => {
                let present = self.map.remove(&key);
                let decision = f(present.as_ref());
                match (&decision, &present) {
                    (Compute::Put(value), _) => drop(self.map.insert(key, value.clone())),
                    (Compute::Keep, Some(value)) => drop(self.map.insert(key, value.clone())),
                    (Compute::Keep, None) | (Compute::Remove, _) => {}
                }
                present
            }
            _ => self.map.compute(key, f),
        }
    }

    fn get_or_insert_with<F>(&self, key: K, make: F) -> V
    where
        F: FnOnce() -> V,
    {
        if self.has(Bug::GetOrInsertKeepsItsOwn) && !self.map.contains_key(&key) {
            let value = make();
            self.race();
            drop(self.map.try_insert(key, value.clone()));
            return value;
        }
        self.map.get_or_insert_with(key, make)
    }

    fn remove(&self, key: &K) -> Option<V> {
        match self.bug {
            Bug::RemoveReturnsAnother => {
                let other = self.map.iter().map(|(_, value)| value).next();
                self.map.remove(key).and(other)
            }
            Bug::RemoveNotAtomic => {
                let present = self.map.get(key);
                self.race();
                self.map.remove(key);
                present
            }
            Bug::RemoveLeaks => {
                let removed = self.map.remove(key);
                std::mem::forget(removed.clone());
                removed
            }
            _ => self.map.remove(key),
        }
    }

    fn remove_if<F>(&self, key: &K, condition: F) -> Option<V>
    where
        F: FnMut(&V) -> bool,
    {
        self.map.remove_if(key, condition)
    }

    fn get_many(&self, keys: &[K], values: &mut [Option<V>]) -> Result<usize, BatchError> {
        let fitting = keys.len().min(values.len());
        if self.has(Bug::ShortOutputIsFilled) && fitting < keys.len() {
            self.map.get_many(&keys[..fitting], values)?;
        }
        self.map.get_many(keys, values)
    }

    fn insert_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, BatchError> {
        if self.has(Bug::BatchReversed) && previous.len() >= entries.len() {
            let mut new = 0;
            for ((key, value), previous) in entries.iter().zip(previous).rev() {
                *previous = self.map.insert(key.clone(), value.clone());
                new += usize::from(previous.is_none());
                self.race();
            }
            return Ok(new);
        }
        self.map.insert_many(entries, previous)
    }

    fn update_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, BatchError> {
        if self.has(Bug::UpdateManyInserts) && previous.len() >= entries.len() {
            let new = self.map.insert_many(entries, previous)?;
            return Ok(entries.len() - new);
        }
        self.map.update_many(entries, previous)
    }

    fn remove_many(&self, keys: &[K], removed: &mut [Option<V>]) -> Result<usize, BatchError> {
        self.map.remove_many(keys, removed)
    }

    fn execute(&self, operations: &mut [Op<K, V>], stop: Stop) -> usize {
        let stop = if self.has(Bug::ExecuteIgnoresStop) { Stop::Never } else { stop };
        self.map.execute(operations, stop)
    }

    fn prefetch(&self, key: &K) {
        self.map.prefetch(key);
    }

    fn iter(&self) -> impl Iterator<Item = (K, V)> {
        let mut entries: Vec<_> = self.map.iter().collect();
        match self.bug {
            Bug::IterationRepeats => entries.extend(entries.first().cloned()),
            Bug::IterationSkips => drop(entries.pop()),
            _ => {}
        }
        entries.into_iter()
    }

    fn snapshot(&self) -> Result<impl Iterator<Item = (K, V)>, Error> {
        let mut entries: Vec<_> = self.map.snapshot()?.collect();
        if self.has(Bug::SnapshotInPieces) {
            // The second half is read a moment later.
            thread::yield_now();
            let half = entries.len() / 2;
            let later = entries.split_off(half).into_iter();
            entries.extend(later.filter_map(|(key, _)| {
                let value = self.map.get(&key)?;
                Some((key, value))
            }));
        }
        Ok(entries.into_iter())
    }

    fn retain<F>(&self, mut keep: F)
    where
        F: FnMut(&K, &V) -> bool,
    {
        if self.has(Bug::RetainAsksTwice) {
            for (key, value) in self.map.iter() {
                if !keep(&key, &value) {
                    self.map.remove_if(&key, |value| !keep(&key, value));
                }
            }
            return;
        }
        if self.has(Bug::RetainDoesNotLookAgain) {
            for (key, value) in self.map.iter() {
                if !keep(&key, &value) {
                    self.map.remove(&key);
                }
            }
            return;
        }
        self.map.retain(keep);
    }

    fn clear(&self) {
        let mut passed_over = !self.has(Bug::ClearKeepsOne);
        self.map.retain(|_, _| !std::mem::replace(&mut passed_over, true));
    }

    fn len(&self) -> usize {
        self.map.len() + usize::from(self.has(Bug::LengthOffByOne) && self.map.len() > 8)
    }

    fn reserve(&self, additional: usize) -> Result<(), Error> {
        self.map.reserve(additional)
    }

    fn shrink_to_fit(&self) -> Result<(), Error> {
        if self.has(Bug::ShrinkKeepsMemory) { Ok(()) } else { self.map.shrink_to_fit() }
    }

    fn load_factor(&self) -> f64 {
        self.map.load_factor()
    }

    fn memory_usage(&self) -> MemoryUsage {
        let usage = self.map.memory_usage();
        let leaked = if self.has(Bug::MemoryGrows) {
            16 * self.operations.load(Ordering::Relaxed)
        } else {
            0
        };
        MemoryUsage { mapped: usage.mapped + leaked, ..usage }
    }

    fn stats(&self) -> usize {
        self.map.stats()
    }
}
