//! [`InlineMap`]: keys and values in the slots themselves.

mod batches;
mod collection;
mod columns;
pub(super) mod guard;
mod integers;
pub(crate) mod iterate;
pub(super) mod set;
mod set_algebra;
pub(super) mod shadow;

use crate::entry::{Inline, InlineKey};
use crate::error::Error;
use crate::hash::{Hashing, RandomState};
use crate::map::Compute;
#[cfg(doc)]
use crate::map::ConcurrentMap;
use crate::table::{ByWord, Change, Dlht, HashesWith, PairTable, Unshadowed, permit_or};
use core::marker::PhantomData;

/// A concurrent map of keys and values of at most 8 bytes, stored in the slots of a table.
///
/// `D` is the table's [design](crate::Design). The maps of the designs, such as
/// [`DlhtMap`](crate::DlhtMap), [`IcebergMap`](crate::IcebergMap), [`PeaMap`](crate::PeaMap) and
/// [`TurboMap`](crate::TurboMap), say how they differ. This page documents what they have in
/// common, and [`ConcurrentMap`](crate::ConcurrentMap) the contracts of the methods.
///
/// ```
/// use nunatak::{DlhtMap, IcebergMap, InlineMap};
///
/// let map: DlhtMap<u64, u64> = InlineMap::new();
/// map.insert(7, 49);
/// let stable: IcebergMap<u64, u64> = InlineMap::new();
/// stable.insert(7, 49);
/// assert_eq!(map.get(&7), stable.get(&7));
/// ```
pub struct InlineMap<K, V, S: Hashing = RandomState, D: HashesWith<S> = Dlht> {
    pub(crate) table: D::Table<S::HashCodec>,
    entries: PhantomData<(K, V)>,
}

impl<K: InlineKey, V: Inline, D: HashesWith<RandomState>> InlineMap<K, V, RandomState, D> {
    /// Makes an empty map, which takes memory as it gets entries. With one entry it takes 2 to 3 KiB of
    /// the allocator's memory and no mapping: a struct of 200 to 600 bytes, a KiB for the records of
    /// threads, and slots for a few entries. Up to 32 entries of an IcebergHT, a Pea Hash or a
    /// TurboHash stay there.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert!(map.is_empty());
    /// ```
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Makes an empty map with room for `capacity` entries.
    ///
    /// # Panics
    /// If memory is refused; see [`try_with_capacity`](Self::try_with_capacity).
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u32, f32> = DlhtMap::with_capacity(1000);
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_capacity(capacity: usize) -> Self {
        match Self::try_with_capacity(capacity) {
            Ok(map) => map,
            Err(error) => panic!("{error}"),
        }
    }

    /// Makes an empty map with room for `capacity` entries.
    ///
    /// # Errors
    /// If the capacity does not fit the address space, or memory is refused.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// assert!(DlhtMap::<u64, u64>::try_with_capacity(1 << 60).is_err());
    /// ```
    pub fn try_with_capacity(capacity: usize) -> Result<Self, Error> {
        Self::build(RandomState::default(), capacity)
    }
}

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S>> InlineMap<K, V, S, D> {
    /// Makes an empty map that hashes with `hasher`.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::{DlhtMap, Modulo};
    /// let map: DlhtMap<u64, u64, Modulo> = DlhtMap::with_hasher(Modulo);
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_hasher(hasher: S) -> Self {
        Self::with_capacity_and_hasher(0, hasher)
    }

    /// Makes an empty map with room for `capacity` entries, which hashes with `hasher`.
    ///
    /// # Panics
    /// If memory is refused.
    ///
    /// ```
    /// # use nunatak::{DlhtMap, Modulo};
    /// let map: DlhtMap<u64, u64, Modulo> = DlhtMap::with_capacity_and_hasher(1000, Modulo);
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        match Self::build(hasher, capacity) {
            Ok(map) => map,
            Err(error) => panic!("{error}"),
        }
    }

    pub(super) fn build(hasher: S, capacity: usize) -> Result<Self, Error> {
        Ok(Self::of(D::table(hasher.into_codec()?, capacity)?))
    }

    /// Wraps a table that is built already.
    pub(crate) fn of(table: D::Table<S::HashCodec>) -> Self {
        const {
            assert!(
                K::BITS <= D::WORD_BITS.0 && V::BITS <= D::WORD_BITS.1,
                "the design's entries are smaller than the keys or the values"
            );
        }
        Self { table, entries: PhantomData }
    }

    #[inline(always)]
    pub(super) fn apply(
        &self,
        key: K,
        fresh: Option<V>,
        change: impl Fn(u64) -> Change,
    ) -> Option<V> {
        let fresh = fresh.map(V::to_word);
        self.table.apply(key.to_word(), &ByWord, fresh, change).map(V::from_word)
    }

    /// Replaces the word `current` by another, or removes the key. The error is the word that is
    /// there instead, if any.
    pub(in crate::map) fn replace_word(
        &self,
        key: K,
        current: u64,
        change: Change,
    ) -> Result<(), Option<u64>> {
        let change = change.of_exactly(current);
        match self.table.apply(key.to_word(), &ByWord, None, change) {
            Some(before) if before == current => Ok(()),
            other => Err(other),
        }
    }

    /// [`ConcurrentMap::get`]: returns a copy of the key's value. Touches the cache lines that the
    /// map of the design documents, and writes nothing.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, char> = DlhtMap::new();
    /// map.insert(1, 'a');
    /// assert_eq!((map.get(&1), map.get(&2)), (Some('a'), None));
    /// ```
    // Always inlined: the call and the registers that it saves are a quarter of a get, and the
    // processor overlaps more gets the shorter they are.
    #[inline(always)]
    pub fn get(&self, key: &K) -> Option<V> {
        self.table.find(key.to_word(), &ByWord).map(V::from_word)
    }

    /// [`ConcurrentMap::contains_key`]: returns whether the key is present; costs a get.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<bool, u8> = DlhtMap::new();
    /// map.insert(true, 1);
    /// assert!(map.contains_key(&true) && !map.contains_key(&false));
    /// ```
    #[inline]
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// [`ConcurrentMap::update`]: replaces the value if the key is present.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// assert_eq!((map.update(&1, 11), map.update(&2, 20)), (Some(10), None));
    /// ```
    #[inline]
    pub fn update(&self, key: &K, value: V) -> Option<V> {
        let word = value.to_word();
        self.apply(*key, None, |_| Change::To(word))
    }

    /// [`ConcurrentMap::compare_exchange`]: replaces a value that is equal to `current`.
    ///
    /// # Errors
    /// The value that is present instead, or `None` if the key is absent.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// assert_eq!(map.compare_exchange(&1, &10, 11), Ok(10));
    /// assert_eq!(map.compare_exchange(&1, &10, 12), Err(Some(11)));
    /// ```
    pub fn compare_exchange(&self, key: &K, current: &V, new: V) -> Result<V, Option<V>>
    where
        V: PartialEq,
    {
        // Equal values may have different words (zeros of a float).
        self.fetch_update(key, |present| (present == current).then_some(new))
    }

    /// [`ConcurrentMap::fetch_update`]: replaces the value by the result of `f`.
    ///
    /// # Errors
    /// The value for which `f` returned `None`, or `None` if the key is absent.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// assert_eq!(map.fetch_update(&1, |value| Some(value + 1)), Ok(10));
    /// assert_eq!(map.get(&1), Some(11));
    /// ```
    pub fn fetch_update<F>(&self, key: &K, mut f: F) -> Result<V, Option<V>>
    where
        F: FnMut(&V) -> Option<V>,
    {
        let mut present = self.table.find(key.to_word(), &ByWord);
        loop {
            let Some(current) = present else { return Err(None) };
            let value = V::from_word(current);
            let Some(new) = f(&value) else { return Err(Some(value)) };
            match self.replace_word(*key, current, Change::To(new.to_word())) {
                Ok(()) => return Ok(value),
                Err(newer) => present = newer,
            }
        }
    }

    /// [`ConcurrentMap::remove`]: removes the key; its slot can be used again at once.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// assert_eq!((map.remove(&1), map.remove(&1)), (Some(10), None));
    /// ```
    #[inline]
    pub fn remove(&self, key: &K) -> Option<V> {
        self.table.remove(key.to_word()).map(V::from_word)
    }

    /// [`ConcurrentMap::remove_if`]: removes the key if `condition` holds for its value.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// assert_eq!(map.remove_if(&1, |value| *value > 10), None);
    /// assert_eq!(map.remove_if(&1, |value| *value > 9), Some(10));
    /// ```
    pub fn remove_if<F: FnMut(&V) -> bool>(&self, key: &K, mut condition: F) -> Option<V> {
        let mut present = self.table.find(key.to_word(), &ByWord);
        loop {
            let current = present?;
            let value = V::from_word(current);
            if !condition(&value) {
                return None;
            }
            match self.replace_word(*key, current, Change::Remove) {
                Ok(()) => return Some(value),
                Err(newer) => present = newer,
            }
        }
    }
}

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S> + Unshadowed> InlineMap<K, V, S, D> {
    /// Stores the value if the key is absent; returns the one that is present. Not in line, since operations with
    /// closures, which are compiled for each closure, look for the key before.
    #[inline(never)]
    fn store_if_absent(&self, key: K, value: V) -> Option<V> {
        self.apply(key, Some(value), Change::keep)
    }

    /// [`ConcurrentMap::insert`]: stores the value and returns the value that it replaced.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.insert(1, 10), None);
    /// assert_eq!(map.insert(1, 11), Some(10));
    /// ```
    #[inline]
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        let word = value.to_word();
        self.apply(key, Some(value), |_| Change::To(word))
    }

    /// Stores the value, as [`insert`](Self::insert) does, unless the map was built not to grow (by
    /// `grows` of its builder) and is full.
    ///
    /// # Errors
    /// [`Error::Full`] if the map has as many entries as it was built for, and no place for the key.
    /// Nothing was changed.
    ///
    /// ```
    /// # use nunatak::{Error, PeaMap};
    /// let map: PeaMap<u64, u64> = PeaMap::<u64, u64>::builder().grows(false).build()?;
    /// let first = (0..).find(|&key| map.insert_within_capacity(key, key).is_err());
    /// assert_eq!(first, Some(map.len() as u64));
    /// assert_eq!(map.insert_within_capacity(0, 7), Ok(Some(0)), "the key is there");
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    pub fn insert_within_capacity(&self, key: K, value: V) -> Result<Option<V>, Error> {
        permit_or(Error::Full, || Ok(self.insert(key, value)))
    }

    /// [`ConcurrentMap::try_insert`]: stores the value if the key is absent.
    ///
    /// # Errors
    /// The value that is present.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.try_insert(1, 10), Ok(()));
    /// assert_eq!(map.try_insert(1, 11), Err(10));
    /// ```
    #[inline]
    pub fn try_insert(&self, key: K, value: V) -> Result<(), V> {
        match self.apply(key, Some(value), Change::keep) {
            None => Ok(()),
            Some(present) => Err(present),
        }
    }

    /// [`ConcurrentMap::compute`]: keeps, replaces or removes the key's value as `f` decides.
    ///
    /// ```
    /// # use nunatak::{Compute, DlhtMap};
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// for _ in 0..3 {
    ///     map.compute(1, |count| Compute::Put(count.map_or(1, |count| count + 1)));
    /// }
    /// assert_eq!(map.get(&1), Some(3));
    /// ```
    pub fn compute<F>(&self, key: K, mut f: F) -> Option<V>
    where
        F: FnMut(Option<&V>) -> Compute<V>,
    {
        let mut present = self.table.find(key.to_word(), &ByWord);
        loop {
            let value = present.map(V::from_word);
            let attempt = match (f(value.as_ref()), present) {
                (Compute::Keep, _) | (Compute::Remove, None) => return value,
                (Compute::Put(new), Some(current)) => {
                    self.replace_word(key, current, Change::To(new.to_word()))
                }
                (Compute::Put(new), None) => match self.store_if_absent(key, new) {
                    None => Ok(()),
                    Some(newer) => Err(Some(newer.to_word())),
                },
                (Compute::Remove, Some(current)) => self.replace_word(key, current, Change::Remove),
            };
            match attempt {
                Ok(()) => return value,
                Err(newer) => present = newer,
            }
        }
    }

    /// [`ConcurrentMap::get_or_insert_with`]: returns the value, made by `make` if the key is
    /// absent.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.get_or_insert_with(1, || 10), 10);
    /// assert_eq!(map.get_or_insert_with(1, || 11), 10);
    /// ```
    pub fn get_or_insert_with<F: FnOnce() -> V>(&self, key: K, make: F) -> V {
        match self.get(&key) {
            Some(value) => value,
            None => {
                let value = make();
                self.store_if_absent(key, value).unwrap_or(value)
            }
        }
    }
}
