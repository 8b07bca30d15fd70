//! What the cache counts: each thread in memory of its own.

use crate::cause::Cause;
use core::sync::atomic::{AtomicU64, Ordering};
use crossbeam_utils::CachePadded;
use thread_local::ThreadLocal;

/// What is counted; the numbers of the counters.
#[derive(Clone, Copy)]
pub(crate) enum Count {
    Hit,
    Miss,
    Insertion,
    Expired,
    Replaced,
    Size,
    Removed,
    Computation,
    FailedComputation,
    ListenerPanic,
}

const COUNTERS: usize = Count::ListenerPanic as usize + 1;

impl From<Cause> for Count {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Expired => Self::Expired,
            Cause::Replaced => Self::Replaced,
            Cause::Size => Self::Size,
            Cause::Removed => Self::Removed,
        }
    }
}

/// A thread's counters.
type Own = CachePadded<[AtomicU64; COUNTERS]>;

#[derive(Debug)]
pub(crate) struct Counters {
    /// `None` if nothing is counted.
    threads: Option<ThreadLocal<Own>>,
}

/// Makes a thread's counters. Not in line, where the alignment of their memory would be that of the caller's frame.
#[cold]
#[inline(never)]
fn first_of_thread(threads: &ThreadLocal<Own>) -> &Own {
    threads.get_or(|| CachePadded::new(core::array::from_fn(|_| AtomicU64::new(0))))
}

impl Counters {
    pub(crate) fn new(counts: bool) -> Self {
        Self { threads: counts.then(ThreadLocal::new) }
    }

    #[inline]
    pub(crate) fn count(&self, what: Count) {
        if let Some(threads) = &self.threads {
            let own = threads.get().unwrap_or_else(|| first_of_thread(threads));
            let counter = &own[what as usize];
            // A load and a store, since only this thread writes here. (A later thread may get the
            // memory of one that has ended, and goes on from there.) Relaxed: counters publish
            // nothing.
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
    }

    fn sum(&self, what: Count) -> u64 {
        let threads = self.threads.iter().flatten();
        threads.map(|own| own[what as usize].load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            hits: self.sum(Count::Hit),
            misses: self.sum(Count::Miss),
            insertions: self.sum(Count::Insertion),
            expired: self.sum(Count::Expired),
            replaced: self.sum(Count::Replaced),
            evicted: self.sum(Count::Size),
            removed: self.sum(Count::Removed),
            computations: self.sum(Count::Computation),
            failed_computations: self.sum(Count::FailedComputation),
            listener_panics: self.sum(Count::ListenerPanic),
        }
    }
}

/// What a cache has counted since it was made; see [`Cache::stats`](crate::Cache::stats).
///
/// Exact when no other thread uses the cache.
///
/// ```
/// use nunatak_cache::Cache;
/// let cache: Cache<u64, u64> = Cache::new(10);
/// cache.insert(1, 1);
/// (cache.get(&1), cache.get(&2));
/// let stats = cache.stats();
/// assert_eq!((stats.hits, stats.misses, stats.insertions), (1, 1, 1));
/// assert_eq!(stats.hit_rate(), 0.5);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Gets that found a value.
    pub hits: u64,
    /// Gets that found none, or an expired one. A computing get that finds no value at first is one
    /// miss, whoever computes the value.
    pub misses: u64,
    /// Entries that were stored: inserted or computed.
    pub insertions: u64,
    /// Entries that left with [`Cause::Expired`].
    pub expired: u64,
    /// Entries that left with [`Cause::Replaced`].
    pub replaced: u64,
    /// Entries that left with [`Cause::Size`].
    pub evicted: u64,
    /// Entries that left with [`Cause::Removed`].
    pub removed: u64,
    /// Computations that were begun.
    pub computations: u64,
    /// Computations that returned an error, panicked or were cancelled.
    pub failed_computations: u64,
    /// Panics of the listener, which the cache has caught.
    pub listener_panics: u64,
}

impl Stats {
    /// Returns the share of the gets that found a value: 0 if there were none.
    ///
    /// ```
    /// assert_eq!(nunatak_cache::Stats::default().hit_rate(), 0.0);
    /// ```
    pub fn hit_rate(&self) -> f64 {
        match self.hits + self.misses {
            0 => 0.0,
            gets => self.hits as f64 / gets as f64,
        }
    }
}
