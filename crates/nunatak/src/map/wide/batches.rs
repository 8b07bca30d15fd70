//! [`WideMap`]: batches. They ask for the lines of keys ahead of those that they work on.

use super::WideMap;
use crate::entry::{Wide, WideKey};
use crate::error::{BatchError, Error};
#[cfg(doc)]
use crate::map::ConcurrentMap;
use crate::map::batch::{Op, Request, Stop, check_batch};
use crate::table::wide::{WideChange, WideDesign, Words};

impl<K: WideKey, V: Wide, D: WideDesign> WideMap<K, V, D> {
    /// Stores what `each` returns for every key of a batch, in order. Returns how many of these are values.
    #[inline(always)]
    fn batch(
        &self,
        count: usize,
        key: impl Fn(usize) -> K,
        results: &mut [Option<V>],
        each: impl Fn(usize, u64, &Words) -> Result<Option<Words>, Error>,
    ) -> Result<usize, BatchError> {
        check_batch(count, results.len())?;
        let mut values = 0;
        self.table.for_each_ahead(
            count,
            |at| key(at).to_words(),
            |at, hash, key| {
                let result = each(at, hash, key).unwrap_or_else(|error| panic!("{error}"));
                values += usize::from(result.is_some());
                results[at] = result.map(V::from_words);
            },
        );
        Ok(values)
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
        let find = |_, hash, key: &Words| Ok(self.table.find_fetched(hash, key));
        self.batch(keys.len(), |at| keys[at], values, find)
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
        let present = self.batch(
            entries.len(),
            |at| entries[at].0,
            previous,
            |at, hash, key| {
                let value = entries[at].1.to_words();
                self.table.apply_hashed(hash, key, Some(value), |_| WideChange::To(value))
            },
        )?;
        Ok(entries.len() - present)
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
        self.batch(
            entries.len(),
            |at| entries[at].0,
            previous,
            |at, hash, key| {
                let value = entries[at].1.to_words();
                self.table.apply_hashed(hash, key, None, |_| WideChange::To(value))
            },
        )
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
        self.batch(
            keys.len(),
            |at| keys[at],
            removed,
            |_, hash, key| self.table.apply_hashed(hash, key, None, |_| WideChange::Remove),
        )
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
