//! [`PeaMultiMap`]: keys with any number of values, in a file.

use super::maintenance::Maintenance;
use super::map::FileTable;
use super::options::Options;
use super::pea::{self, File};
use super::session::{Session, admit, admit_new, close, create_file, open_file, open_or_create};
use crate::entry::{Inline, InlineKey};
use crate::error::{Error, FileError};
use crate::hash::StableHash;
use crate::memory::durable::{Backing, Paged};
use crate::table::iceberg::Recovery;
use core::fmt;
use std::path::Path;
use std::sync::Arc;

/// The map of the file, as one in RAM is.
pub(super) type Inner<K, V> = crate::map::PeaMultiMap<K, V, StableHash, Paged>;

/// A concurrent map in which a key has any number of values, in a file (Pea Hash, sections
/// 3.3 and 3.4).
///
/// It is the [map in RAM](crate::PeaMultiMap) with the same operations; what lasts how long
/// says [`Durability`](crate::durable::Durability), and a [`PeaMap`](crate::durable::PeaMap)
/// what opening a file takes. A value that is added to few writes back one cache line, to
/// many two: that of the value, and then that of the pointer with their number. A change of
/// several words (values that become a buffer, one that is taken out of the middle of a
/// buffer, all of a key) is written to a log before, so that a crash leaves all of it or
/// nothing.
///
/// After a crash no value buffer of before is used again before all segments have been
/// looked at: by [`len`](Self::len), [`iter`](Self::iter), or one by one.
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
pub struct PeaMultiMap<K: InlineKey, V: Inline> {
    pub(super) map: Arc<Inner<K, V>>,
    session: Session,
}

impl<K: InlineKey, V: Inline> fmt::Debug for PeaMultiMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeaMultiMap")
            .field("len", &self.len())
            .field("durability", &self.session.durability)
            .finish_non_exhaustive()
    }
}

impl<K: InlineKey, V: Inline> PeaMultiMap<K, V> {
    /// Creates a file with an empty map; see [`Map::create`](crate::durable::Map::create).
    ///
    /// # Errors
    /// If there is a file of this name, or it can't be made.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// assert!(map.is_empty() && PeaMultiMap::<u64, u64>::create(&path).is_err());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn create(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::create_with(path, &Options::default())
    }

    /// Creates a file with an empty map.
    ///
    /// # Errors
    /// As [`create`](Self::create), and if an option is out of its range.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = nunatak::durable::Options::new().segment_buckets(64);
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create_with(&path, &options)?;
    /// # drop(map);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn create_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        Self::create_in(create_file(path.as_ref(), options)?, options)
    }

    /// Opens a file, and recovers it if it was not closed, in a few milliseconds.
    ///
    /// # Errors
    /// As [`Map::open`](crate::durable::Map::open).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// # PeaMultiMap::<u64, u64>::create(&path)?.insert(1, 10)?;
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::open(&path)?;
    /// assert_eq!(map.count(&1), 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, &Options::default())
    }

    /// Opens a file. Of the options those about its contents are the file's own.
    ///
    /// # Errors
    /// As [`open`](Self::open), and if an option is out of its range.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// # PeaMultiMap::<u64, u64>::create(&path)?.insert(1, 10)?;
    /// let options = nunatak::durable::Options::new().read_only(true);
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::open_with(&path, &options)?;
    /// assert!(map.contains_pair(&1, &10) && map.insert(1, 11).is_err());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        Self::open_in(open_file(path.as_ref(), options)?, options)
    }

    /// Opens a file, or creates it if there is none.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`create`](Self::create).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::open_or_create(&path)?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open_or_create(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_or_create_with(path, &Options::default())
    }

    /// Opens a file, or creates it if there is none.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with) and [`create_with`](Self::create_with).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = nunatak::durable::Options::new();
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::open_or_create_with(&path, &options)?;
    /// # drop(map);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open_or_create_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        let path = path.as_ref();
        let open = || Self::open_with(path, options);
        open_or_create(path, open, || Self::create_with(path, options))
    }

    const BITS: (u32, u32) = (K::BITS, V::BITS);

    pub(crate) fn create_in(backing: Backing, options: &Options) -> Result<Self, Error> {
        let table = pea::create(backing, options, Self::BITS, true)?;
        Self::of(table, options, Recovery::default())
    }

    pub(crate) fn open_in(backing: Backing, options: &Options) -> Result<Self, Error> {
        let (table, recovery) = pea::open(backing, options, Self::BITS, true)?;
        let map = Self::of(table, options, recovery)?;
        if !(K::EVERY_WORD && V::EVERY_WORD) {
            map.verify()?;
        }
        Ok(map)
    }

    fn of(table: File, options: &Options, recovery: Recovery) -> Result<Self, Error> {
        let map = Arc::new(Inner::of(table));
        let spawn = |run: Box<dyn FnOnce(&File) + Send>| {
            let map = Arc::clone(&map);
            let thread = std::thread::Builder::new().name("nunatak-sync".into());
            thread.spawn(move || run(&map.table))
        };
        let maintenance = match options.read_only {
            true => None,
            false => Maintenance::start(&map.table, options.durability, spawn)?,
        };
        Ok(Self { map, session: Session::new(options.durability, maintenance, recovery) })
    }

    pub(super) fn file(&self) -> &File {
        &self.map.table
    }

    pub(super) fn acknowledge<T>(&self, result: T) -> Result<T, Error> {
        self.session.acknowledge(self.file(), result)
    }

    /// Makes all that was acknowledged survive a power cut. Other operations go on
    /// meanwhile.
    ///
    /// # Errors
    /// If the system could not write it; the map is poisoned then.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// map.sync()?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn sync(&self) -> Result<(), Error> {
        self.file().sync()
    }

    /// Syncs, and says in the file that it was closed. A map that is dropped does the same,
    /// but can't tell of an error.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.close()?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn close(mut self) -> Result<(), Error> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.session.end_maintenance();
        close(self.file())
    }

    /// Looks at every slot and every value: whether each is where it belongs, and is one of
    /// these types. How many values there are. Changes of other threads should wait for its
    /// end: it reports what it sees of them.
    ///
    /// # Errors
    /// What is wrong.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert_eq!(map.verify()?, 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn verify(&self) -> Result<usize, Error> {
        self.file().check(&|key, value| K::is_word(key) && V::is_word(value))
    }

    /// What opening the file has found; nothing if it was created. Of a map that was not
    /// closed the values are those of the segments that somebody has come to since.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// assert_eq!(map.recovery().items, 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn recovery(&self) -> Recovery {
        self.session.recovery(self.file())
    }

    /// How many bytes the file has.
    ///
    /// ```
    /// # use nunatak::durable::PeaMultiMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::create(&path)?;
    /// assert_eq!(map.file_bytes(), std::fs::metadata(&path).unwrap().len());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn file_bytes(&self) -> u64 {
        self.file().pool().file_bytes()
    }

    /// Gives a key another value, whether it has that already or not.
    ///
    /// # Errors
    /// If there is no room on the disk, the file was opened to be read, or a sync has
    /// failed.
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
        admit_new(self.file())?;
        self.map.try_insert(key, value).map_err(refused)?;
        self.acknowledge(())
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

    /// Takes a value of a key out, once; whether it was there.
    ///
    /// # Errors
    /// If the file was opened to be read, or a sync has failed.
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
        admit(self.file())?;
        self.acknowledge(self.map.remove_one(key, value))
    }

    /// Takes all values of a key out, at once, whatever crashes; how many they were.
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
        admit(self.file())?;
        self.acknowledge(self.map.remove_all(key))
    }

    /// Takes all values of a key out, at once, whatever crashes, and returns them.
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
        admit(self.file())?;
        self.acknowledge(self.map.drain(key))
    }
}

/// The table has nowhere to put a value: there is no memory for a buffer on the disk.
#[cold]
pub(super) fn refused(_: Error) -> Error {
    FileError::Full.into()
}

impl<K: InlineKey, V: Inline> Drop for PeaMultiMap<K, V> {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
