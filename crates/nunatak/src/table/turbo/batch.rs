//! Batches: the operations in order, the memory accesses overlapped. The paper has none.
//!
//! Prefetches run ahead of the execution in three windows: of a shard's descriptor; closer,
//! when that has arrived, of the header of a key's bucket; and of the slot that it tells of,
//! or of a free one.

use super::Table;
use super::find::PASSED;
use super::geometry::fingerprint;
use crate::hash::Placement;
use crate::memory::Medium;
use crate::memory::prefetch::{prefetch, prefetch_to_write};
use crate::table::pea::layout::{Header, Layout};
use crate::table::{Change, KeyTest};

/// How far ahead of its execution an operation's descriptor is fetched, its header and its
/// slot.
const DESCRIPTOR_DISTANCE: usize = 48;
const HEADER_DISTANCE: usize = 32;
const SLOT_DISTANCE: usize = 12;
/// A power of two above the distances.
const RING: usize = 64;
/// The first bucket of a shard that has none.
const NONE: usize = usize::MAX;

impl<P: Placement, M: Medium, L: Layout> Table<P, M, L> {
    /// Runs `step` for every operation of a batch, in order, while the lines of later
    /// ones are fetched.
    #[inline(always)]
    fn for_each_fetched<const CHANGES: bool>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        mut step: impl FnMut(usize, u64, u64) -> bool,
    ) {
        // Hashes and first buckets.
        let mut ring = [(0_u64, 0_usize); RING];
        for time in 0..count + DESCRIPTOR_DISTANCE {
            let at = time.wrapping_sub(DESCRIPTOR_DISTANCE);
            if at < count && !step(at, word(at), ring[at % RING].0) {
                return;
            }
            if time < count {
                let hash = self.placement.hash(word(time));
                ring[time % RING].0 = hash;
                let shard: *const _ = self.shards.of(hash);
                if CHANGES { prefetch_to_write(shard) } else { prefetch(shard) }
            }
            let at = time.wrapping_sub(DESCRIPTOR_DISTANCE - HEADER_DISTANCE);
            if at < count {
                let (hash, _) = ring[at % RING];
                let run = self.shards.of(hash).descriptor().run();
                let bucket = run.map_or(NONE, |run| self.shards.place(run, hash, 0));
                ring[at % RING].1 = bucket;
                if bucket != NONE {
                    let address = self.shards.address(bucket);
                    if CHANGES { prefetch_to_write(address) } else { prefetch(address) }
                }
            }
            let at = time.wrapping_sub(DESCRIPTOR_DISTANCE - SLOT_DISTANCE);
            if at < count {
                self.prefetch_slot::<CHANGES>(ring[at % RING]);
            }
        }
    }

    #[inline(always)]
    fn prefetch_slot<const CHANGES: bool>(&self, (hash, at): (u64, usize)) {
        if at == NONE {
            return;
        }
        let bucket = self.shards.bucket(at);
        let header = bucket.header();
        let slot = header.matching(fingerprint(hash)).next();
        if slot.is_none() && header.has(PASSED) {
            // Mostly the next one, which is round the end of a shard seldom.
            let next = self.shards.address(at + 1);
            return if CHANGES { prefetch_to_write(next) } else { prefetch(next) };
        }
        let slot = if CHANGES { slot.or_else(|| header.matching(0).next()) } else { slot };
        for address in bucket.addresses(slot.unwrap_or(0)) {
            if CHANGES { prefetch_to_write(address) } else { prefetch(address) }
        }
    }

    #[inline(always)]
    pub(super) fn find_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        mut found: impl FnMut(usize, Option<u64>),
    ) {
        self.for_each_fetched::<false>(count, word, |at, word, hash| {
            found(at, self.find_tag::<false, _>(hash, self.placement.tag(word, hash), &test(at)));
            true
        });
    }

    #[inline(always)]
    pub(super) fn apply_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        fresh: impl Fn(usize) -> Option<u64>,
        change: impl Fn(usize, u64) -> Change,
        mut done: impl FnMut(usize, Option<u64>) -> bool,
    ) {
        self.for_each_fetched::<true>(count, word, |at, word, hash| {
            let change = |second| change(at, second);
            done(at, self.apply_hashed::<false, _>(hash, word, &test(at), fresh(at), change))
        });
    }
}
