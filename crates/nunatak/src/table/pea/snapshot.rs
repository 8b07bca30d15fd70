//! A consistent cut of all pairs.
//!
//! Changes wait: a word says so, and those that were under way are waited for. Then all
//! segments are copied. Reads never notice.

use super::Table;
use super::layout::Layout;
use crate::error::Error;
use crate::hash::Placement;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicU64, Backoff, OpPin, Ordering, Shared, operations_ended, retire_tag};

/// The pairs of a cut, by their words.
#[derive(Debug)]
pub struct PairSnapshot(Vec<(u64, u64)>);

impl Iterator for PairSnapshot {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        self.0.pop()
    }
}

/// Lets changes go on, whatever happens.
struct Frozen<'t>(&'t AtomicU64);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        // Release: after what was done meanwhile.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl<P: Placement, M: Medium, L: Layout> Table<P, M, L> {
    /// Whether changes are to wait.
    #[inline(always)]
    pub(super) fn is_frozen(&self) -> bool {
        // Acquire: pairs with the release of who has let them go on.
        self.freezing.load(Ordering::Acquire) != 0
    }

    /// Announces an operation that changes something, when it may. The thread is in no
    /// other.
    pub(super) fn enter(&self) -> OpPin<Shared> {
        let mut backoff = Backoff::new();
        loop {
            let pin = OpPin::new();
            if !self.is_frozen() {
                return pin;
            }
            drop(pin);
            backoff.wait();
        }
    }

    /// Runs something while nobody changes anything. The caller is in no operation.
    pub(super) fn frozen<R>(&self, run: impl FnOnce() -> R) -> R {
        // Release: before the barrier that `retire_tag` is.
        self.freezing.fetch_add(1, Ordering::Release);
        let frozen = Frozen(&self.freezing);
        if !seeded(Bug::SnapshotWithoutGrace) {
            let tag = retire_tag();
            let mut backoff = Backoff::new();
            while !operations_ended(tag, false) {
                backoff.wait();
            }
        }
        let result = run();
        drop(frozen);
        result
    }

    pub(super) fn snapshot(&self) -> Result<PairSnapshot, Error> {
        let _held = self.exclusive.lock();
        let room = self.len() + self.len() / 16 + 64;
        let mut pairs = Vec::new();
        let bytes = room.saturating_mul(size_of::<(u64, u64)>());
        pairs.try_reserve(room).map_err(|_| Error::OutOfMemory { bytes })?;
        self.frozen(|| {
            let mut from = Some(0);
            while let Some(hash) = from {
                from = self.read_segment(hash, &mut pairs);
            }
        });
        Ok(PairSnapshot(pairs))
    }
}
