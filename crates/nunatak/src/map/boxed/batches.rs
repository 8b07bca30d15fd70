//! [`BoxedMap`]: batches.

use super::{BoxedMap, is};
use crate::entry::EntryPtr;
use crate::error::BatchError;
#[cfg(doc)]
use crate::map::ConcurrentMap;
use crate::map::batch::{Op, Request, Stop, check_batch, windows};
use crate::table::{ByEntry, Design, KeyTest, PairTable};
use core::hash::{BuildHasher, Hash};

/// Prefetches the beginning of an entry: for most types the key, and the value or its pointer.
#[inline(always)]
fn prefetch_entry<K, V>(word: u64) {
    // SAFETY: the table holds addresses of entries only.
    unsafe { EntryPtr::<K, V>::from_word(word) }.prefetch();
}

impl<K: Hash + Eq, V, S: BuildHasher, D: Design> BoxedMap<K, V, S, D> {
    /// Runs `each` for every key of a batch, in order, after the lines of its slot and its entry
    /// have been fetched.
    pub(super) fn for_each_fetched<'k, const INSERTS: bool>(
        &self,
        keys: impl ExactSizeIterator<Item = &'k K>,
        each: impl FnMut(usize) -> bool,
    ) where
        K: 'k,
    {
        let words = keys.map(|key| self.word(key));
        windows::for_each_fetched::<INSERTS>(&self.table, words, prefetch_entry::<K, V>, each);
    }

    /// [`ConcurrentMap::prefetch`]: prefetches the lines of the table that a lookup of the key
    /// touches first.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.prefetch("a");
    /// ```
    pub fn prefetch<Q: Hash + ?Sized>(&self, key: &Q) {
        self.table.prefetch(self.word(key));
    }

    /// [`ConcurrentMap::get_many`]: copies the values of all keys, in order, and returns how many
    /// were present.
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
}

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher, D: Design> BoxedMap<K, V, S, D> {
    /// [`ConcurrentMap::insert_many`]: stores copies of all entries, in order, and returns how
    /// many keys were new.
    ///
    /// # Errors
    /// If `previous` is shorter than `entries`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// let mut previous = [None; 2];
    /// assert_eq!(map.insert_many(&[("a".into(), 1), ("a".into(), 2)], &mut previous), Ok(1));
    /// assert_eq!(previous, [None, Some(1)]);
    /// ```
    pub fn insert_many(
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

    /// [`ConcurrentMap::update_many`]: replaces the values of all keys that are present, in
    /// order, and returns how many were.
    ///
    /// # Errors
    /// If `previous` is shorter than `entries`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// let mut previous = [None; 2];
    /// assert_eq!(map.update_many(&[("a".into(), 2), ("b".into(), 3)], &mut previous), Ok(1));
    /// assert_eq!(previous, [Some(1), None]);
    /// ```
    pub fn update_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, BatchError> {
        check_batch(entries.len(), previous.len())?;
        let mut present = 0;
        self.for_each_fetched::<false>(entries.iter().map(|(key, _)| key), |at| {
            let (key, value) = &entries[at];
            previous[at] = self.update(key, value.clone());
            present += usize::from(previous[at].is_some());
            true
        });
        Ok(present)
    }

    /// [`ConcurrentMap::remove_many`]: removes all keys, in order, and returns how many were
    /// present.
    ///
    /// # Errors
    /// If `removed` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// let mut removed = [None; 2];
    /// assert_eq!(map.remove_many(&["a".into(), "a".into()], &mut removed), Ok(1));
    /// assert_eq!(removed, [Some(1), None]);
    /// ```
    pub fn remove_many(&self, keys: &[K], removed: &mut [Option<V>]) -> Result<usize, BatchError> {
        check_batch(keys.len(), removed.len())?;
        let mut present = 0;
        self.for_each_fetched::<false>(keys.iter(), |at| {
            removed[at] = self.remove(&keys[at]);
            present += usize::from(removed[at].is_some());
            true
        });
        Ok(present)
    }

    /// [`ConcurrentMap::execute`]: executes mixed operations in order, and returns how many were
    /// executed.
    ///
    /// ```
    /// # use nunatak::{DlhtBoxedMap, Op, Outcome, Request, Stop};
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// let mut batch =
    ///     [Op::new(Request::Insert("a".to_string(), 1)), Op::new(Request::Remove("a".to_string()))];
    /// assert_eq!(map.execute(&mut batch, Stop::AtFirstFailure), 2);
    /// assert_eq!(batch[1].outcome, Outcome::Removed(1));
    /// ```
    pub fn execute(&self, operations: &mut [Op<K, V>], stop: Stop) -> usize {
        let keys: Vec<K> =
            operations.iter().map(|operation| operation.request.key().clone()).collect();
        let mut executed = 0;
        self.for_each_fetched::<true>(keys.iter(), |at| {
            let Op { request, outcome } = &mut operations[at];
            let before = match request.clone() {
                Request::Get(key) => self.get(&key),
                Request::Insert(key, value) => self.insert(key, value),
                Request::TryInsert(key, value) => self.try_insert(key, value).err(),
                Request::Update(key, value) => self.update(&key, value),
                Request::Remove(key) => self.remove(&key),
            };
            *outcome = request.outcome(before);
            executed += 1;
            stop == Stop::Never || outcome.is_success()
        });
        executed
    }
}
