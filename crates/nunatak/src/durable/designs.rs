//! [`DurableDesign`] and [`InFile`]: the designs of tables in files.

use super::options::Options;
use super::table::FileTable;
use crate::error::{Error, FileError};
use crate::hash::{StableCodec, StableHash};
use crate::memory::durable::{Backing, Description};
use crate::table::iceberg::Recovery;
use crate::table::{Design, HashesWith, Unshadowed};
use core::marker::PhantomData;

/// A design of table that can be in a file.
///
/// ```
/// use nunatak::durable::{DurableDesign, InFile, Map};
/// fn count<D: DurableDesign>(map: &Map<u64, u64, D>) -> usize {
///     map.len()
/// }
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map: Map<u64, u64, InFile<nunatak::Iceberg>> = Map::create(&path)?;
/// assert_eq!(count(&map), 0);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
pub trait DurableDesign:
    HashesWith<StableHash> + Unshadowed + Design<Table<StableCodec>: FileTable>
{
    /// [`MapInFile::REHEARSES`](super::MapInFile).
    #[doc(hidden)]
    const REHEARSES: bool;

    /// Returns these options with the constants of a file's description.
    #[doc(hidden)]
    fn constants(description: &Description, options: &Options) -> Options;

    /// `bits`: the sizes of a key's word and of a value's word, in bits.
    #[doc(hidden)]
    fn create(
        backing: Backing,
        options: &Options,
        bits: (u32, u32),
    ) -> Result<Self::Table<StableCodec>, Error>;
    #[doc(hidden)]
    fn open(
        backing: Backing,
        options: &Options,
        bits: (u32, u32),
    ) -> Result<(Self::Table<StableCodec>, Recovery), Error>;
}

/// A design of tables in RAM, used in a file.
///
/// ```
/// use nunatak::Iceberg;
/// use nunatak::durable::{InFile, Map};
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map: Map<u64, u64, InFile<Iceberg>> = Map::create(&path)?;
/// # drop(map);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug)]
pub struct InFile<D>(PhantomData<fn() -> D>);

/// A design of tables in RAM, used in a file whose pages are copied before they change, unless the
/// file is on persistent memory. (Tables of [`InFile<Pea>`](InFile) and [`InFile<Turbo>`](InFile)
/// are always in such files.)
///
/// ```
/// use nunatak::Iceberg;
/// use nunatak::durable::{BlobsInFile, FileMap, InPages};
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map: FileMap<BlobsInFile<InPages<Iceberg>>> = FileMap::create(&path)?;
/// # drop(map);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug)]
pub struct InPages<D>(PhantomData<fn() -> D>);

/// Refuses to make a table of a map in a file without a file.
pub(super) fn no_table_without_a_file<T>() -> Result<T, Error> {
    Err(Error::InvalidOption { option: "path", expected: "given, for a map in a file" })
}

/// Returns the hash of a new file.
pub(super) fn hash_for(backing: &Backing) -> StableHash {
    // A simulation must do the same every time.
    match backing.is_simulated() {
        true => StableHash::EXAMPLE,
        false => StableHash::draw(),
    }
}

/// Packs the sizes of keys and values into a word of a file's description.
pub(super) fn word_of_bits(bits: (u32, u32)) -> u64 {
    u64::from(bits.0) | u64::from(bits.1) << 16
}

/// Returns the hash that three words of a file's description tell; the first is the version.
///
/// # Errors
/// If the version is another one.
pub(super) fn hash_of(words: &[u64]) -> Result<StableHash, Error> {
    match words[0] == StableHash::VERSION {
        true => Ok(StableHash { multipliers: [words[1], words[2]] }),
        false => Err(FileError::OtherKind { what: "hash" }.into()),
    }
}

/// Checks that the sizes of keys and values are those of the file.
///
/// # Errors
/// If they differ.
pub(super) fn check_bits(word: u64, bits: (u32, u32)) -> Result<(), Error> {
    match word == word_of_bits(bits) {
        true => Ok(()),
        false => Err(FileError::OtherKind { what: "type of keys or values" }.into()),
    }
}
