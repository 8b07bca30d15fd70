//! [`PeaBlobMultiMap`] and parallel iterators (feature `rayon`).

use super::PeaBlobMultiMap;
use crate::entry::{Entries, Inline};
use crate::hash::RandomState;
use crate::map::with_rayon::iterate::{MultiPairs, ParallelPairs};
use core::hash::BuildHasher;
use rayon::iter::{FromParallelIterator, IntoParallelIterator, ParallelExtend, ParallelIterator};

impl<V: Inline + Send + Sync, S: BuildHasher + Send + Sync + 'static> PeaBlobMultiMap<V, S> {
    /// Iterates over copies of all keys with all of their values in parallel, in no order, weakly
    /// consistent as [`iter`](Self::iter): see [`InlineMap::par_iter`](crate::InlineMap::par_iter).
    /// One thread gets all values of a key. A guard of the calling thread keeps all keys until the
    /// iteration ends.
    ///
    /// ```
    /// use nunatak::PeaBlobMultiMap;
    /// use rayon::iter::ParallelIterator;
    /// let map: PeaBlobMultiMap<u64> = (0..100).map(|n| ((n % 3).to_string(), n)).collect();
    /// assert_eq!(map.par_iter().map(|(_, value)| value).sum::<u64>(), 4950);
    /// ```
    pub fn par_iter<'m>(&'m self) -> impl ParallelIterator<Item = (Vec<u8>, V)>
    where
        MultiPairs<'m, RandomState>: Send,
    {
        let item = |(number, value)| {
            // SAFETY: invariants 1 to 3. `pin` took a guard before any thread read a pair, and it
            // lives until every thread has ended.
            let key: &[u8] = unsafe { self.keys.entries.found(0, number) };
            (key.to_vec(), V::from_word(value))
        };
        ParallelPairs { table: &self.values.table, pin: || self.keys.guard(), item }
    }
}

/// As `extend`, by all threads of the pool.
///
/// # Panics
/// As `extend`.
impl<K, V, S> ParallelExtend<(K, V)> for PeaBlobMultiMap<V, S>
where
    K: AsRef<[u8]> + Send,
    V: Inline + Send + Sync,
    S: BuildHasher + Send + Sync + 'static,
{
    fn par_extend<I: IntoParallelIterator<Item = (K, V)>>(&mut self, entries: I) {
        let map = &*self;
        entries.into_par_iter().for_each(|(key, value)| {
            if let Err(error) = map.insert(key.as_ref(), value) {
                panic!("{error}");
            }
        });
    }
}

impl<K, V, S> FromParallelIterator<(K, V)> for PeaBlobMultiMap<V, S>
where
    K: AsRef<[u8]> + Send,
    V: Inline + Send + Sync,
    S: BuildHasher + Default + Send + Sync + 'static,
{
    fn from_par_iter<I: IntoParallelIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.par_extend(entries);
        map
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_collected_and_visited_once() {
        let entries = (0..50_000_u64).into_par_iter().map(|n| ((n / 2).to_string(), n));
        let map: PeaBlobMultiMap<u64> = entries.collect();
        assert_eq!((map.len(), map.distinct_keys().count()), (50_000, 25_000));
        let mut pairs: Vec<(u64, Vec<u8>)> =
            map.par_iter().map(|(key, value)| (value, key)).collect();
        pairs.sort_unstable();
        let expected = (0..50_000).map(|n| (n, (n / 2).to_string().into_bytes()));
        assert!(pairs.into_iter().eq(expected));
    }
}
