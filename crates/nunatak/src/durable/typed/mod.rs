//! [`TypedMap`]: keys and values of any type in a file, over a map of byte strings.
//!
//! Only this file says which map of byte strings that is.

mod asynchronous;
mod collection;
mod operations;
mod syncer;

use super::blobs::{BlobsInFile, FileBlobs, TurboBlobMap};
use super::designs::InFile;
use super::handle::FileMap;
use super::options::Options;
use super::simulation::Simulation;
use super::table::FileTable;
use crate::Schema;
use crate::encoding::{Encoding, KeyEncoding};
use crate::error::{Error, FileError};
use crate::map::ByteGuard;
use crate::memory::durable::Pool;
use crate::table::Turbo;
use core::fmt;
use core::marker::PhantomData;
use std::borrow::Cow;
use std::path::Path;
use std::sync::OnceLock;
use syncer::Syncer;

/// What the file holds.
type Content = BlobsInFile;
/// The map of byte strings.
type Bytes = FileMap<Content>;
type BytesGuard<'m> = ByteGuard<'m, FileBlobs, InFile<Turbo>>;

const KEY: &str = "key";
const VALUE: &str = "value";

/// Keys and values of any type in a file. `K` and `V` say how they are encoded: `String`, `Vec<u8>`,
/// integers, tuples and others stand for themselves, and `Postcard<T>` (feature `serde`) for any
/// `T` that implements `Serialize` and `DeserializeOwned`: see [`Encoding`].
///
/// The map is a [`TurboBlobMap`](crate::durable::TurboBlobMap) of the encoded bytes, and has its
/// properties: its growth, its cost in cache lines, what a crash leaves. It encodes a key for each
/// operation; strings and byte strings are used as they are. [`get_with`](Self::get_with) and
/// [`pin`](Self::pin) read such values in place.
///
/// # Schema
/// The file says which encodings it has, and the name and the version that
/// [`Options::schema`](crate::durable::Options::schema) gives. Opening it with others returns
/// [`FileError::OtherSchema`], which names both. A `TurboBlobMap` can open the file to read the
/// encoded bytes, and not to change them. [`migrate`](Self::migrate) makes a file of another
/// version.
///
/// # What can't be decoded
/// A value whose bytes are not of the type `V` is an error ([`FileError::Undecodable`], with its
/// place in the file), and not a panic. It comes from damage, or from a type that was changed
/// without another version. A method that returns an error of this kind has changed nothing.
/// [`put`](Self::put) and [`delete`](Self::delete) look at no value, so they replace and remove
/// such entries, too. [`verify`](Self::verify) finds them.
///
/// ```
/// use nunatak::durable::{Options, TypedMap};
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let options = Options::new().schema("stock", 1);
/// let stock: TypedMap<(String, u32), i64> = TypedMap::open_or_create_with(&path, &options)?;
/// let key = ("Bern".to_string(), 7);
/// stock.insert(&key, &40)?;
/// stock.fetch_update(&key, |left| Some(left - 1))?.unwrap();
/// stock.close()?;
///
/// let stock: TypedMap<(String, u32), i64> = TypedMap::open_with(&path, &options)?;
/// assert_eq!(stock.get(&key)?, Some(39));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub struct TypedMap<K: KeyEncoding, V: Encoding> {
    /// Declared before the map, so ended before the file is closed.
    syncer: OnceLock<Syncer>,
    bytes: Bytes,
    schema: &'static Schema,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: KeyEncoding, V: Encoding> fmt::Debug for TypedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedMap")
            .field("schema", &self.schema)
            .field("map", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// Returns the bytes of an item, which are encoded if need be.
fn encoded<E: Encoding>(item: &E::Ref) -> Result<Cow<'_, [u8]>, Error> {
    if let Some(bytes) = E::as_bytes(item) {
        return Ok(bytes.into());
    }
    let mut bytes = Vec::with_capacity(E::WIDTH.unwrap_or(0));
    E::encode(item, &mut bytes)?;
    Ok(bytes.into())
}

/// Creating, opening, syncing and closing.
impl<K: KeyEncoding, V: Encoding> TypedMap<K, V> {
    fn schema_for(options: &Options) -> Result<&'static Schema, Error> {
        let (name, version) = &options.named;
        let schema = Schema::new(name, *version, &K::name(), &V::name());
        schema.ok_or(Error::InvalidOption {
            option: "schema",
            expected: "a name of one line and at most 1,900 bytes",
        })
    }

    fn of(
        options: &Options,
        open: impl FnOnce(&Options) -> Result<Bytes, Error>,
    ) -> Result<Self, Error> {
        let schema = Self::schema_for(options)?;
        let bytes = open(&Options { schema: Some(schema), ..options.clone() })?;
        Ok(Self { syncer: OnceLock::new(), bytes, schema, types: PhantomData })
    }

    fn pool(&self) -> &Pool {
        self.bytes.table().pool()
    }

    /// Creates a file with an empty map, whose schema has an empty name and the version zero. The
    /// file gets its name when it is whole.
    ///
    /// # Errors
    /// If there is a file of this name, or the file can't be made.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// # drop(map);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn create(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::create_with(path, &Options::default())
    }

    /// Creates a file with an empty map.
    ///
    /// # Errors
    /// As [`create`](Self::create), and if an option is out of its range.
    ///
    /// ```
    /// # use nunatak::durable::{Options, TypedMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = Options::new().schema("ages", 1).capacity(1000);
    /// let map: TypedMap<String, u64> = TypedMap::create_with(&path, &options)?;
    /// # drop(map);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn create_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        Self::of(options, |options| Bytes::create_with(path, options))
    }

    /// Opens a file whose schema has an empty name and the version zero, and recovers it if it was
    /// not closed. A file that can't be opened is left as it was, byte for byte.
    ///
    /// # Errors
    /// [`FileError::OtherSchema`] if the file has another schema. If the file can't be read or
    /// written, is in use, holds no typed map, or is damaged in a way in which no crash damages it.
    ///
    /// ```
    /// # use nunatak::{Error, FileError, durable::TypedMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// drop(TypedMap::<String, u64>::create(&path)?);
    /// let other = TypedMap::<String, i64>::open(&path);
    /// assert!(matches!(other, Err(Error::File(FileError::OtherSchema { .. }))));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, &Options::default())
    }

    /// Opens a file. Options that describe its contents have no effect, except for the schema,
    /// which must be that of the file.
    ///
    /// # Errors
    /// As [`open`](Self::open), and if an option is out of its range.
    ///
    /// ```
    /// # use nunatak::{Error, FileError, durable::{Options, TypedMap}};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// # TypedMap::<u64, u64>::create(&path)?.insert(&1, &10)?;
    /// let options = Options::new().read_only(true);
    /// let map: TypedMap<u64, u64> = TypedMap::open_with(&path, &options)?;
    /// assert_eq!(map.get(&1)?, Some(10));
    /// assert_eq!(map.insert(&1, &11), Err(Error::File(FileError::ReadOnly)));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        Self::of(options, |options| Bytes::open_with(path, options))
    }

    /// Opens a file, or creates it if there is none.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`create`](Self::create).
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// for replaces in [false, true] {
    ///     let map: TypedMap<String, u64> = TypedMap::open_or_create(&path)?;
    ///     assert_eq!(map.put("a", &1)?, replaces);
    /// }
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open_or_create(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_or_create_with(path, &Options::default())
    }

    /// Opens a file, or creates it if there is none.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with) and [`create_with`](Self::create_with).
    ///
    /// ```
    /// # use nunatak::durable::{Options, TypedMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = Options::new().schema("ages", 1);
    /// let map: TypedMap<String, u64> = TypedMap::open_or_create_with(&path, &options)?;
    /// # drop(map);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open_or_create_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        Self::of(options, |options| Bytes::open_or_create_with(path, options))
    }

    /// Opens the last sync of a file that another process has open and changes, to read it; on
    /// persistent memory a snapshot that the other process makes: see [`FileMap::open_beside`].
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with), and [`FileError::InUse`] as [`FileMap::open_beside`].
    ///
    /// ```
    /// # use nunatak::durable::{Options, TypedMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = Options::new().schema("ages", 1);
    /// let map: TypedMap<String, u64> = TypedMap::create_with(&path, &options)?;
    /// map.insert("Ada", &36)?;
    /// map.sync()?;
    /// map.insert("Ada", &37)?;
    /// let last_sync: TypedMap<String, u64> = TypedMap::open_beside(&path, &options)?;
    /// assert_eq!(last_sync.get("Ada")?, Some(36));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open_beside(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        Self::of(options, |options| Bytes::open_beside_with(path.as_ref(), options))
    }

    /// Returns the schema of the file.
    ///
    /// ```
    /// # use nunatak::durable::{Options, TypedMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = Options::new().schema("ages", 1);
    /// let map: TypedMap<String, u64> = TypedMap::create_with(&path, &options)?;
    /// assert_eq!(map.schema().to_string(), "`ages` version 1 (str to u64)");
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn schema(&self) -> &'static Schema {
        self.schema
    }

    /// Makes all acknowledged operations survive a power cut: see [`FileMap::sync`].
    ///
    /// # Errors
    /// If the system could not write; the map is poisoned then.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// map.insert("a", &1)?;
    /// map.sync()?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn sync(&self) -> Result<(), Error> {
        self.bytes.sync()
    }

    /// Runs a function in each later sync: see [`FileMap::before_sync`].
    ///
    /// # Errors
    /// If there is such a function already, or the file is on persistent memory.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// map.before_sync(|| Ok(()))?; // makes the log durable
    /// assert!(map.before_sync(|| Ok(())).is_err());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn before_sync(
        &self,
        run: impl Fn() -> Result<(), Error> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.bytes.before_sync(run)
    }

    /// Returns the number of the sync whose state is durable: see [`FileMap::last_sync`].
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// let before = map.last_sync();
    /// map.insert("a", &1)?;
    /// map.sync()?;
    /// assert!(map.last_sync() > before);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn last_sync(&self) -> u64 {
        self.bytes.last_sync()
    }

    /// Syncs, and marks the file as closed. Dropping the map does the same, but can't report an
    /// error.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<String, u64> = TypedMap::create(&path)?;
    /// map.close()?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn close(self) -> Result<(), Error> {
        let Self { syncer, bytes, .. } = self;
        drop(syncer);
        bytes.close()
    }
}

impl TypedMap<Vec<u8>, Vec<u8>> {
    /// Returns the map of byte strings that this map is. It may change the file, whose schema stays.
    ///
    /// ```
    /// # use nunatak::durable::{Options, TurboBlobMap, TypedMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = Options::new().schema("pages", 1);
    /// let pages: TypedMap<Vec<u8>, Vec<u8>> = TypedMap::create_with(&path, &options)?;
    /// let pages: TurboBlobMap = pages.into_blobs();
    /// pages.put(b"index", b"welcome")?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn into_blobs(self) -> TurboBlobMap {
        self.bytes
    }
}

impl Simulation {
    /// Creates a typed map in the file, whose contents are ignored.
    ///
    /// # Errors
    /// As [`TypedMap::create_with`].
    ///
    /// ```
    /// # use nunatak::durable::{Options, Persistency, Simulation, TypedMap};
    /// let simulation = Simulation::new(Persistency::Pages);
    /// let map: TypedMap<String, u64> = simulation.create_typed(&Options::new())?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn create_typed<K: KeyEncoding, V: Encoding>(
        &self,
        options: &Options,
    ) -> Result<TypedMap<K, V>, Error> {
        TypedMap::of(options, |options| self.create::<Content>(options))
    }

    /// Opens the typed map that the file held at the beginning.
    ///
    /// # Errors
    /// As [`TypedMap::open_with`].
    ///
    /// ```
    /// # use nunatak::durable::{Options, Persistency, Simulation, TypedMap};
    /// let simulation = Simulation::new(Persistency::Pages);
    /// let map: TypedMap<String, u64> = simulation.create_typed(&Options::new())?;
    /// map.insert("a", &1)?;
    /// map.sync()?;
    /// let image = simulation.crash(simulation.moment()).latest();
    /// let again = Simulation::of(&image, Persistency::Pages);
    /// let map: TypedMap<String, u64> = again.open_typed(&Options::new())?;
    /// assert_eq!(map.get("a")?, Some(1));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open_typed<K: KeyEncoding, V: Encoding>(
        &self,
        options: &Options,
    ) -> Result<TypedMap<K, V>, Error> {
        TypedMap::of(options, |options| self.open::<Content>(options))
    }
}

/// Decoding.
impl<K: KeyEncoding, V: Encoding> TypedMap<K, V> {
    fn decoded<'b, E: Encoding>(
        &self,
        what: &'static str,
        bytes: &'b [u8],
    ) -> Result<E::View<'b>, Error> {
        E::decode(bytes).ok_or_else(|| {
            let error = FileError::Undecodable { what, at: None }.into();
            self.pool().locate(bytes.as_ptr(), error)
        })
    }

    fn value<'b>(&self, bytes: &'b [u8]) -> Result<V::View<'b>, Error> {
        self.decoded::<V>(VALUE, bytes)
    }

    fn owned(&self, bytes: &[u8]) -> Result<V::Owned, Error> {
        self.value(bytes).map(V::to_owned)
    }
}

/// A guard on a [`TypedMap`]: what it returns stays valid, whatever happens to the keys.
///
/// ```
/// # use nunatak::durable::TypedMap;
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map: TypedMap<u64, String> = TypedMap::create(&path)?;
/// map.insert(&1, "stands still")?;
/// let guard = map.pin();
/// let value: &str = guard.get(&1)?.unwrap();
/// map.remove(&1)?;
/// assert_eq!(value, "stands still");
/// # Ok::<(), nunatak::Error>(())
/// ```
pub struct TypedGuard<'m, K: KeyEncoding, V: Encoding> {
    map: &'m TypedMap<K, V>,
    guard: BytesGuard<'m>,
}

impl<K: KeyEncoding, V: Encoding> fmt::Debug for TypedGuard<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedGuard").finish_non_exhaustive()
    }
}

impl<K: KeyEncoding, V: Encoding> TypedGuard<'_, K, V> {
    /// Returns the key's value, read in place.
    ///
    /// # Errors
    /// [`FileError::Undecodable`] if the bytes are not those of a value, and
    /// [`Error::Unencodable`] if the key can't be encoded.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<u64, String> = TypedMap::create(&path)?;
    /// map.insert(&1, "stands still")?;
    /// assert_eq!(map.pin().get(&1)?, Some("stands still"));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn get(&self, key: &K::Ref) -> Result<Option<V::View<'_>>, Error> {
        let key = encoded::<K>(key)?;
        self.guard.get(&key).map(|value| self.map.value(value)).transpose()
    }

    /// Iterates over all entries, read in place, weakly consistent.
    ///
    /// # Errors
    /// An item is an error if its bytes are not those of an entry; others follow.
    ///
    /// ```
    /// # use nunatak::durable::TypedMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: TypedMap<u64, String> = TypedMap::create(&path)?;
    /// map.insert(&1, "stands still")?;
    /// let guard = map.pin();
    /// let mut entries = guard.iter();
    /// assert_eq!(entries.next(), Some(Ok((1, "stands still"))));
    /// # drop(entries);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = Result<(K::View<'_>, V::View<'_>), Error>> {
        self.guard
            .iter()
            .map(|(key, value)| Ok((self.map.decoded::<K>(KEY, key)?, self.map.value(value)?)))
    }
}
