//! Batches: the operations in order, the memory accesses overlapped. The paper has
//! none.
//!
//! Prefetches run ahead of the execution in two windows: of the fingerprints, and
//! closer, when those have arrived, of the slot that they tell of. So an operation
//! finds both of its lines in the cache.

use super::Table;
use super::geometry::{BlockSizes, choices, fingerprint, preferred_slot};
use crate::hash::Placement;
use crate::table::prefetch::prefetch;
use crate::table::{Change, KeyTest};

/// How far ahead of its execution an operation's fingerprints are fetched, and
/// its slot.
const LINE_DISTANCE: usize = 64;
const SLOT_DISTANCE: usize = 24;
/// A power of two above the distance.
const RING: usize = 128;

impl<P: Placement, B: BlockSizes> Table<P, B> {
    /// Runs `step` for every operation of a batch, in order, with its hash, while
    /// the lines of later ones are fetched.
    #[inline(always)]
    fn for_each_fetched(
        &self,
        count: usize,
        to_insert: bool,
        word: impl Fn(usize) -> u64,
        mut step: impl FnMut(usize, u64, u64) -> bool,
    ) {
        let mut hashes = [0; RING];
        let fetch_line = |hashes: &mut [u64; RING], at: usize| {
            let hash = self.placement.hash(word(at));
            hashes[at % RING] = hash;
            self.prefetch(hash);
        };
        (0..count.min(LINE_DISTANCE)).for_each(|at| fetch_line(&mut hashes, at));
        (0..count.min(SLOT_DISTANCE)).for_each(|at| self.fetch_slot(hashes[at % RING], to_insert));
        for at in 0..count {
            if at + LINE_DISTANCE < count {
                fetch_line(&mut hashes, at + LINE_DISTANCE);
            }
            if at + SLOT_DISTANCE < count {
                self.fetch_slot(hashes[(at + SLOT_DISTANCE) % RING], to_insert);
            }
            if !step(at, word(at), hashes[at % RING]) {
                return;
            }
        }
    }

    /// Fetches what an operation will come to after the fingerprints.
    #[inline(always)]
    fn fetch_slot(&self, hash: u64, to_insert: bool) {
        let mask = self.state().mask();
        let block = self.geometry.block(hash, mask);
        let matching = self.front.matching(block, fingerprint(hash));
        if matching != 0 {
            prefetch(self.front.slot_address(block, matching.trailing_zeros() as usize));
            return;
        }
        for hash in choices(hash) {
            prefetch(self.back.word_address(self.geometry.block(hash, mask)));
        }
        if to_insert {
            let slot =
                super::apply::first_from(self.front.matching(block, 0), preferred_slot::<B>(hash));
            prefetch(self.front.slot_address(block, slot));
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
        self.for_each_fetched(count, false, word, |at, word, hash| {
            found(at, self.find_hash(word, hash, &test(at)));
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
        self.for_each_fetched(count, true, word, |at, word, hash| {
            let change = |second| change(at, second);
            let before = self.apply_hash((word, hash), &test(at), fresh(at), &change);
            done(at, before)
        });
    }
}
