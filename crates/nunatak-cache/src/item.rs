//! What the map stores for a key: the value, and what eviction and expiry need to know of it.

use crate::clock::{NEVER, Nanos};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// A hit counts up to this number.
pub(crate) const MOST_HITS: u8 = 3;

/// Small, so that key and value are in one cache line if they are small: the queues know the weight
/// of an entry, too, and the entry needs to know only that of a light one.
pub(crate) struct Item<V> {
    pub(crate) value: V,
    /// Of a heavier entry: this number.
    weight: u32,
    /// When its time to live ends.
    pub(crate) deadline: Nanos,
    /// When it was last used: kept up to date only by caches with a time to idle.
    used: AtomicU64,
    hits: AtomicU8,
    /// Whether gets do not see it yet: a computed value, until it is sure that nobody has changed
    /// the key since the computation began.
    hidden: AtomicBool,
}

impl<V> Item<V> {
    pub(crate) fn new(value: V, weight: u64, deadline: Nanos, now: Nanos, hidden: bool) -> Self {
        let (used, hidden) = (AtomicU64::new(now), AtomicBool::new(hidden));
        let weight = weight.try_into().unwrap_or(u32::MAX);
        Self { value, weight, deadline, used, hits: AtomicU8::new(0), hidden }
    }

    /// Returns the weight, or the greatest number that an entry knows.
    pub(crate) fn weight(&self) -> u64 {
        self.weight.into()
    }

    /// Whether the item is known to weigh as much.
    pub(crate) fn weighs(&self, weight: u64) -> bool {
        self.weight < u32::MAX && u64::from(self.weight) == weight
    }

    /// Returns how often it was used lately.
    ///
    /// Relaxed, as all accesses of this counter: eviction only compares it, and nothing is
    /// published by it. Two hits at the same moment may count as one.
    pub(crate) fn hits(&self) -> u8 {
        self.hits.load(Ordering::Relaxed)
    }

    pub(crate) fn set_hits(&self, hits: u8) {
        self.hits.store(hits, Ordering::Relaxed);
    }

    /// Counts a hit. Writes nothing if the counter is at its end, so that a popular entry's cache
    /// line stays shared by all cores.
    #[inline(always)]
    pub(crate) fn hit(&self) {
        let hits = self.hits();
        if hits < MOST_HITS {
            self.set_hits(hits + 1);
        }
    }

    #[inline(always)]
    pub(crate) fn is_hidden(&self) -> bool {
        // Acquire: pairs with `show`, so that a get that sees the value also sees what its
        // computation did before.
        self.hidden.load(Ordering::Acquire)
    }

    pub(crate) fn show(&self) {
        // Release: pairs with `is_hidden`.
        self.hidden.store(false, Ordering::Release);
    }

    /// Notes a use, unless one was noted within `precision`. Relaxed, as in `ends`: a time, which
    /// publishes nothing.
    #[inline(always)]
    pub(crate) fn used(&self, now: Nanos, precision: Nanos) {
        if now.saturating_sub(self.used.load(Ordering::Relaxed)) > precision {
            self.used.store(now, Ordering::Relaxed);
        }
    }

    /// Returns when it expires if it is not used again.
    #[inline(always)]
    pub(crate) fn ends(&self, idle: Nanos) -> Nanos {
        match idle {
            NEVER => self.deadline,
            idle => self.deadline.min(self.used.load(Ordering::Relaxed).saturating_add(idle)),
        }
    }
}

/// A copy for an iterator, which shows the moment at which it was made.
impl<V: Clone> Clone for Item<V> {
    fn clone(&self) -> Self {
        Self {
            value: self.value.clone(),
            weight: self.weight,
            deadline: self.deadline,
            used: AtomicU64::new(self.used.load(Ordering::Relaxed)),
            hits: AtomicU8::new(self.hits()),
            hidden: AtomicBool::new(self.is_hidden()),
        }
    }
}
