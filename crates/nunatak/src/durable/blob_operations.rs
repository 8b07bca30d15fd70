//! [`TurboBlobMap`] in a file: the operations on one key, acknowledged as the map's
//! [`Durability`](super::Durability) says.

use super::blob::{FileBlobs, TurboBlobMap};
use super::session::{admit, admit_new};
use crate::error::{Error, FileError};
use crate::map::{ByteGuard, Compute};
use crate::table::Turbo;
use core::sync::atomic::Ordering;

/// After a crash, one of so many changes looks at a shard that nobody has looked at.
const CHANGES: usize = 16;

/// The first looks at as many as have so many entries, which takes less than a millisecond: so
/// that a small file is known before it would become larger.
const AT_ONCE: usize = 4096;

impl TurboBlobMap {
    /// Does a change that may store something: if the disk is full, after a sync again, by
    /// which what waits for one is free.
    pub(super) fn store<T>(&self, run: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        let stored = self.store_unsynced(run)?;
        self.session.acknowledge(self.file(), stored)
    }

    /// The same, not acknowledged.
    pub(super) fn store_unsynced<T>(
        &self,
        mut run: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        admit_new(self.file())?;
        if self.map.entries.are_searched() {
            self.search()?;
        }
        match run() {
            Err(Error::File(FileError::Full)) => {
                self.map.reclaim();
                self.sync()?;
                self.map.entries.settle();
                run()
            }
            other => other,
        }
    }

    /// Does its share of finding out which places are taken, after a crash.
    #[cold]
    fn search(&self) -> Result<(), Error> {
        // Relaxed: about so many.
        let change = self.changes.fetch_add(1, Ordering::Relaxed);
        if change.is_multiple_of(CHANGES) {
            self.file().restore_some(if change == 0 { AT_ONCE } else { 1 });
            if self.map.entries.wait_for_sync() {
                self.sync()?;
                self.map.entries.settle();
            }
        }
        Ok(())
    }

    /// Does a change that stores nothing.
    pub(super) fn change<T>(&self, run: impl FnOnce() -> T) -> Result<T, Error> {
        admit(self.file())?;
        self.session.acknowledge(self.file(), run())
    }

    /// [`BlobMap::pin`](crate::BlobMap::pin): slices that are taken through the guard stay
    /// good, whatever happens to their keys.
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
    pub fn pin(&self) -> ByteGuard<'_, FileBlobs, super::InFile<Turbo>> {
        self.map.pin()
    }

    /// [`BlobMap::get`](crate::BlobMap::get): a copy of the value.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TurboBlobMap::create(&path)?.get(b"a"), None);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.map.get(key)
    }

    /// [`BlobMap::get_with`](crate::BlobMap::get_with): runs `f` on the value, where it is.
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
        self.map.get_with(key, f)
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
        self.map.contains_key(key)
    }

    /// [`BlobMap::put`](crate::BlobMap::put): whether it replaced a value.
    ///
    /// # Errors
    /// A key or a value of more than 2^32 - 1 bytes, a file that is opened to be read, a full
    /// disk; a map that is poisoned or was just now, by the sync of this operation: then it is
    /// not known whether it is durable. So for all that store something; what takes out needs
    /// no room.
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
        self.store(|| self.map.put(key, value))
    }

    /// [`BlobMap::insert`](crate::BlobMap::insert): a copy of what was replaced.
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
        self.store(|| self.map.insert(key, value))
    }

    /// [`BlobMap::try_insert`](crate::BlobMap::try_insert): a copy of the value that is
    /// present, if one is.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// assert_eq!(map.try_insert(b"a", b"1")?, None);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn try_insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.store(|| self.map.try_insert(key, value))
    }

    /// [`BlobMap::update`](crate::BlobMap::update): a copy of what was replaced, if the key is
    /// present.
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
        self.store(|| self.map.update(key, value))
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
        self.store(|| self.map.compute(key, &mut f))
    }

    /// [`BlobMap::delete`](crate::BlobMap::delete): whether the key was there.
    ///
    /// # Errors
    /// As [`put`](Self::put), but for a full disk.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert!(!TurboBlobMap::create(&path)?.delete(b"a")?);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.change(|| self.map.delete(key))
    }

    /// [`BlobMap::remove`](crate::BlobMap::remove): a copy of the value.
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
        self.change(|| self.map.remove(key))
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
        self.change(|| self.map.remove_if(key, condition))
    }
}
