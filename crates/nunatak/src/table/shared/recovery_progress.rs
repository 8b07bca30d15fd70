//! Pieces of a table that nobody has looked at since a crash.

use crate::sync::{AtomicUsize, Ordering};

/// How many there are, and what was found in others: counted and read relaxed, since who
/// acts on a piece has locked it.
#[derive(Debug, Default)]
pub(crate) struct RecoveryProgress {
    left: AtomicUsize,
    #[cfg(durable)]
    found: AtomicUsize,
}

impl RecoveryProgress {
    /// How many are left.
    #[inline(always)]
    pub(in crate::table) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }
}

#[cfg(durable)]
impl RecoveryProgress {
    /// So many more are to be looked at.
    pub(in crate::table) fn begin(&self, pieces: usize) {
        self.left.fetch_add(pieces, Ordering::Relaxed);
    }

    /// So many pairs were found.
    pub(in crate::table) fn add(&self, pairs: usize) {
        self.found.fetch_add(pairs, Ordering::Relaxed);
    }

    /// How many pairs were found in all.
    pub(in crate::table) fn found(&self) -> usize {
        self.found.load(Ordering::Relaxed)
    }

    /// A piece has been looked at; whether it was the last.
    pub(in crate::table) fn end_one(&self) -> bool {
        // Acquire and release: who is the last has seen all that was found.
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
