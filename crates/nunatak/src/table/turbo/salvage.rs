//! Reads a damaged table: buckets of shards whose descriptors are lost.
//!
//! The buckets of such a shard are still in the file. They are those, among the buckets of no other
//! shard, that hold most pairs of this one where such pairs may be.

use super::Table;
use super::geometry::Descriptor;
use super::shards::Counts;
use crate::hash::HashCodec;
use crate::memory::durable::Paged;
use crate::memory::{BuddyExtent, MOST_SIZE, Medium};
use crate::sync::Ordering::Relaxed;
use crate::table::shared::bucket::{Bucket, Header, Layout, UPPER_HALF};

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
        for number in 0..self.shards.len() {
            let word = self.shards.durable(number).map(|durable| durable.load_first(Relaxed));
            let descriptor = word.and_then(Descriptor::of_word);
            let Some(descriptor) = descriptor else {
                self.medium.pool().note_damage(super::recovery::corrupt("a descriptor is none"));
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
                let what = "buckets are of no shard or of two";
                self.medium.pool().note_damage(super::recovery::corrupt(what));
                lost.push(number);
            }
        }
        for number in lost {
            if let Some(extent) = self.find_run(number, &used)
                && used.take(extent)
            {
                runs.push((number, extent));
            } else if let Some(durable) = self.shards.durable(number) {
                self.medium.store_first(durable, 0, Relaxed);
            }
        }
        self.restoring.begin(runs.len());
        for &(number, extent) in &runs {
            if let Some(durable) = self.shards.durable(number) {
                self.medium.store_first(durable, Descriptor::word(Some(extent)), Relaxed);
            }
            self.shards.set(number, Descriptor::UNRESTORED, Counts::default());
        }
        // They do not overlap, so this succeeds.
        self.shards.restore(runs.into_iter().map(|(_, extent)| extent).collect());
    }

    /// Returns the free buckets that hold most pairs of a shard.
    fn find_run(&self, number: usize, used: &Used) -> Option<BuddyExtent> {
        let sizes = (0..=MOST_SIZE).take_while(|&size| 1 << size <= used.0.len());
        let extents = sizes.flat_map(|size| {
            let firsts = (0..used.0.len()).step_by(1 << size);
            firsts.map(move |first| BuddyExtent { first, size })
        });
        let with_pairs = extents.filter(|&extent| used.is_free(extent));
        // Buckets that were given back may hold pairs that would seem to be of the other half.
        let is_of_half =
            |bucket: &Bucket| bucket.header().has(UPPER_HALF) == (self.half_of(number) == 1);
        let pairs_in = |extent| self.pairs_in_those(extent, number, is_of_half);
        let counted = with_pairs.map(|extent| (pairs_in(extent), extent));
        let most = counted.max_by_key(|&(pairs, extent)| (pairs, core::cmp::Reverse(extent.size)));
        most.filter(|&(pairs, _)| pairs > 0).map(|(_, extent)| extent)
    }

    /// Counts the pairs of a shard that are in an extent where they may be.
    fn pairs_in(&self, extent: BuddyExtent, number: usize) -> usize {
        self.pairs_in_those(extent, number, |_| true)
    }

    fn half_of(&self, number: usize) -> usize {
        number >> (self.shards.bits - 1) & 1
    }

    /// Counts, in these buckets, the pairs of a shard that are in an extent where they may be.
    fn pairs_in_those(
        &self,
        extent: BuddyExtent,
        number: usize,
        is_counted: impl Fn(&Bucket) -> bool,
    ) -> usize {
        let half = self.half_of(number);
        let is_its = |at: usize, tag: u64| {
            let hash = self.codec.hash_of_tag(tag, half);
            let home = self.shards.place(extent, hash, 0) - extent.first;
            let distance = at.wrapping_sub(home) & (extent.len() - 1);
            self.shards.number(hash) == number && distance < self.scope(extent)
        };
        let buckets = self.shards.all(extent).enumerate().filter(|(_, bucket)| is_counted(bucket));
        let tags = buckets.flat_map(|(at, bucket)| {
            (0..Self::SLOTS).map(move |slot| (at, bucket.pair(slot, self.pairs_load_whole).0))
        });
        tags.filter(|&(at, tag)| tag != 0 && self.codec.is_tag(tag) && is_its(at, tag)).count()
    }
}
