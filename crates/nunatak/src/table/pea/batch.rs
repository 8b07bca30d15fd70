//! Batches: the operations in order, the memory accesses overlapped. The paper has none.
//!
//! They go in [groups](crate::table::groups) through three stages: the first header of a key
//! is fetched; when that has arrived, the slot that it tells of, or a free one; and the
//! operation is executed.

use super::Table;
use super::bucket::Flag;
use super::directory::Found;
use super::geometry::{Strategy, fingerprint, first_bucket, second_bucket};
use super::layout::{Header, Layout};
use crate::hash::Placement;
use crate::memory::Medium;
use crate::memory::prefetch::{prefetch, prefetch_to_write};
use crate::table::groups::Lags;
use crate::table::{Change, KeyTest};

/// When an operation's slot is fetched, and it is executed.
const LAGS: Lags<2> = Lags { near: [2, 3], far: [3, 5] };
const RING: usize = LAGS.ring();

/// What is known of an operation before its turn.
#[derive(Clone, Copy)]
struct Ahead<'t> {
    hash: u64,
    /// As it was when the bucket was fetched.
    found: Found<'t>,
}

impl<P: Placement, M: Medium, L: Layout> Table<P, M, L> {
    /// Runs `step` for every operation of a batch, in order, while the lines of later
    /// ones are fetched.
    #[inline(always)]
    fn for_each_fetched<'t, const CHANGES: bool>(
        &'t self,
        count: usize,
        word: impl Fn(usize) -> u64,
        mut step: impl FnMut(usize, u64, Ahead<'t>) -> bool,
    ) {
        let mut ring = [Ahead { hash: 0, found: self.directories.find(0) }; RING];
        let (groups, [slot_lag, step_lag]) = LAGS.groups(count);
        for turn in groups.turns() {
            for at in groups.at(turn, 0) {
                let hash = self.placement.hash(word(at));
                ring[at % RING] = Ahead { hash, found: self.locate(hash) };
            }
            // By themselves, since these are the ones that wait for addresses of pages.
            for at in groups.at(turn, 0) {
                let Ahead { hash, found } = ring[at % RING];
                let address = |bucket| self.segments.address(found.entry.segment(), bucket);
                let first = address(first_bucket(hash, self.mask()));
                if CHANGES {
                    prefetch_to_write(first)
                } else {
                    prefetch(first)
                }
                if CHANGES && found.entry.strategy() > Strategy::Single {
                    prefetch_to_write(address(second_bucket(hash, self.mask())));
                }
            }
            for at in groups.at(turn, slot_lag) {
                self.prefetch_slot::<CHANGES>(ring[at % RING]);
            }
            for at in groups.at(turn, step_lag) {
                if !step(at, word(at), ring[at % RING]) {
                    return;
                }
            }
        }
    }

    #[inline(always)]
    fn prefetch_slot<const CHANGES: bool>(&self, Ahead { hash, found }: Ahead<'_>) {
        let (segment, mask) = (found.entry.segment(), self.mask());
        let bucket = self.segments.bucket(segment, first_bucket(hash, mask));
        let header = bucket.header();
        let slot = header.matching(fingerprint(hash)).next();
        if CHANGES && slot.is_none() {
            let (bucket, slot) = match found.entry.strategy() > Strategy::Single {
                true => self.place_ahead(segment, hash, (bucket, header)),
                false => (bucket, header.matching(0).next()),
            };
            bucket.addresses(slot.unwrap_or(0)).for_each(prefetch_to_write);
        } else if slot.is_none() && header.has(Flag::Second) {
            prefetch(self.segments.address(segment, second_bucket(hash, mask)));
        } else {
            let fetch =
                |address| if CHANGES { prefetch_to_write(address) } else { prefetch(address) };
            bucket.addresses(slot.unwrap_or(0)).for_each(fetch);
        }
    }

    /// Where a key is that does not seem to be in its first bucket, or would be stored.
    #[inline(always)]
    fn place_ahead<'t>(
        &'t self,
        segment: usize,
        hash: u64,
        (first, of_first): (&'t L, L::Header),
    ) -> (&'t L, Option<usize>) {
        let second = self.segments.bucket(segment, second_bucket(hash, self.mask()));
        let of_second = second.header();
        if let Some(slot) = of_second.matching(fingerprint(hash)).next() {
            return (second, Some(slot));
        }
        // As inserts choose.
        match of_second.free_slots() > of_first.free_slots() {
            true => (second, of_second.matching(0).next()),
            false => (first, of_first.matching(0).next()),
        }
    }

    /// A lookup in a segment that may not be the key's any more.
    #[inline(always)]
    fn find_ahead<T: KeyTest>(
        &self,
        Ahead { hash, found }: Ahead<'_>,
        tag: u64,
        test: &T,
    ) -> Option<u64> {
        // What is in a file may be in another page by now, or not be durable.
        if !M::IS_DURABLE {
            let second = self.find_in_segment(found.entry.segment(), hash, tag, test);
            if self.is_still(found) {
                return second;
            }
        }
        self.find_tag::<false, _>(hash, tag, test)
    }

    #[inline(always)]
    pub(super) fn find_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        mut found: impl FnMut(usize, Option<u64>),
    ) {
        self.for_each_fetched::<false>(count, word, |at, word, ahead| {
            let tag = self.placement.tag(word, ahead.hash);
            found(at, self.find_ahead(ahead, tag, &test(at)));
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
        self.for_each_fetched::<true>(count, word, |at, word, Ahead { hash, found }| {
            let change = |second| change(at, second);
            let (found, fresh) = (Some(found), fresh(at));
            done(at, self.apply_hashed::<false, _>(hash, found, word, &test(at), fresh, change))
        });
    }
}
