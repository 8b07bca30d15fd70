//! Spaces: a map in RAM or in a file, behind one interface.

#[cfg(target_os = "linux")]
use super::file::{FileError, MapFile};
#[cfg(target_os = "linux")]
use crate::config::Durability;
use nunatak::entry::{Entries, Plain};
use nunatak::{ByteGuard, Design, Error, MemoryUsage, TurboBlobMap, TurboMap};
#[cfg(target_os = "linux")]
use parking_lot::Mutex;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::path::PathBuf;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;

/// The keys of a database, with their records.
#[derive(Debug)]
pub(crate) enum Space {
    Ram(Box<TurboBlobMap>),
    #[cfg(target_os = "linux")]
    File(Box<MapFile>),
    #[cfg(target_os = "linux")]
    Later(Box<Later>),
}

/// A space whose file is made when the first key is stored.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct Later {
    path: PathBuf,
    durability: Durability,
    file: OnceLock<Space>,
    /// Held by the thread that makes the file.
    making: Mutex<()>,
    /// What is there until then: nothing.
    none: Space,
}

#[cfg(target_os = "linux")]
impl Later {
    fn file(&self) -> Result<&Space, Error> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let _held = self.making.lock();
        match self.file.get() {
            Some(file) => Ok(file),
            None => {
                let file = Space::in_file(&self.path, self.durability)?;
                Ok(self.file.get_or_init(|| file))
            }
        }
    }
}

/// A key and its record from then on.
pub(crate) type Change<'c> = (&'c [u8], Option<&'c [u8]>);

/// Gets an entry of a part: the word that orders it, its key, and its record.
pub(crate) type Found<'f> = dyn FnMut(u64, &[u8], &[u8]) + 'f;

/// What a guard of either map does.
pub(crate) trait Reader {
    /// Appends the records of many keys, whose cache misses overlap.
    fn get_many<'g>(&'g self, keys: &[&[u8]], found: &mut Vec<Option<&'g [u8]>>);

    /// Passes each entry of a part to `found`, with a word that orders them. Returns whether there are
    /// parts behind it.
    fn read_part(&self, part: usize, found: &mut Found<'_>) -> bool;
}

impl<E, D: Design> Reader for ByteGuard<'_, E, D>
where
    E: Entries<Naming = Plain>,
    for<'v> E: Entries<Value<'v> = &'v [u8], Found<'v> = &'v [u8]>,
{
    fn get_many<'g>(&'g self, keys: &[&[u8]], found: &mut Vec<Option<&'g [u8]>>) {
        self.get_many(keys, |_, record| found.push(record));
    }

    fn read_part(&self, part: usize, found: &mut Found<'_>) -> bool {
        self.for_each_of_part(part, |word, key, record| found(word, key, record))
    }
}

/// Runs one of two expressions: on a map in RAM, or on one in a file. The space is one that is there.
macro_rules! on_either {
    ($space:expr, $ram:pat => $of_ram:expr, $file:pat => $of_file:expr) => {
        match $space {
            Space::Ram($ram) => $of_ram,
            #[cfg(target_os = "linux")]
            Space::File($file) => $of_file,
            #[cfg(target_os = "linux")]
            Space::Later(_) => {
                unreachable!("a file, or what is there until then, is of another kind")
            }
        }
    };
}

/// Runs an expression on the map of either kind.
macro_rules! on_map {
    ($space:expr, $map:ident => $run:expr) => {
        on_either!($space, $map => $run, $map => $run)
    };
}

impl Space {
    /// Makes an empty space in RAM.
    pub(crate) fn in_ram() -> Self {
        // Twice the default: a request takes far longer than its search, and with it shards are
        // fuller before they grow, by a twentieth of the memory of the slots.
        let builder = TurboMap::<u64, u64>::builder().scope(32);
        Self::Ram(Box::new(builder.build_blobs().unwrap_or_default()))
    }

    /// Opens a space in a file, or creates it.
    #[cfg(target_os = "linux")]
    pub(crate) fn in_file(path: &Path, durability: Durability) -> Result<Self, FileError> {
        Ok(Self::File(Box::new(MapFile::open(path, durability)?)))
    }

    /// Makes a space whose file is made when the first key is stored.
    #[cfg(target_os = "linux")]
    pub(crate) fn in_later_file(path: PathBuf, durability: Durability) -> Self {
        let (file, making, none) = (OnceLock::new(), Mutex::default(), Self::in_ram());
        Self::Later(Box::new(Later { path, durability, file, making, none }))
    }

    /// Returns the space that has the keys at present.
    #[inline(always)]
    fn now(&self) -> &Self {
        match self {
            #[cfg(target_os = "linux")]
            Self::Later(later) => later.file.get().unwrap_or(&later.none),
            space => space,
        }
    }

    /// Returns the space that keys can be stored in.
    #[inline(always)]
    fn to_store(&self) -> Result<&Self, Error> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Later(later) => later.file(),
            space => Ok(space),
        }
    }

    /// Whether the keys outlive the process.
    pub(crate) fn is_in_file(&self) -> bool {
        !matches!(self, Self::Ram(_))
    }

    /// Runs `f` under a guard.
    #[inline(always)]
    pub(crate) fn read<R>(&self, f: impl FnOnce(&dyn Reader) -> R) -> R {
        on_map!(self.now(), map => f(&map.pin()))
    }

    /// Runs `f` on the record of a key.
    #[inline(always)]
    pub(crate) fn get<R>(&self, key: &[u8], f: impl FnOnce(Option<&[u8]>) -> R) -> R {
        on_map!(self.now(), map => f(map.pin().get(key)))
    }

    /// Stores a record.
    #[inline(always)]
    pub(crate) fn put(&self, key: &[u8], record: &[u8]) -> Result<bool, Error> {
        on_map!(self.to_store()?, map => map.put(key, record))
    }

    /// Stores records, in order. If that fails, some of them may be stored.
    pub(crate) fn put_many(&self, records: &[(&[u8], &[u8])]) -> Result<(), Error> {
        on_map!(self.to_store()?, map => map.put_many(records).map(drop))
    }

    /// Removes a key, and returns whether it was there.
    pub(crate) fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        on_either!(self.now(), map => Ok(map.delete(key)), map => map.delete(key))
    }

    /// Changes keys: `Some` is a record, `None` removes the key. In a file a crash leaves all of the
    /// changes or none.
    pub(crate) fn change_together(&self, changes: &[Change<'_>]) -> Result<(), Error> {
        let one_by_one = |map: &TurboBlobMap| {
            for &(key, record) in changes {
                match record {
                    Some(record) => drop(map.put(key, record)?),
                    None => drop(map.delete(key)),
                }
            }
            Ok(())
        };
        on_either!(self.to_store()?, map => one_by_one(map), map => map.change_together(changes))
    }

    pub(crate) fn len(&self) -> usize {
        on_map!(self.now(), map => map.len())
    }

    pub(crate) fn clear(&self) -> Result<(), Error> {
        let clear = |map: &TurboBlobMap| {
            map.clear();
            map.shrink_to_fit()
        };
        on_either!(self.now(), map => clear(map), map => map.clear())
    }

    pub(crate) fn memory(&self) -> MemoryUsage {
        on_map!(self.now(), map => map.memory_usage())
    }

    /// Returns the bytes that records take, without those that were removed.
    pub(crate) fn live_bytes(&self) -> usize {
        on_map!(self.now(), map => {
            let stats = map.blob_stats();
            stats.placed_bytes.saturating_sub(stats.retired_bytes + stats.unsynced_bytes)
        })
    }

    /// Makes all changes survive a power cut.
    pub(crate) fn commit(&self) -> Result<(), Error> {
        on_either!(self.now(), _ => Ok(()), map => map.commit())
    }

    /// Whether changes wait for a log that is slower than they are made.
    pub(crate) fn is_behind(&self) -> bool {
        on_either!(self.now(), _ => false, map => map.is_behind())
    }

    /// Returns how many bytes the log beside the file has.
    pub(crate) fn log_bytes(&self) -> u64 {
        on_either!(self.now(), _ => 0, map => map.log_bytes())
    }

    /// Makes all changes survive a power cut, by the file alone.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        on_either!(self.now(), _ => Ok(()), map => map.sync())
    }

    /// Returns the number of the last sync of the file.
    pub(crate) fn last_sync(&self) -> u64 {
        on_either!(self.now(), _ => 0, map => map.last_sync())
    }

    /// Returns by which sync the file was closed before it was opened; `None` if it was not closed.
    pub(crate) fn closed_by(&self) -> Option<u64> {
        on_either!(self.now(), _ => None, map => map.closed_by())
    }

    /// Closes the file.
    #[cfg(target_os = "linux")]
    pub(crate) fn close(self) -> Result<(), FileError> {
        match self {
            Self::Ram(_) => Ok(()),
            Self::File(mut map) => map.close(),
            Self::Later(later) => later.file.into_inner().map_or(Ok(()), Self::close),
        }
    }

    /// Copies the map to a file, as of one moment, while it is used.
    pub(crate) fn backup(&self, path: &Path) -> Result<usize, Error> {
        on_either!(self.now(), _ => Ok(0), map => map.backup(path))
    }
}
