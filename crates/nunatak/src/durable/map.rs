//! [`Map`]: creating, opening, syncing and closing it.

use super::maintenance::Maintenance;
use super::options::Options;
use super::session::{Session, close, create_file, open_file, open_or_create};
use crate::entry::{Inline, InlineKey};
use crate::error::{Error, FileError};
use crate::hash::{Placement, StableHash, StablePlacement};
use crate::map::InlineMap;
use crate::memory::durable::{Backing, Description, Durable, Kind, Pool};
use crate::table::iceberg::{BlockSizes, Blocks, Config, Recovery, Table};
use crate::table::paged::PagedTable;
use crate::table::{Design, Hashes, Places, Visible};
use core::fmt;
use core::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

/// What a table in a file can do beyond one in RAM.
pub trait FileTable: Send + Sync {
    #[doc(hidden)]
    fn sync(&self) -> Result<(), Error>;
    #[doc(hidden)]
    fn has_room(&self) -> Result<(), Error>;
    #[doc(hidden)]
    fn is_tight(&self) -> bool;
    /// Whether something waits for a sync.
    #[doc(hidden)]
    fn needs_sync(&self) -> bool;
    /// Whether something may ever wait for one.
    #[doc(hidden)]
    const MAY_NEED_SYNC: bool;
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "the trait is sealed")]
    fn pool(&self) -> &Pool;
    #[doc(hidden)]
    fn check(&self, is_pair: &(dyn Fn(u64, u64) -> bool + Sync)) -> Result<usize, Error>;
    /// Keys that were found since the file was opened, and not then.
    #[doc(hidden)]
    fn found(&self) -> usize {
        0
    }
    /// Stores what the next one who opens the file wants to know.
    #[doc(hidden)]
    fn prepare_close(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl<P: Placement, B: BlockSizes> FileTable for Table<P, B, Durable> {
    fn sync(&self) -> Result<(), Error> {
        self.sync()
    }

    fn has_room(&self) -> Result<(), Error> {
        self.has_room()
    }

    #[inline(always)]
    fn is_tight(&self) -> bool {
        self.is_tight()
    }

    const MAY_NEED_SYNC: bool = true;

    fn needs_sync(&self) -> bool {
        self.has_leftovers()
    }

    #[allow(private_interfaces, reason = "the trait is sealed")]
    #[inline(always)]
    fn pool(&self) -> &Pool {
        self.pool()
    }

    fn check(&self, is_pair: &(dyn Fn(u64, u64) -> bool + Sync)) -> Result<usize, Error> {
        self.verify(is_pair)
    }
}

impl<T: PagedTable> FileTable for T {
    fn sync(&self) -> Result<(), Error> {
        PagedTable::sync(self)
    }

    fn has_room(&self) -> Result<(), Error> {
        PagedTable::has_room(self)
    }

    #[inline(always)]
    fn is_tight(&self) -> bool {
        PagedTable::is_tight(self)
    }

    const MAY_NEED_SYNC: bool = false;

    fn needs_sync(&self) -> bool {
        false
    }

    #[allow(private_interfaces, reason = "the trait is sealed")]
    #[inline(always)]
    fn pool(&self) -> &Pool {
        PagedTable::pool(self)
    }

    fn check(&self, is_pair: &(dyn Fn(u64, u64) -> bool + Sync)) -> Result<usize, Error> {
        self.verify(is_pair)
    }

    fn found(&self) -> usize {
        PagedTable::found(self)
    }

    fn prepare_close(&self) -> Result<(), Error> {
        self.close()
    }
}

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
pub trait DurableDesign: Hashes<StableHash> {
    #[doc(hidden)]
    type File: FileTable;
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
    fn file(table: &Self::Table<StablePlacement>) -> &Self::File;
    /// Starts a thread that shares a map.
    #[doc(hidden)]
    fn spawn<K: InlineKey, V: Inline>(
        map: &Arc<InlineMap<K, V, StableHash, Self>>,
        run: impl FnOnce(&Self::File) + Send + 'static,
    ) -> std::io::Result<JoinHandle<()>>;
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
    fn create(
        backing: Backing,
        options: &Options,
        bits: (u32, u32),
    ) -> Result<Self::Table<StablePlacement>, Error>;
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
    fn open(
        backing: Backing,
        options: &Options,
        bits: (u32, u32),
    ) -> Result<(Self::Table<StablePlacement>, Recovery), Error>;
}

/// The design of a table in RAM, in a file.
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

impl<B: BlockSizes> Design for InFile<crate::table::Iceberg<B>> {
    type Stats = crate::table::iceberg::IcebergStats;
    type Table<P: Placement> = Table<P, B, Durable>;
    type Medium = Durable;

    #[allow(private_interfaces, reason = "the trait is sealed")]
    fn table<P: Placement>(_placement: P, _capacity: usize) -> Result<Self::Table<P>, Error> {
        Err(Error::InvalidOption { option: "path", expected: "given, for a map in a file" })
    }
}

impl<B: BlockSizes> Hashes<StableHash> for InFile<crate::table::Iceberg<B>> {}
impl<B: BlockSizes> Places<StableHash> for InFile<crate::table::Iceberg<B>> {}
impl<B: BlockSizes> Visible for InFile<crate::table::Iceberg<B>> {}

/// The hash of a new file.
pub(super) fn hash_for(backing: &Backing) -> StableHash {
    // A simulation is to do the same every time.
    match backing.is_simulated() {
        true => StableHash::EXAMPLE,
        false => StableHash::draw(),
    }
}

/// What the words of a description mean.
fn describe<B: BlockSizes>(
    columns: usize,
    hash: StableHash,
    options: &Options,
    bits: (u32, u32),
) -> Description {
    let mut words = [0; 12];
    words[0] = columns as u64;
    words[1] = (B::FRONT | B::BACK << 16) as u64;
    words[2] = u64::from(bits.0) | u64::from(bits.1) << 16;
    words[3] = StableHash::VERSION;
    words[4..6].copy_from_slice(&hash.multipliers);
    words[6] = options.max_load.to_bits();
    words
}

impl<B: BlockSizes> DurableDesign for InFile<crate::table::Iceberg<B>> {
    type File = Table<StablePlacement, B, Durable>;

    #[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
    fn file(table: &Self::File) -> &Self::File {
        table
    }

    fn spawn<K: InlineKey, V: Inline>(
        map: &Arc<InlineMap<K, V, StableHash, Self>>,
        run: impl FnOnce(&Self::File) + Send + 'static,
    ) -> std::io::Result<JoinHandle<()>> {
        let map = Arc::clone(map);
        std::thread::Builder::new().name("nunatak-sync".into()).spawn(move || run(&map.table))
    }

    #[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
    fn create(backing: Backing, options: &Options, bits: (u32, u32)) -> Result<Self::File, Error> {
        let config = Config { max_load: options.max_load, max_capacity: options.max_capacity };
        let shape = Self::File::columns_for(options.capacity, &config)?;
        let hash = hash_for(&backing);
        let description = describe::<B>(shape.0, hash, options, bits);
        let mut pool = Pool::create(backing, Kind::Iceberg, &description, options.wanted())?;
        // The name last, so that what has it is whole; but before the pool is shared.
        let placement = StablePlacement::new(hash.multipliers);
        let unpublished = pool.backing_mut().unpublished();
        let table = Table::create(Durable::new(pool), placement, config, shape)?;
        table.pool().set_session(true);
        table.pool().barrier()?;
        if let Some(unpublished) = unpublished {
            unpublished.publish()?;
        }
        Ok(table)
    }

    #[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
    fn open(
        backing: Backing,
        options: &Options,
        bits: (u32, u32),
    ) -> Result<(Self::File, Recovery), Error> {
        let pool = Pool::open(backing, Kind::Iceberg, options.wanted())?;
        let words = *pool.description();
        let other = |what| Error::File(FileError::OtherKind { what });
        let max_load = f64::from_bits(words[6]);
        let hash = StableHash { multipliers: [words[4], words[5]] };
        if words[3] != StableHash::VERSION {
            return Err(other("hash"));
        }
        let columns = usize::try_from(words[0]).unwrap_or(0);
        let described = Options { max_load, ..options.clone() };
        described.check().map_err(|_| FileError::Corrupt { what: "the load is none" })?;
        let expected = describe::<B>(columns, hash, &described, bits);
        if words[1] != expected[1] {
            return Err(other("size of blocks"));
        }
        if words[2] != expected[2] {
            return Err(other("type of keys or values"));
        }
        let config = Config { max_load, max_capacity: options.max_capacity };
        let placement = StablePlacement::new(hash.multipliers);
        let threads = options.threads_to_open();
        Table::open(Durable::new(pool), placement, config, columns, threads)
    }
}

/// A concurrent map of keys and values of at most 8 bytes, in a file.
///
/// It is the map in RAM of the same design, with the same operations, and they cost
/// the same: lookups read slots in the file's pages, and all that is not a slot is in
/// RAM and is built anew when the file is opened, by one scan of it. Changes return a
/// `Result`: there may be no room on the disk, the file may have been opened to be
/// read, or a sync may have failed. (As a [`ConcurrentMap`](crate::ConcurrentMap) they
/// panic instead.) What an operation is worth when it has returned says
/// [`Durability`](crate::durable::Durability).
///
/// ```
/// use nunatak::durable::{Durability, IcebergMap, Options};
///
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let options = Options::new().durability(Durability::Synced);
/// let map: IcebergMap<u64, u64> = IcebergMap::create_with(&path, &options)?;
/// let mut previous = [None; 2];
/// map.insert_many(&[(1, 10), (2, 20)], &mut previous)?;   // one sync for both
/// assert_eq!(map.get(&2), Some(20));
/// # drop(map);
/// # Ok::<(), nunatak::Error>(())
/// ```
pub struct Map<K: InlineKey, V: Inline, D: DurableDesign> {
    pub(super) map: Arc<InlineMap<K, V, StableHash, D>>,
    pub(super) session: Session,
}

/// IcebergHT in a file (section 6 of the paper): an insert, a removal or an update
/// writes one cache line of the file, and a lookup reads one, or none if the key is
/// absent.
///
/// ```
/// use nunatak::durable::IcebergMap;
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let map: IcebergMap<u64, u64> = IcebergMap::open_or_create(&path)?;
/// map.insert(7, 49)?;
/// map.sync()?;
/// # Ok::<(), nunatak::Error>(())
/// ```
pub type IcebergMap<K, V, B = Blocks> = Map<K, V, InFile<crate::table::Iceberg<B>>>;

impl<K: InlineKey, V: Inline, D: DurableDesign> fmt::Debug for Map<K, V, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("len", &self.len())
            .field("durability", &self.session.durability)
            .finish_non_exhaustive()
    }
}

impl<K: InlineKey, V: Inline, D: DurableDesign> Map<K, V, D> {
    /// Creates a file with an empty map. Nobody finds it before it is whole.
    ///
    /// # Errors
    /// If there is a file of this name, or it can't be made.
    ///
    /// ```
    /// # use nunatak::{Error, FileError, durable::IcebergMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// let again = IcebergMap::<u64, u64>::create(&path);
    /// assert_eq!(again.unwrap_err(), Error::File(FileError::Exists));
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
    /// # use nunatak::durable::{IcebergMap, Options};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = Options::new().capacity(1000);
    /// let map: IcebergMap<u64, u64> = IcebergMap::create_with(&path, &options)?;
    /// # drop(map);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn create_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        let backing = create_file(path.as_ref(), options)?;
        Self::create_in(backing, options)
    }

    /// Opens a file, and recovers it if it was not closed. That of an [`IcebergMap`] takes
    /// about as long as it takes to read the file, that of a
    /// [`PeaMap`](crate::durable::PeaMap) a few milliseconds.
    ///
    /// # Errors
    /// If the file can't be read or written, is in use, is none of such a map, or is
    /// damaged in a way that no crash damages it.
    ///
    /// ```
    /// # use nunatak::{Error, FileError, durable::IcebergMap};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// let again = IcebergMap::<u64, u64>::open(&path);
    /// assert_eq!(again.unwrap_err(), Error::File(FileError::InUse));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, &Options::default())
    }

    /// Opens a file. Of the options those about its contents are the file's own.
    ///
    /// # Errors
    /// As [`open`](Self::open), and if an option is out of its range.
    ///
    /// ```
    /// # use nunatak::{Error, FileError, durable::{IcebergMap, Options}};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// # IcebergMap::<u64, u64>::create(&path)?.insert(1, 10)?;
    /// let options = Options::new().read_only(true);
    /// let map: IcebergMap<u64, u64> = IcebergMap::open_with(&path, &options)?;
    /// assert_eq!(map.get(&1), Some(10));
    /// assert_eq!(map.insert(1, 11), Err(Error::File(FileError::ReadOnly)));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        let backing = open_file(path.as_ref(), options)?;
        Self::open_in(backing, options)
    }

    /// Opens a file, or creates it if there is none.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`create`](Self::create).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// for expected in [None, Some(10)] {
    ///     let map: IcebergMap<u64, u64> = IcebergMap::open_or_create(&path)?;
    ///     assert_eq!(map.insert(1, 10)?, expected);
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
    /// # use nunatak::durable::{IcebergMap, Options};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let options = Options::new().capacity(1000);
    /// let map: IcebergMap<u64, u64> = IcebergMap::open_or_create_with(&path, &options)?;
    /// # drop(map);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn open_or_create_with(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        let path = path.as_ref();
        let open = || Self::open_with(path, options);
        open_or_create(path, open, || Self::create_with(path, options))
    }

    const BITS: (u32, u32) = (K::BITS, V::BITS);

    pub(crate) fn create_in(backing: Backing, options: &Options) -> Result<Self, Error> {
        let table = D::create(backing, options, Self::BITS)?;
        Self::of(table, options, Recovery::default())
    }

    pub(crate) fn open_in(backing: Backing, options: &Options) -> Result<Self, Error> {
        let (table, recovery) = D::open(backing, options, Self::BITS)?;
        let map = Self::of(table, options, recovery)?;
        if !(K::EVERY_WORD && V::EVERY_WORD) {
            map.verify()?;
        }
        Ok(map)
    }

    fn of(
        table: D::Table<StablePlacement>,
        options: &Options,
        recovery: Recovery,
    ) -> Result<Self, Error> {
        let map = Arc::new(InlineMap::of(table));
        let maintenance = match options.read_only {
            true => None,
            false => {
                let spawn = |run| D::spawn(&map, run);
                Maintenance::start(D::file(&map.table), options.durability, spawn)?
            }
        };
        Ok(Self { map, session: Session::new(options.durability, maintenance, recovery) })
    }

    pub(crate) fn file(&self) -> &D::File {
        D::file(&self.map.table)
    }

    /// Makes all that was acknowledged survive a power cut. Other operations go on
    /// meanwhile.
    ///
    /// # Errors
    /// If the system could not write it; the map is poisoned then.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// map.sync()?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn sync(&self) -> Result<(), Error> {
        self.file().sync()
    }

    /// Syncs, and says in the file that it was closed. A map that is dropped does the
    /// same, but can't tell of an error.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.close()?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn close(mut self) -> Result<(), Error> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.session.end_maintenance();
        close(self.file())
    }

    /// Looks at every slot: whether each pair is where it belongs, is there once, and
    /// is one of these types. How many there are.
    ///
    /// Opening a file does it, too. Changes of other threads should wait for its end:
    /// it reports what it sees of them.
    ///
    /// # Errors
    /// What is wrong.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// map.insert(1, 10)?;
    /// assert_eq!(map.verify()?, 1);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn verify(&self) -> Result<usize, Error> {
        self.file().check(&|key, value| K::is_word(key) && V::is_word(value))
    }

    /// What opening the file has found; nothing if it was created. Of a [`PeaMap`] that
    /// was not closed the items are those of the segments that somebody has come to since:
    /// all of them after [`len`](Self::len).
    ///
    /// [`PeaMap`]: crate::durable::PeaMap
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.recovery().items, 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn recovery(&self) -> Recovery {
        self.session.recovery(self.file())
    }

    /// How many bytes the file has.
    ///
    /// ```
    /// # use nunatak::durable::IcebergMap;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("map");
    /// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
    /// assert_eq!(map.file_bytes(), std::fs::metadata(&path).unwrap().len());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn file_bytes(&self) -> u64 {
        self.file().pool().file_bytes()
    }
}

impl<K: InlineKey, V: Inline, D: DurableDesign> Drop for Map<K, V, D> {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
