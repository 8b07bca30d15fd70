//! Maps of byte strings in which a key has any number of values.

use crate::multi::short;
use crate::room::{Room, room_of_the_map};
use nunatak::{Error, PeaBlobMultiMap};

/// A concurrent map in which a key is a byte string and has any number of values, words of 8 bytes.
///
/// Errors are those of memory, and of keys beyond 2^32 - 1 bytes.
///
/// ```
/// use nunatak_dynamic::multi_blobs_in_ram;
///
/// let map = multi_blobs_in_ram();
/// map.insert_many(&[(b"a", 10), (b"b", 20), (b"a", 11)])?;
/// let (mut values, mut ends) = (vec![], [0; 2]);
/// map.copy_all_many(&[b"x", b"b"], &mut values, &mut ends)?;
/// assert_eq!((values, ends), (vec![20], [0, 1]));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub trait MultiBlobs: Room + Send + Sync {
    /// Adds a value to those of the key; equal values are kept.
    ///
    /// # Errors
    /// As the trait says.
    fn insert(&self, key: &[u8], value: u64) -> Result<(), Error>;

    /// Adds all values to those of their keys, in order.
    ///
    /// # Errors
    /// As the trait says; the values before the refused one are stored.
    fn insert_many(&self, entries: &[(&[u8], u64)]) -> Result<(), Error>;

    /// Adds a value to those of the key unless an equal one is there; returns whether it was added.
    ///
    /// # Errors
    /// As the trait says.
    fn insert_unique(&self, key: &[u8], value: u64) -> Result<bool, Error>;

    /// Adds each value that its key does not have, in order, and returns how many were added.
    ///
    /// # Errors
    /// As the trait says; the values before the refused one are stored.
    fn insert_unique_many(&self, entries: &[(&[u8], u64)]) -> Result<usize, Error>;

    /// Returns how many values the key has.
    fn count(&self, key: &[u8]) -> usize;

    /// Returns whether the key has a value.
    fn contains_key(&self, key: &[u8]) -> bool;

    /// Appends the values of the key, and returns how many there are.
    fn copy_all(&self, key: &[u8], values: &mut Vec<u64>) -> usize;

    /// Appends the values of many keys. `ends[i]` becomes where those of `keys[i]` end in `values`.
    ///
    /// # Errors
    /// If `ends` is shorter than `keys`; nothing was done.
    fn copy_all_many(
        &self,
        keys: &[&[u8]],
        values: &mut Vec<u64>,
        ends: &mut [usize],
    ) -> Result<(), Error>;

    /// Stores in `counts` how many values each key has.
    ///
    /// # Errors
    /// If `counts` is shorter than `keys`; nothing was done.
    fn count_many(&self, keys: &[&[u8]], counts: &mut [usize]) -> Result<(), Error>;

    /// Removes one of the values that are equal to this one, and returns whether there was one.
    ///
    /// # Errors
    /// As the trait says.
    fn remove_one(&self, key: &[u8], value: u64) -> Result<bool, Error>;

    /// Removes all values of the key, and returns how many there were.
    ///
    /// # Errors
    /// As the trait says.
    fn remove_all(&self, key: &[u8]) -> Result<usize, Error>;

    /// Removes all values of many keys, in order, and stores in `removed` how many each had.
    ///
    /// # Errors
    /// If `removed` is shorter than `keys` (nothing was done), or as the trait says.
    fn remove_all_many(&self, keys: &[&[u8]], removed: &mut [usize]) -> Result<(), Error>;

    /// Calls `each` for every key and value of a consistent cut, until it returns false.
    ///
    /// # Errors
    /// If memory for the cut is refused.
    fn for_each(&self, each: &mut dyn FnMut(&[u8], u64) -> bool) -> Result<(), Error>;

    /// Calls `each` for every key and how many values it has at one moment, until it returns false.
    /// Weakly consistent: a key that stays comes once, others at most once for each time that they
    /// were inserted.
    fn for_each_key(&self, each: &mut dyn FnMut(&[u8], usize) -> bool);

    /// Calls `each` for every key with all values that it has at one moment, until it returns false.
    /// Weakly consistent, as [`for_each_key`](Self::for_each_key).
    fn for_each_group(&self, each: &mut dyn FnMut(&[u8], &[u64]) -> bool);

    /// Removes all values of each key that the walk over the map reaches.
    ///
    /// # Errors
    /// As the trait says.
    fn clear(&self) -> Result<(), Error>;

    /// Returns the figures of the tables, as text.
    fn stats(&self) -> String;
}

/// Makes an empty map in RAM.
///
/// ```
/// assert!(nunatak_dynamic::multi_blobs_in_ram().is_empty());
/// ```
pub fn multi_blobs_in_ram() -> Box<dyn MultiBlobs> {
    Box::new(PeaBlobMultiMap::<u64>::default())
}

impl Room for PeaBlobMultiMap<u64> {
    // Each value may be that of a new key.
    room_of_the_map!(|map, additional| map.reserve(additional, additional));
}

impl MultiBlobs for PeaBlobMultiMap<u64> {
    fn insert(&self, key: &[u8], value: u64) -> Result<(), Error> {
        self.insert(key, value)
    }

    fn insert_many(&self, entries: &[(&[u8], u64)]) -> Result<(), Error> {
        self.insert_many(entries)
    }

    fn insert_unique(&self, key: &[u8], value: u64) -> Result<bool, Error> {
        self.insert_unique(key, value)
    }

    fn insert_unique_many(&self, entries: &[(&[u8], u64)]) -> Result<usize, Error> {
        self.insert_unique_many(entries)
    }

    fn count(&self, key: &[u8]) -> usize {
        self.count(key)
    }

    fn contains_key(&self, key: &[u8]) -> bool {
        self.contains_key(key)
    }

    fn copy_all(&self, key: &[u8], values: &mut Vec<u64>) -> usize {
        self.copy_all(key, values)
    }

    fn copy_all_many(
        &self,
        keys: &[&[u8]],
        values: &mut Vec<u64>,
        ends: &mut [usize],
    ) -> Result<(), Error> {
        self.copy_all_many(keys, values, ends).map_err(short)
    }

    fn count_many(&self, keys: &[&[u8]], counts: &mut [usize]) -> Result<(), Error> {
        self.count_many(keys, counts).map_err(short)
    }

    fn remove_one(&self, key: &[u8], value: u64) -> Result<bool, Error> {
        Ok(self.remove_one(key, &value))
    }

    fn remove_all(&self, key: &[u8]) -> Result<usize, Error> {
        Ok(self.remove_all(key))
    }

    fn remove_all_many(&self, keys: &[&[u8]], removed: &mut [usize]) -> Result<(), Error> {
        self.remove_all_many(keys, removed).map_err(short)
    }

    fn for_each(&self, each: &mut dyn FnMut(&[u8], u64) -> bool) -> Result<(), Error> {
        self.snapshot()?.all(|(key, value)| each(&key, value));
        Ok(())
    }

    fn for_each_key(&self, each: &mut dyn FnMut(&[u8], usize) -> bool) {
        self.distinct_keys().all(|(key, count)| each(&key, count));
    }

    fn for_each_group(&self, each: &mut dyn FnMut(&[u8], &[u64]) -> bool) {
        self.iter_all().all(|(key, values)| each(&key, &values));
    }

    fn clear(&self) -> Result<(), Error> {
        self.clear();
        Ok(())
    }

    fn stats(&self) -> String {
        format!("{:?} {:?}", self.stats(), self.blob_stats())
    }
}
