//! Copies of open maps: backups, and the last sync of a file that another process has open.

use super::content::MapInFile;
use super::handle::FileMap;
use super::options::Options;
use super::table::FileTable;
use crate::error::{Error, FileError};
use crate::memory::durable::{Unpublished, copy_beside};
use std::path::Path;

/// How many entries of a backup are stored at once.
const BATCH: usize = 1024;

/// Copies of open maps.
impl<T: MapInFile> FileMap<T> {
    /// Opens the last sync of a file that another process has open and changes, to read it: a
    /// private copy. What that process does later is not seen; call this again to see it. If no
    /// process has the file open, this is [`open_with`](Self::open_with) of
    /// [`read_only`](Options::read_only).
    ///
    /// Takes as long as copying the file, and as much room beside it (or in RAM, if the directory
    /// can't be written to), unless the file system shares blocks. The other process goes on
    /// meanwhile, but its syncs wait, for ten seconds at most.
    ///
    /// # Errors
    /// As [`open`](Self::open). [`FileError::InUse`] for a file on persistent memory, for an
    /// [`IcebergMap`](crate::durable::IcebergMap), whose pages change where they are, and if the
    /// file changes all the time. Then use [`backup`](Self::backup) in that process.
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
            Err(Error::File(FileError::InUse)) => Self::open_in(copy_beside(path)?, &options),
            other => other,
        }
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
        let entries = self.map.snapshot()?;
        let pool = self.table().pool();
        let options = Options { schema: pool.schema(), ..Options::default() };
        let options = T::constants(pool.description(), &options);
        let copy = Self::create_with(unpublished.temporary(), &options)?;
        let mut batch = Vec::with_capacity(BATCH);
        for entry in entries {
            batch.push(entry);
            if batch.len() == BATCH {
                T::store_all(&copy, &mut batch)?;
            }
        }
        T::store_all(&copy, &mut batch)?;
        let count = copy.len();
        copy.close()?;
        unpublished.publish()?;
        Ok(count)
    }
}
