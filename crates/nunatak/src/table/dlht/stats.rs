//! The quantities that the paper reports of an index.

use super::Table;
use super::index::Index;
use super::layout::{DELEGATED, Header, SLOTS};
use crate::hash::HashCodec;
use crate::memory::MemoryUsage;
use crate::sync::{Mode, Ordering};
use crate::table::stages::{Figures, Guards};

/// Figures about the inside of a [`DlhtMap`](crate::DlhtMap) (sections 3.1, 5.1.5).
///
/// ```
/// use nunatak::DlhtMap;
/// let map: DlhtMap<u64, u64> = (0..1000).map(|key| (key, key)).collect();
/// let stats = map.stats();
/// assert_eq!(stats.len, 1000);
/// assert_eq!(stats.slots, 3 * stats.bins + 4 * stats.link_buckets);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DlhtStats {
    /// The number of entries.
    pub len: usize,
    /// The bins of the current index, of 64 bytes each.
    pub bins: usize,
    /// The link buckets of the current index, of 64 bytes each, taken or not.
    pub link_buckets: usize,
    /// The link buckets that are chained to bins. A half bucket counts 0.5.
    pub link_buckets_taken: f64,
    /// All slots of the current index: three in each bin, four in each link bucket.
    pub slots: usize,
    /// The share of all slots that hold an entry, including the slots of an index that is being
    /// filled.
    pub occupancy: f64,
    /// The number of bins that hold 0, 1, … 15 entries.
    pub bins_by_entries: [usize; SLOTS + 1],
    /// Bins whose pairs are in the overflow under a lock, because their keys collide or memory is
    /// short.
    pub delegated_bins: usize,
    /// Indexes that are retired and not yet freed.
    pub retired_indexes: usize,
}

impl<P: HashCodec, Y: Mode> Figures for Table<P, Y> {
    type Stats = DlhtStats;

    fn len(&self) -> usize {
        self.keys().saturating_sub(if Y::SHADOWS { self.registry.hidden() } else { 0 })
    }

    /// Returns the share of all slots that hold a key, in the current index and in the indexes that
    /// are being filled. A delegated key has a slot of its own.
    fn load_factor(&self) -> f64 {
        let pin = self.enter();
        let slots: usize =
            self.generations(&pin).map(|index| index.slots() + index.overflow.lock().len()).sum();
        (self.len() as f64 / slots as f64).min(1.0)
    }

    fn memory_usage(&self) -> MemoryUsage {
        self.free_retired();
        let pin = self.enter();
        let usage = self
            .generations(&pin)
            .fold(MemoryUsage::default(), |usage, index| usage + index.usage());
        let usage =
            self.retired.map(Index::usage).into_iter().fold(usage, |sum, usage| sum + usage);
        usage + MemoryUsage::allocated(self.registry.bytes())
    }

    /// Reads every bin.
    fn stats(&self) -> DlhtStats {
        let index = self.hold_root();
        let mut bins_by_entries = [0; SLOTS + 1];
        let bins = index.bins.len();
        for at in 0..bins {
            let bin = index.bins.at(at);
            // Relaxed: a statistic.
            if bin.links.load(Ordering::Relaxed) & DELEGATED == 0 {
                let header = Header(bin.header.load(Ordering::Relaxed));
                bins_by_entries[header.claimed_count()] += 1;
            }
        }
        let (taken, halves) = index.links_taken();
        let len = self.len();
        DlhtStats {
            len,
            bins,
            link_buckets: halves / 2,
            link_buckets_taken: taken as f64 / 2.0,
            slots: index.slots(),
            occupancy: self.load_factor(),
            bins_by_entries,
            delegated_bins: index.overflow.lock().delegated_bins(),
            retired_indexes: self.retired.count(),
        }
    }
}
