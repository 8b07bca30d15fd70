//! Level 1, the front yard: large blocks. Each has a line of fingerprints, which also holds the
//! block's lock.
//!
//! Invariants
//! 1. The highest bit of a block's last fingerprint byte is its lock. Only the holder writes
//!    fingerprints and slots of the block, and its stores keep the bit set until it unlocks. The
//!    highest bit of the byte before is set if a key of the block may be in the back yard or in a
//!    chain.
//! 2. While a slot holds a tag, its byte holds the tag's fingerprint: set before the tag, cleared
//!    after it. So a key is present exactly from the store of its tag to the store of zero,
//!    whatever fingerprints a reader has seen.
//! 3. A block number comes from a state of the table. The memory of its blocks is committed before
//!    the state is published, and stays accessible until the table is dropped (invariant 2 of
//!    `ReservedArray`).
//!
//! Pairs that a resize has left in a durable table are an exception to 1 and 2: they have a tag and
//! no fingerprint, and any thread may change them by compare-and-swap (see
//! [`durable`](super::durable)).

use super::geometry::{BlockSizes, fingerprint, needs_all_bits};
use super::yard::{Yard, populate};
use crate::error::Error;
use crate::memory::{Medium, MemoryUsage, Part, ReservedArray};
use crate::seeded::{Bug, seeded};
#[cfg(x86_64_assembly)]
use crate::simd::Mask;
use crate::simd::Ways;
use crate::sync::{AtomicPair, AtomicU8, AtomicU64, Backoff, Ordering, pairs_load_whole};
use crate::table::shared::bucket::put_pair;
use core::marker::PhantomData;

/// How many fingerprints lend their highest bit: the last ones.
const LENDING: usize = 2;
/// The lock of a block: the highest bit of its last fingerprint byte.
const LOCK: u64 = 1 << 63;
/// Whether a key of a block may be behind it: the highest bit of the byte before.
const OVERFLOWED: u64 = 1 << 55;
/// The bits of a line that are fingerprints.
#[cfg(x86_64_assembly)]
static ALL_BUT_LENT: Mask = Mask::without(LOCK | OVERFLOWED);

#[derive(Debug)]
pub(super) struct Front<B, M: Medium> {
    words: ReservedArray<AtomicU64>,
    slots: ReservedArray<AtomicPair, M>,
    /// The mark of the last resize or snapshot that has settled a block.
    settled: ReservedArray<AtomicU8>,
    #[cfg(not(modelled))]
    level: crate::simd::Level,
    /// How the fingerprints of a block are compared at once, if they are a line and the processor
    /// can.
    ways: Ways,
    /// Whether one load reads a pair.
    pub(super) pairs_load_whole: bool,
    /// A pair that holds no tag.
    no_pair: AtomicPair,
    medium: M,
    sizes: PhantomData<B>,
}

impl<B: BlockSizes, M: Medium> Yard<64> for Front<B, M> {
    const SLOTS: usize = B::FRONT;
    const IS_FRONT: bool = true;
    const MARK_NOT_INHERITED: Bug = Bug::FrontMarkNotInherited;

    fn moves(hash: u64, block_of: impl Fn(u64) -> usize, _low: usize, high: usize) -> bool {
        block_of(hash) == high
    }

    #[inline(always)]
    fn slot(&self, block: usize, slot: usize) -> &AtomicPair {
        self.slots.at(block * B::FRONT + slot)
    }

    fn make_writable(&self, block: usize) -> Result<(), Error> {
        self.make_writable(block)
    }

    fn lock(&self, block: usize) {
        let mut backoff = Backoff::new();
        while !self.try_lock(block) {
            while self.lock_word(block).load(Ordering::Relaxed) & LOCK != 0 {
                backoff.wait();
            }
        }
    }

    #[inline(always)]
    fn unlock(&self, block: usize) {
        let word = self.lock_word(block);
        // A plain store: by invariant 1 other threads can only set the lock's bit, and take the
        // lock only if they found the bit clear. Release: the next holder sees all earlier stores.
        store_locked(word, word.load(Ordering::Relaxed) & !LOCK, Ordering::Release);
    }

    #[inline(always)]
    fn is_settled(&self, block: usize, mark: u8) -> bool {
        // Acquire: pairs with the release in `set_settled`.
        self.settled.at(block).load(Ordering::Acquire) == mark
    }

    fn set_settled(&self, block: usize, mark: u8) {
        // Release: the block is settled before.
        self.settled.at(block).store(mark, Ordering::Release);
    }

    #[inline(always)]
    fn is_overflowed(&self, block: usize) -> bool {
        self.lock_word(block).load(Ordering::Relaxed) & OVERFLOWED != 0
    }

    /// Marks that a key of the block is behind it. The caller holds the lock.
    fn mark_overflowed(&self, block: usize) {
        let word = self.lock_word(block);
        // Relaxed: changes read the mark under the lock.
        store_locked(word, word.load(Ordering::Relaxed) | OVERFLOWED, Ordering::Relaxed);
    }

    fn room(&self, block: usize) -> usize {
        // Without the last slots, which not every key may use.
        self.empty_for(block, 0x80).count_ones() as usize
    }

    fn is_tight(&self, block: usize, coming: usize) -> bool {
        coming > self.room(block)
    }

    fn vacate(&self, block: usize, slots: impl Iterator<Item = usize> + Clone, leaves_pairs: bool) {
        match leaves_pairs {
            true => slots.for_each(|slot| self.set_fingerprint(block, slot, 0)),
            false => self.clear_all(block, slots),
        }
    }

    fn fingerprint(hash: u64) -> u8 {
        fingerprint(hash)
    }

    fn empty_slot(&self, block: usize, fingerprint: u8) -> Option<usize> {
        let free = self.empty_for(block, fingerprint);
        (free != 0).then(|| free.trailing_zeros() as usize)
    }

    #[inline(always)]
    fn put(&self, block: usize, slot: usize, fingerprint: u8, pair: (u64, u64)) {
        if M::IS_DURABLE {
            return self.put_all(block, [(slot, fingerprint, pair)].into_iter());
        }
        if !seeded(Bug::TagBeforeFingerprint) {
            self.set_fingerprint(block, slot, fingerprint);
        }
        put_pair(&self.medium, self.slot(block, slot), pair);
        if seeded(Bug::TagBeforeFingerprint) {
            self.set_fingerprint(block, slot, fingerprint);
        }
    }

    fn put_all(&self, block: usize, pairs: impl Iterator<Item = (usize, u8, (u64, u64))> + Clone) {
        if !M::IS_DURABLE {
            return pairs.for_each(|(slot, fingerprint, pair)| {
                self.put(block, slot, fingerprint, pair);
            });
        }
        // As in RAM, so that the tag makes a key present. A reader that finds it sees the block
        // locked, and makes the pair durable itself.
        for (slot, fingerprint, _) in pairs.clone() {
            self.set_fingerprint(block, slot, fingerprint);
        }
        for (slot, _, pair) in pairs.clone() {
            put_pair(&self.medium, self.slot(block, slot), pair);
        }
        if !seeded(Bug::InsertUnflushed) {
            pairs.for_each(|(slot, ..)| self.flush(block, slot));
        }
        if !seeded(Bug::InsertUnfenced) {
            self.fence();
        }
    }
}

impl<B: BlockSizes, M: Medium> Front<B, M> {
    const WORDS: usize = B::FRONT / 8;

    pub(super) fn new(medium: &M, blocks: usize, most: usize) -> Result<Self, Error> {
        let reserved_array = |elements: usize| -> Result<(usize, usize), Error> {
            let all = most.checked_mul(elements).ok_or(Error::CapacityOverflow)?;
            Ok((blocks * elements, all))
        };
        let (words, slots) = (reserved_array(Self::WORDS)?, reserved_array(B::FRONT)?);
        Ok(Self {
            words: ReservedArray::new(words.0, words.1)?,
            slots: ReservedArray::within(medium, Part::Front, slots.0, slots.1)?,
            settled: ReservedArray::new(blocks, most)?,
            #[cfg(not(modelled))]
            level: crate::simd::Level::detect(),
            ways: Ways::detect(B::FRONT == 64),
            pairs_load_whole: pairs_load_whole(),
            no_pair: AtomicPair::default(),
            medium: medium.clone(),
            sizes: PhantomData,
        })
    }

    /// Makes the slots of a block writable: see [`Medium::make_writable`]. They are in one page.
    #[inline(always)]
    pub(super) fn make_writable(&self, block: usize) -> Result<(), Error> {
        self.slots.make_writable(block * B::FRONT)
    }

    /// Makes sure that the slots of a block have a page.
    #[cfg(durable)]
    pub(super) fn make_present(&self, block: usize) -> Result<(), Error> {
        self.slots.make_present(block * B::FRONT)
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
        self.words.grow(blocks * Self::WORDS)?;
        self.slots.grow(blocks * B::FRONT)?;
        self.settled.grow(blocks)
    }

    /// Makes one piece of the growth from `blocks` resident. If it has fewer pieces, returns the
    /// piece's number among the following ones.
    pub(super) fn populate(&self, blocks: usize, piece: usize) -> Result<(), usize> {
        populate(&self.words, blocks * Self::WORDS, piece)
            .or_else(|piece| populate(&self.slots, blocks * B::FRONT, piece))
            .or_else(|piece| populate(&self.settled, blocks, piece))
    }

    pub(super) fn shrink(&self, blocks: usize) {
        for block in blocks..self.settled.len() {
            self.set_settled(block, 0);
            // The mark belongs to the old size.
            self.lock_word(block).fetch_and(!OVERFLOWED, Ordering::Relaxed);
        }
        self.words.shrink(blocks * Self::WORDS);
        self.slots.shrink(blocks * B::FRONT);
        self.settled.shrink(blocks);
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        self.words.usage() + self.slots.usage() + self.settled.usage()
    }

    /// Returns whether the processor supports the short paths.
    pub(super) fn is_fast(&self) -> bool {
        self.ways.has_any() || cfg!(any(loom, shuttle, miri, nunatak_tsan))
    }

    /// Returns a slot, or one that is always empty and always in the cache. Has no branch.
    #[inline(always)]
    pub(super) fn slot_or_none(&self, block: usize, slot: usize, is_slot: bool) -> &AtomicPair {
        #[cfg(any(test, feature = "accounting", loom, shuttle))]
        return if is_slot { self.slot(block, slot) } else { &self.no_pair };
        #[cfg(not(any(test, feature = "accounting", loom, shuttle)))]
        core::hint::select_unpredictable(is_slot, self.slot(block, slot), &self.no_pair)
    }

    /// Finds slots like [`matching`](Self::matching), where [`is_fast`](Self::is_fast) returned
    /// true.
    #[inline(always)]
    pub(super) fn matching_fast(&self, block: usize, fingerprint: u8) -> u64 {
        #[cfg(any(test, feature = "accounting"))]
        let _ = self.words.at(block * Self::WORDS);
        #[cfg(x86_64_assembly)]
        {
            // SAFETY: invariant 3: the line of a block is readable. `is_fast` has returned true:
            // there is a way, and blocks have 64 slots, so the line is 64 aligned bytes.
            unsafe { self.ways.matching(self.line_address(block), fingerprint, &ALL_BUT_LENT) }
        }
        #[cfg(not(x86_64_assembly))]
        self.matching_of_words(block, fingerprint)
    }

    /// Returns the empty slots for a key with this fingerprint.
    #[inline(always)]
    pub(super) fn empty_for(&self, block: usize, fingerprint: u8) -> u64 {
        let lent = (u64::from(needs_all_bits(fingerprint)) * 0b11) << (B::FRONT - LENDING);
        self.matching(block, 0) & !lent
    }

    #[inline(always)]
    pub(super) fn pair(&self, block: usize, slot: usize) -> (u64, u64) {
        self.slot(block, slot).load_whole(self.pairs_load_whole)
    }

    #[inline(always)]
    pub(super) fn slot_address(&self, block: usize, slot: usize) -> *const AtomicPair {
        self.slots.address(block * B::FRONT + slot)
    }

    #[inline(always)]
    pub(super) fn line_address(&self, block: usize) -> *const AtomicU64 {
        self.words.address(block * Self::WORDS)
    }

    /// Returns the slots with this fingerprint; fingerprint zero returns the empty slots.
    #[inline(always)]
    pub(super) fn matching(&self, block: usize, fingerprint: u8) -> u64 {
        #[cfg(any(test, feature = "accounting"))]
        let _ = self.words.at(block * Self::WORDS);
        #[cfg(x86_64_assembly)]
        if self.ways.has_any() {
            // SAFETY: invariant 3: the line of a block is readable. There is a way, so blocks have
            // 64 slots, and the line is 64 aligned bytes.
            return unsafe {
                self.ways.matching(self.line_address(block), fingerprint, &ALL_BUT_LENT)
            };
        }
        self.matching_of_words(block, fingerprint)
    }

    /// Finds slots like `matching`, by loads of words.
    #[inline]
    fn matching_of_words(&self, block: usize, fingerprint: u8) -> u64 {
        let words: [u64; 8] = core::array::from_fn(|at| match at < Self::WORDS {
            // Acquire: pairs with the release that cleared a fingerprint, so that a miss sees what
            // happened before.
            true => self.words.at(block * Self::WORDS + at).load(Ordering::Acquire),
            false => 0,
        });
        let last = Self::WORDS - 1;
        let matches = self.matches(&words[..Self::WORDS], fingerprint);
        // Compares the two lending bytes again, without the lent bit.
        let is = |shift: usize| (words[last] >> shift ^ u64::from(fingerprint)) & 0x7F == 0;
        let lending = u64::from(is(48)) | u64::from(is(56)) << 1;
        let first_lending = B::FRONT - LENDING;
        matches & !(0b11 << first_lending) | lending << first_lending
    }

    #[cfg(not(modelled))]
    fn matches(&self, words: &[u64], fingerprint: u8) -> u64 {
        crate::simd::match_byte_in(self.level, words, fingerprint)
    }

    #[cfg(modelled)]
    fn matches(&self, words: &[u64], fingerprint: u8) -> u64 {
        crate::simd::match_byte_in(crate::simd::Level::PORTABLE, words, fingerprint)
    }

    #[inline(always)]
    fn lock_word(&self, block: usize) -> &AtomicU64 {
        self.words.at(block * Self::WORDS + Self::WORDS - 1)
    }

    #[inline(always)]
    pub(super) fn try_lock(&self, block: usize) -> bool {
        // Acquire: pairs with the unlocking.
        self.lock_word(block).fetch_or(LOCK, Ordering::Acquire) & LOCK == 0
    }

    /// Returns whether a thread holds the block's lock.
    #[inline(always)]
    pub(super) fn is_locked(&self, block: usize) -> bool {
        // Relaxed: a thread that has read a store of the holder reads this after it.
        self.lock_word(block).load(Ordering::Relaxed) & LOCK != 0
    }

    /// Sets a slot's fingerprint; zero clears it. The caller holds the lock.
    #[inline(always)]
    pub(super) fn set_fingerprint(&self, block: usize, slot: usize, fingerprint: u8) {
        let lends = slot >= B::FRONT - LENDING && !seeded(Bug::FingerprintTakesLock);
        let bits = if lends { 0x7F } else { 0xFF };
        let shift = slot % 8 * 8;
        let word = self.words.at(block * Self::WORDS + slot / 8);
        let others = word.load(Ordering::Relaxed) & !(bits << shift);
        let new = others | (u64::from(fingerprint) & bits) << shift;
        // Release: a reader that finds a fingerprint cleared sees what was stored before.
        store_locked(word, new, Ordering::Release);
    }

    /// Replaces the value of a slot. The caller holds the lock.
    #[inline(always)]
    pub(super) fn replace(&self, block: usize, slot: usize, second: u64) {
        // Release: the memory that the value points to is visible. The tag stays, so readers find
        // this value or the one before.
        self.medium.store_second(self.slot(block, slot), second, Ordering::Release);
        if !seeded(Bug::ReplaceUnflushed) {
            self.flush(block, slot);
        }
        if !seeded(Bug::ReplaceUnfenced) {
            self.fence();
        }
    }

    /// Empties a slot. The caller holds the lock.
    #[inline(always)]
    pub(super) fn clear(&self, block: usize, slot: usize) {
        if seeded(Bug::FingerprintClearedFirst) {
            self.set_fingerprint(block, slot, 0);
        }
        // Release: a reader that misses the key because of this store sees what happened before.
        self.medium.store_first(self.slot(block, slot), 0, Ordering::Release);
        if !seeded(Bug::RemoveUnflushed) {
            self.flush(block, slot);
        }
        if !seeded(Bug::RemoveUnfenced) {
            self.fence();
        }
        self.set_fingerprint(block, slot, 0);
    }

    /// Empties slots. The caller holds the lock.
    pub(super) fn clear_all(&self, block: usize, slots: impl Iterator<Item = usize> + Clone) {
        for slot in slots.clone() {
            self.medium.store_first(self.slot(block, slot), 0, Ordering::Release);
        }
        if !seeded(Bug::VacateUnflushed) {
            slots.clone().for_each(|slot| self.flush(block, slot));
        }
        if !seeded(Bug::VacateUnfenced) {
            self.fence();
        }
        slots.for_each(|slot| self.set_fingerprint(block, slot, 0));
    }

    /// Begins to make a slot durable.
    #[inline(always)]
    pub(super) fn flush(&self, block: usize, slot: usize) {
        self.medium.flush(self.slot_address(block, slot), 1);
    }

    #[inline(always)]
    pub(super) fn fence(&self) {
        self.medium.fence();
    }

    /// Returns the slots that hold a tag but no fingerprint: pairs that were moved, and stay until
    /// the copy is durable. The caller holds the lock.
    pub(super) fn leftovers(&self, block: usize) -> u64 {
        let is_left = |slot: &usize| self.slot(block, *slot).load_first(Ordering::Relaxed) != 0;
        let unused = crate::simd::BitIter::new(self.matching(block, 0));
        unused.filter(is_left).fold(0, |slots, slot| slots | 1 << slot)
    }

    /// Stores the fingerprints of a block whose pairs were found.
    #[cfg(durable)]
    pub(super) fn restore(&self, block: usize, fingerprints: &[u8; 64]) {
        for (at, bytes) in fingerprints.chunks_exact(8).take(Self::WORDS).enumerate() {
            let word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
            let lent = if at == Self::WORDS - 1 { LOCK | OVERFLOWED } else { 0 };
            // Relaxed: no other thread uses the block yet.
            self.words.at(block * Self::WORDS + at).store(word & !lent, Ordering::Relaxed);
        }
    }

    /// Marks a block like [`mark_overflowed`](Self::mark_overflowed), by threads that hold no lock.
    #[cfg(durable)]
    pub(super) fn restore_overflowed(&self, block: usize) {
        if !self.is_overflowed(block) {
            self.lock_word(block).fetch_or(OVERFLOWED, Ordering::Relaxed);
        }
    }

    /// Yields the slots, as far as memory is committed, behind the first `blocks` blocks.
    #[cfg(durable)]
    pub(super) fn slots_behind(&self, blocks: usize) -> impl Iterator<Item = &AtomicPair> {
        (blocks * B::FRONT..self.slots.len()).map(|at| self.slots.at(at))
    }
}

#[cfg(all(test, unix, not(any(loom, shuttle, miri))))]
impl<B> Front<B, crate::memory::Heap> {
    pub(super) fn forbid_stores(&self) {
        self.words.forbid_stores();
        self.slots.forbid_stores();
    }
}

/// Stores a word whose lock the caller holds.
#[inline(always)]
fn store_locked(word: &AtomicU64, new: u64, order: Ordering) {
    // Since the locking, other threads have only set the lock's bit, which was set. So no processor
    // holds another value here. Loom takes that for possible.
    #[cfg(loom)]
    word.swap(new, order);
    #[cfg(not(loom))]
    word.store(new, order);
}

/// Returns the first slot of a mask at or after `slot`, around the end; `slot` itself if the mask
/// is empty.
#[inline(always)]
pub(super) fn first_from(slots: u64, slot: u32) -> usize {
    ((slots.rotate_right(slot).trailing_zeros() + slot) & 63) as usize
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::super::geometry::Blocks;
    use super::*;
    use crate::memory::Heap;

    #[test]
    fn all_ways_to_match_agree_whether_locked_or_not() {
        let front: Front<Blocks<64, 8>, Heap> = Front::new(&Heap, 2, 2).unwrap();
        let fingerprints = |slot: usize| (slot as u8).wrapping_mul(37) | 2;
        for slot in 0..64 {
            if slot % 3 != 0 {
                front.set_fingerprint(1, slot, fingerprints(slot));
            }
        }
        for locked in [false, true] {
            if locked {
                front.lock(1);
                front.mark_overflowed(1);
            }
            for fingerprint in (0..=255_u8).filter(|f| *f != 0x80) {
                let expected = (0..64).fold(0, |mask, slot| {
                    let byte = if slot % 3 == 0 { 0 } else { fingerprints(slot) };
                    let bits = if slot >= 62 { 0x7F } else { 0xFF };
                    mask | u64::from((byte ^ fingerprint) & bits == 0) << slot
                });
                assert_eq!(front.matching(1, fingerprint), expected, "{fingerprint}");
                assert_eq!(front.matching_of_words(1, fingerprint), expected);
                #[cfg(x86_64_assembly)]
                let others = front.ways.others().into_iter();
                #[cfg(x86_64_assembly)]
                others.for_each(|ways| {
                    let line = front.line_address(1);
                    // SAFETY: the block is a line, which nobody changes.
                    let matching = unsafe { ways.matching(line, fingerprint, &ALL_BUT_LENT) };
                    assert_eq!(matching, expected, "{ways:?} {fingerprint}");
                });
            }
        }
        assert!(!front.try_lock(1));
        front.unlock(1);
        assert!(front.try_lock(1) && front.try_lock(0));
        assert_eq!(front.matching(0, 0), u64::MAX);
    }

    #[test]
    fn small_blocks_have_no_other_slots() {
        let front: Front<Blocks<32, 8>, Heap> = Front::new(&Heap, 2, 2).unwrap();
        front.lock(1);
        front.put(1, 31, 0x85, (5, 7));
        assert_eq!(front.matching(1, 0x85), 1 << 31);
        assert_eq!(front.matching(1, 0), (1 << 31) - 1);
        assert!(!front.try_lock(1), "a fingerprint took the lock away");
        front.mark_overflowed(1);
        front.clear(1, 31);
        front.unlock(1);
        assert_eq!((front.matching(1, 0), front.pair(1, 31).0), ((1 << 32) - 1, 0));
        assert_eq!(front.empty_for(1, 0x80), (1 << 30) - 1);
        assert!(front.is_overflowed(1) && !front.is_overflowed(0));
    }
}
