//! Entries in the map's own memory: a key and a value, byte strings of any length.
//!
//! ```text
//! in a file: byte 0    length of the key
//!                 4    length of the value
//!                 8    the key, the value, four bytes of a checksum
//!
//! in RAM:    byte 0    | length of the value (19 bits) | length of the key (12) | 1 |
//!                 4    the key, the value
//!
//!      or:   byte 0    0, for longer ones
//!                 4    length of the key
//!                 8    length of the value
//!                12    the key, the value
//! ```
//!
//! Four bytes less are eight for many entries: places are multiples of eight bytes.
//!
//! Invariants
//! 1. The value word of a slot of a map of blobs is the word of one of its [`Places`]. The place
//!    holds a blob, which is written before the slot has the word and never afterwards.
//! 2. A place is given back when no guard that may have seen it lives (by way of limbo), or before
//!    any thread has seen it.
//! 3. In a file a blob is durable before its slot is. Lengths that are read from a file are checked
//!    before they are used.

use super::entries::{Entries, Plain, Unpublished};
use crate::error::Error;
use crate::hash::{IdentityCodec, RandomState, post_mix};
use crate::memory::prefetch::prefetch;
use crate::memory::{BlobStats, Heap, Medium, MemoryUsage, Places, Totals};
use crate::seeded::{Bug, seeded};
use core::fmt;
use core::hash::BuildHasher;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of the lengths in a file.
const HEADER: usize = 8;
/// In RAM: of short strings, and of longer ones.
const SHORT_HEADER: usize = 4;
const LONG_HEADER: usize = 12;
/// The bits of a short key's length; those of a short value's are the rest but one.
const KEY_BITS: u32 = 12;
/// Bytes of the checksum.
const CHECK: usize = 4;

/// Whether the lengths of these strings fit one word.
#[inline(always)]
const fn is_short(key: usize, value: usize) -> bool {
    key < 1 << KEY_BITS && value < 1 << (31 - KEY_BITS)
}

/// The blobs of a map: the entries of a [`BlobMap`](crate::BlobMap).
///
/// ```
/// use nunatak::{ByteMap, RandomState, Turbo, entry::Blobs};
/// let map: ByteMap<Blobs<RandomState>, Turbo> = nunatak::TurboBlobMap::new();
/// # assert!(map.is_empty());
/// ```
#[allow(private_bounds, reason = "where bytes are is an internal matter")]
pub struct Blobs<S = RandomState, M: Medium = Heap> {
    hasher: S,
    medium: M,
    places: Places<M>,
}

impl<S, M: Medium> fmt::Debug for Blobs<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blobs").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

#[allow(private_bounds, reason = "where bytes are is an internal matter")]
impl<S, M: Medium> Blobs<S, M> {
    pub(crate) fn new(medium: &M, hasher: S) -> Result<Self, Error> {
        Ok(Self { hasher, medium: medium.clone(), places: Places::new(medium)? })
    }

    /// Returns what the keys are hashed with.
    pub(crate) fn hasher(&self) -> &S {
        &self.hasher
    }

    fn store_at(
        &self,
        key: &[u8],
        value: &[u8],
        take: impl FnOnce(usize) -> Result<u64, Error>,
    ) -> Result<u64, Error> {
        let (Ok(key_len), Ok(value_len)) = (u32::try_from(key.len()), u32::try_from(value.len()))
        else {
            return Err(Error::TooLong);
        };
        let bytes = Self::size(key.len(), value.len());
        let word = take(bytes)?;
        let address = self.places.address(word);
        let words = match (M::IS_DURABLE, is_short(key.len(), value.len())) {
            (true, _) => [key_len, value_len, 0],
            (false, true) => [value_len << (KEY_BITS + 1) | key_len << 1 | 1, 0, 0],
            (false, false) => [0, key_len, value_len],
        };
        let header = words.map(u32::to_ne_bytes);
        let header = &header.as_flattened()[..Self::header(key.len(), value.len())];
        let check = if M::IS_DURABLE { check(key, value) } else { [0; CHECK] };
        let parts: [&[u8]; 4] = [header, key, value, &check];
        // SAFETY: the place is ours and has so many bytes; no other thread reads it yet.
        unsafe { self.medium.write(address, &parts[..if M::IS_DURABLE { 4 } else { 3 }]) };
        if M::IS_DURABLE && self.medium.has_fences() {
            // Flushed before a slot names it.
            if !seeded(Bug::BlobUnflushed) {
                self.medium.flush(address.cast_const(), bytes);
            }
            if !seeded(Bug::BlobUnfenced) {
                self.medium.fence();
            }
        }
        Ok(word)
    }

    /// Returns the bytes of a blob whose strings have these lengths.
    fn size(key: usize, value: usize) -> usize {
        Self::header(key, value) + key + value + if M::IS_DURABLE { CHECK } else { 0 }
    }

    /// Returns the bytes of the lengths in front of strings of these lengths.
    #[inline(always)]
    fn header(key: usize, value: usize) -> usize {
        match M::IS_DURABLE {
            true => HEADER,
            false if is_short(key, value) => SHORT_HEADER,
            false => LONG_HEADER,
        }
    }

    /// Returns the bytes of the lengths, and the lengths of the key and the value.
    ///
    /// # Safety
    /// A blob is there, or in a file a header at least.
    #[inline(always)]
    unsafe fn lengths(address: *const u8) -> (usize, [usize; 2]) {
        let words = address.cast::<u32>();
        // SAFETY: by the caller's promise. Places are aligned to eight bytes.
        let word = |at| unsafe { words.add(at).read() } as usize;
        if M::IS_DURABLE {
            return (HEADER, [word(0), word(1)]);
        }
        match word(0) {
            0 => (LONG_HEADER, [word(1), word(2)]),
            short => (SHORT_HEADER, [short >> 1 & ((1 << KEY_BITS) - 1), short >> (KEY_BITS + 1)]),
        }
    }

    /// Returns the key and the value of a value word, or empty ones if a file holds an invalid
    /// word.
    ///
    /// # Safety
    /// A slot of the map has or had the word, which was read by an acquiring load, and the place is
    /// not given back within `'g`: a guard that was taken before the load lives that long, or the
    /// caller has taken the word out.
    #[inline(always)]
    pub(crate) unsafe fn get<'g>(&self, word: u64) -> (&'g [u8], &'g [u8]) {
        if M::IS_DURABLE && !self.is_sound(word) {
            return (&[], &[]);
        }
        let address = self.places.address(word).cast_const();
        // SAFETY: by invariant 1 a header and so many bytes are there, and no thread writes to them
        // while the caller's promise holds.
        unsafe {
            let (header, [key, value]) = Self::lengths(address);
            let bytes = address.add(header);
            #[cfg(any(test, feature = "accounting"))]
            for line in address.addr() / 64..(address.addr() + header + key + value).div_ceil(64) {
                crate::memory::touched::record(line * 64, M::IS_DURABLE);
            }
            (
                core::slice::from_raw_parts(bytes, key),
                core::slice::from_raw_parts(bytes.add(key), value),
            )
        }
    }

    /// Whether a word of a file may be a blob's: its offset and its lengths are within the arena.
    #[inline(always)]
    pub(crate) fn is_sound(&self, word: u64) -> bool {
        let offset = word as usize;
        if !word.is_multiple_of(HEADER as u64) || !self.places.arena().holds(offset, HEADER) {
            return false;
        }
        // SAFETY: a header's bytes are there, and lengths may be anything.
        let (_, [key, value]) = unsafe { Self::lengths(self.places.address(word)) };
        self.places.arena().holds(offset, Self::size(key, value))
    }

    fn bytes_of(&self, word: u64) -> usize {
        // SAFETY: the caller owns the place.
        let (key, value) = unsafe { self.get(word) };
        Self::size(key.len(), value.len())
    }

    /// Without what waits for guards.
    pub(crate) fn stats(&self) -> BlobStats {
        let Totals { strings, bytes, placed } = self.places.totals();
        BlobStats {
            blobs: strings,
            live_bytes: bytes,
            placed_bytes: placed,
            spans: self.places.spans(),
            mapped_bytes: self.places.usage().mapped,
            retired_bytes: 0,
            unsynced_bytes: self.places.waiting(),
        }
    }
}

#[allow(private_interfaces, reason = "the trait is sealed: its parts are internal")]
impl<S: BuildHasher + Send + Sync + 'static, M: Medium> Entries for Blobs<S, M> {
    type Naming = Plain;
    type Value<'v> = &'v [u8];
    type Found<'v> = &'v [u8];
    type HashCodec = IdentityCodec;

    const WORDS_ARE_KEYS: bool = false;
    const ARE_SEPARATE: bool = false;

    fn word(&self, key: &[u8]) -> u64 {
        post_mix(self.hasher.hash_one(key))
    }

    #[inline(always)]
    fn may_be(&self, _key: &[u8], _second: u64) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn is(&self, key: &[u8], value_word: u64) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.get(value_word) }.0 == key
    }

    #[inline(always)]
    unsafe fn value<'v>(&self, value_word: u64) -> &'v [u8] {
        // SAFETY: the caller's promise.
        unsafe { self.get(value_word) }.1
    }

    unsafe fn found<'v>(&self, _word: u64, value_word: u64) -> &'v [u8] {
        // SAFETY: the caller's promise.
        unsafe { self.get(value_word) }.0
    }

    fn key<'k>(found: &'k &[u8]) -> &'k [u8] {
        found
    }

    fn append(value: &[u8], buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(value);
    }

    fn store(&self, key: &[u8], value: &[u8]) -> Result<Unpublished<'_, Self>, Error> {
        let word = self.store_at(key, value, |bytes| self.places.allocate(bytes))?;
        // SAFETY: the place is ours alone.
        Ok(unsafe { Unpublished::new(self, word) })
    }

    unsafe fn give_back(&self, word: u64) {
        let bytes = self.bytes_of(word);
        self.places.give_back(word, bytes);
    }

    unsafe fn give_back_known(&self, word: u64, bytes: usize) {
        self.places.give_back(word, bytes);
    }

    unsafe fn held_bytes(&self, word: u64) -> usize {
        self.bytes_of(word)
    }

    #[inline(always)]
    fn prefetch(&self, word: u64) {
        let address = self.places.address(word);
        prefetch(address);
        prefetch(address.wrapping_add(64));
    }

    fn prefetch_places(&self, words: impl Iterator<Item = u64>) {
        // In RAM most places do not go to their spans.
        if M::IS_DURABLE {
            self.places.arena().prefetch_places(words.map(|word| word as usize));
        }
    }

    unsafe fn store_lower(&self, word: u64) -> Result<Option<Unpublished<'_, Self>>, Error> {
        if !self.places.should_move(word) {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        let (key, value) = unsafe { self.get(word) };
        let lower = self.store_at(key, value, |bytes| self.places.take_lower(bytes))?;
        // SAFETY: the place is ours alone.
        let fresh = unsafe { Unpublished::new(self, lower) };
        Ok((lower < word).then_some(fresh))
    }

    fn trim(&self) {
        self.places.trim();
    }

    fn usage(&self) -> MemoryUsage {
        self.places.usage()
    }

    fn stats(&self) -> BlobStats {
        self.stats()
    }
}

#[cfg(durable)]
#[allow(private_bounds, reason = "where bytes are is an internal matter")]
impl<S, M: Medium> Blobs<S, M> {
    /// Makes places free that were given back in epochs that are durable by now.
    pub(crate) fn reuse_synced(&self) {
        self.places.arena().reuse_synced();
    }

    /// Returns the counts and the taken places, for the next open of the file; `None` while they
    /// are not known.
    pub(crate) fn to_words(&self) -> Option<Vec<u64>> {
        let Totals { strings, bytes, placed } = self.places.totals();
        let mut words = [strings, bytes, placed].map(|count| count as u64).to_vec();
        words.extend(self.places.arena().to_words()?);
        words.push(checksum(&words));
        Some(words)
    }

    /// Whether the arena knows a taken place of the blob's size at its offset.
    pub(crate) fn is_placed(&self, word: u64) -> bool {
        self.is_sound(word) && self.places.arena().has(word as usize, self.bytes_of(word))
    }

    /// Returns where the blob of a word is.
    pub(crate) fn address(&self, word: u64) -> *const u8 {
        self.places.address(word).cast_const()
    }

    /// Returns how many bytes there are for blobs.
    pub(crate) fn committed(&self) -> usize {
        self.places.arena().committed()
    }

    /// Whether the blob of a word is as it was written.
    ///
    /// # Safety
    /// As [`get`](Self::get).
    pub(crate) unsafe fn is_whole(&self, word: u64) -> bool {
        // SAFETY: the caller's promise.
        let (key, value) = unsafe { self.get(word) };
        let address = self.places.address(word).cast_const();
        // SAFETY: a sound blob has so many bytes behind its strings.
        let stored = self.is_sound(word).then(|| unsafe {
            address.add(HEADER + key.len() + value.len()).cast::<[u8; CHECK]>().read()
        });
        stored == Some(check(key, value))
    }

    /// Whether a search still has to find out which places may be used.
    #[inline(always)]
    pub(crate) fn are_searched(&self) -> bool {
        self.places.arena().is_searched()
    }

    /// Whether only a sync is missing before free places may be used.
    pub(crate) fn wait_for_sync(&self) -> bool {
        self.places.arena().waits_for_sync()
    }

    /// Restores what [`to_words`](Self::to_words) returned; false, and nothing is changed, if it is
    /// invalid.
    pub(crate) fn learn(&self, words: &[u64]) -> bool {
        let said = words.split_last().filter(|(last, words)| **last == checksum(words));
        let Some((&totals, rest)) = said.and_then(|(_, w)| w.split_first_chunk()) else {
            return false;
        };
        let [strings, bytes, placed] = totals.map(|count: u64| count as usize);
        self.places.arena().learn(rest, Totals { strings, bytes, placed })
    }

    /// Begins to search for the blobs that a file holds.
    pub(crate) fn begin_search(&self) -> Result<(), Error> {
        self.places.arena().begin_search()
    }
}

#[cfg(durable)]
impl<S: BuildHasher + Send + Sync + 'static, M: Medium> crate::memory::Finder for Blobs<S, M> {
    fn find(&self, word: u64) -> bool {
        if !self.is_sound(word) {
            return false;
        }
        let bytes = self.bytes_of(word);
        self.places.arena().mark(word as usize, bytes)
    }

    fn forget(&self, word: u64) {
        if self.is_sound(word) {
            // SAFETY: the slot has lost the word while the file is opened: no other thread has it.
            unsafe { Entries::give_back(self, word) };
        }
    }

    fn end(&self) {
        self.places.arena().end_search();
    }
}

/// Returns the checksum of a blob, which covers its lengths, too.
fn check(key: &[u8], value: &[u8]) -> [u8; CHECK] {
    let lengths = (key.len() as u64) << 32 | value.len() as u64;
    let of_key = xxh3_64_with_seed(key, lengths);
    (xxh3_64_with_seed(value, of_key) as u32).to_ne_bytes()
}

#[cfg(durable)]
fn checksum(words: &[u64]) -> u64 {
    let mut hasher = crc32fast::Hasher::new();
    words.iter().for_each(|word| hasher.update(&word.to_ne_bytes()));
    u64::from(hasher.finalize())
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    /// Strings of all lengths at which the header changes are there as they were stored.
    #[test]
    fn strings_of_any_length_are_read_as_they_were_stored() {
        let blobs = Blobs::new(&Heap, RandomState::default()).unwrap();
        for key in [0, 1, 16, 4095, 4096, 70_000] {
            for value in [0, 1, 33, (1 << 19) - 1, 1 << 19, 600_000] {
                let (key, value) = (vec![b'k'; key], vec![b'v'; value]);
                let word =
                    blobs.store_at(&key, &value, |bytes| blobs.places.allocate(bytes)).unwrap();
                // SAFETY: the place is given back below, by this thread alone.
                assert_eq!(unsafe { blobs.get(word) }, (&key[..], &value[..]));
                let is_short = key.len() < 4096 && value.len() < 1 << 19;
                let header = if is_short { 4 } else { 12 };
                assert_eq!(blobs.stats().live_bytes, header + key.len() + value.len());
                // SAFETY: nobody has the word any more.
                unsafe { blobs.give_back(word) };
            }
        }
        assert_eq!((blobs.stats().blobs, blobs.stats().live_bytes), (0, 0));
    }

    #[test]
    fn a_small_entry_takes_few_bytes() {
        let blobs = Blobs::new(&Heap, RandomState::default()).unwrap();
        blobs.store_at(&[1; 16], &[2; 33], |bytes| blobs.places.allocate(bytes)).unwrap();
        assert_eq!(blobs.stats().placed_bytes, 56);
    }

    #[test]
    fn a_lookup_is_counted_as_the_lines_of_its_entry() {
        let blobs = Blobs::new(&Heap, RandomState::default()).unwrap();
        for (key, value) in [(3, 5), (16, 33), (20, 200), (70, 500), (4096, 7)].repeat(3) {
            let (key, value) = (vec![b'k'; key], vec![b'v'; value]);
            let word = blobs.store_at(&key, &value, |bytes| blobs.places.allocate(bytes)).unwrap();
            let start = blobs.places.address(word).addr();
            let header = if key.len() < 4096 { 4 } else { 12 };
            let last = start + header + key.len() + value.len() - 1;
            let lines: Vec<_> = (start / 64..=last / 64).map(|line| (line, false)).collect();
            // SAFETY: the place is never given back.
            let get = || assert_eq!(unsafe { blobs.get(word) }.0, key);
            assert!(crate::memory::touched::places_of(get).into_iter().eq(lines));
        }
    }
}
