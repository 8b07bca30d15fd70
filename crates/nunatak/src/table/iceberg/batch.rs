//! Batches: operations in order, with overlapping memory accesses. The paper has no batches.
//!
//! Operations go in [groups](crate::table::shared::prefetch_groups) through four stages. The first
//! prefetches the fingerprints. The second prefetches the slot with a matching fingerprint, or the
//! fingerprints of the back yard. The third prefetches the slot there. The last executes the
//! operation, which finds its lines in the cache. The prefetched data are hints: only a hit counts
//! by itself, since a tag belongs to its key.

use super::Table;
use super::back::Back;
use super::front::first_from;
use super::geometry::{BlockSizes, State, back_fingerprint, choices, fingerprint, preferred_slot};
use super::yard::Yard;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::memory::prefetch::{prefetch, prefetch_to_write};
use crate::table::shared::prefetch_groups::StageDelays;
use crate::table::stages::Batches;
use crate::table::{Change, KeyTest};
use core::hint::select_unpredictable;

/// The delays of the stages: the slot or the fingerprints of the back yard; the slot there; the
/// execution.
const DELAYS: StageDelays<3> = StageDelays { near: [2, 3, 4], far: [2, 4, 5] };
const RING: usize = DELAYS.ring();

/// An operation that is under way.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    pub(super) hash: u64,
    /// The state that gave the block and the slots.
    pub(super) state: State,
    pub(super) block: usize,
    /// The slot that may be the key's, if `is_found`.
    pub(super) slot: u8,
    pub(super) is_found: bool,
    /// Whether the operation would insert its key behind the block, which is full.
    is_full: bool,
    /// Whether the key may be behind the block, or may go there; `behind` has the blocks.
    is_behind: bool,
    behind: [usize; 2],
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Batches for Table<P, B, M> {
    #[inline(always)]
    fn find_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        mut found: impl FnMut(usize, Option<u64>),
    ) {
        self.for_each_fetched::<false>(
            count,
            word,
            |_| false,
            |at, word, ahead| {
                let tag = self.codec.tag(word, ahead.hash);
                found(at, self.find_fetched(ahead, tag, &test(at)));
                true
            },
        );
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
        let is_insert = |at| fresh(at).is_some();
        self.for_each_fetched::<true>(count, word, is_insert, |at, word, ahead| {
            let change = |second| change(at, second);
            let before = self.apply_fetched((word, ahead), &test(at), fresh(at), &change);
            done(at, before)
        });
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Table<P, B, M> {
    /// Runs `step` for every operation of a batch, in order, and fetches the lines of later
    /// operations meanwhile.
    #[inline(always)]
    fn for_each_fetched<const CHANGES: bool>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        is_insert: impl Fn(usize) -> bool,
        mut step: impl FnMut(usize, u64, &Ahead) -> bool,
    ) {
        let none = Ahead {
            hash: 0,
            state: self.state(),
            block: 0,
            slot: 0,
            is_found: false,
            is_full: false,
            is_behind: false,
            behind: [0; 2],
        };
        let mut ring = [none; RING];
        let (groups, [slot_lag, back_lag, step_lag]) = DELAYS.groups(count);
        for turn in groups.turns() {
            for at in groups.at(turn, 0) {
                let ahead = &mut ring[at % RING];
                ahead.hash = self.codec.hash(word(at));
                ahead.state = self.state();
                ahead.block = self.geometry.block(ahead.hash, ahead.state.mask());
            }
            // In a loop of their own, since these prefetches wait for the addresses of pages.
            for at in groups.at(turn, 0) {
                let line = self.front.line_address(ring[at % RING].block);
                if CHANGES { prefetch_to_write(line) } else { prefetch(line) }
            }
            for at in groups.at(turn, slot_lag) {
                let ahead = &mut ring[at % RING];
                ahead.is_full = CHANGES && is_insert(at) && !self.fetch_empty_slot(ahead);
                self.fetch_slot::<CHANGES>(ahead);
            }
            for at in groups.at(turn, back_lag) {
                if ring[at % RING].is_behind {
                    self.fetch_behind(&ring[at % RING]);
                }
            }
            for at in groups.at(turn, step_lag) {
                if !step(at, word(at), &ring[at % RING]) {
                    return;
                }
            }
        }
    }

    /// Fetches the slot with the fingerprint, or the words of the back yard if the key may be
    /// there.
    #[inline(always)]
    fn fetch_slot<const CHANGES: bool>(&self, ahead: &mut Ahead) {
        let Ahead { hash, block, .. } = *ahead;
        let line = self.front.line_address(block);
        let matching = self.front.matching(block, fingerprint(hash));
        let slot = first_from(matching, preferred_slot::<B>(hash));
        // Without a match, fetches a line that is in the cache: a branch would be mispredicted for
        // one miss of four.
        let address =
            select_unpredictable(matching != 0, self.front.slot_address(block, slot).cast(), line);
        if CHANGES {
            prefetch_to_write(address);
        } else {
            prefetch(address);
        }
        (ahead.slot, ahead.is_found) = (slot as u8, matching != 0);
        ahead.is_behind = matching == 0 && (self.front.is_overflowed(block) || ahead.is_full);
        if ahead.is_behind {
            ahead.behind = choices(hash).map(|hash| self.geometry.block(hash, ahead.state.mask()));
            ahead.behind.iter().for_each(|&block| prefetch(self.back.word_address(block)));
        }
    }

    /// Fetches the empty slot of its block that a new key will go to. Returns false if there is
    /// none.
    #[inline(always)]
    fn fetch_empty_slot(&self, ahead: &Ahead) -> bool {
        let empty = self.front.empty_for(ahead.block, fingerprint(ahead.hash));
        let slot = first_from(empty, preferred_slot::<B>(ahead.hash));
        prefetch_to_write(self.front.slot_address(ahead.block, slot));
        empty != 0
    }

    /// Fetches the slots of the back yard that may hold the key, and the slot that it will go to.
    #[inline(always)]
    fn fetch_behind(&self, ahead: &Ahead) {
        let words = ahead.behind.map(|block| self.back.word(block));
        for (at, slot) in Back::<B, M>::matching_two(words, back_fingerprint(ahead.hash)) {
            prefetch(self.back.slot_address(ahead.behind[at], slot));
        }
        if ahead.is_full {
            let empty = words.map(Back::<B, M>::empties);
            let emptier = usize::from(empty[0].count() < empty[1].count());
            let block = ahead.behind[emptier];
            prefetch_to_write(self.back.word_address(block));
            if let Some(slot) = { empty }[emptier].next() {
                prefetch_to_write(self.back.slot_address(block, slot));
            }
        }
    }
}
