//! [`MapInFile`]: the map that a file holds, and how a new file gets its name.

use super::options::Options;
use super::table::FileTable;
use crate::error::Error;
use crate::memory::MemoryUsage;
use crate::memory::durable::{Backing, Description, Kind, Pool, Wanted};
use crate::table::iceberg::Recovery;
use core::fmt;

/// A map that a file can hold: the content of a [`FileMap`](super::FileMap). Only maps of this
/// crate implement it.
///
/// ```
/// use nunatak::durable::{FileMap, MapInFile};
/// fn close_all<T: MapInFile>(maps: Vec<FileMap<T>>) -> Result<(), nunatak::Error> {
///     maps.into_iter().try_for_each(FileMap::close)
/// }
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// close_all(vec![nunatak::durable::TurboBlobMap::create(&path)?])?;
/// # Ok::<(), nunatak::Error>(())
/// ```
#[allow(private_interfaces, reason = "the trait is sealed: its parts are internal")]
#[allow(clippy::len_without_is_empty, reason = "`FileMap` has it")]
pub trait MapInFile: Send + Sync + Sized + 'static {
    /// The figures that the paper of the map's design reports.
    type Stats: fmt::Debug + Clone;
    /// The item of the map's iterators.
    type Entry;
    #[doc(hidden)]
    type Table: FileTable;

    /// Whether the file is opened once before, with all changes in this process only. If not,
    /// opening validates the whole file before it changes anything.
    #[doc(hidden)]
    const REHEARSES: bool;

    #[doc(hidden)]
    fn create(backing: Backing, options: &Options) -> Result<Self, Error>;
    #[doc(hidden)]
    fn open(backing: Backing, options: &Options) -> Result<(Self, Recovery), Error>;
    #[doc(hidden)]
    fn table(&self) -> &Self::Table;
    #[doc(hidden)]
    fn verify(&self) -> Result<usize, Error>;
    /// Stores what the next open of the file needs. A sync follows.
    #[doc(hidden)]
    fn prepare_close(&self) -> Result<(), Error> {
        self.table().prepare_close()
    }

    /// Returns these options with the constants of a file's description.
    #[doc(hidden)]
    fn constants(description: &Description, options: &Options) -> Options;
    /// Stores entries in another file, and empties the list.
    #[doc(hidden)]
    fn store_all(file: &super::FileMap<Self>, entries: &mut Vec<Self::Entry>) -> Result<(), Error>;

    #[doc(hidden)]
    fn iter(&self) -> impl Iterator<Item = Self::Entry>;
    /// Iterates over the entries of a damaged map, without those that are known to be wrong.
    #[doc(hidden)]
    fn whole_entries(&self) -> impl Iterator<Item = Self::Entry> {
        self.iter()
    }
    /// Whether there is an entry of this key (a map of many values: this entry).
    #[doc(hidden)]
    fn has_entry(&self, entry: &Self::Entry) -> bool;
    #[doc(hidden)]
    fn snapshot(&self) -> Result<impl Iterator<Item = Self::Entry>, Error>;
    #[doc(hidden)]
    fn clear(&self);
    #[doc(hidden)]
    fn len(&self) -> usize;
    #[doc(hidden)]
    fn reserve(&self, additional: usize) -> Result<(), Error>;
    #[doc(hidden)]
    fn shrink_to_fit(&self) -> Result<(), Error>;
    #[doc(hidden)]
    fn load_factor(&self) -> f64;
    #[doc(hidden)]
    fn memory_usage(&self) -> MemoryUsage;
    #[doc(hidden)]
    fn stats(&self) -> Self::Stats;
}

/// Makes a file that has its name only after `build` has made it whole.
pub(super) fn create_whole<T>(
    backing: Backing,
    kind: Kind,
    description: &Description,
    wanted: Wanted,
    build: impl FnOnce(Pool) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut pool = Pool::create(backing, kind, description, wanted)?;
    // Taken before the pool is shared.
    let unpublished = pool.backing_mut().unpublished();
    let whole = build(pool)?;
    if let Some(unpublished) = unpublished {
        unpublished.publish()?;
    }
    Ok(whole)
}
