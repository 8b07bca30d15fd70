//! The quantities that the paper reports (sections 4.2 and 4.3).

use super::Table;
use super::segments::STASH;
use crate::hash::HashCodec;
use crate::memory::{Medium, MemoryUsage};
use crate::sync::Ordering;
use crate::table::shared::bucket::{Header, Layout};
use crate::table::shared::moves::ResizeTimes;
use crate::table::stages::Figures;
use core::time::Duration;

/// What a [`PeaMap`](crate::PeaMap) looks like inside.
///
/// ```
/// use nunatak::PeaMap;
/// let map: PeaMap<u64, u64> = (0..1000).map(|key| (key, key)).collect();
/// let stats = map.stats();
/// assert_eq!(stats.len, 1000);
/// assert_eq!(stats.strategies.iter().sum::<usize>(), stats.segments);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PeaStats {
    /// Entries.
    pub len: usize,
    /// Segments. A map of at most 32 entries has none yet.
    pub segments: usize,
    /// Segments that hash singly, by two choices, and by two choices with a stash.
    pub strategies: [usize; 3],
    /// The global depth.
    pub depth: u32,
    /// Slots of all segments, stash included.
    pub slots: usize,
    /// The share of the slots that hold an entry.
    pub load_factor: f64,
    /// Entries in stash buckets.
    pub stashed: usize,
    /// Entries in chains, because many hashes agree in many bits.
    pub chained: usize,
    /// Splits so far.
    pub splits: usize,
    /// Entries that splits have moved, each as often as it was moved. In a map of many values a
    /// pointer to a value buffer counts as one.
    pub moved: usize,
    /// The time that splits have taken: memory for the new segments, moves, and the directory.
    pub split_time: Duration,
    /// The time of the longest split.
    pub longest_split: Duration,
    /// The times of all splits.
    pub split_times: ResizeTimes,
    /// Splits after which some new segment needed more than single hashing.
    pub crowded_splits: usize,
    /// Merges so far.
    pub merges: usize,
}

impl<P: HashCodec, M: Medium, L: Layout> Figures for Table<P, M, L> {
    type Stats = PeaStats;

    fn len(&self) -> usize {
        if M::IS_DURABLE && self.unrestored() > 0 {
            self.restore_all();
        }
        self.counted()
    }

    fn load_factor(&self) -> f64 {
        self.len().saturating_sub(self.chains.len()) as f64 / self.slots() as f64
    }

    fn memory_usage(&self) -> MemoryUsage {
        let duplicates = self.duplicates.as_ref().map_or_else(MemoryUsage::default, |d| d.usage());
        let all = self.medium.usage() + self.segments.usage() + self.chains.usage() + duplicates;
        #[cfg(durable)]
        let all = self.undo.as_ref().map_or(all, |undo| all + undo.usage());
        all
    }

    /// Looks at every stash.
    fn stats(&self) -> PeaStats {
        let (mut segments, mut strategies, mut stashed) = (0, [0; 3], 0);
        self.each_segment(|_, entry| {
            segments += 1;
            strategies[entry.strategy() as usize] += 1;
            let taken = self.segments.stash(entry.segment()).map(|b| b.header().free_slots());
            stashed += taken.into_iter().map(|free| L::SLOTS - free as usize).sum::<usize>();
        });
        let splits = self.splits.splits.so_far();
        PeaStats {
            len: self.len(),
            segments,
            strategies,
            depth: self.directories.current().depth,
            slots: self.slots(),
            load_factor: self.load_factor(),
            stashed,
            chained: self.chains.len(),
            // Relaxed: statistics.
            splits: splits.moves,
            moved: splits.pairs,
            split_time: splits.time,
            longest_split: splits.longest,
            split_times: splits.times,
            crowded_splits: self.splits.crowded.load(Ordering::Relaxed),
            merges: self.splits.merges.load(Ordering::Relaxed),
        }
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Returns the number of pairs, without the segments that were not restored since a crash.
    pub(super) fn counted(&self) -> usize {
        // A concurrent count may include a removal without its insert.
        self.registry.added().cast_signed().max(0) as usize
    }

    /// Returns the number of slots of all segments, stash included.
    pub(super) fn slots(&self) -> usize {
        let mut segments = 0;
        self.each_entry(|_, _| segments += 1);
        segments * (self.segments.per_segment + STASH) * L::SLOTS
    }
}
