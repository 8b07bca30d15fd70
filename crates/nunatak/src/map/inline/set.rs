//! [`InlineSet`]: keys without values.

use crate::entry::InlineKey;
use crate::error::{BatchError, Error};
use crate::hash::{Hashing, RandomState};
use crate::map::batch::{Op, Stop};
use crate::map::inline::InlineMap;
use crate::map::inline::iterate::{IntoIter, Iter};
use crate::map::interface::whole_map;
use crate::map::set_algebra::{KeyOf, Keys, key_of};
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

    /// Returns whether the key is in the set. Costs a get of the design's map, and writes nothing.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// let set: DlhtSet<u8> = [1, 2].into_iter().collect();
    /// assert!(set.contains(&1) && !set.contains(&3));
    /// ```
    #[inline]
    pub fn contains(&self, key: &K) -> bool {
        self.map.contains_key(key)
    }

    /// Inserts the key; returns false if it was in the set already.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// let set = DlhtSet::<u8>::new();
    /// assert!(set.insert(1) && !set.insert(1));
    /// ```
    #[inline]
    pub fn insert(&self, key: K) -> bool {
        self.map.try_insert(key, ()).is_ok()
    }

    /// Removes the key; returns false if it was not in the set.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// let set: DlhtSet<u8> = [1].into_iter().collect();
    /// assert!(set.remove(&1) && !set.remove(&1));
    /// ```
    #[inline]
    pub fn remove(&self, key: &K) -> bool {
        self.map.remove(key).is_some()
    }

    /// Looks up all keys, in order, with overlapped memory latencies, and returns how many are in
    /// the set.
    ///
    /// # Errors
    /// If `present` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// let set: DlhtSet<u8> = [1, 3].into_iter().collect();
    /// let mut present = [None; 3];
    /// assert_eq!(set.contains_many(&[1, 2, 3], &mut present), Ok(2));
    /// assert_eq!(present, [Some(()), None, Some(())]);
    /// ```
    #[inline]
    pub fn contains_many(
        &self,
        keys: &[K],
        present: &mut [Option<()>],
    ) -> Result<usize, BatchError> {
        self.map.get_many(keys, present)
    }

    /// Inserts all keys, in order, and returns how many were not in the set. `before` holds for
    /// each key whether it was.
    ///
    /// # Errors
    /// If `before` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// let set: DlhtSet<u8> = [1].into_iter().collect();
    /// let mut before = [None; 2];
    /// assert_eq!(set.insert_many(&[1, 2], &mut before), Ok(1));
    /// assert_eq!(before, [Some(()), None]);
    /// ```
    pub fn insert_many(&self, keys: &[K], before: &mut [Option<()>]) -> Result<usize, BatchError> {
        let entries: Vec<(K, ())> = keys.iter().map(|&key| (key, ())).collect();
        self.map.insert_many(&entries, before)
    }

    /// Removes all keys, in order, and returns how many were in the set.
    ///
    /// # Errors
    /// If `removed` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// let set: DlhtSet<u8> = [1].into_iter().collect();
    /// let mut removed = [None; 2];
    /// assert_eq!(set.remove_many(&[1, 2], &mut removed), Ok(1));
    /// assert_eq!(removed, [Some(()), None]);
    /// ```
    #[inline]
    pub fn remove_many(&self, keys: &[K], removed: &mut [Option<()>]) -> Result<usize, BatchError> {
        self.map.remove_many(keys, removed)
    }

    /// Executes mixed operations in the caller's order and returns how many were executed; see
    /// [`ConcurrentMap::execute`](crate::ConcurrentMap::execute). `TryInsert` fails if the key is
    /// in the set, `Remove` and `Get` if it is not. So a set of locks takes a lock by inserting its
    /// key.
    ///
    /// ```
    /// # use nunatak::{DlhtSet, Op, Request, Stop};
    /// let locked: DlhtSet<u64> = [7].into_iter().collect();
    /// let mut locks = [3, 7, 9].map(|key| Op::new(Request::TryInsert(key, ())));
    /// assert_eq!(locked.execute(&mut locks, Stop::AtFirstFailure), 2);
    /// assert!(locks[0].outcome.is_success() && !locked.contains(&9));
    /// ```
    #[inline]
    pub fn execute(&self, operations: &mut [Op<K, ()>], stop: Stop) -> usize {
        self.map.execute(operations, stop)
    }

    /// Prefetches the lines that an operation on the key touches first.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// DlhtSet::<u64>::new().prefetch(&7);
    /// ```
    #[inline]
    pub fn prefetch(&self, key: &K) {
        self.map.prefetch(key);
    }

    /// Iterates over all keys, weakly consistent.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// let set: DlhtSet<u8> = [1, 3].into_iter().collect();
    /// assert_eq!(set.iter().map(u32::from).sum::<u32>(), 4);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = K> {
        self.map.iter().map(|(key, ())| key)
    }

    /// Takes a consistent cut of all keys; see [`InlineMap::snapshot`].
    ///
    /// # Errors
    /// If memory for the cut is refused.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// let set: DlhtSet<u8> = [1, 3].into_iter().collect();
    /// assert_eq!(set.snapshot()?.count(), 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn snapshot(&self) -> Result<impl Iterator<Item = K> + use<K, S, D>, Error> {
        Ok(self.map.snapshot()?.map(|(key, ())| key))
    }

    /// Removes the keys that `keep` rejects.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// let set: DlhtSet<u8> = (0..10).collect();
    /// set.retain(|key| key % 2 == 0);
    /// assert_eq!(set.len(), 5);
    /// ```
    pub fn retain<F: FnMut(&K) -> bool>(&self, mut keep: F) {
        self.map.retain(|key, ()| keep(key));
    }

    /// Removes every key that the walk reaches.
    ///
    /// ```
    /// # use nunatak::DlhtSet;
    /// let set: DlhtSet<u8> = (0..10).collect();
    /// set.clear();
    /// assert!(set.is_empty());
    /// ```
    pub fn clear(&self) {
        self.map.clear();
    }

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
