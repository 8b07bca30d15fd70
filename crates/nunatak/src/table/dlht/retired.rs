//! Reclamation of the indexes that were at the root.

use super::Table;
use super::index::{Index, Retired};
use crate::hash::HashCodec;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, Mode, Ordering, Registry, is_seldom, operations_ended};
use crate::table::stages::Guards;
use std::sync::Arc;

impl<P: HashCodec, Y: Mode> Guards for Table<P, Y> {
    fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Frees the old indexes that no thread can reach any more.
    #[cold]
    fn free_retired(&self) {
        let free: Vec<Arc<Index>> = {
            let mut retired = self.retired.lock();
            if retired.is_empty() {
                return;
            }
            let free = retired
                .extract_if(.., |retired| {
                    seeded(Bug::ReclaimWithoutGrace)
                        || (seeded(Bug::ReclaimUnderGuard)
                            || self.registry.others_ended(retired.guards))
                            && operations_ended(retired.operations, true)
                })
                .map(|retired| retired.index)
                .collect();
            self.retired_count.store(retired.len(), Ordering::Relaxed);
            free
        };
        // Outside of the lock, for which other threads may wait.
        drop(free);
    }
}

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    /// Long enough for other threads to be scheduled, too short to be noticed.
    const FREEING_ROUNDS: usize = if cfg!(modelled) { 1 } else { 1000 };

    #[inline(always)]
    pub(super) fn free_retired_if_any(&self) {
        if self.retired_count.load(Ordering::Relaxed) != 0 {
            self.free_retired_seldom();
        }
    }

    /// Frees old indexes, but not at each call, since each attempt costs a barrier on all
    /// processors.
    #[cold]
    fn free_retired_seldom(&self) {
        if is_seldom::<Y>(&self.registry) {
            self.free_retired();
        }
    }

    /// Frees old indexes, and waits for the operations that were running when they were retired: a
    /// few instructions, unless a thread is descheduled. The wait is bounded, because an operation
    /// of this thread itself would never end meanwhile. It ends early if other threads' guards
    /// outlast a moment, since a guard may be held for long; then a later change frees the indexes.
    pub(crate) fn free_retired_soon(&self) {
        let mut backoff = Backoff::new();
        for _ in 0..Self::FREEING_ROUNDS {
            self.free_retired();
            let is_guarded = |retired: &Retired| self.registry.is_held_by_others(retired.guards);
            // Relaxed: a hint.
            if self.retired_count.load(Ordering::Relaxed) == 0
                || !backoff.is_spinning() && self.retired.lock().iter().any(is_guarded)
            {
                return;
            }
            backoff.wait();
        }
    }
}
