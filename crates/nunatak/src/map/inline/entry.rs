//! Entries of an [`InlineMap`] by key: [`InlineMap::entry`].
//!
//! An entry is what a look at the map has found: a key, and its value or none. A change takes
//! effect only if the key still has this value; otherwise it returns what is there now, or looks
//! again. (A value that was replaced and has come back is the same value: nobody can tell.)

use crate::entry::{Inline, InlineKey};
use crate::hash::{Hashing, RandomState};
use crate::map::inline::InlineMap;
use crate::table::{Change, Dlht, HashesWith, Unshadowed};
use core::fmt;

/// What [`InlineMap::entry`] has found at a key.
///
/// ```
/// use nunatak::{DlhtMap, inline::Entry};
/// let map: DlhtMap<u64, u64> = DlhtMap::new();
/// match map.entry(1) {
///     Entry::Vacant(vacant) => vacant.insert(10).unwrap(),
///     Entry::Occupied(_) => unreachable!("no other thread inserts"),
/// }
/// ```
pub enum Entry<'m, K, V, S: Hashing = RandomState, D: HashesWith<S> = Dlht> {
    /// The key was present.
    Occupied(OccupiedEntry<'m, K, V, S, D>),
    /// The key was absent.
    Vacant(VacantEntry<'m, K, V, S, D>),
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
pub struct OccupiedEntry<'m, K, V, S: Hashing = RandomState, D: HashesWith<S> = Dlht> {
    at: VacantEntry<'m, K, V, S, D>,
    value: V,
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
pub struct VacantEntry<'m, K, V, S: Hashing = RandomState, D: HashesWith<S> = Dlht> {
    map: &'m InlineMap<K, V, S, D>,
    key: K,
}

impl<K, V, S: Hashing, D: HashesWith<S>> fmt::Debug for Entry<'_, K, V, S, D>
where
    K: fmt::Debug,
    V: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Occupied(entry) => entry.fmt(f),
            Self::Vacant(entry) => entry.fmt(f),
        }
    }
}

impl<K, V, S: Hashing, D: HashesWith<S>> fmt::Debug for OccupiedEntry<'_, K, V, S, D>
where
    K: fmt::Debug,
    V: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, value } = self;
        f.debug_struct("OccupiedEntry").field("key", &at.key).field("value", value).finish()
    }
}

impl<K: fmt::Debug, V, S: Hashing, D: HashesWith<S>> fmt::Debug for VacantEntry<'_, K, V, S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VacantEntry").field(&self.key).finish()
    }
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
    pub fn entry(&self, key: K) -> Entry<'_, K, V, S, D> {
        VacantEntry { map: self, key }.found(self.get(&key))
    }
}

impl<'m, K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S> + Unshadowed> Entry<'m, K, V, S, D> {
    /// Returns the key.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.entry(1).key(), 1);
    /// ```
    pub fn key(&self) -> K {
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
    pub fn or_insert(self, value: V) -> V {
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
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> V {
        self.or_insert_with_key(|_| make())
    }

    /// As [`or_insert_with`](Self::or_insert_with); `make` gets the key.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let squares: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(squares.entry(7).or_insert_with_key(|key| key * key), 49);
    /// ```
    pub fn or_insert_with_key(self, make: impl FnOnce(&K) -> V) -> V {
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
    pub fn or_default(self) -> V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
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
    pub fn and_modify<F: FnMut(&mut V)>(self, mut f: F) -> ModifiedEntry<'m, K, V, S, D, F> {
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
pub struct ModifiedEntry<'m, K, V, S: Hashing, D: HashesWith<S>, F> {
    /// The new value, or the place of the key that was absent.
    outcome: Result<V, VacantEntry<'m, K, V, S, D>>,
    f: F,
}

impl<K, V, S: Hashing, D: HashesWith<S>, F> fmt::Debug for ModifiedEntry<'_, K, V, S, D, F>
where
    K: fmt::Debug,
    V: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ModifiedEntry").field(&self.outcome).finish()
    }
}

impl<K, V, S, D, F> ModifiedEntry<'_, K, V, S, D, F>
where
    K: InlineKey,
    V: Inline,
    S: Hashing,
    D: HashesWith<S> + Unshadowed,
    F: FnMut(&mut V),
{
    /// Returns the new value, or stores this one if the key is absent and returns it.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.entry(1).and_modify(|value| *value += 1).or_insert(7), 7);
    /// ```
    pub fn or_insert(self, value: V) -> V {
        self.or_insert_with(|| value)
    }

    /// As [`or_insert`](Self::or_insert). `make` runs only if the key was absent, and once.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.entry(1).and_modify(|value| *value += 1).or_insert_with(|| 7), 7);
    /// ```
    pub fn or_insert_with(mut self, make: impl FnOnce() -> V) -> V {
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
    pub fn or_default(self) -> V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

impl<'m, K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S> + Unshadowed>
    VacantEntry<'m, K, V, S, D>
{
    fn found(self, found: Option<V>) -> Entry<'m, K, V, S, D> {
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
    pub fn key(&self) -> K {
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
    pub fn insert(self, value: V) -> Result<(), OccupiedEntry<'m, K, V, S, D>> {
        let inserted = self.map.try_insert(self.key, value);
        inserted.map_err(|present| OccupiedEntry { at: self, value: present })
    }
}

impl<'m, K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S> + Unshadowed>
    OccupiedEntry<'m, K, V, S, D>
{
    /// Returns the key.
    ///
    /// ```
    /// # use nunatak::{DlhtMap, inline::Entry};
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into();
    /// let Entry::Occupied(entry) = map.entry(1) else { unreachable!() };
    /// assert_eq!(entry.key(), 1);
    /// ```
    pub fn key(&self) -> K {
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
    pub fn get(&self) -> V {
        self.value
    }

    /// Makes a change if the key still has the value.
    fn exchange(self, change: Change) -> Result<V, Entry<'m, K, V, S, D>> {
        let Self { at, value } = self;
        match at.map.replace_word(at.key, value.to_word(), change) {
            Ok(()) => Ok(value),
            Err(newer) => Err(at.found(newer.map(V::from_word))),
        }
    }

    /// Replaces the value by what `f` makes of it, until no other thread has interfered.
    fn modify(self, f: &mut impl FnMut(&mut V)) -> Result<V, VacantEntry<'m, K, V, S, D>> {
        let mut entry = self;
        loop {
            let mut value = entry.value;
            f(&mut value);
            match entry.exchange(Change::To(value.to_word())) {
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
    pub fn insert(self, value: V) -> Result<V, Entry<'m, K, V, S, D>> {
        self.exchange(Change::To(value.to_word()))
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
    pub fn remove(self) -> Result<V, Entry<'m, K, V, S, D>> {
        self.exchange(Change::Remove)
    }
}
