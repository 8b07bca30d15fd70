//! [`PeaBlobMultiMap`]: keys that are byte strings of any length, with any number of values.
//!
//! A table of keys has a blob for each key. The word of the blob, its place in memory, is the key's
//! number; a [`PeaMultiMap`] has the values by number. For keys of any length Pea Hash keeps in a
//! slot a hash and a pointer to an entry of key and value (section 3.3 of the paper), so each value
//! of a key has the key again, and a read compares it again. Here a key is stored and compared
//! once, however many values it has, and the table of values does not know of strings. The price
//! is a second table: a key with one value takes the lines of two lookups.
//!
//! Invariants
//! 1. A number that the table of values has is the word of a blob of the table of keys: the blob is
//!    in that table, or retired since. (Invariant 1 of [`locks`].)
//! 2. A retired blob's place is used again when no guard of the table of keys lives that was there
//!    before. So a thread that takes a guard, and then reads a number from either table, may read
//!    the number's key while it has the guard, and meets no other key's values under the number.
//! 3. A blob is written before its number is published in the table of keys, and that before the
//!    table of values has it. Both publish by stores that the loads of a validated read acquire.

mod batches;
mod changes;
mod collection;
mod locks;
#[cfg(feature = "rayon")]
mod with_rayon;
#[cfg(feature = "serde")]
mod with_serde;

use crate::entry::{Entries, Inline};
use crate::error::Error;
use crate::hash::{Hashing, RandomState};
use crate::map::bytes::blob::BlobMap;
use crate::map::multi::PeaMultiMap;
use crate::sync::GuardPin;
use crate::table::pea::{Config, build_multi};
use crate::table::{PairTable, Pea};
use core::hash::BuildHasher;
use locks::KeyLocks;

/// A concurrent map in which a key is a byte string of 0 to 4 GiB and has any number of values,
/// also equal ones: an inverted index, a secondary index over strings, groups by name.
///
/// The map has each key once, in its own memory, and the values of a key as a
/// [`PeaMultiMap`] has them: side by side if they are many. A key takes its length and 4 bytes,
/// rounded up to a multiple of 8, and a slot of 16 bytes at the table's load factor; a value takes
/// what it takes in a `PeaMultiMap`.
///
/// **Consistency.** Every operation on one key is linearizable. An operation that returns all values
/// of a key returns the values that it had at one moment. The order of a key's values is not kept.
/// Two values are equal if their bits are. A key whose last value is removed is removed, too; its
/// memory is given back when no [iterator](Self::iter) and no read that began before is under way.
///
/// **Progress.** A read takes no lock, unless dozens of attempts found the key changing. An insert
/// holds one of 32 locks together with other inserts; the removal of a key's last value holds it
/// alone. In the table of values a change holds a lock that sixteen buckets share.
///
/// Source: Pea Hash (SIGMOD '23), section 3.3. It keeps an entry of key and value for each value;
/// this map keeps each key once.
///
/// ```
/// use nunatak::PeaBlobMultiMap;
///
/// let index: PeaBlobMultiMap<u32> = PeaBlobMultiMap::new();
/// for (line, text) in ["ice and rock", "rock over ice"].iter().enumerate() {
///     for word in text.split(' ') {
///         index.insert(word.as_bytes(), line as u32)?;
///     }
/// }
/// assert_eq!((index.count(b"rock"), index.count(b"over"), index.count(b"sea")), (2, 1, 0));
/// assert!(index.remove_one(b"over", &1) && !index.contains_key(b"over"));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub struct PeaBlobMultiMap<V, S = RandomState>
where
    S: BuildHasher + Send + Sync + 'static,
{
    /// The values by the numbers of their keys.
    values: PeaMultiMap<u64, V>,
    /// The keys; their values are empty strings.
    keys: BlobMap<S, Pea>,
    locks: KeyLocks,
}

impl<V: Inline> PeaBlobMultiMap<V> {
    /// Makes an empty map, which takes memory as it gets entries: with one value 7 KiB of the
    /// allocator's memory and no mapping.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// assert!(PeaBlobMultiMap::<u64>::new().is_empty());
    /// ```
    pub fn new() -> Self {
        Self::with_capacity(0, 0)
    }

    /// Makes an empty map with room for `keys` keys that have `values` values together.
    ///
    /// # Panics
    /// If memory is refused; see [`try_with_capacity`](Self::try_with_capacity).
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = PeaBlobMultiMap::with_capacity(1000, 100_000);
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_capacity(keys: usize, values: usize) -> Self {
        Self::with_capacity_and_hasher(keys, values, RandomState::default())
    }

    /// Makes an empty map with room for `keys` keys that have `values` values together.
    ///
    /// # Errors
    /// If the capacity does not fit the address space, or memory is refused.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// assert!(PeaBlobMultiMap::<u64>::try_with_capacity(0, 1 << 60).is_err());
    /// ```
    pub fn try_with_capacity(keys: usize, values: usize) -> Result<Self, Error> {
        Self::try_with_capacity_and_hasher(keys, values, RandomState::default())
    }
}

impl<V: Inline, S: BuildHasher + Send + Sync + 'static> PeaBlobMultiMap<V, S> {
    /// Makes an empty map that hashes keys with `hasher`.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// use std::hash::RandomState;
    /// let map: PeaBlobMultiMap<u64, RandomState> =
    ///     PeaBlobMultiMap::with_hasher(RandomState::new());
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_hasher(hasher: S) -> Self {
        Self::with_capacity_and_hasher(0, 0, hasher)
    }

    /// Makes an empty map with room for `keys` keys that have `values` values together, which
    /// hashes keys with `hasher`.
    ///
    /// # Panics
    /// If memory is refused; see
    /// [`try_with_capacity_and_hasher`](Self::try_with_capacity_and_hasher).
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// use std::hash::RandomState;
    /// let map: PeaBlobMultiMap<u64, RandomState> =
    ///     PeaBlobMultiMap::with_capacity_and_hasher(10, 100, RandomState::new());
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_capacity_and_hasher(keys: usize, values: usize, hasher: S) -> Self {
        match Self::try_with_capacity_and_hasher(keys, values, hasher) {
            Ok(map) => map,
            Err(error) => panic!("{error}"),
        }
    }

    /// Makes an empty map with room for `keys` keys that have `values` values together, which
    /// hashes keys with `hasher`.
    ///
    /// # Errors
    /// If the capacity does not fit the address space, or memory is refused.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// use std::hash::RandomState;
    /// let map: PeaBlobMultiMap<u64, RandomState> =
    ///     PeaBlobMultiMap::try_with_capacity_and_hasher(10, 100, RandomState::new())?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn try_with_capacity_and_hasher(
        keys: usize,
        values: usize,
        hasher: S,
    ) -> Result<Self, Error> {
        let (codec, config) = (RandomState::default().into_codec()?, Config::default());
        let values = build_multi(codec, Config { duplicates: true, ..config }, values)?;
        Ok(Self::of(BlobMap::build(keys, hasher)?, PeaMultiMap::of(values)))
    }

    /// Wraps tables that are built already and have no entries.
    pub(in crate::map) fn of(keys: BlobMap<S, Pea>, values: PeaMultiMap<u64, V>) -> Self {
        Self { values, keys, locks: KeyLocks::new() }
    }

    /// Returns the hasher of keys.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// use std::hash::{BuildHasher, RandomState};
    /// let map: PeaBlobMultiMap<u64, RandomState> =
    ///     PeaBlobMultiMap::with_hasher(RandomState::new());
    /// assert_eq!(map.hasher().hash_one("a"), map.hasher().hash_one("a"));
    /// ```
    pub fn hasher(&self) -> &S {
        self.keys.hasher()
    }

    /// Returns the number of a key.
    #[inline]
    fn number(&self, guard: &GuardPin<'_>, key: &[u8]) -> Option<u64> {
        self.keys.find_word(guard, key)
    }

    /// Returns the number of a key whose hash is known.
    #[inline]
    fn number_of_hashed(&self, guard: &GuardPin<'_>, hash: u64, key: &[u8]) -> Option<u64> {
        self.keys.table.find_guarded(guard, hash, self.keys.is(guard, key))
    }

    /// Returns the key of a number that was read under the guard, from either table.
    fn key<'g>(&self, _guard: &'g GuardPin<'_>, number: u64) -> &'g [u8] {
        // SAFETY: the number is that of a blob (invariant 1), which is written (3) and stays while
        // the guard lives (2).
        unsafe { self.keys.entries.found(0, number) }
    }

    /// Returns one of the values of a key, if it has any. Touches the lines of a get in a
    /// [`BlobMap`](crate::BlobMap) and of one in a [`PeaMultiMap`].
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = [("a", 10), ("a", 20)].into_iter().collect();
    /// assert!(map.get(b"a").is_some_and(|value| value == 10 || value == 20));
    /// assert_eq!(map.get(b"b"), None);
    /// ```
    pub fn get(&self, key: &[u8]) -> Option<V> {
        let guard = self.keys.guard();
        self.values.get(&self.number(&guard, key)?)
    }

    /// Returns all values that a key has at one moment. They are copied before the first is
    /// yielded; see [`copy_all`](Self::copy_all).
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = (0..100).map(|value| ("a", value)).collect();
    /// assert_eq!(map.get_all(b"a").sum::<u64>(), 4950);
    /// assert_eq!(map.get_all(b"b").len(), 0);
    /// ```
    pub fn get_all(&self, key: &[u8]) -> std::vec::IntoIter<V> {
        let mut values = Vec::new();
        self.copy_all(key, &mut values);
        values.into_iter()
    }

    /// Appends all values that a key has at one moment to `values`, and returns how many they are.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = [("a", 10), ("a", 20), ("b", 30)].into_iter().collect();
    /// let mut values = vec![5];
    /// assert_eq!(map.copy_all(b"a", &mut values), 2);
    /// assert_eq!((values.len(), values[0]), (3, 5));
    /// ```
    pub fn copy_all(&self, key: &[u8], values: &mut Vec<V>) -> usize {
        let guard = self.keys.guard();
        let number = self.number(&guard, key);
        number.map_or(0, |number| self.values.copy_all(&number, values))
    }

    /// Returns how many values a key has, without reading them.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = (0..100).map(|value| ("a", value)).collect();
    /// assert_eq!((map.count(b"a"), map.count(b"b")), (100, 0));
    /// ```
    pub fn count(&self, key: &[u8]) -> usize {
        let guard = self.keys.guard();
        self.number(&guard, key).map_or(0, |number| self.values.count(&number))
    }

    /// Returns whether a key has a value.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = [("a", 10)].into_iter().collect();
    /// assert!(map.contains_key(b"a") && !map.contains_key(b"b"));
    /// ```
    pub fn contains_key(&self, key: &[u8]) -> bool {
        let guard = self.keys.guard();
        self.number(&guard, key).is_some_and(|number| self.values.contains_key(&number))
    }

    /// Returns whether a key has this value. Looks through the key's values.
    ///
    /// ```
    /// # use nunatak::PeaBlobMultiMap;
    /// let map: PeaBlobMultiMap<u64> = [("a", 10), ("a", 20)].into_iter().collect();
    /// assert!(map.contains_pair(b"a", &20) && !map.contains_pair(b"a", &30));
    /// ```
    pub fn contains_pair(&self, key: &[u8], value: &V) -> bool {
        let guard = self.keys.guard();
        self.number(&guard, key).is_some_and(|number| self.values.contains_pair(&number, value))
    }
}
