//! What the table asks of a bucket, whatever the size of its entries (section 3.3,
//! "Supporting different key sizes").
//!
//! A bucket is 256 bytes, and has a fingerprint for each of its slots, flags and a lock.
//! How many slots that leaves is the entries' affair: ⌊256 / (E + 1.125)⌋ of E bytes.

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
use core::fmt::Debug;

#[cfg(not(modelled))]
use crate::memory::Zeroed as Element;
/// What a reserved array of a model checker holds.
#[cfg(modelled)]
pub(crate) trait Element: crate::memory::Zeroed + crate::memory::Released {}
#[cfg(modelled)]
impl<T: crate::memory::Zeroed + crate::memory::Released> Element for T {}

const FLAGS_SHIFT: u32 = 56;
const LOCK: u64 = 1 << 63;

/// What a bucket tells of keys whose first bucket it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Flag {
    /// One may be in its second bucket.
    Second = 1 << FLAGS_SHIFT,
    /// One may be in the stash.
    Stashed = 2 << FLAGS_SHIFT,
    /// One may be in the table's chains.
    Chained = 4 << FLAGS_SHIFT,
}

const ALL_FLAGS: u64 = 7 << FLAGS_SHIFT;

/// The bit that every tag of a durable table of duplicate keys has.
const HIGHEST: u64 = 1 << 63;

/// How a slot says that it holds a pointer to many values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marking {
    /// By its place: it comes before all that hold values.
    Place,
    /// By its word: the tag without its highest bit. What would be zero then is left as it
    /// is, and slots of that tag hold nothing but pointers.
    Tag,
}

impl Marking {
    /// The first word of a slot.
    #[inline(always)]
    pub(in crate::table) fn word(self, tag: u64, is_pointer: bool) -> u64 {
        match self {
            Self::Tag if is_pointer && tag != HIGHEST => tag & !HIGHEST,
            _ => tag,
        }
    }

    /// The tag that a slot's first word tells of.
    #[inline(always)]
    pub(in crate::table) fn tag(self, word: u64) -> u64 {
        if self == Self::Tag { word | HIGHEST } else { word }
    }

    /// Whether a slot holds a pointer by its first word.
    #[inline(always)]
    pub(in crate::table) fn is_pointer(self, word: u64) -> bool {
        self == Self::Tag && (word & HIGHEST == 0 || word == HIGHEST)
    }

    /// Whether slots of a tag hold nothing but pointers.
    #[inline(always)]
    pub(in crate::table) fn has_only_pointers(self, tag: u64) -> bool {
        self == Self::Tag && tag == HIGHEST
    }
}

/// What a slot of a table of duplicate keys holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    pub(in crate::table) fingerprint: u8,
    pub(in crate::table) tag: u64,
    /// A value, or a pointer to many.
    pub(in crate::table) value_word: u64,
    pub(in crate::table) is_pointer: bool,
}

/// What a bucket tells of its slots, as it was loaded.
#[allow(private_interfaces, reason = "the trait is sealed: its module is private")]
pub trait Header: Copy {
    /// The slots that have a fingerprint; the free ones of zero.
    fn matching(self, fingerprint: u8) -> BitIter;

    fn has(self, flag: Flag) -> bool;

    /// Whether keys whose first bucket it is are in it or nowhere.
    fn has_no_flag(self) -> bool;

    fn free_slots(self) -> u32;
}

/// A bucket of entries of some size.
///
/// Who holds the lock is the only one to change it, but for the lock.
#[allow(private_interfaces, private_bounds, reason = "the trait is sealed: its module is private")]
pub trait Layout: Element + Debug + Send + Sync + Sized + 'static {
    /// Whether it is made for media that are durable.
    const IS_DURABLE: bool;
    /// How many entries it holds.
    const SLOTS: usize;
    /// Whether every pair is the slot's, whatever the header is ([`is_pair_of`](Self::is_pair_of)).
    const PAIRS_ARE_WHOLE: bool = false;
    type Header: Header;

    /// Fingerprints and flags; the flags not after the fingerprints.
    fn header(&self) -> Self::Header;

    /// What is in a slot: a tag, and the value of the key that it is of. The tag is zero or
    /// another one's if the slot has become free, or another key's, since the header was
    /// loaded. By one load if that is `whole`.
    fn pair(&self, slot: usize, whole: bool) -> (u64, u64);

    /// Whether a pair that was loaded after a header, which told of its slot, was the
    /// slot's: not a half of two, nor one whose insert has not ended.
    fn is_pair_of(&self, header: Self::Header, slot: usize) -> bool;

    /// What a lookup touches of a slot, beside the header.
    fn addresses(&self, slot: usize) -> impl Iterator<Item = *const u8>;

    fn try_lock(&self) -> bool;

    fn lock(&self);

    fn unlock(&self);

    /// Sets a flag, before what it tells of. The caller holds the lock.
    fn set<M: Medium>(&self, medium: &M, flag: Flag);

    /// Puts a pair into a free slot. The caller holds the lock.
    fn put<M: Medium>(&self, medium: &M, slot: usize, fingerprint: u8, pair: (u64, u64));

    /// Replaces the value of a slot, whose key nobody else changes.
    fn replace<M: Medium>(&self, medium: &M, slot: usize, value_word: u64);

    /// Empties a slot. The caller holds the lock.
    fn clear<M: Medium>(&self, medium: &M, slot: usize);

    /// Begins to make what a lookup has seen of a slot durable.
    fn flush<M: Medium>(&self, _medium: &M, _slot: usize) {}

    /// Makes what was put into a slot durable.
    fn persist<M: Medium>(&self, _medium: &M, _slot: usize) {}

    /// Makes the value that a slot was given durable.
    fn persist_value<M: Medium>(&self, _medium: &M, _slot: usize) {}

    /// All that is in a bucket that does not change.
    fn items(&self, marking: Marking) -> impl Iterator<Item = Item>;

    /// Puts something into the bucket; which slot it is in, if there is room. The caller
    /// holds the lock, whose version tells readers of it.
    fn add<M: Medium>(&self, medium: &M, marking: Marking, item: Item) -> Option<usize>;

    /// Which keys of the bucket may be elsewhere.
    fn flags(&self) -> u64;

    /// Gives a bucket that nobody else has flags besides its own.
    fn add_flags<M: Medium>(&self, medium: &M, flags: u64);

    /// Gives a bucket that nobody else has the header of these fingerprints and flags.
    #[cfg(durable)]
    fn restore<M: Medium>(&self, _medium: &M, _fingerprints: &[u8], _flags: u64) {
        unreachable!("nothing in RAM is found after a crash")
    }

    /// This bucket if its entries have 16 bytes. Only such a bucket can hold pointers to the
    /// values of a key that has many.
    #[inline(always)]
    fn as_wide(&self) -> Option<&Bucket> {
        None
    }

    /// Makes the page of a bucket that is new resident.
    fn touch<M: Medium>(&self, medium: &M);

    /// Makes a bucket that nobody else has as new.
    fn empty<M: Medium>(&self, medium: &M);
}

/// The value word of a key in a bucket whose header was loaded, by its fingerprint and its
/// tag; `pair` loads what is in a slot, as [`Layout::pair`] does.
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

/// Stores a word whose lock the caller holds. Release: of fingerprints and flags, as said
/// there; when a bucket is unlocked, who locks it next sees all that was done.
#[inline(always)]
fn store<M: Medium>(medium: &M, word: &AtomicU64, new: u64) {
    // As in the front yard of IcebergHT: loom does not know that what others have stored
    // since the locking they stored in its place.
    #[cfg(loom)]
    {
        let _ = medium;
        word.swap(new, Ordering::Release);
    }
    #[cfg(not(loom))]
    medium.store_word(word, new, Ordering::Release);
}

/// Stores a pair into a slot whose tag is zero. Both words are of one cache line,
/// which persists in this order: what a crash leaves of it is all or nothing.
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
    // Release: who finds the tag finds the value and the fingerprint.
    medium.store_first(slot, tag, Ordering::Release);
}
