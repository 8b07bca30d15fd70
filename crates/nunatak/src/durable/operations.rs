//! The operations of a durable map: those of the map in RAM, if they may be done, and
//! acknowledged as the map's [`Durability`] says.

use super::map::{DurableDesign, InFile, Map};
use super::session::{admit, admit_new};
use crate::entry::{Inline, InlineKey};
use crate::error::Error;
use crate::map::Compute;
use crate::table::iceberg::{BlockSizes, SlotHandle};

impl<K: InlineKey, V: Inline, D: DurableDesign> Map<K, V, D> {
    /// Whether changes may be made.
    #[inline(always)]
    pub(super) fn admit(&self) -> Result<(), Error> {
        admit(self.file())
    }

    /// Whether something new may be stored.
    #[inline(always)]
    pub(super) fn admit_new(&self) -> Result<(), Error> {
        admit_new(self.file())
    }

    /// Returns what an operation came to, when it may be.
    #[inline(always)]
    pub(super) fn acknowledge<T>(&self, result: T) -> Result<T, Error> {
        self.session.acknowledge(self.file(), result)
    }

    /// [`ConcurrentMap::get`](crate::ConcurrentMap::get): one line of the file, or none
    /// if the key is absent.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert_eq!((map.get(&1), map.get(&2)), (Some(10), None));
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
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, ()> = IcebergMap::create(&path)?;
    /// map.insert(1, ())?;
    /// assert!(map.contains_key(&1));
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
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!((map.insert(1, 10)?, map.insert(1, 11)?), (None, Some(10)));
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
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!((map.try_insert(1, 10)?, map.try_insert(1, 11)?), (Ok(()), Err(10)));
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
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.update(&1, 10)?, None);
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
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert_eq!(map.compare_exchange(&1, &9, 11)?, Err(Some(10)));
    /// assert_eq!(map.compare_exchange(&1, &10, 11)?, Ok(10));
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
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert_eq!(map.fetch_update(&1, |value| Some(value + 1))?, Ok(10));
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
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.compute(1, |value| Compute::Put(value.map_or(1, |value| value + 1)))?;
    /// assert_eq!(map.get(&1), Some(1));
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
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.get_or_insert_with(1, || 10)?, 10);
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
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert_eq!((map.remove(&1)?, map.remove(&1)?), (Some(10), None));
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
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert_eq!(map.remove_if(&1, |value| *value > 10)?, None);
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
}

impl<K: InlineKey, V: Inline, B: BlockSizes> Map<K, V, InFile<crate::table::Iceberg<B>>> {
    /// Where the key's item is; see [`IcebergMap::slot`](crate::InlineMap::slot).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// let slot = map.slot(&1).unwrap();
    /// assert_eq!(map.get_at(&slot), Some((1, 10)));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn slot(&self, key: &K) -> Option<SlotHandle> {
        self.map.table.slot_of(key.to_word(), &crate::table::ByWord)
    }

    /// The key and the value at a place.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// let slot = map.slot(&1).unwrap();
    /// map.remove(&1)?;
    /// assert_eq!(map.get_at(&slot), None);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get_at(&self, slot: &SlotHandle) -> Option<(K, V)> {
        let (key, value) = self.map.table.read_slot(slot)?;
        Some((K::from_word(key), V::from_word(value)))
    }
}
