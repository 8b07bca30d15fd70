//! A bucket: four cache lines. The first line describes the contents of the others.
//!
//! ```text
//! byte 0     14 fingerprints, one for each slot but the last
//!     14     the last slot's
//!     15     flags: second, stashed, chained; 4 bits, see below; lock
//!     16     15 slots of 16 bytes: tag, value
//! ```
//!
//! The 4 bits say in a table in RAM how many slots are pointers. In a durable table of Pea Hash the lowest one says that
//! the hashes of the pairs have the highest bit 0, the next one that it is 1: slots do not store that bit.
//!
//! The paper has 14 fingerprints and a bitmap of 16 bits (3.3). Here a slot is free if its tag is
//! zero. So no bitmap is needed, and the last slot has a fingerprint, too.
//!
//! Invariants
//! 1. Only the holder of the lock writes fingerprints, tags and flags of the bucket. Other threads
//!    change the lock's bit only.
//! 2. While a slot holds a tag, its byte holds the tag's fingerprint: set before the tag, cleared
//!    after it.
//! 3. A flag is set before the store that it announces, and stays as long as the segment. (For
//!    duplicate keys it may be set afterwards, under the same lock: the lock's version keeps
//!    readers from the state in between.)
//! 4. For duplicate keys, a number of first slots hold pointers to value buffers; the other slots
//!    hold values or nothing. In a durable table this number is zero, and the tag shows that its
//!    slot holds a pointer: see [`Marking`].
//!
//! Loads by the holder of the lock are relaxed, and so are stores to a bucket that no other thread
//! can reach: the publication or the unlocking releases them.

use super::{
    ALL_FLAGS, FLAGS_SHIFT, Flag, Header, Item, LOCK, Layout, MARKS, Marking, put_pair, store,
};
use crate::memory::{Heap, Medium, Zeroed};
use crate::seeded::{Bug, seeded};
use crate::simd::BitIter;
use crate::sync::{AtomicPair, AtomicU64, Backoff, Ordering};

/// The number of slots in a bucket.
pub(in crate::table) const SLOTS: usize = if cfg!(modelled) { 3 } else { 15 };

const POINTERS_SHIFT: u32 = FLAGS_SHIFT + 3;
const POINTERS: u64 = 15 << POINTERS_SHIFT;

#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Bucket {
    words: [AtomicU64; 2],
    slots: [AtomicPair; SLOTS],
}

// SAFETY: a bucket consists of atomic words, for which zero bytes are valid. It needs no drop.
unsafe impl Zeroed for Bucket {
    #[cfg(modelled)]
    fn zeroed() -> Self {
        Self::default()
    }
}

#[cfg(modelled)]
impl crate::memory::Released for Bucket {
    fn release(&self) {
        self.empty(&Heap);
    }
}

/// The words of a header, as they were loaded.
#[derive(Debug, Clone, Copy)]
pub struct BucketHeader([u64; 2]);

impl BucketHeader {
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn bytes_that_are(self, fingerprint: u8) -> u32 {
        use core::arch::x86_64::*;
        // SAFETY: every x86-64 processor has SSE2.
        unsafe {
            let header = _mm_set_epi64x(self.0[1].cast_signed(), self.0[0].cast_signed());
            let wanted = _mm_set1_epi8(fingerprint.cast_signed());
            _mm_movemask_epi8(_mm_cmpeq_epi8(header, wanted)).cast_unsigned() & ((1 << SLOTS) - 1)
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn bytes_that_are(self, fingerprint: u8) -> u32 {
        let byte = |slot: usize| (self.0[slot / 8] >> (slot % 8 * 8)) as u8;
        (0..SLOTS).fold(0, |bits, slot| bits | u32::from(byte(slot) == fingerprint) << slot)
    }

    /// As [`free_slots`](Header::free_slots), by a sum of bytes: not every processor can count bits.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn count_free(self) -> i64 {
        use core::arch::x86_64::*;
        const ONE_A_SLOT: u128 = u128::from_le_bytes([1; 16]) & ((1 << (8 * SLOTS)) - 1);
        // SAFETY: every x86-64 processor has SSE2.
        unsafe {
            let header = _mm_set_epi64x(self.0[1].cast_signed(), self.0[0].cast_signed());
            let ones = _mm_set_epi64x((ONE_A_SLOT >> 64) as i64, ONE_A_SLOT as i64);
            let free = _mm_and_si128(_mm_cmpeq_epi8(header, _mm_setzero_si128()), ones);
            let sums = _mm_sad_epu8(free, _mm_setzero_si128());
            _mm_cvtsi128_si64(_mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums)))
        }
    }

    /// Returns how many of the first slots hold pointers that their place marks.
    #[inline(always)]
    pub(in crate::table) fn pointers(self, marking: Marking) -> usize {
        match marking {
            Marking::Place => ((self.0[1] & POINTERS) >> POINTERS_SHIFT) as usize,
            Marking::Tag | Marking::Absent => 0,
        }
    }

    fn fingerprint(self, slot: usize) -> u8 {
        (self.0[slot / 8] >> (slot % 8 * 8)) as u8
    }
}

impl Header for BucketHeader {
    #[inline(always)]
    fn matching(self, fingerprint: u8) -> BitIter {
        BitIter::new(u64::from(self.bytes_that_are(fingerprint)))
    }

    #[inline(always)]
    fn has(self, flag: Flag) -> bool {
        self.0[1] & flag as u64 != 0
    }

    #[inline(always)]
    fn has_no_flag(self) -> bool {
        self.0[1] & ALL_FLAGS == 0
    }

    fn free_slots(self) -> u32 {
        self.bytes_that_are(0).count_ones()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn has_more_room_than(self, other: Self) -> bool {
        self.count_free() > other.count_free()
    }

    fn half(self) -> Option<usize> {
        match MARKS.map(|mark| self.0[1] & mark != 0) {
            [true, false] => Some(0),
            [false, true] => Some(1),
            _ => None,
        }
    }
}

#[allow(private_interfaces, reason = "the trait is sealed: its module is private")]
impl Layout for Bucket {
    const IS_DURABLE: bool = true;
    const SLOTS: usize = SLOTS;
    const PAIRS_ARE_WHOLE: bool = true;
    type Header = BucketHeader;

    #[inline(always)]
    fn header(&self) -> BucketHeader {
        // Acquire: stores before the clearing of a fingerprint or the setting of a flag are
        // visible.
        let value_word = self.words[1].load(Ordering::Acquire);
        BucketHeader([self.words[0].load(Ordering::Acquire), value_word])
    }

    #[inline(always)]
    fn pair(&self, slot: usize, whole: bool) -> (u64, u64) {
        self.slots[slot].load_whole(whole)
    }

    #[inline(always)]
    fn held_pair(&self, slot: usize) -> (u64, u64) {
        // Relaxed: the lock orders them.
        let slot = &self.slots[slot];
        (slot.load_first(Ordering::Relaxed), slot.load_second(Ordering::Relaxed))
    }

    #[inline(always)]
    fn is_pair_of(&self, _header: BucketHeader, _slot: usize) -> bool {
        // One load reads both words of a slot, and the tag is stored last.
        true
    }

    fn addresses(&self, slot: usize) -> impl Iterator<Item = *const u8> {
        core::iter::once((&raw const self.slots[slot]).cast())
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        // Acquire: pairs with the unlocking.
        self.words[1].fetch_or(LOCK, Ordering::Acquire) & LOCK == 0
    }

    #[inline(always)]
    fn lock(&self) {
        if !self.try_lock() {
            self.lock_when_free();
        }
    }

    #[inline(always)]
    fn unlock(&self) {
        store(&Heap, &self.words[1], self.words[1].load(Ordering::Relaxed) & !LOCK);
    }

    fn set<M: Medium>(&self, medium: &M, flag: Flag) {
        let word = self.words[1].load(Ordering::Relaxed);
        store(medium, &self.words[1], word | flag as u64);
    }

    #[inline(always)]
    fn note_half<M: Medium>(&self, medium: &M, hash: u64) {
        let word = self.words[1].load(Ordering::Relaxed);
        let mark = MARKS[(hash >> 63) as usize];
        if M::IS_DURABLE && word & mark == 0 {
            store(medium, &self.words[1], word | mark);
        }
    }

    #[inline(always)]
    fn put<M: Medium>(&self, medium: &M, slot: usize, fingerprint: u8, pair: (u64, u64)) {
        self.set_fingerprint(medium, slot, fingerprint);
        put_pair(medium, &self.slots[slot], pair);
    }

    #[inline(always)]
    fn replace<M: Medium>(&self, medium: &M, slot: usize, value_word: u64) {
        // Release: the memory that the value word points to is visible.
        medium.store_second(&self.slots[slot], value_word, Ordering::Release);
    }

    #[inline(always)]
    fn clear<M: Medium>(&self, medium: &M, slot: usize) {
        // Release: a reader that misses the key because of this store sees what happened before.
        medium.store_first(&self.slots[slot], 0, Ordering::Release);
        if M::IS_DURABLE {
            // Before the fingerprint: a reader that finds none takes the removal for durable.
            if !seeded(Bug::RemoveUnflushed) {
                medium.flush(&raw const self.slots[slot], 1);
            }
            if !seeded(Bug::RemoveUnfenced) {
                medium.fence();
            }
        }
        self.set_fingerprint(medium, slot, 0);
    }

    #[inline(always)]
    fn persist<M: Medium>(&self, medium: &M, slot: usize) {
        if M::IS_DURABLE {
            if !seeded(Bug::InsertUnflushed) {
                medium.flush(&raw const self.slots[slot], 1);
            }
            if !seeded(Bug::InsertUnfenced) {
                medium.fence();
            }
        }
    }

    #[inline(always)]
    fn persist_value<M: Medium>(&self, medium: &M, slot: usize) {
        if M::IS_DURABLE {
            if !seeded(Bug::ReplaceUnflushed) {
                medium.flush(&raw const self.slots[slot], 1);
            }
            if !seeded(Bug::ReplaceUnfenced) {
                medium.fence();
            }
        }
    }

    fn add<M: Medium>(&self, medium: &M, marking: Marking, item: Item) -> Option<usize> {
        let header = self.header();
        let free = header.matching(0).next()?;
        let pair = (marking.word(item.tag, item.is_pointer), item.value_word);
        if !item.is_pointer || marking != Marking::Place {
            self.put(medium, free, item.fingerprint, pair);
            return Some(free);
        }
        let place = header.pointers(marking);
        if free != place {
            let value = self.item(marking, place);
            self.put(medium, free, value.fingerprint, (value.tag, value.value_word));
        }
        self.put(medium, place, item.fingerprint, pair);
        self.set_pointers(medium, place + 1);
        Some(place)
    }

    fn items(&self, marking: Marking) -> impl Iterator<Item = Item> {
        let header = self.header();
        let is_taken = move |slot: &usize| header.fingerprint(*slot) != 0;
        (0..SLOTS).filter(is_taken).map(move |slot| self.item_of(marking, header, slot))
    }

    fn flags(&self) -> u64 {
        self.words[1].load(Ordering::Relaxed) & ALL_FLAGS
    }

    fn add_flags<M: Medium>(&self, medium: &M, flags: u64) {
        let word = self.words[1].load(Ordering::Relaxed);
        if word | flags != word {
            store(medium, &self.words[1], word | flags);
        }
    }

    fn touch<M: Medium>(&self, medium: &M) {
        medium.store_word(&self.words[0], 0, Ordering::Relaxed);
    }

    fn empty<M: Medium>(&self, medium: &M) {
        for slot in &self.slots {
            // The check keeps lines clean that need no store, so that they are not written back.
            if !M::IS_DURABLE || slot.load_first(Ordering::Relaxed) != 0 {
                medium.store_first(slot, 0, Ordering::Relaxed);
            }
        }
        self.set_words(medium, [0, 0]);
    }

    #[cfg(durable)]
    fn restore<M: Medium>(&self, medium: &M, fingerprints: &[u8], flags: u64) {
        let mut words = [0, flags & (ALL_FLAGS | MARKS[0] | MARKS[1])];
        for (slot, &fingerprint) in fingerprints.iter().enumerate() {
            words[slot / 8] |= u64::from(fingerprint) << (slot % 8 * 8);
        }
        self.set_words(medium, words);
    }

    fn flush<M: Medium>(&self, medium: &M, slot: usize) {
        medium.flush(&raw const self.slots[slot], 1);
    }
}

impl Bucket {
    /// Locks the bucket when its holder has unlocked it.
    #[cold]
    #[inline(never)]
    fn lock_when_free(&self) {
        let mut backoff = Backoff::new();
        loop {
            // Relaxed: a hint.
            while self.words[1].load(Ordering::Relaxed) & LOCK != 0 {
                backoff.wait();
            }
            if self.try_lock() {
                return;
            }
        }
    }

    #[inline(always)]
    pub(in crate::table) fn slot(&self, slot: usize) -> &AtomicPair {
        &self.slots[slot]
    }

    #[inline(always)]
    fn set_fingerprint<M: Medium>(&self, medium: &M, slot: usize, fingerprint: u8) {
        let (word, shift) = (&self.words[slot / 8], slot % 8 * 8);
        let others = word.load(Ordering::Relaxed) & !(0xFF << shift);
        // Release, in `store`: a reader that finds the fingerprint cleared finds the tag cleared.
        store(medium, word, others | u64::from(fingerprint) << shift);
    }

    fn set_pointers<M: Medium>(&self, medium: &M, pointers: usize) {
        let word = self.words[1].load(Ordering::Relaxed) & !POINTERS;
        store(medium, &self.words[1], word | (pointers as u64) << POINTERS_SHIFT);
    }

    /// Returns the item in a slot that is taken. The caller holds the lock.
    pub(in crate::table) fn item(&self, marking: Marking, slot: usize) -> Item {
        self.item_of(marking, self.header(), slot)
    }

    #[inline(always)]
    fn item_of(&self, marking: Marking, header: BucketHeader, slot: usize) -> Item {
        let word = self.slots[slot].load_first(Ordering::Relaxed);
        Item {
            fingerprint: header.fingerprint(slot),
            tag: marking.tag(word),
            value_word: self.slots[slot].load_second(Ordering::Relaxed),
            is_pointer: slot < header.pointers(marking) || marking.is_pointer(word),
        }
    }

    /// Removes a pointer that its slot number marks. The caller holds the lock, whose version makes
    /// readers try again.
    pub(in crate::table) fn clear_pointer<M: Medium>(&self, medium: &M, slot: usize) {
        let last = self.header().pointers(Marking::Place) - 1;
        if slot != last {
            let other = self.item(Marking::Place, last);
            self.put(medium, slot, other.fingerprint, (other.tag, other.value_word));
        }
        self.set_pointers(medium, last);
        self.clear(medium, last);
    }

    /// Replaces all items of the bucket, whose slot numbers mark pointers. The caller holds the
    /// lock, whose version makes readers try again.
    pub(in crate::table) fn rewrite<M: Medium>(
        &self,
        medium: &M,
        items: impl Iterator<Item = Item>,
    ) {
        (0..SLOTS).for_each(|slot| self.clear(medium, slot));
        self.set_pointers(medium, 0);
        items.for_each(|item| {
            self.add(medium, Marking::Place, item);
        });
    }

    /// Clears the fingerprint of a slot that was emptied durably.
    pub(in crate::table) fn forget<M: Medium>(&self, medium: &M, slot: usize) {
        self.set_fingerprint(medium, slot, 0);
    }

    /// Stores both words of the header. In a durable medium, skips a word that is unchanged.
    fn set_words<M: Medium>(&self, medium: &M, words: [u64; 2]) {
        for (word, new) in self.words.iter().zip(words) {
            if !M::IS_DURABLE || word.load(Ordering::Relaxed) != new {
                medium.store_word(word, new, Ordering::Relaxed);
            }
        }
    }
}

const _: () = assert!(cfg!(modelled) || size_of::<Bucket>() == 256);

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_found_by_its_fingerprint() {
        let bucket = Bucket::default();
        bucket.lock();
        for slot in 0..SLOTS {
            bucket.put(&Heap, slot, slot as u8 + 1, (slot as u64 + 100, 7));
        }
        bucket.set(&Heap, Flag::Stashed);
        bucket.unlock();
        let header = bucket.header();
        for slot in 0..SLOTS {
            assert_eq!(header.matching(slot as u8 + 1).collect::<Vec<_>>(), [slot]);
        }
        assert!(header.has(Flag::Stashed) && !header.has(Flag::Second) && !header.has_no_flag());
        assert_eq!((header.free_slots(), bucket.items(Marking::Place).count()), (0, SLOTS));
        bucket.lock();
        assert!(!bucket.try_lock());
        bucket.clear(&Heap, 14);
        bucket.unlock();
        assert_eq!(bucket.header().matching(0).collect::<Vec<_>>(), [14]);
        assert!(bucket.header().has(Flag::Stashed));
    }

    #[test]
    fn the_bucket_with_more_free_slots_has_more_room() {
        // Fingerprints of the first slots, and the byte of the flags.
        let header = |taken: usize, others: u64| {
            let of_slot = |slot: usize| if slot < taken { 0x81_u128 << (8 * slot) } else { 0 };
            let words = (0..SLOTS).map(of_slot).sum::<u128>() | u128::from(others) << 120;
            BucketHeader([words as u64, (words >> 64) as u64])
        };
        for (one, other) in (0..=SLOTS).flat_map(|one| (0..=SLOTS).map(move |other| (one, other))) {
            for flags in [0, 0x80, 0xFF] {
                let (of_one, of_other) = (header(one, flags), header(other, 0));
                assert_eq!(of_one.has_more_room_than(of_other), one < other, "{one} {other}");
                assert_eq!(of_other.has_more_room_than(of_one), other < one, "{one} {other}");
                assert_eq!(of_one.free_slots() as usize, SLOTS - one);
            }
        }
    }

    #[test]
    fn rewritten_items_replace_all_others() {
        let bucket = Bucket::default();
        bucket.lock();
        let item = |n: u64, is_pointer| Item {
            fingerprint: n as u8 + 1,
            tag: n + 100,
            value_word: n,
            is_pointer,
        };
        bucket.rewrite(&Heap, (0..SLOTS as u64).map(|n| item(n, n < 2)));
        bucket.rewrite(&Heap, (20..25).map(|n| item(n, n < 21)));
        let found = bucket.items(Marking::Place);
        let found =
            found.map(|item| (item.fingerprint, item.tag, item.value_word, item.is_pointer));
        let mut found: Vec<_> = found.collect();
        found.sort_unstable();
        let expected = (20..25).map(|n| (n as u8 + 1, n + 100, n, n < 21));
        assert_eq!(found, expected.collect::<Vec<_>>());
        assert_eq!(
            (bucket.header().pointers(Marking::Place), bucket.header().free_slots()),
            (1, 10)
        );
        bucket.clear_pointer(&Heap, 0);
        assert_eq!(
            (bucket.header().pointers(Marking::Place), bucket.items(Marking::Place).count()),
            (0, 4)
        );
        bucket.unlock();
    }
}
