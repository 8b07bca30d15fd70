//! Batches of a durable map of many values, iteration, and the map as a whole.

use super::multi::{PeaMultiMap, refused};
use super::session::{PORTION, admit, admit_new};
use super::whole::check;
use crate::entry::{Inline, InlineKey};
use crate::error::{BatchError, Error};
use crate::memory::MemoryUsage;
use crate::table::pea::PeaMultiStats;

impl<K: InlineKey, V: Inline> PeaMultiMap<K, V> {
    /// Stores many values, in order: acknowledged as one, but a crash may keep a part of
    /// it, those that come first.
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
        for entries in entries.chunks(PORTION) {
            admit_new(self.file())?;
            self.map.try_insert_many(entries).map_err(refused)?;
        }
        self.acknowledge(())
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

    /// Takes all values of many keys out, in order; how many each had. A crash may keep a
    /// part of it, the keys that come first.
    ///
    /// # Errors
    /// As [`remove_one`](Self::remove_one), or `removed` is shorter than `keys`.
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
        check(keys.len(), removed.len())?;
        admit(self.file())?;
        // Their lengths fit, as was just looked at.
        let _ = self.map.remove_all_many(keys, removed);
        self.acknowledge(())
    }

    /// [`PeaMultiMap::iter`](crate::PeaMultiMap::iter).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert!(map.iter().eq([(1, 10)]));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.map.iter()
    }

    /// [`PeaMultiMap::snapshot`](crate::PeaMultiMap::snapshot), in RAM.
    ///
    /// # Errors
    /// If there is no memory for it.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert!(map.snapshot()?.eq([(1, 10)]));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn snapshot(&self) -> Result<impl Iterator<Item = (K, V)> + use<K, V>, Error> {
        self.map.snapshot()
    }

    /// Takes out the pairs that `keep` rejects, each as [`remove_one`](Self::remove_one)
    /// does.
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
        admit(self.file())?;
        self.map.retain(keep);
        self.acknowledge(())
    }

    /// Takes out all pairs that it comes to.
    ///
    /// # Errors
    /// As [`remove_one`](Self::remove_one).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// map.clear()?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn clear(&self) -> Result<(), Error> {
        admit(self.file())?;
        self.map.clear();
        self.acknowledge(())
    }

    /// How many values there are, of all keys. After a crash the first to ask looks at all
    /// segments.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert_many(&[(1, 10), (1, 20)])?;
    /// assert_eq!(map.len(), 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether no key has a value.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Makes room for so many values more, of as many keys.
    ///
    /// # Errors
    /// If the disk is full, or the file was opened to be read.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.reserve(10_000)?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn reserve(&self, additional: usize) -> Result<(), Error> {
        admit(self.file())?;
        self.map.reserve(additional)?;
        self.acknowledge(())
    }

    /// Merges segments that are not full, and gives blocks of the file back.
    ///
    /// # Errors
    /// As [`sync`](Self::sync); the map is as it was, or smaller.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.reserve(100_000)?;
    /// map.shrink_to_fit()?;
    /// assert!(map.file_bytes() < 2_000_000);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn shrink_to_fit(&self) -> Result<(), Error> {
        admit(self.file())?;
        self.map.shrink_to_fit()?;
        self.acknowledge(())
    }

    /// What the map has of the file's pages in memory, and of RAM.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// assert!(map.memory_usage().mapped > 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn memory_usage(&self) -> MemoryUsage {
        self.map.memory_usage()
    }

    /// What the map looks like inside: reads every bucket.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// assert_eq!(map.stats().table.len, 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn stats(&self) -> PeaMultiStats {
        self.map.stats()
    }
}
