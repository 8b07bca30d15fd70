//! Maps of byte strings.

use crate::Table;
use crate::room::{Room, room_of_the_map};
use nunatak::alloc::Allocator;
use nunatak::entry::Format;
use nunatak::{BlobMap, Compute, Dlht, Error, Iceberg, Pea, RandomState, RecordMap, Turbo};

/// Decides what becomes of a key's value, which it is shown.
pub type BlobChange<'a> = &'a mut dyn FnMut(Option<&[u8]>) -> Compute<Vec<u8>>;

/// Keeps the entries of a map of byte strings: values that are found through it stay valid while it
/// lives, whatever happens to their keys. Memory that is freed meanwhile waits for it.
///
/// ```
/// use nunatak_dynamic::{Table, blobs_in_ram};
///
/// let map = blobs_in_ram(Table::Dlht, 0)?;
/// map.put(b"a", b"1")?;
/// let pinned = map.pin();
/// let value = pinned.get(b"a");
/// map.delete(b"a")?;
/// assert_eq!((value, pinned.get(b"a")), (Some(&b"1"[..]), None));
/// # Ok::<(), nunatak::Error>(())
/// ```
// The guards of the maps have types that can't be named here, so a closure owns one.
pub struct Pinned<'m>(Box<Find<'m>>);

type Find<'m> = dyn Fn(&[u8]) -> Option<*const [u8]> + 'm;

impl<'m> Pinned<'m> {
    /// `find` owns a guard, and finds values under it.
    pub(crate) fn new(find: impl Fn(&[u8]) -> Option<*const [u8]> + 'm) -> Self {
        Self(Box::new(find))
    }

    /// Returns the key's value, without a copy.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        // SAFETY: the value was found under the guard that the closure owns, which keeps it as long as
        // `self` lives.
        (self.0)(key).map(|value| unsafe { &*value })
    }
}

impl core::fmt::Debug for Pinned<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pinned").finish_non_exhaustive()
    }
}

/// A concurrent map of byte strings.
///
/// Errors are those of the map in a file, of memory, and of strings beyond 2^32 - 1 bytes.
///
/// ```
/// use nunatak_dynamic::{Table, blobs_in_ram};
///
/// let map = blobs_in_ram(Table::Turbo, 0)?;
/// assert!(!map.put(b"a", b"1")?);
/// let mut lengths = vec![];
/// map.get_many(&[b"b", b"a"], &mut |_, value| lengths.push(value.map(<[u8]>::len)));
/// assert_eq!(lengths, [None, Some(1)]);
/// # Ok::<(), nunatak::Error>(())
/// ```
pub trait Blobs: Room + Send + Sync {
    /// Returns what keeps the values that are found through it. It belongs to this thread.
    fn pin(&self) -> Pinned<'_>;

    /// Calls `found` with the key's value in place, and returns whether the key is present.
    fn get_with(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> bool;

    /// Returns whether the key is present.
    fn contains_key(&self, key: &[u8]) -> bool {
        self.get_with(key, &mut |_| ())
    }

    /// Stores the value and returns whether it replaced one.
    ///
    /// # Errors
    /// As the trait says.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<bool, Error>;

    /// Stores the value and returns the one that it replaced.
    ///
    /// # Errors
    /// As the trait says.
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// Stores the value if the key is absent; otherwise returns the present value.
    ///
    /// # Errors
    /// As the trait says.
    fn try_insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// Keeps, replaces or removes the value as `change` decides, and returns the one before. `change`
    /// may run more than once.
    ///
    /// # Errors
    /// As the trait says.
    fn compute(&self, key: &[u8], change: BlobChange<'_>) -> Result<Option<Vec<u8>>, Error>;

    /// Removes the key and returns its value.
    ///
    /// # Errors
    /// As the trait says.
    fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// Removes the key and returns whether it was present.
    ///
    /// # Errors
    /// As the trait says.
    fn delete(&self, key: &[u8]) -> Result<bool, Error>;

    /// Looks up all keys in order. `found` gets the index of each and its value in place.
    fn get_many(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>));

    /// Stores all entries, in order, and returns how many keys were new.
    ///
    /// # Errors
    /// As the trait says; the entries before the refused one are stored.
    fn put_many(&self, entries: &[(&[u8], &[u8])]) -> Result<usize, Error>;

    /// Removes all keys, in order, and returns how many were present.
    ///
    /// # Errors
    /// As the trait says.
    fn delete_many(&self, keys: &[&[u8]]) -> Result<usize, Error>;

    /// Calls `each` for every entry of a consistent cut, until it returns false.
    ///
    /// # Errors
    /// If memory for the cut is refused.
    fn for_each(&self, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Error>;

    /// Returns an entry, if there is one.
    fn any(&self) -> Option<(Vec<u8>, Vec<u8>)>;

    /// Gives back the memory of removed and replaced entries that no guard can see any more. Returns how
    /// many bytes wait for guards.
    fn reclaim(&self) -> usize;

    /// Removes every entry.
    ///
    /// # Errors
    /// As the trait says.
    fn clear(&self) -> Result<(), Error>;

    /// Returns the figures of the table, as text.
    fn stats(&self) -> String;
}

/// Makes an empty map in RAM with room for `capacity` entries.
///
/// # Errors
/// If the capacity does not fit the address space, or memory is refused.
///
/// ```
/// use nunatak_dynamic::{Table, blobs_in_ram};
/// assert!(blobs_in_ram(Table::Dlht, 1000)?.is_empty());
/// # Ok::<(), nunatak::Error>(())
/// ```
pub fn blobs_in_ram(table: Table, capacity: usize) -> Result<Box<dyn Blobs>, Error> {
    Ok(match table {
        Table::Dlht => Box::new(BlobMap::<RandomState, Dlht>::try_with_capacity(capacity)?),
        Table::Iceberg => Box::new(BlobMap::<RandomState, Iceberg>::try_with_capacity(capacity)?),
        Table::Pea => Box::new(BlobMap::<RandomState, Pea>::try_with_capacity(capacity)?),
        Table::Turbo => Box::new(BlobMap::<RandomState, Turbo>::try_with_capacity(capacity)?),
    })
}

/// Makes an empty map in RAM with room for `capacity` entries, each of which is in memory of `allocator`.
///
/// # Errors
/// If the capacity does not fit the address space, or memory is refused.
///
/// ```
/// use nunatak::alloc::Global;
/// use nunatak_dynamic::{Table, records_in};
/// let map = records_in(Table::Dlht, 1000, Global)?;
/// map.put(b"a", b"1")?;
/// # Ok::<(), nunatak::Error>(())
/// ```
pub fn records_in<A: Allocator + Send + Sync + 'static>(
    table: Table,
    capacity: usize,
    allocator: A,
) -> Result<Box<dyn Blobs>, Error> {
    type Of<A, D> = RecordMap<Format, A, RandomState, D>;
    let hasher = RandomState::default();
    Ok(match table {
        Table::Dlht => Box::new(Of::<A, Dlht>::try_new_in(capacity, hasher, allocator)?),
        Table::Iceberg => Box::new(Of::<A, Iceberg>::try_new_in(capacity, hasher, allocator)?),
        Table::Pea => Box::new(Of::<A, Pea>::try_new_in(capacity, hasher, allocator)?),
        Table::Turbo => Box::new(Of::<A, Turbo>::try_new_in(capacity, hasher, allocator)?),
    })
}

/// The methods of [`Blobs`] by those of maps in RAM, which have the same names. Between brackets: the
/// parameters of the type.
macro_rules! blobs_by_the_map {
    ($([$($of:tt)*] $map:ty;)*) => {$(
        impl<$($of)*> Room for $map {
            room_of_the_map!();
        }

        impl<$($of)*> Blobs for $map {
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

            fn compute(
                &self,
                key: &[u8],
                change: BlobChange<'_>,
            ) -> Result<Option<Vec<u8>>, Error> {
                self.compute(key, change)
            }

            fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
                Ok(self.remove(key))
            }

            fn delete(&self, key: &[u8]) -> Result<bool, Error> {
                Ok(self.delete(key))
            }

            fn get_many(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) {
                self.pin().get_many(keys, found);
            }

            fn put_many(&self, entries: &[(&[u8], &[u8])]) -> Result<usize, Error> {
                self.put_many(entries)
            }

            fn delete_many(&self, keys: &[&[u8]]) -> Result<usize, Error> {
                Ok(self.delete_many(keys))
            }

            fn for_each(
                &self,
                each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
            ) -> Result<(), Error> {
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
                self.clear();
                Ok(())
            }

            fn stats(&self) -> String {
                format!("{:?} {:?}", self.stats(), self.blob_stats())
            }
        }
    )*};
}

pub(crate) use blobs_by_the_map;

blobs_by_the_map! {
    [] BlobMap<RandomState, Dlht>;
    [] BlobMap<RandomState, Iceberg>;
    [] BlobMap<RandomState, Pea>;
    [] BlobMap<RandomState, Turbo>;
    [A: Allocator + Send + Sync + 'static] RecordMap<Format, A, RandomState, Dlht>;
    [A: Allocator + Send + Sync + 'static] RecordMap<Format, A, RandomState, Iceberg>;
    [A: Allocator + Send + Sync + 'static] RecordMap<Format, A, RandomState, Pea>;
    [A: Allocator + Send + Sync + 'static] RecordMap<Format, A, RandomState, Turbo>;
}
