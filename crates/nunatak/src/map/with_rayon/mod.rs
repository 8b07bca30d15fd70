//! Maps in rayon's parallel iterators (feature `rayon`).

pub(super) mod iterate;

use super::{BoxedMap, BoxedSet, ByteMap, InlineMap, InlineSet, PeaMultiMap, WideMap, WideSet};
use crate::entry::{Entries, Inline, InlineKey, KeyOf, Wide, WideKey};
use crate::hash::{Hashing, IdentityCodec};
use crate::table::wide::WideDesign;
use crate::table::{Design, HashesWith, Unshadowed};
use core::hash::{BuildHasher, Hash};
use rayon::iter::{FromParallelIterator, IntoParallelIterator, ParallelExtend, ParallelIterator};

impl<K, V, S: Hashing, D: HashesWith<S> + Unshadowed> ParallelExtend<(K, V)>
    for InlineMap<K, V, S, D>
where
    K: InlineKey + Send + Sync,
    V: Inline + Send + Sync,
    D::Table<S::HashCodec>: Sync,
{
    fn par_extend<I: IntoParallelIterator<Item = (K, V)>>(&mut self, entries: I) {
        let map = &*self;
        entries.into_par_iter().for_each(|(key, value)| {
            map.insert(key, value);
        });
    }
}

impl<K, V, S: Hashing + Default, D: HashesWith<S> + Unshadowed> FromParallelIterator<(K, V)>
    for InlineMap<K, V, S, D>
where
    K: InlineKey + Send + Sync,
    V: Inline + Send + Sync,
    D::Table<S::HashCodec>: Sync,
{
    fn from_par_iter<I: IntoParallelIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.par_extend(entries);
        map
    }
}

impl<K: WideKey, V: Wide, D: WideDesign> ParallelExtend<(K, V)> for WideMap<K, V, D> {
    fn par_extend<I: IntoParallelIterator<Item = (K, V)>>(&mut self, entries: I) {
        let map = &*self;
        entries.into_par_iter().for_each(|(key, value)| {
            map.insert(key, value);
        });
    }
}

impl<K: WideKey, V: Wide, D: WideDesign> FromParallelIterator<(K, V)> for WideMap<K, V, D> {
    fn from_par_iter<I: IntoParallelIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.par_extend(entries);
        map
    }
}

impl<K, V, S, D: Design> ParallelExtend<(K, V)> for BoxedMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
    D::Table<IdentityCodec>: Sync,
{
    fn par_extend<I: IntoParallelIterator<Item = (K, V)>>(&mut self, entries: I) {
        let map = &*self;
        entries.into_par_iter().for_each(|(key, value)| drop(map.put(key, value)));
    }
}

impl<K, V, S, D: Design> FromParallelIterator<(K, V)> for BoxedMap<K, V, S, D>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Default + Send + Sync,
    D::Table<IdentityCodec>: Sync,
{
    fn from_par_iter<I: IntoParallelIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.par_extend(entries);
        map
    }
}

impl<K: InlineKey + Send + Sync, S: Hashing, D: HashesWith<S> + Unshadowed> ParallelExtend<K>
    for InlineSet<K, S, D>
where
    D::Table<S::HashCodec>: Sync,
{
    fn par_extend<I: IntoParallelIterator<Item = K>>(&mut self, keys: I) {
        let set = &*self;
        keys.into_par_iter().for_each(|key| {
            set.insert(key);
        });
    }
}

impl<K: InlineKey + Send + Sync, S: Hashing + Default, D: HashesWith<S> + Unshadowed>
    FromParallelIterator<K> for InlineSet<K, S, D>
where
    D::Table<S::HashCodec>: Sync,
{
    fn from_par_iter<I: IntoParallelIterator<Item = K>>(keys: I) -> Self {
        let mut set = Self::default();
        set.par_extend(keys);
        set
    }
}

impl<K: WideKey, D: WideDesign> ParallelExtend<K> for WideSet<K, D> {
    fn par_extend<I: IntoParallelIterator<Item = K>>(&mut self, keys: I) {
        let set = &*self;
        keys.into_par_iter().for_each(|key| {
            set.insert(key);
        });
    }
}

impl<K: WideKey, D: WideDesign> FromParallelIterator<K> for WideSet<K, D> {
    fn from_par_iter<I: IntoParallelIterator<Item = K>>(keys: I) -> Self {
        let mut set = Self::default();
        set.par_extend(keys);
        set
    }
}

impl<K, S, D: Design> ParallelExtend<K> for BoxedSet<K, S, D>
where
    K: Hash + Eq + Send + Sync,
    S: BuildHasher + Send + Sync,
    D::Table<IdentityCodec>: Sync,
{
    fn par_extend<I: IntoParallelIterator<Item = K>>(&mut self, keys: I) {
        let set = &*self;
        keys.into_par_iter().for_each(|key| {
            set.insert(key);
        });
    }
}

impl<K, S, D: Design> FromParallelIterator<K> for BoxedSet<K, S, D>
where
    K: Hash + Eq + Send + Sync,
    S: BuildHasher + Default + Send + Sync,
    D::Table<IdentityCodec>: Sync,
{
    fn from_par_iter<I: IntoParallelIterator<Item = K>>(keys: I) -> Self {
        let mut set = Self::default();
        set.par_extend(keys);
        set
    }
}

impl<K, V, S: Hashing> ParallelExtend<(K, V)> for PeaMultiMap<K, V, S>
where
    K: InlineKey + Send + Sync,
    V: Inline + Send + Sync,
{
    fn par_extend<I: IntoParallelIterator<Item = (K, V)>>(&mut self, entries: I) {
        let map = &*self;
        entries.into_par_iter().for_each(|(key, value)| map.insert(key, value));
    }
}

impl<K, V, S: Hashing + Default> FromParallelIterator<(K, V)> for PeaMultiMap<K, V, S>
where
    K: InlineKey + Send + Sync,
    V: Inline + Send + Sync,
{
    fn from_par_iter<I: IntoParallelIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.par_extend(entries);
        map
    }
}

/// As `extend`, by all threads of the pool.
///
/// # Panics
/// As `extend`.
impl<E, D, K, V> ParallelExtend<(K, V)> for ByteMap<E, D>
where
    E: Entries,
    D: Design + Unshadowed,
    D::Table<E::HashCodec>: Sync,
    K: KeyOf<E::Naming> + Send,
    V: AsRef<[u8]> + Send,
{
    fn par_extend<I: IntoParallelIterator<Item = (K, V)>>(&mut self, entries: I) {
        let map = &*self;
        entries.into_par_iter().for_each(|(key, value)| {
            if let Err(error) = map.put(key.key(), value.as_ref()) {
                panic!("{error}");
            }
        });
    }
}

impl<E, D, K, V> FromParallelIterator<(K, V)> for ByteMap<E, D>
where
    E: Entries,
    D: Design + Unshadowed,
    D::Table<E::HashCodec>: Sync,
    K: KeyOf<E::Naming> + Send,
    V: AsRef<[u8]> + Send,
    Self: Default,
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
    use crate::entry::Format;
    use crate::{DlhtBoxedMap, DlhtBoxedSet, DlhtMap, DlhtRecordMap, DlhtSet, TurboBlobMap};

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
        let set: DlhtBoxedSet<String> =
            (0..5000_u64).into_par_iter().map(|key| (key / 2).to_string()).collect();
        assert!(set.len() == 2500 && set.contains("2499"));

        let blobs = (0..5000_u32).into_par_iter().map(|key| (key.to_le_bytes(), [7]));
        let records: DlhtRecordMap<Format<4, 1>> = blobs.clone().collect();
        let blobs: TurboBlobMap = blobs.collect();
        assert_eq!((blobs.len(), records.len()), (5000, 5000));
        assert_eq!(blobs.get(&[0xE7, 3, 0, 0]), records.get(&[0xE7, 3, 0, 0]));
    }
}
