//! Looking keys up.

use super::Table;
use super::back::Back;
use super::batch::Ahead;
use super::front::first_from;
use super::geometry::{BlockSizes, State, back_fingerprint, choices, fingerprint, preferred_slot};
use super::yard::Yard;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::memory::prefetch::prefetch;
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicPair, Ordering, fence};
use crate::table::KeyTest;
use crate::table::stages::Lookups;

impl<P: HashCodec, B: BlockSizes, M: Medium> Lookups for Table<P, B, M> {
    /// The value word of a key. A hit in the front yard, which nine of ten are,
    /// touches two cache lines; a miss one of the front yard and two of the back
    /// yard's fingerprints, which are a hundred and fiftieth of the table.
    #[inline(always)]
    fn find<T: KeyTest>(&self, word: u64, test: &T) -> Option<u64> {
        self.find_hash(word, self.codec.hash(word), test)
    }

    #[inline(always)]
    fn prefetch(&self, word: u64) {
        self.prefetch_hash(self.codec.hash(word));
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Table<P, B, M> {
    #[inline(always)]
    pub(super) fn find_hash<T: KeyTest>(&self, word: u64, hash: u64, test: &T) -> Option<u64> {
        self.find_tag(hash, self.codec.tag(word, hash), test)
    }

    #[inline(always)]
    pub(super) fn find_tag<T: KeyTest>(&self, hash: u64, tag: u64, test: &T) -> Option<u64> {
        let state = self.state();
        if state.is_fast_to_find() {
            let block = self.geometry.block(hash, state.mask());
            let preferred = preferred_slot::<B>(hash);
            prefetch(self.front.slot_address(block, preferred as usize));
            let matching = self.front.matching_fast(block, fingerprint(hash));
            // Without a branch on what matches: it would be mispredicted every fourth
            // time, and would wait for the line to arrive from memory. If nothing
            // does, the slot that is loaded is the preferred one, whose line is on its
            // way.
            let slot = first_from(matching, preferred);
            // Of a durable table a miss reads no line of slots.
            let is_slot = !M::IS_DURABLE || matching != 0;
            let (first, second) = self.load_pair(self.front.slot_or_none(block, slot, is_slot));
            if first == tag && test.accepts(second) {
                self.persist_front(block, slot);
                return Some(second);
            }
            if matching & matching.wrapping_sub(1) == 0 && M::IS_DURABLE && first == 0 {
                self.persist_front_if(matching != 0, block, slot);
            }
            if matching & matching.wrapping_sub(1) == 0 {
                if !self.front.is_overflowed(block) && self.is_still_after_miss(state) {
                    return None;
                }
                match self.find_behind(state, hash, tag, test) {
                    Some(found) => return found,
                    None => return self.find_anywhere(hash, tag, test),
                }
            }
        }
        self.find_anywhere(hash, tag, test)
    }

    /// The lookup of a batch, whose lines are in the cache, and no others are touched.
    #[inline(always)]
    pub(super) fn find_fetched<T: KeyTest>(
        &self,
        ahead: &Ahead,
        tag: u64,
        test: &T,
    ) -> Option<u64> {
        let &Ahead { hash, state, block, .. } = ahead;
        // A tag says whose it is, wherever it is and whatever the state is now; but that
        // of a durable table may be what a resize has left, and older than what operations
        // of this batch have read.
        let is_current = || self.state() == state || seeded(Bug::BatchReadsLeftovers);
        if state.is_fast_to_find() && (!M::IS_DURABLE || is_current()) {
            let slot = self.front.slot_or_none(block, usize::from(ahead.slot), ahead.is_found);
            let (first, second) = self.load_pair(slot);
            if first == tag && test.accepts(second) {
                self.persist_front(block, usize::from(ahead.slot));
                return Some(second);
            }
        }
        if self.state() != state || !state.is_fast_to_find() {
            return self.find_anywhere(hash, tag, test);
        }
        let preferred = preferred_slot::<B>(hash);
        let mut matching = self.front.matching_fast(block, fingerprint(hash));
        let slot = self.front.slot_or_none(block, first_from(matching, preferred), matching != 0);
        let (mut first, mut second) = self.load_pair(slot);
        loop {
            if first == tag && test.accepts(second) {
                self.persist_front(block, first_from(matching, preferred));
                return Some(second);
            }
            if M::IS_DURABLE && first == 0 {
                self.persist_front_if(matching != 0, block, first_from(matching, preferred));
            }
            if matching & matching.wrapping_sub(1) == 0 {
                break;
            }
            matching &= !(1 << first_from(matching, preferred));
            (first, second) = self.load(block, first_from(matching, preferred));
        }
        if !self.front.is_overflowed(block) && self.is_still_after_miss(state) {
            return None;
        }
        match self.find_behind(state, hash, tag, test) {
            Some(found) => found,
            None => self.find_anywhere(hash, tag, test),
        }
    }

    /// The lookup of a key that is not in its front block, in the back yard; `None`
    /// if that is not enough to know.
    #[inline(always)]
    fn find_behind<T: KeyTest>(
        &self,
        state: State,
        hash: u64,
        tag: u64,
        test: &T,
    ) -> Option<Option<u64>> {
        let blocks = choices(hash).map(|hash| self.geometry.block(hash, state.mask()));
        let words = blocks.map(|block| self.back.word(block));
        for (at, slot) in Back::<B, M>::matching_two(words, back_fingerprint(hash)) {
            let pair = self.back_pair(blocks[at], slot);
            if pair.0 == tag || M::IS_DURABLE && pair.0 == 0 {
                self.persist_back(blocks[at], slot);
            }
            if pair.0 == tag && test.accepts(pair.1) {
                return Some(Some(pair.1));
            }
        }
        let is_chained = words[0].is_overflowed() && words[1].is_overflowed();
        (!is_chained && self.is_still_after_miss(state)).then_some(None)
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
            let (first, second) = self.front.pair(block, slot);
            if first == tag || M::IS_DURABLE && first == 0 {
                self.persist_front(block, slot);
            }
            if first == tag && test.accepts(second) {
                return Some(second);
            }
            matching &= matching - 1;
        }
        None
    }

    /// The pair of a slot, where the short paths may be taken.
    #[inline(always)]
    fn load(&self, block: usize, slot: usize) -> (u64, u64) {
        self.load_pair(self.front.slot(block, slot))
    }

    #[inline(always)]
    fn load_pair(&self, slot: &AtomicPair) -> (u64, u64) {
        if seeded(Bug::PairInTwoLoads) {
            return (slot.load_first(Ordering::Acquire), slot.load_second(Ordering::Acquire));
        }
        slot.load_whole(true)
    }

    fn find_in_back<T: KeyTest>(
        &self,
        block: usize,
        fingerprint: u8,
        tag: u64,
        test: &T,
    ) -> Option<u64> {
        Back::<B, M>::matching(self.back.word(block), fingerprint).find_map(|slot| {
            let pair = self.back_pair(block, slot);
            if pair.0 == tag || M::IS_DURABLE && pair.0 == 0 {
                self.persist_back(block, slot);
            }
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
            let back =
                back.find_map(|block| self.find_in_back(block, back_fingerprint(hash), tag, test));
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

    #[inline(always)]
    pub(super) fn back_pair(&self, block: usize, slot: usize) -> (u64, u64) {
        self.back.slot(block, slot).load_whole(self.front.pairs_load_whole)
    }

    /// Fetches the line that every operation on a key looks at first.
    #[inline(always)]
    pub(super) fn prefetch_hash(&self, hash: u64) {
        let block = self.geometry.block(hash, self.state().mask());
        prefetch(self.front.line_address(block));
    }
}
