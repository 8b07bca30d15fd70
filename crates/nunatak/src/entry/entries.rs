//! What a map of byte strings asks of its entries, wherever their bytes are.
//!
//! Invariants
//! 1. The value word of a slot of such a map came from [`Entries::store`], and its bytes are
//!    written before the slot has it.
//! 2. Bytes are given back once: by way of limbo, when no guard that may have seen the word
//!    lives; before anybody has; or with the map.

use crate::error::Error;
use crate::hash::Placement;
use crate::memory::{BlobStats, MemoryUsage};
use core::fmt::Debug;

/// How the keys of a map of byte strings are told: [`Plain`], or each in one of 4096
/// [`Namespace`](super::Namespace)s ([`Named`](super::Named)).
///
/// ```
/// use nunatak::entry::{KeyOf, Plain};
/// fn bytes<K: KeyOf<Plain>>(key: &K) -> usize {
///     key.key().len()
/// }
/// assert_eq!(bytes(&"nunatak"), 7);
/// ```
pub trait Naming: Send + Sync + 'static {
    /// A key as it is looked for.
    type Key<'k>: Copy + Debug;
    /// A key as a copy of it is given out.
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

/// What a key can be taken from in batches: anything with bytes, and, with namespaces, a pair
/// of one and such a thing.
///
/// ```
/// use nunatak::entry::{KeyOf, Plain};
/// assert_eq!(KeyOf::<Plain>::key(&"a"), b"a");
/// ```
pub trait KeyOf<N: Naming> {
    /// The key.
    fn key(&self) -> N::Key<'_>;
}

impl<K: AsRef<[u8]>> KeyOf<Plain> for K {
    #[inline(always)]
    fn key(&self) -> &[u8] {
        self.as_ref()
    }
}

/// Where a map of byte strings keeps its entries, and what its slots say of them.
#[allow(private_interfaces, reason = "the trait is sealed: its parts are internal")]
pub trait Entries: Debug + Sized + Send + Sync + 'static {
    /// How keys are told.
    type Naming: Naming;
    /// A value where it is.
    type Value<'v>: Copy + Debug;
    /// A key as it was found.
    type Found<'v>: Debug;
    /// How words are placed.
    #[doc(hidden)]
    type Placement: Placement;

    /// Whether two keys never have the same word, and there is nothing to be looked at.
    const WORDS_ARE_KEYS: bool;
    /// Whether a map that goes must give entries back one by one.
    const ARE_SEPARATE: bool;

    /// Whether the key can be one of the map's; it is not looked for if not.
    #[inline(always)]
    fn fits(key: KeyRef<'_, Self>) -> bool {
        let _ = key;
        true
    }

    /// By what the table finds the key, which fits.
    fn word(&self, key: KeyRef<'_, Self>) -> u64;

    /// Whether a value word can be the key's as far as it tells itself.
    fn may_be(&self, key: KeyRef<'_, Self>, second: u64) -> bool;

    /// Whether a value word is the key's, that may be.
    ///
    /// # Safety
    /// As [`value`](Self::value).
    unsafe fn is(&self, key: KeyRef<'_, Self>, second: u64) -> bool;

    /// Whether the key is one of those that are hidden; `None` while it becomes one or ceases
    /// to be one.
    fn is_hidden(&self, key: KeyRef<'_, Self>) -> Option<bool> {
        let _ = key;
        Some(false)
    }

    /// The value of a value word.
    ///
    /// # Safety
    /// A slot of the map has or had the word, which was read by an acquiring load, and its
    /// bytes are not given back within `'v`: a guard that was taken before lives that long,
    /// or the caller has taken the word out.
    unsafe fn value<'v>(&self, second: u64) -> Self::Value<'v>;

    /// The key of a slot.
    ///
    /// # Safety
    /// As [`value`](Self::value); `word` is the slot's.
    unsafe fn found<'v>(&self, word: u64, second: u64) -> Self::Found<'v>;

    /// A found key as one that is looked for.
    fn key<'k>(found: &'k Self::Found<'_>) -> KeyRef<'k, Self>;

    /// Appends a value to a buffer.
    fn append(value: Self::Value<'_>, buffer: &mut Vec<u8>);

    /// A copy of a value.
    fn copy(value: Self::Value<'_>) -> Vec<u8> {
        let mut copy = Vec::new();
        Self::append(value, &mut copy);
        copy
    }

    /// Stores a key and a value, which nobody knows of yet.
    fn store(&self, key: KeyRef<'_, Self>, value: &[u8]) -> Result<Unpublished<'_, Self>, Error>;

    /// Gives the bytes of a word back.
    ///
    /// # Safety
    /// The word is the caller's, and nobody can see its bytes any more.
    unsafe fn give_back(&self, second: u64);

    /// Gives back what is hidden in a map that goes.
    fn give_back_hidden(&self) {}

    /// A word was taken out of its slot, and waits for guards; or does not any more.
    fn count_retired(&self, second: u64, waits: bool);

    /// How many bytes wait for guards.
    fn retired(&self) -> usize;

    /// Fetches the first lines of what a word stands for, which may be nothing any more.
    fn prefetch(&self, second: u64);

    /// Stores a copy of an entry where memory is free before it, if memory could be given
    /// back then.
    ///
    /// # Safety
    /// As [`value`](Self::value).
    unsafe fn store_lower(&self, second: u64) -> Result<Option<Unpublished<'_, Self>>, Error> {
        let _ = second;
        Ok(None)
    }

    /// Gives memory that is not used back to the system.
    fn trim(&self) {}

    /// How much memory is mapped.
    fn usage(&self) -> MemoryUsage;

    /// What the entries take.
    fn stats(&self) -> BlobStats;
}

/// A key of these entries as it is looked for.
pub(crate) type KeyRef<'k, E> = <<E as Entries>::Naming as Naming>::Key<'k>;
/// A copy of a key of these entries.
pub(crate) type OwnedKey<E> = <<E as Entries>::Naming as Naming>::Owned;

/// An entry that nobody else knows, given back when dropped.
#[derive(Debug)]
pub struct Unpublished<'e, E: Entries> {
    entries: &'e E,
    word: u64,
}

impl<'e, E: Entries> Unpublished<'e, E> {
    /// # Safety
    /// The word is the caller's, who does not use it any more.
    pub(super) unsafe fn new(entries: &'e E, word: u64) -> Self {
        Self { entries, word }
    }

    pub(crate) fn word(&self) -> u64 {
        self.word
    }

    /// A slot has it now.
    pub(crate) fn published(self) {
        core::mem::forget(self);
    }
}

impl<E: Entries> Drop for Unpublished<'_, E> {
    fn drop(&mut self) {
        // SAFETY: it is ours, by the promise to `new`.
        unsafe { self.entries.give_back(self.word) };
    }
}

/// An entry that no slot has any more, given back when dropped.
#[derive(Debug)]
pub(crate) struct Retired<E: Entries> {
    entries: *const E,
    word: u64,
}

// SAFETY: the entries may be shared, and this one is its owner's alone.
unsafe impl<E: Entries> Send for Retired<E> {}
// SAFETY: a shared reference gives access to nothing.
unsafe impl<E: Entries> Sync for Retired<E> {}

impl<E: Entries> Retired<E> {
    /// # Safety
    /// The caller has taken the word out of its slot; it is dropped only when no guard that
    /// may have seen it lives, and before the entries are.
    pub(crate) unsafe fn new(entries: &E, word: u64) -> Self {
        entries.count_retired(word, true);
        Self { entries, word }
    }
}

impl<E: Entries> Drop for Retired<E> {
    fn drop(&mut self) {
        // SAFETY: the entries are there, as was promised to `new`.
        let entries = unsafe { &*self.entries };
        entries.count_retired(self.word, false);
        // SAFETY: the word is ours, and nobody sees it, as was promised.
        unsafe { entries.give_back(self.word) };
    }
}
