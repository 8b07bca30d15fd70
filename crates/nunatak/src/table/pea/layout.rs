//! What the table asks of a bucket, whatever the size of its entries (section 3.3,
//! "Supporting different key sizes").
//!
//! A bucket is 256 bytes, and has a fingerprint for each of its slots, flags and a lock.
//! How many slots that leaves is the entries' affair: ⌊256 / (E + 1.125)⌋ of E bytes.

use super::Table;
use super::bucket::{Flag, Item, Marking};
use super::values::Pointer;
use crate::hash::Placement;
use crate::memory::Medium;
use crate::simd::BitIter;
use crate::table::KeyTest;
use core::fmt::Debug;

#[cfg(not(any(loom, shuttle)))]
use crate::memory::Zeroed as Element;
/// What a stretch of a model checker holds.
#[cfg(any(loom, shuttle))]
pub(crate) trait Element: crate::memory::Zeroed + crate::memory::Released {}
#[cfg(any(loom, shuttle))]
impl<T: crate::memory::Zeroed + crate::memory::Released> Element for T {}

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
    fn replace<M: Medium>(&self, medium: &M, slot: usize, second: u64);

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
    #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
    fn restore<M: Medium>(&self, _medium: &M, _fingerprints: &[u8], _flags: u64) {
        unreachable!("nothing in RAM is found after a crash")
    }

    /// Puts the values of keys that have many in a bucket that nobody else has into
    /// buffers, and tells of these; whether there is more room then.
    fn compact<P: Placement, M: Medium>(
        _table: &Table<P, M, Self>,
        _bucket: &Self,
        _made: &mut Vec<Pointer>,
    ) -> bool {
        false
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
            let (first, second) = pair(slot);
            if first != tag {
                continue;
            }
            if !bucket.is_pair_of(header, slot) {
                header = bucket.header();
                continue 'look;
            }
            if test.accepts(second) {
                return Some(second);
            }
        }
        return None;
    }
}
