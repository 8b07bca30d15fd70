//! Saving a map of RAM to a file, and loading it again: a cache or an index that starts warm.
//!
//! [`Save`] is implemented by the maps, sets and multimaps of every table. A saved file is not a
//! durable map ([`crate::durable`]): it is written as a whole, and read as a whole. So it belongs to
//! no table: what a `DlhtMap` saved, a `TurboMap` of the same types loads.
//!
//! ```
//! use nunatak::save::Save;
//! use nunatak::{DlhtMap, TurboMap};
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("cache");
//! let map: DlhtMap<u64, u64> = (0..1000).map(|key| (key, key * key)).collect();
//! assert_eq!(map.save(&path)?, 1000);
//! let map: TurboMap<u64, u64> = Save::load(&path)?;
//! assert_eq!(map.get(&30), Some(900));
//! # Ok::<(), nunatak::Error>(())
//! ```

mod file;
mod maps;
mod portable;

pub use portable::Portable;

use crate::error::Error;
use std::path::Path;

/// A map that can be saved to a file and loaded from it.
///
/// Saving takes a snapshot: one instant of the map, while other threads change it. Loading trusts
/// nothing: a header and each block of about 64 KiB have a checksum (XXH3), and the types are
/// compared (the number of bits of keys and values; for boxed maps whatever [`Portable`] notices).
///
/// ```
/// use nunatak::save::Save;
/// use nunatak::{Error, FileError, DlhtMap};
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("cache");
/// // A restart: the cache of last time, or an empty one.
/// let cache: DlhtMap<u64, u64> = match Save::load(&path) {
///     Ok(cache) => cache,
///     Err(Error::File(FileError::Io { .. })) => DlhtMap::new(),
///     Err(error) => return Err(error),
/// };
/// cache.insert(1, 10);
/// cache.save(&path)?;
/// # Ok::<(), Error>(())
/// ```
pub trait Save: Sized {
    /// Writes all entries, as they are at one instant, to a file, and returns how many there are.
    /// The file gets its name when it is whole and durable, and replaces a file of this name (or a
    /// link); a crash leaves the one or the other.
    ///
    /// # Errors
    /// If the file can't be written, or memory for the snapshot is refused; a file of this name is
    /// as it was. A process that ends meanwhile may leave a file whose name begins with a dot and
    /// ends with `.save`.
    ///
    /// ```
    /// use nunatak::{DlhtSet, save::Save};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("set");
    /// let seen: DlhtSet<u64> = (0..10).collect();
    /// assert_eq!(seen.save(&path)?, 10);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    fn save(&self, path: impl AsRef<Path>) -> Result<usize, Error>;

    /// Stores all entries of a saved file in this map, and returns how many the file has. Values of
    /// keys that are present are replaced.
    ///
    /// # Errors
    /// If the file can't be read, was not saved by a map of such entries, or is damaged. Entries
    /// before the damage may have been stored; none of a damaged block is.
    ///
    /// ```
    /// use nunatak::{DlhtMap, save::Save};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("cache");
    /// let saved: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// saved.save(&path)?;
    /// let map: DlhtMap<u64, u64> = [(2, 20)].into_iter().collect();
    /// assert_eq!(map.load_more(&path)?, 1);
    /// assert_eq!((map.get(&1), map.len()), (Some(10), 2));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    fn load_more(&self, path: impl AsRef<Path>) -> Result<usize, Error>;

    /// Makes a map of all entries of a saved file.
    ///
    /// # Errors
    /// As [`load_more`](Self::load_more).
    ///
    /// ```
    /// use nunatak::{DlhtBoxedMap, save::Save};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("names");
    /// let names: DlhtBoxedMap<String, u64> = [("a".to_owned(), 1)].into_iter().collect();
    /// names.save(&path)?;
    /// let names: DlhtBoxedMap<String, u64> = Save::load(&path)?;
    /// assert_eq!(names.get("a"), Some(1));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    fn load(path: impl AsRef<Path>) -> Result<Self, Error>
    where
        Self: Default,
    {
        let map = Self::default();
        map.load_more(path)?;
        Ok(map)
    }
}
