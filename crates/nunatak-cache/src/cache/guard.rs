//! [`Guard`]: references to values.

use super::{Cache, Seen};
use crate::item::Item;
use crate::key::{Key, PassOn, Query};
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use nunatak::{BoxedGuard, RandomState};

/// A guard on the entries of a [`Cache`]: returns references instead of copies.
///
/// A reference stays valid as long as the guard, also if its entry is evicted, replaced or removed
/// meanwhile. No operation waits for a guard. Entries that leave are not dropped while a guard lives
/// that may have seen them, so keep guards short.
///
/// ```
/// use nunatak_cache::Cache;
/// let cache: Cache<String, String> = Cache::new(10);
/// cache.insert("a".into(), "b".into());
/// let guard = cache.pin();
/// let value: Option<&String> = guard.get("a");
/// cache.remove("a");
/// assert_eq!(value.unwrap(), "b");
/// ```
pub struct Guard<'c, K, V, S = RandomState> {
    cache: &'c Cache<K, V, S>,
    guard: BoxedGuard<'c, Key<K>, Item<V>, PassOn>,
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Returns a guard. Costs a store in memory of this thread.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<u64, u64> = Cache::new(10);
    /// assert_eq!(cache.pin().get(&1), None);
    /// ```
    pub fn pin(&self) -> Guard<'_, K, V, S> {
        Guard { cache: self, guard: self.map.pin() }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Guard<'_, K, V, S> {
    /// Returns a reference to the key's value, and counts a hit or a miss: as [`Cache::get`],
    /// without a copy. An expired entry is not returned; it stays until another operation removes
    /// it.
    ///
    /// # Panics
    /// If the hasher or `Eq` panics.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<u64, u64> = Cache::new(10);
    /// cache.insert(1, 10);
    /// assert_eq!(cache.pin().get(&1), Some(&10));
    /// ```
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let query = Query { hash: self.cache.hash(key), key };
        let item = self.guard.get(&query);
        let found = item.filter(|item| self.cache.use_item(item) == Seen::Live);
        self.cache.count_get(found.is_some());
        found.map(|item| &item.value)
    }

    /// Iterates over references to all entries that have not expired; no entry counts as used.
    /// Weakly consistent: an entry that stays is yielded once.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<u64, u64> = Cache::new(10);
    /// cache.insert(1, 10);
    /// assert_eq!(cache.pin().iter().collect::<Vec<_>>(), [(&1, &10)]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let live = |(_, item): &(&Key<K>, &Item<V>)| self.cache.see(item) == Seen::Live;
        self.guard.iter().filter(live).map(|(key, item)| (&key.key, &item.value))
    }
}

impl<K, V, S> fmt::Debug for Guard<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}
