//! The progress of a recovery that goes piece by piece.

use crate::sync::{AtomicUsize, Ordering};

/// How many pieces are left to recover, and how many pairs the other pieces had. Both are counted
/// and read relaxed, since a thread that recovers a piece holds its lock.
#[derive(Debug, Default)]
pub(crate) struct RecoveryProgress {
    left: AtomicUsize,
    #[cfg(durable)]
    found: AtomicUsize,
}

impl RecoveryProgress {
    #[inline(always)]
    pub(in crate::table) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }
}

#[cfg(durable)]
impl RecoveryProgress {
    pub(in crate::table) fn begin(&self, pieces: usize) {
        self.left.fetch_add(pieces, Ordering::Relaxed);
    }

    pub(in crate::table) fn add(&self, pairs: usize) {
        self.found.fetch_add(pairs, Ordering::Relaxed);
    }

    /// Counts one pair less: it was found, and then a batch was taken back.
    pub(in crate::table) fn subtract_one(&self) {
        self.found.fetch_sub(1, Ordering::Relaxed);
    }

    pub(in crate::table) fn found(&self) -> usize {
        self.found.load(Ordering::Relaxed)
    }

    /// Counts a piece as recovered. Returns whether it was the last.
    pub(in crate::table) fn end_one(&self) -> bool {
        // Acquire and release: the thread that ends the last piece has seen all counts.
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
