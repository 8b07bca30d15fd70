//! Lookups.

use super::Cache;
use super::leaving::Leaving;
use crate::cause::Cause;
use crate::clock::{NEVER, Nanos};
use crate::counters::Count;
use crate::item::Item;
use crate::key::Query;
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};

/// What a lookup may see of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Live,
    Expired,
    Hidden,
}

impl<K, V, S> Cache<K, V, S> {
    /// A use of an entry is noted once in this time.
    fn precision(&self) -> Nanos {
        self.settings.idle >> 10
    }

    /// Returns whether the entry has expired, and the time if it was read.
    #[inline(always)]
    fn expired_at(&self, item: &Item<V>) -> (bool, Nanos) {
        if item.deadline == NEVER && self.settings.idle == NEVER {
            return (false, 0);
        }
        let now = self.settings.clock.now();
        (now >= item.ends(self.settings.idle), now)
    }

    /// Whether the entry has expired, hidden or not.
    pub(super) fn has_expired(&self, item: &Item<V>) -> bool {
        self.expired_at(item).0
    }

    /// Returns whether the entry may be returned, and the time if it was read.
    #[inline(always)]
    fn seen_at(&self, item: &Item<V>) -> (Seen, Nanos) {
        if item.is_hidden() {
            return (Seen::Hidden, 0);
        }
        let (expired, now) = self.expired_at(item);
        (if expired { Seen::Expired } else { Seen::Live }, now)
    }

    #[inline(always)]
    pub(super) fn see(&self, item: &Item<V>) -> Seen {
        self.seen_at(item).0
    }

    /// As [`see`](Self::see), and counts as a use for eviction and for the time to idle.
    #[inline(always)]
    pub(super) fn use_item(&self, item: &Item<V>) -> Seen {
        let (seen, now) = self.seen_at(item);
        if seen == Seen::Live {
            item.hit();
            if self.settings.idle != NEVER {
                item.used(now, self.precision());
            }
        }
        seen
    }

    #[inline(always)]
    pub(super) fn count_get(&self, found: bool) {
        self.counters.count(if found { Count::Hit } else { Count::Miss });
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Runs `f` on the key's value, if the key is there and has not expired.
    ///
    /// Costs as [`get`](Self::get), without a copy. The entry may be evicted or replaced before `f`
    /// ends; the value stays valid.
    ///
    /// # Panics
    /// If the hasher, `Eq` or `f` panics.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<String, Vec<u8>> = Cache::new(10);
    /// cache.insert("a".into(), vec![1, 2]);
    /// assert_eq!(cache.get_with("a", Vec::len), Some(2));
    /// ```
    #[inline]
    pub fn get_with<Q, R>(&self, key: &Q, f: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let found = self.look(self.hash(key), key, |item| self.use_item(item), f);
        self.count_get(found.is_some());
        found
    }

    /// Returns a copy of the key's value, if the key is there and has not expired.
    ///
    /// Touches what a get of a `DlhtBoxedMap` touches, and notes in the entry that it was used: one
    /// byte, which is not written any more once it has counted three uses. Reads the clock only if
    /// the entry can expire. An expired entry is removed, which takes a lock.
    ///
    /// # Panics
    /// If the hasher, `Eq` or `Clone` panics.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<String, u64> = Cache::new(10);
    /// cache.insert("a".into(), 1);
    /// assert_eq!((cache.get("a"), cache.get("b")), (Some(1), None));
    /// ```
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        self.get_with(key, V::clone)
    }

    /// Returns a copy of the key's value, and leaves no trace: no effect on eviction, on the time to
    /// idle, or on [`stats`](Self::stats).
    ///
    /// # Panics
    /// As [`get`](Self::get).
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<u64, u64> = Cache::new(10);
    /// cache.insert(1, 10);
    /// assert_eq!(cache.peek(&1), Some(10));
    /// assert_eq!(cache.stats().hits, 0);
    /// ```
    pub fn peek<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        self.peek_hashed(self.hash(key), key)
    }

    pub(crate) fn peek_hashed<Q>(&self, hash: u64, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        self.look(hash, key, |item| self.see(item), V::clone)
    }

    /// Returns whether the key is there and has not expired. As [`peek`](Self::peek) otherwise.
    ///
    /// # Panics
    /// If the hasher or `Eq` panics.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<u64, u64> = Cache::new(10);
    /// cache.insert(1, 10);
    /// assert!(cache.contains_key(&1) && !cache.contains_key(&2));
    /// ```
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.look(self.hash(key), key, |item| self.see(item), |_| ()).is_some()
    }

    /// Runs `f` on a live value. Removes an expired one.
    #[inline(always)]
    fn look<Q, R>(
        &self,
        hash: u64,
        key: &Q,
        see: impl FnOnce(&Item<V>) -> Seen,
        f: impl FnOnce(&V) -> R,
    ) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let query = Query { hash, key };
        let found = self.map.get_with(&query, |item| match see(item) {
            Seen::Live => Ok(f(&item.value)),
            not => Err(not),
        });
        match found? {
            Ok(result) => Some(result),
            Err(Seen::Expired) => {
                self.remove_expired(&query);
                None
            }
            Err(_) => None,
        }
    }

    #[cold]
    fn remove_expired<Q>(&self, query: &Query<'_, Q>)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let is_expired = |_: &_, item: &Item<V>| self.see(item) == Seen::Expired;
        if let Some(gone) = self.map.remove_entry_if(query, is_expired) {
            let mut leaving = Leaving::new(self);
            self.settle(gone, Cause::Expired, &mut leaving);
        }
    }
}
