//! Batches: operations in order, with overlapping memory accesses. The paper has no batches.
//!
//! Operations go in [groups](crate::table::shared::prefetch_groups) through four stages. They fetch
//! the header of the key's first bucket; fetch the slot that matches, or a free slot; fetch the
//! slot of a key that seems to be in its second bucket; run the operation. (A change fetches both
//! headers at once, and needs no third stage.)

use super::Table;
use super::directory::Found;
use super::geometry::{Strategy, fingerprint, first_bucket, second_bucket};
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::memory::prefetch::{prefetch, prefetch_to_write};
use crate::simd::BitIter;
use crate::table::shared::bucket::{Flag, Header, Layout};
use crate::table::shared::prefetch_groups::StageDelays;
use crate::table::stages::Batches;
use crate::table::{Change, KeyTest};

/// The delays of a lookup's stages: fetching the slot, fetching one in the second bucket, running.
const LOOKUP_DELAYS: StageDelays<3> = StageDelays { near: [2, 3, 4], far: [3, 5, 6] };
/// The delays of a change's stages. It has no stage for the second bucket.
const CHANGE_DELAYS: StageDelays<3> = StageDelays { near: [2, 3, 3], far: [3, 5, 5] };
const RING: usize = LOOKUP_DELAYS.ring();
/// More groups than there are between two stages.
const GROUPS: usize = 4;

const _: () = {
    let StageDelays { near, far } = LOOKUP_DELAYS;
    assert!(near[1] - near[0] < GROUPS && far[1] - far[0] < GROUPS && CHANGE_DELAYS.ring() <= RING);
};

/// State of an operation before its turn.
#[derive(Clone, Copy)]
struct Ahead<'t> {
    hash: u64,
    /// The entry when the bucket was fetched.
    found: Found<'t>,
}

impl<P: HashCodec, M: Medium, L: Layout> Batches for Table<P, M, L> {
    #[inline(always)]
    fn find_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        mut found: impl FnMut(usize, Option<u64>),
    ) {
        self.for_each_fetched::<false>(count, word, |at, word, ahead| {
            let tag = self.codec.tag(word, ahead.hash);
            found(at, self.find_ahead(ahead, tag, &test(at)));
            true
        });
    }

    #[inline(always)]
    fn apply_many<T: KeyTest>(
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

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Runs `step` for every operation of a batch, in order, while later operations' lines are
    /// fetched.
    #[inline(always)]
    fn for_each_fetched<'t, const CHANGES: bool>(
        &'t self,
        count: usize,
        word: impl Fn(usize) -> u64,
        mut step: impl FnMut(usize, u64, Ahead<'t>) -> bool,
    ) {
        let none = Ahead { hash: 0, found: self.directories.find(0) };
        let mut ring = [none; RING];
        // The lookups of each group whose keys seem to be in their second buckets.
        let mut behind = [0_u64; GROUPS];
        let lags = if CHANGES { CHANGE_DELAYS } else { LOOKUP_DELAYS };
        let (groups, [slot_lag, behind_lag, step_lag]) = lags.groups(count);
        for turn in groups.turns() {
            for at in groups.at(turn, 0) {
                let hash = self.codec.hash(word(at));
                ring[at % RING] = Ahead { hash, found: self.locate(hash) };
            }
            // A loop of its own, since these fetches wait for addresses of pages.
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
            if CHANGES {
                for at in groups.at(turn, slot_lag) {
                    self.prefetch_slot_to_write(ring[at % RING]);
                }
            } else {
                let mut seem_behind = 0;
                for (bit, at) in groups.at(turn, slot_lag).enumerate() {
                    seem_behind |= u64::from(self.prefetch_slot(ring[at % RING])) << bit;
                }
                behind[(turn + behind_lag - slot_lag) % GROUPS] = seem_behind;
                let first = groups.at(turn, behind_lag).start;
                for bit in BitIter::new(core::mem::take(&mut behind[turn % GROUPS])) {
                    self.prefetch_slot_behind(ring[(first + bit) % RING]);
                }
            }
            for at in groups.at(turn, step_lag) {
                if !step(at, word(at), ring[at % RING]) {
                    return;
                }
            }
        }
    }

    /// Fetches the slot of a key. If the key seems to be in its second bucket, fetches the header
    /// of this bucket instead, and returns true.
    #[inline(always)]
    fn prefetch_slot(&self, Ahead { hash, found }: Ahead<'_>) -> bool {
        let (segment, mask) = (found.entry.segment(), self.mask());
        let bucket = self.segments.bucket(segment, first_bucket(hash, mask));
        let header = bucket.header();
        let slot = header.matching(fingerprint(hash)).next();
        let is_behind = slot.is_none() && header.has(Flag::Second);
        if is_behind {
            prefetch(self.segments.address(segment, second_bucket(hash, mask)));
        } else {
            bucket.addresses(slot.unwrap_or(0)).for_each(prefetch);
        }
        is_behind
    }

    /// Fetches the slot that a change will store to.
    #[inline(always)]
    fn prefetch_slot_to_write(&self, Ahead { hash, found }: Ahead<'_>) {
        let (segment, mask) = (found.entry.segment(), self.mask());
        let bucket = self.segments.bucket(segment, first_bucket(hash, mask));
        let header = bucket.header();
        let (bucket, slot) = match header.matching(fingerprint(hash)).next() {
            None if found.entry.strategy() > Strategy::Single => {
                self.place_ahead(segment, hash, (bucket, header))
            }
            None => (bucket, header.matching(0).next()),
            slot => (bucket, slot),
        };
        bucket.addresses(slot.unwrap_or(0)).for_each(prefetch_to_write);
    }

    #[inline(always)]
    fn prefetch_slot_behind(&self, Ahead { hash, found }: Ahead<'_>) {
        let second = second_bucket(hash, self.mask());
        let bucket = self.segments.bucket(found.entry.segment(), second);
        if let Some(slot) = bucket.header().matching(fingerprint(hash)).next() {
            bucket.addresses(slot).for_each(prefetch);
        }
    }

    /// Returns where a change will find or store a key that does not seem to be in its first
    /// bucket.
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
        // Chooses as inserts do.
        match of_second.free_slots() > of_first.free_slots() {
            true => (second, of_second.matching(0).next()),
            false => (first, of_first.matching(0).next()),
        }
    }

    /// Looks a key up in a segment that may not be the key's any more.
    #[inline(always)]
    fn find_ahead<T: KeyTest>(
        &self,
        Ahead { hash, found }: Ahead<'_>,
        tag: u64,
        test: &T,
    ) -> Option<u64> {
        // A page of a file may have moved by now, or not be durable.
        if !M::IS_DURABLE {
            let second = self.find_in_segment(found.entry.segment(), (hash, tag), test);
            if self.is_still(found) {
                return second;
            }
        }
        self.find_tag::<false, _>(hash, tag, test)
    }
}
