//! Lookups under a guard that is held.

use crate::entry::{Inline, InlineKey};
use crate::hash::{Hashing, RandomState};
use crate::map::inline::InlineMap;
use crate::sync::GuardPin;
use crate::table::{ByWord, Dlht, HashesWith, PairTable};
use core::fmt;
use core::ops::Deref;

/// A guard on an [`InlineMap`], through which lookups announce nothing; see
/// [`pin`](InlineMap::pin). All other operations of the map can be called on it as well.
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
    /// Returns a guard, for many lookups one after the other. A lookup tells other threads that it
    /// reads an index, so that none frees the index meanwhile, and takes that back: a tenth of the time
    /// of a [`DlhtMap`](crate::DlhtMap)'s lookup. A guard does it once. Old indexes, which growth leaves
    /// behind, wait for the guard; so drop it when the lookups are done. Lookups through the guard see
    /// the map as it is, not as it was when the guard was taken. Lookups of the other maps take the same
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
