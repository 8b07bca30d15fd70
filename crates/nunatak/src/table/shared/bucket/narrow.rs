//! Buckets of smaller entries (section 3.3), in RAM: keys of 4 bytes with values of 8 (19 slots),
//! and keys and values of 4 bytes (28 slots).
//!
//! ```text
//! 12 bytes an entry                      8 bytes an entry
//! byte 0    head                         byte 0    head
//!      8    fingerprints of 16 slots          8    fingerprints of 24 slots
//!     24    19 tags of 4 bytes               32    28 slots of 8 bytes: tag, value
//!    104    19 values of 8 bytes
//!
//! head      63     lock
//!           58…56  flags
//!           55…24  of 12 bytes: a version
//!           31…0   the last slots' fingerprints (of 12 bytes: three, up to bit 23)
//! ```
//!
//! A tag is the key itself, so no tag is left to mark a free slot. The fingerprint zero marks it.
//!
//! Invariants
//! 1. Only the holder of the lock stores in the bucket. Exception: the value of a slot whose key no
//!    other thread changes.
//! 2. A key is in a slot exactly while the slot has its fingerprint. The fingerprint is set after
//!    the pair was stored, and cleared to remove the key. A reader that finds it finds that pair,
//!    or one that was stored later.
//! 3. In entries of 12 bytes the version changes before another key is stored in a slot. So a tag
//!    and a value that were loaded between two loads of one version are a pair whose insert has
//!    ended. In entries of 8 bytes, a pair is valid if its fingerprint is unchanged after the load.

use super::{ALL_FLAGS, Flag, Header, Item, LOCK, Layout, Marking, store};
use crate::memory::{Heap, Medium, Zeroed};
use crate::seeded::{Bug, seeded};
use crate::simd::BitIter;
use crate::sync::{AtomicU64, Backoff, Ordering, fence};

/// A bit that every tag has besides the stored bits, so that no tag is zero.
pub(crate) const TAG: u64 = 1 << 32;

const VERSION_SHIFT: u32 = 24;
const VERSION: u64 = 0xFFFF_FFFF << VERSION_SHIFT;

const fn slots(slots: usize) -> usize {
    if cfg!(modelled) { 3 } else { slots }
}

const SLOTS_12: usize = slots(19);
const SLOTS_8: usize = slots(28);

/// The lock, the flags, and the fingerprints of the slots.
#[derive(Debug)]
#[repr(C)]
struct Head<const WORDS: usize, const SLOTS: usize> {
    head: AtomicU64,
    fingerprints: [AtomicU64; WORDS],
}

impl<const WORDS: usize, const SLOTS: usize> Default for Head<WORDS, SLOTS> {
    fn default() -> Self {
        Self {
            head: AtomicU64::default(),
            fingerprints: [(); WORDS].map(|()| AtomicU64::default()),
        }
    }
}

/// The words of a head, as they were loaded.
#[derive(Debug, Clone, Copy)]
pub struct NarrowHeader<const WORDS: usize, const SLOTS: usize> {
    head: u64,
    fingerprints: [u64; WORDS],
}

impl<const WORDS: usize, const SLOTS: usize> NarrowHeader<WORDS, SLOTS> {
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn bytes_that_are(self, fingerprint: u8) -> u64 {
        use core::arch::x86_64::*;
        let word =
            |at: usize| self.fingerprints.get(at).copied().unwrap_or(self.head).cast_signed();
        let mut bits = 0;
        for at in (0..=WORDS).step_by(2) {
            // SAFETY: every x86-64 processor has SSE2.
            let equal = unsafe {
                let bytes = _mm_set_epi64x(word(at + 1), word(at));
                _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(fingerprint.cast_signed())))
            };
            bits |= u64::from(equal.cast_unsigned()) << (8 * at);
        }
        bits & ((1 << SLOTS) - 1)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn bytes_that_are(self, fingerprint: u8) -> u64 {
        let equal = |slot: &usize| self.fingerprint(*slot) == fingerprint;
        (0..SLOTS).filter(equal).fold(0, |bits, slot| bits | 1 << slot)
    }

    fn fingerprint(self, slot: usize) -> u8 {
        let word = self.fingerprints.get(slot / 8).copied().unwrap_or(self.head);
        (word >> (slot % 8 * 8)) as u8
    }
}

impl<const WORDS: usize, const SLOTS: usize> Header for NarrowHeader<WORDS, SLOTS> {
    #[inline(always)]
    fn matching(self, fingerprint: u8) -> BitIter {
        BitIter::new(self.bytes_that_are(fingerprint))
    }

    #[inline(always)]
    fn has(self, flag: Flag) -> bool {
        self.head & flag as u64 != 0
    }

    #[inline(always)]
    fn has_no_flag(self) -> bool {
        self.head & ALL_FLAGS == 0
    }

    fn free_slots(self) -> u32 {
        self.bytes_that_are(0).count_ones()
    }
}

impl<const WORDS: usize, const SLOTS: usize> Head<WORDS, SLOTS> {
    #[inline(always)]
    fn header(&self) -> NarrowHeader<WORDS, SLOTS> {
        // Acquire: stores before the setting of a fingerprint or a flag are visible.
        let head = self.head.load(Ordering::Acquire);
        let fingerprints = core::array::from_fn(|at| self.fingerprints[at].load(Ordering::Acquire));
        NarrowHeader { head, fingerprints }
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        // Acquire: pairs with the unlocking.
        self.head.fetch_or(LOCK, Ordering::Acquire) & LOCK == 0
    }

    fn lock(&self) {
        let mut backoff = Backoff::new();
        while !self.try_lock() {
            // Relaxed: a hint.
            while self.head.load(Ordering::Relaxed) & LOCK != 0 {
                backoff.wait();
            }
        }
    }

    /// Returns the head as the holder of the lock, or the only user, knows it.
    #[inline(always)]
    fn held(&self) -> u64 {
        // Relaxed: other threads store only the lock's bit, which is set.
        self.head.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn unlock(&self) {
        store(&Heap, &self.head, self.held() & !LOCK);
    }

    /// Sets flags of a head. The caller holds the lock, or no other thread can reach the head.
    fn add_flags<M: Medium>(&self, medium: &M, flags: u64) {
        if self.held() | flags != self.held() {
            store(medium, &self.head, self.held() | flags);
        }
    }

    #[inline(always)]
    fn set_fingerprint<M: Medium>(&self, medium: &M, slot: usize, fingerprint: u8) {
        let word = self.fingerprints.get(slot / 8).unwrap_or(&self.head);
        let shift = slot % 8 * 8;
        // Relaxed: other threads store only the lock's bit, which is set.
        let others = word.load(Ordering::Relaxed) & !(0xFF << shift);
        store(medium, word, others | u64::from(fingerprint) << shift);
    }

    fn empty<M: Medium>(&self, medium: &M) {
        // Relaxed: no other thread has the bucket. Threads that had it find another generation.
        for word in core::iter::once(&self.head).chain(&self.fingerprints) {
            medium.store_word(word, 0, Ordering::Relaxed);
        }
    }
}

/// Keys of at most 4 bytes, values of at most 8.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Bucket12 {
    head: Head<2, SLOTS_12>,
    /// Two tags in each word.
    tags: [AtomicU64; SLOTS_12.div_ceil(2)],
    values: [AtomicU64; SLOTS_12],
}

/// Keys and values of at most 4 bytes.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Bucket8 {
    head: Head<3, SLOTS_8>,
    pairs: [AtomicU64; SLOTS_8],
}

impl Default for Bucket12 {
    fn default() -> Self {
        let tags = core::array::from_fn(|_| AtomicU64::default());
        Self { head: Head::default(), tags, values: core::array::from_fn(|_| AtomicU64::default()) }
    }
}

impl Default for Bucket8 {
    fn default() -> Self {
        Self { head: Head::default(), pairs: core::array::from_fn(|_| AtomicU64::default()) }
    }
}

// SAFETY: a bucket consists of atomic words, for which zero bytes are valid. It needs no drop.
unsafe impl Zeroed for Bucket12 {
    #[cfg(modelled)]
    fn zeroed() -> Self {
        Self::default()
    }
}

// SAFETY: a bucket consists of atomic words, for which zero bytes are valid. It needs no drop.
unsafe impl Zeroed for Bucket8 {
    #[cfg(modelled)]
    fn zeroed() -> Self {
        Self::default()
    }
}

#[cfg(modelled)]
impl crate::memory::Released for Bucket12 {
    fn release(&self) {
        self.empty(&Heap);
    }
}

#[cfg(modelled)]
impl crate::memory::Released for Bucket8 {
    fn release(&self) {
        self.empty(&Heap);
    }
}

/// The methods that both sizes share.
macro_rules! by_head {
    () => {
        #[inline(always)]
        fn header(&self) -> Self::Header {
            self.head.header()
        }

        #[inline(always)]
        fn try_lock(&self) -> bool {
            self.head.try_lock()
        }

        fn lock(&self) {
            self.head.lock();
        }

        #[inline(always)]
        fn unlock(&self) {
            self.head.unlock();
        }

        fn set<M: Medium>(&self, medium: &M, flag: Flag) {
            self.head.add_flags(medium, flag as u64);
        }

        #[inline(always)]
        fn clear<M: Medium>(&self, medium: &M, slot: usize) {
            self.head.set_fingerprint(medium, slot, 0);
        }

        fn items(&self, _marking: Marking) -> impl Iterator<Item = Item> {
            let header = self.header();
            let is_taken = move |slot: &usize| header.fingerprint(*slot) != 0;
            (0..Self::SLOTS).filter(is_taken).map(move |slot| {
                let (tag, value_word) = self.pair(slot, true);
                Item { fingerprint: header.fingerprint(slot), tag, value_word, is_pointer: false }
            })
        }

        fn add<M: Medium>(&self, medium: &M, _marking: Marking, item: Item) -> Option<usize> {
            let free = self.header().matching(0).next()?;
            self.put(medium, free, item.fingerprint, (item.tag, item.value_word));
            Some(free)
        }

        fn flags(&self) -> u64 {
            self.head.held() & ALL_FLAGS
        }

        fn add_flags<M: Medium>(&self, medium: &M, flags: u64) {
            self.head.add_flags(medium, flags);
        }

        fn touch<M: Medium>(&self, medium: &M) {
            // Relaxed: no other thread has the bucket.
            medium.store_word(&self.head.head, self.head.held(), Ordering::Relaxed);
        }

        fn empty<M: Medium>(&self, medium: &M) {
            self.head.empty(medium);
        }
    };
}

impl Bucket12 {
    #[inline(always)]
    fn tag(&self, slot: usize) -> (&AtomicU64, u32) {
        (&self.tags[slot / 2], slot as u32 % 2 * 32)
    }
}

impl Layout for Bucket12 {
    const IS_DURABLE: bool = false;
    const SLOTS: usize = SLOTS_12;
    type Header = NarrowHeader<2, SLOTS_12>;

    by_head!();

    #[inline(always)]
    fn pair(&self, slot: usize, _whole: bool) -> (u64, u64) {
        let (word, shift) = self.tag(slot);
        // Relaxed: the fingerprint was loaded before (acquire), and the version is checked
        // afterwards. Acquire: the memory that the value refers to is visible.
        let tag = word.load(Ordering::Relaxed) >> shift;
        (tag & 0xFFFF_FFFF | TAG, self.values[slot].load(Ordering::Acquire))
    }

    #[inline(always)]
    fn is_pair_of(&self, header: Self::Header, _slot: usize) -> bool {
        // The pair was loaded before. Relaxed: the fence orders this load.
        fence(Ordering::Acquire);
        (self.head.head.load(Ordering::Relaxed) ^ header.head) & VERSION == 0
            || seeded(Bug::TornPairReturned)
    }

    fn addresses(&self, slot: usize) -> impl Iterator<Item = *const u8> {
        let tag: *const AtomicU64 = self.tag(slot).0;
        [tag.cast(), (&raw const self.values[slot]).cast()].into_iter()
    }

    #[inline(always)]
    fn put<M: Medium>(
        &self,
        medium: &M,
        slot: usize,
        fingerprint: u8,
        (tag, value_word): (u64, u64),
    ) {
        let head = self.head.held();
        let version = head.wrapping_add(1 << VERSION_SHIFT) & VERSION;
        store(medium, &self.head.head, head & !VERSION | version);
        // A reader that sees one of the following stores finds the new version in its check.
        fence(Ordering::Release);
        let (word, shift) = self.tag(slot);
        // Relaxed: no other thread changes the word; the fingerprint releases both stores.
        let other = word.load(Ordering::Relaxed) & !(0xFFFF_FFFF << shift);
        medium.store_word(word, other | (tag & 0xFFFF_FFFF) << shift, Ordering::Relaxed);
        medium.store_word(&self.values[slot], value_word, Ordering::Relaxed);
        self.head.set_fingerprint(medium, slot, fingerprint);
    }

    #[inline(always)]
    fn replace<M: Medium>(&self, medium: &M, slot: usize, value_word: u64) {
        // Release: a reader of the value sees what happened before.
        medium.store_word(&self.values[slot], value_word, Ordering::Release);
    }
}

impl Layout for Bucket8 {
    const IS_DURABLE: bool = false;
    const SLOTS: usize = SLOTS_8;
    type Header = NarrowHeader<3, SLOTS_8>;

    by_head!();

    #[inline(always)]
    fn pair(&self, slot: usize, _whole: bool) -> (u64, u64) {
        // Acquire: the memory that the value refers to is visible, and what its key's insert has
        // seen.
        let pair = self.pairs[slot].load(Ordering::Acquire);
        (pair & 0xFFFF_FFFF | TAG, pair >> 32)
    }

    #[inline(always)]
    fn is_pair_of(&self, header: Self::Header, slot: usize) -> bool {
        // The pair is one word, but its insert may not have ended: then the fingerprint is cleared.
        // Relaxed: after the acquiring load of the pair.
        let word = self.head.fingerprints.get(slot / 8).unwrap_or(&self.head.head);
        let fingerprint = (word.load(Ordering::Relaxed) >> (slot % 8 * 8)) as u8;
        fingerprint == header.fingerprint(slot) || seeded(Bug::UnpublishedPairReturned)
    }

    fn addresses(&self, slot: usize) -> impl Iterator<Item = *const u8> {
        core::iter::once((&raw const self.pairs[slot]).cast())
    }

    #[inline(always)]
    fn put<M: Medium>(
        &self,
        medium: &M,
        slot: usize,
        fingerprint: u8,
        (tag, value_word): (u64, u64),
    ) {
        // Release: a reader that finds the pair finds the fingerprint of the key before cleared.
        let pair = tag & 0xFFFF_FFFF | value_word << 32;
        medium.store_word(&self.pairs[slot], pair, Ordering::Release);
        self.head.set_fingerprint(medium, slot, fingerprint);
    }

    #[inline(always)]
    fn replace<M: Medium>(&self, medium: &M, slot: usize, value_word: u64) {
        // Relaxed: no other thread changes the word. Release: a reader of the value sees what
        // happened before.
        let tag = self.pairs[slot].load(Ordering::Relaxed) & 0xFFFF_FFFF;
        medium.store_word(&self.pairs[slot], tag | value_word << 32, Ordering::Release);
    }
}

const _: () = assert!(cfg!(modelled) || size_of::<Bucket12>() == 256);
const _: () = assert!(cfg!(modelled) || size_of::<Bucket8>() == 256);

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    fn every_slot_is_found_by_its_fingerprint<L: Layout + Default>(slots: usize) {
        assert_eq!(L::SLOTS, slots);
        let bucket = L::default();
        bucket.lock();
        for slot in 0..L::SLOTS {
            assert_eq!(bucket.header().matching(0).next(), Some(slot));
            bucket.put(&Heap, slot, slot as u8 + 1, (TAG | slot as u64, slot as u64 + 100));
        }
        bucket.set(&Heap, Flag::Stashed);
        bucket.unlock();
        let header = bucket.header();
        for slot in 0..L::SLOTS {
            assert_eq!(header.matching(slot as u8 + 1).collect::<Vec<_>>(), [slot]);
            assert_eq!(bucket.pair(slot, true), (TAG | slot as u64, slot as u64 + 100));
            assert!(bucket.is_pair_of(header, slot));
        }
        assert!(header.has(Flag::Stashed) && !header.has(Flag::Second) && !header.has_no_flag());
        assert_eq!((header.free_slots(), bucket.items(Marking::Place).count()), (0, L::SLOTS));
        bucket.lock();
        assert!(!bucket.try_lock());
        bucket.clear(&Heap, L::SLOTS - 1);
        bucket.replace(&Heap, 0, 9);
        bucket.unlock();
        assert_eq!(bucket.header().matching(0).collect::<Vec<_>>(), [L::SLOTS - 1]);
        assert_eq!(bucket.pair(0, true), (TAG, 9));
        assert!(bucket.header().has(Flag::Stashed));
        bucket.put(&Heap, L::SLOTS - 1, 0xFF, (TAG, 1));
        bucket.empty(&Heap);
        assert!(bucket.header().has_no_flag() && bucket.items(Marking::Place).next().is_none());
    }

    /// The paper's formula gives the number of slots: 256 / (E + 1.125).
    #[test]
    fn all_slots_hold_what_was_put_there() {
        every_slot_is_found_by_its_fingerprint::<Bucket12>((256.0_f64 / 13.125) as usize);
        every_slot_is_found_by_its_fingerprint::<Bucket8>((256.0_f64 / 9.125) as usize);
    }

    #[test]
    fn another_key_in_a_slot_makes_another_version() {
        let bucket = Bucket12::default();
        bucket.put(&Heap, 3, 5, (TAG | 1, 10));
        let header = bucket.header();
        bucket.clear(&Heap, 3);
        bucket.replace(&Heap, 4, 1);
        assert!(bucket.is_pair_of(header, 3));
        bucket.put(&Heap, 3, 5, (TAG | 2, 20));
        assert!(!bucket.is_pair_of(header, 3));
        bucket.head.head.store(VERSION, Ordering::Relaxed);
        bucket.put(&Heap, 4, 5, (TAG | 2, 20));
        assert_eq!(bucket.head.held(), 0, "a version that ends begins again");
    }
}
