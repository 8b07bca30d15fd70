//! How many pairs the splits or rehashes of a table have moved, and in which time: statistics of the
//! papers.

use core::time::Duration;
// Not the types of the model checkers: nothing depends on these words, and each of them would
// multiply what a checker explores. Relaxed, since they order nothing.
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Bins for each doubling of a time.
const PARTS: u64 = 8;
/// Bins of all times: up to 2^41 nanoseconds, which are half an hour. Longer ones are in the last.
const BINS: usize = (39 * PARTS) as usize;

/// Returns the bin of so many nanoseconds.
fn bin_of(nanos: u64) -> usize {
    if nanos < PARTS {
        return nanos as usize;
    }
    // The bits behind the highest one tell the part of the doubling.
    let doublings = u64::from(nanos.ilog2() - PARTS.ilog2());
    let part = (nanos >> doublings) - PARTS;
    (((doublings + 1) * PARTS + part) as usize).min(BINS - 1)
}

/// Returns the least nanoseconds of a bin.
fn least_of(bin: usize) -> u64 {
    let bin = bin as u64;
    match (bin / PARTS).checked_sub(1) {
        None => bin,
        Some(doublings) => (PARTS + bin % PARTS) << doublings,
    }
}

/// How long the splits or rehashes of a table took: a histogram, whose bins are at most an eighth
/// wide.
///
/// ```
/// use nunatak::PeaMap;
/// let map: PeaMap<u64, u64> = PeaMap::new();
/// (0..100_000).for_each(|key| assert_eq!(map.insert(key, key), None));
/// let (stats, times) = (map.stats(), map.stats().split_times);
/// assert_eq!(times.len(), stats.splits);
/// assert!(times.quantile(0.5) <= times.quantile(0.99));
/// assert!(times.quantile(1.0).unwrap() <= stats.longest_split);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResizeTimes {
    /// The resizes in each bin, without empty bins at the end.
    bins: Vec<u32>,
}

impl ResizeTimes {
    /// Returns the number of resizes.
    ///
    /// ```
    /// # use nunatak::ResizeTimes;
    /// assert_eq!(ResizeTimes::default().len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        self.bins.iter().map(|&count| count as usize).sum()
    }

    /// Returns whether there were none.
    ///
    /// ```
    /// # use nunatak::ResizeTimes;
    /// assert!(ResizeTimes::default().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the time that this share of the resizes did not exceed, rounded down by an eighth at
    /// most; `None` if there were none. A share of 0 is the shortest, 1 the longest.
    ///
    /// ```
    /// # use nunatak::ResizeTimes;
    /// assert_eq!(ResizeTimes::default().quantile(0.5), None);
    /// ```
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let wanted = ((share * self.len() as f64).ceil() as usize).max(1);
        let mut passed = 0;
        let bin = self.bins.iter().position(|&count| {
            passed += count as usize;
            passed >= wanted
        });
        bin.map(|bin| Duration::from_nanos(least_of(bin)))
    }

    /// Adds the times of the resizes between two moments of one map.
    ///
    /// ```
    /// use nunatak::{PeaMap, ResizeTimes};
    /// let map: PeaMap<u64, u64> = PeaMap::new();
    /// let before = map.stats().split_times;
    /// (0..100_000).for_each(|key| drop(map.insert(key, key)));
    /// let mut during = ResizeTimes::default();
    /// during.add_between(&before, &map.stats().split_times);
    /// assert_eq!(during.len(), map.stats().splits);
    /// ```
    pub fn add_between(&mut self, before: &Self, after: &Self) {
        if self.bins.len() < after.bins.len() {
            self.bins.resize(after.bins.len(), 0);
        }
        for (at, (sum, &count)) in self.bins.iter_mut().zip(&after.bins).enumerate() {
            let earlier = before.bins.get(at).copied().unwrap_or(0);
            *sum = sum.saturating_add(count.saturating_sub(earlier));
        }
    }
}

/// Counts of what a table does seldom. One count takes far less time than the move that it counts.
#[derive(Debug)]
pub(in crate::table) struct Moves {
    moves: AtomicUsize,
    pairs: AtomicUsize,
    nanos: AtomicU64,
    longest: AtomicU64,
    times: [AtomicU32; BINS],
}

impl Default for Moves {
    fn default() -> Self {
        Self {
            moves: AtomicUsize::new(0),
            pairs: AtomicUsize::new(0),
            nanos: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            times: [const { AtomicU32::new(0) }; BINS],
        }
    }
}

/// The counts at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::table) struct Moved {
    pub(in crate::table) moves: usize,
    pub(in crate::table) pairs: usize,
    pub(in crate::table) time: Duration,
    pub(in crate::table) longest: Duration,
    pub(in crate::table) times: ResizeTimes,
}

impl Moves {
    /// Counts a move of `pairs` pairs, which ends now.
    pub(in crate::table) fn count(&self, pairs: usize, begin: Instant) {
        let nanos = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.moves.fetch_add(1, Relaxed);
        self.pairs.fetch_add(pairs, Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
        self.longest.fetch_max(nanos, Relaxed);
        self.times[bin_of(nanos)].fetch_add(1, Relaxed);
    }

    pub(in crate::table) fn so_far(&self) -> Moved {
        let time = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Relaxed));
        Moved {
            moves: self.moves.load(Relaxed),
            pairs: self.pairs.load(Relaxed),
            time: time(&self.nanos),
            longest: time(&self.longest),
            times: ResizeTimes { bins: self.bins() },
        }
    }

    fn bins(&self) -> Vec<u32> {
        let used = self.times.iter().rposition(|count| count.load(Relaxed) > 0);
        let used = &self.times[..used.map_or(0, |last| last + 1)];
        used.iter().map(|count| count.load(Relaxed)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_begins_at_most_an_eighth_below_its_times() {
        let mut last = 0;
        for nanos in
            (0..100).chain((7..40).flat_map(|bits| [(1 << bits) - 1, 1 << bits, 3 << bits]))
        {
            let bin = bin_of(nanos);
            assert!(least_of(bin) <= nanos && nanos < least_of(bin + 1), "{nanos}");
            assert!(nanos - least_of(bin) <= nanos / 8);
            last = last.max(bin);
        }
        assert!(last < BINS);
        assert_eq!(bin_of(u64::MAX), BINS - 1);
    }

    #[test]
    fn quantiles_are_of_all_times() {
        let moves = Moves::default();
        for nanos in [16, 17, 18, 1024, 4096] {
            moves.times[bin_of(nanos)].fetch_add(1, Relaxed);
        }
        let times = moves.so_far().times;
        let quantile = |share| times.quantile(share).map(|time| time.as_nanos());
        assert_eq!((times.len(), times.is_empty()), (5, false));
        assert_eq!(times.bins.len(), bin_of(4096) + 1, "no bins for longer times");
        assert_eq!([0.0, 0.5, 0.8, 1.0].map(quantile), [16, 18, 1024, 4096].map(Some));
        let mut sum = ResizeTimes::default();
        sum.add_between(&times, &times);
        assert!(sum.is_empty() && sum.quantile(0.5).is_none());
        moves.times[bin_of(64)].fetch_add(2, Relaxed);
        sum.add_between(&times, &moves.so_far().times);
        assert_eq!((sum.len(), sum.quantile(1.0)), (2, Some(Duration::from_nanos(64))));
    }
}
