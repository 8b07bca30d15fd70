//! Records: entries that are each in memory of the caller's allocator (DLHT, sections 3.1 and 3.4:
//! the Allocator mode).
//!
//! ```text
//! value word  63     60 59         48 47                                0
//!             | length | namespace   | address of the record           |
//! record      | lengths (8, if any varies) | key (if longer than 8) | value |
//! ```
//!
//! A key of at most 8 bytes is stored in the key word only; for a longer key the key word is a
//! hash. A length that is the same for all keys is not stored. The key word of a short key is the
//! key exclusive-or a word made of its length and its namespace, so one key in many namespaces is
//! in as many places of the table. Different keys may have the same key word by chance; the value
//! word tells them apart.
//!
//! Invariants
//! 1. The address in a value word is that of memory of this allocator, a multiple of 8. Only
//!    [`Entries::give_back`] gives the memory back.
//! 2. The lengths and the key of a record never change. The value changes only [in place](InPlace),
//!    by atomic accesses.

use super::entries::{Entries, KeyRef, Naming, Unpublished};
use super::format::{Access, Format, RecordFormat, VARIABLE};
use super::found_key::{FoundBytes, FoundKey, INLINE};
use super::hidden::{HiddenKeys, ListedKey};
use crate::alloc::{Allocator, Global, Layout};
use crate::error::Error;
use crate::hash::{Hashing, RandomState, RecordCodec};
use crate::memory::prefetch::prefetch;
use crate::memory::{BlobStats, MemoryUsage};
use crate::sync::Counts;
use core::fmt;
use core::hash::BuildHasher;
use core::marker::PhantomData;
use core::mem::size_of;
use core::ptr::{self, NonNull};

/// The length that a value word stores for a key longer than [`INLINE`].
const LONG: usize = INLINE + 1;
const ADDRESS_BITS: u32 = 48;
const ALIGN: usize = size_of::<u64>();

/// The records of a [`RecordMap`](crate::RecordMap).
///
/// ```
/// use nunatak::{ByteMap, Dlht, entry::Records};
/// let map: ByteMap<Records, Dlht> = nunatak::DlhtRecordMap::new();
/// # assert!(map.is_empty());
/// ```
pub struct Records<F: RecordFormat = Format, A: Allocator = Global, S = RandomState> {
    allocator: A,
    /// Hashes keys that are not in their slots.
    hasher: RandomState,
    /// The factor of lengths and namespaces. It is random, so that a caller can't choose keys that
    /// have the same word.
    spread: u64,
    /// Counts of records and of their bytes.
    counts: Counts<2>,
    hidden: HiddenKeys,
    parameters: PhantomData<fn() -> (F, S)>,
}

/// Indexes into `Records::counts`.
const RECORDS: usize = 0;
const BYTES: usize = 1;

impl<F: RecordFormat, A: Allocator, S> fmt::Debug for Records<F, A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("bytes", &self.counts.sum(BYTES)).finish_non_exhaustive()
    }
}

/// The bytes of a key of at most 8, as a little-endian word.
#[inline(always)]
fn load(key: &[u8]) -> u64 {
    fn part<const N: usize>(key: &[u8], at: usize) -> [u8; N] {
        key[at..at + N].try_into().unwrap_or([0; N])
    }
    match key.len() {
        8 => u64::from_le_bytes(part(key, 0)),
        // The two parts overlap, and their common bytes are equal.
        len @ 4..8 => {
            let (low, high) = (part(key, 0), part(key, len - 4));
            u64::from(u32::from_le_bytes(low))
                | u64::from(u32::from_le_bytes(high)) << (8 * (len - 4))
        }
        _ => key.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

impl<F: RecordFormat, A: Allocator, S> Records<F, A, S> {
    const HAS_LENGTHS: bool = F::KEY == VARIABLE || F::VALUE == VARIABLE;
    /// Whether the key word alone tells all keys apart.
    const IS_WORD: bool = F::KEY <= INLINE && !F::Naming::HAS_NAMESPACES;

    pub(crate) fn new(allocator: A) -> Self {
        let hasher = RandomState::default();
        let spread = hasher.hash_one(0_u64) | 1;
        let hidden = HiddenKeys::default();
        Self { allocator, hasher, spread, counts: Counts::new(), hidden, parameters: PhantomData }
    }

    /// Returns what a value word stores about its key: the length, unless all keys have the same,
    /// and the namespace.
    #[inline(always)]
    fn code(namespace: u16, len: usize) -> u64 {
        let len = if F::KEY == VARIABLE { len.min(LONG) as u64 } else { 0 };
        len << 12 | u64::from(namespace)
    }

    /// Returns the length in bytes of the key of a value word, or `LONG` if it is not in the slot.
    fn len_in_slot(value_word: u64) -> usize {
        if F::KEY == VARIABLE { (value_word >> 60) as usize } else { F::KEY.min(LONG) }
    }

    /// Returns the word that a key's word is changed by. Its lowest bits, which modulo hashing
    /// uses, come from the middle of the product: the product's lowest bits depend on a few bits of
    /// the namespace only.
    #[inline(always)]
    fn spread(&self, code: u64) -> u64 {
        code.wrapping_mul(self.spread).rotate_left(32)
    }

    /// Returns the offset of the value in a record whose key has so many bytes.
    #[inline(always)]
    const fn value_offset(key: usize) -> usize {
        let lengths = if Self::HAS_LENGTHS { ALIGN } else { 0 };
        lengths + if key > INLINE { key.next_multiple_of(ALIGN) } else { 0 }
    }

    fn layout(key: usize, value: usize) -> Option<Layout> {
        let bytes = Self::value_offset(key).checked_add(value)?;
        // Whole words, and at least one, so that every record has an address of its own.
        Layout::from_size_align(bytes.max(1).checked_next_multiple_of(ALIGN)?, ALIGN).ok()
    }

    #[inline(always)]
    fn address(value_word: u64) -> *mut u8 {
        ptr::with_exposed_provenance_mut((value_word & ((1 << ADDRESS_BITS) - 1)) as usize)
    }

    /// Returns the lengths of the key and of the value of a record.
    ///
    /// # Safety
    /// The word is a record's, which is not given back during the call.
    #[inline(always)]
    unsafe fn lengths(value_word: u64) -> (usize, usize) {
        let stored = |at: usize| {
            // SAFETY: the promise; if any length varies, both are stored at the beginning.
            unsafe { Self::address(value_word).cast::<u32>().add(at).read() as usize }
        };
        let key = match Self::len_in_slot(value_word) {
            LONG if F::KEY == VARIABLE => stored(0),
            LONG => F::KEY,
            in_slot => in_slot,
        };
        (key, if F::VALUE == VARIABLE { stored(1) } else { F::VALUE })
    }

    /// # Safety
    /// As for [`lengths`](Self::lengths), for all of `'v`; the key is not in the slot.
    #[inline(always)]
    unsafe fn long_key<'v>(value_word: u64) -> &'v [u8] {
        // SAFETY: the promise; invariant 2.
        unsafe {
            let (len, _) = Self::lengths(value_word);
            let lengths = if Self::HAS_LENGTHS { ALIGN } else { 0 };
            core::slice::from_raw_parts(Self::address(value_word).add(lengths), len)
        }
    }

    /// Returns the address of the value of a record, and its length.
    ///
    /// # Safety
    /// As for [`lengths`](Self::lengths).
    #[inline(always)]
    unsafe fn value_at(value_word: u64) -> (*mut u8, usize) {
        let address = Self::address(value_word);
        let is_in_slot = F::KEY == VARIABLE && value_word >> 60 != LONG as u64;
        // SAFETY: the promise; the value is within the record.
        unsafe {
            // The key's length is read only if it is needed.
            let key = if is_in_slot { 0 } else { Self::lengths(value_word).0 };
            let len = if F::VALUE == VARIABLE {
                address.cast::<u32>().add(1).read() as usize
            } else {
                F::VALUE
            };
            (address.add(Self::value_offset(key)), len)
        }
    }

    /// Returns a pointer to the value of a record.
    ///
    /// # Safety
    /// As for [`lengths`](Self::lengths).
    pub(crate) unsafe fn pointer(&self, value_word: u64) -> NonNull<[u8]> {
        // SAFETY: the caller's promise; an address is not null.
        unsafe {
            let (address, len) = Self::value_at(value_word);
            NonNull::slice_from_raw_parts(NonNull::new_unchecked(address), len)
        }
    }

    /// Allocates the memory of a record.
    fn allocate(&self, layout: Layout) -> Result<NonNull<u8>, Error> {
        let refused = Error::OutOfMemory { bytes: layout.size() };
        let memory = self.allocator.allocate(layout).map_err(|_| refused)?.cast::<u8>();
        let address = memory.as_ptr().expose_provenance() as u64;
        let what = if !address.is_multiple_of(ALIGN as u64) {
            "aligned to 8 bytes"
        } else if address >> ADDRESS_BITS != 0 {
            "within the first 2^48 bytes"
        } else {
            return Ok(memory);
        };
        // SAFETY: the memory is this allocator's, and nothing else refers to it.
        unsafe { self.allocator.deallocate(memory, layout) };
        Err(Error::Misallocated { expected: what })
    }

    fn check(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
        if expected == VARIABLE {
            return u32::try_from(found).map(drop).map_err(|_| Error::TooLong);
        }
        if found == expected { Ok(()) } else { Err(Error::WrongSize { what, expected, found }) }
    }
}

#[allow(private_interfaces, reason = "the trait is sealed: its parts are internal")]
impl<F, A, S> Entries for Records<F, A, S>
where
    F: RecordFormat,
    A: Allocator + Send + Sync + 'static,
    S: Hashing,
{
    type Naming = F::Naming;
    type Value<'v> = <F::Access as Access>::Value<'v>;
    type Found<'v> = FoundKey<'v>;
    type HashCodec = RecordCodec<S::HashCodec>;

    const WORDS_ARE_KEYS: bool = Self::IS_WORD;
    const ARE_SEPARATE: bool = true;

    #[inline(always)]
    fn fits(key: KeyRef<'_, Self>) -> bool {
        F::KEY == VARIABLE || F::Naming::parts(key).1.len() == F::KEY
    }

    #[inline(always)]
    fn word(&self, key: KeyRef<'_, Self>) -> u64 {
        let (namespace, bytes) = F::Naming::parts(key);
        if bytes.len() > INLINE {
            return self.hasher.hash_one((namespace, bytes));
        }
        let word = load(bytes);
        if Self::IS_WORD { word } else { word ^ self.spread(Self::code(namespace, bytes.len())) }
    }

    #[inline(always)]
    fn may_be(&self, key: KeyRef<'_, Self>, value_word: u64) -> bool {
        let (namespace, bytes) = F::Naming::parts(key);
        Self::IS_WORD || value_word >> ADDRESS_BITS == Self::code(namespace, bytes.len())
    }

    #[inline(always)]
    unsafe fn is(&self, key: KeyRef<'_, Self>, value_word: u64) -> bool {
        let (_, bytes) = F::Naming::parts(key);
        // SAFETY: the caller's promise; the word may belong to the key, so its key is a long one,
        // too.
        bytes.len() <= INLINE || unsafe { Self::long_key(value_word) } == bytes
    }

    fn is_hidden(&self, key: KeyRef<'_, Self>) -> Option<bool> {
        self.hidden(key).is_hidden()
    }

    #[inline(always)]
    unsafe fn value<'v>(&self, value_word: u64) -> Self::Value<'v> {
        // SAFETY: the caller's promise, and invariant 2.
        unsafe {
            let (address, len) = Self::value_at(value_word);
            F::Access::value(address, len)
        }
    }

    unsafe fn found<'v>(&self, word: u64, value_word: u64) -> FoundKey<'v> {
        let namespace = (value_word >> ADDRESS_BITS) as u16 & 0xfff;
        let in_slot = Self::len_in_slot(value_word);
        let bytes = if in_slot == LONG {
            // SAFETY: the caller's promise.
            FoundBytes::InRecord(unsafe { Self::long_key(value_word) })
        } else {
            let spread =
                if Self::IS_WORD { 0 } else { self.spread(Self::code(namespace, in_slot)) };
            let key = word ^ spread;
            FoundBytes::InSlot(key.to_le_bytes(), in_slot)
        };
        FoundKey { namespace, bytes }
    }

    fn key<'k>(found: &'k FoundKey<'_>) -> KeyRef<'k, Self> {
        F::Naming::of_parts(found.namespace, found.bytes())
    }

    fn append(value: Self::Value<'_>, buffer: &mut Vec<u8>) {
        F::Access::append(value, buffer);
    }

    fn store(&self, key: KeyRef<'_, Self>, value: &[u8]) -> Result<Unpublished<'_, Self>, Error> {
        let (namespace, key) = F::Naming::parts(key);
        Self::check("key", F::KEY, key.len())?;
        Self::check("value", F::VALUE, value.len())?;
        let layout = Self::layout(key.len(), value.len()).ok_or(Error::TooLong)?;
        let memory = self.allocate(layout)?.as_ptr();
        // SAFETY: the memory has so many bytes and belongs to this call alone.
        unsafe {
            if Self::HAS_LENGTHS {
                memory.cast::<[u32; 2]>().write([key.len() as u32, value.len() as u32]);
            }
            let offset = Self::value_offset(key.len());
            if key.len() > INLINE {
                let lengths = if Self::HAS_LENGTHS { ALIGN } else { 0 };
                ptr::copy_nonoverlapping(key.as_ptr(), memory.add(lengths), key.len());
            }
            if layout.size() > offset {
                // Fills up the last word.
                memory.add(layout.size() - ALIGN).cast::<u64>().write(0);
            }
            ptr::copy_nonoverlapping(value.as_ptr(), memory.add(offset), value.len());
        }
        self.counts.add(RECORDS, 1);
        self.counts.add(BYTES, layout.size());
        let word =
            memory.expose_provenance() as u64 | Self::code(namespace, key.len()) << ADDRESS_BITS;
        // SAFETY: the record is ours alone.
        Ok(unsafe { Unpublished::new(self, word) })
    }

    unsafe fn give_back(&self, value_word: u64) {
        let layout = Self::layout_of(value_word);
        self.counts.add(RECORDS, 1_usize.wrapping_neg());
        self.counts.add(BYTES, layout.size().wrapping_neg());
        let memory = Self::address(value_word);
        // SAFETY: invariant 1; the caller has the last word that names it.
        unsafe { self.allocator.deallocate(NonNull::new_unchecked(memory), layout) };
    }

    fn give_back_hidden(&self) {
        for value_word in self.hidden.drain() {
            // SAFETY: no slot has had the word, and it is on no list any more.
            unsafe { self.give_back(value_word) };
        }
    }

    unsafe fn held_bytes(&self, value_word: u64) -> usize {
        Self::layout_of(value_word).size()
    }

    #[inline(always)]
    fn prefetch(&self, value_word: u64) {
        prefetch(Self::address(value_word));
    }

    fn usage(&self) -> MemoryUsage {
        let bytes = self.counts.sum(BYTES);
        MemoryUsage { mapped: bytes, resident: bytes }
    }

    fn stats(&self) -> BlobStats {
        let bytes = self.counts.sum(BYTES);
        BlobStats {
            blobs: self.counts.sum(RECORDS),
            live_bytes: bytes,
            placed_bytes: bytes,
            mapped_bytes: bytes,
            ..BlobStats::default()
        }
    }
}

impl<F, A, S> Records<F, A, S>
where
    F: RecordFormat,
    A: Allocator + Send + Sync + 'static,
    S: Hashing,
{
    /// Returns the key's place on the list of hidden keys.
    pub(crate) fn hidden(&self, key: KeyRef<'_, Self>) -> ListedKey<'_> {
        let (namespace, bytes) = F::Naming::parts(key);
        self.hidden.of(self.word(key), (namespace, bytes.to_vec()))
    }
}

impl<F: RecordFormat, A: Allocator, S> Records<F, A, S> {
    /// Returns the layout that a record was allocated with; the caller owns the record.
    fn layout_of(value_word: u64) -> Layout {
        // SAFETY: the caller owns the word, so its record is there.
        let (key, value) = unsafe { Self::lengths(value_word) };
        match Self::layout(key, value) {
            Some(layout) => layout,
            None => unreachable!("a record was allocated with it"),
        }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn short_keys_become_words_that_differ() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 0x88];
        for len in 0..=8 {
            let mut word = [0; 8];
            word[..len].copy_from_slice(&bytes[..len]);
            assert_eq!(load(&bytes[..len]), u64::from_le_bytes(word), "{len} bytes");
        }
    }

    #[test]
    fn lengths_that_the_format_has_not_are_refused() {
        let check = |expected, found| Records::<Format>::check("key", expected, found);
        assert_eq!((check(3, 3), check(VARIABLE, 0)), (Ok(()), Ok(())));
        let wrong = Error::WrongSize { what: "key", expected: 3, found: 4 };
        assert_eq!((check(3, 4), check(VARIABLE, 1 << 32)), (Err(wrong), Err(Error::TooLong)));
    }
}
