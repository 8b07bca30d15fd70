//! Entries of maps whose values are copied, by key: [`InlineMap::entry`], [`WideMap::entry`].
//!
//! An entry is what a look at the map has found: a key, and its value or none. A change takes
//! effect only if the key still has this value; otherwise it returns what is there now, or looks
//! again. (A value that was replaced and has come back is the same value: nobody can tell.)

use crate::entry::{Inline, InlineKey, Wide, WideKey};
use crate::hash::Hashing;
use crate::map::inline::InlineMap;
use crate::map::wide::WideMap;
use crate::table::wide::{WideChange, WideDesign};
use crate::table::{Change, HashesWith, Unshadowed};
use core::fmt;

/// A map whose values are copied. (For entries; no other crate implements it.)
pub trait Copying {
    /// The keys.
    type Key: Copy;
    /// The values.
    type Value: Copy;

    #[doc(hidden)]
    fn try_insert_copy(&self, key: Self::Key, value: Self::Value) -> Result<(), Self::Value>;

    /// Replaces the value `current`, or removes the key. The error is the value that is there instead, if any.
    #[doc(hidden)]
    fn exchange(
        &self,
        key: Self::Key,
        current: Self::Value,
        new: Option<Self::Value>,
    ) -> Result<(), Option<Self::Value>>;
}

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S> + Unshadowed> InlineMap<K, V, S, D> {
    /// Looks at a key, to decide what becomes of it. Costs a get.
    ///
    /// No lock is held: other threads may change the key meanwhile, and so may this one.
    /// [`or_insert`](Entry::or_insert), [`or_insert_with`](Entry::or_insert_with) and
    /// [`or_default`](Entry::or_default), also after [`and_modify`](Entry::and_modify), take effect
    /// at one instant, whatever other threads do. Matched entries report if the key has changed.
    /// Counters need no entry: [`fetch_add`](Self::fetch_add) costs one operation.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let letters: DlhtMap<char, u64> = DlhtMap::new();
    /// for letter in "nunatak".chars() {
    ///     letters.entry(letter).and_modify(|count| *count += 1).or_insert(1);
    /// }
    /// assert_eq!((letters.get(&'n'), letters.get(&'k')), (Some(2), Some(1)));
    /// ```
    pub fn entry(&self, key: K) -> Entry<'_, Self> {
        VacantEntry::new(self, key).found(self.get(&key))
    }
}

impl<K: WideKey, V: Wide, D: WideDesign> WideMap<K, V, D> {
    /// Looks at a key, to decide what becomes of it. Costs a get.
    ///
    /// As [`InlineMap::entry`]: no lock is held, and each method of the entry takes effect at one instant.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let spans: DlhtWideMap<u64, (u64, u64)> = DlhtWideMap::new();
    /// for at in [10, 30, 20] {
    ///     spans.entry(1).and_modify(|(_, last)| *last = at.max(*last)).or_insert((at, at));
    /// }
    /// assert_eq!(spans.get(&1), Some((10, 30)));
    /// ```
    pub fn entry(&self, key: K) -> Entry<'_, Self> {
        VacantEntry::new(self, key).found(self.get(&key))
    }
}

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S> + Unshadowed> Copying
    for InlineMap<K, V, S, D>
{
    type Key = K;
    type Value = V;

    fn try_insert_copy(&self, key: K, value: V) -> Result<(), V> {
        self.try_insert(key, value)
    }

    fn exchange(&self, key: K, current: V, new: Option<V>) -> Result<(), Option<V>> {
        let change = new.map_or(Change::Remove, |new| Change::To(new.to_word()));
        let replaced = self.replace_word(key, current.to_word(), change);
        replaced.map_err(|newer| newer.map(V::from_word))
    }
}

impl<K: WideKey, V: Wide, D: WideDesign> Copying for WideMap<K, V, D> {
    type Key = K;
    type Value = V;

    fn try_insert_copy(&self, key: K, value: V) -> Result<(), V> {
        self.try_insert(key, value)
    }

    fn exchange(&self, key: K, current: V, new: Option<V>) -> Result<(), Option<V>> {
        let change = new.map_or(WideChange::Remove, |new| WideChange::To(new.to_words()));
        self.replace(&key, current, change)
    }
}

/// What [`InlineMap::entry`] or [`WideMap::entry`] has found at a key.
///
/// ```
/// use nunatak::{DlhtMap, inline::Entry};
/// let map: DlhtMap<u64, u64> = DlhtMap::new();
/// match map.entry(1) {
///     Entry::Vacant(vacant) => vacant.insert(10).unwrap(),
///     Entry::Occupied(_) => unreachable!("no other thread inserts"),
/// }
/// ```
pub enum Entry<'m, M: Copying> {
    /// The key was present.
    Occupied(OccupiedEntry<'m, M>),
    /// The key was absent.
    Vacant(VacantEntry<'m, M>),
}

/// The entry of a key that was present.
///
/// ```
/// use nunatak::{DlhtMap, inline::Entry};
/// let map: DlhtMap<u64, u64> = [(1, 10)].into();
/// let Entry::Occupied(entry) = map.entry(1) else { unreachable!() };
/// map.insert(1, 20);
/// assert_eq!(entry.get(), 10); // as it was found
/// assert!(entry.remove().is_err()); // it is another one by now
/// ```
pub struct OccupiedEntry<'m, M: Copying> {
    at: VacantEntry<'m, M>,
    value: M::Value,
}

/// The place of a key that was absent.
///
/// ```
/// use nunatak::{DlhtMap, inline::Entry};
/// let map: DlhtMap<u64, u64> = DlhtMap::new();
/// let Entry::Vacant(entry) = map.entry(1) else { unreachable!() };
/// map.insert(1, 20);
/// assert_eq!(entry.insert(30).unwrap_err().get(), 20);
/// ```
pub struct VacantEntry<'m, M: Copying> {
    map: &'m M,
    key: M::Key,
}

impl<M: Copying> fmt::Debug for Entry<'_, M>
where
    M::Key: fmt::Debug,
    M::Value: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Occupied(entry) => entry.fmt(f),
            Self::Vacant(entry) => entry.fmt(f),
        }
    }
}

impl<M: Copying> fmt::Debug for OccupiedEntry<'_, M>
where
    M::Key: fmt::Debug,
    M::Value: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, value } = self;
        f.debug_struct("OccupiedEntry").field("key", &at.key).field("value", value).finish()
    }
}

impl<M: Copying<Key: fmt::Debug>> fmt::Debug for VacantEntry<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VacantEntry").field(&self.key).finish()
    }
}

impl<'m, M: Copying> Entry<'m, M> {
    /// Returns the key.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.entry(1).key(), 1);
    /// ```
    pub fn key(&self) -> M::Key {
        match self {
            Self::Occupied(entry) => entry.at.key,
            Self::Vacant(entry) => entry.key,
        }
    }

    /// Returns the value that was found, or that another thread has stored meanwhile, or stores
    /// this one and returns it.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.entry(1).or_insert(10), 10);
    /// assert_eq!(map.entry(1).or_insert(20), 10);
    /// ```
    pub fn or_insert(self, value: M::Value) -> M::Value {
        self.or_insert_with(|| value)
    }

    /// As [`or_insert`](Self::or_insert). `make` runs only if the key was absent, and once. Its
    /// value is dropped if another thread has stored one meanwhile.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.entry(1).or_insert_with(|| 10), 10);
    /// ```
    pub fn or_insert_with(self, make: impl FnOnce() -> M::Value) -> M::Value {
        self.or_insert_with_key(|_| make())
    }

    /// As [`or_insert_with`](Self::or_insert_with); `make` gets the key.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let squares: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(squares.entry(7).or_insert_with_key(|key| key * key), 49);
    /// ```
    pub fn or_insert_with_key(self, make: impl FnOnce(&M::Key) -> M::Value) -> M::Value {
        match self {
            Self::Occupied(entry) => entry.value,
            Self::Vacant(entry) => {
                let value = make(&entry.key);
                entry.insert(value).map_or_else(|present| present.value, |()| value)
            }
        }
    }

    /// As [`or_insert`](Self::or_insert) with the type's default.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.entry(1).or_default(), 0);
    /// ```
    pub fn or_default(self) -> M::Value
    where
        M::Value: Default,
    {
        self.or_insert_with(M::Value::default)
    }

    /// Replaces the value of a present key by a changed copy. `f` may run more than once, each time
    /// on a newer value.
    ///
    /// If the key was absent, `f` runs when the next call (such as
    /// [`or_insert`](ModifiedEntry::or_insert)) finds that another thread has stored it meanwhile.
    /// So counts are not lost.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into();
    /// map.entry(1).and_modify(|value| *value *= 2);
    /// assert_eq!(map.get(&1), Some(20));
    /// ```
    pub fn and_modify<F: FnMut(&mut M::Value)>(self, mut f: F) -> ModifiedEntry<'m, M, F> {
        let outcome = match self {
            Self::Vacant(entry) => Err(entry),
            Self::Occupied(entry) => entry.modify(&mut f),
        };
        ModifiedEntry { outcome, f }
    }
}

/// An entry after [`Entry::and_modify`].
///
/// ```
/// use nunatak::DlhtMap;
/// let map: DlhtMap<u64, u64> = [(1, 10)].into();
/// assert_eq!(map.entry(1).and_modify(|value| *value += 1).or_default(), 11);
/// ```
pub struct ModifiedEntry<'m, M: Copying, F> {
    /// The new value, or the place of the key that was absent.
    outcome: Result<M::Value, VacantEntry<'m, M>>,
    f: F,
}

impl<M: Copying, F> fmt::Debug for ModifiedEntry<'_, M, F>
where
    M::Key: fmt::Debug,
    M::Value: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ModifiedEntry").field(&self.outcome).finish()
    }
}

impl<M: Copying, F: FnMut(&mut M::Value)> ModifiedEntry<'_, M, F> {
    /// Returns the new value, or stores this one if the key is absent and returns it.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.entry(1).and_modify(|value| *value += 1).or_insert(7), 7);
    /// ```
    pub fn or_insert(self, value: M::Value) -> M::Value {
        self.or_insert_with(|| value)
    }

    /// As [`or_insert`](Self::or_insert). `make` runs only if the key was absent, and once.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.entry(1).and_modify(|value| *value += 1).or_insert_with(|| 7), 7);
    /// ```
    pub fn or_insert_with(mut self, make: impl FnOnce() -> M::Value) -> M::Value {
        let mut vacant = match self.outcome {
            Ok(changed) => return changed,
            Err(vacant) => vacant,
        };
        let value = make();
        loop {
            match vacant.insert(value) {
                Ok(()) => return value,
                Err(present) => match present.modify(&mut self.f) {
                    Ok(changed) => return changed,
                    // The key is gone again.
                    Err(at) => vacant = at,
                },
            }
        }
    }

    /// As [`or_insert`](Self::or_insert) with the type's default.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.entry(1).and_modify(|value| *value += 1).or_default(), 0);
    /// ```
    pub fn or_default(self) -> M::Value
    where
        M::Value: Default,
    {
        self.or_insert_with(M::Value::default)
    }
}

impl<'m, M: Copying> VacantEntry<'m, M> {
    pub(super) fn new(map: &'m M, key: M::Key) -> Self {
        Self { map, key }
    }

    pub(super) fn found(self, found: Option<M::Value>) -> Entry<'m, M> {
        match found {
            Some(value) => Entry::Occupied(OccupiedEntry { at: self, value }),
            None => Entry::Vacant(self),
        }
    }

    /// Returns the key.
    ///
    /// ```
    /// # use nunatak::{DlhtMap, inline::Entry};
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// let Entry::Vacant(entry) = map.entry(1) else { unreachable!() };
    /// assert_eq!(entry.key(), 1);
    /// ```
    pub fn key(&self) -> M::Key {
        self.key
    }

    /// Stores the value if the key is still absent.
    ///
    /// # Errors
    /// The entry that another thread has stored meanwhile.
    ///
    /// ```
    /// # use nunatak::{DlhtMap, inline::Entry};
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// let Entry::Vacant(entry) = map.entry(1) else { unreachable!() };
    /// assert!(entry.insert(10).is_ok());
    /// ```
    pub fn insert(self, value: M::Value) -> Result<(), OccupiedEntry<'m, M>> {
        let inserted = self.map.try_insert_copy(self.key, value);
        inserted.map_err(|present| OccupiedEntry { at: self, value: present })
    }
}

impl<'m, M: Copying> OccupiedEntry<'m, M> {
    /// Returns the key.
    ///
    /// ```
    /// # use nunatak::{DlhtMap, inline::Entry};
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into();
    /// let Entry::Occupied(entry) = map.entry(1) else { unreachable!() };
    /// assert_eq!(entry.key(), 1);
    /// ```
    pub fn key(&self) -> M::Key {
        self.at.key
    }

    /// Returns the value as it was found.
    ///
    /// ```
    /// # use nunatak::{DlhtMap, inline::Entry};
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into();
    /// let Entry::Occupied(entry) = map.entry(1) else { unreachable!() };
    /// assert_eq!(entry.get(), 10);
    /// ```
    pub fn get(&self) -> M::Value {
        self.value
    }

    /// Replaces the value, or removes the key, if the key still has the value.
    fn exchange(self, new: Option<M::Value>) -> Result<M::Value, Entry<'m, M>> {
        let Self { at, value } = self;
        match at.map.exchange(at.key, value, new) {
            Ok(()) => Ok(value),
            Err(newer) => Err(at.found(newer)),
        }
    }

    /// Replaces the value by what `f` makes of it, until no other thread has interfered.
    fn modify(self, f: &mut impl FnMut(&mut M::Value)) -> Result<M::Value, VacantEntry<'m, M>> {
        let mut entry = self;
        loop {
            let mut value = entry.value;
            f(&mut value);
            match entry.exchange(Some(value)) {
                Ok(_) => return Ok(value),
                Err(Entry::Occupied(newer)) => entry = newer,
                Err(Entry::Vacant(at)) => return Err(at),
            }
        }
    }

    /// Replaces the value if the key still has it, and returns it.
    ///
    /// # Errors
    /// What is there now; the new value was not stored.
    ///
    /// ```
    /// # use nunatak::{DlhtMap, inline::Entry};
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into();
    /// let Entry::Occupied(entry) = map.entry(1) else { unreachable!() };
    /// assert_eq!(entry.insert(20).unwrap(), 10);
    /// assert_eq!(map.get(&1), Some(20));
    /// ```
    pub fn insert(self, value: M::Value) -> Result<M::Value, Entry<'m, M>> {
        self.exchange(Some(value))
    }

    /// Removes the key if it still has the value, and returns the value.
    ///
    /// # Errors
    /// What is there now.
    ///
    /// ```
    /// # use nunatak::{DlhtMap, inline::Entry};
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into();
    /// let Entry::Occupied(entry) = map.entry(1) else { unreachable!() };
    /// assert_eq!(entry.remove().unwrap(), 10);
    /// assert!(map.is_empty());
    /// ```
    pub fn remove(self) -> Result<M::Value, Entry<'m, M>> {
        self.exchange(None)
    }
}
