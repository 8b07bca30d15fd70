//! Level 2, the back yard: small blocks. Every key has two of them and goes to the emptier one
//! (section 2.3).
//!
//! The fingerprints of a block are one word. Two of its bits are the lock, and a mark that a key of
//! this block went to level 3 because this block was full, too. The mark stays. A miss looks into
//! level 3 only if both of its blocks are marked, which is rare. (The paper reads the head of a
//! list.)
//!
//! Invariants
//! 1. Only the holder of a block's lock writes its fingerprints and slots, by atomic
//!    read-modify-writes, since any thread may set the mark.
//! 2. As in the front yard, a fingerprint is set before the tag and cleared after it.
//!
//! The front yard's exception for pairs that a resize has left holds here, too.

use super::geometry::{BlockSizes, back_fingerprint, choices};
use super::yard::{Yard, populate};
use crate::error::Error;
use crate::memory::{Medium, MemoryUsage, Part, ReservedArray};
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicPair, AtomicU8, AtomicU64, Backoff, Ordering};
use crate::table::shared::bucket::put_pair;
use core::marker::PhantomData;

const LOCK: u64 = 1 << 63;
const OVERFLOWED: u64 = 1 << 55;
/// The lowest bit of every byte.
const ONES: u64 = u64::MAX / 0xFF;
/// All but the highest bit of every byte.
const LOW: u64 = ONES * 0x7F;

/// The fingerprints, the lock and the mark of a block, as they were loaded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word(u64);

impl Word {
    pub(super) fn is_overflowed(self) -> bool {
        self.0 & OVERFLOWED != 0
    }

    pub(super) fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }
}

/// Slots of a block, each by the highest bit of its byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slots(u64);

impl Slots {
    /// Returns the number of slots, by a sum of bytes: not every processor can count bits.
    #[inline(always)]
    pub(super) fn count(self) -> u32 {
        ((self.0 >> 7).wrapping_mul(ONES) >> 56) as u32
    }
}

/// Slots of two blocks: eight bits for each, the first block's lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotsOfTwo(u32);

impl SlotsOfTwo {
    #[inline(always)]
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Yields the number of the block (0 or 1) and of its slot.
impl Iterator for SlotsOfTwo {
    type Item = (usize, usize);

    #[inline(always)]
    fn next(&mut self) -> Option<(usize, usize)> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some((bit / 8, bit % 8))
    }
}

impl Iterator for Slots {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let slot = self.0.trailing_zeros() as usize / 8;
        self.0 &= self.0 - 1;
        Some(slot)
    }
}

#[derive(Debug)]
pub(super) struct Back<B, M: Medium> {
    words: ReservedArray<AtomicU64>,
    slots: ReservedArray<AtomicPair, M>,
    settled: ReservedArray<AtomicU8>,
    medium: M,
    sizes: PhantomData<B>,
}

/// Returns the bits of a byte that hold a slot's fingerprint.
#[inline(always)]
fn bits_of(slot: usize) -> u64 {
    if slot >= 6 { 0x7F } else { 0xFF }
}

impl<B: BlockSizes, M: Medium> Yard<8> for Back<B, M> {
    const SLOTS: usize = B::BACK;
    const IS_FRONT: bool = false;
    const MARK_NOT_INHERITED: Bug = Bug::MarkNotInherited;

    fn moves(hash: u64, block_of: impl Fn(u64) -> usize, low: usize, _high: usize) -> bool {
        // A key may stay if either of its choices does.
        choices(hash).into_iter().all(|hash| block_of(hash) != low)
    }

    #[inline(always)]
    fn slot(&self, block: usize, slot: usize) -> &AtomicPair {
        self.slots.at(block * B::BACK + slot)
    }

    fn make_writable(&self, block: usize) -> Result<(), Error> {
        self.make_writable(block)
    }

    fn lock(&self, block: usize) {
        let mut backoff = Backoff::new();
        while !self.try_lock(block) {
            while self.word(block).is_locked() {
                backoff.wait();
            }
        }
    }

    #[inline(always)]
    fn unlock(&self, block: usize) {
        // Release: the next holder sees all earlier stores.
        self.words.at(block).fetch_and(!LOCK, Ordering::Release);
    }

    fn is_settled(&self, block: usize, mark: u8) -> bool {
        // Acquire: pairs with the release in `set_settled`.
        self.settled.at(block).load(Ordering::Acquire) == mark
    }

    fn set_settled(&self, block: usize, mark: u8) {
        // Release: the block is settled before.
        self.settled.at(block).store(mark, Ordering::Release);
    }

    fn is_overflowed(&self, block: usize) -> bool {
        self.word(block).is_overflowed()
    }

    /// Marks that a key of this block is in level 3, or will be. If a resize has settled the block
    /// already, the caller sees the newer state from here on.
    fn mark_overflowed(&self, block: usize) {
        // Acquire: either the settler locks the block after this and finds the mark, or this reads
        // what that locking has released.
        self.words.at(block).fetch_or(OVERFLOWED, Ordering::AcqRel);
    }

    fn room(&self, block: usize) -> usize {
        Self::empties(self.word(block)).count() as usize
    }

    fn is_tight(&self, _block: usize, _coming: usize) -> bool {
        // Keys that find no room go to chains, for which no block need be settled.
        false
    }

    fn vacate(&self, block: usize, slots: impl Iterator<Item = usize> + Clone, leaves_pairs: bool) {
        slots.for_each(|slot| match leaves_pairs {
            true => self.clear_fingerprint(block, slot),
            false => self.clear(block, slot),
        });
    }

    fn fingerprint(hash: u64) -> u8 {
        back_fingerprint(hash)
    }

    fn empty_slot(&self, block: usize, _fingerprint: u8) -> Option<usize> {
        Self::empties(self.word(block)).next()
    }

    fn put(&self, block: usize, slot: usize, fingerprint: u8, pair: (u64, u64)) {
        self.set_fingerprint(block, slot, fingerprint);
        self.put_pair(block, slot, pair);
    }

    fn put_all(&self, block: usize, pairs: impl Iterator<Item = (usize, u8, (u64, u64))> + Clone) {
        pairs.for_each(|(slot, fingerprint, pair)| self.put(block, slot, fingerprint, pair));
    }
}

impl<B: BlockSizes, M: Medium> Back<B, M> {
    /// The highest bits of the bytes that belong to slots.
    const VALID: u64 = (ONES << 7) >> (64 - 8 * B::BACK);

    pub(super) fn new(medium: &M, blocks: usize, most: usize) -> Result<Self, Error> {
        let all = most.checked_mul(B::BACK).ok_or(Error::CapacityOverflow)?;
        Ok(Self {
            words: ReservedArray::new(blocks, most)?,
            slots: ReservedArray::within(medium, Part::Back, blocks * B::BACK, all)?,
            settled: ReservedArray::new(blocks, most)?,
            medium: medium.clone(),
            sizes: PhantomData,
        })
    }

    /// Makes the slots of a block writable, as in the front yard.
    pub(super) fn make_writable(&self, block: usize) -> Result<(), Error> {
        self.slots.make_writable(block * B::BACK)
    }

    /// Makes sure that the slots of a block have a page.
    #[cfg(durable)]
    pub(super) fn make_present(&self, block: usize) -> Result<(), Error> {
        self.slots.make_present(block * B::BACK)
    }

    /// Gives back what the medium knows of pages behind the last block.
    pub(super) fn trim_map(&self) -> Result<(), Error> {
        self.slots.trim_map()
    }

    #[cfg(durable)]
    pub(super) fn region(&self) -> &M::Region {
        self.slots.region()
    }

    pub(super) fn grow(&self, blocks: usize) -> Result<(), Error> {
        self.words.grow(blocks)?;
        self.slots.grow(blocks * B::BACK)?;
        self.settled.grow(blocks)
    }

    /// Makes memory resident as in the front yard.
    pub(super) fn populate(&self, blocks: usize, piece: usize) -> Result<(), usize> {
        populate(&self.words, blocks, piece)
            .or_else(|piece| populate(&self.slots, blocks * B::BACK, piece))
            .or_else(|piece| populate(&self.settled, blocks, piece))
    }

    pub(super) fn shrink(&self, blocks: usize) {
        for block in blocks..self.settled.len() {
            self.set_settled(block, 0);
            // The marks belong to the old size.
            self.words.at(block).fetch_and(!OVERFLOWED, Ordering::Relaxed);
        }
        self.words.shrink(blocks);
        self.slots.shrink(blocks * B::BACK);
        self.settled.shrink(blocks);
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        self.words.usage() + self.slots.usage() + self.settled.usage()
    }

    #[inline(always)]
    pub(super) fn slot_address(&self, block: usize, slot: usize) -> *const AtomicPair {
        self.slots.address(block * B::BACK + slot)
    }

    #[inline(always)]
    pub(super) fn word_address(&self, block: usize) -> *const AtomicU64 {
        self.words.address(block)
    }

    #[inline(always)]
    pub(super) fn word(&self, block: usize) -> Word {
        // Acquire: as for the words of the front yard.
        Word(self.words.at(block).load(Ordering::Acquire))
    }

    /// Returns the slots with this fingerprint; fingerprint zero returns the empty slots.
    #[inline(always)]
    pub(super) fn matching(word: Word, fingerprint: u8) -> Slots {
        let difference = (word.0 ^ (ONES * u64::from(fingerprint))) & !(LOCK | OVERFLOWED);
        // The highest bit of a byte is set unless the whole byte is zero. No addition carries.
        let unequal = ((difference & LOW) + LOW) | difference;
        Slots(!unequal & Self::VALID)
    }

    /// Finds slots like `matching`, in two blocks.
    #[inline(always)]
    pub(super) fn matching_two(words: [Word; 2], fingerprint: u8) -> SlotsOfTwo {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::*;
            // SAFETY: every x86-64 processor has SSE2, which all of these instructions are part of.
            let matches = unsafe {
                let words = _mm_set_epi64x(words[1].0.cast_signed(), words[0].0.cast_signed());
                let wanted = _mm_set1_epi64x((ONES * u64::from(fingerprint)).cast_signed());
                let all_but_lent = _mm_set1_epi64x((!(LOCK | OVERFLOWED)).cast_signed());
                let difference = _mm_and_si128(_mm_xor_si128(words, wanted), all_but_lent);
                _mm_movemask_epi8(_mm_cmpeq_epi8(difference, _mm_setzero_si128()))
            };
            let slots = 0xFF >> (8 - B::BACK);
            SlotsOfTwo(matches.cast_unsigned() & (slots << 8 | slots))
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            // Gathers the highest bits of eight bytes in one byte.
            let [first, second] = words.map(|word| {
                let bits = Self::matching(word, fingerprint).0 >> 7;
                (bits.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
            });
            SlotsOfTwo(first | second << 8)
        }
    }

    #[inline(always)]
    pub(super) fn empties(word: Word) -> Slots {
        Self::matching(word, 0)
    }

    /// Returns which of two blocks has more empty slots, the first one if both have as many, and
    /// the block's first empty slot.
    #[inline(always)]
    pub(super) fn emptier(words: [Word; 2]) -> (usize, Option<usize>) {
        let empty = words.map(Self::empties);
        let second_is = empty[0].count() < empty[1].count();
        let emptier = usize::from(second_is != seeded(Bug::FullerBlockChosen));
        let mut slots = if emptier == 0 { empty[0] } else { empty[1] };
        (emptier, slots.next())
    }

    #[inline(always)]
    pub(super) fn try_lock(&self, block: usize) -> bool {
        // Acquire: pairs with the unlocking. Release: see `mark_overflowed`.
        !Word(self.words.at(block).fetch_or(LOCK, Ordering::AcqRel)).is_locked()
    }

    /// Locks a block and sets the fingerprint of a slot, if its word is still the one that was
    /// seen, not locked and with this slot empty.
    #[inline(always)]
    pub(super) fn try_lock_slot(
        &self,
        block: usize,
        seen: Word,
        slot: usize,
        fingerprint: u8,
    ) -> bool {
        if seen.is_locked() {
            return false;
        }
        let set = (u64::from(fingerprint) & bits_of(slot)) << (slot * 8);
        let (word, locked) = (self.words.at(block), seen.0 | LOCK | set);
        // Acquire: pairs with the unlocking.
        word.compare_exchange(seen.0, locked, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Locks a block and sets the fingerprint of an empty slot. Returns the slot, or `None` if no
    /// slot is empty.
    pub(super) fn lock_empty_slot(&self, block: usize, fingerprint: u8) -> Option<usize> {
        let mut backoff = Backoff::new();
        let mut word = self.word(block);
        loop {
            let slot = Self::empties(word).next()?;
            if word.is_locked() {
                backoff.wait();
                word = self.word(block);
                continue;
            }
            if self.try_lock_slot(block, word, slot, fingerprint) {
                return Some(slot);
            }
            word = self.word(block);
        }
    }

    /// Locks a block that has a slot without a fingerprint and without a tag. Returns the slot;
    /// without such a slot returns `None` and locks nothing.
    pub(super) fn lock_unused_slot(&self, block: usize) -> Option<usize> {
        if Self::empties(self.word(block)).count() == 0 {
            return None;
        }
        self.lock(block);
        let is_unused = |slot: &usize| self.slot(block, *slot).load_first(Ordering::Relaxed) == 0;
        let slot = Self::empties(self.word(block)).find(is_unused);
        if slot.is_none() {
            self.unlock(block);
        }
        slot
    }

    /// Clears the fingerprint of a slot. The caller holds the lock.
    #[inline(always)]
    pub(super) fn clear_fingerprint(&self, block: usize, slot: usize) {
        // Release: a reader that finds the fingerprint cleared finds what was stored before.
        let cleared = !(bits_of(slot) << (slot * 8));
        self.words.at(block).fetch_and(cleared, Ordering::Release);
    }

    /// Sets the fingerprint of a slot. The caller holds the lock.
    pub(super) fn set_fingerprint(&self, block: usize, slot: usize, fingerprint: u8) {
        let set = (u64::from(fingerprint) & bits_of(slot)) << (slot * 8);
        // Relaxed: the tag's store releases it.
        self.words.at(block).fetch_or(set, Ordering::Relaxed);
    }

    /// Puts a pair into a slot that has its fingerprint. The caller holds the lock.
    #[inline(always)]
    pub(super) fn put_pair(&self, block: usize, slot: usize, pair: (u64, u64)) {
        put_pair(&self.medium, self.slot(block, slot), pair);
        self.flush(block, slot);
        self.medium.fence();
    }

    /// Replaces the value of a slot. The caller holds the lock.
    #[inline(always)]
    pub(super) fn replace(&self, block: usize, slot: usize, second: u64) {
        // Release: as in the front yard.
        self.medium.store_second(self.slot(block, slot), second, Ordering::Release);
        self.flush(block, slot);
        self.medium.fence();
    }

    /// Begins to make a slot durable.
    pub(super) fn flush(&self, block: usize, slot: usize) {
        self.medium.flush(self.slot_address(block, slot), 1);
    }

    /// Yields the slots that hold a tag but no fingerprint, as in the front yard.
    pub(super) fn leftovers(&self, block: usize) -> impl Iterator<Item = usize> {
        let tag = move |slot: &usize| self.slot(block, *slot).load_first(Ordering::Relaxed);
        Self::empties(self.word(block)).filter(move |slot| tag(slot) != 0)
    }

    /// Empties a slot. The caller holds the lock.
    pub(super) fn clear(&self, block: usize, slot: usize) {
        if seeded(Bug::FingerprintClearedFirst) {
            self.clear_fingerprint(block, slot);
        }
        // Release: a reader that misses the key because of this store sees what happened before.
        self.medium.store_first(self.slot(block, slot), 0, Ordering::Release);
        self.flush(block, slot);
        self.medium.fence();
        self.clear_fingerprint(block, slot);
    }

    /// Empties a slot of a table in RAM, and unlocks its block.
    #[inline(always)]
    pub(super) fn clear_and_unlock(&self, block: usize, slot: usize) {
        if seeded(Bug::FingerprintClearedFirst) {
            self.clear_fingerprint(block, slot);
        }
        // Release: a reader that misses the key because of this store sees what happened before.
        self.medium.store_first(self.slot(block, slot), 0, Ordering::Release);
        let left = !(bits_of(slot) << (slot * 8) | LOCK);
        // Release: as in `clear_fingerprint` and `unlock`.
        self.words.at(block).fetch_and(left, Ordering::Release);
    }

    /// Yields the slots, as far as memory is committed, behind the first `blocks` blocks.
    #[cfg(durable)]
    pub(super) fn slots_behind(&self, blocks: usize) -> impl Iterator<Item = &AtomicPair> {
        (blocks * B::BACK..self.slots.len()).map(|at| self.slots.at(at))
    }
}

#[cfg(all(test, unix, not(any(loom, shuttle, miri))))]
impl<B> Back<B, crate::memory::Heap> {
    pub(super) fn forbid_stores(&self) {
        self.words.forbid_stores();
        self.slots.forbid_stores();
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::super::geometry::Blocks;
    use super::*;
    use crate::memory::Heap;

    type Back<B> = super::Back<B, Heap>;

    fn slots_of<B: BlockSizes>() {
        let back: Back<B> = Back::new(&Heap, 2, 2).unwrap();
        assert_eq!(Back::<B>::empties(back.word(1)).count() as usize, B::BACK);
        for slot in 0..B::BACK {
            let fingerprint = 0x82 + slot as u8;
            assert_eq!(back.lock_empty_slot(1, fingerprint), Some(slot));
            back.put(1, slot, fingerprint, (slot as u64 + 1, 7));
            let word = back.word(1);
            assert_eq!(Back::<B>::matching(word, fingerprint).collect::<Vec<_>>(), [slot]);
            assert!(word.is_locked() && !word.is_overflowed());
            let two = Back::<B>::matching_two([back.word(0), word], fingerprint);
            assert_eq!(two.collect::<Vec<_>>(), [(1, slot)]);
            back.unlock(1);
        }
        assert_eq!(back.lock_empty_slot(1, 2), None);
        let empty = Back::<B>::matching_two([back.word(0), back.word(1)], 0);
        assert_eq!(
            empty.collect::<Vec<_>>(),
            (0..B::BACK).map(|slot| (0, slot)).collect::<Vec<_>>()
        );
        back.mark_overflowed(1);
        back.lock(1);
        (0..B::BACK).for_each(|slot| back.clear(1, slot));
        back.unlock(1);
        let word = back.word(1);
        assert!(word.is_overflowed() && !word.is_locked());
        assert_eq!(Back::<B>::empties(word).count() as usize, B::BACK);
    }

    #[test]
    fn blocks_of_every_size_hold_as_many_keys() {
        slots_of::<Blocks<64, 8>>();
        slots_of::<Blocks<64, 6>>();
        slots_of::<Blocks<32, 4>>();
    }
}
