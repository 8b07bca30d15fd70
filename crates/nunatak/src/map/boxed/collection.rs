//! [`BoxedMap`] as a collection: the map as a whole, and the interface of all maps.

use super::BoxedMap;
use crate::entry::EntryPtr;
use crate::error::{BatchError, Error};
use crate::map::batch::{Op, Stop};
use crate::map::interface::{by_own_methods, whole_map};
use crate::map::{Compute, ConcurrentMap};
use crate::memory::MemoryUsage;
use crate::table::{Design, PairTable};
use core::hash::{BuildHasher, Hash};

impl<K: Hash + Eq, V, S: BuildHasher, D: Design> BoxedMap<K, V, S, D> {
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
    by_own_methods! {
        K, V, D::Stats:
        get contains_key insert try_insert update compare_exchange fetch_update compute
        get_or_insert_with remove remove_if get_many insert_many update_many remove_many execute prefetch iter snapshot retain clear
        len reserve shrink_to_fit load_factor memory_usage stats
    }
}

impl<K, V, S: Default, D: Design> Default for BoxedMap<K, V, S, D> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}
