//! Byte strings of any length in a file: creating, opening, syncing and closing it.
//!
//! Blobs are in a part of the file whose pages are not copied: what is in a place is written
//! once, and the place is used again when nothing that is durable names it any more.

use super::maintenance::Maintenance;
use super::options::Options;
use super::session::{Session, close, create_file, open_file, open_or_create};
use crate::entry::{Blobs, Entries};
use crate::error::{Error, FileError};
use crate::hash::{HashPlacement, StableBytes, StablePlacement};
use crate::map::BlobMap;
use crate::memory::durable::{Backing, Description, Kind, Paged, Pool};
use crate::memory::{Finder, Saved};
use crate::table::iceberg::Recovery;
use crate::table::paged::PagedTable;
use crate::table::turbo::{Config, Table};
use crate::table::{Turbo, file_addresses};
use core::fmt;
use core::sync::atomic::AtomicUsize;
use std::path::Path;
use std::sync::Arc;

/// The map that is in the file.
type Inner = BlobMap<StableBytes, super::InFile<Turbo>>;

/// Its byte strings.
pub(super) type FileBlobs = Blobs<StableBytes, Paged>;

type File = Table<HashPlacement, Paged>;

/// How many words a file keeps of which places are taken at most: those of a file of some
/// TiB.
const MOST_SAVED: usize = 1 << 32;

/// Byte strings of 0 to 4 GiB each by byte strings, in a file (sections 3.3 to 3.7 of the
/// paper): the [`TurboBlobMap`](crate::TurboBlobMap) in RAM, which is there again.
///
/// A change writes the new blob, then the slot that names it; so there are two write-backs and
/// two fences on persistent memory, of which a removal needs the second only, and no crash
/// shows a blob that is not whole. A get reads what one in RAM does, and whether the lengths
/// that it finds are within the file. The place of a blob that was replaced is used again when
/// no guard can see it, and, in the page cache, when what a power cut would leave does not
/// name it any more: after the next [sync](Self::sync), or at once if nothing was synced since
/// it was stored.
///
/// Which places are taken is told when the file is closed. After a crash it is found out by
/// looking at all slots, shard by shard, when somebody comes to them, by the first change for
/// some thousand entries, and by one of 16 for a shard more; when all is known such a change
/// syncs, in the page cache. Until then new blobs are stored behind the others.
///
/// `max_load`, `max_capacity`, `threads`, `journal` and `segment_buckets` of the [`Options`]
/// are nothing to it.
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
pub struct TurboBlobMap {
    pub(super) map: Arc<Inner>,
    pub(super) session: Session,
    saved: Saved<Paged>,
    /// How many changes there were while places were looked for, about: counted relaxed.
    pub(super) changes: AtomicUsize,
}

impl fmt::Debug for TurboBlobMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurboBlobMap")
            .field("len", &self.len())
            .field("durability", &self.session.durability)
            .finish_non_exhaustive()
    }
}

/// What the words of a description mean.
fn describe(config: &Config, hash: StableBytes) -> Description {
    let mut words = [0; 12];
    words[..4].copy_from_slice(&config.to_words());
    words[4] = StableBytes::VERSION;
    words[5] = hash.seed;
    words
}

impl TurboBlobMap {
    /// Creates a file with an empty map. Nobody finds it before it is whole.
    ///
    /// # Errors
    /// If there is a file of this name, or it can't be made.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// assert!(TurboBlobMap::create(&path).is_err());
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
    /// # use nunatak::durable::{Options, TurboBlobMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create_with(&path, &Options::new().capacity(1000).shards(64))?;
    /// assert_eq!(map.stats().shards, 64);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn create_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        Self::create_in(create_file(path.as_ref(), options)?, options)
    }

    /// Opens a file, and recovers it if it was not closed: in milliseconds, whatever its size.
    ///
    /// # Errors
    /// If the file can't be read or written, is in use, is none of such a map, or is damaged in
    /// a way that no crash damages it.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// TurboBlobMap::create(&path)?.put(b"a", b"1")?;
    /// assert!(TurboBlobMap::open(&path)?.contains_key(b"a"));
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
    /// # use nunatak::{Error, FileError, durable::{Options, TurboBlobMap}};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// # TurboBlobMap::create(&path)?.put(b"a", b"1")?;
    /// let map = TurboBlobMap::open_with(&path, &Options::new().read_only(true))?;
    /// assert_eq!(map.delete(b"a"), Err(Error::File(FileError::ReadOnly)));
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
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// for is_new in [true, false] {
    ///     assert_eq!(TurboBlobMap::open_or_create(&path)?.put(b"a", b"1")?, !is_new);
    /// }
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
    /// # use nunatak::durable::{Options, TurboBlobMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::open_or_create_with(&path, &Options::new().capacity(1000))?;
    /// # drop(map);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open_or_create_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        let path = path.as_ref();
        let open = || Self::open_with(path, options);
        open_or_create(path, open, || Self::create_with(path, options))
    }

    pub(super) fn create_in(backing: Backing, options: &Options) -> Result<Self, Error> {
        let config = File::config_for(options.turbo.clone(), options.capacity)?;
        // A simulation is to do the same every time.
        let seed = if backing.is_simulated() { 1 } else { StablePlacement::draw()[0] };
        let hash = StableBytes { seed };
        let wanted = options.wanted_by_copies();
        let description = describe(&config, hash);
        let mut pool = Pool::create(backing, Kind::TurboBlobs, &description, wanted)?;
        // The name last, so that what has it is whole; but before the pool is shared.
        let unpublished = pool.backing_mut().unpublished();
        let medium = Paged::new(pool, file_addresses())?;
        let saved = Saved::new(&medium, MOST_SAVED)?;
        let blobs = Arc::new(Blobs::new(&medium, hash)?);
        let table = Table::create(medium, HashPlacement, config)?;
        table.sync()?;
        // After the sync, so that nobody copies pages in which nothing is.
        table.reserve(options.capacity)?;
        if let Some(unpublished) = unpublished {
            unpublished.publish()?;
        }
        let map = BlobMap::of(table, blobs);
        Self::of(map, saved, options, Recovery::default())
    }

    pub(super) fn open_in(backing: Backing, options: &Options) -> Result<Self, Error> {
        let pool = Pool::open(backing, Kind::TurboBlobs, options.wanted_by_copies())?;
        let words = *pool.description();
        if words[4] != StableBytes::VERSION {
            return Err(FileError::OtherKind { what: "hash" }.into());
        }
        let hash = StableBytes { seed: words[5] };
        let config = Config::of_words([words[0], words[1], words[2], words[3]])?;
        let was_closed = pool.was_closed();
        let medium = Paged::new(pool, file_addresses())?;
        // Before anybody asks for a page: those that it has are not free.
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
        let (table, recovery) = Table::open(medium, HashPlacement, config, finder)?;
        Self::of(BlobMap::of(table, blobs), saved, options, recovery)
    }

    fn of(
        map: Inner,
        saved: Saved<Paged>,
        options: &Options,
        recovery: Recovery,
    ) -> Result<Self, Error> {
        let map = Arc::new(map);
        let maintenance = match options.read_only {
            true => None,
            false => Maintenance::start(&map.table, options.durability, |run| {
                let map = Arc::clone(&map);
                let thread = std::thread::Builder::new().name("nunatak-sync".into());
                thread.spawn(move || run(&map.table))
            })?,
        };
        let session = Session::new(options.durability, maintenance, recovery);
        Ok(Self { map, session, saved, changes: AtomicUsize::new(0) })
    }

    pub(super) fn file(&self) -> &File {
        &self.map.table
    }

    /// All that was acknowledged before survives a power cut after it; see
    /// [`Map::sync`](super::Map::sync).
    ///
    /// # Errors
    /// If the system could not write it: the map is poisoned.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.put(b"a", b"1")?;
    /// map.sync()?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn sync(&self) -> Result<(), Error> {
        self.file().sync()
    }

    /// Syncs, and says in the file that it was closed, so that it need not be recovered. A map
    /// that is dropped does so, too, and tells nobody if it fails.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// TurboBlobMap::create(&path)?.close()?;
    /// assert!(TurboBlobMap::open(&path)?.recovery().was_closed);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn close(mut self) -> Result<(), Error> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.session.end_maintenance();
        let (table, pool) = (self.file(), self.file().pool());
        if !pool.backing().is_read_only() && !pool.is_closed() {
            // So that it is known which places are taken: or else files that are never open
            // for long would become larger and larger.
            self.map.len();
            self.map.reclaim();
            // What waits for that is free after it.
            table.sync()?;
            self.map.entries.settle();
            let words = self.map.entries.to_words();
            // If they find no room all blobs are looked for again.
            table
                .with_room(|| self.saved.save(words.as_deref()))
                .or_else(|_| table.with_room(|| self.saved.save(None)))?;
        }
        close(table)
    }

    /// What was found when the file was opened, or since.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// assert_eq!(TurboBlobMap::create(&path)?.recovery().items, 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn recovery(&self) -> Recovery {
        self.session.recovery(self.file())
    }

    /// Looks at every slot and every blob: how many entries there are. Changes wait, shard by
    /// shard.
    ///
    /// # Errors
    /// If something is not as it should be: [`FileError::Corrupt`] says what.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.verify(), Ok(1));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn verify(&self) -> Result<usize, Error> {
        self.saved.check()?;
        let guard = self.map.guard();
        let verified = self.file().verify(&|word, second| {
            // SAFETY: a slot has had the word since the guard was taken, which is let go below.
            self.map.entries.is_placed(second)
                && self.map.entries.word(unsafe { self.map.entries.get(second) }.0) == word
        });
        drop(guard);
        verified
    }

    /// How many bytes the file has.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// assert_eq!(map.file_bytes(), std::fs::metadata(&path).unwrap().len());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn file_bytes(&self) -> u64 {
        self.file().pool().file_bytes()
    }
}

impl Drop for TurboBlobMap {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
