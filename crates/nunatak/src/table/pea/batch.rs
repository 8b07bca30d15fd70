//! Batches: the operations in order, the memory accesses overlapped. The paper has none.
//!
//! Prefetches run ahead of the execution in two windows: of a key's first header; and
//! closer, when that has arrived, of the slot that it tells of, or of a free one.

use super::Table;
use super::bucket::Flag;
use super::geometry::{Entry, Strategy, fingerprint, first_bucket, second_bucket};
use super::layout::{Header, Layout};
use crate::hash::Placement;
use crate::memory::Medium;
use crate::memory::prefetch::{prefetch, prefetch_to_write};
use crate::table::{Change, KeyTest};

/// How far ahead of its execution an operation's header is fetched, and its slot.
const HEADER_DISTANCE: usize = 32;
const SLOT_DISTANCE: usize = 16;
/// A power of two above the distance.
const RING: usize = 32;

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
        let mut ring = [(0_u64, Entry(0)); RING];
        for time in 0..count + HEADER_DISTANCE {
            let at = time.wrapping_sub(HEADER_DISTANCE);
            if at < count && !step(at, word(at), ring[at % RING].0) {
                return;
            }
            if time < count {
                let hash = self.placement.hash(word(time));
                let entry = self.locate(hash).entry;
                ring[time % RING] = (hash, entry);
                let address = |bucket| self.segments.address(entry.segment(), bucket);
                let first = address(first_bucket(hash, self.mask()));
                if CHANGES {
                    prefetch_to_write(first)
                } else {
                    prefetch(first)
                }
                if CHANGES && entry.strategy() > Strategy::Single {
                    prefetch_to_write(address(second_bucket(hash, self.mask())));
                }
            }
            let at = time.wrapping_sub(HEADER_DISTANCE - SLOT_DISTANCE);
            if at < count {
                self.prefetch_slot::<CHANGES>(ring[at % RING]);
            }
        }
    }

    #[inline(always)]
    fn prefetch_slot<const CHANGES: bool>(&self, (hash, entry): (u64, Entry)) {
        let (segment, mask) = (entry.segment(), self.mask());
        let bucket = self.segments.bucket(segment, first_bucket(hash, mask));
        let header = bucket.header();
        let slot = header.matching(fingerprint(hash)).next();
        if CHANGES {
            let slot = slot.or_else(|| header.matching(0).next());
            bucket.addresses(slot.unwrap_or(0)).for_each(prefetch_to_write);
        } else if slot.is_none() && header.has(Flag::Second) {
            prefetch(self.segments.address(segment, second_bucket(hash, mask)));
        } else {
            bucket.addresses(slot.unwrap_or(0)).for_each(prefetch);
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
