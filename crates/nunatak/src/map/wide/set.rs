//! [`WideSet`]: keys without values.

use super::{IntoIter, Iter, WideMap};
use crate::entry::WideKey;
use crate::error::{BatchError, Error};
use crate::map::batch::{Op, Stop};
use crate::map::interface::whole_map;
use crate::map::set_algebra::{Filtered, KeyOf, Keys, key_of, set_algebra};
use crate::map::set_methods::set_methods;
use crate::map::wide::collection::WideStats;
use crate::memory::MemoryUsage;
use crate::table::wide::WideDesign;
use core::fmt;

/// A set of keys of up to 16 bytes: a [`WideMap`] without values. UUIDs take 46 bytes each in a
/// [`DlhtWideSet`](crate::DlhtWideSet), and 19 in an [`IcebergWideSet`](crate::IcebergWideSet).
///
/// ```
/// use nunatak::DlhtWideSet;
/// let seen: DlhtWideSet<u128> = DlhtWideSet::new();
/// assert!(seen.insert(1 << 100));
/// assert!(!seen.insert(1 << 100));
/// assert!(seen.remove(&(1 << 100)));
/// ```
pub struct WideSet<K: WideKey, D: WideDesign> {
    map: WideMap<K, (), D>,
}

impl<K: WideKey, D: WideDesign> WideSet<K, D> {
    /// Makes an empty set, which takes as little as [`WideMap::new`](crate::WideMap::new).
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::DlhtWideSet;
    /// assert!(DlhtWideSet::<u128>::new().is_empty());
    /// ```
    pub fn new() -> Self {
        Self { map: WideMap::new() }
    }

    /// Makes an empty set with room for `capacity` keys.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::IcebergWideSet;
    /// assert!(IcebergWideSet::<u128>::with_capacity(1000).is_empty());
    /// ```
    pub fn with_capacity(capacity: usize) -> Self {
        Self { map: WideMap::with_capacity(capacity) }
    }

    /// Makes an empty set with room for `capacity` keys.
    ///
    /// # Errors
    /// If the capacity does not fit the address space, or memory is refused.
    ///
    /// ```
    /// # use nunatak::DlhtWideSet;
    /// assert!(DlhtWideSet::<u64>::try_with_capacity(1 << 60).is_err());
    /// ```
    pub fn try_with_capacity(capacity: usize) -> Result<Self, Error> {
        Ok(Self { map: WideMap::try_with_capacity(capacity)? })
    }

    /// Wraps a map as the set of its keys.
    pub(in crate::map) fn of(map: WideMap<K, (), D>) -> Self {
        Self { map }
    }

    set_methods! { "DlhtWideSet", [K, D] }

    whole_map! {
        "DlhtWideSet", "DlhtWideSet::<u64>::new()", "keys", map, WideStats:
        len is_empty reserve shrink_to_fit load_factor memory_usage stats
    }
}

impl<K: WideKey, D: WideDesign> Default for WideSet<K, D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: WideKey + fmt::Debug, D: WideDesign> fmt::Debug for WideSet<K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<K: WideKey, D: WideDesign> FromIterator<K> for WideSet<K, D> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let keys = keys.into_iter();
        let mut set = Self::with_capacity(keys.size_hint().0);
        set.extend(keys);
        set
    }
}

impl<K: WideKey, D: WideDesign, const N: usize> From<[K; N]> for WideSet<K, D> {
    fn from(keys: [K; N]) -> Self {
        keys.into_iter().collect()
    }
}

impl<K: WideKey, D: WideDesign> Extend<K> for WideSet<K, D> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        for key in keys {
            self.insert(key);
        }
    }
}

impl<'e, K: WideKey, D: WideDesign> Extend<&'e K> for WideSet<K, D> {
    fn extend<I: IntoIterator<Item = &'e K>>(&mut self, keys: I) {
        self.extend(keys.into_iter().copied());
    }
}

/// As the clone of a map: a snapshot, default options.
impl<K: WideKey, D: WideDesign> Clone for WideSet<K, D> {
    fn clone(&self) -> Self {
        Self { map: self.map.clone() }
    }
}

/// Compares all keys; while other threads change a set the answer is of no one moment.
impl<K: WideKey, D: WideDesign> PartialEq for WideSet<K, D> {
    fn eq(&self, other: &Self) -> bool {
        self.map == other.map
    }
}

impl<K: WideKey, D: WideDesign> Eq for WideSet<K, D> {}

impl<'s, K: WideKey, D: WideDesign> IntoIterator for &'s WideSet<K, D> {
    type Item = K;
    type IntoIter = Keys<Iter<'s, K, (), D>, K>;

    fn into_iter(self) -> Self::IntoIter {
        self.map.iter().map(key_of as KeyOf<K>)
    }
}

impl<K: WideKey, D: WideDesign> IntoIterator for WideSet<K, D> {
    type Item = K;
    type IntoIter = Keys<IntoIter<K, ()>, K>;

    fn into_iter(self) -> Self::IntoIter {
        self.map.into_iter().map(key_of as KeyOf<K>)
    }
}

/// Operations on two sets. Each is weakly consistent: its answer about a key was true at some
/// moment during the iteration. Keys are looked up in batches, whose memory latencies overlap.
impl<K: WideKey, D: WideDesign> WideSet<K, D> {
    set_algebra! { "DlhtWideSet", "IcebergWideSet", [E: WideDesign], WideSet<K, E> }
}
