//! Indexes that were at the root of a table, until no thread can reach them any more.
//!
//! Invariant: an index that is retired is not at the root any more. A thread that reaches it nevertheless has read the
//! root in an operation, or under a guard, that began before: in the index's epoch or an earlier one. Or it has a share
//! of the index, as iterators have.

use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicUsize, Backoff, Mutex, Ordering, operations_ended, retire_tag};
use std::sync::Arc;

/// An index that was at the root.
#[derive(Debug)]
struct Retired<I> {
    index: Arc<I>,
    /// The last epoch of operations that may have read the index at the root.
    operations: u64,
    /// The last epoch of guards that may have read it there.
    guards: u64,
}

/// The indexes that wait to be freed.
#[derive(Debug)]
pub(in crate::table) struct RetiredIndexes<I> {
    /// How many there are. Stored and loaded relaxed: a hint, so that a change takes no lock while there are none.
    count: AtomicUsize,
    list: Mutex<Vec<Retired<I>>>,
}

impl<I> RetiredIndexes<I> {
    pub(in crate::table) fn new() -> Self {
        Self { count: AtomicUsize::new(0), list: Mutex::new(Vec::new()) }
    }

    /// Adds an index that was at the root. Guards of the epoch `guards` or before may have read it there.
    pub(in crate::table) fn retire(&self, index: Arc<I>, guards: u64) {
        let operations = retire_tag();
        let mut list = self.list.lock();
        list.push(Retired { index, operations, guards });
        self.count.store(list.len(), Ordering::Relaxed);
    }

    /// Returns about how many there are.
    #[inline(always)]
    pub(in crate::table) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns what is asked about each.
    pub(in crate::table) fn map<T>(&self, ask: impl Fn(&I) -> T) -> Vec<T> {
        self.list.lock().iter().map(|retired| ask(&retired.index)).collect()
    }

    /// Frees those that no thread can reach any more: all operations have ended, and `guards_ended` holds for the epoch
    /// of their guards. Costs a barrier on all processors.
    #[cold]
    pub(in crate::table) fn free(&self, guards_ended: impl Fn(u64) -> bool) {
        let free: Vec<Retired<I>> = {
            let mut list = self.list.lock();
            if list.is_empty() {
                return;
            }
            let is_free = |retired: &mut Retired<I>| {
                seeded(Bug::ReclaimWithoutGrace)
                    || (seeded(Bug::ReclaimUnderGuard) || guards_ended(retired.guards))
                        && operations_ended(retired.operations, true)
            };
            let free = list.extract_if(.., is_free).collect();
            self.count.store(list.len(), Ordering::Relaxed);
            free
        };
        // Outside of the lock, for which other threads may wait.
        drop(free);
    }

    /// Repeats [`free`](Self::free), and so waits for the operations that were running when the indexes were retired: a few
    /// instructions, unless a thread is descheduled. The wait is bounded, because an operation of this thread itself
    /// would never end meanwhile. It ends early if a guard outlasts a moment, as `is_guarded` says of the epoch of an
    /// index's guards, since a guard may be held for long; then a later change frees the indexes.
    pub(in crate::table) fn free_soon(
        &self,
        guards_ended: impl Fn(u64) -> bool,
        is_guarded: impl Fn(u64) -> bool,
    ) {
        /// Long enough for other threads to be scheduled, too short to be noticed.
        const ROUNDS: usize = if cfg!(modelled) { 1 } else { 1000 };
        let mut backoff = Backoff::new();
        for _ in 0..ROUNDS {
            self.free(&guards_ended);
            let is_any_guarded =
                || self.list.lock().iter().any(|retired| is_guarded(retired.guards));
            if self.count() == 0 || !backoff.is_spinning() && is_any_guarded() {
                return;
            }
            backoff.wait();
        }
    }
}
