//! Spaces: a map in RAM or in a file, behind one interface.

#[cfg(target_os = "linux")]
use super::file::{FileError, MapFile};
#[cfg(target_os = "linux")]
use crate::config::Durability;
use nunatak::entry::{Entries, Plain};
use nunatak::{ByteGuard, Design, Error, MemoryUsage, TurboBlobMap, TurboMap};
use std::path::Path;

/// The keys of a database, with their records.
#[derive(Debug)]
pub(crate) enum Space {
    Ram(Box<TurboBlobMap>),
    #[cfg(target_os = "linux")]
    File(Box<MapFile>),
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

/// Runs an expression on the map of either kind.
macro_rules! on_map {
    ($space:expr, $map:ident => $run:expr) => {
        match $space {
            Space::Ram($map) => $run,
            #[cfg(target_os = "linux")]
            Space::File($map) => $run,
        }
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

    /// Whether the keys outlive the process.
    pub(crate) fn is_in_file(&self) -> bool {
        !matches!(self, Self::Ram(_))
    }

    /// Runs `f` under a guard.
    #[inline(always)]
    pub(crate) fn read<R>(&self, f: impl FnOnce(&dyn Reader) -> R) -> R {
        on_map!(self, map => f(&map.pin()))
    }

    /// Runs `f` on the record of a key.
    #[inline(always)]
    pub(crate) fn get<R>(&self, key: &[u8], f: impl FnOnce(Option<&[u8]>) -> R) -> R {
        on_map!(self, map => f(map.pin().get(key)))
    }

    /// Stores a record.
    #[inline(always)]
    pub(crate) fn put(&self, key: &[u8], record: &[u8]) -> Result<bool, Error> {
        on_map!(self, map => map.put(key, record))
    }

    /// Stores records, in order. If that fails, some of them may be stored.
    pub(crate) fn put_many(&self, records: &[(&[u8], &[u8])]) -> Result<(), Error> {
        on_map!(self, map => map.put_many(records).map(drop))
    }

    /// Removes a key, and returns whether it was there.
    pub(crate) fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        match self {
            Self::Ram(map) => Ok(map.delete(key)),
            #[cfg(target_os = "linux")]
            Self::File(map) => map.delete(key),
        }
    }

    /// Changes keys: `Some` is a record, `None` removes the key. In a file a crash leaves all of the
    /// changes or none.
    pub(crate) fn change_together(&self, changes: &[Change<'_>]) -> Result<(), Error> {
        match self {
            Self::Ram(map) => {
                for &(key, record) in changes {
                    match record {
                        Some(record) => drop(map.put(key, record)?),
                        None => drop(map.delete(key)),
                    }
                }
                Ok(())
            }
            #[cfg(target_os = "linux")]
            Self::File(map) => map.change_together(changes),
        }
    }

    pub(crate) fn len(&self) -> usize {
        on_map!(self, map => map.len())
    }

    pub(crate) fn clear(&self) -> Result<(), Error> {
        match self {
            Self::Ram(map) => {
                map.clear();
                map.shrink_to_fit()
            }
            #[cfg(target_os = "linux")]
            Self::File(map) => map.clear(),
        }
    }

    pub(crate) fn memory(&self) -> MemoryUsage {
        on_map!(self, map => map.memory_usage())
    }

    /// Returns the bytes that records take, without those that were removed.
    pub(crate) fn live_bytes(&self) -> usize {
        on_map!(self, map => {
            let stats = map.blob_stats();
            stats.placed_bytes.saturating_sub(stats.retired_bytes + stats.unsynced_bytes)
        })
    }

    /// Makes all changes survive a power cut.
    pub(crate) fn commit(&self) -> Result<(), Error> {
        match self {
            Self::Ram(_) => Ok(()),
            #[cfg(target_os = "linux")]
            Self::File(map) => map.commit(),
        }
    }

    /// Whether changes wait for a log that is slower than they are made.
    pub(crate) fn is_behind(&self) -> bool {
        match self {
            Self::Ram(_) => false,
            #[cfg(target_os = "linux")]
            Self::File(map) => map.is_behind(),
        }
    }

    /// Returns how many bytes the log beside the file has.
    pub(crate) fn log_bytes(&self) -> u64 {
        match self {
            Self::Ram(_) => 0,
            #[cfg(target_os = "linux")]
            Self::File(map) => map.log_bytes(),
        }
    }

    /// Makes all changes survive a power cut, by the file alone.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        match self {
            Self::Ram(_) => Ok(()),
            #[cfg(target_os = "linux")]
            Self::File(map) => map.sync(),
        }
    }

    /// Closes the file.
    #[cfg(target_os = "linux")]
    pub(crate) fn close(self) -> Result<(), FileError> {
        match self {
            Self::Ram(_) => Ok(()),
            Self::File(mut map) => map.close(),
        }
    }

    /// Copies the map to a file, as of one moment, while it is used.
    pub(crate) fn backup(&self, path: &Path) -> Result<usize, Error> {
        match self {
            Self::Ram(_) => Ok(0),
            #[cfg(target_os = "linux")]
            Self::File(map) => map.backup(path),
        }
    }
}
