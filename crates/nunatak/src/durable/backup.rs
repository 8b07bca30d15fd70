//! Backups of open maps.

use super::content::MapInFile;
use super::handle::FileMap;
use super::options::Options;
use super::table::FileTable;
use crate::error::{Error, FileError};
use crate::memory::durable::Unpublished;
use std::path::Path;

/// How many entries of a backup are stored at once.
const BATCH: usize = 1024;

/// Backups.
impl<T: MapInFile> FileMap<T> {
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
        let options = T::constants(self.table().pool().description(), &Options::default());
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
