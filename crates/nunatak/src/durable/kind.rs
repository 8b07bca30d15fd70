//! What a file says of its content: the kind of map, and its schema.

use crate::error::{Error, FileError};
use crate::memory::durable::{Kind, kind_of, schema_of};
use crate::schema::Schema;
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
    /// An [`IcebergBlobMap`](crate::durable::IcebergBlobMap).
    IcebergBlobs,
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
            Some(Kind::IcebergBlobs) => Ok(Self::IcebergBlobs),
            None => Err(FileError::OtherKind { what: "kind of map" }.into()),
        }
    }
}

impl Schema {
    /// Reads the schema of a file, whether it is open or not; `None` if the file has no schema,
    /// since it holds no typed map.
    ///
    /// # Errors
    /// If the file can't be read, holds no map, or its schema is damaged.
    ///
    /// ```
    /// # use nunatak::{Schema, durable::{Options, TurboBlobMap, TypedMap}};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let (typed, plain) = (directory.path().join("typed"), directory.path().join("plain"));
    /// let options = Options::new().schema("ages", 3);
    /// let map: TypedMap<String, u32> = TypedMap::create_with(&typed, &options)?;
    /// assert_eq!(Schema::of(&typed)?.map(Schema::version), Some(3));
    /// drop(TurboBlobMap::create(&plain)?);
    /// assert_eq!(Schema::of(&plain)?, None);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn of(path: impl AsRef<Path>) -> Result<Option<&'static Self>, Error> {
        schema_of(path.as_ref())
    }
}
