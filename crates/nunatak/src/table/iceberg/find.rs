//! Looking keys up.

use super::Table;
use super::back::Back;
use super::geometry::{BlockSizes, State, choices, fingerprint};
use crate::hash::Placement;
use crate::seeded::{Bug, seeded};
use crate::sync::{Ordering, fence};
use crate::table::KeyTest;
use crate::table::prefetch::prefetch;

impl<P: Placement, B: BlockSizes> Table<P, B> {
    /// The value word of a key. A hit in the front yard, which nine of ten are,
    /// touches two cache lines; a miss one of the front yard and two of the back
    /// yard's fingerprints, which are a hundred and fiftieth of the table.
    #[inline(always)]
    pub(crate) fn find<T: KeyTest>(&self, word: u64, test: &T) -> Option<u64> {
        self.find_hash(word, self.placement.hash(word), test)
    }

    #[inline(always)]
    pub(super) fn find_hash<T: KeyTest>(&self, word: u64, hash: u64, test: &T) -> Option<u64> {
        self.find_tag(hash, self.placement.tag(word, hash), test)
    }

    #[inline(always)]
    pub(super) fn find_tag<T: KeyTest>(&self, hash: u64, tag: u64, test: &T) -> Option<u64> {
        let state = self.state();
        if !state.is_moving() {
            let block = self.geometry.block(hash, state.mask());
            if let Some(second) = self.find_in_front(block, fingerprint(hash), tag, test) {
                return Some(second);
            }
            let blocks = choices(hash).map(|hash| self.geometry.block(hash, state.mask()));
            let words = blocks.map(|block| self.back.word(block));
            let matching = words.map(|word| Back::<B>::matching(word, fingerprint(hash)));
            let is_behind = !(matching[0].is_empty() && matching[1].is_empty());
            let is_chained = words[0].is_overflowed() && words[1].is_overflowed();
            if !is_behind && !is_chained && self.is_still_after_miss(state) {
                return None;
            }
        }
        self.find_anywhere(hash, tag, test)
    }

    /// The validation of a miss.
    #[inline(always)]
    fn is_still_after_miss(&self, state: State) -> bool {
        // Pairs with the releases of settlers: who has found a key gone from where
        // it was finds the state under which it went.
        fence(Ordering::Acquire);
        self.is_still(state) || seeded(Bug::MissWithoutStateRecheck)
    }

    #[inline(always)]
    fn find_in_front<T: KeyTest>(
        &self,
        block: usize,
        fingerprint: u8,
        tag: u64,
        test: &T,
    ) -> Option<u64> {
        let mut matching = self.front.matching(block, fingerprint);
        while matching != 0 {
            let slot = matching.trailing_zeros() as usize;
            let (first, second) = self.load(block, slot);
            if first == tag && test.accepts(second) {
                return Some(second);
            }
            matching &= matching - 1;
        }
        None
    }

    #[inline(always)]
    fn load(&self, block: usize, slot: usize) -> (u64, u64) {
        if seeded(Bug::PairInTwoLoads) {
            let slot = self.front.slot(block, slot);
            return (slot.load_first(Ordering::Acquire), slot.load_second(Ordering::Acquire));
        }
        self.front.pair(block, slot)
    }

    fn find_in_back<T: KeyTest>(
        &self,
        block: usize,
        fingerprint: u8,
        tag: u64,
        test: &T,
    ) -> Option<u64> {
        Back::<B>::matching(self.back.word(block), fingerprint).find_map(|slot| {
            let pair = self.back.slot(block, slot).load_whole(self.front.pairs_load_whole);
            (pair.0 == tag && test.accepts(pair.1)).then_some(pair.1)
        })
    }

    /// The lookup in full: both sizes, all levels.
    #[inline(never)]
    fn find_anywhere<T: KeyTest>(&self, hash: u64, tag: u64, test: &T) -> Option<u64> {
        let fingerprint = fingerprint(hash);
        loop {
            let state = self.state();
            // Where a key is stored before it is taken away elsewhere, the old
            // place must be looked at first; and what leaves a level goes to a
            // later one.
            let masks = if seeded(Bug::NewPlaceBeforeOld) {
                [state.mask(), state.mask_before()]
            } else {
                [state.mask_before(), state.mask()]
            };
            let blocks = |hash: u64| masks.map(|mask| self.geometry.block(hash, mask));
            let [old, new] = blocks(hash);
            let front = self.find_in_front(old, fingerprint, tag, test).or_else(|| {
                if old == new { None } else { self.find_in_front(new, fingerprint, tag, test) }
            });
            if front.is_some() {
                return front;
            }
            let [first, second] = choices(hash).map(blocks);
            let mut back = [first[0], second[0], first[1], second[1]].into_iter();
            let back = back.find_map(|block| self.find_in_back(block, fingerprint, tag, test));
            if back.is_some() {
                return back;
            }
            if let Some(second) = self.find_in_chain((hash, tag), [first, second], test) {
                return Some(second);
            }
            if self.is_still_after_miss(state) {
                return None;
            }
        }
    }

    /// Looks into level 3 if a block of either choice is marked, be it that of the
    /// old size, whose mark the new one's may have yet to inherit.
    fn find_in_chain<T: KeyTest>(
        &self,
        (hash, tag): (u64, u64),
        blocks: [[usize; 2]; 2],
        test: &T,
    ) -> Option<u64> {
        let is_marked =
            blocks.map(|places| places.iter().any(|&block| self.back.word(block).is_overflowed()));
        if is_marked != [true, true] {
            return None;
        }
        // Of a copy, since the caller's code must not run under the lock.
        self.chains.of(hash, tag).into_iter().find(|&second| test.accepts(second))
    }

    /// Fetches the line that every operation on a key looks at first.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        let block = self.geometry.block(hash, self.state().mask());
        prefetch(self.front.line_address(block));
    }
}
