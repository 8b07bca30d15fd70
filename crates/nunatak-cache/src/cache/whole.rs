//! The cache as a whole.

use super::leaving::Leaving;
use super::{Cache, Seen};
use crate::cause::Cause;
use crate::counters::Stats;
use crate::item::Item;
use crate::key::Token;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::sync::atomic::Ordering;

/// How many entries are taken out before their listener is called and their values are dropped.
const AT_ONCE: usize = 64;

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Removes every entry that `keep` rejects.
    ///
    /// Walks over all entries, and calls `keep` once for each, under a [guard](Self::pin); then
    /// removes those that it rejected, and that were not replaced meanwhile. An entry that another
    /// thread inserts meanwhile may stay unseen. Values that are being computed go to their callers
    /// and are not stored, since `keep` can't see them.
    ///
    /// # Panics
    /// If `keep` panics; nothing was removed. Also if a `Drop` of a value panics.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<u64, u64> = Cache::new(10);
    /// (0..4).for_each(|key| cache.insert(key, key));
    /// cache.retain(|key, _| key % 2 == 0);
    /// assert_eq!(cache.len(), 2);
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        self.flights.outdate_all();
        let rejected: Vec<Token> = {
            let guard = self.map.pin();
            // Also hidden entries: their computations may have committed, and be about to show them.
            let entries = guard
                .iter()
                .filter(|(key, item)| self.has_expired(item) || !keep(&key.key, &item.value));
            entries.map(|(key, _)| key.token).collect()
        };
        for some in rejected.chunks(AT_ONCE) {
            let mut leaving = Leaving::new(self);
            for token in some {
                let mut is_expired = false;
                let judge = |_: &_, item: &Item<V>| {
                    is_expired = self.has_expired(item);
                    true
                };
                if let Some(gone) = self.map.remove_entry_if(token, judge) {
                    let cause = if is_expired { Cause::Expired } else { Cause::Removed };
                    self.settle(gone, cause, &mut leaving);
                }
            }
        }
        self.reclaim();
    }

    /// Removes every entry for which `condition` holds: [`retain`](Self::retain) by the opposite
    /// condition.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<String, u64> = Cache::new(10);
    /// cache.insert("user/1".into(), 1);
    /// cache.invalidate_entries_if(|key, _| key.starts_with("user/"));
    /// assert!(cache.is_empty());
    /// ```
    pub fn invalidate_entries_if(&self, mut condition: impl FnMut(&K, &V) -> bool) {
        self.retain(|key, value| !condition(key, value));
    }

    /// Removes every entry, one after the other, with [`Cause::Removed`], and drops all values that no
    /// guard can see. An entry that another thread inserts meanwhile may stay.
    ///
    /// # Panics
    /// If a `Drop` of a value panics.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<u64, u64> = Cache::new(10);
    /// cache.insert(1, 10);
    /// cache.clear();
    /// assert!(cache.is_empty() && cache.weight() == 0);
    /// ```
    pub fn clear(&self) {
        self.retain(|_, _| false);
    }

    /// The same as [`clear`](Self::clear), under the name that other caches have for it.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<u64, u64> = Cache::new(10);
    /// cache.insert(1, 10);
    /// cache.invalidate_all();
    /// assert!(cache.is_empty());
    /// ```
    pub fn invalidate_all(&self) {
        self.clear();
    }

    /// Takes out every entry that has expired, and drops all values that no guard can see.
    ///
    /// No cache needs this call. An expired entry is never returned, and each insert takes out up to
    /// four of its shard, those that expired first. Call it to free the memory of expired entries
    /// while there are no inserts. Takes the lock of one shard after the other, for 64 entries at a
    /// time.
    ///
    /// # Panics
    /// If a `Drop` of a value panics.
    ///
    /// ```
    /// # use nunatak_cache::{Builder, Cache, ManualClock};
    /// # use std::{sync::Arc, time::Duration};
    /// let clock = Arc::new(ManualClock::new());
    /// let cache: Cache<u64, u64> = Builder::new(10).clock(clock.clone()).build();
    /// cache.insert_with_ttl(1, 10, Duration::from_secs(1));
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(cache.len(), 1);
    /// cache.run_pending();
    /// assert_eq!(cache.len(), 0);
    /// ```
    pub fn run_pending(&self) {
        let now = self.time_if_any();
        for shard in 0..self.shards.len() {
            loop {
                let mut leaving = Leaving::new(self);
                let mut queues = self.queues(shard);
                let may_be_more = self.take_due(&mut queues, now, AT_ONCE, &mut leaving);
                // The lock ends before `leaving` does.
                drop(queues);
                if !may_be_more {
                    break;
                }
            }
        }
        self.reclaim();
    }

    /// Iterates over copies of all entries that have not expired. No entry counts as used.
    ///
    /// Weakly consistent: an entry that stays is yielded exactly once. Holds a guard of the map; see
    /// [`Guard::iter`](crate::Guard::iter) for references.
    ///
    /// # Panics
    /// If `Clone` panics.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<u64, u64> = Cache::new(10);
    /// cache.insert(1, 10);
    /// assert_eq!(cache.iter().collect::<Vec<_>>(), [(1, 10)]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (K, V)>
    where
        K: Clone,
        V: Clone,
    {
        let live = |(_, item): &(_, Item<V>)| self.see(item) == Seen::Live;
        self.map.iter().filter(live).map(|(key, item)| (key.key, item.value))
    }
}

impl<K, V, S> Cache<K, V, S> {
    /// Returns the number of entries, with those that have expired and were not taken out yet.
    /// Touches a cache line for each thread that has used the cache.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// assert_eq!(Cache::<u64, u64>::new(10).len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns whether [`len`](Self::len) is zero.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// assert!(Cache::<u64, u64>::new(10).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Returns the weight of all entries, with those that have expired and were not taken out yet,
    /// and with those that are being inserted.
    ///
    /// It never exceeds the [`capacity`](Self::capacity), at no moment and under any number of
    /// threads: an insert counts the weight of its entry before the map has it, and a removal
    /// subtracts it afterwards. (The map itself may have one more entry, for each thread that is
    /// inside of an insert of a key which other threads remove: it is gone when the insert returns.)
    /// Values that have left and that are not dropped yet are not counted;
    /// see [when values are dropped](Self#when-values-are-dropped).
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<u64, u64> = Cache::new(10);
    /// (0..100).for_each(|key| cache.insert(key, key));
    /// assert_eq!(cache.weight(), 10);
    /// ```
    pub fn weight(&self) -> u64 {
        // Acquire: the entries that are not counted any more are not in the map either.
        self.weight.load(Ordering::Acquire)
    }

    /// Returns the largest weight that the cache can have.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// assert_eq!(Cache::<u64, u64>::new(10).capacity(), 10);
    /// ```
    pub fn capacity(&self) -> u64 {
        self.settings.capacity
    }

    /// Returns what the cache has counted since it was made. Reads a cache line or two of each thread
    /// that has used it.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<u64, u64> = Cache::new(10);
    /// cache.get_or_insert_with(&1, || 10);
    /// assert_eq!((cache.stats().misses, cache.stats().computations), (1, 1));
    /// ```
    pub fn stats(&self) -> Stats {
        self.counters.stats()
    }
}

impl<K: Hash + Eq + fmt::Debug, V: fmt::Debug, S: BuildHasher> fmt::Debug for Cache<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.pin().iter()).finish()
    }
}
