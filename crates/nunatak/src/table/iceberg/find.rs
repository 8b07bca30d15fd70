//! Lookups of single keys.

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
    /// Returns the value word of a key. A hit in the front yard (nine of ten hits) touches two
    /// cache lines: fingerprints and slot. So does a miss. Behind a marked front block a lookup
    /// also reads the words of two back blocks (the words of all are 1/150 of the table).
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
        if !M::IS_PAGED {
            return self.find_tag_once(hash, tag, test);
        }
        loop {
            let recycled = self.medium.recycled();
            let found = self.find_tag_once(hash, tag, test);
            // Acquire: pairs with the release in the medium. If a page was given out again, the
            // answer does not count.
            fence(Ordering::Acquire);
            if self.medium.recycled() == recycled {
                return found;
            }
        }
    }

    #[inline(always)]
    fn find_tag_once<T: KeyTest>(&self, hash: u64, tag: u64, test: &T) -> Option<u64> {
        let state = self.state();
        if state.is_fast_to_find() {
            let block = self.geometry.block(hash, state.mask());
            let preferred = preferred_slot::<B>(hash);
            prefetch(self.front.slot_address(block, preferred as usize));
            let matching = self.front.matching_fast(block, fingerprint(hash));
            // Selects the slot without a branch on the match: it would be mispredicted every fourth
            // time, after waiting for the line. Without a match this loads the preferred slot,
            // whose line has been prefetched.
            let slot = first_from(matching, preferred);
            // In a durable table a miss reads no line of slots.
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
                return self.find_behind_or_anywhere(state, hash, tag, test);
            }
        }
        self.find_anywhere(hash, tag, test)
    }

    /// Looks up a key that is not in its front block. A function of its own: in line, its values took the registers of
    /// lookups that end in the front block.
    #[inline(never)]
    fn find_behind_or_anywhere<T: KeyTest>(
        &self,
        state: State,
        hash: u64,
        tag: u64,
        test: &T,
    ) -> Option<u64> {
        match self.find_behind(state, hash, tag, test) {
            Some(found) => found,
            None => self.find_anywhere(hash, tag, test),
        }
    }

    /// Looks a key up in a batch: the lines are in the cache, and no other lines are touched.
    #[inline(always)]
    pub(super) fn find_fetched<T: KeyTest>(
        &self,
        ahead: &Ahead,
        tag: u64,
        test: &T,
    ) -> Option<u64> {
        let &Ahead { hash, state, block, .. } = ahead;
        if M::IS_PAGED {
            return self.find_tag(hash, tag, test);
        }
        // A tag belongs to its key in every place and every state. But in a durable table a resize
        // may have left the pair, and then it is older than pairs that this batch has read.
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

    /// Looks up a key in the back yard that is not in its front block. Returns `None` if the back
    /// yard does not decide.
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

    /// Returns whether a miss is valid.
    #[inline(always)]
    fn is_still_after_miss(&self, state: State) -> bool {
        // Pairs with the releases of settlers: a thread that found a key gone from its place finds
        // the state in which it was moved.
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

    /// Loads the pair of a slot on the short paths.
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

    /// Looks a key up in both sizes and all levels.
    #[inline(never)]
    fn find_anywhere<T: KeyTest>(&self, hash: u64, tag: u64, test: &T) -> Option<u64> {
        let fingerprint = fingerprint(hash);
        loop {
            let state = self.state();
            // A key is stored in the new place before it is cleared in the old one, so the old
            // place is read first. A key that leaves a level goes to a later one.
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

    /// Looks into level 3 if both choices have a marked block. The mark may be on the block of the
    /// old size only, if the new block has not inherited it yet.
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
        // Tests a copy, since the caller's code must not run under the lock.
        self.chains.of(hash, tag).into_iter().find(|&second| test.accepts(second))
    }

    #[inline(always)]
    pub(super) fn back_pair(&self, block: usize, slot: usize) -> (u64, u64) {
        self.back.slot(block, slot).load_whole(self.front.pairs_load_whole)
    }

    /// Prefetches the line that every operation on a key reads first.
    #[inline(always)]
    pub(super) fn prefetch_hash(&self, hash: u64) {
        let block = self.geometry.block(hash, self.state().mask());
        prefetch(self.front.line_address(block));
    }
}
