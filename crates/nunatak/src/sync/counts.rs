//! Sums that all threads add to, each thread mostly in its own cache lines.

use super::thread_index;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;

const SHARDS: usize = 16;

/// `N` sums, modulo 2^64. Two cache lines apart from the next shard, since processors fetch lines
/// in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<const N: usize>([AtomicUsize; N]);

/// `N` sums: exact when no thread adds.
///
/// The shard of the first thread is in the struct. The others are allocated when another thread
/// adds, so that a map of one thread stays small.
#[derive(Debug)]
pub(crate) struct Counts<const N: usize> {
    first: Shard<N>,
    others: OnceLock<Box<[Shard<N>]>>,
}

impl<const N: usize> Shard<N> {
    fn new() -> Self {
        Self([const { AtomicUsize::new(0) }; N])
    }
}

impl<const N: usize> Counts<N> {
    pub(crate) fn new() -> Self {
        Self { first: Shard::new(), others: OnceLock::new() }
    }

    /// Adds to a sum. To subtract, pass the negated amount.
    #[inline(always)]
    pub(crate) fn add(&self, which: usize, amount: usize) {
        let shard = match thread_index::current_if_any() % SHARDS {
            0 => &self.first,
            other => &self.others.get_or_init(Self::make_others)[other - 1],
        };
        // Relaxed: a statistic.
        shard.0[which].fetch_add(amount, Ordering::Relaxed);
    }

    #[cold]
    fn make_others() -> Box<[Shard<N>]> {
        (1..SHARDS).map(|_| Shard::new()).collect()
    }

    /// Returns a sum, never below zero. While other threads add, it may miss some of their changes.
    pub(crate) fn sum(&self, which: usize) -> usize {
        let others = self.others.get().into_iter().flatten();
        // Relaxed: a statistic.
        let sum = others.fold(self.first.0[which].load(Ordering::Relaxed), |sum, shard| {
            sum.wrapping_add(shard.0[which].load(Ordering::Relaxed))
        });
        sum.cast_signed().max(0).cast_unsigned()
    }
}
