//! Sums that all threads add to, each where the others seldom do.

use super::thread_index;
use core::sync::atomic::{AtomicUsize, Ordering};

const SHARDS: usize = 16;

/// `N` sums, modulo 2^64. Two cache lines apart from the next thread's, since processors
/// fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<const N: usize>([AtomicUsize; N]);

/// `N` sums: exact when nobody adds.
#[derive(Debug)]
pub(crate) struct Counts<const N: usize>([Shard<N>; SHARDS]);

impl<const N: usize> Counts<N> {
    pub(crate) fn new() -> Self {
        Self([const { Shard([const { AtomicUsize::new(0) }; N]) }; SHARDS])
    }

    /// Adds to a sum; what is to be taken off it, negated.
    #[inline(always)]
    pub(crate) fn add(&self, which: usize, amount: usize) {
        // Relaxed: a statistic.
        self.0[thread_index::current_if_any() % SHARDS].0[which]
            .fetch_add(amount, Ordering::Relaxed);
    }

    /// A sum; while others add, one that may be missing what they took off and added, but
    /// never below zero.
    pub(crate) fn sum(&self, which: usize) -> usize {
        // Relaxed: a statistic.
        let sum = self
            .0
            .iter()
            .fold(0_usize, |sum, shard| sum.wrapping_add(shard.0[which].load(Ordering::Relaxed)));
        sum.cast_signed().max(0).cast_unsigned()
    }
}
