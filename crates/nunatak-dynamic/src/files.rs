//! Maps in files.

use crate::multi::multi_by_the_map;
use crate::room::{Room, room_of_the_map};
use crate::words::{SHORT_RESULTS, check_columns, in_parts};
use crate::{Amounts, BlobChange, Blobs, Multi, Pinned, Table, Words};
use nunatak::durable::{
    BlobDesign, BlobsInFile, DurableDesign, FileKind, FileMap, IcebergBlobMap, IcebergMap, Map,
    MapInFile, Options, PeaBlobMap, PeaMap, PeaMultiMap, Salvaged, TurboBlobMap, TurboMap,
    TypedMap,
};
use nunatak::{Compute, Error, FileError};
use std::path::Path;

/// How many pairs go into one batch of a file: what shares a sync.
const PAIRS: usize = 1 << 16;

/// What a map in a file has beside its operations.
pub trait InFile {
    /// Makes every change so far survive a power cut.
    ///
    /// # Errors
    /// If the system refuses it.
    fn sync(&self) -> Result<(), Error>;

    /// Reads the whole file and returns how many entries it has.
    ///
    /// # Errors
    /// The first damage that was found.
    fn verify(&self) -> Result<usize, Error>;

    /// Stores a consistent cut as a new file and returns how many entries it has.
    ///
    /// # Errors
    /// If the file exists, or the system refuses it.
    fn backup(&self, path: &Path) -> Result<usize, Error>;

    /// Returns the first error after which the file accepts no more changes, also of a sync in the
    /// background: see [`FileMap::failure`].
    fn failure(&self) -> Option<Error>;

    /// Returns the size of the file.
    fn file_bytes(&self) -> u64;

    /// Syncs and closes the file.
    ///
    /// # Errors
    /// If the system refuses it.
    fn close(self: Box<Self>) -> Result<(), Error>;
}

/// A map of words in a file.
pub trait WordFile: Words + InFile {}

/// A map of byte strings in a file.
pub trait BlobFile: Blobs + InFile {}

/// A map in a file in which a key has any number of values.
pub trait MultiFile: Multi + InFile {}

impl<T: Words + InFile> WordFile for T {}
impl<T: Blobs + InFile> BlobFile for T {}
impl<T: Multi + InFile> MultiFile for T {}

impl<T: MapInFile> InFile for FileMap<T> {
    fn sync(&self) -> Result<(), Error> {
        self.sync()
    }

    fn verify(&self) -> Result<usize, Error> {
        self.verify()
    }

    fn backup(&self, path: &Path) -> Result<usize, Error> {
        self.backup(path)
    }

    fn failure(&self) -> Option<Error> {
        self.failure()
    }

    fn file_bytes(&self) -> u64 {
        self.file_bytes()
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        (*self).close()
    }
}

/// The table of an existing file, or the wanted one.
fn table_of(path: &Path, wanted: Option<Table>, by_default: Table) -> Result<Table, Error> {
    let found = match path.exists() {
        false => return Ok(wanted.unwrap_or(by_default)),
        true => FileKind::of(path)?,
    };
    let table = match found {
        FileKind::Iceberg | FileKind::IcebergBlobs => Table::Iceberg,
        FileKind::Pea | FileKind::PeaBlobs => Table::Pea,
        FileKind::Turbo | FileKind::TurboBlobs => Table::Turbo,
        _ => return Err(FileError::OtherKind { what: "kind of map" }.into()),
    };
    match wanted.is_none_or(|wanted| wanted == table) {
        true => Ok(table),
        false => Err(FileError::OtherKind { what: "kind of map" }.into()),
    }
}

const NO_FILES: Error =
    Error::InvalidOption { option: "table", expected: "iceberg, pea or turbo for a file" };

/// What opening a file means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// The file is made if it is absent.
    OrCreate,
    /// The file must be there.
    Existing,
    /// The file may be open in another process, which changes it. What is opened is a private copy
    /// that can't be changed, see [`FileMap::open_beside`]. The options do not matter.
    Beside,
}

macro_rules! opened {
    ($map:ty, $path:ident, $options:ident, $opening:ident) => {
        Box::new(match $opening {
            Opening::OrCreate => <$map>::open_or_create_with($path, $options)?,
            Opening::Existing => <$map>::open_with($path, $options)?,
            Opening::Beside => <$map>::open_beside($path)?,
        })
    };
}

/// Opens a map of words in a file. Without a table the file's own is taken, or IcebergHT for a new
/// file.
///
/// # Errors
/// If the file can't be opened, or holds another kind of map; DLHT has no files.
///
/// ```
/// use nunatak::durable::Options;
/// use nunatak_dynamic::{Opening, open_words};
/// # let directory = tempfile::tempdir()?;
/// let path = directory.path().join("file.map");
/// let map = open_words(&path, None, &Options::new(), Opening::OrCreate)?;
/// map.insert(7, 49)?;
/// map.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_words(
    path: &Path,
    table: Option<Table>,
    options: &Options,
    opening: Opening,
) -> Result<Box<dyn WordFile>, Error> {
    Ok(match table_of(path, table, Table::Iceberg)? {
        Table::Dlht => return Err(NO_FILES),
        Table::Iceberg => opened!(IcebergMap<u64, u64>, path, options, opening),
        Table::Pea => opened!(PeaMap<u64, u64>, path, options, opening),
        Table::Turbo => opened!(TurboMap<u64, u64>, path, options, opening),
    })
}

/// Opens a map of byte strings in a file. Without a table the file's own is taken, or TurboHash for a
/// new file.
///
/// # Errors
/// If the file can't be opened, or holds another kind of map; DLHT has no files.
///
/// ```
/// use nunatak::durable::Options;
/// use nunatak_dynamic::{Opening, open_blobs};
/// # let directory = tempfile::tempdir()?;
/// let path = directory.path().join("file.map");
/// open_blobs(&path, None, &Options::new(), Opening::OrCreate)?.put(b"a", b"1")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_blobs(
    path: &Path,
    table: Option<Table>,
    options: &Options,
    opening: Opening,
) -> Result<Box<dyn BlobFile>, Error> {
    Ok(match table_of(path, table, Table::Turbo)? {
        Table::Dlht => return Err(NO_FILES),
        Table::Iceberg => opened!(IcebergBlobMap, path, options, opening),
        Table::Pea => opened!(PeaBlobMap, path, options, opening),
        Table::Turbo => opened!(TurboBlobMap, path, options, opening),
    })
}

/// Opens a map of byte strings in a file that has the schema of `options`: that of a typed map whose keys
/// and values are byte strings. Its table is TurboHash.
///
/// # Errors
/// As [`open_blobs`]; [`FileError::OtherSchema`] if the file has another schema.
///
/// ```
/// use nunatak::durable::Options;
/// use nunatak_dynamic::{Opening, open_schema};
/// # let directory = tempfile::tempdir()?;
/// let path = directory.path().join("file.map");
/// let open = |version| {
///     open_schema(&path, None, &Options::new().schema("stock", version), Opening::OrCreate)
/// };
/// open(1)?.put(b"a", b"1")?;
/// assert!(open(2).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_schema(
    path: &Path,
    table: Option<Table>,
    options: &Options,
    opening: Opening,
) -> Result<Box<dyn BlobFile>, Error> {
    type Typed = TypedMap<Vec<u8>, Vec<u8>>;
    if !matches!(table, None | Some(Table::Turbo)) {
        return Err(Error::InvalidOption {
            option: "table",
            expected: "turbo for a file with a schema",
        });
    }
    let map = match opening {
        Opening::OrCreate => Typed::open_or_create_with(path, options)?,
        Opening::Existing => Typed::open_with(path, options)?,
        Opening::Beside => Typed::open_beside(path, options)?,
    };
    Ok(Box::new(map.into_blobs()))
}

/// Opens a map in a file in which a key has any number of values.
///
/// # Errors
/// If the file can't be opened, or holds another kind of map.
///
/// ```
/// use nunatak::durable::Options;
/// use nunatak_dynamic::{Opening, open_multi};
/// # let directory = tempfile::tempdir()?;
/// let path = directory.path().join("file.map");
/// let map = open_multi(&path, &Options::new(), Opening::OrCreate)?;
/// map.insert(7, 49)?;
/// map.insert(7, 50)?;
/// map.sync()?;
/// assert_eq!(open_multi(&path, &Options::new(), Opening::Beside)?.count(7), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_multi(
    path: &Path,
    options: &Options,
    opening: Opening,
) -> Result<Box<dyn MultiFile>, Error> {
    Ok(opened!(PeaMultiMap<u64, u64>, path, options, opening))
}

/// Makes a new file of what can be read in a damaged one.
///
/// # Errors
/// If nothing can be read, or the new file can't be made.
///
/// ```
/// use nunatak_dynamic::salvage;
/// assert!(salvage("/dev/null".as_ref(), "never-made".as_ref()).is_err());
/// ```
pub fn salvage(path: &Path, new: &Path) -> Result<Salvaged, Error> {
    match FileKind::of(path)? {
        FileKind::Iceberg => IcebergMap::<u64, u64>::salvage(path, new),
        FileKind::Pea => PeaMap::<u64, u64>::salvage(path, new),
        FileKind::Turbo => TurboMap::<u64, u64>::salvage(path, new),
        FileKind::PeaMulti => PeaMultiMap::<u64, u64>::salvage(path, new),
        FileKind::IcebergBlobs => IcebergBlobMap::salvage(path, new),
        FileKind::PeaBlobs => PeaBlobMap::salvage(path, new),
        FileKind::TurboBlobs => TurboBlobMap::salvage(path, new),
        _ => Err(FileError::OtherKind { what: "kind of map" }.into()),
    }
}

impl<D: DurableDesign> Room for Map<u64, u64, D>
where
    Self: Send + Sync,
{
    room_of_the_map!();
}

impl<D: DurableDesign> Words for Map<u64, u64, D>
where
    Self: Send + Sync,
{
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.insert(key, value)
    }

    fn try_insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.try_insert(key, value).map(Result::err)
    }

    fn update(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.update(&key, value)
    }

    fn compare_exchange(
        &self,
        key: u64,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, Option<u64>>, Error> {
        self.compare_exchange(&key, &current, new)
    }

    fn compute(
        &self,
        key: u64,
        change: &mut dyn FnMut(Option<u64>) -> Compute<u64>,
    ) -> Result<Option<u64>, Error> {
        self.compute(key, |value| change(value.copied()))
    }

    fn remove(&self, key: u64) -> Result<Option<u64>, Error> {
        self.remove(&key)
    }

    fn get_columns(
        &self,
        keys: &[u64],
        values: &mut [u64],
        present: &mut [u64],
    ) -> Result<usize, Error> {
        in_parts(1024, keys, values, present, |keys, found| {
            self.get_many(keys, found).map_err(|_| SHORT_RESULTS)
        })
    }

    fn insert_columns(&self, keys: &[u64], values: &[u64]) -> Result<usize, Error> {
        check_columns(keys.len(), values.len())?;
        let (mut pairs, mut previous, mut new) = (vec![], vec![], 0);
        for (keys, values) in keys.chunks(PAIRS).zip(values.chunks(PAIRS)) {
            pairs.clear();
            pairs.extend(keys.iter().copied().zip(values.iter().copied()));
            previous.resize(keys.len(), None);
            new += self.insert_many(&pairs, &mut previous)?;
        }
        Ok(new)
    }

    fn add_columns(&self, keys: &[u64], amounts: Amounts<'_>) -> Result<usize, Error> {
        if let Amounts::Each(amounts) = amounts {
            check_columns(keys.len(), amounts.len())?;
        }
        let mut new = 0;
        for (at, key) in keys.iter().enumerate() {
            let amount = match amounts {
                Amounts::Each(amounts) => amounts[at],
                Amounts::Same(amount) => amount,
            };
            // A few keys ahead, so that their cache misses overlap.
            if let Some(later) = keys.get(at + 16) {
                self.prefetch(later);
            }
            let sum = |value: Option<&u64>| {
                Compute::Put(value.copied().unwrap_or(0).wrapping_add(amount))
            };
            new += usize::from(self.compute(*key, sum)?.is_none());
        }
        Ok(new)
    }

    fn remove_columns(
        &self,
        keys: &[u64],
        values: &mut [u64],
        present: &mut [u64],
    ) -> Result<usize, Error> {
        in_parts(PAIRS, keys, values, present, |keys, removed| self.remove_many(keys, removed))
    }

    fn prefetch(&self, key: u64) {
        self.prefetch(&key);
    }

    fn for_each(&self, each: &mut dyn FnMut(u64, u64) -> bool) -> Result<(), Error> {
        self.snapshot()?.all(|(key, value)| each(key, value));
        Ok(())
    }

    fn any(&self) -> Option<(u64, u64)> {
        self.iter().next()
    }

    fn clear(&self) -> Result<(), Error> {
        self.clear()
    }

    fn stats(&self) -> String {
        format!("{:?}", self.stats())
    }
}

impl<D: BlobDesign> Room for FileMap<BlobsInFile<D>>
where
    Self: Send + Sync,
{
    room_of_the_map!();
}

impl<D: BlobDesign> Blobs for FileMap<BlobsInFile<D>>
where
    Self: Send + Sync,
{
    fn pin(&self) -> Pinned<'_> {
        let guard = self.pin();
        Pinned::new(move |key| guard.get(key).map(core::ptr::from_ref))
    }

    fn get_with(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> bool {
        self.get_with(key, found).is_some()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        self.put(key, value)
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.insert(key, value)
    }

    fn try_insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.try_insert(key, value).map(Result::err)
    }

    fn compute(&self, key: &[u8], change: BlobChange<'_>) -> Result<Option<Vec<u8>>, Error> {
        self.compute(key, change)
    }

    fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.remove(key)
    }

    fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.delete(key)
    }

    fn get_many(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) {
        self.pin().get_many(keys, found);
    }

    fn put_many(&self, entries: &[(&[u8], &[u8])]) -> Result<usize, Error> {
        self.put_many(entries)
    }

    fn delete_many(&self, keys: &[&[u8]]) -> Result<usize, Error> {
        self.delete_many(keys)
    }

    fn for_each(&self, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Error> {
        self.snapshot()?.all(|(key, value)| each(&key, &value));
        Ok(())
    }

    fn any(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.iter().next()
    }

    fn reclaim(&self) -> usize {
        self.reclaim()
    }

    fn clear(&self) -> Result<(), Error> {
        self.clear()
    }

    fn stats(&self) -> String {
        format!("{:?} {:?}", self.stats(), self.blob_stats())
    }
}

impl Room for PeaMultiMap<u64, u64> {
    room_of_the_map!();
}

impl Multi for PeaMultiMap<u64, u64> {
    multi_by_the_map!();

    fn insert(&self, key: u64, value: u64) -> Result<(), Error> {
        self.insert(key, value)
    }

    fn insert_many(&self, entries: &[(u64, u64)]) -> Result<(), Error> {
        self.insert_many(entries)
    }

    fn insert_unique(&self, key: u64, value: u64) -> Result<bool, Error> {
        self.insert_unique(key, value)
    }

    fn insert_unique_many(&self, entries: &[(u64, u64)]) -> Result<usize, Error> {
        self.insert_unique_many(entries)
    }

    fn remove_one(&self, key: u64, value: u64) -> Result<bool, Error> {
        self.remove_one(&key, &value)
    }

    fn remove_all(&self, key: u64) -> Result<usize, Error> {
        self.remove_all(&key)
    }

    fn remove_all_many(&self, keys: &[u64], removed: &mut [usize]) -> Result<(), Error> {
        self.remove_all_many(keys, removed)
    }

    fn clear(&self) -> Result<(), Error> {
        self.clear()
    }
}
