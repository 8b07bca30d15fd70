//! Removals of single keys.

use super::Cache;
use super::leaving::Leaving;
use crate::cause::Cause;
use crate::item::Item;
use crate::key::{Key, Query};
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Removes the key and returns a copy of its value, if it had not expired.
    ///
    /// The value of a computation of this key that runs at this moment goes to its callers, and is
    /// not stored. Costs a change of the map and the lock of a shard of the queues.
    ///
    /// # Panics
    /// If the hasher, `Eq`, `Clone` or a `Drop` of a value panics.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<u64, u64> = Cache::new(10);
    /// cache.insert(1, 10);
    /// assert_eq!((cache.remove(&1), cache.remove(&1)), (Some(10), None));
    /// ```
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        self.take(key, |_, _| true, V::clone)
    }

    /// Removes the key, and returns whether it was there and had not expired. As
    /// [`remove`](Self::remove), without a copy.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<u64, u64> = Cache::new(10);
    /// cache.insert(1, 10);
    /// assert!(cache.invalidate(&1) && !cache.invalidate(&1));
    /// ```
    pub fn invalidate<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.take(key, |_, _| true, |_| ()).is_some()
    }

    /// Removes the key if `condition` holds for its entry, and returns a copy of its value.
    ///
    /// The entry that is removed is the one that `condition` saw. If the entry changes meanwhile,
    /// `condition` runs again, on the new one. Otherwise as [`remove`](Self::remove).
    ///
    /// # Panics
    /// Also if `condition` panics; the entry stays.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<u64, u64> = Cache::new(10);
    /// cache.insert(1, 10);
    /// assert_eq!(cache.remove_if(&1, |_, value| *value > 10), None);
    /// assert_eq!(cache.remove_if(&1, |_, value| *value > 9), Some(10));
    /// ```
    pub fn remove_if<Q>(&self, key: &Q, condition: impl FnMut(&K, &V) -> bool) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        self.take(key, condition, V::clone)
    }

    fn take<Q, R>(
        &self,
        key: &Q,
        mut condition: impl FnMut(&K, &V) -> bool,
        f: impl FnOnce(&V) -> R,
    ) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let query = Query { hash: self.hash(key), key };
        self.flights.outdate(query.hash, key);
        // Also of a hidden entry: its computation may have committed, and be about to show it.
        let mut is_expired = false;
        let judge = |key: &Key<K>, item: &Item<V>| {
            is_expired = self.has_expired(item);
            is_expired || condition(&key.key, &item.value)
        };
        let gone = self.map.remove_entry_if(&query, judge)?;
        let mut leaving = Leaving::new(self);
        self.settle(gone, if is_expired { Cause::Expired } else { Cause::Removed }, &mut leaving);
        // `leaving` still has the entry, also if `f` panics.
        leaving.first().filter(|_| !is_expired).map(f)
    }
}
