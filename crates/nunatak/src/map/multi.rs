//! [`PeaMultiMap`]: keys with any number of values.

use crate::entry::{Inline, InlineKey};
use crate::error::{BatchError, Error};
use crate::hash::{Hashing, RandomState};
use crate::map::interface::whole_map;
use crate::memory::{Heap, MemoryUsage};
use crate::table::PairTable;
use crate::table::pea::{MultiMedium, MultiTable, PeaMultiStats};
use core::fmt;
use core::marker::PhantomData;

/// A concurrent map in which a key has any number of values, also equal ones: a secondary index,
/// the build side of a join, the edges of a graph.
///
/// A bucket adapts to its keys. The first values of a key are in slots like those of a unique key,
/// so getting them touches the lines of one bucket. When the bucket is full, each key with several
/// values in it gets a value buffer. A buffer grows from 256 bytes to 512 KiB, and then becomes a
/// chain of buffers of 512 KiB. So the values of a key are side by side, and a key without
/// duplicates costs what it costs in a [`PeaMap`](crate::PeaMap). Source: Pea Hash (SIGMOD '23),
/// section 3.3.
///
/// **Consistency.** Every operation on one key is linearizable. An operation that returns all
/// values of a key returns the values that it had at one moment. The order of a key's values is not
/// kept. Two values are equal if their bits are.
///
/// **Progress.** A read takes no lock, unless dozens of attempts found the key changing. A change
/// holds a lock that sixteen buckets share.
///
/// ```
/// use nunatak::PeaMultiMap;
///
/// let edges: PeaMultiMap<u32, u32> = PeaMultiMap::new();
/// for (from, to) in [(1, 2), (1, 3), (2, 3), (1, 3)] {
///     edges.insert(from, to);
/// }
/// let mut of_one: Vec<u32> = edges.get_all(&1).collect();
/// of_one.sort_unstable();
/// assert_eq!(of_one, [2, 3, 3]);
/// assert!(edges.remove_one(&1, &3));
/// assert_eq!((edges.count(&1), edges.len()), (2, 3));
/// ```
#[allow(private_bounds, reason = "media are internal: in RAM it is the default")]
pub struct PeaMultiMap<K, V, S: Hashing = RandomState, M: MultiMedium = Heap> {
    pub(crate) table: M::Table<S::HashCodec>,
    entries: PhantomData<(K, V)>,
}

#[allow(private_bounds, reason = "media are internal: in RAM it is the default")]
impl<K: InlineKey, V: Inline, S: Hashing, M: MultiMedium> PeaMultiMap<K, V, S, M> {
    /// Wraps a table that is built already.
    pub(crate) fn of(table: M::Table<S::HashCodec>) -> Self {
        Self { table, entries: PhantomData }
    }

    /// Adds a value to a key, even if the key has an equal one. Touches the lines of a version, a
    /// header and a slot and, if the key has a buffer, of the buffer's end.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::new();
    /// map.insert(7, 1);
    /// map.insert(7, 1);
    /// assert_eq!(map.count(&7), 2);
    /// ```
    #[inline]
    pub fn insert(&self, key: K, value: V) {
        // In RAM nothing is refused.
        let _ = self.try_insert(key, value);
    }

    /// Adds a value to a key unless the key has an equal one, and returns whether it was added. If
    /// two threads add the same pair at once, one of them adds it. Looks through the key's values,
    /// as [`contains_pair`](Self::contains_pair) does, under the lock of the key's buckets.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::new();
    /// assert!(map.insert_unique(7, 1) && map.insert_unique(7, 2));
    /// assert!(!map.insert_unique(7, 1));
    /// assert_eq!(map.count(&7), 2);
    /// ```
    #[inline]
    pub fn insert_unique(&self, key: K, value: V) -> bool {
        // In RAM nothing is refused.
        self.try_insert_unique(key, value).unwrap_or(false)
    }

    /// Returns one of the values of a key, if it has any.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = [(1, 10), (1, 20)].into_iter().collect();
    /// assert!(map.get(&1).is_some_and(|value| value == 10 || value == 20));
    /// assert_eq!(map.get(&2), None);
    /// ```
    #[inline]
    pub fn get(&self, key: &K) -> Option<V> {
        self.table.any_value(key.to_word()).map(V::from_word)
    }

    /// Returns all values that a key has at one moment. They are copied before the first is
    /// yielded; see [`copy_all`](Self::copy_all).
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = (0..100).map(|value| (7, value)).collect();
    /// assert_eq!(map.get_all(&7).sum::<u64>(), 4950);
    /// assert_eq!(map.get_all(&8).len(), 0);
    /// ```
    #[inline]
    pub fn get_all(&self, key: &K) -> std::vec::IntoIter<V> {
        let mut values = Vec::new();
        self.copy_all(key, &mut values);
        values.into_iter()
    }

    /// Appends all values that a key has at one moment to `values`, and returns how many they are.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = [(1, 10), (1, 20), (2, 30)].into_iter().collect();
    /// let mut values = vec![5];
    /// assert_eq!(map.copy_all(&1, &mut values), 2);
    /// assert_eq!((values.len(), values[0]), (3, 5));
    /// ```
    #[inline]
    pub fn copy_all(&self, key: &K, values: &mut Vec<V>) -> usize {
        self.table.copy_values(key.to_word(), values)
    }

    /// Returns how many values a key has, without reading them.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = (0..100).map(|value| (7, value)).collect();
    /// assert_eq!((map.count(&7), map.count(&8)), (100, 0));
    /// ```
    #[inline]
    pub fn count(&self, key: &K) -> usize {
        self.table.count_values(key.to_word())
    }

    /// Returns whether a key has a value.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// assert!(map.contains_key(&1) && !map.contains_key(&2));
    /// ```
    #[inline]
    pub fn contains_key(&self, key: &K) -> bool {
        self.table.any_value(key.to_word()).is_some()
    }

    /// Returns whether a key has this value. Looks through the key's values.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = [(1, 10), (1, 20)].into_iter().collect();
    /// assert!(map.contains_pair(&1, &20) && !map.contains_pair(&1, &30));
    /// ```
    #[inline]
    pub fn contains_pair(&self, key: &K, value: &V) -> bool {
        self.table.contains_value(key.to_word(), value.to_word())
    }

    /// Removes one occurrence of a value of a key, and returns whether there was one. Looks through
    /// the key's values.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = [(1, 10), (1, 10), (1, 20)].into_iter().collect();
    /// assert!(map.remove_one(&1, &10) && map.remove_one(&1, &10));
    /// assert!(!map.remove_one(&1, &10));
    /// assert_eq!(map.count(&1), 1);
    /// ```
    #[inline]
    pub fn remove_one(&self, key: &K, value: &V) -> bool {
        self.table.remove_value(key.to_word(), value.to_word())
    }

    /// Removes all values of a key, atomically, and returns how many there were.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = (0..100).map(|value| (value % 2, value)).collect();
    /// assert_eq!(map.remove_all(&1), 50);
    /// assert_eq!((map.remove_all(&1), map.len()), (0, 50));
    /// ```
    #[inline]
    pub fn remove_all(&self, key: &K) -> usize {
        self.table.remove_values(key.to_word())
    }

    /// Removes all values of a key, atomically, and returns them.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = (0..100).map(|value| (7, value)).collect();
    /// assert_eq!(map.drain(&7).sum::<u64>(), 4950);
    /// assert!(map.is_empty());
    /// ```
    pub fn drain(&self, key: &K) -> impl ExactSizeIterator<Item = V> + use<K, V, S, M> {
        self.table.drain_values(key.to_word()).into_iter().map(V::from_word)
    }

    /// Stores many values, in order, as calls of [`insert`](Self::insert) would, with overlapped
    /// memory latencies.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::new();
    /// map.insert_many(&[(1, 10), (2, 20), (1, 30)]);
    /// assert_eq!(map.count(&1), 2);
    /// ```
    #[inline]
    pub fn insert_many(&self, entries: &[(K, V)]) {
        // In RAM nothing is refused.
        let _ = self.try_insert_many(entries);
    }

    /// Stores many values, in order, as calls of [`insert_unique`](Self::insert_unique) would, with
    /// overlapped memory latencies. Returns how many were added.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::new();
    /// assert_eq!(map.insert_unique_many(&[(1, 10), (2, 20), (1, 10)]), 2);
    /// assert_eq!(map.len(), 2);
    /// ```
    pub fn insert_unique_many(&self, entries: &[(K, V)]) -> usize {
        // In RAM nothing is refused.
        self.try_insert_unique_many(entries).unwrap_or(0)
    }

    #[inline]
    pub(crate) fn try_insert(&self, key: K, value: V) -> Result<(), Error> {
        self.table.insert_value(key.to_word(), value.to_word())
    }

    #[inline]
    pub(crate) fn try_insert_unique(&self, key: K, value: V) -> Result<bool, Error> {
        self.table.insert_absent(key.to_word(), value.to_word())
    }

    #[inline]
    pub(crate) fn try_insert_many(&self, entries: &[(K, V)]) -> Result<(), Error> {
        let pair = |at: usize| (entries[at].0.to_word(), entries[at].1.to_word());
        self.table.insert_values(entries.len(), pair)
    }

    pub(crate) fn try_insert_unique_many(&self, entries: &[(K, V)]) -> Result<usize, Error> {
        let pair = |at: usize| (entries[at].0.to_word(), entries[at].1.to_word());
        self.table.insert_absent_values(entries.len(), pair)
    }

    /// Appends all values of many keys, in order. The values of key `n` end at index `ends[n]` of
    /// `values`. They are the values of one moment for each key, not for all keys together.
    ///
    /// # Errors
    /// If `ends` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = [(1, 10), (2, 20), (2, 20)].into_iter().collect();
    /// let (mut values, mut ends) = (Vec::new(), [0; 3]);
    /// map.copy_all_many(&[2, 3, 1], &mut values, &mut ends)?;
    /// assert_eq!((values, ends), (vec![20, 20, 10], [2, 2, 3]));
    /// # Ok::<(), nunatak::BatchError>(())
    /// ```
    #[inline]
    pub fn copy_all_many(
        &self,
        keys: &[K],
        values: &mut Vec<V>,
        ends: &mut [usize],
    ) -> Result<(), BatchError> {
        crate::map::batch::check_batch(keys.len(), ends.len())?;
        let word = |at: usize| keys[at].to_word();
        self.table.copy_values_of(keys.len(), word, values, |at, end| ends[at] = end);
        Ok(())
    }

    /// Counts the values of each of many keys.
    ///
    /// # Errors
    /// If `counts` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = [(1, 10), (2, 20), (2, 20)].into_iter().collect();
    /// let mut counts = [0; 3];
    /// map.count_many(&[2, 3, 1], &mut counts)?;
    /// assert_eq!(counts, [2, 0, 1]);
    /// # Ok::<(), nunatak::BatchError>(())
    /// ```
    #[inline]
    pub fn count_many(&self, keys: &[K], counts: &mut [usize]) -> Result<(), BatchError> {
        crate::map::batch::check_batch(keys.len(), counts.len())?;
        let word = |at: usize| keys[at].to_word();
        self.table.count_values_of(keys.len(), word, |at, count| counts[at] = count);
        Ok(())
    }

    /// Removes all values of many keys, in order, and stores in `removed` how many each had.
    ///
    /// # Errors
    /// If `removed` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = [(1, 10), (2, 20), (2, 20)].into_iter().collect();
    /// let mut removed = [0; 3];
    /// map.remove_all_many(&[2, 2, 1], &mut removed)?;
    /// assert_eq!(removed, [2, 0, 1]);
    /// # Ok::<(), nunatak::BatchError>(())
    /// ```
    #[inline]
    pub fn remove_all_many(&self, keys: &[K], removed: &mut [usize]) -> Result<(), BatchError> {
        crate::map::batch::check_batch(keys.len(), removed.len())?;
        let word = |at: usize| keys[at].to_word();
        self.table.remove_values_of(keys.len(), word, |at, count| removed[at] = count);
        Ok(())
    }

    /// Iterates over all keys with all of their values, weakly consistent. The pairs of a segment
    /// are copied at one moment, those of the next segment at another.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = (0..100).map(|value| (value % 3, value)).collect();
    /// assert_eq!(map.iter().map(|(_, value)| value).sum::<u64>(), 4950);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.table.iter().map(|(key, value)| (K::from_word(key), V::from_word(value)))
    }

    /// Iterates over the keys, each with all values that it has at one moment, weakly consistent: a
    /// key that stays in the map comes exactly once, any other key at most once. Copies the pairs of
    /// one segment at a time and sorts them by key. Costs the lines of all buckets and value
    /// buffers, and 16 bytes for each value of a segment.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = (0..100).map(|value| (value % 3, value)).collect();
    /// assert_eq!(map.iter_all().count(), 3);
    /// assert!(map.iter_all().all(|(key, values)| values.iter().all(|value| value % 3 == key)));
    /// ```
    pub fn iter_all(&self) -> impl Iterator<Item = (K, Vec<V>)> {
        let values = |words: Vec<u64>| words.into_iter().map(V::from_word).collect();
        self.table.keys_with_values().map(move |(key, words)| (K::from_word(key), values(words)))
    }

    /// Iterates over the keys, each with how many values it has at one moment, weakly consistent as
    /// [`iter_all`](Self::iter_all). Costs the lines of all buckets, but not those of value buffers,
    /// and 16 bytes for each value of a segment that is in a slot. (Of a key with more than 65,000
    /// values it reads one line for each 512 KiB.)
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = (0..100).map(|value| (value % 2, value)).collect();
    /// let mut keys: Vec<(u64, usize)> = map.distinct_keys().collect();
    /// keys.sort_unstable();
    /// assert_eq!(keys, [(0, 50), (1, 50)]);
    /// ```
    pub fn distinct_keys(&self) -> impl Iterator<Item = (K, usize)> {
        self.table.keys_with_counts().map(|(key, count)| (K::from_word(key), count))
    }

    /// Takes a consistent cut of all pairs. Changes wait for the moment of the cut, and for copies
    /// of single segments; reads do not wait. The cut takes 16 bytes for each value.
    ///
    /// # Errors
    /// If memory for the cut is refused.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = (0..100).map(|value| (7, value)).collect();
    /// let cut = map.snapshot()?;
    /// map.clear();
    /// assert_eq!(cut.count(), 100);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn snapshot(&self) -> Result<impl Iterator<Item = (K, V)> + use<K, V, S, M>, Error> {
        let pairs = PairTable::snapshot(&self.table)?;
        Ok(pairs.map(|(key, value)| (K::from_word(key), V::from_word(value))))
    }

    /// Removes the pairs that `keep` rejects, each as [`remove_one`](Self::remove_one) does. So
    /// removing most values of a key that has very many takes long.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = (0..100).map(|value| (value % 2, value)).collect();
    /// map.retain(|_, value| *value < 10);
    /// assert_eq!((map.count(&0), map.count(&1)), (5, 5));
    /// ```
    pub fn retain<F: FnMut(&K, &V) -> bool>(&self, mut keep: F) {
        for (key, value) in self.iter() {
            if !keep(&key, &value) {
                self.remove_one(&key, &value);
            }
        }
    }

    /// Removes all values of each key that the walk reaches.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = (0..100).map(|value| (value, value)).collect();
    /// map.clear();
    /// assert!(map.is_empty());
    /// ```
    pub fn clear(&self) {
        for (key, _) in self.distinct_keys() {
            self.remove_all(&key);
        }
    }

    /// Returns the figures of the map's structure. Reads every bucket.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = (0..100).map(|value| (7, value)).collect();
    /// assert_eq!(map.stats().buffered, 100);
    /// ```
    pub fn stats(&self) -> PeaMultiStats {
        self.table.multi_stats()
    }

    whole_map! {
        "PeaMultiMap", "PeaMultiMap::<u64, u64>::new()", "values", table, PeaMultiStats:
        len is_empty reserve shrink_to_fit load_factor memory_usage
    }
}

impl<K: InlineKey, V: Inline, S: Hashing + Default> Default for PeaMultiMap<K, V, S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V, S: Hashing, M: MultiMedium> fmt::Debug for PeaMultiMap<K, V, S, M>
where
    K: InlineKey + fmt::Debug,
    V: Inline + fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: InlineKey, V: Inline, S: Hashing + Default> FromIterator<(K, V)> for PeaMultiMap<K, V, S> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: InlineKey, V: Inline, S: Hashing> Extend<(K, V)> for PeaMultiMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

/// Copies all pairs, and frees the map before the first is yielded.
impl<K: InlineKey, V: Inline, S: Hashing> IntoIterator for PeaMultiMap<K, V, S> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter().collect::<Vec<_>>().into_iter()
    }
}
