//! [`FileKind`]: the kind of map that a file holds.

use crate::error::{Error, FileError};
use crate::memory::durable::{Kind, kind_of};
use std::path::Path;

/// The kind of map that a file holds.
///
/// ```
/// use nunatak::durable::{FileKind, PeaMap};
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map: PeaMap<u64, u64> = PeaMap::create(&path)?;
/// assert_eq!(FileKind::of(&path), Ok(FileKind::Pea));
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// An [`IcebergMap`](crate::durable::IcebergMap).
    Iceberg,
    /// A [`PeaMap`](crate::durable::PeaMap).
    Pea,
    /// A [`PeaMultiMap`](crate::durable::PeaMultiMap).
    PeaMulti,
    /// A [`TurboMap`](crate::durable::TurboMap).
    Turbo,
    /// A [`TurboBlobMap`](crate::durable::TurboBlobMap).
    TurboBlobs,
    /// A [`PeaBlobMap`](crate::durable::PeaBlobMap).
    PeaBlobs,
}

impl FileKind {
    /// Reads the beginning of a file, whether it is open or not.
    ///
    /// # Errors
    /// If it can't be read, holds no map, or a map of a kind that this version does not know.
    ///
    /// ```
    /// # use nunatak::durable::FileKind;
    /// assert!(FileKind::of("/dev/null").is_err());
    /// ```
    pub fn of(path: impl AsRef<Path>) -> Result<Self, Error> {
        match kind_of(path.as_ref())? {
            Some(Kind::Iceberg) => Ok(Self::Iceberg),
            Some(Kind::Pea) => Ok(Self::Pea),
            Some(Kind::PeaMulti) => Ok(Self::PeaMulti),
            Some(Kind::Turbo) => Ok(Self::Turbo),
            Some(Kind::TurboBlobs) => Ok(Self::TurboBlobs),
            Some(Kind::PeaBlobs) => Ok(Self::PeaBlobs),
            None => Err(FileError::OtherKind { what: "kind of map" }.into()),
        }
    }
}
