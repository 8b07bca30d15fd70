//! [`PeaBlobMultiMap`] as a collection: iteration, the map as a whole, the traits.

use super::PeaBlobMultiMap;
use super::locks::KeyLocks;
use crate::entry::{Entries, Inline};
use crate::error::Error;
use crate::map::interface::whole_map;
use crate::memory::{BlobStats, MemoryUsage};
use crate::table::PairTable;
use crate::table::pea::PeaMultiStats;
use core::fmt;
use core::hash::BuildHasher;

impl<V: Inline, S: BuildHasher + Send + Sync + 'static> PeaBlobMultiMap<V, S> {
    /// Iterates over copies of all keys with all of their values, weakly consistent. The pairs of a
    /// segment are copied at one moment, those of the next segment at another.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = [("a", 1), ("a", 2), ("b", 3)].into_iter().collect();
    /// assert_eq!(map.iter().map(|(_, value)| value).sum::<u64>(), 6);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (Vec<u8>, V)> {
        let guard = self.keys.guard();
        let pairs = self.values.iter();
        pairs.map(move |(number, value)| (self.key(&guard, number).to_vec(), value))
    }

    /// Iterates over the keys, each with all values that it has at one moment, weakly consistent: a
    /// key that stays in the map comes exactly once, any other key at most once for each time that
    /// it was inserted. Costs what [`PeaMultiMap::iter_all`](crate::PeaMultiMap::iter_all) costs, and
    /// a line for each key.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = [("a", 1), ("a", 2), ("b", 3)].into_iter().collect();
    /// let mut all: Vec<(Vec<u8>, usize)> =
    ///     map.iter_all().map(|(key, values)| (key, values.len())).collect();
    /// all.sort();
    /// assert_eq!(all, [(b"a".to_vec(), 2), (b"b".to_vec(), 1)]);
    /// ```
    pub fn iter_all(&self) -> impl Iterator<Item = (Vec<u8>, Vec<V>)> {
        let guard = self.keys.guard();
        let keys = self.values.iter_all();
        keys.map(move |(number, values)| (self.key(&guard, number).to_vec(), values))
    }

    /// Iterates over the keys, each with how many values it has at one moment, weakly consistent as
    /// [`iter_all`](Self::iter_all). Reads no value buffers.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = (0..100).map(|value| ("a", value)).collect();
    /// assert_eq!(map.distinct_keys().collect::<Vec<_>>(), [(b"a".to_vec(), 100)]);
    /// ```
    pub fn distinct_keys(&self) -> impl Iterator<Item = (Vec<u8>, usize)> {
        let guard = self.keys.guard();
        let keys = self.values.distinct_keys();
        keys.map(move |(number, count)| (self.key(&guard, number).to_vec(), count))
    }

    /// Takes a consistent cut of all pairs. Changes of values wait for the moment of the cut, and for
    /// copies of single segments; reads do not wait. The cut takes 16 bytes for each value, and keeps
    /// the memory of removed keys until it is dropped.
    ///
    /// # Errors
    /// If memory for the cut is refused.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = (0..100).map(|value| ("a", value)).collect();
    /// let cut = map.snapshot()?;
    /// map.clear();
    /// assert_eq!(cut.filter(|(key, _)| key == b"a").count(), 100);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn snapshot(&self) -> Result<impl Iterator<Item = (Vec<u8>, V)>, Error> {
        // Before the cut, so that keys which are taken out after it stay.
        let guard = self.keys.guard();
        let pairs = self.values.snapshot()?;
        Ok(pairs.map(move |(number, value)| (self.key(&guard, number).to_vec(), value)))
    }

    whole_map! {
        "PeaBlobMultiMap", "PeaBlobMultiMap::<u64>::new()", "values", values, PeaMultiStats:
        len is_empty load_factor stats
    }

    /// Makes room for `keys` more keys and `values` more values: inserting them starts no resize,
    /// unless too many hashes collide by chance (inserts do not fail then).
    ///
    /// # Errors
    /// If memory is refused; the map is as it was, or has room for the keys.
    ///
    /// ```
    /// # use nunatak::{Error, PeaBlobMultiMap};
    /// let map: PeaBlobMultiMap<u64> = PeaBlobMultiMap::new();
    /// map.reserve(100, 100_000)?;
    /// assert_eq!(map.reserve(0, usize::MAX), Err(Error::CapacityOverflow));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn reserve(&self, keys: usize, values: usize) -> Result<(), Error> {
        self.keys.reserve(keys)?;
        self.values.reserve(values)
    }

    /// Gives memory back that the keys and the values do not need. Keys stay where they are, so
    /// memory between them is given back only behind the last one.
    ///
    /// # Errors
    /// If memory for the smaller tables is refused; the map is as it was, or smaller.
    ///
    /// ```standalone_crate
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = PeaBlobMultiMap::with_capacity(1 << 20, 1 << 20);
    /// let before = map.memory_usage().mapped;
    /// map.shrink_to_fit()?;
    /// assert!(map.memory_usage().mapped < before / 10);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn shrink_to_fit(&self) -> Result<(), Error> {
        self.values.shrink_to_fit()?;
        self.keys.table.shrink_to_fit()?;
        self.reclaim();
        self.keys.entries.trim();
        Ok(())
    }

    /// Returns how many bytes the map has mapped or allocated, keys included, and how many of them
    /// are resident.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// assert!(PeaBlobMultiMap::<u64>::new().memory_usage().mapped < 10 << 10);
    /// ```
    pub fn memory_usage(&self) -> MemoryUsage {
        let tables = self.values.memory_usage() + self.keys.memory_usage();
        tables + MemoryUsage::allocated(KeyLocks::BYTES)
    }

    /// Returns how much memory the keys take.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = [("a", 1), ("a", 2), ("b", 3)].into_iter().collect();
    /// assert_eq!(map.blob_stats().blobs, 2);
    /// ```
    pub fn blob_stats(&self) -> BlobStats {
        self.keys.blob_stats()
    }

    /// Gives back the memory of removed keys that no iterator can see, and returns how many bytes
    /// wait for iterators. (Without it they are given back in groups, as
    /// [`ByteMap`](crate::ByteMap#when-memory-is-given-back) says.)
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = [("a", 1)].into_iter().collect();
    /// map.remove_all(b"a");
    /// assert_eq!(map.reclaim(), 0);
    /// ```
    pub fn reclaim(&self) -> usize {
        self.keys.reclaim()
    }

    /// Returns how many bytes of removed keys wait to be used again.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// assert_eq!(PeaBlobMultiMap::<u64>::new().unreclaimed(), 0);
    /// ```
    pub fn unreclaimed(&self) -> usize {
        self.keys.unreclaimed()
    }
}

impl<V: Inline, S> Default for PeaBlobMultiMap<V, S>
where
    S: BuildHasher + Default + Send + Sync + 'static,
{
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<V, S> fmt::Debug for PeaBlobMultiMap<V, S>
where
    V: Inline + fmt::Debug,
    S: BuildHasher + Send + Sync + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// # Panics
/// If memory is refused; [`insert`](PeaBlobMultiMap::insert) and
/// [`insert_many`](PeaBlobMultiMap::insert_many) return an error instead.
impl<K, V, S> FromIterator<(K, V)> for PeaBlobMultiMap<V, S>
where
    K: AsRef<[u8]>,
    V: Inline,
    S: BuildHasher + Default + Send + Sync + 'static,
{
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.extend(entries);
        map
    }
}

/// # Panics
/// As `from_iter`.
impl<K, V, S> Extend<(K, V)> for PeaBlobMultiMap<V, S>
where
    K: AsRef<[u8]>,
    V: Inline,
    S: BuildHasher + Send + Sync + 'static,
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            if let Err(error) = self.insert(key.as_ref(), value) {
                panic!("{error}");
            }
        }
    }
}

/// Copies all pairs, and frees the map before the first is yielded.
impl<V: Inline, S> IntoIterator for PeaBlobMultiMap<V, S>
where
    S: BuildHasher + Send + Sync + 'static,
{
    type Item = (Vec<u8>, V);
    type IntoIter = std::vec::IntoIter<(Vec<u8>, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter().collect::<Vec<_>>().into_iter()
    }
}
