//! [`InlineMap`]: batches, iteration, and the map as a whole.

use super::batch::{Op, Request, Stop};
use super::inline::InlineMap;
use super::{Compute, ConcurrentMap};
use crate::entry::{Inline, InlineKey};
use crate::error::{BatchError, Error};
use crate::hash::Hashing;
use crate::memory::MemoryUsage;
use crate::table::{ByWord, Change, Design, Hashes, PairTable, Places, Visible};
use core::cell::Cell;
use core::fmt;

/// The entries of a map, decoded.
pub(super) type Pairs<'m, K, V, S, D> = core::iter::Map<
    <<D as Design>::Table<<S as Hashing>::Placement> as PairTable>::Iter<'m>,
    fn((u64, u64)) -> (K, V),
>;

/// A batch must fit its results.
pub(super) fn check_batch(requests: usize, results: usize) -> Result<(), BatchError> {
    if results < requests { Err(BatchError { requests, results }) } else { Ok(()) }
}

impl<K: InlineKey, V: Inline, S: Hashing, D: Places<S>> InlineMap<K, V, S, D> {
    /// [`ConcurrentMap::get_many`]: looks all keys up, in order, and returns how
    /// many were present. Results beyond `keys.len()` are left alone.
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

    /// Replaces the values of all keys that are present, in order, and returns
    /// how many were.
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

    /// [`ConcurrentMap::remove_many`]: takes all keys out, in order, and returns
    /// how many were present.
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
        self.table.apply_many(
            keys.len(),
            |at| keys[at].to_word(),
            |_| ByWord,
            |_| None,
            |_, _| Change::Remove,
            |at, before| {
                present += usize::from(before.is_some());
                removed[at] = before.map(V::from_word);
                true
            },
        );
        Ok(present)
    }

    /// [`ConcurrentMap::prefetch`]: asks the processor for the key's bin.
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

    /// [`ConcurrentMap::iter`]: all entries, weakly consistent. The iterator
    /// keeps the index that was current when it began from being freed.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = (0..10).map(|key| (key, key)).collect();
    /// assert_eq!(map.iter().map(|(key, _)| key).sum::<u64>(), 45);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.pairs()
    }

    /// With its type, of which more can be told than that it is an iterator.
    #[inline(always)]
    pub(super) fn pairs(&self) -> Pairs<'_, K, V, S, D> {
        self.table.iter().map(|(key, value)| (K::from_word(key), V::from_word(value)))
    }

    /// [`ConcurrentMap::snapshot`]: a consistent cut of all entries. Changes
    /// wait while it is made, for about a nanosecond for each bin; gets do not.
    /// It holds as much memory as the map.
    ///
    /// # Errors
    /// If that memory is not to be had.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = (0..10).map(|key| (key, key)).collect();
    /// let snapshot = map.snapshot()?;
    /// map.clear();
    /// assert_eq!(snapshot.count(), 10);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn snapshot(&self) -> Result<impl Iterator<Item = (K, V)> + use<K, V, S, D>, Error> {
        let pairs = self.table.snapshot()?;
        Ok(pairs.map(|(key, value)| (K::from_word(key), V::from_word(value))))
    }

    /// [`ConcurrentMap::retain`]: takes out the entries that `keep` rejects.
    ///
    /// `keep` runs once for each entry that it is shown. It runs again for a key only if the
    /// key has another value by the time of the removal.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = (0..10).map(|key| (key, key)).collect();
    /// map.retain(|key, _| key % 2 == 0);
    /// assert_eq!(map.len(), 5);
    /// ```
    pub fn retain<F: FnMut(&K, &V) -> bool>(&self, mut keep: F) {
        for (word, mut judged) in self.table.iter() {
            let key = K::from_word(word);
            while !keep(&key, &V::from_word(judged)) {
                match self.replace_word(key, judged, Change::Remove) {
                    Err(Some(newer)) => judged = newer,
                    Ok(()) | Err(None) => break,
                }
            }
        }
    }

    /// [`ConcurrentMap::clear`]: takes out every entry that is reached.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = (0..10).map(|key| (key, key)).collect();
    /// map.clear();
    /// assert!(map.is_empty());
    /// ```
    pub fn clear(&self) {
        for (key, _) in self.iter() {
            self.remove(&key);
        }
    }

    /// [`ConcurrentMap::len`]: one cache line for each thread that ever used
    /// the map.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = (0..10).map(|key| (key, key)).collect();
    /// assert_eq!(map.len(), 10);
    /// ```
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// [`ConcurrentMap::is_empty`].
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// assert!(DlhtMap::<u64, u64>::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// [`ConcurrentMap::reserve`]: grows now, with whoever comes by.
    ///
    /// # Errors
    /// If the memory is not to be had; the map is as it was.
    ///
    /// ```
    /// # use nunatak::{DlhtMap, Error};
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// map.reserve(100_000)?;
    /// assert_eq!(map.reserve(usize::MAX), Err(Error::CapacityOverflow));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn reserve(&self, additional: usize) -> Result<(), Error> {
        self.table.reserve(additional)
    }

    /// [`ConcurrentMap::shrink_to_fit`]: the opposite transfer, and the memory
    /// goes back to the system.
    ///
    /// # Errors
    /// If the smaller index can't be allocated; the map is as it was.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::with_capacity(1 << 20);
    /// let before = map.memory_usage().mapped;
    /// map.shrink_to_fit()?;
    /// assert!(map.memory_usage().mapped < before / 1000);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn shrink_to_fit(&self) -> Result<(), Error> {
        self.table.shrink_to_fit()
    }

    /// [`ConcurrentMap::load_factor`]: entries by slots, where slots are three a
    /// bin and four a link bucket.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = (0..1000).map(|key| (key, key)).collect();
    /// assert!(map.load_factor() > 0.0 && map.load_factor() < 1.0);
    /// ```
    pub fn load_factor(&self) -> f64 {
        self.table.load_factor()
    }

    /// [`ConcurrentMap::memory_usage`]: of the current index, the one that is
    /// being filled, and those that wait to be freed.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::with_capacity(1 << 20);
    /// assert!(map.memory_usage().mapped >= 16 << 20);
    /// ```
    pub fn memory_usage(&self) -> MemoryUsage {
        self.table.memory_usage()
    }

    /// [`ConcurrentMap::stats`]: reads every bin.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = (0..1000).map(|key| (key, key)).collect();
    /// assert_eq!(map.stats().bins_by_entries.iter().sum::<usize>(), map.stats().bins);
    /// ```
    pub fn stats(&self) -> D::Stats {
        self.table.stats()
    }
}

impl<K: InlineKey, V: Inline, S: Hashing, D: Hashes<S> + Visible> InlineMap<K, V, S, D> {
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
        check_batch(entries.len(), previous.len())?;
        let mut new = 0;
        self.table.apply_many(
            entries.len(),
            |at| entries[at].0.to_word(),
            |_| ByWord,
            |at| Some(entries[at].1.to_word()),
            |at, _| Change::To(entries[at].1.to_word()),
            |at, before| {
                new += usize::from(before.is_none());
                previous[at] = before.map(V::from_word);
                true
            },
        );
        Ok(new)
    }

    /// [`ConcurrentMap::execute`]: mixed operations in order, and how many were
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
        // The closures share the operations, and each is copied: 40 bytes.
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

impl<K: InlineKey, V: Inline, S: Hashing, D: Hashes<S>> ConcurrentMap<K, V>
    for InlineMap<K, V, S, D>
{
    type Stats = D::Stats;

    fn get(&self, key: &K) -> Option<V> {
        self.get(key)
    }

    fn insert(&self, key: K, value: V) -> Option<V> {
        self.insert(key, value)
    }

    fn try_insert(&self, key: K, value: V) -> Result<(), V> {
        self.try_insert(key, value)
    }

    fn update(&self, key: &K, value: V) -> Option<V> {
        self.update(key, value)
    }

    fn compare_exchange(&self, key: &K, current: &V, new: V) -> Result<V, Option<V>>
    where
        V: PartialEq,
    {
        self.compare_exchange(key, current, new)
    }

    fn fetch_update<F: FnMut(&V) -> Option<V>>(&self, key: &K, f: F) -> Result<V, Option<V>> {
        self.fetch_update(key, f)
    }

    fn compute<F: FnMut(Option<&V>) -> Compute<V>>(&self, key: K, f: F) -> Option<V> {
        self.compute(key, f)
    }

    fn remove(&self, key: &K) -> Option<V> {
        self.remove(key)
    }

    fn remove_if<F: FnMut(&V) -> bool>(&self, key: &K, condition: F) -> Option<V> {
        self.remove_if(key, condition)
    }

    fn get_many(&self, keys: &[K], values: &mut [Option<V>]) -> Result<usize, BatchError> {
        self.get_many(keys, values)
    }

    fn insert_many(&self, entries: &[(K, V)], out: &mut [Option<V>]) -> Result<usize, BatchError> {
        self.insert_many(entries, out)
    }

    fn remove_many(&self, keys: &[K], removed: &mut [Option<V>]) -> Result<usize, BatchError> {
        self.remove_many(keys, removed)
    }

    fn execute(&self, operations: &mut [Op<K, V>], stop: Stop) -> usize {
        self.execute(operations, stop)
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
        self.retain(keep);
    }

    fn clear(&self) {
        self.clear();
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

    fn stats(&self) -> D::Stats {
        self.stats()
    }
}

impl<K: InlineKey, V: Inline, S: Hashing + Default, D: Places<S>> Default
    for InlineMap<K, V, S, D>
{
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V, S: Hashing, D: Places<S>> fmt::Debug for InlineMap<K, V, S, D>
where
    K: InlineKey + fmt::Debug,
    V: Inline + fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: InlineKey, V: Inline, S: Hashing + Default, D: Hashes<S>> FromIterator<(K, V)>
    for InlineMap<K, V, S, D>
{
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter();
        let mut map = Self::with_capacity(entries.size_hint().0);
        map.extend(entries);
        map
    }
}

impl<K: InlineKey, V: Inline, S: Hashing, D: Hashes<S>> Extend<(K, V)> for InlineMap<K, V, S, D> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: InlineKey, V: Inline, S: Hashing, D: Places<S>> IntoIterator for InlineMap<K, V, S, D> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter().collect::<Vec<_>>().into_iter()
    }
}
