//! Room for new entries: places in the queues, eviction, and entries that have expired.

use super::Cache;
use super::leaving::{Gone, Leaving};
use crate::cause::Cause;
use crate::clock::{NEVER, Nanos};
use crate::item::Item;
use crate::key::Token;
use crate::policy::{Look, Queues};
use core::hash::{BuildHasher, Hash};
use core::sync::atomic::Ordering;

/// How many expired entries an insert takes out at most: more than it can bring.
const DUE_AT_ONCE: usize = 4;

/// A place in the queues for an entry that is not in the map yet. Dropping it gives the place back,
/// as when the caller's code panics.
pub(super) struct Admitted<'c, K, V, S> {
    cache: &'c Cache<K, V, S>,
    pub(super) token: Token,
}

impl<K, V, S> Admitted<'_, K, V, S> {
    /// The entry is in the map, and has the place (invariant 1).
    pub(super) fn keep(self) {
        core::mem::forget(self);
    }
}

impl<K, V, S> Drop for Admitted<'_, K, V, S> {
    fn drop(&mut self) {
        let freed = self.cache.queues(self.cache.shard_of(self.token.hash)).release(self.token);
        freed.into_iter().for_each(|weight| self.cache.uncount(weight));
    }
}

/// A weight that is counted and belongs to no entry. Dropping it subtracts it.
struct Freed<'c, K, V, S> {
    cache: &'c Cache<K, V, S>,
    weight: u64,
}

impl<K, V, S> Drop for Freed<'_, K, V, S> {
    fn drop(&mut self) {
        if self.weight > 0 {
            self.cache.uncount(self.weight);
        }
    }
}

impl<K, V, S> Cache<K, V, S> {
    /// Counts a weight if the sum stays within the capacity.
    fn try_count(&self, weight: u64) -> bool {
        let sum = |sum: u64| sum.checked_add(weight).filter(|sum| *sum <= self.settings.capacity);
        // Acquire: pairs with `uncount`. So the map has lost the entries whose room this is before
        // the new entry comes.
        self.weight.fetch_update(Ordering::Acquire, Ordering::Relaxed, sum).is_ok()
    }

    /// The entry was taken out of the map.
    pub(super) fn uncount(&self, weight: u64) {
        // Release: pairs with `try_count`.
        self.weight.fetch_sub(weight, Ordering::Release);
    }

    /// Drops the values that wait once they weigh a 16th of the capacity. Without a weigher the map
    /// itself bounds their number.
    pub(super) fn reclaim_after(&self, weight: u64) {
        if self.settings.weigher.is_none() || weight == 0 {
            return;
        }
        // Relaxed: an estimate, which publishes nothing.
        let before = self.unreclaimed.fetch_add(weight, Ordering::Relaxed);
        if before.saturating_add(weight) > self.settings.capacity / 16 {
            self.unreclaimed.store(0, Ordering::Relaxed);
            self.reclaim();
        }
    }

    /// Drops the values that no guard can see. The map's method asks for no bounds.
    pub(super) fn reclaim(&self) {
        self.map.reclaim();
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Frees the place of an entry that was taken out of the map, if it has one (invariant 4).
    pub(super) fn free(&self, gone: &Gone<'_, K, V>) {
        let token = gone.key().token;
        let freed = self.queues(self.shard_of(token.hash)).release(token);
        freed.into_iter().for_each(|weight| self.uncount(weight));
    }

    /// As [`free`](Self::free), and hands the entry out.
    pub(super) fn settle<'c>(
        &'c self,
        gone: Gone<'c, K, V>,
        cause: Cause,
        leaving: &mut Leaving<'c, K, V, S>,
    ) {
        self.free(&gone);
        leaving.push(gone, cause);
    }

    /// Makes room for an entry, and gives it a place. `None` if nothing can be evicted, because the
    /// entry is heavier than the capacity, or because all others come or go at this moment.
    ///
    /// `ends` is when the new entry's timer ends.
    pub(super) fn admit<'c>(
        &'c self,
        hash: u64,
        weight: u64,
        (now, ends): (Nanos, Nanos),
        leaving: &mut Leaving<'c, K, V, S>,
    ) -> Option<Admitted<'c, K, V, S>> {
        if weight > self.settings.capacity {
            return None;
        }
        let own = self.shard_of(hash);
        let mut queues = self.queues(own);
        if queues.has_timers() {
            self.take_due(&mut queues, now, DUE_AT_ONCE, leaving);
        }
        // The weight of what was evicted here, which is counted still. So a full cache, in which one
        // entry makes room for another, does not touch the sum that all shards share.
        let mut freed = Freed { cache: self, weight: 0 };
        while freed.weight < weight && !self.try_count(weight - freed.weight) {
            // A shard that has more than its share gives first, so that shards stay equal.
            let has_more = queues.weight().saturating_add(weight) > queues.share();
            match has_more.then(|| self.evict_from(&mut queues, now, leaving)).flatten() {
                Some(evicted) => freed.weight += evicted,
                None => {
                    drop(queues);
                    freed.weight += self.evict_anywhere(own, now, leaving)?;
                    queues = self.queues(own);
                }
            }
        }
        freed.weight = freed.weight.saturating_sub(weight);
        let token = queues.admit(hash, weight);
        if ends != NEVER {
            queues.set_timer(ends, token);
        }
        Some(Admitted { cache: self, token })
    }

    /// Evicts an entry of a shard that has more than its share, or else of any shard. Returns its
    /// weight, which is counted still.
    fn evict_anywhere<'c>(
        &'c self,
        own: usize,
        now: Nanos,
        leaving: &mut Leaving<'c, K, V, S>,
    ) -> Option<u64> {
        let mut evict = |may_give: fn(&Queues) -> bool| {
            (1..=self.shards.len()).find_map(|i| {
                let mut queues = self.queues((own + i) & (self.shards.len() - 1));
                may_give(&queues).then(|| self.evict_from(&mut queues, now, leaving)).flatten()
            })
        };
        evict(|queues| queues.weight() > queues.share()).or_else(|| evict(|_| true))
    }

    /// Evicts an entry, under the lock of its shard. Returns its weight, which is counted still.
    fn evict_from<'c>(
        &'c self,
        queues: &mut Queues,
        now: Nanos,
        leaving: &mut Leaving<'c, K, V, S>,
    ) -> Option<u64> {
        let mut out = None;
        let freed = queues.evict(|token, spare| {
            let mut is_there = false;
            let judge = |_: &_, item: &Item<V>| {
                is_there = true;
                let spared = spare(item.hits());
                spared.into_iter().for_each(|hits| item.set_hits(hits));
                spared.is_none()
            };
            match self.map.remove_entry_if(&token, judge) {
                Some(gone) => {
                    out = Some(gone);
                    Look::TakenOut
                }
                None if is_there => Look::Spared,
                None => Look::Absent,
            }
        });
        let gone = out?;
        // By the next eviction here, the line has arrived.
        queues.next_of_small().into_iter().for_each(|token| self.map.prefetch(&token));
        let is_expired = gone.value().ends(self.settings.idle) <= now;
        leaving.push(gone, if is_expired { Cause::Expired } else { Cause::Size });
        freed
    }

    /// Takes out up to `most` entries that have expired, under the lock of their shard. Returns
    /// whether there may be more.
    pub(super) fn take_due<'c>(
        &'c self,
        queues: &mut Queues,
        now: Nanos,
        most: usize,
        leaving: &mut Leaving<'c, K, V, S>,
    ) -> bool {
        for _ in 0..most {
            let Some(token) = queues.pop_due(now) else { return false };
            // Of an entry that is not in the map now: it comes or goes, so look again later.
            let mut ends = now.saturating_add(1);
            let is_expired = |_: &_, item: &Item<V>| {
                ends = item.ends(self.settings.idle);
                ends <= now
            };
            match self.map.remove_entry_if(&token, is_expired) {
                Some(gone) => {
                    queues.release(token).into_iter().for_each(|weight| self.uncount(weight));
                    leaving.push(gone, Cause::Expired);
                }
                None => queues.set_timer(ends, token),
            }
        }
        true
    }
}
