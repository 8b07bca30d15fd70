//! The interface of a bucket, for every size of entries (section 3.3, "Supporting different key
//! sizes").
//!
//! A bucket has 256 bytes: slots, a fingerprint for each slot, flags and a lock. It holds ⌊256 / (E
//! + 1.125)⌋ entries of E bytes.

mod narrow;
mod sizes;
mod wide;

pub use sizes::{Entry8, Entry12, Entry16, EntrySize};
pub(in crate::table) use wide::SLOTS;
pub(in crate::table) use wide::{Bucket, BucketHeader};

use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::simd::BitIter;
use crate::sync::{AtomicPair, AtomicU64, Ordering};
use crate::table::KeyTest;
use crate::table::shared::slot_branch::branch_on_slot;
use core::fmt::Debug;

#[cfg(not(modelled))]
use crate::memory::Zeroed as Element;
/// The elements of a reserved array under a model checker.
#[cfg(modelled)]
pub(crate) trait Element: crate::memory::Zeroed + crate::memory::Released {}
#[cfg(modelled)]
impl<T: crate::memory::Zeroed + crate::memory::Released> Element for T {}

const FLAGS_SHIFT: u32 = 56;
const LOCK: u64 = 1 << 63;

/// A bucket's flags about the keys whose first bucket it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Flag {
    /// A key may be in its second bucket.
    Second = 1 << FLAGS_SHIFT,
    /// A key may be in the stash.
    Stashed = 2 << FLAGS_SHIFT,
    /// A key may be in the table's chains.
    Chained = 4 << FLAGS_SHIFT,
}

const ALL_FLAGS: u64 = 7 << FLAGS_SHIFT;

/// In a durable table's buckets that have no stash behind them: the hashes of their pairs have the
/// highest bit, the one that slots do not store. Tells which hashes the pairs had if what else says
/// it is lost.
pub(in crate::table) const UPPER_HALF: Flag = Flag::Stashed;

/// The bits where a durable bucket of Pea Hash notes which half of the hashes its pairs have. Other buckets that may
/// have pointers count them there.
const MARKS_SHIFT: u32 = FLAGS_SHIFT + 3;
const MARKS: [u64; 2] = [1 << MARKS_SHIFT, 2 << MARKS_SHIFT];

/// Returns the mark of a half among the flags of a bucket that is [restored](Layout::restore).
#[cfg(durable)]
pub(in crate::table) fn mark_of_half(half: usize) -> u64 {
    MARKS[half]
}

/// The bit that every tag of a durable table of duplicate keys has.
const HIGHEST: u64 = 1 << 63;

/// How a slot shows that it holds a pointer to many values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marking {
    /// By its number: pointers come before all values.
    Place,
    /// By its first word: the tag without its highest bit. If that would be zero, the tag stays as
    /// it is, and slots of that tag hold only pointers.
    Tag,
    /// No slot does: keys have one value.
    Absent,
}

impl Marking {
    /// Returns the first word of a slot.
    #[inline(always)]
    pub(in crate::table) fn word(self, tag: u64, is_pointer: bool) -> u64 {
        match self {
            Self::Tag if is_pointer && tag != HIGHEST => tag & !HIGHEST,
            _ => tag,
        }
    }

    /// Returns the tag that a slot's first word stands for.
    #[inline(always)]
    pub(in crate::table) fn tag(self, word: u64) -> u64 {
        if self == Self::Tag { word | HIGHEST } else { word }
    }

    /// Returns whether a slot's first word shows a pointer.
    #[inline(always)]
    pub(in crate::table) fn is_pointer(self, word: u64) -> bool {
        self == Self::Tag && (word & HIGHEST == 0 || word == HIGHEST)
    }

    /// Returns whether slots of a tag hold only pointers.
    #[inline(always)]
    pub(in crate::table) fn has_only_pointers(self, tag: u64) -> bool {
        self == Self::Tag && tag == HIGHEST
    }
}

/// The contents of a slot in a table of duplicate keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    pub(in crate::table) fingerprint: u8,
    pub(in crate::table) tag: u64,
    /// A value, or a pointer to many values.
    pub(in crate::table) value_word: u64,
    pub(in crate::table) is_pointer: bool,
}

/// The header of a bucket, as it was loaded.
#[allow(private_interfaces, reason = "the trait is sealed: its module is private")]
pub trait Header: Copy {
    /// Returns the slots with a fingerprint; fingerprint zero returns the free slots.
    fn matching(self, fingerprint: u8) -> BitIter;

    fn has(self, flag: Flag) -> bool;

    /// Returns whether every key whose first bucket this is, is in this bucket or absent.
    fn has_no_flag(self) -> bool;

    fn free_slots(self) -> u32;

    /// Returns whether this bucket has more free slots than the other.
    #[inline(always)]
    fn has_more_room_than(self, other: Self) -> bool {
        self.free_slots() > other.free_slots()
    }

    /// Returns the half of the hashes that the bucket of a durable table says its pairs have.
    fn half(self) -> Option<usize> {
        None
    }
}

/// A bucket for entries of one size.
///
/// Only the holder of the lock changes the bucket; other threads change the lock's bit only.
#[allow(private_interfaces, private_bounds, reason = "the trait is sealed: its module is private")]
pub trait Layout: Element + Debug + Send + Sync + Sized + 'static {
    /// Whether the bucket suits durable media.
    const IS_DURABLE: bool;
    /// The number of slots.
    const SLOTS: usize;
    /// Whether a loaded pair is always valid, so that [`is_pair_of`](Self::is_pair_of) returns
    /// true.
    const PAIRS_ARE_WHOLE: bool = false;
    type Header: Header;

    /// Loads fingerprints and flags. The flags are not newer than the fingerprints.
    fn header(&self) -> Self::Header;

    /// Loads a tag and the value of its key from a slot. The tag is zero or another key's if the
    /// slot was freed or reused since the header was loaded. With `whole`, loads both words at
    /// once.
    fn pair(&self, slot: usize, whole: bool) -> (u64, u64);

    /// Loads a tag and the value of its key from a slot. The caller holds a lock that keeps other threads from the key:
    /// if the tag is the key's, the value is, too.
    #[inline(always)]
    fn held_pair(&self, slot: usize) -> (u64, u64) {
        self.pair(slot, true)
    }

    /// Returns whether a pair that was loaded after `header` is valid: its two halves belong
    /// together, and its insert has ended.
    fn is_pair_of(&self, header: Self::Header, slot: usize) -> bool;

    /// Yields the addresses of a slot that a lookup reads, besides the header.
    fn addresses(&self, slot: usize) -> impl Iterator<Item = *const u8>;

    fn try_lock(&self) -> bool;

    fn lock(&self);

    fn unlock(&self);

    /// Sets a flag, before the store that it announces. The caller holds the lock.
    fn set<M: Medium>(&self, medium: &M, flag: Flag);

    /// Notes which half of the hashes the bucket's pairs have, in a durable medium and before the first pair is put
    /// into it. The caller holds the lock.
    fn note_half<M: Medium>(&self, _medium: &M, _hash: u64) {}

    /// Puts a pair into a free slot. The caller holds the lock.
    fn put<M: Medium>(&self, medium: &M, slot: usize, fingerprint: u8, pair: (u64, u64));

    /// Replaces the value of a slot. No other thread may change its key.
    fn replace<M: Medium>(&self, medium: &M, slot: usize, value_word: u64);

    /// Empties a slot. The caller holds the lock.
    fn clear<M: Medium>(&self, medium: &M, slot: usize);

    /// Begins to make a slot durable that a lookup has read.
    fn flush<M: Medium>(&self, _medium: &M, _slot: usize) {}

    /// Makes a pair that was put into a slot durable.
    fn persist<M: Medium>(&self, _medium: &M, _slot: usize) {}

    /// Makes a slot's new value durable.
    fn persist_value<M: Medium>(&self, _medium: &M, _slot: usize) {}

    /// Yields the items of a bucket that does not change.
    fn items(&self, marking: Marking) -> impl Iterator<Item = Item>;

    /// Puts an item into the bucket, and returns its slot; `None` if there is no room. The caller
    /// holds the lock, whose version makes readers try again.
    fn add<M: Medium>(&self, medium: &M, marking: Marking, item: Item) -> Option<usize>;

    /// Returns the flags: they say where else keys of this bucket may be.
    fn flags(&self) -> u64;

    /// Adds flags to a bucket that no other thread can reach.
    fn add_flags<M: Medium>(&self, medium: &M, flags: u64);

    /// Stores the header, of these fingerprints and flags, of a bucket that no other thread can
    /// reach.
    #[cfg(durable)]
    fn restore<M: Medium>(&self, _medium: &M, _fingerprints: &[u8], _flags: u64) {
        unreachable!("nothing in RAM is found after a crash")
    }

    /// Makes the page of a new bucket resident.
    fn touch<M: Medium>(&self, medium: &M);

    /// Empties a bucket that no other thread can reach.
    fn empty<M: Medium>(&self, medium: &M);
}

/// Counts the lines of a bucket's header and of a slot.
#[inline(always)]
pub(in crate::table) fn look_at<M: Medium, L: Layout>(bucket: &L, slot: usize) {
    #[cfg(any(test, feature = "accounting"))]
    for address in bucket.addresses(slot) {
        crate::memory::touched::record(address.addr(), M::IS_DURABLE);
    }
    #[cfg(not(any(test, feature = "accounting")))]
    let _ = (bucket, slot);
}

/// Returns the value word of a key in a bucket, by fingerprint and tag. The header was loaded
/// before; `pair` loads a slot, as [`Layout::pair`] does.
#[inline(always)]
pub(in crate::table) fn find_in<L: Layout, T: KeyTest>(
    bucket: &L,
    mut header: L::Header,
    (fingerprint, tag): (u8, u64),
    test: &T,
    pair: impl Fn(usize) -> (u64, u64),
) -> Option<u64> {
    'look: loop {
        for slot in header.matching(fingerprint) {
            let (first, value_word) = pair(slot);
            if first != tag {
                continue;
            }
            if !bucket.is_pair_of(header, slot) {
                header = bucket.header();
                continue 'look;
            }
            if test.accepts(value_word) {
                return Some(value_word);
            }
        }
        return None;
    }
}

/// Stores a word whose lock the caller holds. Release: for fingerprints and flags, see the callers;
/// at an unlocking, the next holder sees all earlier stores.
#[inline(always)]
fn store<M: Medium>(medium: &M, word: &AtomicU64, new: u64) {
    // As in the front yard of IcebergHT: since the locking, other threads have changed the word
    // only by setting the lock's bit. Loom does not know that.
    #[cfg(loom)]
    {
        let _ = medium;
        word.swap(new, Ordering::Release);
    }
    #[cfg(not(loom))]
    medium.store_word(word, new, Ordering::Release);
}

/// Puts a pair with its fingerprint into a free slot: see [`Layout::put`]. If the operation is no part of a batch
/// (`ALONE`), the stores do not wait for the header that told the slot: see [`branch_on_slot`].
#[inline(always)]
pub(in crate::table) fn put_into_slot<const ALONE: bool, M: Medium, L: Layout>(
    medium: &M,
    bucket: &L,
    slot: usize,
    (fingerprint, pair): (u8, (u64, u64)),
) {
    match ALONE && !M::IS_DURABLE {
        true => branch_on_slot(L::SLOTS, slot, |slot| bucket.put(medium, slot, fingerprint, pair)),
        false => bucket.put(medium, slot, fingerprint, pair),
    }
}

/// Empties a slot: see [`Layout::clear`], and for the stores [`put_into_slot`].
#[inline(always)]
pub(in crate::table) fn clear_slot<const ALONE: bool, M: Medium, L: Layout>(
    medium: &M,
    bucket: &L,
    slot: usize,
) {
    match ALONE && !M::IS_DURABLE {
        true => branch_on_slot(L::SLOTS, slot, |slot| bucket.clear(medium, slot)),
        false => bucket.clear(medium, slot),
    }
}

/// Stores a pair into a slot whose tag is zero. Both words are in one cache line, which persists in
/// the order of the stores: a crash leaves all of the pair or nothing.
#[inline(always)]
pub(in crate::table) fn put_pair<M: Medium>(
    medium: &M,
    slot: &AtomicPair,
    (tag, value_word): (u64, u64),
) {
    if seeded(Bug::TagBeforeValue) {
        medium.store_first(slot, tag, Ordering::Release);
    }
    medium.store_second(slot, value_word, Ordering::Relaxed);
    // Release: a reader that finds the tag finds the value and the fingerprint.
    medium.store_first(slot, tag, Ordering::Release);
}
