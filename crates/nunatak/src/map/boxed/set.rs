//! [`BoxedSet`]: any keys, without values.

use crate::error::{BatchError, Error};
use crate::hash::RandomState;
use crate::map::batch::check_batch;
use crate::map::boxed::BoxedMap;
use crate::map::boxed::iterate::{IntoIter, Iter};
use crate::map::interface::whole_map;
use crate::map::set_algebra::{KeyOf, Keys, key_of};
use crate::memory::MemoryUsage;
use crate::table::{Design, Dlht};
use core::fmt;
use core::hash::{BuildHasher, Hash};
use equivalent::Equivalent;

/// A concurrent set of any `K: Hash + Eq`: a [`BoxedMap`] without values.
///
/// Keys are looked up by any borrowed form. What the map says about cost, consistency, and [when
/// entries are dropped](BoxedMap#when-entries-are-dropped) holds for the set's keys.
///
/// ```
/// use nunatak::DlhtBoxedSet;
/// let seen: DlhtBoxedSet<String> = DlhtBoxedSet::new();
/// assert!(seen.insert("ice".into()));
/// assert!(!seen.insert("ice".into()));
/// assert!(seen.contains("ice") && seen.remove("ice"));
/// ```
pub struct BoxedSet<K, S = RandomState, D: Design = Dlht> {
    pub(in crate::map) map: BoxedMap<K, (), S, D>,
}

impl<K, D: Design> BoxedSet<K, RandomState, D> {
    /// Makes an empty set.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// assert!(DlhtBoxedSet::<String>::new().is_empty());
    /// ```
    pub fn new() -> Self {
        Self { map: BoxedMap::new() }
    }

    /// Makes an empty set with room for `capacity` keys.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// assert!(DlhtBoxedSet::<String>::with_capacity(1000).is_empty());
    /// ```
    pub fn with_capacity(capacity: usize) -> Self {
        Self { map: BoxedMap::with_capacity(capacity) }
    }

    /// Makes an empty set with room for `capacity` keys.
    ///
    /// # Errors
    /// If the capacity does not fit the address space, or memory is refused.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// assert!(DlhtBoxedSet::<String>::try_with_capacity(1 << 60).is_err());
    /// ```
    pub fn try_with_capacity(capacity: usize) -> Result<Self, Error> {
        Ok(Self { map: BoxedMap::try_with_capacity(capacity)? })
    }
}

impl<K, S, D: Design> BoxedSet<K, S, D> {
    /// Makes an empty set that hashes with `hasher`.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// # use std::hash::RandomState;
    /// assert!(DlhtBoxedSet::<&str, RandomState>::with_hasher(RandomState::new()).insert("a"));
    /// ```
    pub fn with_hasher(hasher: S) -> Self {
        Self { map: BoxedMap::with_hasher(hasher) }
    }

    /// Makes an empty set with room for `capacity` keys, which hashes with `hasher`.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// # use std::hash::RandomState;
    /// let set: DlhtBoxedSet<&str, RandomState> =
    ///     DlhtBoxedSet::with_capacity_and_hasher(1000, RandomState::new());
    /// # assert!(set.is_empty());
    /// ```
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        Self { map: BoxedMap::with_capacity_and_hasher(capacity, hasher) }
    }

    /// Returns the hasher.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// # use std::hash::BuildHasher;
    /// let set: DlhtBoxedSet<String> = DlhtBoxedSet::new();
    /// assert_eq!(set.hasher().hash_one("a"), set.hasher().hash_one("a"));
    /// ```
    pub fn hasher(&self) -> &S {
        self.map.hasher()
    }

    whole_map! {
        "DlhtBoxedSet", "DlhtBoxedSet::<String>::new()", "keys", map, D::Stats:
        len is_empty reserve shrink_to_fit load_factor memory_usage stats
    }

    /// Drops the removed keys that no guard can see, and returns how many wait for guards; see
    /// [`BoxedMap::reclaim`].
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// let set: DlhtBoxedSet<String> = ["a".to_string()].into();
    /// set.remove("a");
    /// assert_eq!(set.reclaim(), 0);
    /// ```
    pub fn reclaim(&self) -> usize {
        self.map.reclaim()
    }
}

impl<K: Hash + Eq, S: BuildHasher, D: Design> BoxedSet<K, S, D> {
    /// Returns whether the key is in the set. Costs a get of the map, and writes nothing that other
    /// threads use.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// let set: DlhtBoxedSet<String> = ["a".to_string()].into();
    /// assert!(set.contains("a") && !set.contains("b"));
    /// ```
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.contains_key(key)
    }

    /// Returns a copy of the stored key.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// # use std::sync::Arc;
    /// let names: DlhtBoxedSet<Arc<str>> = DlhtBoxedSet::new();
    /// let name: Arc<str> = "ice".into();
    /// names.insert(name.clone());
    /// assert!(Arc::ptr_eq(&names.get("ice").unwrap(), &name));
    /// ```
    pub fn get<Q>(&self, key: &Q) -> Option<K>
    where
        K: Clone,
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.get_ref(key).map(|entry| entry.key().clone())
    }

    /// Inserts the key; returns false, and drops it, if the set has an equal key already.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// let set: DlhtBoxedSet<String> = DlhtBoxedSet::new();
    /// assert!(set.insert("a".into()) && !set.insert("a".into()));
    /// ```
    pub fn insert(&self, key: K) -> bool {
        self.map.try_put(key, ()).is_ok()
    }

    /// Removes the key; returns false if it was not in the set. The stored key is dropped
    /// [later](BoxedMap#when-entries-are-dropped).
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// let set: DlhtBoxedSet<String> = ["a".to_string()].into();
    /// assert!(set.remove("a") && !set.remove("a"));
    /// ```
    pub fn remove<Q>(&self, key: &Q) -> bool
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.remove_entry(key).is_some()
    }

    /// Removes the key and returns a copy of the stored key.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// let set: DlhtBoxedSet<String> = ["a".to_string()].into();
    /// assert_eq!((set.take("a"), set.take("a")), (Some("a".to_string()), None));
    /// ```
    pub fn take<Q>(&self, key: &Q) -> Option<K>
    where
        K: Clone,
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.map.remove_entry(key).map(|removed| removed.key().clone())
    }

    /// Looks up all keys, in order, with overlapped memory latencies, and returns how many are in
    /// the set.
    ///
    /// # Errors
    /// If `present` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// let set: DlhtBoxedSet<&str> = ["a", "c"].into();
    /// let mut present = [None; 3];
    /// assert_eq!(set.contains_many(&["a", "b", "c"], &mut present), Ok(2));
    /// assert_eq!(present, [Some(()), None, Some(())]);
    /// ```
    pub fn contains_many(
        &self,
        keys: &[K],
        present: &mut [Option<()>],
    ) -> Result<usize, BatchError> {
        self.map.get_many(keys, present)
    }

    /// Inserts copies of all keys, in order, and returns how many were not in the set. `before`
    /// holds for each key whether it was.
    ///
    /// # Errors
    /// If `before` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// let set: DlhtBoxedSet<&str> = ["a"].into();
    /// let mut before = [None; 2];
    /// assert_eq!(set.insert_many(&["a", "b"], &mut before), Ok(1));
    /// assert_eq!(before, [Some(()), None]);
    /// ```
    pub fn insert_many(&self, keys: &[K], before: &mut [Option<()>]) -> Result<usize, BatchError>
    where
        K: Clone,
    {
        check_batch(keys.len(), before.len())?;
        let mut new = 0;
        self.map.for_each_fetched::<true>(keys.iter(), |at| {
            let is_new = self.insert(keys[at].clone());
            before[at] = (!is_new).then_some(());
            new += usize::from(is_new);
            true
        });
        Ok(new)
    }

    /// Removes all keys, in order, and returns how many were in the set.
    ///
    /// # Errors
    /// If `removed` is shorter than `keys`; nothing was done.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// let set: DlhtBoxedSet<&str> = ["a"].into();
    /// let mut removed = [None; 2];
    /// assert_eq!(set.remove_many(&["a", "b"], &mut removed), Ok(1));
    /// assert_eq!(removed, [Some(()), None]);
    /// ```
    pub fn remove_many(&self, keys: &[K], removed: &mut [Option<()>]) -> Result<usize, BatchError> {
        check_batch(keys.len(), removed.len())?;
        let mut present = 0;
        self.map.for_each_fetched::<false>(keys.iter(), |at| {
            let was_present = self.remove(&keys[at]);
            removed[at] = was_present.then_some(());
            present += usize::from(was_present);
            true
        });
        Ok(present)
    }

    /// Prefetches the lines of the table that a lookup of the key touches first.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// DlhtBoxedSet::<String>::new().prefetch("a");
    /// ```
    pub fn prefetch<Q: Hash + ?Sized>(&self, key: &Q) {
        self.map.prefetch(key);
    }

    /// Iterates over copies of all keys, weakly consistent. [`for_each`](Self::for_each) makes no
    /// copies.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// let set: DlhtBoxedSet<String> = ["a".to_string()].into();
    /// assert_eq!(set.iter().collect::<Vec<_>>(), ["a"]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = K>
    where
        K: Clone,
    {
        self.map.keys()
    }

    /// Passes a reference to every key to `each`, weakly consistent, under one guard.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// let (set, mut bytes): (DlhtBoxedSet<&str>, _) = (["ice", "snow"].into(), 0);
    /// set.for_each(|key| bytes += key.len());
    /// assert_eq!(bytes, 7);
    /// ```
    pub fn for_each(&self, mut each: impl FnMut(&K)) {
        self.map.pin().iter().for_each(|(key, ())| each(key));
    }

    /// Takes a consistent cut of all keys; see [`BoxedMap::snapshot`].
    ///
    /// # Errors
    /// If memory for the cut is refused.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// let set: DlhtBoxedSet<&str> = ["a", "b"].into();
    /// assert_eq!(set.snapshot()?.count(), 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn snapshot(&self) -> Result<impl Iterator<Item = K>, Error>
    where
        K: Clone,
    {
        Ok(self.map.snapshot()?.map(|(key, ())| key))
    }

    /// Removes the keys that `keep` rejects.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// let set: DlhtBoxedSet<&str> = ["ice", "snow"].into();
    /// set.retain(|key| key.len() == 3);
    /// assert_eq!(set.len(), 1);
    /// ```
    pub fn retain<F: FnMut(&K) -> bool>(&self, mut keep: F) {
        self.map.retain(|key, ()| keep(key));
    }

    /// Removes every key that the walk reaches; see [`BoxedMap::clear`].
    ///
    /// ```
    /// # use nunatak::DlhtBoxedSet;
    /// let set: DlhtBoxedSet<&str> = ["ice", "snow"].into();
    /// set.clear();
    /// assert!(set.is_empty());
    /// ```
    pub fn clear(&self) {
        self.map.clear();
    }
}

impl<K, S: Default, D: Design> Default for BoxedSet<K, S, D> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<K: Hash + Eq + fmt::Debug, S: BuildHasher, D: Design> fmt::Debug for BoxedSet<K, S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.map.pin().iter().map(|(key, ())| key)).finish()
    }
}

impl<K: Hash + Eq, S: BuildHasher + Default, D: Design> FromIterator<K> for BoxedSet<K, S, D> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let keys = keys.into_iter();
        let mut set = Self::with_capacity_and_hasher(keys.size_hint().0, S::default());
        set.extend(keys);
        set
    }
}

impl<K, S, D: Design, const N: usize> From<[K; N]> for BoxedSet<K, S, D>
where
    K: Hash + Eq,
    S: BuildHasher + Default,
{
    fn from(keys: [K; N]) -> Self {
        keys.into_iter().collect()
    }
}

impl<K: Hash + Eq, S: BuildHasher, D: Design> Extend<K> for BoxedSet<K, S, D> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        for key in keys {
            self.insert(key);
        }
    }
}

/// As the clone of a map: a snapshot, default options, the same hasher.
impl<K: Hash + Eq + Clone, S: BuildHasher + Clone, D: Design> Clone for BoxedSet<K, S, D> {
    fn clone(&self) -> Self {
        Self { map: self.map.clone() }
    }
}

/// Compares all keys; while other threads change a set the answer is of no one moment.
impl<K: Hash + Eq, S: BuildHasher, D: Design> PartialEq for BoxedSet<K, S, D> {
    fn eq(&self, other: &Self) -> bool {
        self.map == other.map
    }
}

impl<K: Hash + Eq, S: BuildHasher, D: Design> Eq for BoxedSet<K, S, D> {}

impl<'s, K: Hash + Eq + Clone, S: BuildHasher, D: Design> IntoIterator for &'s BoxedSet<K, S, D> {
    type Item = K;
    type IntoIter = Keys<Iter<'s, K, (), D>, K>;

    fn into_iter(self) -> Self::IntoIter {
        self.map.iter().map(key_of as KeyOf<K>)
    }
}

impl<K, S, D: Design> IntoIterator for BoxedSet<K, S, D> {
    type Item = K;
    type IntoIter = Keys<IntoIter<K, (), D>, K>;

    fn into_iter(self) -> Self::IntoIter {
        self.map.into_iter().map(key_of as KeyOf<K>)
    }
}
