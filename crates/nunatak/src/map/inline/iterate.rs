//! [`InlineMap`] and iterators: over a shared map, over a map by value, and what map is made of
//! them.

use crate::entry::{Inline, InlineKey};
use crate::error::Error;
use crate::hash::Hashing;
use crate::map::inline::InlineMap;
use crate::map::owned_pairs::OwnedPairs;
use crate::table::{Design, HashesWith, PairTable, Unshadowed};
use core::fmt;
use core::marker::PhantomData;

type TableOf<S, D> = <D as Design>::Table<<S as Hashing>::HashCodec>;

/// An iterator over copies of all entries of an [`InlineMap`], weakly consistent.
///
/// ```
/// use nunatak::DlhtMap;
/// let map: DlhtMap<u64, u64> = [(1, 10), (2, 20)].into();
/// let mut sum = 0;
/// for (_, value) in &map {
///     sum += value;
/// }
/// assert_eq!(sum, 30);
/// ```
pub struct Iter<'m, K, V, S: Hashing, D: HashesWith<S>> {
    pairs: <TableOf<S, D> as PairTable>::Iter<'m>,
    entries: PhantomData<fn() -> (K, V)>,
}

/// An iterator over the entries of an [`InlineMap`] that it owns. The map's memory is given back
/// when the iterator is dropped.
///
/// ```
/// use nunatak::DlhtMap;
/// let map: DlhtMap<u64, u64> = [(1, 10), (2, 20)].into();
/// assert_eq!(map.into_iter().map(|(_, value)| value).sum::<u64>(), 30);
/// ```
pub struct IntoIter<K, V, S: Hashing, D: HashesWith<S>> {
    pairs: OwnedPairs<TableOf<S, D>>,
    entries: PhantomData<fn() -> (K, V)>,
}

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S>> Iterator for Iter<'_, K, V, S, D> {
    type Item = (K, V);

    #[inline(always)]
    fn next(&mut self) -> Option<(K, V)> {
        let (key, value) = self.pairs.next()?;
        Some((K::from_word(key), V::from_word(value)))
    }
}

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S>> Iterator for IntoIter<K, V, S, D> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        let (key, value) = self.pairs.next()?;
        Some((K::from_word(key), V::from_word(value)))
    }
}

impl<K, V, S: Hashing, D: HashesWith<S>> fmt::Debug for Iter<'_, K, V, S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}

impl<K, V, S: Hashing, D: HashesWith<S>> fmt::Debug for IntoIter<K, V, S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter").finish_non_exhaustive()
    }
}

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S>> InlineMap<K, V, S, D> {
    /// [`ConcurrentMap::iter`](crate::ConcurrentMap::iter): iterates over all entries, weakly
    /// consistent. (An old index of DLHT, which growth replaces, waits for the iterator before its
    /// memory is given back.)
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = (0..10).map(|key| (key, key)).collect();
    /// assert_eq!(map.iter().map(|(key, _)| key).sum::<u64>(), 45);
    /// ```
    #[inline(always)]
    pub fn iter(&self) -> Iter<'_, K, V, S, D> {
        Iter { pairs: self.table.iter(), entries: PhantomData }
    }

    /// Iterates over all keys, weakly consistent.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10), (2, 20)].into();
    /// assert_eq!(map.keys().sum::<u64>(), 3);
    /// ```
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.iter().map(|(key, _)| key)
    }

    /// Iterates over all values, weakly consistent.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10), (2, 20)].into();
    /// assert_eq!(map.values().sum::<u64>(), 30);
    /// ```
    pub fn values(&self) -> impl Iterator<Item = V> {
        self.iter().map(|(_, value)| value)
    }

    /// Removes the entries for which `condition` holds, one at each step of the iterator, and
    /// yields them. Entries that the iterator has not reached when it is dropped stay.
    ///
    /// Each removal is atomic, and yields what the map held at that instant. `condition` runs again
    /// on a newer value if another thread changes the key meanwhile. Costs a walk over the table
    /// and a removal for each entry.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = (0..10).map(|key| (key, key)).collect();
    /// assert_eq!(map.extract_if(|_, value| value % 2 == 0).count(), 5);
    /// assert_eq!(map.len(), 5);
    /// ```
    pub fn extract_if<F>(&self, mut condition: F) -> impl Iterator<Item = (K, V)>
    where
        F: FnMut(&K, &V) -> bool,
    {
        self.iter().filter_map(move |(key, _)| {
            self.remove_if(&key, |value| condition(&key, value)).map(|value| (key, value))
        })
    }

    /// Removes all entries, one at each step of the iterator, and yields them; otherwise as
    /// [`extract_if`](Self::extract_if).
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = (0..10).map(|key| (key, key)).collect();
    /// assert_eq!(map.drain().count(), 10);
    /// assert!(map.is_empty());
    /// ```
    pub fn drain(&self) -> impl Iterator<Item = (K, V)> {
        self.iter().filter_map(|(key, _)| self.remove(&key).map(|value| (key, value)))
    }
}

impl<'m, K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S>> IntoIterator
    for &'m InlineMap<K, V, S, D>
{
    type Item = (K, V);
    type IntoIter = Iter<'m, K, V, S, D>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S>> IntoIterator for InlineMap<K, V, S, D> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V, S, D>;

    fn into_iter(self) -> Self::IntoIter {
        IntoIter { pairs: OwnedPairs::new(self.table), entries: PhantomData }
    }
}

impl<K: InlineKey, V: Inline, S: Hashing + Default, D: HashesWith<S> + Unshadowed>
    FromIterator<(K, V)> for InlineMap<K, V, S, D>
{
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter();
        let mut map = Self::with_capacity_and_hasher(entries.size_hint().0, S::default());
        map.extend(entries);
        map
    }
}

impl<K: InlineKey, V: Inline, S: Hashing + Default, D: HashesWith<S> + Unshadowed, const N: usize>
    From<[(K, V); N]> for InlineMap<K, V, S, D>
{
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S> + Unshadowed> Extend<(K, V)>
    for InlineMap<K, V, S, D>
{
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<'e, K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S> + Unshadowed> Extend<(&'e K, &'e V)>
    for InlineMap<K, V, S, D>
{
    fn extend<I: IntoIterator<Item = (&'e K, &'e V)>>(&mut self, entries: I) {
        for (&key, &value) in entries {
            self.insert(key, value);
        }
    }
}

/// Copies the entries of a [snapshot](InlineMap::snapshot) into a map of default options.
///
/// # Panics
/// If memory is refused.
impl<K: InlineKey, V: Inline, S: Hashing + Default, D: HashesWith<S> + Unshadowed> Clone
    for InlineMap<K, V, S, D>
{
    fn clone(&self) -> Self {
        let copy = || -> Result<Self, Error> {
            let copy = Self::build(S::default(), self.len())?;
            self.snapshot()?.for_each(|(key, value)| {
                copy.insert(key, value);
            });
            Ok(copy)
        };
        copy().unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Compares all entries; while other threads change a map the answer is of no one moment.
impl<K: InlineKey, V: Inline + PartialEq, S: Hashing, D: HashesWith<S>> PartialEq
    for InlineMap<K, V, S, D>
{
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.iter().all(|(key, value)| other.get(&key).is_some_and(|its| its == value))
    }
}

impl<K: InlineKey, V: Inline + Eq, S: Hashing, D: HashesWith<S>> Eq for InlineMap<K, V, S, D> {}

impl<K, V, S: Hashing, D: HashesWith<S>> fmt::Debug for InlineMap<K, V, S, D>
where
    K: InlineKey + fmt::Debug,
    V: Inline + fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
