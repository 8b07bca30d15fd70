//! The quantities that the paper reports (sections 4.5 to 4.7).

use super::Table;
use super::find::PASSED;
use crate::hash::HashCodec;
use crate::memory::{BuddyExtent, Medium, MemoryUsage};
use crate::sync::Ordering;
use crate::table::shared::bucket::{Header, Layout, Marking};
use crate::table::shared::moves::ResizeTimes;
use crate::table::shared::rehashed::Rehashed;
use crate::table::stages::Figures;
use core::time::Duration;

/// What a [`TurboMap`](crate::TurboMap) looks like inside.
///
/// ```
/// use nunatak::TurboMap;
/// let map: TurboMap<u64, u64> = (0..1000).map(|key| (key, key)).collect();
/// let stats = map.stats();
/// assert_eq!(stats.len, 1000);
/// assert_eq!(stats.distances.iter().sum::<usize>() + stats.chained, stats.len);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TurboStats {
    /// Entries.
    pub len: usize,
    /// Shards. A map of at most 32 entries has no buckets yet.
    pub shards: usize,
    /// Buckets of all shards.
    pub buckets: usize,
    /// Slots of all buckets.
    pub slots: usize,
    /// The share of the slots that hold an entry.
    pub load_factor: f64,
    /// Free slots in passed buckets. The paper calls them deleted.
    pub tombstones: usize,
    /// How many entries are 0, 1, 2, … buckets behind their first bucket.
    pub distances: Vec<usize>,
    /// Which share of the searches for absent keys looks at 1, 2, 3, … buckets.
    pub probes: Vec<f64>,
    /// The mean number of buckets that a search for an absent key looks at.
    pub mean_probes: f64,
    /// Entries in chains, because many hashes agree in many bits.
    pub chained: usize,
    /// How often a shard became larger.
    pub grown: usize,
    /// How often a shard lost its tombstones and kept its size.
    pub collected: usize,
    /// How often a shard became smaller without being asked.
    pub shrunk: usize,
    /// How often the entries of a shard were stored in other buckets, for any reason.
    pub rehashes: usize,
    /// Entries that rehashes have moved, each as often as it was moved.
    pub moved: usize,
    /// The time that rehashes have taken, with that for memory.
    pub rehash_time: Duration,
    /// The time of the longest rehash.
    pub longest_rehash: Duration,
    /// The times of all rehashes.
    pub rehash_times: ResizeTimes,
}

impl<P: HashCodec, M: Medium, L: Layout> Figures for Table<P, M, L> {
    type Stats = TurboStats;

    fn len(&self) -> usize {
        if M::IS_DURABLE && self.restoring.left() > 0 {
            self.restore_all();
        }
        self.counted()
    }

    fn load_factor(&self) -> f64 {
        self.len().saturating_sub(self.chains.len()) as f64 / self.slots().max(1) as f64
    }

    fn memory_usage(&self) -> MemoryUsage {
        let all = self.medium.usage() + self.shards.usage() + self.chains.usage();
        #[cfg(durable)]
        let all = self.undo.as_ref().map_or(all, |undo| all + undo.usage());
        all
    }

    /// Looks at every slot. Changes wait, one shard at a time.
    fn stats(&self) -> TurboStats {
        let (mut buckets, mut tombstones) = (0, 0);
        let (mut distances, mut ends) = (Vec::new(), Vec::new());
        for number in 0..self.shards.len() {
            self.change_hashed(number, None, |held, hash, hashes| {
                let Some(extent) = held.descriptor.extent() else { return };
                buckets += extent.len();
                tombstones += held.shard.counts().tombstones as usize;
                self.count_distances(extent, ((hash >> 63) as usize, hashes), &mut distances);
                self.count_probes(extent, &mut ends);
            });
        }
        let all = ends.iter().sum::<usize>().max(1) as f64;
        let probed: usize = ends.iter().zip(1..).map(|(ends, probes)| ends * probes).sum();
        let happened = &self.happened;
        let rehashes = happened.rehashes.so_far();
        TurboStats {
            len: self.len(),
            shards: self.shards.len(),
            buckets,
            slots: buckets * L::SLOTS,
            load_factor: self.load_factor(),
            tombstones,
            distances,
            probes: ends.iter().map(|&ends| ends as f64 / all).collect(),
            mean_probes: probed as f64 / all,
            chained: self.chains.len(),
            // Relaxed: statistics.
            grown: happened.grown.load(Ordering::Relaxed),
            collected: happened.collected.load(Ordering::Relaxed),
            shrunk: happened.shrunk.load(Ordering::Relaxed),
            rehashes: rehashes.moves,
            moved: rehashes.pairs,
            rehash_time: rehashes.time,
            longest_rehash: rehashes.longest,
            rehash_times: rehashes.times,
        }
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Returns the number of pairs, without the shards that were not restored since a crash.
    pub(super) fn counted(&self) -> usize {
        // A concurrent count may include a removal without its insert.
        self.registry.added().cast_signed().max(0) as usize
    }

    /// Returns the number of slots of all shards.
    pub(super) fn slots(&self) -> usize {
        let extents =
            (0..self.shards.len()).filter_map(|n| self.shards.shard(n).descriptor().extent());
        extents.map(|extent| extent.len() * L::SLOTS).sum()
    }

    fn count_distances(
        &self,
        extent: BuddyExtent,
        (half, hashes): (usize, &Rehashed),
        distances: &mut Vec<usize>,
    ) {
        for (at, bucket) in (extent.first..).zip(self.shards.all(extent)) {
            for item in bucket.items(Marking::Place) {
                let hash = hashes.hash(&self.codec, item.tag, half);
                let home = self.shards.place(extent, hash, 0);
                count(distances, at.wrapping_sub(home) & (extent.len() - 1));
            }
        }
    }

    fn count_probes(&self, extent: BuddyExtent, ends: &mut Vec<usize>) {
        let at = |place: usize| self.shards.bucket(extent.first + (place & (extent.len() - 1)));
        for home in 0..extent.len() {
            let last = self.scope(extent) - 1;
            let goes_on = |&place: &usize| at(home + place).header().has(PASSED);
            count(ends, (0..last).take_while(goes_on).count());
        }
    }
}

fn count(counts: &mut Vec<usize>, at: usize) {
    if counts.len() <= at {
        counts.resize(at + 1, 0);
    }
    counts[at] += 1;
}
