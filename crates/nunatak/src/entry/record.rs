//! Records: entries of which each is in memory of the caller's allocator (DLHT, sections 3.1
//! and 3.4: the Allocator mode).
//!
//! ```text
//! value word  63     60 59         48 47                                0
//!             | length | namespace   | address of the record           |
//! record      | lengths (8, if any varies) | key (if longer than 8) | value |
//! ```
//!
//! A key of at most 8 bytes is in the slot's first word and nowhere else; of a longer one the
//! slot has a hash. The first word is the key exclusive-or a word of its length and its
//! namespace, so that one key in many namespaces is in as many bins; what the value word says
//! tells those apart that meet by chance.
//!
//! Invariants
//! 1. The address of a value word is that of memory of this allocator, a multiple of 8, which
//!    is not given back but by [`Entries::give_back`].
//! 2. Lengths and the key of a record never change; nor does the value, but [in
//!    place](InPlace), by atomic accesses.

use super::entries::{Entries, KeyRef, Naming, Plain, Unpublished};
use crate::alloc::{Allocator, Global, Layout};
use crate::error::Error;
use crate::hash::{Hashing, Placement, RandomState};
use crate::memory::prefetch::prefetch;
use crate::memory::{BlobStats, MemoryUsage};
use crate::sync::{Backoff, Counts, Mutex};
use core::fmt;
use core::hash::BuildHasher;
use core::marker::PhantomData;
use core::mem::size_of;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A size of a [`Format`] that is another for every record.
///
/// ```
/// use nunatak::{DlhtRecordMap, entry::{Format, VARIABLE}};
/// let map: DlhtRecordMap<Format<8, VARIABLE>> = DlhtRecordMap::new();
/// assert!(map.put(b"a key of", b"any value").is_ok());
/// assert!(map.put(b"another length", b"").is_err());
/// ```
pub const VARIABLE: usize = usize::MAX;

/// What the records of a [`RecordMap`](crate::RecordMap) are like: of how many bytes their keys
/// and their values are, whether keys have namespaces (`N`: [`Plain`] or
/// [`Named`](super::Named)), and whether values are changed where they are (`V`: [`Frozen`] or
/// [`InPlace`]).
///
/// Sizes that are fixed are not stored. Of fixed keys of at most 8 bytes without namespaces
/// the slot says all, so that looking one up is what it is in an inline map.
///
/// ```
/// use nunatak::{DlhtRecordMap, Namespace, entry::{Format, Named}};
/// let map: DlhtRecordMap<Format<8, 32, Named>> = DlhtRecordMap::new();
/// let key = 7_u64.to_le_bytes();
/// map.put((Namespace::new(1)?, &key), &[0; 32])?;
/// assert_eq!(map.get((Namespace::new(2)?, &key)), None);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug)]
pub struct Format<
    const KEY: usize = VARIABLE,
    const VALUE: usize = VARIABLE,
    N: Naming = Plain,
    V: Access = Frozen,
>(PhantomData<(N, V)>);

mod sealed {
    use super::{Access, Format, Naming};

    pub trait Sealed {}
    impl<const KEY: usize, const VALUE: usize, N: Naming, V: Access> Sealed
        for Format<KEY, VALUE, N, V>
    {
    }
    impl Sealed for super::Frozen {}
    impl Sealed for super::InPlace {}
}

/// Any [`Format`].
///
/// ```
/// use nunatak::entry::{Format, RecordFormat};
/// assert_eq!(<Format<8, 32> as RecordFormat>::KEY, 8);
/// ```
pub trait RecordFormat: sealed::Sealed + fmt::Debug + Send + Sync + 'static {
    /// Of how many bytes a key is, or [`VARIABLE`].
    const KEY: usize;
    /// Of how many bytes a value is, or [`VARIABLE`].
    const VALUE: usize;
    /// How keys are told.
    type Naming: Naming;
    /// How values are accessed.
    type Access: Access;
}

impl<const KEY: usize, const VALUE: usize, N: Naming, V: Access> RecordFormat
    for Format<KEY, VALUE, N, V>
where
    Self: fmt::Debug,
{
    const KEY: usize = KEY;
    const VALUE: usize = VALUE;
    type Naming = N;
    type Access = V;
}

/// How values are accessed where they are: [`Frozen`] or [`InPlace`].
///
/// ```
/// use nunatak::entry::{Access, Frozen};
/// let value: <Frozen as Access>::Value<'_> = b"bytes";
/// # assert_eq!(value.len(), 5);
/// ```
pub trait Access: sealed::Sealed + fmt::Debug + Send + Sync + 'static {
    /// A value where it is.
    type Value<'v>: Copy + fmt::Debug;

    /// # Safety
    /// So many bytes are there, of memory that has room for whole words, for `'v`, written,
    /// and from then on accessed as this trait's values are.
    #[doc(hidden)]
    unsafe fn value<'v>(address: *const u8, len: usize) -> Self::Value<'v>;

    #[doc(hidden)]
    #[allow(missing_docs)]
    fn append(value: Self::Value<'_>, buffer: &mut Vec<u8>);
}

/// Values that do not change: a slice of bytes. To change one is to store another.
///
/// ```
/// use nunatak::{DlhtRecordMap, entry::{Format, Frozen, Plain}};
/// let map: DlhtRecordMap<Format<8, 4, Plain, Frozen>> = DlhtRecordMap::new();
/// map.put(b"some key", b"1234")?;
/// assert_eq!(map.pin().get(b"some key"), Some(&b"1234"[..]));
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug)]
pub struct Frozen;

impl Access for Frozen {
    type Value<'v> = &'v [u8];

    #[inline(always)]
    unsafe fn value<'v>(address: *const u8, len: usize) -> &'v [u8] {
        // SAFETY: the caller's promise; nobody writes what is frozen.
        unsafe { core::slice::from_raw_parts(address, len) }
    }

    fn append(value: &[u8], buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(value);
    }
}

/// Values that change where they are, by atomic words (DLHT, section 3.2.1: the pointer
/// interface): see [`Words`].
///
/// Who has a guard may change a value that was replaced or removed meanwhile, and nobody will
/// see it: to remove what others count in is up to the caller.
///
/// ```
/// use nunatak::{DlhtRecordMap, entry::{Format, InPlace, Plain}};
/// use std::sync::atomic::Ordering::Relaxed;
/// let counters: DlhtRecordMap<Format<8, 16, Plain, InPlace>> = DlhtRecordMap::new();
/// counters.put(b"requests", &[0; 16])?;
/// counters.pin().get(b"requests").unwrap().word(1).fetch_add(5, Relaxed);
/// assert_eq!(counters.get(b"requests").unwrap()[8], 5);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug)]
pub struct InPlace;

impl Access for InPlace {
    type Value<'v> = Words<'v>;

    #[inline(always)]
    unsafe fn value<'v>(address: *const u8, len: usize) -> Words<'v> {
        let words = address.cast::<AtomicU64>();
        // SAFETY: the caller's promise; records are aligned to words and take whole ones.
        let words = unsafe { core::slice::from_raw_parts(words, len.div_ceil(size_of::<u64>())) };
        Words { words, len }
    }

    fn append(value: Words<'_>, buffer: &mut Vec<u8>) {
        let end = buffer.len() + value.len;
        // Acquire: what was changed before a word is seen with it.
        let words = value.words.iter().map(|word| word.load(Ordering::Acquire));
        words.for_each(|word| buffer.extend_from_slice(&word.to_ne_bytes()));
        buffer.truncate(end);
    }
}

/// A value that may be changed where it is, by any number of threads: its bytes as words, of
/// the machine's byte order, of which the last is filled up with zeros.
///
/// ```
/// use nunatak::{DlhtRecordMap, entry::{Format, InPlace, Plain, VARIABLE}};
/// use std::sync::atomic::Ordering::Relaxed;
/// let map: DlhtRecordMap<Format<VARIABLE, 12, Plain, InPlace>> = DlhtRecordMap::new();
/// map.put(b"a", &[1; 12])?;
/// let guard = map.pin();
/// let value = guard.get(b"a").unwrap();
/// assert_eq!((value.len(), value.words().len()), (12, 2));
/// value.word(1).store(7, Relaxed);
/// assert_eq!(map.get(b"a").unwrap(), [1, 1, 1, 1, 1, 1, 1, 1, 7, 0, 0, 0]);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Words<'v> {
    words: &'v [AtomicU64],
    len: usize,
}

impl<'v> Words<'v> {
    /// Of how many bytes it is.
    ///
    /// ```
    /// # use nunatak::{DlhtRecordMap, entry::{Format, InPlace, Plain, VARIABLE}};
    /// let map: DlhtRecordMap<Format<VARIABLE, VARIABLE, Plain, InPlace>> = DlhtRecordMap::new();
    /// map.put(b"a", b"12345")?;
    /// assert_eq!(map.pin().get(b"a").unwrap().len(), 5);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    ///
    /// ```
    /// # use nunatak::{DlhtRecordMap, entry::{Format, InPlace, Plain, VARIABLE}};
    /// let map: DlhtRecordMap<Format<VARIABLE, VARIABLE, Plain, InPlace>> = DlhtRecordMap::new();
    /// map.put(b"a", b"")?;
    /// assert!(map.pin().get(b"a").unwrap().is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// All of its words.
    ///
    /// ```
    /// # use nunatak::{DlhtRecordMap, entry::{Format, InPlace, Plain}};
    /// let map: DlhtRecordMap<Format<8, 32, Plain, InPlace>> = DlhtRecordMap::new();
    /// map.put(&[0; 8], &[0; 32])?;
    /// assert_eq!(map.pin().get(&[0; 8]).unwrap().words().len(), 4);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn words(self) -> &'v [AtomicU64] {
        self.words
    }

    /// One of its words.
    ///
    /// # Panics
    /// If it has fewer.
    ///
    /// ```
    /// # use nunatak::{DlhtRecordMap, entry::{Format, InPlace, Plain}};
    /// # use std::sync::atomic::Ordering::Relaxed;
    /// let map: DlhtRecordMap<Format<8, 8, Plain, InPlace>> = DlhtRecordMap::new();
    /// map.put(&[0; 8], &7_u64.to_ne_bytes())?;
    /// assert_eq!(map.pin().get(&[0; 8]).unwrap().word(0).load(Relaxed), 7);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn word(self, at: usize) -> &'v AtomicU64 {
        &self.words[at]
    }
}

/// Words of keys placed with `P`, which more keys than one may have.
pub struct RecordPlacement<P>(P);

impl<P> fmt::Debug for RecordPlacement<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordPlacement").finish_non_exhaustive()
    }
}

impl<P> RecordPlacement<P> {
    pub(crate) fn new(placement: P) -> Self {
        Self(placement)
    }
}

impl<P: Placement> Placement for RecordPlacement<P> {
    const WORDS_ARE_KEYS: bool = false;

    #[inline(always)]
    fn hash(&self, word: u64) -> u64 {
        self.0.hash(word)
    }

    #[inline(always)]
    fn place(hash: u64, bins: usize) -> usize {
        P::place(hash, bins)
    }

    #[inline(always)]
    fn tag(&self, word: u64, hash: u64) -> u64 {
        self.0.tag(word, hash)
    }

    #[inline(always)]
    fn hash_of_tag(&self, tag: u64, half: usize) -> u64 {
        self.0.hash_of_tag(tag, half)
    }

    fn decoder(&self) -> crate::hash::Decoder {
        self.0.decoder()
    }

    fn child(bin: usize, bins: usize, k: usize, j: usize) -> usize {
        P::child(bin, bins, k, j)
    }

    fn parent(child: usize, bins: usize, k: usize) -> usize {
        P::parent(child, bins, k)
    }

    #[inline(always)]
    fn half_of(bin: usize, bins: usize) -> usize {
        P::half_of(bin, bins)
    }
}

/// The most bytes of a key that is in its slot.
const INLINE: usize = 8;
/// The length that a value word says of a longer one.
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
    /// What lengths and namespaces are multiplied by, so that nobody knows which keys have
    /// the same word.
    spread: u64,
    /// Records and their bytes; those that wait for guards.
    counts: Counts<3>,
    /// The keys that are hidden, and the words of their records.
    hidden: Box<[Mutex<HiddenKeys>]>,
    parameters: PhantomData<fn() -> (F, S)>,
}

/// By namespaces and bytes. Slots of hidden keys say their words only, which keys may share.
type HiddenKeys = HashMap<(u16, Vec<u8>), HiddenKey>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HiddenKey {
    /// A thread is about to hide it, or to end that.
    Unsettled,
    /// It is hidden, and nothing else has the word of its record.
    Kept(u64),
}

/// So that threads seldom wait for each other to hide keys.
const HIDDEN_SHARDS: usize = 16;

/// What is counted.
const RECORDS: usize = 0;
const BYTES: usize = 1;
const RETIRED: usize = 2;

impl<F: RecordFormat, A: Allocator, S> fmt::Debug for Records<F, A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("bytes", &self.counts.sum(BYTES)).finish_non_exhaustive()
    }
}

/// A key as it was found in a slot, or in a record.
///
/// ```
/// let map = nunatak::DlhtRecordMap::<nunatak::entry::Format>::new();
/// map.put(b"a", b"1")?;
/// let guard = map.pin();
/// let (key, value) = guard.iter().next().unwrap();
/// assert_eq!((key.bytes(), key.namespace().number(), value), (&b"a"[..], 0, &b"1"[..]));
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct FoundKey<'v> {
    namespace: u16,
    bytes: FoundBytes<'v>,
}

#[derive(Debug, Clone, Copy)]
enum FoundBytes<'v> {
    InSlot([u8; INLINE], usize),
    InRecord(&'v [u8]),
}

impl FoundKey<'_> {
    /// Its bytes.
    ///
    /// ```
    /// # let map = nunatak::DlhtRecordMap::<nunatak::entry::Format>::new();
    /// map.put(b"a long key", b"1")?;
    /// assert_eq!(map.pin().iter().next().unwrap().0.bytes(), b"a long key");
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            FoundBytes::InSlot(bytes, len) => &bytes[..*len],
            FoundBytes::InRecord(bytes) => bytes,
        }
    }

    /// Its namespace: the first one where there are none.
    ///
    /// ```
    /// # let map = nunatak::DlhtRecordMap::<nunatak::entry::Format>::new();
    /// map.put(b"a", b"1")?;
    /// assert_eq!(map.pin().iter().next().unwrap().0.namespace().number(), 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn namespace(&self) -> super::Namespace {
        super::Namespace::of(self.namespace)
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
        // The two overlap, and agree.
        len @ 4..8 => {
            let (low, high) = (part(key, 0), part(key, len - 4));
            u64::from(u32::from_le_bytes(low))
                | u64::from(u32::from_le_bytes(high)) << (8 * (len - 4))
        }
        _ => key.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

/// What a value word says of its key: the length, and the namespace.
#[inline(always)]
fn code(namespace: u16, len: usize) -> u64 {
    (len.min(LONG) as u64) << 12 | u64::from(namespace)
}

impl<F: RecordFormat, A: Allocator, S> Records<F, A, S> {
    const HAS_LENGTHS: bool = F::KEY == VARIABLE || F::VALUE == VARIABLE;
    /// Whether all keys are told by the word of their bytes.
    const IS_WORD: bool = F::KEY <= INLINE && !F::Naming::HAS_NAMESPACES;

    pub(crate) fn new(allocator: A) -> Self {
        let hasher = RandomState::default();
        let spread = hasher.hash_one(0_u64) | 1;
        let hidden = (0..HIDDEN_SHARDS).map(|_| Mutex::default()).collect();
        Self { allocator, hasher, spread, counts: Counts::new(), hidden, parameters: PhantomData }
    }

    /// What a key's word is changed by. The lowest bits, by which modulo hashing goes, are of the
    /// middle of the product: those below depend on a few bits of the namespace only.
    #[inline(always)]
    fn spread(&self, code: u64) -> u64 {
        code.wrapping_mul(self.spread).rotate_left(32)
    }

    /// Where the value of a record begins, whose key has so many bytes.
    #[inline(always)]
    const fn value_offset(key: usize) -> usize {
        let lengths = if Self::HAS_LENGTHS { ALIGN } else { 0 };
        lengths + if key > INLINE { key.next_multiple_of(ALIGN) } else { 0 }
    }

    fn layout(key: usize, value: usize) -> Option<Layout> {
        let bytes = Self::value_offset(key).checked_add(value)?;
        // Whole words, and some, so that every record has an address of its own.
        Layout::from_size_align(bytes.max(1).checked_next_multiple_of(ALIGN)?, ALIGN).ok()
    }

    #[inline(always)]
    fn address(second: u64) -> *mut u8 {
        ptr::with_exposed_provenance_mut((second & ((1 << ADDRESS_BITS) - 1)) as usize)
    }

    /// The lengths of the key and of the value of a record.
    ///
    /// # Safety
    /// The word is a record's, which is not given back meanwhile.
    #[inline(always)]
    unsafe fn lengths(second: u64) -> (usize, usize) {
        let stored = |at: usize| {
            // SAFETY: the promise; if any length varies both are stored, at the beginning.
            unsafe { Self::address(second).cast::<u32>().add(at).read() as usize }
        };
        let in_slot = (second >> 60) as usize;
        let key = match F::KEY {
            VARIABLE if in_slot == LONG => stored(0),
            VARIABLE => in_slot,
            key => key,
        };
        (key, if F::VALUE == VARIABLE { stored(1) } else { F::VALUE })
    }

    /// # Safety
    /// As for [`lengths`](Self::lengths), for `'v`, and the key is not in the slot.
    #[inline(always)]
    unsafe fn long_key<'v>(second: u64) -> &'v [u8] {
        // SAFETY: the promise; invariant 2.
        unsafe {
            let (len, _) = Self::lengths(second);
            let lengths = if Self::HAS_LENGTHS { ALIGN } else { 0 };
            core::slice::from_raw_parts(Self::address(second).add(lengths), len)
        }
    }

    /// Where the value of a record is, and how long it is.
    ///
    /// # Safety
    /// As for [`lengths`](Self::lengths).
    #[inline(always)]
    unsafe fn value_at(second: u64) -> (*mut u8, usize) {
        let address = Self::address(second);
        let is_in_slot = F::KEY == VARIABLE && second >> 60 != LONG as u64;
        // SAFETY: the promise; the value is within the record.
        unsafe {
            // Without a look at the key's length where that is not needed.
            let key = if is_in_slot { 0 } else { Self::lengths(second).0 };
            let len = if F::VALUE == VARIABLE {
                address.cast::<u32>().add(1).read() as usize
            } else {
                F::VALUE
            };
            (address.add(Self::value_offset(key)), len)
        }
    }

    /// Where the value of a record is.
    ///
    /// # Safety
    /// As for [`lengths`](Self::lengths).
    pub(crate) unsafe fn pointer(&self, second: u64) -> NonNull<[u8]> {
        // SAFETY: the caller's promise; an address is not null.
        unsafe {
            let (address, len) = Self::value_at(second);
            NonNull::slice_from_raw_parts(NonNull::new_unchecked(address), len)
        }
    }

    /// The memory of a record of the allocator.
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
        // SAFETY: it is this allocator's, and nobody knows of it.
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
    type Placement = RecordPlacement<S::Placement>;

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
        if Self::IS_WORD { word } else { word ^ self.spread(code(namespace, bytes.len())) }
    }

    #[inline(always)]
    fn may_be(&self, key: KeyRef<'_, Self>, second: u64) -> bool {
        let (namespace, bytes) = F::Naming::parts(key);
        Self::IS_WORD || second >> ADDRESS_BITS == code(namespace, bytes.len())
    }

    #[inline(always)]
    unsafe fn is(&self, key: KeyRef<'_, Self>, second: u64) -> bool {
        let (_, bytes) = F::Naming::parts(key);
        // SAFETY: the caller's promise; it may be the key's, so that it is a long one, too.
        bytes.len() <= INLINE || unsafe { Self::long_key(second) } == bytes
    }

    fn is_hidden(&self, key: KeyRef<'_, Self>) -> Option<bool> {
        match self.hidden(key).lock().get(&Self::owned(key)) {
            None => Some(false),
            Some(HiddenKey::Kept(_)) => Some(true),
            Some(HiddenKey::Unsettled) => None,
        }
    }

    #[inline(always)]
    unsafe fn value<'v>(&self, second: u64) -> Self::Value<'v> {
        // SAFETY: the caller's promise, and invariant 2.
        unsafe {
            let (address, len) = Self::value_at(second);
            F::Access::value(address, len)
        }
    }

    unsafe fn found<'v>(&self, word: u64, second: u64) -> FoundKey<'v> {
        let (namespace, in_slot) =
            ((second >> ADDRESS_BITS) as u16 & 0xfff, (second >> 60) as usize);
        let bytes = if in_slot == LONG {
            // SAFETY: the caller's promise.
            FoundBytes::InRecord(unsafe { Self::long_key(second) })
        } else {
            let spread = if Self::IS_WORD { 0 } else { self.spread(code(namespace, in_slot)) };
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
        // SAFETY: the memory has so many bytes and is nobody else's yet.
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
                // The rest of the last word.
                memory.add(layout.size() - ALIGN).cast::<u64>().write(0);
            }
            ptr::copy_nonoverlapping(value.as_ptr(), memory.add(offset), value.len());
        }
        self.counts.add(RECORDS, 1);
        self.counts.add(BYTES, layout.size());
        let word = memory.expose_provenance() as u64 | code(namespace, key.len()) << ADDRESS_BITS;
        // SAFETY: the record is ours alone.
        Ok(unsafe { Unpublished::new(self, word) })
    }

    unsafe fn give_back(&self, second: u64) {
        let layout = Self::layout_of(second);
        self.counts.add(RECORDS, 1_usize.wrapping_neg());
        self.counts.add(BYTES, layout.size().wrapping_neg());
        let memory = Self::address(second);
        // SAFETY: invariant 1; the caller has the last word that names it.
        unsafe { self.allocator.deallocate(NonNull::new_unchecked(memory), layout) };
    }

    fn give_back_hidden(&self) {
        for hidden in &self.hidden {
            for (_, key) in hidden.lock().drain() {
                if let HiddenKey::Kept(second) = key {
                    // SAFETY: no slot has had the word, and no list has it any more.
                    unsafe { self.give_back(second) };
                }
            }
        }
    }

    fn count_retired(&self, second: u64, waits: bool) {
        let bytes = Self::layout_of(second).size();
        self.counts.add(RETIRED, if waits { bytes } else { bytes.wrapping_neg() });
    }

    fn retired(&self) -> usize {
        self.counts.sum(RETIRED)
    }

    #[inline(always)]
    fn prefetch(&self, second: u64) {
        prefetch(Self::address(second));
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
            retired_bytes: self.retired(),
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
    fn hidden(&self, key: KeyRef<'_, Self>) -> &Mutex<HiddenKeys> {
        &self.hidden[self.word(key) as usize % HIDDEN_SHARDS]
    }

    fn owned(key: KeyRef<'_, Self>) -> (u16, Vec<u8>) {
        let (namespace, bytes) = F::Naming::parts(key);
        (namespace, bytes.to_vec())
    }

    /// Enters a key that is to be hidden; false if it is hidden already. Waits for another
    /// thread that is about to hide it, or to end that: for a few of its instructions.
    pub(crate) fn enter_hidden(&self, key: KeyRef<'_, Self>) -> bool {
        let mut backoff = Backoff::new();
        loop {
            match self.hidden(key).lock().entry(Self::owned(key)) {
                Entry::Occupied(entered) if *entered.get() == HiddenKey::Unsettled => {}
                Entry::Occupied(_) => return false,
                Entry::Vacant(vacant) => {
                    vacant.insert(HiddenKey::Unsettled);
                    return true;
                }
            }
            backoff.wait();
        }
    }

    /// Leaves the record of a key that is hidden now to whoever ends that.
    pub(crate) fn leave_hidden(&self, key: KeyRef<'_, Self>, second: u64) {
        self.hidden(key).lock().insert(Self::owned(key), HiddenKey::Kept(second));
    }

    /// The record of a hidden key, which is the caller's then.
    pub(crate) fn take_hidden(&self, key: KeyRef<'_, Self>) -> Option<u64> {
        let mut hidden = self.hidden(key).lock();
        match core::mem::replace(hidden.get_mut(&Self::owned(key))?, HiddenKey::Unsettled) {
            HiddenKey::Kept(second) => Some(second),
            HiddenKey::Unsettled => None,
        }
    }

    /// Strikes a key off that is not hidden any more.
    pub(crate) fn strike_hidden(&self, key: KeyRef<'_, Self>) {
        self.hidden(key).lock().remove(&Self::owned(key));
    }
}

impl<F: RecordFormat, A: Allocator, S> Records<F, A, S> {
    /// The layout that a record of the caller's was allocated with.
    fn layout_of(second: u64) -> Layout {
        // SAFETY: the word is the caller's, so that its record is there.
        let (key, value) = unsafe { Self::lengths(second) };
        match Self::layout(key, value) {
            Some(layout) => layout,
            None => unreachable!("a record was allocated with it"),
        }
    }
}
