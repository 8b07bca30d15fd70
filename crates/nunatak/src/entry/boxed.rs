//! Entries on the heap: any key, any value.
//!
//! Invariants
//! 1. The value word of a slot of a boxed table is the address of an [`Entry`] in memory of
//!    [`spare`], which has not been freed since.
//! 2. An entry is freed only through [`Retired`], when no guard that may have seen it lives, or
//!    with its map.
//! 3. While guards may see an entry, no thread has a unique reference to it.

use crate::memory::prefetch::prefetch;
use crate::memory::spare;
use core::ptr::NonNull;

/// A key and its value. The map changes neither; an update stores a new entry.
#[derive(Debug)]
pub(crate) struct Entry<K, V> {
    pub(crate) key: K,
    pub(crate) value: V,
}

/// An entry's address.
#[derive(Debug)]
pub(crate) struct EntryPtr<K, V>(NonNull<Entry<K, V>>);

impl<K, V> Clone for EntryPtr<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for EntryPtr<K, V> {}

impl<K, V> PartialEq for EntryPtr<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<K, V> EntryPtr<K, V> {
    pub(crate) fn to_word(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    /// Prefetches the cache line that the entry begins in.
    #[inline(always)]
    pub(crate) fn prefetch(self) {
        prefetch(self.0.as_ptr());
    }

    /// # Safety
    /// The word came from [`to_word`](Self::to_word).
    pub(crate) unsafe fn from_word(word: u64) -> Self {
        let address = core::ptr::with_exposed_provenance_mut(word as usize);
        // SAFETY: an entry's address is not null.
        Self(unsafe { NonNull::new_unchecked(address) })
    }

    /// Takes the entry out of its memory, and frees the memory.
    ///
    /// # Safety
    /// The caller owns the entry, and does not use its address again.
    unsafe fn into_entry(self) -> Entry<K, V> {
        // SAFETY: the caller's promise.
        let entry = unsafe { self.0.read() };
        // SAFETY: the memory came from `Unpublished::new`, and the entry is not there any more.
        unsafe { spare::free(self.0) };
        entry
    }

    /// # Safety
    /// The entry is not freed within `'g`: a guard that was taken before the word was read lives
    /// that long, or the caller owns the entry.
    pub(crate) unsafe fn entry<'g>(self) -> &'g Entry<K, V> {
        // SAFETY: the caller's promise, and invariant 3.
        unsafe { self.0.as_ref() }
    }
}

/// An entry that no slot has yet. It is freed when dropped, so if the caller's code panics before
/// it is published.
#[derive(Debug)]
pub(crate) struct Unpublished<K, V>(Retired<K, V>);

impl<K, V> Unpublished<K, V> {
    pub(crate) fn new(key: K, value: V) -> Self {
        let entry = spare::allocate();
        // SAFETY: the memory is for an entry, and ours.
        unsafe { entry.write(Entry { key, value }) };
        Self(Retired(EntryPtr(entry)))
    }

    pub(crate) fn ptr(&self) -> EntryPtr<K, V> {
        self.0.0
    }

    pub(crate) fn key(&self) -> &K {
        // SAFETY: the entry is ours.
        &unsafe { self.ptr().entry() }.key
    }

    /// A slot has the entry now: it is not freed here.
    pub(crate) fn published(self) {
        core::mem::forget(self);
    }

    /// Takes the entry out of its memory: it was not needed.
    pub(crate) fn into_entry(self) -> Entry<K, V> {
        let ptr = self.ptr();
        core::mem::forget(self);
        // SAFETY: the entry is ours, and the destructor that would free it will not run.
        unsafe { ptr.into_entry() }
    }
}

/// An entry that no slot has any more. It is freed when dropped.
#[derive(Debug)]
pub(crate) struct Retired<K, V>(EntryPtr<K, V>);

// SAFETY: it owns the entry; the thread that drops it drops the key and the value.
unsafe impl<K: Send, V: Send> Send for Retired<K, V> {}
// SAFETY: a shared reference gives access to shared references only.
unsafe impl<K: Sync, V: Sync> Sync for Retired<K, V> {}

impl<K, V> Retired<K, V> {
    /// # Safety
    /// The caller took the entry out of its slot, and drops the `Retired` only when no guard that
    /// may have seen the entry lives.
    pub(crate) unsafe fn new(ptr: EntryPtr<K, V>) -> Self {
        Self(ptr)
    }

    pub(crate) fn entry(&self) -> &Entry<K, V> {
        // SAFETY: only the destructor frees the entry.
        unsafe { self.0.entry() }
    }

    /// Takes the entry out of its memory.
    ///
    /// # Safety
    /// No guard that may have seen the entry lives.
    pub(crate) unsafe fn into_entry(self) -> Entry<K, V> {
        let ptr = self.0;
        core::mem::forget(self);
        // SAFETY: the caller's promise; the destructor will not run.
        unsafe { ptr.into_entry() }
    }
}

impl<K, V> Drop for Retired<K, V> {
    fn drop(&mut self) {
        /// Frees the memory also if the caller's `Drop` panics.
        struct Memory<T>(NonNull<T>);
        impl<T> Drop for Memory<T> {
            fn drop(&mut self) {
                // SAFETY: the entry was dropped in place, and nothing else frees its memory (invariant 2).
                unsafe { spare::free(self.0) };
            }
        }
        let memory = Memory(self.0.0);
        // SAFETY: the entry is ours (invariant 2), and is not used afterwards.
        unsafe { memory.0.drop_in_place() };
    }
}
