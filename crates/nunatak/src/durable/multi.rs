//! [`PeaMultiMap`]: keys with any number of values, in a file.

use super::content::MapInFile;
use super::handle::FileMap;
use super::options::Options;
use super::pea::{self, File};
use super::session::check_batch;
use super::table::FileTable;
use crate::entry::{Inline, InlineKey};
use crate::error::{BatchError, Error, FileError};
use crate::hash::StableHash;
use crate::memory::MemoryUsage;
use crate::memory::durable::{Backing, Description, Paged};
use crate::table::iceberg::Recovery;
use crate::table::pea::PeaMultiStats;

/// The map in the file, of the same type as a map in RAM.
type Inner<K, V> = crate::map::PeaMultiMap<K, V, StableHash, Paged>;

/// A concurrent map in which a key has any number of values, in a file (Pea Hash, sections
/// 3.3 and 3.4).
///
/// It is the [map in RAM](crate::PeaMultiMap) with the same operations.
/// [`Durability`](crate::durable::Durability) says what an operation survives, and
/// [`PeaMap`](crate::durable::PeaMap) what opening a file costs.
///
/// Inserting a value for a key with few values writes back one cache line. For a key with a value
/// buffer it writes back two: the line of the value, and then the line of the pointer with the
/// number of values. A change of several words (values that become a buffer, a value that is
/// removed from the middle of a buffer, all values of a key) is written to a log first, so a crash
/// leaves all of it or nothing.
///
/// After a crash the value buffers of before are not used again until all segments have been
/// recovered: by [`len`](Self::len), by [`iter`](Self::iter), or one by one.
///
/// ```
/// use nunatak::durable::PeaMultiMap;
///
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let edges: PeaMultiMap<u32, u32> = PeaMultiMap::create(&path)?;
/// for (from, to) in [(1, 2), (1, 3), (2, 3)] {
///     edges.insert(from, to)?;
/// }
/// edges.close()?;
///
/// let edges: PeaMultiMap<u32, u32> = PeaMultiMap::open(&path)?;
/// assert_eq!((edges.count(&1), edges.len()), (2, 3));
/// # Ok::<(), nunatak::Error>(())
/// ```
#[allow(private_interfaces, reason = "media are internal")]
pub type PeaMultiMap<K, V> = FileMap<Inner<K, V>>;

#[allow(private_interfaces, reason = "the trait is sealed: its parts are internal")]
impl<K: InlineKey, V: Inline> MapInFile for Inner<K, V> {
    type Stats = PeaMultiStats;
    type Entry = (K, V);
    type Table = File;

    const REHEARSES: bool = true;

    fn create(backing: Backing, options: &Options) -> Result<Self, Error> {
        Ok(Self::of(pea::create(backing, options, (K::BITS, V::BITS), true)?))
    }

    fn open(backing: Backing, options: &Options) -> Result<(Self, Recovery), Error> {
        let is_read_only = backing.is_read_only();
        let (table, recovery) = pea::open(backing, options, (K::BITS, V::BITS), true)?;
        let map = Self::of(table);
        // If the file may be changed, this was checked by the rehearsal.
        if is_read_only && !(K::EVERY_WORD && V::EVERY_WORD) {
            MapInFile::verify(&map)?;
        }
        Ok((map, recovery))
    }

    #[inline(always)]
    fn table(&self) -> &File {
        &self.table
    }

    fn verify(&self) -> Result<usize, Error> {
        self.table.check(&|key, value| K::is_word(key) && V::is_word(value))
    }

    fn constants(description: &Description, options: &Options) -> Options {
        pea::constants(description, options)
    }

    fn store_all(file: &FileMap<Self>, entries: &mut Vec<(K, V)>) -> Result<(), Error> {
        file.insert_many(entries)?;
        entries.clear();
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.iter()
    }

    fn has_entry(&self, (key, value): &(K, V)) -> bool {
        self.contains_pair(key, value)
    }

    fn snapshot(&self) -> Result<impl Iterator<Item = (K, V)>, Error> {
        self.snapshot()
    }

    fn clear(&self) {
        self.clear();
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn reserve(&self, additional: usize) -> Result<(), Error> {
        self.reserve(additional)
    }

    fn shrink_to_fit(&self) -> Result<(), Error> {
        self.shrink_to_fit()
    }

    fn load_factor(&self) -> f64 {
        self.load_factor()
    }

    fn memory_usage(&self) -> MemoryUsage {
        self.memory_usage()
    }

    fn stats(&self) -> PeaMultiStats {
        self.stats()
    }
}

impl<K: InlineKey, V: Inline> FileMap<Inner<K, V>> {
    /// Adds a value to a key, even if the key has an equal one.
    ///
    /// # Errors
    /// If the disk is full, the file was opened only for reading, or a sync has failed.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert(7, 1)?;
    /// map.insert(7, 1)?;
    /// assert_eq!(map.count(&7), 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline]
    pub fn insert(&self, key: K, value: V) -> Result<(), Error> {
        self.store(|map| map.try_insert(key, value).map_err(refused))
    }

    /// Adds a value to a key unless the key has an equal one, and returns whether it was added.
    /// Writes nothing if it was not.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// assert!(map.insert_unique(7, 1)?);
    /// assert!(!map.insert_unique(7, 1)?);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline]
    pub fn insert_unique(&self, key: K, value: V) -> Result<bool, Error> {
        self.store(|map| map.try_insert_unique(key, value).map_err(refused))
    }

    /// [`PeaMultiMap::get`](crate::PeaMultiMap::get).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert_eq!((map.get(&1), map.get(&2)), (Some(10), None));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline]
    pub fn get(&self, key: &K) -> Option<V> {
        self.map.get(key)
    }

    /// [`PeaMultiMap::get_all`](crate::PeaMultiMap::get_all).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert_many(&[(7, 1), (7, 2)])?;
    /// assert_eq!(map.get_all(&7).sum::<u64>(), 3);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline]
    pub fn get_all(&self, key: &K) -> std::vec::IntoIter<V> {
        self.map.get_all(key)
    }

    /// [`PeaMultiMap::copy_all`](crate::PeaMultiMap::copy_all).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert_many(&[(7, 1), (7, 2)])?;
    /// let mut values = Vec::new();
    /// assert_eq!(map.copy_all(&7, &mut values), 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline]
    pub fn copy_all(&self, key: &K, values: &mut Vec<V>) -> usize {
        self.map.copy_all(key, values)
    }

    /// [`PeaMultiMap::count`](crate::PeaMultiMap::count).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert(7, 1)?;
    /// assert_eq!((map.count(&7), map.count(&8)), (1, 0));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline]
    pub fn count(&self, key: &K) -> usize {
        self.map.count(key)
    }

    /// [`PeaMultiMap::contains_key`](crate::PeaMultiMap::contains_key).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert(7, 1)?;
    /// assert!(map.contains_key(&7) && !map.contains_key(&8));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline]
    pub fn contains_key(&self, key: &K) -> bool {
        self.map.contains_key(key)
    }

    /// [`PeaMultiMap::contains_pair`](crate::PeaMultiMap::contains_pair).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert(7, 1)?;
    /// assert!(map.contains_pair(&7, &1) && !map.contains_pair(&7, &2));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline]
    pub fn contains_pair(&self, key: &K, value: &V) -> bool {
        self.map.contains_pair(key, value)
    }

    /// Removes one occurrence of a value of a key, and returns whether there was one.
    ///
    /// # Errors
    /// If the file was opened only for reading, or a sync has failed.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert_many(&[(1, 10), (1, 10)])?;
    /// assert!(map.remove_one(&1, &10)? && map.remove_one(&1, &10)?);
    /// assert!(!map.remove_one(&1, &10)?);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline]
    pub fn remove_one(&self, key: &K, value: &V) -> Result<bool, Error> {
        self.change(|map| Ok(map.remove_one(key, value)))
    }

    /// Removes all values of a key, crash-atomically, and returns how many there were.
    ///
    /// # Errors
    /// As [`remove_one`](Self::remove_one).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert_many(&[(1, 10), (1, 20)])?;
    /// assert_eq!((map.remove_all(&1)?, map.remove_all(&1)?), (2, 0));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline]
    pub fn remove_all(&self, key: &K) -> Result<usize, Error> {
        self.change(|map| Ok(map.remove_all(key)))
    }

    /// Removes all values of a key, crash-atomically, and returns them.
    ///
    /// # Errors
    /// As [`remove_one`](Self::remove_one).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert_many(&[(1, 10), (1, 20)])?;
    /// assert_eq!(map.drain(&1)?.sum::<u64>(), 30);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn drain(&self, key: &K) -> Result<impl ExactSizeIterator<Item = V> + use<K, V>, Error> {
        self.change(|map| Ok(map.drain(key)))
    }

    /// Stores many values, in order. Acknowledged as one operation, but a crash may keep a part of
    /// it: the values that come first.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); some of them may have been stored.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert_many(&[(1, 10), (2, 20), (1, 30)])?;
    /// assert_eq!(map.count(&1), 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn insert_many(&self, entries: &[(K, V)]) -> Result<(), Error> {
        let mut done = 0;
        while done < entries.len() {
            let portion = done..entries.len().min(done + self.portion()?);
            let entries = &entries[portion.clone()];
            self.store_unsynced(|map| map.try_insert_many(entries).map_err(refused))?;
            done = portion.end;
        }
        self.acknowledge(())
    }

    /// Stores many values, in order, as calls of [`insert_unique`](Self::insert_unique) would, with
    /// one sync for all. Returns how many were added.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); some of them may have been stored.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// assert_eq!(map.insert_unique_many(&[(1, 10), (2, 20), (1, 10)])?, 2);
    /// assert_eq!(map.len(), 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn insert_unique_many(&self, entries: &[(K, V)]) -> Result<usize, Error> {
        let (mut done, mut added) = (0, 0);
        while done < entries.len() {
            let portion = done..entries.len().min(done + self.portion()?);
            let entries = &entries[portion.clone()];
            added +=
                self.store_unsynced(|map| map.try_insert_unique_many(entries).map_err(refused))?;
            done = portion.end;
        }
        self.acknowledge(added)
    }

    /// [`PeaMultiMap::copy_all_many`](crate::PeaMultiMap::copy_all_many).
    ///
    /// # Errors
    /// If `ends` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert_many(&[(1, 10), (2, 20)])?;
    /// let (mut values, mut ends) = (Vec::new(), [0; 2]);
    /// map.copy_all_many(&[2, 1], &mut values, &mut ends).unwrap();
    /// assert_eq!((values, ends), (vec![20, 10], [1, 2]));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn copy_all_many(
        &self,
        keys: &[K],
        values: &mut Vec<V>,
        ends: &mut [usize],
    ) -> Result<(), BatchError> {
        self.map.copy_all_many(keys, values, ends)
    }

    /// [`PeaMultiMap::count_many`](crate::PeaMultiMap::count_many).
    ///
    /// # Errors
    /// If `counts` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert_many(&[(1, 10), (1, 20)])?;
    /// let mut counts = [0; 2];
    /// map.count_many(&[2, 1], &mut counts).unwrap();
    /// assert_eq!(counts, [0, 2]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn count_many(&self, keys: &[K], counts: &mut [usize]) -> Result<(), BatchError> {
        self.map.count_many(keys, counts)
    }

    /// Removes all values of many keys, in order, and stores in `removed` how many each had. A
    /// crash may keep a part of it: the keys that come first.
    ///
    /// # Errors
    /// As [`remove_one`](Self::remove_one), or if `removed` is shorter than `keys`.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert_many(&[(1, 10), (1, 20)])?;
    /// let mut removed = [0; 2];
    /// map.remove_all_many(&[2, 1], &mut removed)?;
    /// assert_eq!(removed, [0, 2]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn remove_all_many(&self, keys: &[K], removed: &mut [usize]) -> Result<(), Error> {
        check_batch(keys.len(), removed.len())?;
        self.change(|map| {
            // The lengths fit, as was just checked.
            let _ = map.remove_all_many(keys, removed);
            Ok(())
        })
    }

    /// [`PeaMultiMap::iter_all`](crate::PeaMultiMap::iter_all).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert_many(&[(1, 10), (1, 10)])?;
    /// assert!(map.iter_all().eq([(1, vec![10, 10])]));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn iter_all(&self) -> impl Iterator<Item = (K, Vec<V>)> {
        self.map.iter_all()
    }

    /// [`PeaMultiMap::distinct_keys`](crate::PeaMultiMap::distinct_keys).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert_many(&[(1, 10), (1, 20)])?;
    /// assert!(map.distinct_keys().eq([(1, 2)]));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn distinct_keys(&self) -> impl Iterator<Item = (K, usize)> {
        self.map.distinct_keys()
    }

    /// Removes the pairs that `keep` rejects, each as [`remove_one`](Self::remove_one) does.
    ///
    /// # Errors
    /// As [`remove_one`](Self::remove_one).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert_many(&[(1, 10), (1, 20)])?;
    /// map.retain(|_, value| *value > 10)?;
    /// assert!(map.iter().eq([(1, 20)]));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn retain<F: FnMut(&K, &V) -> bool>(&self, keep: F) -> Result<(), Error> {
        self.change(|map| {
            map.retain(keep);
            Ok(())
        })
    }
}

/// The error of a table that has no place for a value: the disk has no room for a buffer.
#[cold]
fn refused(_: Error) -> Error {
    FileError::Full.into()
}
