//! [`BoxedMap`] as a collection: iteration, the map as a whole, the traits.

use super::BoxedMap;
use crate::entry::EntryPtr;
use crate::error::{BatchError, Error};
use crate::map::batch::{Op, Stop};
use crate::map::interface::{by_own_methods, whole_map};
use crate::map::{Compute, ConcurrentMap};
use crate::memory::MemoryUsage;
use crate::table::{Design, PairTable};
use core::fmt;
use core::hash::{BuildHasher, Hash};

impl<K: Hash + Eq, V, S: BuildHasher, D: Design> BoxedMap<K, V, S, D> {
    /// [`ConcurrentMap::iter`]: iterates over copies of all entries; a guard's
    /// [`iter`](crate::BoxedGuard::iter) yields references.
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
            // SAFETY: the table holds addresses of entries only, and the iterator holds a guard
            // that is older than itself.
            let entry = unsafe { EntryPtr::<K, V>::from_word(word).entry() };
            (entry.key.clone(), entry.value.clone())
        })
    }

    /// [`ConcurrentMap::snapshot`]: takes a consistent cut of all entries. The iterator copies each
    /// entry when it yields it, and holds a guard until it is dropped.
    ///
    /// # Errors
    /// If memory for the cut is refused.
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
            // SAFETY: as in `iter`; the entry was in the table at the cut, which was made under the
            // guard.
            let entry = unsafe { EntryPtr::<K, V>::from_word(word).entry() };
            (entry.key.clone(), entry.value.clone())
        }))
    }
}

impl<K, V, S, D: Design> BoxedMap<K, V, S, D> {
    whole_map! {
        "DlhtBoxedMap", "DlhtBoxedMap::<String, u64>::new()", "entries", table, D::Stats:
        len is_empty reserve shrink_to_fit load_factor memory_usage stats
    }
}

impl<K, V, S, D: Design> ConcurrentMap<K, V> for BoxedMap<K, V, S, D>
where
    K: Hash + Eq + Clone,
    V: Clone,
    S: BuildHasher,
{
    fn try_insert(&self, key: K, value: V) -> Result<(), V> {
        self.compute_present(key, value).map_or(Ok(()), Err)
    }

    fn get_or_insert_with<F: FnOnce() -> V>(&self, key: K, make: F) -> V {
        self.get_or_insert_with(key, make, V::clone)
    }

    by_own_methods! {
        K, V, D::Stats:
        get contains_key insert update compare_exchange fetch_update compute remove remove_if
        get_many insert_many update_many remove_many execute prefetch iter snapshot retain clear
        len reserve shrink_to_fit load_factor memory_usage stats
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
