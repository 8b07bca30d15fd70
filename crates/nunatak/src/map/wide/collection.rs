//! [`WideMap`] as a collection: the map as a whole, and the interface of all maps.

use super::WideMap;
use crate::entry::{Wide, WideKey};
use crate::error::{BatchError, Error};
use crate::map::batch::{Op, Stop};
use crate::map::interface::{by_own_methods, whole_map};
use crate::map::{Compute, ConcurrentMap};
use crate::memory::MemoryUsage;
use crate::table::wide::{WideChange, WideDesign};

/// How many bins a [`WideMap`] has.
///
/// ```
/// use nunatak::DlhtWideMap;
/// let map: DlhtWideMap<u64, u128> = DlhtWideMap::with_capacity(1000);
/// assert!(map.stats().bins >= 500);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WideStats {
    /// How many entries there are.
    pub len: usize,
    /// The bins of the current index; of an [`IcebergWideMap`](crate::IcebergWideMap), its blocks.
    pub bins: usize,
    /// The bins behind links that are in use.
    pub linked_bins: usize,
}

impl<K: WideKey, V: Wide, D: WideDesign> WideMap<K, V, D> {
    /// [`ConcurrentMap::snapshot`]: takes a consistent cut of all entries. Changes wait until the bins are marked,
    /// which reads and writes each bin once, and then until the key's own bin is copied; gets do not wait.
    ///
    /// # Errors
    /// If memory for the cut is refused.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = (0..10).map(|key| (key, 1)).collect();
    /// let snapshot = map.snapshot()?;
    /// map.clear();
    /// assert_eq!(snapshot.count(), 10);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn snapshot(&self) -> Result<impl Iterator<Item = (K, V)> + use<K, V, D>, Error> {
        let entries = self.table.snapshot()?;
        Ok(entries.into_iter().map(|(key, value)| (K::from_words(key), V::from_words(value))))
    }

    /// [`ConcurrentMap::retain`]: removes the entries that `keep` rejects.
    ///
    /// `keep` runs once for each entry that it is shown. It runs again for a key only if the key has
    /// another value by the time of the removal.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = (0..10).map(|key| (key, 1)).collect();
    /// map.retain(|key, _| key % 2 == 0);
    /// assert_eq!(map.len(), 5);
    /// ```
    pub fn retain<F: FnMut(&K, &V) -> bool>(&self, mut keep: F) {
        for (key, mut judged) in self {
            while !keep(&key, &judged) {
                match self.replace(&key, judged, WideChange::Remove) {
                    Err(Some(newer)) => judged = newer,
                    Ok(()) | Err(None) => break,
                }
            }
        }
    }

    /// [`ConcurrentMap::clear`]: removes every entry that the walk reaches.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = (0..10).map(|key| (key, 1)).collect();
    /// map.clear();
    /// assert!(map.is_empty());
    /// ```
    pub fn clear(&self) {
        for (key, _) in self {
            self.remove(&key);
        }
    }

    /// Returns how many bins the map has.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// assert_eq!(DlhtWideMap::<u64, u128>::new().stats().len, 0);
    /// ```
    pub fn stats(&self) -> WideStats {
        let (bins, linked_bins) = self.table.bins();
        WideStats { len: self.len(), bins, linked_bins }
    }

    whole_map! {
        "DlhtWideMap", "DlhtWideMap::<u64, u128>::new()", "entries", table, WideStats:
        len is_empty reserve shrink_to_fit load_factor memory_usage
    }
}

impl<K: WideKey, V: Wide, D: WideDesign> ConcurrentMap<K, V> for WideMap<K, V, D> {
    by_own_methods! {
        K, V, WideStats:
        get contains_key insert try_insert update compare_exchange fetch_update compute
        get_or_insert_with remove remove_if get_many insert_many update_many remove_many execute
        prefetch iter snapshot retain clear len reserve shrink_to_fit load_factor memory_usage
        stats
    }
}

impl<K: WideKey, V: Wide, D: WideDesign> Default for WideMap<K, V, D> {
    fn default() -> Self {
        Self::new()
    }
}
