//! Batches: the operations in order, the memory accesses overlapped. The paper has
//! none.
//!
//! Prefetches run ahead of the execution in two windows: of the fingerprints, and
//! closer, when those have arrived, of the slot that they tell of. So an operation
//! finds both of its lines in the cache.

use super::Table;
use super::back::Back;
use super::front::first_from;
use super::geometry::{BlockSizes, back_fingerprint, choices, fingerprint, preferred_slot};
use crate::hash::Placement;
use crate::table::prefetch::{prefetch, prefetch_to_write};
use crate::table::{Change, KeyTest};

/// How far ahead of its execution an operation's fingerprints are fetched, its slot
/// or those of the back yard, and its slot there.
const LINE_DISTANCE: usize = 72;
const SLOT_DISTANCE: usize = 40;
const BACK_DISTANCE: usize = 16;
/// A power of two above the distance.
const RING: usize = 128;

/// An operation that is under way: its hash, and whether its key may be in the back
/// yard.
#[derive(Clone, Copy, Default)]
struct Ahead {
    hash: u64,
    is_behind: bool,
}

impl<P: Placement, B: BlockSizes> Table<P, B> {
    /// Runs `step` for every operation of a batch, in order, with its hash, while
    /// the lines of later ones are fetched.
    #[inline(always)]
    fn for_each_fetched<const CHANGES: bool>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        mut step: impl FnMut(usize, u64, u64) -> bool,
    ) {
        let mut ring = [Ahead::default(); RING];
        // What comes before the first operation is as what is between them.
        for time in 0..count + LINE_DISTANCE {
            if time < count {
                let hash = self.placement.hash(word(time));
                ring[time % RING].hash = hash;
                self.fetch_line::<CHANGES>(hash);
            }
            let at = time.wrapping_sub(LINE_DISTANCE - SLOT_DISTANCE);
            if at < count {
                let ahead = &mut ring[at % RING];
                ahead.is_behind = self.fetch_slot::<CHANGES>(ahead.hash);
            }
            let at = time.wrapping_sub(LINE_DISTANCE - BACK_DISTANCE);
            if at < count && ring[at % RING].is_behind {
                self.fetch_back(ring[at % RING].hash);
            }
            let at = time.wrapping_sub(LINE_DISTANCE);
            if at < count && !step(at, word(at), ring[at % RING].hash) {
                return;
            }
        }
    }

    #[inline(always)]
    fn fetch_line<const CHANGES: bool>(&self, hash: u64) {
        let block = self.geometry.block(hash, self.state().mask());
        if CHANGES {
            prefetch_to_write(self.front.line_address(block));
        } else {
            prefetch(self.front.line_address(block));
        }
    }

    /// Fetches what an operation will come to after the fingerprints, and returns
    /// whether its key seems to be in the back yard.
    #[inline(always)]
    fn fetch_slot<const CHANGES: bool>(&self, hash: u64) -> bool {
        let mask = self.state().mask();
        let block = self.geometry.block(hash, mask);
        let fingerprint = fingerprint(hash);
        let preferred = preferred_slot::<B>(hash);
        let matching = self.front.matching(block, fingerprint);
        let slot = first_from(matching, preferred);
        if matching != 0 {
            if CHANGES {
                prefetch_to_write(self.front.slot_address(block, slot));
            } else {
                prefetch(self.front.slot_address(block, slot));
            }
            let others = matching & !(1 << slot);
            if others != 0 {
                prefetch(self.front.slot_address(block, first_from(others, preferred)));
            }
            return false;
        }
        if CHANGES {
            let empty = self.front.empty_for(block, fingerprint);
            prefetch_to_write(self.front.slot_address(block, first_from(empty, preferred)));
        }
        let is_behind = self.front.is_overflowed(block);
        if is_behind {
            for hash in choices(hash) {
                prefetch(self.back.word_address(self.geometry.block(hash, mask)));
            }
        }
        is_behind
    }

    /// Fetches the slots of the back yard that a key may be in.
    #[inline(always)]
    fn fetch_back(&self, hash: u64) {
        let mask = self.state().mask();
        for choice in choices(hash) {
            let block = self.geometry.block(choice, mask);
            for slot in Back::<B>::matching(self.back.word(block), back_fingerprint(hash)) {
                prefetch(self.back.slot_address(block, slot));
            }
        }
    }

    /// Looks up many keys.
    #[inline(always)]
    pub(crate) fn find_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        mut found: impl FnMut(usize, Option<u64>),
    ) {
        self.for_each_fetched::<false>(count, word, |at, word, hash| {
            found(at, self.find_fetched(hash, self.placement.tag(word, hash), &test(at)));
            true
        });
    }

    /// Applies many changes.
    #[inline(always)]
    pub(crate) fn apply_many<T: KeyTest>(
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
            let before = self.apply_hash::<true, T>((word, hash), &test(at), fresh(at), &change);
            done(at, before)
        });
    }
}
