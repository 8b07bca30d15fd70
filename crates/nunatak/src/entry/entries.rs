//! What a map of byte strings asks of its entries, wherever it keeps their bytes.
//!
//! Invariants
//! 1. The value word of a slot of such a map came from [`Entries::store`], and the bytes of the
//!    entry are written before the slot has the word.
//! 2. The bytes of an entry are given back once: by way of limbo, when no guard that may have seen
//!    the word lives; before any thread has seen it; or with the map.

use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::{BlobStats, MemoryUsage};
use core::fmt::Debug;

/// How a map of byte strings tells keys apart: by their bytes alone ([`Plain`]), or by their bytes
/// and one of 4096 [`Namespace`](super::Namespace)s ([`Named`](super::Named)).
///
/// ```
/// use nunatak::entry::{KeyOf, Plain};
/// fn bytes<K: KeyOf<Plain>>(key: &K) -> usize {
///     key.key().len()
/// }
/// assert_eq!(bytes(&"nunatak"), 7);
/// ```
pub trait Naming: Send + Sync + 'static {
    /// A key as a parameter of an operation.
    type Key<'k>: Copy + Debug;
    /// An owned copy of a key.
    type Owned: Clone + Debug + Send + Sync;

    #[doc(hidden)]
    #[allow(missing_docs)]
    const HAS_NAMESPACES: bool;

    #[doc(hidden)]
    #[allow(missing_docs)]
    fn own(key: Self::Key<'_>) -> Self::Owned;

    #[doc(hidden)]
    #[allow(missing_docs)]
    fn of_owned(key: &Self::Owned) -> Self::Key<'_>;

    #[doc(hidden)]
    #[allow(missing_docs)]
    fn parts<'k>(key: Self::Key<'k>) -> (u16, &'k [u8]);

    #[doc(hidden)]
    #[allow(missing_docs)]
    fn of_parts(namespace: u16, bytes: &[u8]) -> Self::Key<'_>;
}

/// Keys that are byte strings.
///
/// ```
/// use nunatak::entry::{Naming, Plain};
/// let key: <Plain as Naming>::Key<'_> = b"a byte string";
/// # assert_eq!(key.len(), 13);
/// ```
#[derive(Debug)]
pub struct Plain;

impl Naming for Plain {
    type Key<'k> = &'k [u8];
    type Owned = Vec<u8>;

    const HAS_NAMESPACES: bool = false;

    fn own(key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }

    fn of_owned(key: &Vec<u8>) -> &[u8] {
        key
    }

    #[inline(always)]
    fn parts<'k>(key: Self::Key<'k>) -> (u16, &'k [u8]) {
        (0, key)
    }

    fn of_parts(_namespace: u16, bytes: &[u8]) -> &[u8] {
        bytes
    }
}

/// Types that a batch takes keys from: anything with bytes or, with namespaces, a pair of a
/// namespace and such a type.
///
/// ```
/// use nunatak::entry::{KeyOf, Plain};
/// assert_eq!(KeyOf::<Plain>::key(&"a"), b"a");
/// ```
pub trait KeyOf<N: Naming> {
    /// Returns the key.
    fn key(&self) -> N::Key<'_>;
}

impl<K: AsRef<[u8]>> KeyOf<Plain> for K {
    #[inline(always)]
    fn key(&self) -> &[u8] {
        self.as_ref()
    }
}

/// Where a map of byte strings keeps its entries, and what its slots store about them.
#[allow(private_interfaces, reason = "the trait is sealed: its parts are internal")]
pub trait Entries: Debug + Sized + Send + Sync + 'static {
    /// How keys are told apart.
    type Naming: Naming;
    /// A value, borrowed from where it is stored.
    type Value<'v>: Copy + Debug;
    /// A key that an iterator found.
    type Found<'v>: Debug;
    /// How key words are placed in the table.
    #[doc(hidden)]
    type HashCodec: HashCodec;

    /// Whether different keys always have different words, so that no entry has to be compared.
    const WORDS_ARE_KEYS: bool;
    /// Whether dropping a map must give back each entry by itself.
    const ARE_SEPARATE: bool;

    /// Whether a key can be in the map. Operations do not look up a key that does not fit.
    #[inline(always)]
    fn fits(key: KeyRef<'_, Self>) -> bool {
        let _ = key;
        true
    }

    /// Returns the key word by which the table finds a key that fits.
    fn word(&self, key: KeyRef<'_, Self>) -> u64;

    /// Whether a value word may belong to the key, judged by the word alone.
    fn may_be(&self, key: KeyRef<'_, Self>, value_word: u64) -> bool;

    /// Whether a value word that may belong to the key does.
    ///
    /// # Safety
    /// As [`value`](Self::value).
    unsafe fn is(&self, key: KeyRef<'_, Self>, value_word: u64) -> bool;

    /// Whether the key is hidden; `None` while another thread hides it or shows it.
    fn is_hidden(&self, key: KeyRef<'_, Self>) -> Option<bool> {
        let _ = key;
        Some(false)
    }

    /// Returns the value of a value word.
    ///
    /// # Safety
    /// A slot of the map has or had the word, which was read by an acquiring load, and its bytes
    /// are not given back within `'v`: a guard that was taken before the load lives that long, or
    /// the caller has taken the word out.
    unsafe fn value<'v>(&self, value_word: u64) -> Self::Value<'v>;

    /// Returns the key of a slot.
    ///
    /// # Safety
    /// As [`value`](Self::value); `word` is the slot's key word.
    unsafe fn found<'v>(&self, word: u64, value_word: u64) -> Self::Found<'v>;

    /// Turns a found key into the parameter of an operation.
    fn key<'k>(found: &'k Self::Found<'_>) -> KeyRef<'k, Self>;

    /// Appends a value to a buffer.
    fn append(value: Self::Value<'_>, buffer: &mut Vec<u8>);

    /// Returns a copy of a value.
    fn copy(value: Self::Value<'_>) -> Vec<u8> {
        let mut copy = Vec::new();
        Self::append(value, &mut copy);
        copy
    }

    /// Stores a key and a value that no other thread knows of yet.
    fn store(&self, key: KeyRef<'_, Self>, value: &[u8]) -> Result<Unpublished<'_, Self>, Error>;

    /// Gives the bytes of a value word back.
    ///
    /// # Safety
    /// The caller owns the word, and no thread can see its bytes any more.
    unsafe fn give_back(&self, value_word: u64);

    /// Gives the bytes of a value word back, whose number is known.
    ///
    /// # Safety
    /// As [`give_back`](Self::give_back). The word [holds](Self::held_bytes) so many bytes.
    unsafe fn give_back_known(&self, value_word: u64, bytes: usize) {
        let _ = bytes;
        // SAFETY: the caller's promise.
        unsafe { self.give_back(value_word) };
    }

    /// Gives back the hidden entries of a map that is dropped.
    fn give_back_hidden(&self) {}

    /// Returns how many bytes can be used again once this word is [given back](Self::give_back).
    ///
    /// # Safety
    /// The caller owns the word.
    unsafe fn held_bytes(&self, value_word: u64) -> usize;

    /// Prefetches the first lines of the bytes of a value word, which may be given back already.
    fn prefetch(&self, value_word: u64);

    /// Prefetches what says that the bytes of these value words, which are about to be given back, are in use.
    fn prefetch_places(&self, value_words: impl Iterator<Item = u64>) {
        let _ = value_words;
    }

    /// Stores a copy of an entry in free memory at a lower offset, if moving the entry could let
    /// memory go back to the system.
    ///
    /// # Safety
    /// As [`value`](Self::value).
    unsafe fn store_lower(&self, value_word: u64) -> Result<Option<Unpublished<'_, Self>>, Error> {
        let _ = value_word;
        Ok(None)
    }

    /// Gives unused memory back to the system.
    fn trim(&self) {}

    /// Returns how much memory is mapped.
    fn usage(&self) -> MemoryUsage;

    /// Returns how much memory the entries take.
    fn stats(&self) -> BlobStats;
}

/// A key of these entries as a parameter of an operation.
pub(crate) type KeyRef<'k, E> = <<E as Entries>::Naming as Naming>::Key<'k>;
/// An owned copy of a key of these entries.
pub(crate) type OwnedKey<E> = <<E as Entries>::Naming as Naming>::Owned;

/// An entry that no slot has yet. Its bytes are given back when it is dropped.
#[derive(Debug)]
pub struct Unpublished<'e, E: Entries> {
    entries: &'e E,
    word: u64,
}

impl<'e, E: Entries> Unpublished<'e, E> {
    /// # Safety
    /// The caller owns the word, and does not use it any more.
    pub(super) unsafe fn new(entries: &'e E, word: u64) -> Self {
        Self { entries, word }
    }

    pub(crate) fn word(&self) -> u64 {
        self.word
    }

    /// A slot has the entry now: it is not given back here.
    pub(crate) fn published(self) {
        core::mem::forget(self);
    }
}

impl<E: Entries> Drop for Unpublished<'_, E> {
    fn drop(&mut self) {
        // SAFETY: the word is ours, by the promise to `new`.
        unsafe { self.entries.give_back(self.word) };
    }
}

/// An entry that no slot has any more. Its bytes are given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Retired<E: Entries> {
    entries: *const E,
    word: u64,
    /// Noted when the word left its slot: later, its bytes are in no cache.
    bytes: usize,
}

// SAFETY: the entries may be shared, and the word belongs to this value alone.
unsafe impl<E: Entries> Send for Retired<E> {}
// SAFETY: a shared reference gives access to nothing.
unsafe impl<E: Entries> Sync for Retired<E> {}

impl<E: Entries> Retired<E> {
    /// # Safety
    /// The caller has taken the word out of its slot. The `Retired` is dropped only when no guard
    /// that may have seen the word lives, and before `entries` is.
    pub(crate) unsafe fn new(entries: &E, word: u64) -> Self {
        // SAFETY: the caller has the word.
        let bytes = unsafe { entries.held_bytes(word) };
        Self { entries, word, bytes }
    }

    pub(crate) fn word(&self) -> u64 {
        self.word
    }

    /// Returns how many bytes can be used again once this is dropped.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<E: Entries> Drop for Retired<E> {
    fn drop(&mut self) {
        // SAFETY: the entries are there, as was promised to `new`.
        let entries = unsafe { &*self.entries };
        // SAFETY: the word is ours, and no thread sees it, as was promised to `new`.
        unsafe { entries.give_back_known(self.word, self.bytes) };
    }
}
