//! [`WideMap`] and iterators.

use super::{Of, WideMap};
use crate::entry::{Wide, WideKey};
use crate::error::Error;
use crate::table::wide::{WideDesign, WideIter};
use core::fmt;

/// An iterator over copies of all entries of a [`WideMap`], weakly consistent.
///
/// ```
/// use nunatak::DlhtWideMap;
/// let map: DlhtWideMap<u64, u128> = [(1, 10), (2, 20)].into();
/// let mut sum = 0;
/// for (_, value) in &map {
///     sum += value;
/// }
/// assert_eq!(sum, 30);
/// ```
pub struct Iter<'m, K: Wide, V: Wide, D: WideDesign> {
    entries: WideIter<'m, D::Shape<Of<K, V>>>,
}

/// An iterator over the entries of a [`WideMap`] that it owns.
///
/// ```
/// use nunatak::DlhtWideMap;
/// let map: DlhtWideMap<u64, u128> = [(1, 10), (2, 20)].into();
/// assert_eq!(map.into_iter().map(|(_, value)| value).sum::<u128>(), 30);
/// ```
pub struct IntoIter<K, V>(std::vec::IntoIter<(K, V)>);

impl<K: WideKey, V: Wide, D: WideDesign> Iterator for Iter<'_, K, V, D> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        let (key, value) = self.entries.next()?;
        Some((K::from_words(key), V::from_words(value)))
    }
}

impl<K, V> Iterator for IntoIter<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<K, V> ExactSizeIterator for IntoIter<K, V> {}

impl<K: Wide, V: Wide, D: WideDesign> fmt::Debug for Iter<'_, K, V, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}

impl<K, V> fmt::Debug for IntoIter<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter").finish_non_exhaustive()
    }
}

impl<K: WideKey, V: Wide, D: WideDesign> WideMap<K, V, D> {
    /// [`ConcurrentMap::iter`](crate::ConcurrentMap::iter): iterates over all entries, weakly consistent.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = (0..10).map(|key| (key, 1)).collect();
    /// assert_eq!(map.iter().map(|(key, _)| key).sum::<u64>(), 45);
    /// ```
    pub fn iter(&self) -> Iter<'_, K, V, D> {
        Iter { entries: self.table.iter() }
    }

    /// Iterates over all keys, weakly consistent.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = [(1, 10), (2, 20)].into();
    /// assert_eq!(map.keys().sum::<u64>(), 3);
    /// ```
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.iter().map(|(key, _)| key)
    }

    /// Iterates over all values, weakly consistent.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = [(1, 10), (2, 20)].into();
    /// assert_eq!(map.values().sum::<u128>(), 30);
    /// ```
    pub fn values(&self) -> impl Iterator<Item = V> {
        self.iter().map(|(_, value)| value)
    }

    /// Removes the entries for which `condition` holds, one at each step of the iterator, and yields them. Entries
    /// that the iterator has not reached when it is dropped stay.
    ///
    /// Each removal is atomic, and yields what the map held at that instant. `condition` runs again on a newer
    /// value if another thread changes the key meanwhile.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = (0..10).map(|key| (key, key.into())).collect();
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

    /// Removes all entries, one at each step of the iterator, and yields them.
    ///
    /// ```
    /// # use nunatak::DlhtWideMap;
    /// let map: DlhtWideMap<u64, u128> = (0..10).map(|key| (key, 1)).collect();
    /// assert_eq!(map.drain().count(), 10);
    /// assert!(map.is_empty());
    /// ```
    pub fn drain(&self) -> impl Iterator<Item = (K, V)> {
        self.iter().filter_map(|(key, _)| self.remove(&key).map(|value| (key, value)))
    }
}

impl<'m, K: WideKey, V: Wide, D: WideDesign> IntoIterator for &'m WideMap<K, V, D> {
    type Item = (K, V);
    type IntoIter = Iter<'m, K, V, D>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K: WideKey, V: Wide, D: WideDesign> IntoIterator for WideMap<K, V, D> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    fn into_iter(self) -> Self::IntoIter {
        IntoIter(self.iter().collect::<Vec<_>>().into_iter())
    }
}

impl<K: WideKey, V: Wide, D: WideDesign> FromIterator<(K, V)> for WideMap<K, V, D> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter();
        let mut map = Self::with_capacity(entries.size_hint().0);
        map.extend(entries);
        map
    }
}

impl<K: WideKey, V: Wide, const N: usize, D: WideDesign> From<[(K, V); N]> for WideMap<K, V, D> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: WideKey, V: Wide, D: WideDesign> Extend<(K, V)> for WideMap<K, V, D> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<'e, K: WideKey, V: Wide, D: WideDesign> Extend<(&'e K, &'e V)> for WideMap<K, V, D> {
    fn extend<I: IntoIterator<Item = (&'e K, &'e V)>>(&mut self, entries: I) {
        self.extend(entries.into_iter().map(|(&key, &value)| (key, value)));
    }
}

/// Copies the entries of a [snapshot](WideMap::snapshot).
///
/// # Panics
/// If memory is refused.
impl<K: WideKey, V: Wide, D: WideDesign> Clone for WideMap<K, V, D> {
    fn clone(&self) -> Self {
        let copy = || -> Result<Self, Error> {
            let copy = Self::try_with_capacity(self.len())?;
            self.snapshot()?.for_each(|(key, value)| {
                copy.insert(key, value);
            });
            Ok(copy)
        };
        copy().unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Compares all entries; while other threads change a map the answer is of no one moment.
impl<K: WideKey, V: Wide + PartialEq, D: WideDesign> PartialEq for WideMap<K, V, D> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.iter().all(|(key, value)| other.get(&key).is_some_and(|its| its == value))
    }
}

impl<K: WideKey, V: Wide + Eq, D: WideDesign> Eq for WideMap<K, V, D> {}

impl<K: WideKey + fmt::Debug, V: Wide + fmt::Debug, D: WideDesign> fmt::Debug for WideMap<K, V, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
