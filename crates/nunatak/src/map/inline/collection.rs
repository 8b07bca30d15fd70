//! [`InlineMap`] as a collection: the map as a whole, and the interface of all maps.

use super::InlineMap;
use crate::entry::{Inline, InlineKey};
use crate::error::{BatchError, Error};
use crate::hash::Hashing;
use crate::map::batch::{Op, Stop};
use crate::map::interface::{by_own_methods, whole_map};
use crate::map::{Compute, ConcurrentMap};
use crate::memory::MemoryUsage;
use crate::table::{Change, HashesWith, PairTable, Unshadowed};

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S>> InlineMap<K, V, S, D> {
    /// [`ConcurrentMap::snapshot`]: takes a consistent cut of all entries. Changes wait for the
    /// moment of the cut, and then for copies of single parts of the table; gets do not wait. The
    /// cut takes another index of the same size (DLHT), or 16 bytes for each entry (the other
    /// designs).
    ///
    /// # Errors
    /// If memory for the cut is refused.
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

    /// [`ConcurrentMap::retain`]: removes the entries that `keep` rejects.
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

    /// [`ConcurrentMap::clear`]: removes every entry that the walk reaches.
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

    whole_map! {
        "DlhtMap", "DlhtMap::<u64, u64>::new()", "entries", table, D::Stats:
        len is_empty reserve shrink_to_fit load_factor memory_usage stats
    }
}

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S> + Unshadowed> ConcurrentMap<K, V>
    for InlineMap<K, V, S, D>
{
    by_own_methods! {
        K, V, D::Stats:
        get contains_key insert try_insert update compare_exchange fetch_update compute
        get_or_insert_with remove remove_if get_many insert_many update_many remove_many execute
        prefetch iter snapshot retain clear len reserve shrink_to_fit load_factor memory_usage
        stats
    }
}

impl<K: InlineKey, V: Inline, S: Hashing + Default, D: HashesWith<S>> Default
    for InlineMap<K, V, S, D>
{
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}
