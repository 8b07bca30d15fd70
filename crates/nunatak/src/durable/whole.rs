//! Batches of a durable map, iteration, and the map as a whole.

use super::map::{DurableDesign, Map};
use super::session::PORTION;
use crate::entry::{Inline, InlineKey};
use crate::error::{BatchError, Error};
use crate::map::{Op, Stop};
use crate::memory::MemoryUsage;
use crate::table::Design;

impl<K: InlineKey, V: Inline, D: DurableDesign> Map<K, V, D> {
    /// [`ConcurrentMap::get_many`](crate::ConcurrentMap::get_many).
    ///
    /// # Errors
    /// If `values` is shorter than `keys`.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// let mut values = [None; 2];
    /// assert_eq!(map.get_many(&[1, 2], &mut values), Ok(1));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get_many(&self, keys: &[K], values: &mut [Option<V>]) -> Result<usize, BatchError> {
        self.map.get_many(keys, values)
    }

    /// [`ConcurrentMap::insert_many`](crate::ConcurrentMap::insert_many); how many keys
    /// were new. Acknowledged as one, but a crash may keep a part of it: those entries
    /// of a thread that come first, at the least of the levels.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), or `previous` is too short. If the disk gets full
    /// in the middle, as many entries were stored as `previous` was written for.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.insert_many(&[(1, 10), (2, 20)], &mut [None; 2])?, 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn insert_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, Error> {
        check(entries.len(), previous.len())?;
        let mut new = 0;
        let portions = entries.chunks(PORTION).zip(previous.chunks_mut(PORTION));
        for (entries, previous) in portions {
            self.admit_new()?;
            new += self.map.insert_many(entries, previous).unwrap_or(0);
        }
        self.acknowledge(new)
    }

    /// Replaces the values of all keys that are present, in order, and returns how many
    /// were; a crash may keep a part of it.
    ///
    /// # Errors
    /// As [`update`](Self::update), or `previous` is too short.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// let mut previous = [None; 2];
    /// assert_eq!(map.update_many(&[(1, 11), (2, 20)], &mut previous)?, 1);
    /// assert_eq!(previous, [Some(10), None]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn update_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, Error> {
        check(entries.len(), previous.len())?;
        self.admit()?;
        self.acknowledge(self.map.update_many(entries, previous).unwrap_or(0))
    }

    /// [`ConcurrentMap::remove_many`](crate::ConcurrentMap::remove_many).
    ///
    /// # Errors
    /// As [`update`](Self::update), or `removed` is too short.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.remove_many(&[1, 2], &mut [None; 2])?, 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn remove_many(&self, keys: &[K], removed: &mut [Option<V>]) -> Result<usize, Error> {
        check(keys.len(), removed.len())?;
        self.admit()?;
        self.acknowledge(self.map.remove_many(keys, removed).unwrap_or(0))
    }

    /// [`ConcurrentMap::execute`](crate::ConcurrentMap::execute).
    ///
    /// # Errors
    /// As [`insert`](Self::insert). If the disk gets full in the middle, the operations
    /// that were done have outcomes.
    ///
    /// ```
    /// # use nunatak::{Op, Request, Stop, durable::IcebergMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// let mut operations = [Op::new(Request::Insert(1, 10)), Op::new(Request::Get(1))];
    /// assert_eq!(map.execute(&mut operations, Stop::Never)?, 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn execute(&self, operations: &mut [Op<K, V>], stop: Stop) -> Result<usize, Error> {
        let mut done = 0;
        for operations in operations.chunks_mut(PORTION) {
            self.admit_new()?;
            let count = self.map.execute(operations, stop);
            done += count;
            if count < operations.len() {
                break;
            }
        }
        self.acknowledge(done)
    }

    /// [`ConcurrentMap::prefetch`](crate::ConcurrentMap::prefetch).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.prefetch(&1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline(always)]
    pub fn prefetch(&self, key: &K) {
        self.map.prefetch(key);
    }

    /// [`ConcurrentMap::iter`](crate::ConcurrentMap::iter).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert!(map.iter().eq([(1, 10)]));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.map.iter()
    }

    /// [`ConcurrentMap::snapshot`](crate::ConcurrentMap::snapshot), in RAM.
    ///
    /// # Errors
    /// If there is no memory for it, or the map is poisoned.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert!(map.snapshot()?.eq([(1, 10)]));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn snapshot(&self) -> Result<impl Iterator<Item = (K, V)> + use<K, V, D>, Error> {
        self.map.snapshot()
    }

    /// [`ConcurrentMap::retain`](crate::ConcurrentMap::retain).
    ///
    /// # Errors
    /// As [`update`](Self::update).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// map.retain(|_, value| *value > 10)?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn retain<F: FnMut(&K, &V) -> bool>(&self, keep: F) -> Result<(), Error> {
        self.admit()?;
        self.map.retain(keep);
        self.acknowledge(())
    }

    /// [`ConcurrentMap::clear`](crate::ConcurrentMap::clear).
    ///
    /// # Errors
    /// As [`update`](Self::update).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// map.clear()?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn clear(&self) -> Result<(), Error> {
        self.admit()?;
        self.map.clear();
        self.acknowledge(())
    }

    /// [`ConcurrentMap::len`](crate::ConcurrentMap::len).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.len(), 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there is no entry.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// [`ConcurrentMap::reserve`](crate::ConcurrentMap::reserve): makes the file large
    /// enough.
    ///
    /// # Errors
    /// If the disk is full, or the file was opened to be read.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.reserve(10_000)?;
    /// assert!(map.file_bytes() > 160_000);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn reserve(&self, additional: usize) -> Result<(), Error> {
        self.admit()?;
        self.map.reserve(additional)?;
        self.acknowledge(())
    }

    /// [`ConcurrentMap::shrink_to_fit`](crate::ConcurrentMap::shrink_to_fit): gives
    /// blocks of the file back.
    ///
    /// # Errors
    /// As [`sync`](Self::sync); the map is as it was, or smaller.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.reserve(100_000)?;
    /// map.shrink_to_fit()?;
    /// assert!(map.file_bytes() < 1_000_000);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn shrink_to_fit(&self) -> Result<(), Error> {
        self.admit()?;
        self.map.shrink_to_fit()?;
        self.acknowledge(())
    }

    /// [`ConcurrentMap::load_factor`](crate::ConcurrentMap::load_factor).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.load_factor(), 0.0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn load_factor(&self) -> f64 {
        self.map.load_factor()
    }

    /// [`ConcurrentMap::memory_usage`](crate::ConcurrentMap::memory_usage): of the file's
    /// pages in memory, and of RAM.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert!(map.memory_usage().mapped > 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn memory_usage(&self) -> MemoryUsage {
        self.map.memory_usage()
    }

    /// The quantities that the map's paper reports.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.stats().len, 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn stats(&self) -> <D as Design>::Stats {
        self.map.stats()
    }
}

pub(super) fn check(requests: usize, results: usize) -> Result<(), Error> {
    match results < requests {
        true => Err(Error::InvalidOption {
            option: "results",
            expected: "at least as long as the batch",
        }),
        false => Ok(()),
    }
}
