//! Lookups and changes under a guard that is held.

use crate::entry::{Inline, InlineKey};
use crate::hash::{Hashing, RandomState};
use crate::map::inline::InlineMap;
use crate::sync::GuardPin;
use crate::table::{ByWord, Change, Dlht, HashesWith, PairTable};
use core::fmt;
use core::ops::Deref;

/// A guard on an [`InlineMap`], through which lookups announce nothing, and inserts and removals know where this thread
/// counts entries; see [`pin`](InlineMap::pin). All other operations of the map can be called on it as well.
///
/// ```
/// use nunatak::DlhtMap;
/// let map: DlhtMap<u64, u64> = (0..100).map(|key| (key, 2 * key)).collect();
/// let guard = map.pin();
/// assert_eq!((0..100).filter_map(|key| guard.get(&key)).sum::<u64>(), 9900);
/// guard.insert(100, 200);
/// assert!(guard.contains_key(&100));
/// ```
pub struct InlineGuard<'m, K, V, S: Hashing = RandomState, D: HashesWith<S> = Dlht> {
    map: &'m InlineMap<K, V, S, D>,
    pin: GuardPin<'m>,
}

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S>> InlineMap<K, V, S, D> {
    /// Returns a guard, for many operations one after the other. A lookup tells other threads that it
    /// reads an index, so that none frees the index meanwhile, and takes that back: a tenth of the time
    /// of a [`DlhtMap`](crate::DlhtMap)'s lookup. A guard does it once. An insert or a removal looks up
    /// where its thread counts entries: again a tenth, which a guard does once. Old indexes, which growth leaves
    /// behind, wait for the guard; so drop it when the lookups are done. Lookups through the guard see
    /// the map as it is, not as it was when the guard was taken. Operations of the other maps take the same
    /// time with a guard and without.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// let guard = map.pin();
    /// map.insert(2, 20);
    /// assert_eq!([1, 2, 3].map(|key| guard.get(&key)), [Some(10), Some(20), None]);
    /// ```
    #[inline]
    pub fn pin(&self) -> InlineGuard<'_, K, V, S, D> {
        InlineGuard { map: self, pin: self.table.registry().guard() }
    }
}

impl<K: InlineKey, V: Inline, S: Hashing, D: HashesWith<S>> InlineGuard<'_, K, V, S, D> {
    /// As [`InlineMap::get`]: returns the value of a key.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// assert_eq!(map.pin().get(&1), Some(10));
    /// ```
    #[inline]
    pub fn get(&self, key: &K) -> Option<V> {
        self.map.table.find_guarded(&self.pin, key.to_word(), ByWord).map(V::from_word)
    }

    /// As [`InlineMap::contains_key`]: returns whether the key is present.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// assert!(map.pin().contains_key(&1) && !map.pin().contains_key(&2));
    /// ```
    #[inline]
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// As [`InlineMap::insert`]: stores a value, and returns the one that it replaced.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// let guard = map.pin();
    /// assert_eq!((guard.insert(1, 10), guard.insert(1, 11)), (None, Some(10)));
    /// ```
    #[inline]
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        let word = value.to_word();
        let change = |_| Change::To(word);
        let table = &self.map.table;
        table.apply_guarded(&self.pin, key.to_word(), &ByWord, Some(word), change).map(V::from_word)
    }

    /// As [`InlineMap::remove`]: removes a key, and returns its value.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// let guard = map.pin();
    /// assert_eq!((guard.remove(&1), guard.remove(&1)), (Some(10), None));
    /// ```
    #[inline]
    pub fn remove(&self, key: &K) -> Option<V> {
        self.map.table.remove_guarded(&self.pin, key.to_word()).map(V::from_word)
    }
}

impl<K, V, S: Hashing, D: HashesWith<S>> Deref for InlineGuard<'_, K, V, S, D> {
    type Target = InlineMap<K, V, S, D>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        self.map
    }
}

impl<K, V, S: Hashing, D: HashesWith<S>> fmt::Debug for InlineGuard<'_, K, V, S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineGuard").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use crate::{DlhtLocalMap, DlhtMap, IcebergMap, PeaMap, TurboMap};

    /// The guard is held while the map grows from nothing, shrinks, and loses its keys.
    #[test]
    fn lookups_see_the_map_as_it_is() {
        macro_rules! check {
            ($map:ty) => {
                let map = <$map>::new();
                let guard = map.pin();
                for key in 0..20_000_u64 {
                    assert_eq!(guard.get(&key), None);
                    map.insert(key, key + 1);
                    assert!(guard.get(&key) == Some(key + 1) && guard.contains_key(&(key / 2)));
                }
                (0..19_900).for_each(|key| assert_eq!(guard.remove(&key), Some(key + 1)));
                guard.shrink_to_fit().unwrap();
                let left = (0..20_001).filter(|key| guard.get(key) == Some(key + 1));
                assert_eq!(left.count(), 100);
            };
        }
        check!(DlhtMap<u64, u64>);
        check!(DlhtLocalMap<u64, u64>);
        check!(IcebergMap<u64, u64>);
        check!(PeaMap<u64, u64>);
        check!(TurboMap<u64, u64>);
    }

    /// While the map grows from nothing, and each thread holds a guard.
    #[test]
    fn changes_through_guards_are_counted() {
        let map: DlhtMap<u64, u64> = DlhtMap::new();
        std::thread::scope(|scope| {
            for thread in 0..20_u64 {
                let map = &map;
                scope.spawn(move || {
                    let guard = map.pin();
                    for key in (0..3000).map(|key| key * 20 + thread) {
                        assert_eq!((guard.insert(key, 1), guard.insert(key, 2)), (None, Some(1)));
                        let is_odd = key / 20 % 2 == 1;
                        assert!(
                            !is_odd
                                || guard.remove(&key) == Some(2) && guard.remove(&key).is_none()
                        );
                    }
                });
            }
        });
        assert_eq!((map.len(), map.iter().count()), (30_000, 30_000));
    }

    #[test]
    fn lookups_go_on_while_other_threads_grow_the_map() {
        let map: DlhtMap<u64, u64> = (0..1000).map(|key| (key, key)).collect();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for key in 1000..200_000 {
                    assert_eq!(map.insert(key, key), None);
                }
            });
            let guard = map.pin();
            while !writer.is_finished() {
                assert!((0..1000).all(|key| guard.get(&key) == Some(key)));
            }
        });
        assert_eq!(map.len(), 200_000);
    }
}
