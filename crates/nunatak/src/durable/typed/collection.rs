//! [`TypedMap`]: the map as a whole.

use super::{Bytes, Encoding, KEY, KeyEncoding, TypedMap, VALUE, encoded};
use crate::durable::Options;
use crate::error::{Error, FileError};
use crate::memory::durable::Unpublished;
use crate::memory::{BlobStats, MemoryUsage};
use crate::table::iceberg::Recovery;
use crate::table::turbo::TurboStats;
use std::path::Path;

/// How many entries of a migration are stored at once.
const BATCH: usize = 1024;

/// The map as a whole.
impl<K: KeyEncoding, V: Encoding> TypedMap<K, V> {
    fn entry(&self, (key, value): (Vec<u8>, Vec<u8>)) -> Result<(K::Owned, V::Owned), Error> {
        let of = |what| move || Error::from(FileError::Undecodable { what, at: None });
        let decoded_key = K::decode(&key).map(K::to_owned).ok_or_else(of(KEY))?;
        let decoded = V::decode(&value).map(V::to_owned).ok_or_else(of(VALUE));
        let decoded = decoded.map_err(|error| {
            // Where it is in the file, unless it was replaced.
            let located =
                self.bytes.get_with(&key, |value| self.pool().locate(value.as_ptr(), error));
            located.unwrap_or(error)
        });
        Ok((decoded_key, decoded?))
    }

    /// Iterates over all entries, weakly consistent: see
    /// [`ConcurrentMap`](crate::ConcurrentMap#consistency).
    ///
    /// # Errors
    /// An item is [`FileError::Undecodable`] if its bytes are not those of an entry; others follow.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// map.insert("a", &1)?;
    /// let entries: Result<Vec<_>, _> = map.iter().collect();
    /// assert_eq!(entries?, [("a".to_string(), 1)]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = Result<(K::Owned, V::Owned), Error>> {
        self.bytes.iter().map(|entry| self.entry(entry))
    }

    /// Takes a consistent cut of all entries: see [`FileMap::snapshot`](super::FileMap::snapshot).
    ///
    /// # Errors
    /// If memory for the cut is refused. An item is [`FileError::Undecodable`] as one of
    /// [`iter`](Self::iter) is.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// map.insert("a", &1)?;
    /// let snapshot = map.snapshot()?;
    /// map.clear()?;
    /// assert_eq!(snapshot.count(), 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[allow(clippy::type_complexity, reason = "the type of an item of `iter`")]
    pub fn snapshot(
        &self,
    ) -> Result<impl Iterator<Item = Result<(K::Owned, V::Owned), Error>>, Error> {
        Ok(self.bytes.snapshot()?.map(|entry| self.entry(entry)))
    }

    /// Removes every entry for which `keep` returns false: as
    /// [`BlobMap::retain`](crate::BlobMap::retain). Keys and values are read in place.
    ///
    /// # Errors
    /// As [`remove`](Self::remove). Entries that can't be decoded stay, and the last of their errors
    /// is returned when all others have been judged.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// map.insert_many(&[("a", 1), ("b", 2)])?;
    /// map.retain(|key: &str, value| key == "b" && value == 2)?;
    /// assert_eq!(map.len(), 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn retain<F>(&self, mut keep: F) -> Result<(), Error>
    where
        F: FnMut(K::View<'_>, V::View<'_>) -> bool,
    {
        let mut failed = Ok(());
        self.bytes.retain(|key, value| {
            let judged =
                self.decoded::<K>(KEY, key).and_then(|key| Ok(keep(key, self.value(value)?)));
            judged.unwrap_or_else(|error| {
                failed = Err(error);
                true
            })
        })?;
        failed
    }

    /// Removes every entry that is present when the walk reaches it, whether it can be decoded or
    /// not.
    ///
    /// # Errors
    /// If the file was opened only for reading, or a sync has failed.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// map.insert("a", &1)?;
    /// map.clear()?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn clear(&self) -> Result<(), Error> {
        self.bytes.clear()
    }

    /// Returns how many entries there are: exact when no other thread changes the map.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TypedMap::<String, u64>::create(&path)?.len(), 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether there is no entry.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert!(TypedMap::<String, u64>::create(&path)?.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Checks every slot and every checksum, as [`FileMap::verify`](super::FileMap::verify) does, and
    /// decodes every entry. Returns how many entries there are.
    ///
    /// # Errors
    /// The first damage that was found. [`FileError::Undecodable`] names the byte of the file where
    /// a key or a value begins that is not of its type. [`FileError::Corrupt`] names a key that was
    /// stored as other bytes than it is encoded to, so that no lookup finds it.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// map.insert("a", &1)?;
    /// assert_eq!(map.verify()?, 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn verify(&self) -> Result<usize, Error> {
        let count = self.bytes.verify()?;
        let guard = self.bytes.pin();
        for (key, value) in guard.iter() {
            let decoded = K::to_owned(self.decoded::<K>(KEY, key)?);
            if *encoded::<K>(K::borrow(&decoded))? != *key {
                let error = FileError::corrupt("a key is encoded to other bytes").into();
                return Err(self.pool().locate(key.as_ptr(), error));
            }
            self.value(value)?;
        }
        Ok(count)
    }

    /// Copies all entries, as they are at one instant, to a new file of the same schema: see
    /// [`FileMap::backup`](super::FileMap::backup). Returns how many there are.
    ///
    /// # Errors
    /// If there is a file of this name, the file can't be made, or memory is refused.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let (path, copy) = (directory.path().join("map"), directory.path().join("copy"));
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// map.insert("a", &1)?;
    /// assert_eq!(map.backup(&copy)?, 1);
    /// assert_eq!(TypedMap::<String, u64>::open(&copy)?.get("a")?, Some(1));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        self.bytes.backup(path)
    }

    /// Makes a new file of another schema: `change` gets each entry of one instant, and returns the
    /// entry of the new file, or `None` to leave it out. If two have the same key, the last counts.
    /// The new file is closed and durable, and gets its name when it is whole. Returns how many
    /// entries it has.
    ///
    /// Afterwards `std::fs::rename` puts the new file in the place of this one, when both are
    /// closed. So the program has the old file or the new one, whenever it is interrupted.
    ///
    /// # Errors
    /// As [`create_with`](Self::create_with), and for the first entry that can't be decoded or
    /// stored. Then there is no new file.
    ///
    /// ```
    /// use nunatak::durable::{Options, TypedMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let (first, second) = (Options::new().schema("ages", 1), Options::new().schema("ages", 2));
    /// # TypedMap::<String, u8>::create_with(&path, &first)?.insert("Ada", &36)?;
    /// // Version 1 had ages in years, version 2 has them in days, and more bits.
    /// let old: TypedMap<String, u8> = TypedMap::open_with(&path, &first)?;
    /// let new = path.with_extension("2");
    /// old.migrate::<String, u32>(&new, &second, |name, age| Some((name, u32::from(age) * 365)))?;
    /// old.close()?;
    /// std::fs::rename(&new, &path).unwrap();
    ///
    /// let ages: TypedMap<String, u32> = TypedMap::open_with(&path, &second)?;
    /// assert_eq!(ages.get("Ada")?, Some(13140));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn migrate<L: KeyEncoding, W: Encoding>(
        &self,
        path: impl AsRef<Path>,
        options: &Options,
        mut change: impl FnMut(K::Owned, V::Owned) -> Option<(L::Owned, W::Owned)>,
    ) -> Result<usize, Error> {
        let unpublished = Unpublished::new(path.as_ref(), "migration")?;
        let entries = self.snapshot()?;
        let copy = TypedMap::<L, W>::create_with(unpublished.temporary(), options)?;
        let mut batch = Vec::with_capacity(BATCH);
        for entry in entries {
            let (key, value) = entry?;
            if let Some((key, value)) = change(key, value) {
                let key = encoded::<L>(L::borrow(&key))?.into_owned();
                batch.push((key, encoded::<W>(W::borrow(&value))?.into_owned()));
            }
            if batch.len() == BATCH {
                copy.bytes.put_many(&batch)?;
                batch.clear();
            }
        }
        copy.bytes.put_many(&batch)?;
        let count = copy.len();
        copy.close()?;
        unpublished.publish()?;
        Ok(count)
    }

    /// Makes room in the table for `additional` more entries.
    ///
    /// # Errors
    /// If the disk is full, the file was opened only for reading, or a sync has failed.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// TypedMap::<String, u64>::create(&path)?.reserve(1000)?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn reserve(&self, additional: usize) -> Result<(), Error> {
        self.bytes.reserve(additional)
    }

    /// Makes the file as small as its entries allow: see
    /// [`FileMap::shrink_to_fit`](super::FileMap::shrink_to_fit).
    ///
    /// # Errors
    /// If there is no room for the smaller table, the file was opened only for reading, or a sync
    /// has failed.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// map.reserve(100_000)?;
    /// let before = map.file_bytes();
    /// map.shrink_to_fit()?;
    /// assert!(map.file_bytes() < before);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn shrink_to_fit(&self) -> Result<(), Error> {
        self.bytes.shrink_to_fit()
    }

    /// Returns the size of the file in bytes.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// assert_eq!(map.file_bytes(), std::fs::metadata(&path).unwrap().len());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn file_bytes(&self) -> u64 {
        self.bytes.file_bytes()
    }

    /// Returns the error after which changes return [`Poisoned`](crate::FileError::Poisoned): see
    /// [`FileMap::failure`](super::FileMap::failure).
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// assert_eq!(map.failure(), None);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn failure(&self) -> Option<Error> {
        self.bytes.failure()
    }

    /// Returns what opening the file has found: see [`FileMap::recovery`](super::FileMap::recovery).
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// drop(TypedMap::<String, u64>::create(&path)?);
    /// assert!(TypedMap::<String, u64>::open(&path)?.recovery().was_closed);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn recovery(&self) -> Recovery {
        self.bytes.recovery()
    }

    /// Returns the share of the slots that hold an entry.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TypedMap::<String, u64>::create(&path)?.load_factor(), 0.0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn load_factor(&self) -> f64 {
        self.bytes.load_factor()
    }

    /// Returns how many bytes of the file and of RAM the map has mapped, and how many are resident.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert!(TypedMap::<String, u64>::create(&path)?.memory_usage().mapped > 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn memory_usage(&self) -> MemoryUsage {
        self.bytes.memory_usage()
    }

    /// Returns the figures of the table.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TypedMap::<String, u64>::create(&path)?.stats().len, 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn stats(&self) -> TurboStats {
        Bytes::stats(&self.bytes)
    }

    /// Returns how much memory the encoded entries take; after a crash, those that were found until
    /// now.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// map.insert("abc", &1)?;
    /// assert_eq!(map.blob_stats().blobs, 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn blob_stats(&self) -> BlobStats {
        self.bytes.blob_stats()
    }
}
