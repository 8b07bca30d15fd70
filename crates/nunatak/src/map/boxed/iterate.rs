//! [`BoxedMap`] and iterators: over a shared map, over a map by value, and what map is made of
//! them.

use crate::entry::{Entry, EntryPtr, Retired};
use crate::error::Error;
use crate::hash::IdentityCodec;
use crate::map::boxed::BoxedMap;
use crate::map::boxed::guard::Removed;
use crate::map::owned_pairs::OwnedPairs;
use crate::sync::GuardPin;
use crate::table::{Design, Dlht, PairTable};
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;

type Pairs<'m, D> = <<D as Design>::Table<IdentityCodec> as PairTable>::Iter<'m>;

/// An iterator over copies of all entries of a [`BoxedMap`], weakly consistent. (A guard's
/// [`iter`](crate::BoxedGuard::iter) yields references.)
///
/// ```
/// use nunatak::DlhtBoxedMap;
/// let map: DlhtBoxedMap<String, u64> = [("a".to_string(), 1)].into();
/// for (key, value) in &map {
///     assert_eq!((key.as_str(), value), ("a", 1));
/// }
/// ```
pub struct Iter<'m, K, V, D: Design = Dlht> {
    pairs: Pairs<'m, D>,
    _guard: GuardPin<'m>,
    entries: PhantomData<fn() -> (K, V)>,
}

/// An iterator over the entries of a [`BoxedMap`] that it owns: it moves them out. Entries that it
/// has not yielded are dropped with it.
///
/// ```
/// use nunatak::DlhtBoxedMap;
/// let map: DlhtBoxedMap<String, Vec<u8>> = [("a".to_string(), vec![1])].into();
/// assert_eq!(map.into_iter().collect::<Vec<_>>(), [("a".to_string(), vec![1])]);
/// ```
pub struct IntoIter<K, V, D: Design = Dlht> {
    pairs: OwnedPairs<D::Table<IdentityCodec>>,
    entries: PhantomData<Box<(K, V)>>,
}

impl<K: Clone, V: Clone, D: Design> Iterator for Iter<'_, K, V, D> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        let (_, word) = self.pairs.next()?;
        // SAFETY: the table holds addresses of entries only, and the guard is older than the
        // iterator (R3).
        let Entry { key, value } = unsafe { EntryPtr::<K, V>::from_word(word).entry() };
        Some((key.clone(), value.clone()))
    }
}

impl<K, V, D: Design> Iterator for IntoIter<K, V, D> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        let (_, word) = self.pairs.next()?;
        // SAFETY: the table holds addresses of entries only. No other thread has the map, so no
        // guard lives, and the table yields each entry once.
        let Entry { key, value } =
            unsafe { Retired::<K, V>::new(EntryPtr::from_word(word)).into_entry() };
        Some((key, value))
    }
}

impl<K, V, D: Design> Drop for IntoIter<K, V, D> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

impl<K, V, D: Design> fmt::Debug for Iter<'_, K, V, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}

impl<K, V, D: Design> fmt::Debug for IntoIter<K, V, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter").finish_non_exhaustive()
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, D: Design> BoxedMap<K, V, S, D> {
    /// [`ConcurrentMap::iter`](crate::ConcurrentMap::iter): iterates over copies of all entries; a
    /// guard's [`iter`](crate::BoxedGuard::iter) yields references.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = DlhtBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [("a".into(), 1)]);
    /// ```
    pub fn iter(&self) -> Iter<'_, K, V, D>
    where
        K: Clone,
        V: Clone,
    {
        let guard = self.guard();
        Iter { pairs: self.table.iter(), _guard: guard, entries: PhantomData }
    }

    /// Iterates over copies of all keys, weakly consistent.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = [("a".to_string(), 1)].into();
    /// assert_eq!(map.keys().collect::<Vec<_>>(), ["a"]);
    /// ```
    pub fn keys(&self) -> impl Iterator<Item = K>
    where
        K: Clone,
    {
        let guard = self.guard();
        self.table.iter().map(move |(_, word)| {
            let _under = &guard;
            // SAFETY: as in `Iter::next`; the iterator holds a guard that is older than itself.
            unsafe { EntryPtr::<K, V>::from_word(word).entry() }.key.clone()
        })
    }

    /// Iterates over copies of all values, weakly consistent.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = [("a".to_string(), 1), ("b".to_string(), 2)].into();
    /// assert_eq!(map.values().sum::<u64>(), 3);
    /// ```
    pub fn values(&self) -> impl Iterator<Item = V>
    where
        V: Clone,
    {
        let guard = self.guard();
        self.table.iter().map(move |(_, word)| {
            let _under = &guard;
            // SAFETY: as in `keys`.
            unsafe { EntryPtr::<K, V>::from_word(word).entry() }.value.clone()
        })
    }

    /// Removes the entries for which `condition` holds, one at each step of the iterator, and
    /// yields them. Entries that the iterator has not reached when it is dropped stay.
    ///
    /// Each removal is atomic, and yields the entry that `condition` accepted. Costs a walk over
    /// the table and a removal for each entry. The iterator holds a guard.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<u64, String> = (0..10).map(|key| (key, key.to_string())).collect();
    /// let odd: Vec<_> = map.extract_if(|key, _| key % 2 == 1).collect();
    /// assert_eq!((odd.len(), map.len()), (5, 5));
    /// assert!(odd.into_iter().all(|removed| removed.into_owned().is_ok()));
    /// ```
    pub fn extract_if<F>(&self, mut condition: F) -> impl Iterator<Item = Removed<'_, K, V, S, D>>
    where
        F: FnMut(&K, &V) -> bool,
    {
        let guard = self.guard();
        self.table.iter().filter_map(move |(_, word)| {
            let _under = &guard;
            // SAFETY: as in `keys`.
            let entry = unsafe { EntryPtr::<K, V>::from_word(word).entry() };
            self.remove_entry_if(&entry.key, &mut condition)
        })
    }

    /// Removes all entries, one at each step of the iterator, and yields them; otherwise as
    /// [`extract_if`](Self::extract_if).
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map: DlhtBoxedMap<String, u64> = [("a".to_string(), 1)].into();
    /// assert_eq!(map.drain().map(|removed| *removed.value()).sum::<u64>(), 1);
    /// assert!(map.is_empty());
    /// ```
    pub fn drain(&self) -> impl Iterator<Item = Removed<'_, K, V, S, D>> {
        self.extract_if(|_, _| true)
    }
}

impl<'m, K, V, S, D: Design> IntoIterator for &'m BoxedMap<K, V, S, D>
where
    K: Hash + Eq + Clone,
    V: Clone,
    S: BuildHasher,
{
    type Item = (K, V);
    type IntoIter = Iter<'m, K, V, D>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K, V, S, D: Design> IntoIterator for BoxedMap<K, V, S, D> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V, D>;

    fn into_iter(self) -> Self::IntoIter {
        let map = ManuallyDrop::new(self);
        // SAFETY: each field is moved out once, and the map is neither used nor dropped afterwards.
        let (table, hasher, limbo) = unsafe {
            (
                core::ptr::read(&raw const map.table),
                core::ptr::read(&raw const map.hasher),
                core::ptr::read(&raw const map.limbo),
            )
        };
        let pairs = OwnedPairs::new(table);
        drop((hasher, limbo));
        IntoIter { pairs, entries: PhantomData }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher + Default, D: Design> FromIterator<(K, V)>
    for BoxedMap<K, V, S, D>
{
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter();
        let mut map = Self::with_capacity_and_hasher(entries.size_hint().0, S::default());
        map.extend(entries);
        map
    }
}

impl<K: Hash + Eq, V, S: BuildHasher + Default, D: Design, const N: usize> From<[(K, V); N]>
    for BoxedMap<K, V, S, D>
{
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, D: Design> Extend<(K, V)> for BoxedMap<K, V, S, D> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(key, value)| drop(self.put(key, value)));
    }
}

impl<'e, K, V, S: BuildHasher, D: Design> Extend<(&'e K, &'e V)> for BoxedMap<K, V, S, D>
where
    K: Hash + Eq + Copy,
    V: Copy,
{
    fn extend<I: IntoIterator<Item = (&'e K, &'e V)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(&key, &value)| drop(self.put(key, value)));
    }
}

/// Copies the entries of a [snapshot](BoxedMap::snapshot) into a map of default options with the
/// same hasher.
///
/// # Panics
/// If memory is refused.
impl<K, V, S, D: Design> Clone for BoxedMap<K, V, S, D>
where
    K: Hash + Eq + Clone,
    V: Clone,
    S: BuildHasher + Clone,
{
    fn clone(&self) -> Self {
        let copy = || -> Result<Self, Error> {
            let copy = Self::of(D::table(IdentityCodec, self.len())?, self.hasher().clone());
            self.snapshot()?.for_each(|(key, value)| drop(copy.put(key, value)));
            Ok(copy)
        };
        copy().unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Compares all entries; while other threads change a map the answer is of no one moment.
impl<K: Hash + Eq, V: PartialEq, S: BuildHasher, D: Design> PartialEq for BoxedMap<K, V, S, D> {
    fn eq(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.pin(), other.pin());
        self.len() == other.len() && ours.iter().all(|(key, value)| theirs.get(key) == Some(value))
    }
}

impl<K: Hash + Eq, V: Eq, S: BuildHasher, D: Design> Eq for BoxedMap<K, V, S, D> {}

impl<K, V, S, D: Design> fmt::Debug for BoxedMap<K, V, S, D>
where
    K: Hash + Eq + fmt::Debug,
    V: fmt::Debug,
    S: BuildHasher,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.pin().iter()).finish()
    }
}
