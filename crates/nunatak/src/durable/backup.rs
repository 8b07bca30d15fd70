//! Copies of open maps: backups, snapshots for readers, and what readers get of a file that another
//! process has open.

use super::answering::{Answering, GoOn};
use super::content::MapInFile;
use super::handle::FileMap;
use super::options::Options;
use super::table::FileTable;
use crate::error::{Error, FileError};
use crate::memory::durable::{Unpublished, ask_for_snapshot, copy_beside, file_for_snapshot};
use rustix::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// How many entries of a backup are stored at once.
const BATCH: usize = 1024;

/// Copies of open maps.
impl<T: MapInFile> FileMap<T> {
    /// Opens a file that another process has open and changes, to read it: a private copy. What that
    /// process does later is not seen; call this again to see it. If no process has the file open,
    /// this is [`open_with`](Self::open_with) of [`read_only`](Options::read_only).
    ///
    /// | the file | the copy | its cost |
    /// |---|---|---|
    /// | in the page cache, of any map but an [`IcebergMap`](crate::durable::IcebergMap) | the last sync | that of copying the file; none where the file system shares blocks. The other process goes on, but its syncs wait, for ten seconds at most |
    /// | of an `IcebergMap`, or on persistent memory | all entries at one instant of this call, also what is not synced | that of a [`backup`](Self::backup), which a thread of the other process makes; its option [`answer_readers`](Options::answer_readers) allows that |
    ///
    /// The copy takes room beside the file, or in RAM if the directory can't be written to.
    ///
    /// # Errors
    /// As [`open`](Self::open). [`FileError::InUse`] if the file changes all the time, or if the
    /// other process makes no snapshots: it is without the option, belongs to another user (root may
    /// read what all users write), or gives no sign of life for ten seconds.
    ///
    /// ```
    /// # use nunatak::durable::PeaMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: PeaMap<u64, u64> = PeaMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// map.sync()?;
    /// map.insert(1, 11)?;
    /// let last_sync: PeaMap<u64, u64> = PeaMap::open_beside(&path)?;
    /// assert_eq!(last_sync.get(&1), Some(10));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open_beside(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_beside_with(path.as_ref(), &Options::new())
    }

    pub(super) fn open_beside_with(path: &Path, options: &Options) -> Result<Self, Error> {
        let options = options.clone().read_only(true);
        match Self::open_with(path, &options) {
            Err(Error::File(FileError::InUse)) => {
                let copy = match copy_beside(path) {
                    Err(Error::File(FileError::InUse)) => ask_for_snapshot(path),
                    other => other,
                };
                Self::open_in(copy?, &options)
            }
            other => other,
        }
    }

    /// Starts the thread that makes snapshots for readers in other processes.
    pub(super) fn start_answering(&mut self) -> Result<(), Error> {
        let map = Arc::clone(&self.map);
        let answering = Answering::start(self.table().pool(), move |go_on| snapshot(&*map, go_on));
        self.session.set_answering(answering?);
        Ok(())
    }

    /// Copies all entries, as they are at one instant, to a new file, while other threads change the
    /// map. The new file has the map's constants, is closed and durable, and gets its name when it
    /// is whole. It is a file for the page cache, without a journal. Returns how many entries it
    /// has.
    ///
    /// As a [`snapshot`](Self::snapshot) it holds changes up for moments, and takes 16 bytes of RAM
    /// for each entry.
    ///
    /// # Errors
    /// If there is a file of this name, the file can't be made, or memory is refused. Nothing is
    /// left behind, unless the process ends: then a file whose name begins with a dot and ends with
    /// `.backup` may be.
    ///
    /// ```
    /// # use nunatak::durable::{IcebergMap, TurboBlobMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let (path, copy) = (directory.path().join("map"), directory.path().join("copy"));
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert_eq!(map.backup(&copy)?, 1);
    /// map.insert(1, 11)?;
    /// assert_eq!(IcebergMap::<u64, u64>::open(&copy)?.get(&1), Some(10));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<usize, Error> {
        let path = path.as_ref();
        if self.table().pool().is_forked() {
            return Err(FileError::Forked.into());
        }
        let unpublished = Unpublished::new(path, "backup")?;
        let create = |options: &Options| Self::create_with(unpublished.temporary(), options);
        let count = copy_entries(&*self.map, create, &mut || Ok(()))?;
        unpublished.publish()?;
        Ok(count)
    }
}

/// Copies all entries of a map, as they are at one instant, to a new map, and closes it. Returns how
/// many entries there are.
fn copy_entries<T: MapInFile>(
    map: &T,
    create: impl FnOnce(&Options) -> Result<FileMap<T>, Error>,
    go_on: &mut GoOn<'_>,
) -> Result<usize, Error> {
    let entries = map.snapshot()?;
    let pool = map.table().pool();
    let options = Options { schema: pool.schema(), ..Options::default() };
    let copy = create(&T::constants(pool.description(), &options))?;
    let mut batch = Vec::with_capacity(BATCH);
    for entry in entries {
        batch.push(entry);
        if batch.len() == BATCH {
            T::store_all(&copy, &mut batch)?;
            go_on()?;
        }
    }
    T::store_all(&copy, &mut batch)?;
    let count = copy.len();
    copy.close()?;
    Ok(count)
}

/// Makes a snapshot for readers, in a file without a name.
fn snapshot<T: MapInFile>(map: &T, go_on: &mut GoOn<'_>) -> Result<OwnedFd, Error> {
    let (backing, to_read) = file_for_snapshot(map.table().pool())?;
    copy_entries(map, |options| FileMap::create_in(backing, options), go_on)?;
    Ok(to_read)
}
