//! [`BlobDesign`]: what a design adds to a map of byte strings in a file.

use super::designs::{InFile, InPages};
use super::options::Options;
use super::table::FileTable;
use super::{iceberg, pea, turbo};
use crate::error::{Error, FileError};
use crate::hash::IdentityCodec;
use crate::memory::Finder;
use crate::memory::durable::{Description, Kind, Paged};
use crate::table::iceberg::Recovery;
use crate::table::paged::PagedTable;
use crate::table::{Design, Iceberg, PairTable, Pea, Turbo};
use std::sync::Arc;

/// A design of table whose maps of byte strings can be in a file: [`InFile<Pea>`](InFile),
/// [`InFile<Turbo>`](InFile) and [`InPages<Iceberg>`](InPages).
///
/// ```
/// use nunatak::durable::{BlobDesign, BlobsInFile, FileMap, PeaBlobMap};
/// fn bytes<D: BlobDesign>(map: &FileMap<BlobsInFile<D>>) -> usize {
///     map.blob_stats().live_bytes
/// }
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map = PeaBlobMap::create(&path)?;
/// assert_eq!(bytes(&map), 0);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[allow(private_interfaces, reason = "the trait is sealed: its parts are internal")]
pub trait BlobDesign: Design<Medium = Paged, Table<IdentityCodec>: FileTable + PagedTable> {
    #[doc(hidden)]
    const KIND: Kind;

    /// The first of two words of the description: the version of the hash of bytes, and its seed.
    #[doc(hidden)]
    const HASH_AT: usize;

    /// Returns the words of a new file's description that tell the constants; the others are zero.
    #[doc(hidden)]
    fn describe(options: &Options) -> Result<Description, Error>;

    /// Returns these options with the constants of a file's description.
    #[doc(hidden)]
    fn constants(description: &Description, options: &Options) -> Options;

    /// Makes a durable table in an empty medium.
    #[doc(hidden)]
    fn create(
        medium: Paged,
        description: &Description,
        capacity: usize,
    ) -> Result<Self::Table<IdentityCodec>, Error>;

    /// Opens the table of a medium. The finder learns what slots name.
    #[doc(hidden)]
    fn open(
        medium: Paged,
        description: &Description,
        finder: Option<Arc<dyn Finder>>,
    ) -> Result<(Self::Table<IdentityCodec>, Recovery), Error>;

    /// Restores parts of a table that no operation has used since a crash, until they hold so many
    /// pairs, or until every part is restored.
    #[doc(hidden)]
    fn restore_some(table: &Self::Table<IdentityCodec>, pairs: usize);
}

#[allow(private_interfaces, reason = "the trait is sealed: its parts are internal")]
impl BlobDesign for InFile<Turbo> {
    const KIND: Kind = Kind::TurboBlobs;
    const HASH_AT: usize = 4;

    fn describe(options: &Options) -> Result<Description, Error> {
        let (turbo, capacity) = (options.turbo.clone(), options.capacity);
        let config = Self::Table::<IdentityCodec>::config_for(turbo, capacity)?;
        let mut words = [0; 12];
        words[..4].copy_from_slice(&config.to_words());
        Ok(words)
    }

    fn constants(description: &Description, options: &Options) -> Options {
        turbo::constants(description, options)
    }

    fn create(
        medium: Paged,
        description: &Description,
        capacity: usize,
    ) -> Result<Self::Table<IdentityCodec>, Error> {
        let table = Self::Table::create(medium, IdentityCodec, turbo::config_of(description)?)?;
        FileTable::sync(&table)?;
        // After the sync, so that no empty pages are copied.
        PairTable::reserve(&table, capacity)?;
        Ok(table)
    }

    fn open(
        medium: Paged,
        description: &Description,
        finder: Option<Arc<dyn Finder>>,
    ) -> Result<(Self::Table<IdentityCodec>, Recovery), Error> {
        Self::Table::open(medium, IdentityCodec, turbo::config_of(description)?, finder)
    }

    fn restore_some(table: &Self::Table<IdentityCodec>, pairs: usize) {
        table.restore_some(pairs);
    }
}

#[allow(private_interfaces, reason = "the trait is sealed: its parts are internal")]
impl BlobDesign for InFile<Pea> {
    const KIND: Kind = Kind::PeaBlobs;
    const HASH_AT: usize = 3;

    fn describe(options: &Options) -> Result<Description, Error> {
        Ok(pea::describe(&options.pea()))
    }

    fn constants(description: &Description, options: &Options) -> Options {
        pea::constants(description, options)
    }

    fn create(
        medium: Paged,
        description: &Description,
        capacity: usize,
    ) -> Result<Self::Table<IdentityCodec>, Error> {
        pea::create_in(medium, IdentityCodec, pea::config_of(description, false)?, capacity)
    }

    fn open(
        medium: Paged,
        description: &Description,
        finder: Option<Arc<dyn Finder>>,
    ) -> Result<(Self::Table<IdentityCodec>, Recovery), Error> {
        Self::Table::open(medium, IdentityCodec, pea::config_of(description, false)?, finder)
    }

    fn restore_some(table: &Self::Table<IdentityCodec>, pairs: usize) {
        table.restore_some(pairs);
    }
}

#[allow(private_interfaces, reason = "the trait is sealed: its parts are internal")]
impl BlobDesign for InPages<Iceberg> {
    const KIND: Kind = Kind::IcebergBlobs;
    const HASH_AT: usize = 3;

    fn describe(options: &Options) -> Result<Description, Error> {
        let config = config_of_iceberg(options.max_load);
        let (columns, rows) = Self::Table::<IdentityCodec>::columns_for(options.capacity, &config)?;
        let mut words = [0; 12];
        words[0] = columns as u64;
        words[1] = iceberg::word_of_blocks::<crate::table::iceberg::Blocks>();
        words[2] = rows;
        words[6] = options.max_load.to_bits();
        Ok(words)
    }

    fn constants(description: &Description, options: &Options) -> Options {
        Options { max_load: f64::from_bits(description[6]), ..options.clone() }
    }

    fn create(
        medium: Paged,
        description: &Description,
        _capacity: usize,
    ) -> Result<Self::Table<IdentityCodec>, Error> {
        let (columns, config) = constants_of_iceberg(description)?;
        Self::Table::create_paged(medium, IdentityCodec, config, (columns, description[2]))
    }

    fn open(
        medium: Paged,
        description: &Description,
        finder: Option<Arc<dyn Finder>>,
    ) -> Result<(Self::Table<IdentityCodec>, Recovery), Error> {
        let (columns, config) = constants_of_iceberg(description)?;
        Self::Table::open_paged(medium, IdentityCodec, config, columns, finder.as_ref())
    }

    /// Opening a file finds all.
    fn restore_some(_table: &Self::Table<IdentityCodec>, _pairs: usize) {}
}

fn config_of_iceberg(max_load: f64) -> crate::table::iceberg::Config {
    crate::table::iceberg::Config { max_load, ..Default::default() }
}

/// Returns the columns and the constants that a description tells.
fn constants_of_iceberg(
    words: &Description,
) -> Result<(usize, crate::table::iceberg::Config), Error> {
    let max_load = f64::from_bits(words[6]);
    let described = Options { max_load, ..Options::default() };
    described.check().map_err(|_| FileError::corrupt("the load is none"))?;
    if words[1] != iceberg::word_of_blocks::<crate::table::iceberg::Blocks>() {
        return Err(FileError::OtherKind { what: "size of blocks" }.into());
    }
    Ok((usize::try_from(words[0]).unwrap_or(0), config_of_iceberg(max_load)))
}
