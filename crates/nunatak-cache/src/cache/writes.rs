//! Inserts.

use super::Cache;
use super::leaving::{Gone, Leaving};
use crate::cause::Cause;
use crate::clock::{NEVER, Nanos, nanos};
use crate::counters::Count;
use crate::item::Item;
use crate::key::{Key, Query, Token};
use core::hash::{BuildHasher, Hash};
use core::sync::atomic::Ordering;
use core::time::Duration;

/// What became of a computed value.
pub(crate) enum Stored<V> {
    /// It is in the map, hidden.
    Hidden(Token),
    /// The cache has no room for it.
    Refused,
    /// The key has this value already.
    Present(V),
}

/// A present entry, whose place a new one takes over.
struct Renewal {
    token: Token,
    hits: u8,
    now: Nanos,
    /// When the new entry's timer ends, if that is before the old one's.
    sooner: Option<Nanos>,
}

/// What an insert knows before it begins.
struct Arrival {
    weight: u64,
    now: Nanos,
    deadline: Nanos,
    /// When its timer ends.
    ends: Nanos,
}

impl Arrival {
    fn item<V>(&self, value: V, hidden: bool) -> Item<V> {
        Item::new(value, self.weight, self.deadline, self.now, hidden)
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Stores a value, which replaces the key's value, if any.
    ///
    /// If the cache is full other entries are evicted first, so that the weight never exceeds the
    /// capacity. An entry that finds no room leaves at once, with [`Cause::Size`]: its weight exceeds
    /// the capacity, or all other entries are being inserted or removed at this moment. The old value
    /// of its key is gone then, too. A computation of the key that runs at this moment does not
    /// replace the value.
    ///
    /// Costs an allocation, a change of the map, and a lock of a shard of the queues; a second time
    /// if a value is replaced. Takes out a few expired entries. Calls the listener for each entry
    /// that left, and may drop values that left before.
    ///
    /// # Panics
    /// If the weigher, the hasher, `Eq` or a `Drop` of a value panics. If one of the first three
    /// does, nothing was stored. Panics if memory is refused.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<u64, u64> = Cache::new(1);
    /// cache.insert(1, 10);
    /// cache.insert(2, 20);
    /// assert_eq!((cache.get(&1), cache.get(&2)), (None, Some(20)));
    /// ```
    pub fn insert(&self, key: K, value: V) {
        self.insert_for(key, value, self.settings.live);
    }

    /// Stores a value that expires after `ttl`, instead of after the cache's time to live. As
    /// [`insert`](Self::insert) otherwise; the time to idle holds, too.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// # use std::time::Duration;
    /// let cache: Cache<u64, u64> = Cache::new(10);
    /// cache.insert_with_ttl(1, 10, Duration::from_secs(60));
    /// cache.insert_with_ttl(2, 20, Duration::ZERO);
    /// assert_eq!((cache.get(&1), cache.get(&2)), (Some(10), None));
    /// ```
    pub fn insert_with_ttl(&self, key: K, value: V, ttl: Duration) {
        // Relaxed: this thread sees it, and threads that see the entry need not.
        if !self.is_timed.load(Ordering::Relaxed) {
            self.is_timed.store(true, Ordering::Relaxed);
        }
        self.insert_for(key, value, nanos(ttl));
    }

    /// Runs the caller's weigher and hasher, and reads the clock.
    fn arrival(&self, key: &K, value: &V, live: Nanos) -> Arrival {
        let weight = self.settings.weigher.as_ref().map_or(1, |weigh| weigh(key, value).max(1));
        let now = self.time_if_any();
        let deadline = now.saturating_add(live);
        let ends = deadline.min(now.saturating_add(self.settings.idle));
        Arrival { weight, now, deadline, ends }
    }

    fn insert_for(&self, key: K, value: V, live: Nanos) {
        let hash = self.hash(&key);
        let arrival = self.arrival(&key, &value, live);
        self.flights.outdate(hash, &key);
        let mut leaving = Leaving::new(self);
        if arrival.ends <= arrival.now && arrival.ends != NEVER {
            return self.refuse(hash, &key, &value, Cause::Expired);
        }
        if let Some(renewal) = self.renewal(hash, &key, &arrival) {
            return self.renew(renewal, key, arrival.item(value, false), &mut leaving);
        }
        let time = (arrival.now, arrival.ends);
        let Some(admitted) = self.admit(hash, arrival.weight, time, &mut leaving) else {
            return self.refuse(hash, &key, &value, Cause::Size);
        };
        let token = admitted.token;
        let replaced = self.map.put(Key { token, key }, arrival.item(value, false));
        admitted.keep();
        self.counters.count(Count::Insertion);
        if let Some(old) = replaced {
            let hits = old.value().hits();
            let freed = self.queues(self.shard_of(hash)).inherit(old.key().token, token);
            freed.into_iter().for_each(|weight| self.uncount(weight));
            // The key is as popular as it was, and was used once more.
            self.map.get_with(&token, |item| {
                item.set_hits(hits);
                item.hit();
            });
            self.replaced(old, arrival.now, &mut leaving);
        }
    }

    fn replaced<'c>(&self, old: Gone<'c, K, V>, now: Nanos, leaving: &mut Leaving<'c, K, V, S>) {
        let is_expired = old.value().ends(self.settings.idle) <= now;
        leaving.push(old, if is_expired { Cause::Expired } else { Cause::Replaced });
    }

    /// Returns the present entry of a key if a new one of the same weight may take over its place.
    fn renewal(&self, hash: u64, key: &K, arrival: &Arrival) -> Option<Renewal> {
        let guard = self.map.pin();
        let query = Query { hash, key };
        let (Key { token, .. }, item) = guard.get_key_value(&query)?;
        let may = item.weighs(arrival.weight) && !item.is_hidden();
        let Arrival { now, ends, .. } = *arrival;
        let is_sooner = ends < item.ends(self.settings.idle);
        may.then(|| Renewal {
            token: *token,
            hits: item.hits(),
            now,
            sooner: is_sooner.then_some(ends),
        })
    }

    /// Replaces an entry by one with the same token, which has its place from then on. The queues
    /// need not know of it.
    ///
    /// If the entry has left meanwhile its place was freed, and the new entry has none: it is in the
    /// map by mistake (invariant 4 of the [policy](crate::policy)). It leaves at once.
    fn renew<'c>(
        &'c self,
        renewal: Renewal,
        key: K,
        item: Item<V>,
        leaving: &mut Leaving<'c, K, V, S>,
    ) {
        let token = renewal.token;
        item.set_hits(renewal.hits);
        item.hit();
        let replaced = self.map.put(Key { token, key }, item);
        self.counters.count(Count::Insertion);
        let has_place = replaced.as_ref().is_some_and(|old| old.key().token == token);
        if has_place {
            if let Some(ends) = renewal.sooner {
                let mut queues = self.queues(self.shard_of(token.hash));
                if queues.has(token) {
                    queues.set_timer(ends, token);
                }
            }
        } else if let Some(gone) = self.map.remove_entry(&token) {
            leaving.push(gone, Cause::Size);
        }
        if let Some(old) = replaced {
            if !has_place {
                self.free(&old);
            }
            self.replaced(old, renewal.now, leaving);
        }
    }

    /// An entry that is not stored replaces the key's value all the same, and leaves at once.
    fn refuse(&self, hash: u64, key: &K, value: &V, cause: Cause) {
        let mut leaving = Leaving::new(self);
        let query = Query { hash, key };
        if let Some(old) = self.map.remove_entry(&query) {
            self.settle(old, Cause::Replaced, &mut leaving);
        }
        drop(leaving);
        self.leaves(key, value, cause);
    }

    /// Stores a computed value, hidden, if the key has none.
    pub(crate) fn store_hidden(&self, hash: u64, key: K, value: V) -> Stored<V>
    where
        V: Clone,
    {
        let arrival = self.arrival(&key, &value, self.settings.live);
        let mut leaving = Leaving::new(self);
        if arrival.ends <= arrival.now && arrival.ends != NEVER {
            self.leaves(&key, &value, Cause::Expired);
            return Stored::Refused;
        }
        let time = (arrival.now, arrival.ends);
        let Some(admitted) = self.admit(hash, arrival.weight, time, &mut leaving) else {
            self.leaves(&key, &value, Cause::Size);
            return Stored::Refused;
        };
        let token = admitted.token;
        let (mut key, mut item) = (Key { token, key }, arrival.item(value, true));
        loop {
            match self.map.try_put(key, item) {
                Ok(()) => {
                    admitted.keep();
                    return Stored::Hidden(token);
                }
                Err(refused) => (key, item) = refused,
            }
            // Removes the present value if it has expired.
            if let Some(present) = self.peek_hashed(hash, &key.key) {
                return Stored::Present(present);
            }
        }
    }

    /// Shows a hidden entry, if it is still there.
    pub(crate) fn show(&self, token: Token) {
        self.counters.count(Count::Insertion);
        self.map.get_with(&token, Item::show);
    }

    /// Takes out a hidden entry, if it is still there. Nobody has seen it, so nobody is told.
    pub(crate) fn withdraw(&self, token: Token) {
        if let Some(gone) = self.map.remove_entry(&token) {
            self.free(&gone);
        }
    }
}
