//! [`FileMap`]: a map that is in a file; creates, opens, syncs and closes it.
//!
//! Invariants:
//!
//! 1. A file has its name only when it is whole: a new file is written under another name,
//!    synced, and renamed.
//! 2. A change is admitted before it begins: the file is writable, no sync has failed, and there
//!    is room for what the change stores.
//! 3. A change is acknowledged after it has been made as durable as [`Durability`](crate::durable::Durability) says.

use super::content::MapInFile;
use super::maintenance::Maintenance;
use super::options::Options;
use super::session::{PORTION, Room, Session, admit, admit_new};
use super::table::FileTable;
use crate::error::{Error, FileError};
use crate::memory::MemoryUsage;
use crate::memory::durable::Backing;
use crate::table::iceberg::Recovery;
use crate::table::permit;
use core::fmt;
use std::path::Path;
use std::sync::Arc;

/// A map in a file: the handle of an open file, and the map `T` that is in it.
///
/// The kinds are [`IcebergMap`](crate::durable::IcebergMap), [`PeaMap`](crate::durable::PeaMap),
/// [`PeaMultiMap`](crate::durable::PeaMultiMap), [`TurboMap`](crate::durable::TurboMap),
/// [`PeaBlobMap`](crate::durable::PeaBlobMap), [`IcebergBlobMap`](crate::durable::IcebergBlobMap)
/// and [`TurboBlobMap`](crate::durable::TurboBlobMap).
/// All of them are created, opened, synced and closed in the same way. Their other operations are
/// those of the map in RAM of the same design, and touch the same cache lines. Changes return a
/// `Result`: the disk may be full, the file may have been opened only for reading, or a sync may
/// have failed.
/// [`Durability`](crate::durable::Durability) says what an operation survives once it has returned.
///
/// Dropping a handle [closes](Self::close) its file.
///
/// ```
/// use nunatak::durable::{Durability, IcebergMap, Options};
///
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let options = Options::new().durability(Durability::Synced);
/// let map: IcebergMap<u64, u64> = IcebergMap::create_with(&path, &options)?;
/// let mut previous = [None; 2];
/// map.insert_many(&[(1, 10), (2, 20)], &mut previous)?;   // one sync for both
/// assert_eq!(map.get(&2), Some(20));
/// # drop(map);
/// # Ok::<(), nunatak::Error>(())
/// ```
pub struct FileMap<T: MapInFile> {
    /// Shared with the threads of the session.
    pub(super) map: Arc<T>,
    pub(super) session: Session,
}

impl<T: MapInFile> fmt::Debug for FileMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileMap")
            .field("len", &self.len())
            .field("durability", &self.session.durability)
            .finish_non_exhaustive()
    }
}

/// Creating, opening, syncing and closing.
impl<T: MapInFile> FileMap<T> {
    /// Creates a file with an empty map. The file gets its name when it is whole.
    ///
    /// # Errors
    /// If there is a file of this name, or the file can't be made.
    ///
    /// ```
    /// # use nunatak::{Error, FileError, durable::IcebergMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// let again = IcebergMap::<u64, u64>::create(&path);
    /// assert_eq!(again.unwrap_err(), Error::File(FileError::Exists));
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
    /// # use nunatak::durable::{Options, PeaMultiMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = Options::new().capacity(1000);
    /// let edges: PeaMultiMap<u32, u32> = PeaMultiMap::create_with(&path, &options)?;
    /// # drop(edges);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn create_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        options.check()?;
        if options.read_only {
            return Err(FileError::ReadOnly.into());
        }
        Self::create_in(Backing::create(path.as_ref(), options.media())?, options)
    }

    /// Opens a file, and recovers it if it was not closed.
    ///
    /// A file that can't be opened is left as it was, byte for byte.
    ///
    /// Opening an [`IcebergMap`](crate::durable::IcebergMap) takes about as long as reading the
    /// file, opening any other map a few milliseconds. If not every word stands for a key and for a
    /// value (types of fewer than 64 bits, pairs), opening the file checks all entries in addition.
    ///
    /// # Errors
    /// If the file can't be read or written, is in use, holds no such map, or is damaged in a way
    /// in which no crash damages it.
    ///
    /// ```
    /// # use nunatak::{Error, FileError, durable::IcebergMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// let again = IcebergMap::<u64, u64>::open(&path);
    /// assert_eq!(again.unwrap_err(), Error::File(FileError::InUse));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, &Options::default())
    }

    /// Opens a file. Options that describe its contents have no effect: the file keeps its own
    /// values.
    ///
    /// # Errors
    /// As [`open`](Self::open), and if an option is out of its range.
    ///
    /// ```
    /// # use nunatak::{Error, FileError, durable::{IcebergMap, Options}};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// # IcebergMap::<u64, u64>::create(&path)?.insert(1, 10)?;
    /// let options = Options::new().read_only(true);
    /// let map: IcebergMap<u64, u64> = IcebergMap::open_with(&path, &options)?;
    /// assert_eq!(map.get(&1), Some(10));
    /// assert_eq!(map.insert(1, 11), Err(Error::File(FileError::ReadOnly)));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        options.check()?;
        let backing = Backing::open(path.as_ref(), options.read_only, options.media())?;
        Self::open_in(backing, options)
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
    /// for replaces in [false, true] {
    ///     let map = TurboBlobMap::open_or_create(&path)?;
    ///     assert_eq!(map.put(b"a", b"1")?, replaces);
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
    /// # use nunatak::durable::{IcebergMap, Options};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = Options::new().capacity(1000);
    /// let map: IcebergMap<u64, u64> = IcebergMap::open_or_create_with(&path, &options)?;
    /// # drop(map);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open_or_create_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        let path = path.as_ref();
        loop {
            if path.symlink_metadata().is_ok() {
                return Self::open_with(path, options);
            }
            match Self::create_with(path, options) {
                // Another process or thread was faster.
                Err(Error::File(FileError::Exists)) => {}
                other => return other,
            }
        }
    }

    pub(super) fn create_in(backing: Backing, options: &Options) -> Result<Self, Error> {
        Self::of(T::create(backing, options)?, options, Recovery::default())
    }

    pub(super) fn open_in(backing: Backing, options: &Options) -> Result<Self, Error> {
        if T::REHEARSES && !backing.is_read_only() {
            // Changes nothing in the file, and fails if the file is damaged.
            let (map, _) = T::open(backing.rehearsal()?, options)?;
            map.table().pool().damage().map_or(Ok(()), Err)?;
        }
        let is_read_only = backing.is_read_only();
        let (map, recovery) = T::open(backing, options)?;
        // A file that may be changed is open by now: damage that the rehearsal did not come to keeps
        // it from further changes.
        let damage = map.table().pool().damage().filter(|_| is_read_only);
        damage.filter(|_| options.forced.is_none()).map_or(Ok(()), Err)?;
        Self::of(map, options, recovery)
    }

    fn of(map: T, options: &Options, recovery: Recovery) -> Result<Self, Error> {
        let (map, durability) = (Arc::new(map), options.durability);
        // If a thread can't be started, the file is closed.
        let mut file = Self { map, session: Session::new(durability, recovery) };
        if !options.read_only {
            file.session.set_maintenance(Maintenance::start(&file.map, durability)?);
            let pool = file.table().pool();
            // A simulation must do the same every time.
            let is_real = !pool.backing().is_simulated();
            if options.answer_readers && pool.changes_in_place() && is_real {
                file.start_answering()?;
            }
        }
        Ok(file)
    }

    pub(super) fn table(&self) -> &T::Table {
        self.map.table()
    }

    /// Makes all acknowledged operations survive a power cut. Other operations go on meanwhile.
    /// Threads that call this at the same time share a sync.
    ///
    /// # Errors
    /// If the system could not write; the map is poisoned then.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// map.sync()?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn sync(&self) -> Result<(), Error> {
        if self.table().pool().is_forked() {
            return Err(FileError::Forked.into());
        }
        self.session.sync(self.table())
    }

    /// Syncs, and marks the file as closed. Dropping the map does the same, but can't report an
    /// error.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.close()?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn close(mut self) -> Result<(), Error> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), Error> {
        if self.table().pool().is_forked() {
            // All of this belongs to the other process, whose threads may have held locks.
            self.session.leave_threads();
            core::mem::forget(Arc::clone(&self.map));
            return Err(FileError::Forked.into());
        }
        self.session.end_threads();
        let pool = self.table().pool();
        if pool.backing().is_read_only() || pool.is_closed() {
            return Ok(());
        }
        self.map.prepare_close()?;
        self.table().sync()?;
        // A file that says that it was closed is whole as it is. But a sync may leave stores behind
        // its last barrier: leftovers that it clears, changes that are only in the journal.
        pool.barrier()?;
        pool.set_session(false);
        pool.barrier()
    }

    /// Checks every slot: each entry is where it belongs, is stored once (except for values of a
    /// [`PeaMultiMap`](crate::durable::PeaMultiMap)), and is of the map's types. Returns how many
    /// entries there are.
    ///
    /// Other threads should change nothing meanwhile: `verify` may report changes as damage.
    ///
    /// # Errors
    /// The first damage that was found.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert_eq!(map.verify()?, 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn verify(&self) -> Result<usize, Error> {
        self.map.verify()
    }

    /// Returns what opening the file has found; nothing if the file was created. An
    /// [`IcebergMap`](crate::durable::IcebergMap) is read as a whole when it is opened. Any other
    /// map that was not closed is recovered part by part: its items are those of the parts that
    /// operations have used since, and all items after [`len`](Self::len).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.recovery().items, 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn recovery(&self) -> Recovery {
        self.session.recovery(self.table())
    }

    /// Returns the size of the file in bytes.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.file_bytes(), std::fs::metadata(&path).unwrap().len());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn file_bytes(&self) -> u64 {
        self.table().pool().file_bytes()
    }

    /// Makes a change that stores nothing new, and acknowledges it.
    #[inline(always)]
    pub(super) fn change<R>(&self, run: impl FnOnce(&T) -> Result<R, Error>) -> Result<R, Error> {
        admit(self.table())?;
        self.acknowledge(run(&self.map)?)
    }

    /// Makes a change that may store something new, and acknowledges it.
    #[inline(always)]
    pub(super) fn store<R>(&self, run: impl FnOnce(&T) -> Result<R, Error>) -> Result<R, Error> {
        self.acknowledge(self.store_unsynced(run)?)
    }

    /// As `store`, without the acknowledgement.
    #[inline(always)]
    pub(super) fn store_unsynced<R>(
        &self,
        run: impl FnOnce(&T) -> Result<R, Error>,
    ) -> Result<R, Error> {
        match admit_new(self.table())? {
            Room::Enough => run(&self.map),
            Room::Little => permit(|| run(&self.map)),
        }
    }

    /// How many operations of a batch run between two checks of the room that is left. A single
    /// one, if it may be refused.
    pub(super) fn portion(&self) -> Result<usize, Error> {
        Ok(match admit_new(self.table())? {
            Room::Enough => PORTION,
            Room::Little => 1,
        })
    }

    #[inline(always)]
    pub(super) fn acknowledge<R>(&self, result: R) -> Result<R, Error> {
        self.session.acknowledge(self.table(), result)
    }
}

/// Methods of the map as a whole.
impl<T: MapInFile> FileMap<T> {
    /// Iterates over all entries, weakly consistent: see
    /// [`ConcurrentMap`](crate::ConcurrentMap#consistency).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [(1, 10)]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = T::Entry> {
        self.map.iter()
    }

    /// Takes a consistent cut of all entries. Changes wait for the moment of the cut, and then for
    /// copies of single parts of the table; reads do not wait. The cut takes 16 bytes for each
    /// entry.
    ///
    /// # Errors
    /// If memory for the cut is refused.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// let snapshot = map.snapshot()?;
    /// map.clear()?;
    /// assert_eq!(snapshot.collect::<Vec<_>>(), [(1, 10)]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn snapshot(&self) -> Result<impl Iterator<Item = T::Entry>, Error> {
        self.map.snapshot()
    }

    /// Removes every entry that is present when the walk reaches it.
    ///
    /// # Errors
    /// If the file was opened only for reading, or a sync has failed.
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
        self.change(|map| {
            map.clear();
            Ok(())
        })
    }

    /// Returns how many entries there are (of a [`PeaMultiMap`](crate::durable::PeaMultiMap):
    /// values): exact when no other thread changes the map. Recovers the parts that are not
    /// recovered yet.
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

    /// Returns whether there is no entry.
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
        self.len() == 0
    }

    /// Makes room in the table for `additional` more entries.
    ///
    /// # Errors
    /// If the disk is full, the file was opened only for reading, or a sync has failed; the map is
    /// as it was.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.reserve(1000)?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn reserve(&self, additional: usize) -> Result<(), Error> {
        self.change(|map| map.reserve(additional))
    }

    /// Makes the table smaller if possible, and gives blocks of the file back that the entries do
    /// not need.
    ///
    /// # Errors
    /// If there is no room for the smaller table, the file was opened only for reading, or a sync
    /// has failed; the map is as it was, or smaller.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.reserve(100_000)?;
    /// let before = map.file_bytes();
    /// map.shrink_to_fit()?;
    /// assert!(map.file_bytes() < before);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn shrink_to_fit(&self) -> Result<(), Error> {
        self.change(T::shrink_to_fit)
    }

    /// Returns the share of the slots that hold an entry.
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

    /// Returns how many bytes of the file and of RAM the map has mapped, and how many are resident.
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

    /// Returns the figures that the paper of the map's design reports.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.stats().len, 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn stats(&self) -> T::Stats {
        self.map.stats()
    }
}

impl<T: MapInFile> Drop for FileMap<T> {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
