//! [`TurboBlobMap`]: byte strings of any length in a file.
//!
//! Blobs are in a part of the file whose pages are not copied. The bytes of a place are written
//! once, and the place is used again when nothing durable refers to it any more.

use super::designs::InFile;
use super::handle::{FileMap, MapInFile, create_whole};
use super::options::Options;
use super::session::{PORTION, admit_new};
use super::table::FileTable;
use crate::entry::{Blobs, Entries};
use crate::error::{Error, FileError};
use crate::hash::{IdentityCodec, StableBytes, StableCodec};
use crate::map::{BlobMap, ByteGuard, Compute};
use crate::memory::durable::{Backing, Description, Kind, Paged, Pool};
use crate::memory::{BlobStats, Finder, MemoryUsage, Saved};
use crate::table::iceberg::Recovery;
use crate::table::paged::PagedTable;
use crate::table::turbo::{Config, Table, TurboStats};
use crate::table::{Turbo, file_addresses};
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

type Bytes = Vec<u8>;

/// The map in the file.
type Inner = BlobMap<StableBytes, InFile<Turbo>>;

/// The entries of that map.
type FileBlobs = Blobs<StableBytes, Paged>;

type File = Table<IdentityCodec, Paged>;

/// The most words that a file keeps about taken places: enough for a file of some TiB.
const MOST_SAVED: usize = 1 << 32;

/// After a crash, one of so many changes searches a shard that no operation has used yet.
const CHANGES: usize = 16;

/// The first change after a crash searches shards of about so many entries, which takes less than a
/// millisecond. So the taken places of a small file are known before the file would grow.
const AT_ONCE: usize = 4096;

/// Byte strings of 0 to 4 GiB each by byte strings, in a file (sections 3.3 to 3.7 of the paper):
/// the [`TurboBlobMap`](crate::TurboBlobMap) in RAM, made durable.
///
/// A change writes the new blob, then the slot that refers to it. On persistent memory it makes two
/// write-backs and two fences (a removal only the second), and no crash shows a blob that is not
/// whole. A get reads what a get in RAM reads, and checks that the lengths that it finds are within
/// the file.
///
/// The place of a replaced blob is used again when no guard can see it. In the page cache the state
/// that a power cut would leave must not refer to it either: that is so after the next
/// [sync](Self::sync), or at once if no sync has run since the blob was stored.
///
/// Closing a file stores which places are taken. After a crash this is found out by reading all
/// slots, shard by shard: when an operation uses a shard; by the first change, for some thousand
/// entries; and by one of 16 changes, for one more shard. In the page cache such a change syncs
/// when all shards are known. Until then new blobs are stored behind the others.
///
/// The options `max_load`, `max_capacity`, `threads`, `journal` and `segment_buckets` have no
/// effect.
///
/// ```
/// use nunatak::durable::TurboBlobMap;
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map = TurboBlobMap::open_or_create(&path)?;
/// map.put(b"nunatak", b"stands still")?;
/// map.close()?;
/// let map = TurboBlobMap::open(&path)?;
/// assert_eq!(map.pin().get(b"nunatak"), Some(&b"stands still"[..]));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub type TurboBlobMap = FileMap<BlobsInFile>;

/// The content of a [`TurboBlobMap`]: byte strings, and the places of the file that they take.
///
/// ```
/// use nunatak::durable::{BlobsInFile, FileMap};
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map: FileMap<BlobsInFile> = FileMap::create(&path)?;
/// # drop(map);
/// # Ok::<(), nunatak::Error>(())
/// ```
pub struct BlobsInFile {
    map: Inner,
    saved: Saved<Paged>,
    /// About how many changes were made while places were searched: counted relaxed.
    changes: AtomicUsize,
}

impl fmt::Debug for BlobsInFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.map.fmt(f)
    }
}

fn describe(config: &Config, hash: StableBytes) -> Description {
    let mut words = [0; 12];
    words[..4].copy_from_slice(&config.to_words());
    words[4] = StableBytes::VERSION;
    words[5] = hash.seed;
    words
}

impl BlobsInFile {
    fn of(table: File, blobs: Arc<FileBlobs>, saved: Saved<Paged>) -> Self {
        Self { map: BlobMap::of(table, blobs), saved, changes: AtomicUsize::new(0) }
    }

    /// Makes the places of removed blobs free.
    fn settle(&self) -> Result<(), Error> {
        self.map.reclaim();
        FileTable::sync(&self.map.table)?;
        self.map.entries.settle();
        Ok(())
    }

    /// Does this change's share of the search for taken places, after a crash.
    #[cold]
    fn search(&self) -> Result<(), Error> {
        // Relaxed: an approximate count suffices.
        let change = self.changes.fetch_add(1, Ordering::Relaxed);
        if change.is_multiple_of(CHANGES) {
            self.map.table.restore_some(if change == 0 { AT_ONCE } else { 1 });
            if self.map.entries.wait_for_sync() {
                FileTable::sync(&self.map.table)?;
                self.map.entries.settle();
            }
        }
        Ok(())
    }
}

#[allow(private_interfaces, reason = "the trait is sealed: its parts are internal")]
impl MapInFile for BlobsInFile {
    type Stats = TurboStats;
    type Entry = (Bytes, Bytes);
    type Table = File;

    fn create(backing: Backing, options: &Options) -> Result<Self, Error> {
        let config = File::config_for(options.turbo.clone(), options.capacity)?;
        // A simulation must do the same every time.
        let seed = if backing.is_simulated() { 1 } else { StableCodec::draw()[0] };
        let hash = StableBytes { seed };
        let (wanted, description) = (options.wanted_by_copies(), describe(&config, hash));
        create_whole(backing, Kind::TurboBlobs, &description, wanted, |pool| {
            let medium = Paged::new(pool, file_addresses())?;
            let saved = Saved::new(&medium, MOST_SAVED)?;
            let blobs = Arc::new(Blobs::new(&medium, hash)?);
            let table = Table::create(medium, IdentityCodec, config)?;
            FileTable::sync(&table)?;
            // After the sync, so that no empty pages are copied.
            table.reserve(options.capacity)?;
            Ok(Self::of(table, blobs, saved))
        })
    }

    fn open(backing: Backing, options: &Options) -> Result<(Self, Recovery), Error> {
        let pool = Pool::open(backing, Kind::TurboBlobs, options.wanted_by_copies())?;
        let words = *pool.description();
        if words[4] != StableBytes::VERSION {
            return Err(FileError::OtherKind { what: "hash" }.into());
        }
        let hash = StableBytes { seed: words[5] };
        let config = Config::of_words([words[0], words[1], words[2], words[3]])?;
        let was_closed = pool.was_closed();
        let medium = Paged::new(pool, file_addresses())?;
        // Before any page is taken: the pages that `Saved` has are not free.
        let saved = Saved::new(&medium, MOST_SAVED)?;
        let blobs = Arc::new(Blobs::new(&medium, hash)?);
        let words = if was_closed { saved.saved() } else { None };
        let finder = match words.is_some_and(|words| blobs.learn(&words)) {
            true => None,
            false => {
                blobs.begin_search()?;
                Some(Arc::clone(&blobs) as Arc<dyn Finder>)
            }
        };
        let (table, recovery) = Table::open(medium, IdentityCodec, config, finder)?;
        Ok((Self::of(table, blobs, saved), recovery))
    }

    #[inline(always)]
    fn table(&self) -> &File {
        &self.map.table
    }

    fn verify(&self) -> Result<usize, Error> {
        self.saved.check()?;
        let guard = self.map.guard();
        let verified = PagedTable::verify(&self.map.table, &|word, second| {
            // SAFETY: a slot has had the word since the guard was taken, which is dropped below.
            self.map.entries.is_placed(second)
                && self.map.entries.word(unsafe { self.map.entries.get(second) }.0) == word
        });
        drop(guard);
        verified
    }

    fn prepare_close(&self) -> Result<(), Error> {
        // Recovers all shards, so that the taken places are known: otherwise files that are never
        // open for long would grow and grow.
        self.map.len();
        // Places that wait for a sync are free after it.
        self.settle()?;
        let words = self.map.entries.to_words();
        let table = &self.map.table;
        // If the words find no room, the next open searches all blobs again.
        table
            .with_room(|| self.saved.save(words.as_deref()))
            .or_else(|_| table.with_room(|| self.saved.save(None)))?;
        table.prepare_close()
    }

    fn iter(&self) -> impl Iterator<Item = Self::Entry> {
        self.map.iter()
    }

    fn snapshot(&self) -> Result<impl Iterator<Item = Self::Entry>, Error> {
        self.map.snapshot()
    }

    fn clear(&self) {
        self.map.clear();
    }

    fn len(&self) -> usize {
        self.map.len()
    }

    fn reserve(&self, additional: usize) -> Result<(), Error> {
        self.map.reserve(additional)
    }

    fn shrink_to_fit(&self) -> Result<(), Error> {
        // Recovers all shards, so that the free places are known.
        self.map.len();
        self.settle()?;
        self.map.shrink_to_fit()?;
        // The sync frees the places that moved blobs left.
        self.settle()?;
        self.map.entries.trim();
        Ok(())
    }

    fn load_factor(&self) -> f64 {
        self.map.load_factor()
    }

    fn memory_usage(&self) -> MemoryUsage {
        self.map.memory_usage()
    }

    fn stats(&self) -> TurboStats {
        self.map.stats()
    }
}

impl FileMap<BlobsInFile> {
    /// Makes a change that may store something. If the disk is full, it syncs, which frees places
    /// that wait for a sync, and tries again.
    fn store_blob<R>(&self, run: impl FnMut(&Inner) -> Result<R, Error>) -> Result<R, Error> {
        let stored = self.store_unsynced(run)?;
        self.acknowledge(stored)
    }

    /// As `store_blob`, without the acknowledgement.
    fn store_unsynced<R>(
        &self,
        mut run: impl FnMut(&Inner) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let content = &*self.map;
        admit_new(&content.map.table)?;
        if content.map.entries.are_searched() {
            content.search()?;
        }
        match run(&content.map) {
            Err(Error::File(FileError::Full)) => {
                content.settle()?;
                run(&content.map)
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
    pub fn pin(&self) -> ByteGuard<'_, FileBlobs, super::InFile<Turbo>> {
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

    /// [`BlobMap::try_insert`](crate::BlobMap::try_insert): returns a copy of the present value, if
    /// there is one.
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
        Ok(self.try_insert(key, &value)?.unwrap_or(value))
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
        self.change(|file| Ok(file.map.remove_if(key, condition)))
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
        for entries in entries.chunks(PORTION) {
            let mut stored = 0;
            self.store_unsynced(|map| {
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
