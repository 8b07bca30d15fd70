//! Operations of maps of byte strings, each acknowledged as the map's
//! [`Durability`](super::Durability) says.

use super::blob_designs::BlobDesign;
use super::blobs::{BlobsInFile, FileBlobs, Inner};
use super::handle::FileMap;
use super::session::admit;
use super::table::FileTable;
use crate::entry::Entries;
use crate::error::{Error, FileError};
use crate::map::{ByteGuard, Compute};
use crate::memory::BlobStats;

type Bytes = Vec<u8>;

impl<D: BlobDesign> FileMap<BlobsInFile<D>> {
    /// Makes a change that may store something. If the disk is full, it syncs, which frees places
    /// that wait for a sync, and tries again.
    fn store_blob<R>(&self, run: impl FnMut(&Inner<D>) -> Result<R, Error>) -> Result<R, Error> {
        let stored = self.store_blob_unsynced(run)?;
        self.acknowledge(stored)
    }

    /// As `store_blob`, without the acknowledgement.
    fn store_blob_unsynced<R>(
        &self,
        mut run: impl FnMut(&Inner<D>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let content = &*self.map;
        content.prepare_to_store()?;
        match self.store_unsynced(|content| run(&content.map)) {
            Err(Error::File(FileError::Full)) => {
                content.sync_and_reuse()?;
                self.store_unsynced(|content| run(&content.map))
            }
            other => other,
        }
    }

    /// [`BlobMap::pin`](crate::BlobMap::pin): slices that are taken through the guard stay valid,
    /// whatever happens to their keys.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.pin().get(b"a"), Some(&b"1"[..]));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn pin(&self) -> ByteGuard<'_, FileBlobs, D> {
        self.map.map.pin()
    }

    /// [`BlobMap::get`](crate::BlobMap::get): returns a copy of the value.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TurboBlobMap::create(&path)?.get(b"a"), None);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.map.map.get(key)
    }

    /// Returns a copy of the value, if its checksum is right: it reads all of the entry, and takes
    /// about as long as hashing it does.
    ///
    /// # Errors
    /// [`FileError::Corrupt`] if the entry is not as it was written. (If its key or its lengths are
    /// damaged, the key is absent.)
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.get_verified(b"a")?, Some(b"1".to_vec()));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get_verified(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let map = &self.map.map;
        let guard = map.guard();
        let Some(word) = map.find_word(&guard, key) else { return Ok(None) };
        // SAFETY: the word was read under the guard, which is dropped last.
        let (is_whole, value) = unsafe { (map.entries.is_whole(word), map.entries.value(word)) };
        let copy = is_whole.then(|| value.to_vec());
        let address = map.entries.address(word);
        drop(guard);
        copy.map(Some).ok_or_else(|| {
            let error = FileError::corrupt("a value is not as it was written").into();
            FileTable::pool(&map.table).locate(address, error)
        })
    }

    /// [`BlobMap::get_with`](crate::BlobMap::get_with): runs `f` on the value, without a copy.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.put(b"a", b"123")?;
    /// assert_eq!(map.get_with(b"a", <[u8]>::len), Some(3));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get_with<R>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.map.map.get_with(key, f)
    }

    /// [`BlobMap::contains_key`](crate::BlobMap::contains_key).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert!(!TurboBlobMap::create(&path)?.contains_key(b"a"));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn contains_key(&self, key: &[u8]) -> bool {
        self.map.map.contains_key(key)
    }

    /// [`BlobMap::put`](crate::BlobMap::put): returns whether it replaced a value.
    ///
    /// # Errors
    /// If the key or the value has more than 2^32 - 1 bytes, the file was opened only for reading,
    /// the disk is full, or the map is poisoned. If the sync of this operation poisons the map, it
    /// is unknown whether the change is durable. This holds for all methods that store something;
    /// removals need no room.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// assert_eq!((map.put(b"a", b"1")?, map.put(b"a", b"2")?), (false, true));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        self.store_blob(|map| map.put(key, value))
    }

    /// [`BlobMap::insert`](crate::BlobMap::insert): returns a copy of the replaced value.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// assert_eq!(map.insert(b"a", b"1")?, None);
    /// assert_eq!(map.insert(b"a", b"2")?, Some(b"1".to_vec()));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.store_blob(|map| map.insert(key, value))
    }

    /// [`BlobMap::try_insert`](crate::BlobMap::try_insert): the inner error is a copy of the
    /// present value.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// assert_eq!(map.try_insert(b"a", b"1")?, Ok(()));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn try_insert(&self, key: &[u8], value: &[u8]) -> Result<Result<(), Vec<u8>>, Error> {
        self.store_blob(|map| map.try_insert(key, value))
    }

    /// [`BlobMap::update`](crate::BlobMap::update): returns a copy of the replaced value, if the
    /// key is present.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TurboBlobMap::create(&path)?.update(b"a", b"1")?, None);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.store_blob(|map| map.update(key, value))
    }

    /// [`BlobMap::compute`](crate::BlobMap::compute).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// ```
    /// # use nunatak::{Compute, durable::TurboBlobMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.compute(b"a", |value| Compute::Put([value.unwrap_or(&[]), b"1"].concat()))?;
    /// assert_eq!(map.get(b"a"), Some(b"1".to_vec()));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn compute<F>(&self, key: &[u8], mut f: F) -> Result<Option<Vec<u8>>, Error>
    where
        F: FnMut(Option<&[u8]>) -> Compute<Vec<u8>>,
    {
        self.store_blob(|map| map.compute(key, &mut f))
    }

    /// As `compute`, without the acknowledgement.
    pub(super) fn compute_unsynced<F>(&self, key: &[u8], mut f: F) -> Result<Option<Vec<u8>>, Error>
    where
        F: FnMut(Option<&[u8]>) -> Compute<Vec<u8>>,
    {
        self.store_blob_unsynced(|map| map.compute(key, &mut f))
    }

    /// [`BlobMap::fetch_update`](crate::BlobMap::fetch_update).
    ///
    /// # Errors
    /// As [`put`](Self::put); the inner result is that of the map in RAM.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.fetch_update(b"a", |value| Some(value.repeat(2)))?, Ok(b"1".to_vec()));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn fetch_update<F>(
        &self,
        key: &[u8],
        mut f: F,
    ) -> Result<Result<Bytes, Option<Bytes>>, Error>
    where
        F: FnMut(&[u8]) -> Option<Bytes>,
    {
        self.store_blob(|map| map.fetch_update(key, &mut f))
    }

    /// [`BlobMap::compare_exchange`](crate::BlobMap::compare_exchange).
    ///
    /// # Errors
    /// As [`put`](Self::put); the inner result is that of the map in RAM.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.compare_exchange(b"a", b"2", b"3")?, Err(Some(b"1".to_vec())));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn compare_exchange(
        &self,
        key: &[u8],
        current: &[u8],
        new: &[u8],
    ) -> Result<Result<Bytes, Option<Bytes>>, Error> {
        self.store_blob(|map| map.compare_exchange(key, current, new))
    }

    /// [`BlobMap::get_or_insert_with`](crate::BlobMap::get_or_insert_with).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// assert_eq!(map.get_or_insert_with(b"a", || b"1".to_vec())?, b"1");
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get_or_insert_with(
        &self,
        key: &[u8],
        make: impl FnOnce() -> Bytes,
    ) -> Result<Bytes, Error> {
        if let Some(present) = self.get(key) {
            return self.acknowledge(present);
        }
        let value = make();
        Ok(self.try_insert(key, &value)?.err().unwrap_or(value))
    }

    /// [`BlobMap::delete`](crate::BlobMap::delete): returns whether the key was present.
    ///
    /// # Errors
    /// As [`put`](Self::put), except for a full disk.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert!(!TurboBlobMap::create(&path)?.delete(b"a")?);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.change(|file| Ok(file.map.delete(key)))
    }

    /// [`BlobMap::remove`](crate::BlobMap::remove): returns a copy of the value.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.put(b"a", b"1")?;
    /// assert_eq!((map.remove(b"a")?, map.remove(b"a")?), (Some(b"1".to_vec()), None));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.change(|file| Ok(file.map.remove(key)))
    }

    /// [`BlobMap::remove_if`](crate::BlobMap::remove_if).
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.remove_if(b"a", |value| value.is_empty())?, None);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn remove_if<F>(&self, key: &[u8], condition: F) -> Result<Option<Vec<u8>>, Error>
    where
        F: FnMut(&[u8]) -> bool,
    {
        let removed = self.remove_if_unsynced(key, condition)?;
        self.acknowledge(removed)
    }

    /// As `remove_if`, without the acknowledgement.
    pub(super) fn remove_if_unsynced<F>(
        &self,
        key: &[u8],
        condition: F,
    ) -> Result<Option<Vec<u8>>, Error>
    where
        F: FnMut(&[u8]) -> bool,
    {
        admit(self.table())?;
        Ok(self.map.map.remove_if(key, condition))
    }

    /// [`BlobMap::put_many`](crate::BlobMap::put_many): returns how many keys were new.
    /// Acknowledged as one operation; a crash may keep a part of it.
    ///
    /// # Errors
    /// As [`put`](Self::put), for the first entry that can't be stored; the entries before it are
    /// stored.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// assert_eq!(map.put_many(&[("a", "1"), ("b", "2"), ("a", "3")])?, 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: &[(K, V)],
    ) -> Result<usize, Error> {
        let mut fresh = 0;
        let mut done = 0;
        while done < entries.len() {
            let portion = done..entries.len().min(done + self.portion()?);
            let (entries, mut stored) = (&entries[portion.clone()], 0);
            done = portion.end;
            self.store_blob_unsynced(|map| {
                let done = map.put_until(&entries[stored..], &mut fresh);
                done.map_err(|(more, error)| {
                    stored += more;
                    error
                })
            })?;
        }
        self.acknowledge(fresh)
    }

    /// [`BlobMap::delete_many`](crate::BlobMap::delete_many): returns how many keys were present.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.delete_many(&["a", "b"])?, 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn delete_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<usize, Error> {
        self.change(|file| Ok(file.map.delete_many(keys)))
    }

    /// [`BlobMap::prefetch`](crate::BlobMap::prefetch).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// TurboBlobMap::create(&path)?.prefetch(b"a");
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn prefetch(&self, key: &[u8]) {
        self.map.map.prefetch(key);
    }

    /// [`BlobMap::retain`](crate::BlobMap::retain).
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.put(b"a", b"1")?;
    /// map.retain(|_, value| value.is_empty())?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn retain<F: FnMut(&[u8], &[u8]) -> bool>(&self, keep: F) -> Result<(), Error> {
        self.change(|file| {
            file.map.retain(keep);
            Ok(())
        })
    }

    /// [`BlobMap::reclaim`](crate::BlobMap::reclaim): returns how many bytes wait for guards.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TurboBlobMap::create(&path)?.reclaim(), 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn reclaim(&self) -> usize {
        self.map.map.reclaim()
    }

    /// Returns how much memory the blobs take; after a crash, the blobs that were found until now.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TurboBlobMap::create(&path)?.blob_stats().blobs, 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn blob_stats(&self) -> BlobStats {
        self.map.map.blob_stats()
    }
}
