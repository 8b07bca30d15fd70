//! [`InlineMap`]: batches.

use super::InlineMap;
use crate::entry::{Inline, InlineKey};
use crate::error::BatchError;
use crate::hash::Hashing;
#[cfg(doc)]
use crate::map::ConcurrentMap;
use crate::map::batch::{Op, Request, Stop, check_batch};
use crate::table::{ByWord, Change, HashesWith, PairTable, Unshadowed};
use core::cell::Cell;

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S>> InlineMap<K, V, S, D> {
    /// [`ConcurrentMap::get_many`]: looks up all keys, in order, and returns how many were present.
    /// Results beyond `keys.len()` are left alone.
    ///
    /// # Errors
    /// If `values` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = (0..100).map(|key| (key, 2 * key)).collect();
    /// let mut values = [None; 3];
    /// assert_eq!(map.get_many(&[1, 200, 3], &mut values), Ok(2));
    /// assert_eq!(values, [Some(2), None, Some(6)]);
    /// ```
    #[inline]
    pub fn get_many(&self, keys: &[K], values: &mut [Option<V>]) -> Result<usize, BatchError> {
        check_batch(keys.len(), values.len())?;
        let mut present = 0;
        self.table.find_many(
            keys.len(),
            |at| keys[at].to_word(),
            |_| ByWord,
            |at, found| {
                present += usize::from(found.is_some());
                values[at] = found.map(V::from_word);
            },
        );
        Ok(present)
    }

    /// [`ConcurrentMap::update_many`]: replaces the values of all keys that are present, in order,
    /// and returns how many were.
    ///
    /// # Errors
    /// If `previous` is shorter than `entries`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// let mut previous = [None; 2];
    /// assert_eq!(map.update_many(&[(1, 11), (2, 20)], &mut previous), Ok(1));
    /// assert_eq!(previous, [Some(10), None]);
    /// ```
    #[inline]
    pub fn update_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, BatchError> {
        check_batch(entries.len(), previous.len())?;
        let mut present = 0;
        self.table.apply_many(
            entries.len(),
            |at| entries[at].0.to_word(),
            |_| ByWord,
            |_| None,
            |at, _| Change::To(entries[at].1.to_word()),
            |at, before| {
                present += usize::from(before.is_some());
                previous[at] = before.map(V::from_word);
                true
            },
        );
        Ok(present)
    }

    /// [`ConcurrentMap::remove_many`]: removes all keys, in order, and returns how many were
    /// present.
    ///
    /// # Errors
    /// If `removed` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10), (2, 20)].into_iter().collect();
    /// let mut removed = [None; 3];
    /// assert_eq!(map.remove_many(&[1, 1, 2], &mut removed), Ok(2));
    /// assert_eq!(removed, [Some(10), None, Some(20)]);
    /// ```
    #[inline]
    pub fn remove_many(&self, keys: &[K], removed: &mut [Option<V>]) -> Result<usize, BatchError> {
        check_batch(keys.len(), removed.len())?;
        let mut present = 0;
        let word = |at: usize| keys[at].to_word();
        self.table.remove_many(keys.len(), word, |at, before| {
            present += usize::from(before.is_some());
            removed[at] = before.map(V::from_word);
        });
        Ok(present)
    }

    /// [`ConcurrentMap::prefetch`]: prefetches the lines that an operation on the key touches
    /// first.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// map.prefetch(&1);
    /// // … other work …
    /// assert_eq!(map.get(&1), Some(10));
    /// ```
    #[inline]
    pub fn prefetch(&self, key: &K) {
        self.table.prefetch(key.to_word());
    }
}

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S> + Unshadowed> InlineMap<K, V, S, D> {
    /// [`ConcurrentMap::insert_many`]: stores all entries, in order, and returns
    /// how many keys were new.
    ///
    /// # Errors
    /// If `previous` is shorter than `entries`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// let mut previous = [None; 3];
    /// assert_eq!(map.insert_many(&[(1, 10), (2, 20), (1, 11)], &mut previous), Ok(2));
    /// assert_eq!(previous, [None, None, Some(10)]);
    /// ```
    #[inline]
    pub fn insert_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, BatchError> {
        self.store_many(entries, previous, |at, _| Change::To(entries[at].1.to_word()))
    }

    /// Stores the values of absent keys, and applies `change` to those of present keys.
    #[inline(always)]
    pub(super) fn store_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
        change: impl Fn(usize, u64) -> Change,
    ) -> Result<usize, BatchError> {
        check_batch(entries.len(), previous.len())?;
        let mut new = 0;
        self.table.apply_many(
            entries.len(),
            |at| entries[at].0.to_word(),
            |_| ByWord,
            |at| Some(entries[at].1.to_word()),
            change,
            |at, before| {
                new += usize::from(before.is_none());
                previous[at] = before.map(V::from_word);
                true
            },
        );
        Ok(new)
    }

    /// [`ConcurrentMap::execute`]: executes mixed operations in order, and returns how many were
    /// executed.
    ///
    /// ```
    /// # use nunatak::{DlhtMap, Op, Outcome, Request, Stop};
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// let mut batch = [
    ///     Op::new(Request::Insert(1, 10)),
    ///     Op::new(Request::Update(1, 11)),
    ///     Op::new(Request::Get(2)),
    ///     Op::new(Request::Remove(1)),
    /// ];
    /// assert_eq!(map.execute(&mut batch, Stop::AtFirstFailure), 3);
    /// assert_eq!(batch[1].outcome, Outcome::Replaced(10));
    /// assert_eq!(batch[2].outcome, Outcome::Missing);
    /// assert_eq!(batch[3].outcome, Outcome::Pending);
    /// ```
    pub fn execute(&self, operations: &mut [Op<K, V>], stop: Stop) -> usize {
        // The closures share the operations, so each copies the operation that it needs: 40 bytes.
        let cells = Cell::from_mut(operations).as_slice_of_cells();
        let executed = Cell::new(0);
        let request = |at: usize| {
            let operation: Op<K, V> = cells[at].get();
            operation.request
        };
        self.table.apply_many(
            cells.len(),
            |at| request(at).key().to_word(),
            |_| ByWord,
            |at| match request(at) {
                Request::Insert(_, value) | Request::TryInsert(_, value) => Some(value.to_word()),
                _ => None,
            },
            |at, _| match request(at) {
                Request::Insert(_, value) | Request::Update(_, value) => {
                    Change::To(value.to_word())
                }
                Request::Remove(_) => Change::Remove,
                Request::Get(_) | Request::TryInsert(..) => Change::Keep,
            },
            |at, before| {
                let request = request(at);
                let outcome = request.outcome(before.map(V::from_word));
                let goes_on = stop == Stop::Never || outcome.is_success();
                executed.set(executed.get() + 1);
                cells[at].set(Op { request, outcome });
                goes_on
            },
        );
        executed.get()
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use crate::map::DlhtMap;
    use crate::map::batch::{Op, Request, Stop};

    #[test]
    fn changes_in_batches_are_counted() {
        let map: DlhtMap<u64, u64> = DlhtMap::new();
        let entries: Vec<(u64, u64)> = (0..5000).map(|key| (key, key)).collect();
        let keys: Vec<u64> = (3000..6000).collect();
        let mut before = vec![None; 5000];
        assert_eq!(map.insert_many(&entries, &mut before), Ok(5000));
        assert_eq!(
            (map.len(), map.insert_many(&entries, &mut before), map.len()),
            (5000, Ok(0), 5000)
        );
        assert_eq!((map.remove_many(&keys, &mut before), map.len()), (Ok(2000), 3000));
        let requests = [Request::Insert(9000, 1), Request::Remove(9001), Request::Insert(9002, 1)];
        assert_eq!(map.execute(&mut requests.map(Op::new), Stop::AtFirstFailure), 2);
        assert_eq!((map.len(), map.iter().count()), (3001, 3001));
    }
}
