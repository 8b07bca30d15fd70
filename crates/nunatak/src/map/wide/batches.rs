//! [`DlhtWideMap`]: batches. They ask for the lines of keys ahead of those that they work on.

use super::DlhtWideMap;
use crate::entry::{Wide, WideKey};
use crate::error::BatchError;
#[cfg(doc)]
use crate::map::ConcurrentMap;
use crate::map::batch::{Op, Request, Stop, check_batch};

impl<K: WideKey, V: Wide> DlhtWideMap<K, V> {
    /// Executes `each` for every place of a batch, in order, and stores what it returns. Returns how many of the
    /// results are what `counts` looks for.
    #[inline(always)]
    fn batch(
        &self,
        keys: impl ExactSizeIterator<Item = K> + Clone,
        results: &mut [Option<V>],
        each: impl Fn(usize) -> Option<V>,
        counts: impl Fn(&Option<V>) -> bool,
    ) -> Result<usize, BatchError> {
        check_batch(keys.len(), results.len())?;
        let mut counted = 0;
        let mut ahead = keys.clone();
        self.table.for_each_ahead(
            keys.len(),
            || ahead.next().map(K::to_words),
            |at| {
                results[at] = each(at);
                counted += usize::from(counts(&results[at]));
            },
        );
        Ok(counted)
    }

    /// [`ConcurrentMap::get_many`]: looks up all keys, in order, and returns how many were present.
    ///
    /// # Errors
    /// If `values` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = (0..100).map(|key| (key, 2)).collect();
    /// let mut values = [None; 3];
    /// assert_eq!(map.get_many(&[1, 200, 3], &mut values), Ok(2));
    /// assert_eq!(values, [Some(2), None, Some(2)]);
    /// ```
    pub fn get_many(&self, keys: &[K], values: &mut [Option<V>]) -> Result<usize, BatchError> {
        self.batch(keys.iter().copied(), values, |at| self.get(&keys[at]), Option::is_some)
    }

    /// [`ConcurrentMap::insert_many`]: stores all entries, in order, and returns how many keys were new.
    ///
    /// # Errors
    /// If `previous` is shorter than `entries`; nothing was done.
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = DlhtWideMap::new();
    /// let mut previous = [None; 3];
    /// assert_eq!(map.insert_many(&[(1, 10), (2, 20), (1, 11)], &mut previous), Ok(2));
    /// assert_eq!(previous, [None, None, Some(10)]);
    /// ```
    pub fn insert_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, BatchError> {
        let insert = |at: usize| self.insert(entries[at].0, entries[at].1);
        self.batch(entries.iter().map(|entry| entry.0), previous, insert, Option::is_none)
    }

    /// [`ConcurrentMap::update_many`]: replaces the values of all keys that are present, in order, and returns
    /// how many were.
    ///
    /// # Errors
    /// If `previous` is shorter than `entries`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = [(1, 10)].into();
    /// let mut previous = [None; 2];
    /// assert_eq!(map.update_many(&[(1, 11), (2, 20)], &mut previous), Ok(1));
    /// assert_eq!(previous, [Some(10), None]);
    /// ```
    pub fn update_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, BatchError> {
        let update = |at: usize| self.update(&entries[at].0, entries[at].1);
        self.batch(entries.iter().map(|entry| entry.0), previous, update, Option::is_some)
    }

    /// [`ConcurrentMap::remove_many`]: removes all keys, in order, and returns how many were present.
    ///
    /// # Errors
    /// If `removed` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = [(1, 10), (2, 20)].into();
    /// let mut removed = [None; 3];
    /// assert_eq!(map.remove_many(&[1, 1, 2], &mut removed), Ok(2));
    /// assert_eq!(removed, [Some(10), None, Some(20)]);
    /// ```
    pub fn remove_many(&self, keys: &[K], removed: &mut [Option<V>]) -> Result<usize, BatchError> {
        self.batch(keys.iter().copied(), removed, |at| self.remove(&keys[at]), Option::is_some)
    }

    /// [`ConcurrentMap::execute`]: executes mixed operations in order, and returns how many were executed.
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    ///
    /// ```
    /// # use nunatak::{DlhtWideMap, Op, Outcome, Request, Stop};
    /// let map: DlhtWideMap<u64, u128> = DlhtWideMap::new();
    /// let mut batch = [
    ///     Op::new(Request::Insert(1, 10)),
    ///     Op::new(Request::Get(2)),
    ///     Op::new(Request::Remove(1)),
    /// ];
    /// assert_eq!(map.execute(&mut batch, Stop::AtFirstFailure), 2);
    /// assert_eq!(batch[1].outcome, Outcome::Missing);
    /// assert_eq!(batch[2].outcome, Outcome::Pending);
    /// ```
    pub fn execute(&self, operations: &mut [Op<K, V>], stop: Stop) -> usize {
        for at in 0..operations.len() {
            if let Some(later) = operations.get(at + 8) {
                self.prefetch(later.request.key());
            }
            let request = operations[at].request;
            let before = match request {
                Request::Get(key) => self.get(&key),
                Request::Insert(key, value) => self.insert(key, value),
                Request::TryInsert(key, value) => self.try_insert(key, value).err(),
                Request::Update(key, value) => self.update(&key, value),
                Request::Remove(key) => self.remove(&key),
            };
            operations[at].outcome = request.outcome(before);
            if stop != Stop::Never && !operations[at].outcome.is_success() {
                return at + 1;
            }
        }
        operations.len()
    }

    /// [`ConcurrentMap::prefetch`]: prefetches the line that an operation on the key touches first.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = [(1, 10)].into();
    /// map.prefetch(&1);
    /// assert_eq!(map.get(&1), Some(10));
    /// ```
    #[inline]
    pub fn prefetch(&self, key: &K) {
        self.table.prefetch(&key.to_words());
    }
}
