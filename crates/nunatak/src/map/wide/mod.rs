//! [`WideMap`]: entries of three or four words in the table itself.

mod batches;
pub(super) mod collection;
mod iterate;
pub(super) mod set;

pub use iterate::{IntoIter, Iter};

use crate::entry::{Count, Wide, WideKey};
use crate::error::Error;
use crate::hash::RandomState;
use crate::map::Compute;
#[cfg(doc)]
use crate::map::ConcurrentMap;
use crate::table::permit_or;
use crate::table::wide::{Config, Entry, WideChange, WideDesign, WideTable, Words};
use core::marker::PhantomData;

/// The words of a key and a value.
#[derive(Debug)]
pub(crate) struct Of<K, V>(PhantomData<fn() -> (K, V)>);

impl<K: Wide, V: Wide> Entry for Of<K, V> {
    // At least one, so that an entry has words even if neither type has any.
    const KEY: usize = if K::Words::COUNT == 0 { 1 } else { K::Words::COUNT };
    const VALUE: usize = V::Words::COUNT;
}

/// A map of keys and values of up to 16 bytes each, stored in the table itself: (u64, u64), `u128`, a UUID, a pointer
/// with a tag. [`DlhtWideMap`](crate::DlhtWideMap) is the faster one, [`IcebergWideMap`](crate::IcebergWideMap)
/// takes less than half of its memory.
///
/// A change locks the key's bin (a cache line or two) or block (52 slots) by one atomic read-modify-write, and unlocks
/// it by a store (CLHT, ASPLOS '15): three words do not change by one instruction, as the two of an
/// [`InlineMap`](crate::InlineMap) do. A get writes nothing that other threads use. The map grows in parallel with all
/// operations.
///
/// Operations are linearizable. A get, or a change, waits while another thread changes, or moves, the key's bin: some
/// tens of instructions, or longer if the system suspends that thread. Changes wait while a
/// [`snapshot`](Self::snapshot) is taken.
///
/// The map hashes keys itself, with a secret of its own. No code of the caller's runs while a bin is locked.
///
/// ```
/// use nunatak::{Dlht, DlhtWideMap, IcebergWideMap, WideMap, WideDesign};
/// let spans: DlhtWideMap<u64, (u64, u64)> = DlhtWideMap::new();
/// spans.insert(7, (100, 200));
/// assert_eq!(spans.get(&7), Some((100, 200)));
///
/// fn sum<D: WideDesign>(map: &WideMap<[u8; 16], u64, D>) -> u64 {
///     map.values().sum()
/// }
/// let by_uuid: IcebergWideMap<[u8; 16], u64> = [([1; 16], 10)].into();
/// assert_eq!(sum(&by_uuid), 10);
/// ```
pub struct WideMap<K: Wide, V: Wide, D: WideDesign> {
    table: WideTable<D::Shape<Of<K, V>>>,
}

impl<K: WideKey, V: Wide, D: WideDesign> WideMap<K, V, D> {
    /// Makes an empty map, which takes memory as it gets entries: with one entry some 3 KiB
    /// of the allocator's (IcebergHT: 5).
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = DlhtWideMap::new();
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
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = DlhtWideMap::with_capacity(1000);
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_capacity(capacity: usize) -> Self {
        Self::try_with_capacity(capacity).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Makes an empty map with room for `capacity` entries.
    ///
    /// # Errors
    /// If the capacity does not fit the address space, or memory is refused.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// assert!(DlhtWideMap::<u64, u128>::try_with_capacity(1 << 60).is_err());
    /// ```
    pub fn try_with_capacity(capacity: usize) -> Result<Self, Error> {
        Self::build(RandomState::default(), D::config::<Of<K, V>>(), capacity)
    }

    pub(super) fn build(
        hasher: RandomState,
        config: Config,
        capacity: usize,
    ) -> Result<Self, Error> {
        Ok(Self { table: WideTable::new(hasher, config, capacity)? })
    }

    /// Changes the value of a present key, which needs no memory.
    #[inline(always)]
    fn change(&self, key: &K, change: impl Fn(&Words) -> WideChange) -> Option<V> {
        let before = self.table.apply(&key.to_words(), None, change);
        before.expect("no entry is added").map(V::from_words)
    }

    /// Stores the value of an absent key, and changes that of a present one.
    #[inline(always)]
    fn store(&self, key: K, value: V, change: impl Fn(&Words) -> WideChange) -> Option<V> {
        let before = self.table.apply(&key.to_words(), Some(value.to_words()), change);
        before.unwrap_or_else(|error| panic!("{error}")).map(V::from_words)
    }

    /// Replaces the value `current`, or removes the key. The error is the value that is there instead, if any.
    pub(in crate::map) fn replace(
        &self,
        key: &K,
        current: V,
        change: WideChange,
    ) -> Result<(), Option<V>> {
        let words = current.to_words();
        let of_exactly =
            |present: &Words| if *present == words { change } else { WideChange::Keep };
        match self.change(key, of_exactly) {
            Some(before) if before.to_words() == words => Ok(()),
            other => Err(other),
        }
    }

    /// [`ConcurrentMap::get`]: returns a copy of the key's value. Touches one or two cache lines (DLHT), or two
    /// to three (IcebergHT), if the key is not behind a link, and writes nothing.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, (u64, u64)> = [(1, (2, 3))].into();
    /// assert_eq!((map.get(&1), map.get(&2)), (Some((2, 3)), None));
    /// ```
    #[inline]
    pub fn get(&self, key: &K) -> Option<V> {
        self.table.find(&key.to_words()).map(V::from_words)
    }

    /// [`ConcurrentMap::contains_key`]: returns whether the key is present; costs a get.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u128, ()> = [(1, ())].into();
    /// assert!(map.contains_key(&1) && !map.contains_key(&2));
    /// ```
    #[inline]
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// [`ConcurrentMap::insert`]: stores the value and returns the value that it replaced.
    ///
    /// # Panics
    /// If the table must grow and memory is refused.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = DlhtWideMap::new();
    /// assert_eq!(map.insert(1, 10), None);
    /// assert_eq!(map.insert(1, 11), Some(10));
    /// ```
    #[inline]
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        let words = value.to_words();
        self.store(key, value, |_| WideChange::To(words))
    }

    /// Stores the value, as [`insert`](Self::insert) does, but returns an error where that panics, or where the map was
    /// built not to grow (by `grows` of its builder) and is full.
    ///
    /// # Errors
    /// [`Error::Full`] if the map has as many entries as it was built for, and no place for the key;
    /// [`Error::OutOfMemory`] if memory is refused. Nothing was changed.
    ///
    /// ```
    /// # use nunatak::{DlhtMap, DlhtWideMap, Error};
    /// let map: DlhtWideMap<u64, u128> =
    ///     DlhtMap::<u64, u64>::builder().capacity(100).grows(false).build_wide()?;
    /// let first = (0..).find(|&key| map.insert_within_capacity(key, 1).is_err());
    /// assert_eq!(first, Some(map.len() as u64));
    /// assert_eq!(map.insert_within_capacity(0, 7), Ok(Some(1)), "the key is there");
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    pub fn insert_within_capacity(&self, key: K, value: V) -> Result<Option<V>, Error> {
        let words = value.to_words();
        permit_or(Error::Full, || {
            let before =
                self.table.apply(&key.to_words(), Some(words), |_| WideChange::To(words))?;
            Ok(before.map(V::from_words))
        })
    }

    /// [`ConcurrentMap::try_insert`]: stores the value if the key is absent.
    ///
    /// # Errors
    /// The value that is present.
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = DlhtWideMap::new();
    /// assert_eq!(map.try_insert(1, 10), Ok(()));
    /// assert_eq!(map.try_insert(1, 11), Err(10));
    /// ```
    #[inline]
    pub fn try_insert(&self, key: K, value: V) -> Result<(), V> {
        self.store(key, value, |_| WideChange::Keep).map_or(Ok(()), Err)
    }

    /// [`ConcurrentMap::update`]: replaces the value if the key is present.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = [(1, 10)].into();
    /// assert_eq!((map.update(&1, 11), map.update(&2, 20)), (Some(10), None));
    /// ```
    #[inline]
    pub fn update(&self, key: &K, value: V) -> Option<V> {
        let words = value.to_words();
        self.change(key, |_| WideChange::To(words))
    }

    /// [`ConcurrentMap::compare_exchange`]: replaces a value that is equal to `current`.
    ///
    /// # Errors
    /// The value that is present instead, or `None` if the key is absent.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, (u64, u64)> = [(1, (1, 1))].into();
    /// assert_eq!(map.compare_exchange(&1, &(1, 1), (2, 2)), Ok((1, 1)));
    /// assert_eq!(map.compare_exchange(&1, &(1, 1), (3, 3)), Err(Some((2, 2))));
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
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, (u64, u64)> = [(1, (1, 10))].into();
    /// assert_eq!(map.fetch_update(&1, |(n, sum)| Some((n + 1, sum + 5))), Ok((1, 10)));
    /// assert_eq!(map.get(&1), Some((2, 15)));
    /// ```
    pub fn fetch_update<F>(&self, key: &K, mut f: F) -> Result<V, Option<V>>
    where
        F: FnMut(&V) -> Option<V>,
    {
        let mut present = self.get(key);
        loop {
            let Some(current) = present else { return Err(None) };
            let Some(new) = f(&current) else { return Err(Some(current)) };
            match self.replace(key, current, WideChange::To(new.to_words())) {
                Ok(()) => return Ok(current),
                Err(newer) => present = newer,
            }
        }
    }

    /// [`ConcurrentMap::compute`]: keeps, replaces or removes the key's value as `f` decides.
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    ///
    /// ```
    /// # use nunatak::{Compute, DlhtWideMap};
    /// let map: DlhtWideMap<u64, u128> = DlhtWideMap::new();
    /// for _ in 0..3 {
    ///     map.compute(1, |count| Compute::Put(count.map_or(1, |count| count + 1)));
    /// }
    /// assert_eq!(map.get(&1), Some(3));
    /// ```
    pub fn compute<F>(&self, key: K, mut f: F) -> Option<V>
    where
        F: FnMut(Option<&V>) -> Compute<V>,
    {
        let mut present = self.get(&key);
        loop {
            let attempt = match (f(present.as_ref()), present) {
                (Compute::Keep, _) | (Compute::Remove, None) => return present,
                (Compute::Put(new), Some(current)) => {
                    self.replace(&key, current, WideChange::To(new.to_words()))
                }
                (Compute::Put(new), None) => self.try_insert(key, new).map_err(Some),
                (Compute::Remove, Some(current)) => self.replace(&key, current, WideChange::Remove),
            };
            match attempt {
                Ok(()) => return present,
                Err(newer) => present = newer,
            }
        }
    }

    /// [`ConcurrentMap::get_or_insert_with`]: returns the value, made by `make` if the key is absent.
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = DlhtWideMap::new();
    /// assert_eq!(map.get_or_insert_with(1, || 10), 10);
    /// assert_eq!(map.get_or_insert_with(1, || 11), 10);
    /// ```
    pub fn get_or_insert_with<F: FnOnce() -> V>(&self, key: K, make: F) -> V {
        match self.get(&key) {
            Some(value) => value,
            None => {
                let value = make();
                self.try_insert(key, value).map_or_else(|present| present, |()| value)
            }
        }
    }

    /// [`ConcurrentMap::remove`]: removes the key; its slot can be used again at once.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = [(1, 10)].into();
    /// assert_eq!((map.remove(&1), map.remove(&1)), (Some(10), None));
    /// ```
    #[inline]
    pub fn remove(&self, key: &K) -> Option<V> {
        self.change(key, |_| WideChange::Remove)
    }

    /// [`ConcurrentMap::remove_if`]: removes the key if `condition` holds for its value.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = [(1, 10)].into();
    /// assert_eq!(map.remove_if(&1, |value| *value > 10), None);
    /// assert_eq!(map.remove_if(&1, |value| *value > 9), Some(10));
    /// ```
    pub fn remove_if<F: FnMut(&V) -> bool>(&self, key: &K, mut condition: F) -> Option<V> {
        let mut present = self.get(key);
        loop {
            let current = present?;
            if !condition(&current) {
                return None;
            }
            match self.replace(key, current, WideChange::Remove) {
                Ok(()) => return Some(current),
                Err(newer) => present = newer,
            }
        }
    }
}
