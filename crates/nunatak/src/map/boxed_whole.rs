//! [`BoxedMap`]: batches, iteration, and the map as a whole.

use super::batch::{Op, Request, Stop};
use super::boxed::{BoxedMap, is};
use super::inline_whole::check_batch;
use super::{Compute, ConcurrentMap, windows};
use crate::entry::EntryPtr;
use crate::error::{BatchError, Error};
use crate::memory::MemoryUsage;
use crate::table::{ByEntry, Design, KeyTest, PairTable};
use core::fmt;
use core::hash::{BuildHasher, Hash};

/// Fetches the beginning of an entry: for most its key, and the value or where that is.
#[inline(always)]
fn prefetch_entry<K, V>(word: u64) {
    // SAFETY: the table holds addresses of entries only.
    unsafe { EntryPtr::<K, V>::from_word(word) }.prefetch();
}

impl<K: Hash + Eq, V, S: BuildHasher, D: Design> BoxedMap<K, V, S, D> {
    /// Runs `each` for every key of a batch, in order, after what it touches has been fetched.
    fn for_each_fetched<'k, const INSERTS: bool>(
        &self,
        keys: impl ExactSizeIterator<Item = &'k K>,
        each: impl FnMut(usize) -> bool,
    ) where
        K: 'k,
    {
        let words = keys.map(|key| self.word(key));
        windows::for_each_fetched::<INSERTS>(&self.table, words, prefetch_entry::<K, V>, each);
    }

    /// [`ConcurrentMap::prefetch`]: asks the processor for the key's bin.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.prefetch("a");
    /// ```
    pub fn prefetch<Q: Hash + ?Sized>(&self, key: &Q) {
        self.table.prefetch(self.word(key));
    }

    /// [`ConcurrentMap::get_many`]: copies of the values of all keys, in order,
    /// and how many were present.
    ///
    /// # Errors
    /// If `values` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// let mut values = [None; 2];
    /// assert_eq!(map.get_many(&["b".into(), "a".into()], &mut values), Ok(1));
    /// assert_eq!(values, [None, Some(1)]);
    /// ```
    pub fn get_many(&self, keys: &[K], values: &mut [Option<V>]) -> Result<usize, BatchError>
    where
        V: Clone,
    {
        check_batch(keys.len(), values.len())?;
        let (guard, mut present) = (self.guard(), 0);
        windows::find_many(
            &self.table,
            keys.iter().map(|key| self.word(key)),
            |_| ByEntry(|_| true),
            prefetch_entry::<K, V>,
            (
                |at, word| is::<K, V, K>(&keys[at]).accepts(word),
                |at| self.find(&guard, &keys[at]).map(EntryPtr::to_word),
            ),
            |at, word| {
                // SAFETY: the table holds addresses of entries only, read under the guard.
                let entry = |word| unsafe { EntryPtr::<K, V>::from_word(word).entry() };
                values[at] = word.map(|word| entry(word).value.clone());
                present += usize::from(word.is_some());
            },
        );
        Ok(present)
    }

    /// [`ConcurrentMap::iter`]: copies of all entries; a guard's
    /// [`iter`](super::BoxedGuard::iter) yields references.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [("a".into(), 1)]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (K, V)>
    where
        K: Clone,
        V: Clone,
    {
        let guard = self.guard();
        self.table.iter().map(move |(_, word)| {
            let _under = &guard;
            // SAFETY: the table holds addresses of entries only, and the
            // iterator holds a guard that is older than itself.
            let entry = unsafe { EntryPtr::<K, V>::from_word(word).entry() };
            (entry.key.clone(), entry.value.clone())
        })
    }

    /// [`ConcurrentMap::snapshot`]: copies of a consistent cut of all entries,
    /// made when they are asked for; a guard holds them until then.
    ///
    /// # Errors
    /// If there is no memory for a second index.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// let snapshot = map.snapshot()?;
    /// map.remove("a");
    /// assert_eq!(snapshot.collect::<Vec<_>>(), [("a".into(), 1)]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn snapshot(&self) -> Result<impl Iterator<Item = (K, V)>, Error>
    where
        K: Clone,
        V: Clone,
    {
        let guard = self.guard();
        let pairs = self.table.snapshot()?;
        Ok(pairs.map(move |(_, word)| {
            let _under = &guard;
            // SAFETY: as in `iter`: in the table at the cut, which was made
            // under the guard.
            let entry = unsafe { EntryPtr::<K, V>::from_word(word).entry() };
            (entry.key.clone(), entry.value.clone())
        }))
    }
}

impl<K, V, S, D: Design> BoxedMap<K, V, S, D> {
    /// [`ConcurrentMap::len`].
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// assert_eq!(DlhtBoxedMap::<String, u64>::new().len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// [`ConcurrentMap::is_empty`].
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// assert!(DlhtBoxedMap::<String, u64>::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// [`ConcurrentMap::reserve`].
    ///
    /// # Errors
    /// If the memory is not to be had; the map is as it was.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// DlhtBoxedMap::<String, u64>::new().reserve(1000)?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn reserve(&self, additional: usize) -> Result<(), Error> {
        self.table.reserve(additional)
    }

    /// [`ConcurrentMap::shrink_to_fit`].
    ///
    /// # Errors
    /// If the smaller index can't be allocated; the map is as it was.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// DlhtBoxedMap::<String, u64>::with_capacity(1000).shrink_to_fit()?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn shrink_to_fit(&self) -> Result<(), Error> {
        self.table.shrink_to_fit()
    }

    /// [`ConcurrentMap::load_factor`].
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// assert_eq!(DlhtBoxedMap::<String, u64>::new().load_factor(), 0.0);
    /// ```
    pub fn load_factor(&self) -> f64 {
        self.table.load_factor()
    }

    /// [`ConcurrentMap::memory_usage`]: of the index; what the entries on the
    /// heap take the allocator knows.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// assert!(DlhtBoxedMap::<String, u64>::new().memory_usage().mapped > 0);
    /// ```
    pub fn memory_usage(&self) -> MemoryUsage {
        self.table.memory_usage()
    }

    /// [`ConcurrentMap::stats`].
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// assert_eq!(DlhtBoxedMap::<String, u64>::new().stats().len, 0);
    /// ```
    pub fn stats(&self) -> D::Stats {
        self.table.stats()
    }
}

impl<K, V, S, D: Design> ConcurrentMap<K, V> for BoxedMap<K, V, S, D>
where
    K: Hash + Eq + Clone,
    V: Clone,
    S: BuildHasher,
{
    type Stats = D::Stats;

    fn get(&self, key: &K) -> Option<V> {
        self.get(key)
    }

    fn contains_key(&self, key: &K) -> bool {
        self.contains_key(key)
    }

    fn insert(&self, key: K, value: V) -> Option<V> {
        self.insert(key, value)
    }

    fn try_insert(&self, key: K, value: V) -> Result<(), V> {
        match self.compute_present(key, value) {
            None => Ok(()),
            Some(present) => Err(present),
        }
    }

    fn update(&self, key: &K, value: V) -> Option<V> {
        self.update(key, value)
    }

    fn compare_exchange(&self, key: &K, current: &V, new: V) -> Result<V, Option<V>>
    where
        V: PartialEq,
    {
        self.fetch_update(key, |present| (present == current).then(|| new.clone()))
    }

    fn fetch_update<F: FnMut(&V) -> Option<V>>(&self, key: &K, f: F) -> Result<V, Option<V>> {
        self.fetch_update(key, f)
    }

    fn compute<F: FnMut(Option<&V>) -> Compute<V>>(&self, key: K, f: F) -> Option<V> {
        self.compute(key, f)
    }

    fn get_or_insert_with<F: FnOnce() -> V>(&self, key: K, make: F) -> V {
        self.get_or_insert_with(key, make, V::clone)
    }

    fn remove(&self, key: &K) -> Option<V> {
        self.remove(key)
    }

    fn remove_if<F: FnMut(&V) -> bool>(&self, key: &K, mut condition: F) -> Option<V> {
        let removed = self.remove_entry_if(key, |_, value| condition(value))?;
        Some(removed.value().clone())
    }

    fn get_many(&self, keys: &[K], values: &mut [Option<V>]) -> Result<usize, BatchError> {
        self.get_many(keys, values)
    }

    fn insert_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, BatchError> {
        check_batch(entries.len(), previous.len())?;
        let mut new = 0;
        self.for_each_fetched::<true>(entries.iter().map(|(key, _)| key), |at| {
            let (key, value) = entries[at].clone();
            previous[at] = self.insert(key, value);
            new += usize::from(previous[at].is_none());
            true
        });
        Ok(new)
    }

    fn remove_many(&self, keys: &[K], removed: &mut [Option<V>]) -> Result<usize, BatchError> {
        check_batch(keys.len(), removed.len())?;
        let mut present = 0;
        self.for_each_fetched::<false>(keys.iter(), |at| {
            removed[at] = self.remove(&keys[at]);
            present += usize::from(removed[at].is_some());
            true
        });
        Ok(present)
    }

    fn execute(&self, operations: &mut [Op<K, V>], stop: Stop) -> usize {
        let keys: Vec<K> =
            operations.iter().map(|operation| operation.request.key().clone()).collect();
        let mut executed = 0;
        self.for_each_fetched::<true>(keys.iter(), |at| {
            let Op { request, outcome } = &mut operations[at];
            let before = match request.clone() {
                Request::Get(key) => self.get(&key),
                Request::Insert(key, value) => self.insert(key, value),
                Request::TryInsert(key, value) => self.compute_present(key, value),
                Request::Update(key, value) => self.update(&key, value),
                Request::Remove(key) => self.remove(&key),
            };
            *outcome = request.outcome(before);
            executed += 1;
            stop == Stop::Never || outcome.is_success()
        });
        executed
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

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher, D: Design> BoxedMap<K, V, S, D> {
    /// Stores a value if its key is absent, or returns a copy of what is there.
    fn compute_present(&self, key: K, value: V) -> Option<V> {
        self.compute(key, |present| match present {
            Some(_) => Compute::Keep,
            None => Compute::Put(value.clone()),
        })
    }
}

impl<K, V, S: Default, D: Design> Default for BoxedMap<K, V, S, D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V, S, D: Design> fmt::Debug for BoxedMap<K, V, S, D>
where
    K: Hash + Eq + fmt::Debug,
    V: fmt::Debug,
    S: BuildHasher,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.pin().iter()).finish()
    }
}

impl<K: Hash + Eq, V, S: BuildHasher + Default, D: Design> FromIterator<(K, V)>
    for BoxedMap<K, V, S, D>
{
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter();
        let mut map = Self::with_capacity(entries.size_hint().0);
        map.extend(entries);
        map
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, D: Design> Extend<(K, V)> for BoxedMap<K, V, S, D> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(key, value)| drop(self.put(key, value)));
    }
}
