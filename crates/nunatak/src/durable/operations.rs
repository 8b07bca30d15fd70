//! The operations of a durable map: those of the map in RAM, if they may be done, and
//! acknowledged as the map's [`Durability`] says.

use super::map::{DurableDesign, FileTable, InFile, Map};
use super::options::Durability;
use crate::entry::{Inline, InlineKey};
use crate::error::{BatchError, Error, FileError};
use crate::map::{Compute, Op, Stop};
use crate::memory::MemoryUsage;
use crate::table::Design;
use crate::table::iceberg::{BlockSizes, SlotHandle};
use core::sync::atomic::{AtomicU64, Ordering};
use parking_lot::Mutex;

/// How many operations of a batch are done between looks at the room that is left.
const PORTION: usize = 256;

/// Threads whose changes share a sync.
#[derive(Debug, Default)]
pub(super) struct Group {
    asked: AtomicU64,
    /// The last number whose change is durable.
    synced: Mutex<u64>,
}

impl Group {
    fn sync(&self, sync: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        // Release: the change is before it. Acquire: whoever syncs has seen all of them.
        let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut synced = self.synced.lock();
        if *synced >= number {
            return Ok(());
        }
        let asked = self.asked.load(Ordering::Acquire);
        sync()?;
        *synced = asked;
        Ok(())
    }
}

impl<K: InlineKey, V: Inline, D: DurableDesign> Map<K, V, D> {
    /// Whether changes may be made.
    #[inline(always)]
    fn admit(&self) -> Result<(), Error> {
        match self.file().pool().is_open_to_changes() {
            true => Ok(()),
            false => self.refusal(),
        }
    }

    /// Whether something new may be stored.
    #[inline(always)]
    fn admit_new(&self) -> Result<(), Error> {
        self.admit()?;
        if self.file().is_tight() { self.find_room() } else { Ok(()) }
    }

    #[cold]
    fn refusal(&self) -> Result<(), Error> {
        Err(match self.file().pool().backing().is_read_only() {
            true => FileError::ReadOnly,
            false => FileError::Poisoned,
        }
        .into())
    }

    #[cold]
    fn find_room(&self) -> Result<(), Error> {
        self.file().has_room()
    }

    /// Returns what an operation came to, when it may be.
    #[inline(always)]
    fn acknowledge<T>(&self, result: T) -> Result<T, Error> {
        if self.durability == Durability::Synced {
            self.group.sync(|| self.file().sync())?;
        }
        Ok(result)
    }

    /// [`ConcurrentMap::get`](crate::ConcurrentMap::get): one line of the file, or none
    /// if the key is absent.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let path = std::env::temp_dir().join("nunatak-doc-get");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert_eq!((map.get(&1), map.get(&2)), (Some(10), None));
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline(always)]
    pub fn get(&self, key: &K) -> Option<V> {
        self.map.get(key)
    }

    /// [`ConcurrentMap::contains_key`](crate::ConcurrentMap::contains_key).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let path = std::env::temp_dir().join("nunatak-doc-contains");
    /// let map: IcebergMap<u64, ()> = IcebergMap::create(&path)?;
    /// map.insert(1, ())?;
    /// assert!(map.contains_key(&1));
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline(always)]
    pub fn contains_key(&self, key: &K) -> bool {
        self.map.contains_key(key)
    }

    /// [`ConcurrentMap::insert`](crate::ConcurrentMap::insert): writes one line of the
    /// file.
    ///
    /// # Errors
    /// A file that is opened to be read, a full disk, a map that is poisoned or was
    /// just now, by the sync of this operation: then it is not known whether it is
    /// durable. So for all changes.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let path = std::env::temp_dir().join("nunatak-doc-insert");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!((map.insert(1, 10)?, map.insert(1, 11)?), (None, Some(10)));
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline(always)]
    pub fn insert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        self.admit_new()?;
        self.acknowledge(self.map.insert(key, value))
    }

    /// [`ConcurrentMap::try_insert`](crate::ConcurrentMap::try_insert): the value that is
    /// present, if one is.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let path = std::env::temp_dir().join("nunatak-doc-try-insert");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!((map.try_insert(1, 10)?, map.try_insert(1, 11)?), (Ok(()), Err(10)));
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline(always)]
    pub fn try_insert(&self, key: K, value: V) -> Result<Result<(), V>, Error> {
        self.admit_new()?;
        self.acknowledge(self.map.try_insert(key, value))
    }

    /// [`ConcurrentMap::update`](crate::ConcurrentMap::update).
    ///
    /// # Errors
    /// As [`insert`](Self::insert), but for a full disk, which needs no room.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let path = std::env::temp_dir().join("nunatak-doc-update");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.update(&1, 10)?, None);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline(always)]
    pub fn update(&self, key: &K, value: V) -> Result<Option<V>, Error> {
        self.admit()?;
        self.acknowledge(self.map.update(key, value))
    }

    /// [`ConcurrentMap::compare_exchange`](crate::ConcurrentMap::compare_exchange).
    ///
    /// # Errors
    /// As [`update`](Self::update).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let path = std::env::temp_dir().join("nunatak-doc-compare-exchange");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert_eq!(map.compare_exchange(&1, &9, 11)?, Err(Some(10)));
    /// assert_eq!(map.compare_exchange(&1, &10, 11)?, Ok(10));
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn compare_exchange(
        &self,
        key: &K,
        current: &V,
        new: V,
    ) -> Result<Result<V, Option<V>>, Error>
    where
        V: PartialEq,
    {
        self.admit()?;
        self.acknowledge(self.map.compare_exchange(key, current, new))
    }

    /// [`ConcurrentMap::fetch_update`](crate::ConcurrentMap::fetch_update).
    ///
    /// # Errors
    /// As [`update`](Self::update).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let path = std::env::temp_dir().join("nunatak-doc-fetch-update");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert_eq!(map.fetch_update(&1, |value| Some(value + 1))?, Ok(10));
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn fetch_update<F>(&self, key: &K, f: F) -> Result<Result<V, Option<V>>, Error>
    where
        F: FnMut(&V) -> Option<V>,
    {
        self.admit()?;
        self.acknowledge(self.map.fetch_update(key, f))
    }

    /// [`ConcurrentMap::compute`](crate::ConcurrentMap::compute).
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    ///
    /// ```
    /// # use nunatak::{Compute, durable::IcebergMap};
    /// # let path = std::env::temp_dir().join("nunatak-doc-compute");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.compute(1, |value| Compute::Put(value.map_or(1, |value| value + 1)))?;
    /// assert_eq!(map.get(&1), Some(1));
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn compute<F>(&self, key: K, f: F) -> Result<Option<V>, Error>
    where
        F: FnMut(Option<&V>) -> Compute<V>,
    {
        self.admit_new()?;
        self.acknowledge(self.map.compute(key, f))
    }

    /// [`ConcurrentMap::get_or_insert_with`](crate::ConcurrentMap::get_or_insert_with).
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let path = std::env::temp_dir().join("nunatak-doc-get-or-insert");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.get_or_insert_with(1, || 10)?, 10);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get_or_insert_with<F: FnOnce() -> V>(&self, key: K, make: F) -> Result<V, Error> {
        self.admit_new()?;
        self.acknowledge(self.map.get_or_insert_with(key, make))
    }

    /// [`ConcurrentMap::remove`](crate::ConcurrentMap::remove).
    ///
    /// # Errors
    /// As [`update`](Self::update).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let path = std::env::temp_dir().join("nunatak-doc-remove");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert_eq!((map.remove(&1)?, map.remove(&1)?), (Some(10), None));
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[inline(always)]
    pub fn remove(&self, key: &K) -> Result<Option<V>, Error> {
        self.admit()?;
        self.acknowledge(self.map.remove(key))
    }

    /// [`ConcurrentMap::remove_if`](crate::ConcurrentMap::remove_if).
    ///
    /// # Errors
    /// As [`update`](Self::update).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let path = std::env::temp_dir().join("nunatak-doc-remove-if");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert_eq!(map.remove_if(&1, |value| *value > 10)?, None);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn remove_if<F: FnMut(&V) -> bool>(
        &self,
        key: &K,
        condition: F,
    ) -> Result<Option<V>, Error> {
        self.admit()?;
        self.acknowledge(self.map.remove_if(key, condition))
    }

    /// [`ConcurrentMap::get_many`](crate::ConcurrentMap::get_many).
    ///
    /// # Errors
    /// If `values` is shorter than `keys`.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let path = std::env::temp_dir().join("nunatak-doc-get-many");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// let mut values = [None; 2];
    /// assert_eq!(map.get_many(&[1, 2], &mut values), Ok(1));
    /// # std::fs::remove_file(&path).unwrap();
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
    /// # let path = std::env::temp_dir().join("nunatak-doc-insert-many");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.insert_many(&[(1, 10), (2, 20)], &mut [None; 2])?, 2);
    /// # std::fs::remove_file(&path).unwrap();
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

    /// [`ConcurrentMap::remove_many`](crate::ConcurrentMap::remove_many).
    ///
    /// # Errors
    /// As [`update`](Self::update), or `removed` is too short.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let path = std::env::temp_dir().join("nunatak-doc-remove-many");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.remove_many(&[1, 2], &mut [None; 2])?, 0);
    /// # std::fs::remove_file(&path).unwrap();
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
    /// # let path = std::env::temp_dir().join("nunatak-doc-execute");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// let mut operations = [Op::new(Request::Insert(1, 10)), Op::new(Request::Get(1))];
    /// assert_eq!(map.execute(&mut operations, Stop::Never)?, 2);
    /// # std::fs::remove_file(&path).unwrap();
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
    /// # let path = std::env::temp_dir().join("nunatak-doc-prefetch");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.prefetch(&1);
    /// # std::fs::remove_file(&path).unwrap();
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
    /// # let path = std::env::temp_dir().join("nunatak-doc-iter");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert!(map.iter().eq([(1, 10)]));
    /// # std::fs::remove_file(&path).unwrap();
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
    /// # let path = std::env::temp_dir().join("nunatak-doc-snapshot");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert!(map.snapshot()?.eq([(1, 10)]));
    /// # std::fs::remove_file(&path).unwrap();
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
    /// # let path = std::env::temp_dir().join("nunatak-doc-retain");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// map.retain(|_, value| *value > 10)?;
    /// assert!(map.is_empty());
    /// # std::fs::remove_file(&path).unwrap();
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
    /// # let path = std::env::temp_dir().join("nunatak-doc-clear");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// map.clear()?;
    /// assert!(map.is_empty());
    /// # std::fs::remove_file(&path).unwrap();
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
    /// # let path = std::env::temp_dir().join("nunatak-doc-len");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.len(), 0);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there is no entry.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let path = std::env::temp_dir().join("nunatak-doc-is-empty");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert!(map.is_empty());
    /// # std::fs::remove_file(&path).unwrap();
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
    /// # let path = std::env::temp_dir().join("nunatak-doc-reserve");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.reserve(10_000)?;
    /// assert!(map.file_bytes() > 160_000);
    /// # std::fs::remove_file(&path).unwrap();
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
    /// # let path = std::env::temp_dir().join("nunatak-doc-shrink");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.reserve(100_000)?;
    /// map.shrink_to_fit()?;
    /// assert!(map.file_bytes() < 1_000_000);
    /// # std::fs::remove_file(&path).unwrap();
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
    /// # let path = std::env::temp_dir().join("nunatak-doc-load-factor");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.load_factor(), 0.0);
    /// # std::fs::remove_file(&path).unwrap();
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
    /// # let path = std::env::temp_dir().join("nunatak-doc-usage");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert!(map.memory_usage().mapped > 0);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn memory_usage(&self) -> MemoryUsage {
        self.map.memory_usage()
    }

    /// The quantities that the map's paper reports.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let path = std::env::temp_dir().join("nunatak-doc-stats");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.stats().len, 0);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn stats(&self) -> <D as Design>::Stats {
        self.map.stats()
    }
}

fn check(requests: usize, results: usize) -> Result<(), Error> {
    match results < requests {
        true => Err(Error::InvalidOption {
            option: "results",
            expected: "at least as long as the batch",
        }),
        false => Ok(()),
    }
}

impl<K: InlineKey, V: Inline, B: BlockSizes> Map<K, V, InFile<crate::table::Iceberg<B>>> {
    /// Where the key's item is; see [`IcebergMap::slot`](crate::InlineMap::slot).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let path = std::env::temp_dir().join("nunatak-doc-slot");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// let slot = map.slot(&1).unwrap();
    /// assert_eq!(map.get_at(&slot), Some((1, 10)));
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn slot(&self, key: &K) -> Option<SlotHandle> {
        self.map.table.slot_of(key.to_word(), &crate::table::ByWord)
    }

    /// The key and the value at a place.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let path = std::env::temp_dir().join("nunatak-doc-get-at");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// let slot = map.slot(&1).unwrap();
    /// map.remove(&1)?;
    /// assert_eq!(map.get_at(&slot), None);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get_at(&self, slot: &SlotHandle) -> Option<(K, V)> {
        let (key, value) = self.map.table.read_slot(slot)?;
        Some((K::from_word(key), V::from_word(value)))
    }
}
