//! [`InlineSet`]: keys without values.

use crate::entry::InlineKey;
use crate::error::{BatchError, Error};
use crate::hash::{Hashing, RandomState};
use crate::map::batch::{Op, Stop};
use crate::map::inline::InlineMap;
use crate::map::inline::iterate::{IntoIter, Iter};
use crate::map::interface::whole_map;
use crate::map::set_algebra::{KeyOf, Keys, key_of};
use crate::map::set_methods::set_methods;
use crate::memory::MemoryUsage;
use crate::table::{Dlht, HashesWith, Unshadowed};
use core::fmt;

/// A set of keys of at most 8 bytes: an [`InlineMap`] without values.
///
/// ```
/// use nunatak::DlhtSet;
/// let locked: DlhtSet<u64> = DlhtSet::new();
/// assert!(locked.insert(7));
/// assert!(!locked.insert(7));
/// assert!(locked.remove(&7));
/// ```
pub struct InlineSet<K: InlineKey, S: Hashing = RandomState, D: HashesWith<S> + Unshadowed = Dlht> {
    pub(in crate::map) map: InlineMap<K, (), S, D>,
}

impl<K: InlineKey, D: HashesWith<RandomState> + Unshadowed> InlineSet<K, RandomState, D> {
    /// Makes an empty set, which takes as little as [`InlineMap::new`](crate::InlineMap::new): 2 to
    /// 3 KiB with one key.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// assert!(DlhtSet::<u32>::new().is_empty());
    /// ```
    pub fn new() -> Self {
        Self { map: InlineMap::new() }
    }

    /// Makes an empty set with room for `capacity` keys.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// assert!(DlhtSet::<char>::with_capacity(1000).is_empty());
    /// ```
    pub fn with_capacity(capacity: usize) -> Self {
        Self { map: InlineMap::with_capacity(capacity) }
    }

    /// Makes an empty set with room for `capacity` keys.
    ///
    /// # Errors
    /// If the capacity does not fit the address space, or memory is refused.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// assert!(DlhtSet::<u64>::try_with_capacity(1 << 60).is_err());
    /// ```
    pub fn try_with_capacity(capacity: usize) -> Result<Self, Error> {
        Ok(Self { map: InlineMap::try_with_capacity(capacity)? })
    }
}

impl<K: InlineKey, S: Hashing, D: HashesWith<S> + Unshadowed> InlineSet<K, S, D> {
    /// Makes an empty set that hashes with `hasher`.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::{DlhtSet, Modulo};
    /// assert!(DlhtSet::<u64, Modulo>::with_hasher(Modulo).insert(1));
    /// ```
    pub fn with_hasher(hasher: S) -> Self {
        Self { map: InlineMap::with_hasher(hasher) }
    }

    /// Makes an empty set with room for `capacity` keys, which hashes with `hasher`.
    ///
    /// # Panics
    /// If memory is refused.
    ///
    /// ```
    /// # use nunatak::{DlhtSet, Modulo};
    /// assert!(DlhtSet::<u64, Modulo>::with_capacity_and_hasher(1000, Modulo).insert(1));
    /// ```
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        Self { map: InlineMap::with_capacity_and_hasher(capacity, hasher) }
    }

    /// Wraps a map as the set of its keys.
    pub(in crate::map) fn of(map: InlineMap<K, (), S, D>) -> Self {
        Self { map }
    }

    set_methods! { "DlhtSet", [K, S, D] }

    whole_map! {
        "DlhtSet", "DlhtSet::<u64>::new()", "keys", map, D::Stats:
        len is_empty reserve shrink_to_fit load_factor memory_usage stats
    }
}

impl<K: InlineKey, S: Hashing + Default, D: HashesWith<S> + Unshadowed> Default
    for InlineSet<K, S, D>
{
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<K: InlineKey + fmt::Debug, S: Hashing, D: HashesWith<S> + Unshadowed> fmt::Debug
    for InlineSet<K, S, D>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<K: InlineKey, S: Hashing + Default, D: HashesWith<S> + Unshadowed> FromIterator<K>
    for InlineSet<K, S, D>
{
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let keys = keys.into_iter();
        let mut set = Self::with_capacity_and_hasher(keys.size_hint().0, S::default());
        set.extend(keys);
        set
    }
}

impl<K: InlineKey, S: Hashing + Default, D: HashesWith<S> + Unshadowed, const N: usize> From<[K; N]>
    for InlineSet<K, S, D>
{
    fn from(keys: [K; N]) -> Self {
        keys.into_iter().collect()
    }
}

impl<K: InlineKey, S: Hashing, D: HashesWith<S> + Unshadowed> Extend<K> for InlineSet<K, S, D> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        for key in keys {
            self.insert(key);
        }
    }
}

impl<'e, K: InlineKey, S: Hashing, D: HashesWith<S> + Unshadowed> Extend<&'e K>
    for InlineSet<K, S, D>
{
    fn extend<I: IntoIterator<Item = &'e K>>(&mut self, keys: I) {
        self.extend(keys.into_iter().copied());
    }
}

/// As the clone of a map: a snapshot, default options.
impl<K: InlineKey, S: Hashing + Default, D: HashesWith<S> + Unshadowed> Clone
    for InlineSet<K, S, D>
{
    fn clone(&self) -> Self {
        Self { map: self.map.clone() }
    }
}

/// Compares all keys; while other threads change a set the answer is of no one moment.
impl<K: InlineKey, S: Hashing, D: HashesWith<S> + Unshadowed> PartialEq for InlineSet<K, S, D> {
    fn eq(&self, other: &Self) -> bool {
        self.map == other.map
    }
}

impl<K: InlineKey, S: Hashing, D: HashesWith<S> + Unshadowed> Eq for InlineSet<K, S, D> {}

impl<'s, K: InlineKey, S: Hashing, D: HashesWith<S> + Unshadowed> IntoIterator
    for &'s InlineSet<K, S, D>
{
    type Item = K;
    type IntoIter = Keys<Iter<'s, K, (), S, D>, K>;

    fn into_iter(self) -> Self::IntoIter {
        self.map.iter().map(key_of as KeyOf<K>)
    }
}

impl<K: InlineKey, S: Hashing, D: HashesWith<S> + Unshadowed> IntoIterator for InlineSet<K, S, D> {
    type Item = K;
    type IntoIter = Keys<IntoIter<K, (), S, D>, K>;

    fn into_iter(self) -> Self::IntoIter {
        self.map.into_iter().map(key_of as KeyOf<K>)
    }
}
