//! A durable map as a [`ConcurrentMap`], for code that is generic over maps.

use super::map::{DurableDesign, Map};
use crate::entry::{Inline, InlineKey};
use crate::error::{BatchError, Error};
use crate::map::{Compute, ConcurrentMap, Op, Stop};
use crate::memory::MemoryUsage;
use crate::table::Design;

/// What a change came to.
///
/// # Panics
/// If it was refused, which this interface can't say.
#[track_caller]
pub(super) fn done<T>(result: Result<T, Error>) -> T {
    match result {
        Ok(done) => done,
        Err(error) => panic!("{error}"),
    }
}

pub(super) fn batch(requests: usize, results: usize) -> Result<(), BatchError> {
    if results < requests { Err(BatchError { requests, results }) } else { Ok(()) }
}

/// Changes panic where the map's own methods return an error.
impl<K: InlineKey, V: Inline, D: DurableDesign> ConcurrentMap<K, V> for Map<K, V, D> {
    type Stats = <D as Design>::Stats;

    fn get(&self, key: &K) -> Option<V> {
        self.get(key)
    }

    fn insert(&self, key: K, value: V) -> Option<V> {
        done(self.insert(key, value))
    }

    fn try_insert(&self, key: K, value: V) -> Result<(), V> {
        done(self.try_insert(key, value))
    }

    fn update(&self, key: &K, value: V) -> Option<V> {
        done(self.update(key, value))
    }

    fn compare_exchange(&self, key: &K, current: &V, new: V) -> Result<V, Option<V>>
    where
        V: PartialEq,
    {
        done(self.compare_exchange(key, current, new))
    }

    fn fetch_update<F: FnMut(&V) -> Option<V>>(&self, key: &K, f: F) -> Result<V, Option<V>> {
        done(self.fetch_update(key, f))
    }

    fn compute<F: FnMut(Option<&V>) -> Compute<V>>(&self, key: K, f: F) -> Option<V> {
        done(self.compute(key, f))
    }

    fn remove(&self, key: &K) -> Option<V> {
        done(self.remove(key))
    }

    fn remove_if<F: FnMut(&V) -> bool>(&self, key: &K, condition: F) -> Option<V> {
        done(self.remove_if(key, condition))
    }

    fn get_many(&self, keys: &[K], values: &mut [Option<V>]) -> Result<usize, BatchError> {
        self.get_many(keys, values)
    }

    fn insert_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, BatchError> {
        batch(entries.len(), previous.len())?;
        Ok(done(self.insert_many(entries, previous)))
    }

    fn remove_many(&self, keys: &[K], removed: &mut [Option<V>]) -> Result<usize, BatchError> {
        batch(keys.len(), removed.len())?;
        Ok(done(self.remove_many(keys, removed)))
    }

    fn execute(&self, operations: &mut [Op<K, V>], stop: Stop) -> usize {
        done(self.execute(operations, stop))
    }

    fn prefetch(&self, key: &K) {
        self.prefetch(key);
    }

    fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.iter()
    }

    fn snapshot(&self) -> Result<impl Iterator<Item = (K, V)>, Error> {
        self.snapshot()
    }

    fn retain<F: FnMut(&K, &V) -> bool>(&self, keep: F) {
        done(self.retain(keep));
    }

    fn clear(&self) {
        done(self.clear());
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn reserve(&self, additional: usize) -> Result<(), Error> {
        self.reserve(additional)
    }

    fn shrink_to_fit(&self) -> Result<(), Error> {
        self.shrink_to_fit()
    }

    fn load_factor(&self) -> f64 {
        self.load_factor()
    }

    fn memory_usage(&self) -> MemoryUsage {
        self.memory_usage()
    }

    fn stats(&self) -> Self::Stats {
        self.stats()
    }
}
