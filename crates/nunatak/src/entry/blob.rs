//! Entries in the map's own memory: a key and a value, byte strings of any length.
//!
//! ```text
//! byte 0    length of the key
//!      4    length of the value
//!      8    the key, then the value
//! ```
//!
//! Invariants
//! 1. The value word of a slot of a map of blobs is the offset of a place in its arena that
//!    holds one, which is written before the slot has the word and never afterwards.
//! 2. A place is given back only by way of limbo, when no guard that may have seen it lives,
//!    or before anybody has.

use crate::error::Error;
use crate::memory::Addresses;
use crate::memory::prefetch::prefetch;
use crate::memory::{Arena, BlobStats, MemoryUsage};
use crate::sync::{AtomicUsize, Ordering};

/// Bytes of the lengths.
const HEADER: usize = 8;

/// The blobs of a map, and how many they are.
#[derive(Debug)]
pub(crate) struct Blobs {
    arena: Arena,
    /// All that take a place, and their bytes; those that were retired. Counted and read
    /// relaxed: statistics.
    count: AtomicUsize,
    bytes: AtomicUsize,
    placed: AtomicUsize,
    retired: AtomicUsize,
    _addresses: Addresses,
}

impl Blobs {
    pub(crate) fn new() -> Result<Self, Error> {
        let most = Addresses::share();
        Ok(Self {
            arena: Arena::new(most as usize)?,
            count: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            placed: AtomicUsize::new(0),
            retired: AtomicUsize::new(0),
            _addresses: Addresses::count(most),
        })
    }

    /// Stores a key and a value, which nobody knows of yet.
    pub(crate) fn store(&self, key: &[u8], value: &[u8]) -> Result<Unpublished<'_>, Error> {
        self.store_at(key, value, |bytes| self.arena.take(bytes))
    }

    /// The same, where memory is free before what [should move](Self::should_move).
    pub(crate) fn store_lower(&self, key: &[u8], value: &[u8]) -> Result<Unpublished<'_>, Error> {
        self.store_at(key, value, |bytes| self.arena.take_lower(bytes))
    }

    fn store_at(
        &self,
        key: &[u8],
        value: &[u8],
        take: impl FnOnce(usize) -> Result<usize, Error>,
    ) -> Result<Unpublished<'_>, Error> {
        let (Ok(key_len), Ok(value_len)) = (u32::try_from(key.len()), u32::try_from(value.len()))
        else {
            return Err(Error::TooLong);
        };
        let bytes = HEADER + key.len() + value.len();
        let offset = take(bytes)?;
        let address = self.arena.address(offset);
        // SAFETY: the place is ours and has so many bytes; nobody reads it yet.
        unsafe {
            address.cast::<[u32; 2]>().write([key_len, value_len]);
            address.add(HEADER).copy_from_nonoverlapping(key.as_ptr(), key.len());
            address.add(HEADER + key.len()).copy_from_nonoverlapping(value.as_ptr(), value.len());
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.placed.fetch_add(Arena::placed(bytes), Ordering::Relaxed);
        Ok(Unpublished { blobs: self, word: offset as u64 })
    }

    /// The key and the value of a word.
    ///
    /// # Safety
    /// A slot of the map has or had the word, which was read by an acquiring load, and the
    /// place is not given back within `'g`: a guard that was taken before lives that long,
    /// or the caller has taken the word out.
    #[inline(always)]
    pub(crate) unsafe fn get<'g>(&self, word: u64) -> (&'g [u8], &'g [u8]) {
        let address = self.arena.address(word as usize).cast_const();
        // SAFETY: by invariant 1 a header and so many bytes are there, and nobody writes to
        // them while the caller's promise holds.
        unsafe {
            let [key, value] = address.cast::<[u32; 2]>().read().map(|len| len as usize);
            let bytes = address.add(HEADER);
            (
                core::slice::from_raw_parts(bytes, key),
                core::slice::from_raw_parts(bytes.add(key), value),
            )
        }
    }

    /// Fetches the first lines of what a word stands for, which may be nothing any more.
    #[inline(always)]
    pub(crate) fn prefetch(&self, word: u64) {
        let address = self.arena.address(word as usize);
        prefetch(address);
        prefetch(address.wrapping_add(64));
    }

    fn bytes_of(&self, word: u64) -> usize {
        // SAFETY: the caller owns the place.
        let (key, value) = unsafe { self.get(word) };
        HEADER + key.len() + value.len()
    }

    fn give_back(&self, word: u64) {
        let bytes = self.bytes_of(word);
        self.arena.give_back(word as usize);
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.placed.fetch_sub(Arena::placed(bytes), Ordering::Relaxed);
    }

    /// How many bytes wait for guards.
    pub(crate) fn retired(&self) -> usize {
        self.retired.load(Ordering::Relaxed)
    }

    /// Whether memory could be given back if a blob were somewhere else.
    pub(crate) fn should_move(&self, word: u64) -> bool {
        self.arena.should_move(word as usize)
    }

    /// Gives memory that is not used back to the system.
    pub(crate) fn trim(&self) {
        self.arena.trim();
    }

    pub(crate) fn stats(&self) -> BlobStats {
        BlobStats {
            blobs: self.count.load(Ordering::Relaxed),
            live_bytes: self.bytes.load(Ordering::Relaxed),
            placed_bytes: self.placed.load(Ordering::Relaxed),
            spans: self.arena.spans(),
            mapped_bytes: self.usage().mapped,
            retired_bytes: self.retired(),
        }
    }

    pub(crate) fn usage(&self) -> MemoryUsage {
        self.arena.usage()
    }
}

/// A blob that nobody else knows, given back when dropped.
#[derive(Debug)]
pub(crate) struct Unpublished<'b> {
    blobs: &'b Blobs,
    word: u64,
}

impl Unpublished<'_> {
    pub(crate) fn word(&self) -> u64 {
        self.word
    }

    /// A slot has it now.
    pub(crate) fn published(self) {
        core::mem::forget(self);
    }
}

impl Drop for Unpublished<'_> {
    fn drop(&mut self) {
        self.blobs.give_back(self.word);
    }
}

/// A blob that no slot has any more, given back when dropped.
#[derive(Debug)]
pub(crate) struct Retired {
    blobs: *const Blobs,
    word: u64,
}

// SAFETY: the blobs may be shared, and the place is this one's alone.
unsafe impl Send for Retired {}
// SAFETY: a shared reference gives access to nothing.
unsafe impl Sync for Retired {}

impl Retired {
    /// # Safety
    /// The caller has taken the word out of its slot; it is dropped only when no guard that
    /// may have seen it lives, and before the blobs are.
    pub(crate) unsafe fn new(blobs: &Blobs, word: u64) -> Self {
        blobs.retired.fetch_add(blobs.bytes_of(word), Ordering::Relaxed);
        Self { blobs, word }
    }
}

impl Drop for Retired {
    fn drop(&mut self) {
        // SAFETY: the blobs are there, as was promised to `new`.
        let blobs = unsafe { &*self.blobs };
        blobs.retired.fetch_sub(blobs.bytes_of(self.word), Ordering::Relaxed);
        blobs.give_back(self.word);
    }
}
