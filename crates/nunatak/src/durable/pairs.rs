//! [`Map`]: keys and values of at most 8 bytes in a file.

use super::content::MapInFile;
use super::designs::{DurableDesign, InFile};
use super::handle::FileMap;
use super::options::Options;
use super::session::check_batch;
use super::table::FileTable;
use crate::entry::{Inline, InlineKey};
use crate::error::{BatchError, Error};
use crate::hash::{StableCodec, StableHash};
use crate::map::{Compute, InlineMap, Op, Stop};
use crate::memory::MemoryUsage;
use crate::memory::durable::{Backing, Description};
use crate::table::Iceberg;
use crate::table::iceberg::{BlockSizes, Recovery, SlotHandle};

/// A concurrent map of keys and values of at most 8 bytes, in a file: the [map in RAM](InlineMap)
/// of the same design, with the same operations.
///
/// The maps of the designs are [`IcebergMap`](crate::durable::IcebergMap),
/// [`PeaMap`](crate::durable::PeaMap) and [`TurboMap`](crate::durable::TurboMap).
///
/// ```
/// use nunatak::durable::{InFile, Map};
///
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map: Map<u64, u64, InFile<nunatak::Pea>> = Map::create(&path)?;
/// assert_eq!(map.insert(1, 10)?, None);
/// assert_eq!(map.get(&1), Some(10));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub type Map<K, V, D> = FileMap<InlineMap<K, V, StableHash, D>>;

#[allow(private_interfaces, reason = "the trait is sealed: its parts are internal")]
impl<K: InlineKey, V: Inline, D: DurableDesign> MapInFile for InlineMap<K, V, StableHash, D> {
    type Stats = D::Stats;
    type Entry = (K, V);
    type Table = D::Table<StableCodec>;

    const REHEARSES: bool = D::REHEARSES || !(K::EVERY_WORD && V::EVERY_WORD);

    fn create(backing: Backing, options: &Options) -> Result<Self, Error> {
        Ok(Self::of(D::create(backing, options, (K::BITS, V::BITS))?))
    }

    fn open(backing: Backing, options: &Options) -> Result<(Self, Recovery), Error> {
        let is_read_only = backing.is_read_only();
        let (table, recovery) = D::open(backing, options, (K::BITS, V::BITS))?;
        let map = Self::of(table);
        // If the file may be changed, this was checked by the rehearsal.
        if is_read_only && !(K::EVERY_WORD && V::EVERY_WORD) {
            MapInFile::verify(&map)?;
        }
        Ok((map, recovery))
    }

    #[inline(always)]
    fn table(&self) -> &Self::Table {
        &self.table
    }

    fn verify(&self) -> Result<usize, Error> {
        self.table.check(&|key, value| K::is_word(key) && V::is_word(value))
    }

    fn constants(description: &Description, options: &Options) -> Options {
        D::constants(description, options)
    }

    fn store_all(file: &FileMap<Self>, entries: &mut Vec<(K, V)>) -> Result<(), Error> {
        file.insert_many(entries, &mut vec![None; entries.len()])?;
        entries.clear();
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.iter()
    }

    fn has_entry(&self, (key, _): &(K, V)) -> bool {
        self.contains_key(key)
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

    fn stats(&self) -> D::Stats {
        self.stats()
    }
}

impl<K: InlineKey, V: Inline, D: DurableDesign> FileMap<InlineMap<K, V, StableHash, D>> {
    /// [`ConcurrentMap::get`](crate::ConcurrentMap::get): touches what a get of the map in RAM
    /// touches, and writes nothing.
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
    /// If the file was opened only for reading, the disk is full, or the map is poisoned. If the
    /// sync of this operation poisons the map, it is unknown whether the change is durable. This
    /// holds for all changes.
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
        self.store(|map| Ok(map.insert(key, value)))
    }

    /// [`ConcurrentMap::try_insert`](crate::ConcurrentMap::try_insert): the inner error is the
    /// present value.
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
        self.store(|map| Ok(map.try_insert(key, value)))
    }

    /// [`ConcurrentMap::update`](crate::ConcurrentMap::update).
    ///
    /// # Errors
    /// As [`insert`](Self::insert), except for a full disk: an update needs no room.
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
        self.change(|map| Ok(map.update(key, value)))
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
        self.change(|map| Ok(map.compare_exchange(key, current, new)))
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
        self.change(|map| Ok(map.fetch_update(key, f)))
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
        self.store(|map| Ok(map.compute(key, f)))
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
        self.store(|map| Ok(map.get_or_insert_with(key, make)))
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
        self.change(|map| Ok(map.remove(key)))
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
        self.change(|map| Ok(map.remove_if(key, condition)))
    }

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

    /// [`ConcurrentMap::insert_many`](crate::ConcurrentMap::insert_many): returns how many keys
    /// were new. Acknowledged as one operation, but a crash may keep a part of it: the entries that
    /// come first if the process is killed or the file is on persistent memory.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), or if `previous` is too short. If the disk becomes full in the
    /// middle, the entries for which `previous` was written are stored.
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
        check_batch(entries.len(), previous.len())?;
        let (mut new, mut done) = (0, 0);
        while done < entries.len() {
            let portion = done..entries.len().min(done + self.portion()?);
            let (entries, previous) = (&entries[portion.clone()], &mut previous[portion.clone()]);
            new +=
                self.store_unsynced(|map| Ok(map.insert_many(entries, previous).unwrap_or(0)))?;
            done = portion.end;
        }
        self.acknowledge(new)
    }

    /// [`ConcurrentMap::update_many`](crate::ConcurrentMap::update_many): returns how many keys
    /// were present. A crash may keep a part of it.
    ///
    /// # Errors
    /// As [`update`](Self::update), or if `previous` is too short.
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
        check_batch(entries.len(), previous.len())?;
        self.change(|map| Ok(map.update_many(entries, previous).unwrap_or(0)))
    }

    /// [`ConcurrentMap::remove_many`](crate::ConcurrentMap::remove_many).
    ///
    /// # Errors
    /// As [`update`](Self::update), or if `removed` is too short.
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
        check_batch(keys.len(), removed.len())?;
        self.change(|map| Ok(map.remove_many(keys, removed).unwrap_or(0)))
    }

    /// [`ConcurrentMap::execute`](crate::ConcurrentMap::execute).
    ///
    /// # Errors
    /// As [`insert`](Self::insert). If the disk becomes full in the middle, the operations that
    /// were executed have outcomes.
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
        while done < operations.len() {
            let portion = done..operations.len().min(done + self.portion()?);
            let operations = &mut operations[portion.clone()];
            done += self.store_unsynced(|map| Ok(map.execute(operations, stop)))?;
            // The operation that stops the batch may be the last one of its portion.
            let has_failed = operations.last().is_some_and(|last| !last.outcome.is_success());
            if done < portion.end || stop == Stop::AtFirstFailure && has_failed {
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
        self.change(|map| {
            map.retain(keep);
            Ok(())
        })
    }
}

impl<K: InlineKey, V: Inline, B: BlockSizes> Map<K, V, InFile<Iceberg<B>>> {
    /// Returns a handle of the slot of the key's item; see
    /// [`IcebergMap::slot`](crate::InlineMap::slot).
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

    /// Returns the key and the value in a slot; see
    /// [`IcebergMap::get_at`](crate::InlineMap::get_at).
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::{PeaMap, Persistency, Simulation};

    /// A pair of a damaged page replaces no pair of its key that is not damaged.
    #[test]
    fn a_map_has_a_pair_of_each_of_its_keys() {
        let map: PeaMap<u64, u64> =
            Simulation::new(Persistency::Pages).create(&Options::new()).unwrap();
        map.insert(1, 10).unwrap();
        let has = |key, value| map.map.has_entry(&(key, value));
        assert!(has(1, 10) && has(1, 20) && !has(2, 10));
    }
}
