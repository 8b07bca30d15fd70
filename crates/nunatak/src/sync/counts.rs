//! Sums that all threads add to, each thread mostly in its own cache lines.

use super::thread_index;
use core::sync::atomic::{AtomicUsize, Ordering};

const SHARDS: usize = 16;

/// `N` sums, modulo 2^64. Two cache lines apart from the next shard, since processors fetch lines
/// in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<const N: usize>([AtomicUsize; N]);

/// `N` sums: exact when no thread adds.
#[derive(Debug)]
pub(crate) struct Counts<const N: usize>([Shard<N>; SHARDS]);

impl<const N: usize> Counts<N> {
    pub(crate) fn new() -> Self {
        Self([const { Shard([const { AtomicUsize::new(0) }; N]) }; SHARDS])
    }

    /// Adds to a sum. To subtract, pass the negated amount.
    #[inline(always)]
    pub(crate) fn add(&self, which: usize, amount: usize) {
        // Relaxed: a statistic.
        self.0[thread_index::current_if_any() % SHARDS].0[which]
            .fetch_add(amount, Ordering::Relaxed);
    }

    /// Returns a sum, never below zero. While other threads add, it may miss some of their changes.
    pub(crate) fn sum(&self, which: usize) -> usize {
        // Relaxed: a statistic.
        let sum = self
            .0
            .iter()
            .fold(0_usize, |sum, shard| sum.wrapping_add(shard.0[which].load(Ordering::Relaxed)));
        sum.cast_signed().max(0).cast_unsigned()
    }
}
