//! Reads a damaged table: buckets of shards whose descriptors are lost.
//!
//! The buckets of such a shard are still in the file. They are those, among the buckets of no other
//! shard, that hold most pairs of this one where such pairs may be.

use super::Table;
use super::geometry::Descriptor;
use super::shards::{Counts, Left};
use crate::hash::HashCodec;
use crate::memory::durable::Paged;
use crate::memory::{BuddyExtent, MOST_SIZE};
use crate::sync::Ordering::Relaxed;
use crate::table::shared::bucket::{Header, Layout, UPPER_HALF};
use core::cmp::Reverse;
use std::collections::BTreeMap;

/// Buckets that may be those of a shard, and how many of its pairs they hold beyond others.
struct Run {
    extent: BuddyExtent,
    pairs: usize,
}

/// Which buckets are of a shard.
struct Used(Vec<bool>);

impl Used {
    /// Takes an extent, unless some of it is taken or not there.
    fn take(&mut self, extent: BuddyExtent) -> bool {
        let is_free = self.is_free(extent);
        if is_free {
            self.0[extent.first..extent.first + extent.len()].fill(true);
        }
        is_free
    }

    fn is_free(&self, extent: BuddyExtent) -> bool {
        let range = extent.first.checked_add(extent.len()).map(|end| extent.first..end);
        let is_aligned = extent.first.is_multiple_of(extent.len());
        is_aligned
            && range.and_then(|range| self.0.get(range)).is_some_and(|used| !used.contains(&true))
    }
}

impl<P: HashCodec> Table<P, Paged> {
    /// Learns the shards' extents, as far as a damaged file tells them.
    pub(super) fn find_what_is_left(&self) {
        let mut used = Used(vec![false; self.shards.bucket_count()]);
        let (mut runs, mut lost) = (Vec::new(), Vec::new());
        let note = |what| self.medium.pool().note_damage(super::recovery::corrupt(what));
        for number in 0..self.shards.len() {
            let Some(durable) = self.shards.descriptor_left(number) else {
                note("a shard has no descriptor");
                lost.push(number);
                continue;
            };
            let Some(descriptor) = Descriptor::of_word(durable.load_first(Relaxed)) else {
                note("a descriptor is none");
                lost.push(number);
                continue;
            };
            let is_doubtful = self.medium.pool().damage().is_some();
            let Some(extent) = descriptor.extent() else {
                // A page that is lost as a whole names no buckets, either.
                lost.extend(is_doubtful.then_some(number));
                continue;
            };
            let may_be =
                used.is_free(extent) && (!is_doubtful || self.pairs_in(extent, number) > 0);
            if may_be && used.take(extent) {
                runs.push((number, extent));
            } else {
                note("buckets are of no shard or of two");
                lost.push(number);
            }
        }
        runs.extend(self.find_runs_of(&lost, &mut used));
        if runs.iter().any(|&(_, extent)| self.shards.lacks_page(extent)) {
            note("a page is in no page map");
        }
        let of_upper = runs.iter().filter(|&&(number, _)| number >= self.shards.len() / 2);
        let mut of_upper = of_upper.flat_map(|&(_, extent)| self.shards.all(extent));
        let has_marks = of_upper.any(|bucket| bucket.header().has(UPPER_HALF));
        let mut descriptors = vec![Descriptor::word(None); self.shards.len()];
        for &(number, extent) in &runs {
            descriptors[number] = Descriptor::word(Some(extent));
            self.shards.set(number, Descriptor::UNRESTORED, Counts::default());
        }
        // It was not set before: a table is opened once.
        let _ = self.shards.left.set(Left { descriptors, has_marks });
        self.restoring.begin(runs.len());
        // They do not overlap, so this succeeds.
        self.shards.restore(runs.into_iter().map(|(_, extent)| extent).collect());
    }

    /// Returns runs of these shards among the free buckets: those that hold most of their pairs. The
    /// shard with most pairs chooses first.
    fn find_runs_of(&self, lost: &[usize], used: &mut Used) -> Vec<(usize, BuddyExtent)> {
        if lost.is_empty() {
            return Vec::new();
        }
        let mut of_shards: BTreeMap<usize, Vec<(usize, u64)>> =
            lost.iter().map(|&number| (number, Vec::new())).collect();
        // How many pairs, of any shard, are in the free buckets before each.
        let mut before = vec![0];
        for at in 0..used.0.len() {
            let free = (!used.0[at]).then(|| self.shards.bucket(at));
            let hashes = free.into_iter().flat_map(|bucket| {
                // Without the mark, pairs of the other half would seem to be of this one.
                let half = usize::from(bucket.header().has(UPPER_HALF));
                let tags =
                    (0..Self::SLOTS).map(move |slot| bucket.pair(slot, self.pairs_load_whole).0);
                let tags = tags.filter(|&tag| tag != 0 && self.codec.is_tag(tag));
                tags.map(move |tag| self.codec.hash_of_tag(tag, half))
            });
            let mut count = before[at];
            for hash in hashes {
                count += 1;
                if let Some(pairs) = of_shards.get_mut(&self.shards.number(hash)) {
                    pairs.push((at, hash));
                }
            }
            before.push(count);
        }
        let mut by_pairs: Vec<(usize, Vec<Run>)> = of_shards
            .iter()
            .map(|(&number, pairs)| (number, self.runs_of(pairs, &before)))
            .collect();
        by_pairs.sort_by_key(|(_, runs)| Reverse(runs.first().map_or(0, |run| run.pairs)));
        let chosen = by_pairs.into_iter().filter_map(|(number, runs)| {
            let free =
                runs.into_iter().map(|run| run.extent).find(|&extent| used.is_free(extent))?;
            used.take(free).then_some((number, free))
        });
        chosen.collect()
    }

    /// Returns runs that may be those of a shard, the most likely first. Each of the shard's pairs
    /// comes with its bucket, in ascending order. A run has pairs of no other shard, and has no pair
    /// twice; so it holds no other run, neither of another shard nor an earlier one of this.
    fn runs_of(&self, pairs: &[(usize, u64)], before: &[usize]) -> Vec<Run> {
        let mut runs = Vec::new();
        let sizes = (0..=MOST_SIZE).take_while(|&size| 1 << size <= self.shards.bucket_count());
        for size in sizes {
            for pairs in pairs.chunk_by(|one, other| one.0 >> size == other.0 >> size) {
                let extent = BuddyExtent { first: pairs[0].0 >> size << size, size };
                let is_there = |&&(at, hash): &&(usize, u64)| {
                    self.distance(extent, at - extent.first, hash) < self.scope(extent)
                };
                let Some(end) = before.get(extent.first + extent.len()) else { continue };
                let mut its: Vec<u64> = pairs.iter().filter(is_there).map(|pair| pair.1).collect();
                let others = end - before[extent.first] - its.len();
                its.sort_unstable();
                its.dedup();
                let pairs = its.len().saturating_sub(others);
                runs.extend((pairs > 0).then_some(Run { extent, pairs }));
            }
        }
        runs.sort_by_key(|run| (Reverse(run.pairs), run.extent.size));
        runs
    }

    /// Returns how far behind its first bucket a pair of this hash is.
    fn distance(&self, extent: BuddyExtent, at: usize, hash: u64) -> usize {
        let home = self.shards.place(extent, hash, 0) - extent.first;
        at.wrapping_sub(home) & (extent.len() - 1)
    }

    /// Counts the pairs of a shard that are in an extent where they may be.
    fn pairs_in(&self, extent: BuddyExtent, number: usize) -> usize {
        let half = number >> (self.shards.bits - 1) & 1;
        let is_its = |at: usize, tag: u64| {
            let hash = self.codec.hash_of_tag(tag, half);
            self.shards.number(hash) == number
                && self.distance(extent, at, hash) < self.scope(extent)
        };
        let tags = self.shards.all(extent).enumerate().flat_map(|(at, bucket)| {
            (0..Self::SLOTS).map(move |slot| (at, bucket.pair(slot, self.pairs_load_whole).0))
        });
        tags.filter(|&(at, tag)| tag != 0 && self.codec.is_tag(tag) && is_its(at, tag)).count()
    }
}
