//! Entries that were taken out of the map, until the listener has heard of them.

use super::Cache;
use crate::cause::Cause;
use crate::counters::Count;
use crate::item::Item;
use crate::key::{Key, PassOn};
use nunatak::Removed;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An entry that was taken out of the map. Nothing is held by it.
pub(super) type Gone<'c, K, V> = Removed<'c, Key<K>, Item<V>, PassOn>;

/// Collects what an operation takes out. Dropping it, which must happen after the locks are
/// released, calls the listener and then drops the entries. So this also happens if the caller's
/// code panics in between.
pub(super) struct Leaving<'c, K, V, S> {
    cache: &'c Cache<K, V, S>,
    /// Most operations take out one entry, which needs no allocation.
    first: Option<(Gone<'c, K, V>, Cause)>,
    others: Vec<(Gone<'c, K, V>, Cause)>,
}

impl<'c, K, V, S> Leaving<'c, K, V, S> {
    pub(super) fn new(cache: &'c Cache<K, V, S>) -> Self {
        Self { cache, first: None, others: Vec::new() }
    }

    pub(super) fn push(&mut self, gone: Gone<'c, K, V>, cause: Cause) {
        match self.first {
            None => self.first = Some((gone, cause)),
            Some(_) => self.others.push((gone, cause)),
        }
    }

    /// Returns the value of the first entry.
    pub(super) fn first(&self) -> Option<&V> {
        self.first.as_ref().map(|(gone, _)| &gone.value().value)
    }
}

impl<K, V, S> Drop for Leaving<'_, K, V, S> {
    fn drop(&mut self) {
        let mut weight = 0;
        for (gone, cause) in self.first.iter().chain(&self.others) {
            let (Key { key, .. }, item) = (gone.key(), gone.value());
            weight += item.weight();
            self.cache.leaves(key, &item.value, *cause);
        }
        // Dropping may run `Drop` of any values that have left before.
        self.first = None;
        self.others.clear();
        self.cache.reclaim_after(weight);
    }
}

impl<K, V, S> Cache<K, V, S> {
    /// Counts an entry that has left, and tells the listener. The entry's weight is not counted
    /// any more.
    pub(super) fn leaves(&self, key: &K, value: &V, cause: Cause) {
        self.counters.count(cause.into());
        if let Some(listener) = &self.settings.listener {
            // The listener gets shared references, and its own state is the caller's affair.
            let heard = catch_unwind(AssertUnwindSafe(|| listener(key, value, cause)));
            if let Err(panic) = heard {
                self.counters.count(Count::ListenerPanic);
                // Dropping it may panic, too.
                core::mem::forget(panic);
            }
        }
    }
}
