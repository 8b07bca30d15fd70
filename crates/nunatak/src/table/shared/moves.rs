//! How many pairs the splits or rehashes of a table have moved, and in which time: statistics of the
//! papers.

use core::time::Duration;
// Not the types of the model checkers: nothing depends on these words, and each of them would
// multiply what a checker explores. Relaxed, since they order nothing.
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Counts of what a table does seldom. One count takes far less time than the move that it counts.
#[derive(Debug, Default)]
pub(in crate::table) struct Moves {
    moves: AtomicUsize,
    pairs: AtomicUsize,
    nanos: AtomicU64,
    longest: AtomicU64,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::table) struct Moved {
    pub(in crate::table) moves: usize,
    pub(in crate::table) pairs: usize,
    pub(in crate::table) time: Duration,
    pub(in crate::table) longest: Duration,
}

impl Moves {
    /// Counts a move of `pairs` pairs, which ends now.
    pub(in crate::table) fn count(&self, pairs: usize, begin: Instant) {
        let nanos = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.moves.fetch_add(1, Relaxed);
        self.pairs.fetch_add(pairs, Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
        self.longest.fetch_max(nanos, Relaxed);
    }

    pub(in crate::table) fn so_far(&self) -> Moved {
        let time = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Relaxed));
        Moved {
            moves: self.moves.load(Relaxed),
            pairs: self.pairs.load(Relaxed),
            time: time(&self.nanos),
            longest: time(&self.longest),
        }
    }
}
