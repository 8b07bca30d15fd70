//! Maps in rayon's parallel iterators (feature `rayon`).

use super::{DlhtBoxedMap, DlhtMap, DlhtSet};
use crate::entry::{Inline, InlineKey};
use crate::hash::Hashing;
use core::hash::{BuildHasher, Hash};
use rayon::iter::{
    FromParallelIterator, IntoParallelIterator, ParallelBridge, ParallelExtend, ParallelIterator,
};

impl<K, V, S: Hashing> DlhtMap<K, V, S>
where
    K: InlineKey + Send + Sync,
    V: Inline + Send + Sync,
{
    /// Copies of all entries in parallel, in no order; weakly consistent, as
    /// [`iter`](Self::iter). The walk over the bins is one thread's at a time, what is
    /// done with the entries is not.
    ///
    /// ```
    /// use nunatak::DlhtMap;
    /// use rayon::iter::ParallelIterator;
    /// let map: DlhtMap<u64, u64> = (0..100).map(|key| (key, 2 * key)).collect();
    /// assert_eq!(map.par_iter().map(|(_, value)| value).sum::<u64>(), 9900);
    /// ```
    pub fn par_iter(&self) -> impl ParallelIterator<Item = (K, V)> {
        self.iter().par_bridge()
    }
}

impl<K, V, S: Hashing> ParallelExtend<(K, V)> for DlhtMap<K, V, S>
where
    K: InlineKey + Send + Sync,
    V: Inline + Send + Sync,
{
    fn par_extend<I: IntoParallelIterator<Item = (K, V)>>(&mut self, entries: I) {
        let map = &*self;
        entries.into_par_iter().for_each(|(key, value)| {
            map.insert(key, value);
        });
    }
}

impl<K, V, S: Hashing + Default> FromParallelIterator<(K, V)> for DlhtMap<K, V, S>
where
    K: InlineKey + Send + Sync,
    V: Inline + Send + Sync,
{
    fn from_par_iter<I: IntoParallelIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.par_extend(entries);
        map
    }
}

impl<K, V, S> ParallelExtend<(K, V)> for DlhtBoxedMap<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    fn par_extend<I: IntoParallelIterator<Item = (K, V)>>(&mut self, entries: I) {
        let map = &*self;
        entries.into_par_iter().for_each(|(key, value)| drop(map.put(key, value)));
    }
}

impl<K, V, S> FromParallelIterator<(K, V)> for DlhtBoxedMap<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Default + Send + Sync,
{
    fn from_par_iter<I: IntoParallelIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.par_extend(entries);
        map
    }
}

impl<K: InlineKey + Send + Sync, S: Hashing> ParallelExtend<K> for DlhtSet<K, S> {
    fn par_extend<I: IntoParallelIterator<Item = K>>(&mut self, keys: I) {
        let set = &*self;
        keys.into_par_iter().for_each(|key| {
            set.insert(key);
        });
    }
}

impl<K: InlineKey + Send + Sync, S: Hashing + Default> FromParallelIterator<K> for DlhtSet<K, S> {
    fn from_par_iter<I: IntoParallelIterator<Item = K>>(keys: I) -> Self {
        let mut set = Self::new();
        set.par_extend(keys);
        set
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn entries_are_collected_and_visited_once() {
        let entries = (0..50_000_u64).into_par_iter().map(|key| (key, key * key));
        let map: DlhtMap<u64, u64> = entries.clone().collect();
        assert_eq!(map.len(), 50_000);
        let mut keys: Vec<u64> = map.par_iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        assert!(keys.into_iter().eq(0..50_000));

        let boxed: DlhtBoxedMap<String, u64> =
            entries.map(|(key, square)| (key.to_string(), square)).collect();
        assert_eq!((boxed.len(), boxed.get("300")), (50_000, Some(90_000)));

        let set: DlhtSet<u64> = (0..50_000_u64).into_par_iter().map(|key| key / 2).collect();
        assert_eq!(set.len(), 25_000);
    }
}
