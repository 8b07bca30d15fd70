//! Entries of a [`BoxedMap`] by key: [`BoxedMap::entry`].
//!
//! An entry of a concurrent map can't be locked: no thread waits for another one's entry. So it is
//! what a look at the map has found, with the guard of that look. A change takes effect only if the
//! key is still as it was found; otherwise it returns what is there now, or looks again.

use crate::entry::Unpublished;
use crate::hash::RandomState;
use crate::map::boxed::guard::Removed;
use crate::map::boxed::reference::Ref;
use crate::map::boxed::{BoxedMap, Pointer};
use crate::sync::GuardPin;
use crate::table::{Change, Design, Dlht};
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;

/// What [`BoxedMap::entry`] has found at a key.
///
/// ```
/// use nunatak::{DlhtBoxedMap, boxed::Entry};
/// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
/// match map.entry("a".into()) {
///     Entry::Vacant(vacant) => assert_eq!(*vacant.insert(1).unwrap(), 1),
///     Entry::Occupied(_) => unreachable!("no other thread inserts"),
/// }
/// ```
pub enum Entry<'m, K, V, S = RandomState, D: Design = Dlht> {
    /// The key was present.
    Occupied(OccupiedEntry<'m, K, V, S, D>),
    /// The key was absent.
    Vacant(VacantEntry<'m, K, V, S, D>),
}

/// The entry of a key that was present.
///
/// ```
/// use nunatak::{DlhtBoxedMap, boxed::Entry};
/// let map: DlhtBoxedMap<String, u64> = [("a".to_string(), 1)].into();
/// let Entry::Occupied(entry) = map.entry("a".into()) else { unreachable!() };
/// map.insert("a".into(), 2);
/// assert_eq!(entry.get(), &1); // as it was found
/// assert!(entry.remove().is_err()); // it is another one by now
/// ```
pub struct OccupiedEntry<'m, K, V, S = RandomState, D: Design = Dlht> {
    at: VacantEntry<'m, K, V, S, D>,
    current: Pointer<K, V>,
}

/// The place of a key that was absent.
///
/// ```
/// use nunatak::{DlhtBoxedMap, boxed::Entry};
/// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
/// let Entry::Vacant(entry) = map.entry("a".into()) else { unreachable!() };
/// map.insert("a".into(), 2);
/// let (present, refused) = entry.insert(3).unwrap_err();
/// assert_eq!((present.get(), refused), (&2, 3));
/// ```
pub struct VacantEntry<'m, K, V, S = RandomState, D: Design = Dlht> {
    map: &'m BoxedMap<K, V, S, D>,
    guard: GuardPin<'m>,
    key: K,
    values: PhantomData<V>,
}

impl<K: fmt::Debug, V: fmt::Debug, S, D: Design> fmt::Debug for Entry<'_, K, V, S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Occupied(entry) => entry.fmt(f),
            Self::Vacant(entry) => entry.fmt(f),
        }
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S, D: Design> fmt::Debug for OccupiedEntry<'_, K, V, S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = (&self.at.key, self.get());
        f.debug_struct("OccupiedEntry").field("key", key).field("value", value).finish()
    }
}

impl<K: fmt::Debug, V, S, D: Design> fmt::Debug for VacantEntry<'_, K, V, S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VacantEntry").field(&self.key).finish()
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, D: Design> BoxedMap<K, V, S, D> {
    /// Looks at a key, to decide what becomes of it.
    ///
    /// No lock is held: other threads may change the key meanwhile, and so may this one.
    /// [`or_insert`](Entry::or_insert), [`or_insert_with`](Entry::or_insert_with) and
    /// [`or_default`](Entry::or_default), also after [`and_modify`](Entry::and_modify), take effect
    /// at one instant, whatever other threads do. Matched entries report if the key has changed.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let counts: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// for word in "ice and snow and ice".split(' ') {
    ///     counts.entry(word.into()).and_modify(|count| *count += 1).or_insert(1);
    /// }
    /// assert_eq!(counts.get("ice"), Some(2));
    /// ```
    pub fn entry(&self, key: K) -> Entry<'_, K, V, S, D> {
        let guard = self.guard();
        let found = self.find(&guard, &key);
        VacantEntry { map: self, guard, key, values: PhantomData }.found(found)
    }
}

impl<'m, K: Hash + Eq, V, S: BuildHasher, D: Design> Entry<'m, K, V, S, D> {
    /// Returns the key that was looked up.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// assert_eq!(map.entry("a".into()).key(), "a");
    /// ```
    pub fn key(&self) -> &K {
        match self {
            Self::Occupied(entry) => &entry.at.key,
            Self::Vacant(entry) => &entry.key,
        }
    }

    /// Returns the value that was found, or that another thread has stored meanwhile, or stores
    /// this one.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// assert_eq!(*map.entry("a".into()).or_insert(1), 1);
    /// assert_eq!(*map.entry("a".into()).or_insert(2), 1);
    /// ```
    pub fn or_insert(self, value: V) -> Ref<'m, K, V> {
        self.or_insert_with(|| value)
    }

    /// As [`or_insert`](Self::or_insert). `make` runs only if the key was absent, and once. Its
    /// value is dropped if another thread has stored one meanwhile.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// assert_eq!(*map.entry("a".into()).or_insert_with(|| 1), 1);
    /// ```
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> Ref<'m, K, V> {
        self.or_insert_with_key(|_| make())
    }

    /// As [`or_insert_with`](Self::or_insert_with); `make` gets the key.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, usize> = DlhtBoxedMap::new();
    /// assert_eq!(*map.entry("abc".into()).or_insert_with_key(|key| key.len()), 3);
    /// ```
    pub fn or_insert_with_key(self, make: impl FnOnce(&K) -> V) -> Ref<'m, K, V> {
        match self {
            Self::Occupied(entry) => entry.into_ref(),
            Self::Vacant(entry) => {
                let value = make(&entry.key);
                entry.insert(value).unwrap_or_else(|(present, _)| present.into_ref())
            }
        }
    }

    /// As [`or_insert`](Self::or_insert) with the type's default.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// assert_eq!(*map.entry("a".into()).or_default(), 0);
    /// ```
    pub fn or_default(self) -> Ref<'m, K, V>
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    /// Replaces the value of a present key by a changed copy. `f` may run more than once, each time
    /// on a copy of a newer value.
    ///
    /// If the key was absent, `f` runs when the next call (such as
    /// [`or_insert`](ModifiedEntry::or_insert)) finds that another thread has stored it meanwhile.
    /// So counts are not lost.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, Vec<u8>> = DlhtBoxedMap::new();
    /// for byte in 1..=3 {
    ///     map.entry("a".into()).and_modify(|bytes| bytes.push(byte)).or_insert_with(|| vec![byte]);
    /// }
    /// assert_eq!(map.get("a"), Some(vec![1, 2, 3]));
    /// ```
    pub fn and_modify<F: FnMut(&mut V)>(
        self,
        mut f: F,
    ) -> ModifiedEntry<'m, K, V, S, D, impl FnMut(&V) -> V>
    where
        V: Clone,
    {
        self.and_replace_with(move |value| {
            let mut value = value.clone();
            f(&mut value);
            value
        })
    }

    /// As [`and_modify`](Self::and_modify), for values that are not `Clone`: `f` makes the new
    /// value from the present one.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// struct Total(u64);
    /// let map: DlhtBoxedMap<String, Total> = DlhtBoxedMap::new();
    /// for amount in [3, 4] {
    ///     let add = |total: &Total| Total(total.0 + amount);
    ///     map.entry("a".into()).and_replace_with(add).or_insert(Total(amount));
    /// }
    /// assert_eq!(map.get_with("a", |total| total.0), Some(7));
    /// ```
    pub fn and_replace_with<F: FnMut(&V) -> V>(self, mut f: F) -> ModifiedEntry<'m, K, V, S, D, F> {
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
/// use nunatak::DlhtBoxedMap;
/// let map: DlhtBoxedMap<String, u64> = [("a".to_string(), 1)].into();
/// assert_eq!(*map.entry("a".into()).and_modify(|value| *value += 1).or_default(), 2);
/// ```
pub struct ModifiedEntry<'m, K, V, S, D: Design, F> {
    /// The new value, or the place of the key that was absent.
    outcome: Result<Ref<'m, K, V>, VacantEntry<'m, K, V, S, D>>,
    f: F,
}

impl<K: fmt::Debug, V: fmt::Debug, S, D: Design, F> fmt::Debug
    for ModifiedEntry<'_, K, V, S, D, F>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ModifiedEntry").field(&self.outcome).finish()
    }
}

impl<'m, K: Hash + Eq, V, S: BuildHasher, D: Design, F: FnMut(&V) -> V>
    ModifiedEntry<'m, K, V, S, D, F>
{
    /// Returns the new value, or stores this one if the key is absent.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// assert_eq!(*map.entry("a".into()).and_modify(|value| *value += 1).or_insert(7), 7);
    /// ```
    pub fn or_insert(self, value: V) -> Ref<'m, K, V> {
        self.or_insert_with(|| value)
    }

    /// As [`or_insert`](Self::or_insert). `make` runs only if the key was absent, and once.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// assert_eq!(*map.entry("a".into()).and_modify(|value| *value += 1).or_insert_with(|| 7), 7);
    /// ```
    pub fn or_insert_with(mut self, make: impl FnOnce() -> V) -> Ref<'m, K, V> {
        let mut vacant = match self.outcome {
            Ok(changed) => return changed,
            Err(vacant) => vacant,
        };
        let mut value = make();
        loop {
            let (present, refused) = match vacant.insert(value) {
                Ok(stored) => return stored,
                Err(present) => present,
            };
            value = refused;
            match present.modify(&mut self.f) {
                Ok(changed) => return changed,
                // The key is gone again.
                Err(at) => vacant = at,
            }
        }
    }

    /// As [`or_insert`](Self::or_insert) with the type's default.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// assert_eq!(*map.entry("a".into()).and_modify(|value| *value += 1).or_default(), 0);
    /// ```
    pub fn or_default(self) -> Ref<'m, K, V>
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

impl<'m, K: Hash + Eq, V, S: BuildHasher, D: Design> VacantEntry<'m, K, V, S, D> {
    fn found(self, found: Option<Pointer<K, V>>) -> Entry<'m, K, V, S, D> {
        match found {
            Some(current) => Entry::Occupied(OccupiedEntry { at: self, current }),
            None => Entry::Vacant(self),
        }
    }

    /// Returns the key that was looked up.
    ///
    /// ```
    /// # use nunatak::{DlhtBoxedMap, boxed::Entry};
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// let Entry::Vacant(entry) = map.entry("a".into()) else { unreachable!() };
    /// assert_eq!(entry.key(), "a");
    /// ```
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Returns the key that was looked up, by value.
    ///
    /// ```
    /// # use nunatak::{DlhtBoxedMap, boxed::Entry};
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// let Entry::Vacant(entry) = map.entry("a".into()) else { unreachable!() };
    /// assert_eq!(entry.into_key(), "a");
    /// ```
    pub fn into_key(self) -> K {
        self.key
    }

    /// Stores the value if the key is still absent.
    ///
    /// # Errors
    /// The entry that another thread has stored meanwhile, and the value, which was not stored.
    ///
    /// ```
    /// # use nunatak::{DlhtBoxedMap, boxed::Entry};
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// let Entry::Vacant(entry) = map.entry("a".into()) else { unreachable!() };
    /// assert_eq!(*entry.insert(1).unwrap(), 1);
    /// ```
    #[allow(clippy::type_complexity, reason = "an entry and a value")]
    pub fn insert(self, value: V) -> Result<Ref<'m, K, V>, (OccupiedEntry<'m, K, V, S, D>, V)> {
        let Self { map, guard, key, values } = self;
        let entry = Unpublished::new(key, value);
        let ptr = entry.ptr();
        match map.apply(&guard, entry.key(), Some(ptr), Change::keep) {
            None => {
                entry.published();
                Ok(Ref::new(ptr, guard))
            }
            Some(current) => {
                let crate::entry::Entry { key, value } = entry.into_entry();
                Err((OccupiedEntry { at: Self { map, guard, key, values }, current }, value))
            }
        }
    }
}

impl<'m, K, V, S, D: Design> OccupiedEntry<'m, K, V, S, D> {
    /// Returns the value as it was found.
    ///
    /// ```
    /// # use nunatak::{DlhtBoxedMap, boxed::Entry};
    /// let map: DlhtBoxedMap<String, u64> = [("a".to_string(), 1)].into();
    /// let Entry::Occupied(entry) = map.entry("a".into()) else { unreachable!() };
    /// assert_eq!(entry.get(), &1);
    /// ```
    pub fn get(&self) -> &V {
        // SAFETY: found under the guard, which lives as long as `self` (R3).
        &unsafe { self.current.entry() }.value
    }

    /// Returns the stored key.
    ///
    /// ```
    /// # use nunatak::{DlhtBoxedMap, boxed::Entry};
    /// let map: DlhtBoxedMap<String, u64> = [("a".to_string(), 1)].into();
    /// let Entry::Occupied(entry) = map.entry("a".into()) else { unreachable!() };
    /// assert_eq!(entry.key(), "a");
    /// ```
    pub fn key(&self) -> &K {
        // SAFETY: as in `get`.
        &unsafe { self.current.entry() }.key
    }

    /// Returns a reference to the entry as it was found, which keeps it.
    ///
    /// ```
    /// # use nunatak::{DlhtBoxedMap, boxed::Entry};
    /// let map: DlhtBoxedMap<String, u64> = [("a".to_string(), 1)].into();
    /// let Entry::Occupied(entry) = map.entry("a".into()) else { unreachable!() };
    /// assert_eq!(*entry.into_ref(), 1);
    /// ```
    pub fn into_ref(self) -> Ref<'m, K, V> {
        Ref::new(self.current, self.at.guard)
    }
}

impl<'m, K: Hash + Eq, V, S: BuildHasher, D: Design> OccupiedEntry<'m, K, V, S, D> {
    /// Replaces the entry by another one of the same key. Returns where it is and what it replaced,
    /// or what is there now, with the value that was not stored.
    #[allow(clippy::type_complexity, reason = "private")]
    fn replace(
        self,
        value: V,
    ) -> Result<(Ref<'m, K, V>, Removed<'m, K, V, S, D>), (Entry<'m, K, V, S, D>, V)> {
        let Self { at: VacantEntry { map, guard, key, values }, current } = self;
        let entry = Unpublished::new(key, value);
        let ptr = entry.ptr();
        let change = Change::To(ptr.to_word());
        match map.replace_entry(&guard, entry.key(), current, change) {
            Ok(()) => {
                entry.published();
                Ok((Ref::new(ptr, guard), map.removed(current)))
            }
            Err(newer) => {
                let crate::entry::Entry { key, value } = entry.into_entry();
                Err((VacantEntry { map, guard, key, values }.found(newer), value))
            }
        }
    }

    /// Replaces the value by what `f` makes of it, until no other thread has interfered.
    fn modify(
        self,
        f: &mut impl FnMut(&V) -> V,
    ) -> Result<Ref<'m, K, V>, VacantEntry<'m, K, V, S, D>> {
        let mut entry = self;
        loop {
            let value = f(entry.get());
            match entry.replace(value) {
                Ok((changed, _replaced)) => return Ok(changed),
                Err((Entry::Occupied(newer), _)) => entry = newer,
                Err((Entry::Vacant(at), _)) => return Err(at),
            }
        }
    }

    /// Replaces the value if the key still has this entry, and returns the entry that was replaced.
    /// (The key is replaced, too, by the one that was looked up.)
    ///
    /// # Errors
    /// What is there now, and the value, which was not stored.
    ///
    /// ```
    /// # use nunatak::{DlhtBoxedMap, boxed::Entry};
    /// let map: DlhtBoxedMap<String, u64> = [("a".to_string(), 1)].into();
    /// let Entry::Occupied(entry) = map.entry("a".into()) else { unreachable!() };
    /// assert_eq!(entry.insert(2).unwrap().value(), &1);
    /// assert_eq!(map.get("a"), Some(2));
    /// ```
    #[allow(clippy::type_complexity, reason = "an entry and a value")]
    pub fn insert(self, value: V) -> Result<Removed<'m, K, V, S, D>, (Entry<'m, K, V, S, D>, V)> {
        self.replace(value).map(|(_, replaced)| replaced)
    }

    /// Removes the key if it still has this entry, and returns the entry.
    ///
    /// # Errors
    /// What is there now.
    ///
    /// ```
    /// # use nunatak::{DlhtBoxedMap, boxed::Entry};
    /// let map: DlhtBoxedMap<String, u64> = [("a".to_string(), 1)].into();
    /// let Entry::Occupied(entry) = map.entry("a".into()) else { unreachable!() };
    /// assert_eq!(entry.remove().unwrap().value(), &1);
    /// assert!(map.is_empty());
    /// ```
    #[allow(clippy::type_complexity, reason = "two entries")]
    pub fn remove(self) -> Result<Removed<'m, K, V, S, D>, Entry<'m, K, V, S, D>> {
        let Self { at, current } = self;
        match at.map.replace_entry(&at.guard, &at.key, current, Change::Remove) {
            Ok(()) => Ok(at.map.removed(current)),
            Err(newer) => Err(at.found(newer)),
        }
    }
}
