//! Which keys connections watch.

use super::stripes::Stripes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A key that a connection watches.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    pub(crate) db: usize,
    pub(crate) key: Vec<u8>,
    pub(crate) stripe: u32,
    /// Whether the key had expired, and was there still: at a replica.
    pub(crate) had_expired: bool,
    /// The connection's mark: one of its keys was changed.
    is_touched: Arc<AtomicBool>,
}

/// The keys that are watched, by their stripes.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_stripe: Mutex<HashMap<u32, Vec<Watch>>>,
    count: AtomicUsize,
}

impl Watches {
    /// Watches a key.
    pub(crate) fn add(
        &self,
        stripes: &Stripes,
        (db, key): (usize, &[u8]),
        is_touched: &Arc<AtomicBool>,
        had_expired: bool,
    ) -> Watch {
        let stripe = Stripes::of(stripes.hash(db, key));
        let is_touched = Arc::clone(is_touched);
        let watch = Watch { db, key: key.to_vec(), stripe, had_expired, is_touched };
        // Before the lock, so that all who take it later see the count. Relaxed: the lock orders it.
        self.count.fetch_add(1, Ordering::Relaxed);
        stripes.lock(stripe, false);
        self.by_stripe.lock().entry(stripe).or_default().push(watch.clone());
        stripes.set_watched(stripe, true);
        stripes.unlock(stripe, false);
        watch
    }

    /// Watches a key no more.
    pub(crate) fn remove(&self, stripes: &Stripes, watch: &Watch) {
        stripes.lock(watch.stripe, false);
        let mut by_stripe = self.by_stripe.lock();
        if let Some(watches) = by_stripe.get_mut(&watch.stripe) {
            let is_it = |other: &Watch| {
                Arc::ptr_eq(&other.is_touched, &watch.is_touched)
                    && (other.db, &other.key) == (watch.db, &watch.key)
            };
            if let Some(at) = watches.iter().position(is_it) {
                watches.swap_remove(at);
                // Relaxed: a count that is still too large only makes others look in vain.
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
            if watches.is_empty() {
                by_stripe.remove(&watch.stripe);
                stripes.set_watched(watch.stripe, false);
            }
        }
        drop(by_stripe);
        stripes.unlock(watch.stripe, false);
    }

    /// Whether any key is watched.
    #[inline(always)]
    pub(crate) fn are_any(&self) -> bool {
        // Relaxed: who holds the lock of a key sees the count of its watches.
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Marks the connections that watch a key which is changed, under its stripe's lock.
    pub(crate) fn touch(&self, stripe: u32, db: usize, key: &[u8]) {
        for watch in self.by_stripe.lock().get(&stripe).into_iter().flatten() {
            if watch.db == db && watch.key == key {
                // Relaxed: it is read under the same lock.
                watch.is_touched.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Marks the connections that watch any key of some databases.
    pub(crate) fn touch_all(&self, is_changed: impl Fn(&Watch) -> bool) {
        if self.are_any() {
            let by_stripe = self.by_stripe.lock();
            for watch in by_stripe.values().flatten().filter(|watch| is_changed(watch)) {
                // Relaxed: it is read under the lock of the key's stripe, which the caller holds.
                watch.is_touched.store(true, Ordering::Relaxed);
            }
        }
    }
}
