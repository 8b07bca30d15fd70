//! What a program needs that keeps a write-ahead log beside a map: when the log must be durable, and which
//! part of it the file has already.

use super::content::MapInFile;
use super::handle::FileMap;
use super::table::FileTable;
use crate::error::{Error, FileError};

/// A log beside the map.
impl<T: MapInFile> FileMap<T> {
    /// Runs a function in each later sync of this handle, also in those that the map makes by itself.
    /// It runs after the moment whose state the sync makes durable, and before this state is durable;
    /// other operations go on meanwhile. A program with a write-ahead log makes the log durable there:
    /// then whatever a power cut leaves in the file is in the log, too. [`last_sync`](Self::last_sync)
    /// tells which part of the log the file no longer needs.
    ///
    /// The function must not sync or close the map: it would wait for itself.
    ///
    /// # Errors
    /// [`FileError::OtherKind`] if a power cut leaves more in the file than the last sync: that of an
    /// [`IcebergMap`](crate::durable::IcebergMap), and one on persistent memory.
    /// [`Error::InvalidOption`] if there is such a function already. An error of the function fails the
    /// sync, and poisons the map.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # use std::sync::atomic::{AtomicU32, Ordering};
    /// # use std::sync::Arc;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// let log_syncs = Arc::new(AtomicU32::new(0));
    /// let syncs = Arc::clone(&log_syncs);
    /// map.before_sync(move || {
    ///     syncs.fetch_add(1, Ordering::Relaxed); // the log is made durable
    ///     Ok(())
    /// })?;
    /// map.put(b"a", b"1")?;
    /// map.sync()?;
    /// assert_eq!(log_syncs.load(Ordering::Relaxed), 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn before_sync(
        &self,
        run: impl Fn() -> Result<(), Error> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let pool = self.table().pool();
        if pool.changes_in_place() {
            let what = "kind: its changes may be durable before a sync";
            return Err(FileError::OtherKind { what }.into());
        }
        match pool.set_before_sync(run) {
            true => Ok(()),
            false => Err(Error::InvalidOption { option: "before_sync", expected: "set once" }),
        }
    }

    /// Returns the number of the sync whose state is durable. It grows with each sync, also with those
    /// that the map makes by itself. After a power cut the map is in the state of this sync. Zero for
    /// an [`IcebergMap`](crate::durable::IcebergMap) and on persistent memory.
    ///
    /// ```
    /// # use nunatak::durable::TurboBlobMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map = TurboBlobMap::create(&path)?;
    /// let before = map.last_sync();
    /// map.put(b"a", b"1")?;
    /// map.sync()?;
    /// assert!(map.last_sync() > before);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn last_sync(&self) -> u64 {
        let pool = self.table().pool();
        if pool.changes_in_place() { 0 } else { pool.last_sync() }
    }
}
