//! Every byte of an index of wide entries, and what one bin does.
//!
//! ```text
//! bin of entries of 24 bytes (64 B)     0        8      16         40         64
//!                                       | header | link | entry 0  | entry 1  |
//! bin of entries of 32 bytes (128 B)    | header | link | entry 0  | entry 1  | entry 2  | unused |
//! entry                                 | words of the key | words of the value |
//!
//! header  63        8   5        4     3  2     1       0
//!         | version | – | frozen | slots  |  moved | locked |       (slots: bits 2 to 4, frozen: bit 5)
//! ```
//!
//! The bins that a link leads to look the same. Only the slots of their headers are used.

use crate::memory::{Slab, Zeroed};
use crate::sync::{AtomicU64, DATA, Ordering};
use core::marker::PhantomData;

/// Which words an entry has.
pub(crate) trait Layout: Send + Sync + 'static {
    /// The words of a key, one or two.
    const KEY: usize;
    /// The words of a value, one or two.
    const VALUE: usize;
    const ENTRY: usize = Self::KEY + Self::VALUE;
    /// The cache lines of a bin.
    const LINES: usize = if Self::ENTRY <= 3 { 1 } else { 2 };
    const SLOTS: usize = (LINE_WORDS * Self::LINES - 2) / Self::ENTRY;
}

/// The words of a key, or of a value. One that has one word leaves the second zero.
pub(crate) type Words = [u64; 2];

const LINE_WORDS: usize = 8;

/// In a header: one thread changes the bin.
pub(super) const LOCKED: u64 = 1;
/// In a header: the next index has the bin's entries.
pub(super) const MOVED: u64 = 1 << 1;
/// In a header: the first slot is taken.
const FIRST_SLOT: u32 = 2;
const SLOT_MASK: u64 = 0b111 << FIRST_SLOT;
/// In a header: the bin's entries belong to a cut that is being taken.
pub(super) const FROZEN: u64 = 1 << 5;
/// The step from one version to the next.
const VERSION: u64 = 1 << 8;

/// A cache line of a bin.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Line([AtomicU64; LINE_WORDS]);

#[cfg(not(modelled))]
const _: () = assert!(size_of::<Line>() == 64);

// SAFETY: a line consists of atomic integers, for which zero bytes are valid. It needs no drop.
unsafe impl Zeroed for Line {
    #[cfg(modelled)]
    fn zeroed() -> Self {
        Self::default()
    }
}

/// A bin, or a bin behind a link.
#[derive(Debug)]
pub(super) struct Bin<'i, L> {
    lines: &'i Slab<Line>,
    first: usize,
    layout: PhantomData<L>,
}

impl<L> Clone for Bin<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Bin<'_, L> {}

impl<'i, L: Layout> Bin<'i, L> {
    #[inline(always)]
    pub(super) fn new(lines: &'i Slab<Line>, number: usize) -> Self {
        Self { lines, first: number * L::LINES, layout: PhantomData }
    }

    pub(super) fn lines_of(bins: usize) -> Option<usize> {
        bins.checked_mul(L::LINES)
    }

    #[inline(always)]
    fn word(&self, word: usize) -> &'i AtomicU64 {
        &self.lines.at(self.first + word / LINE_WORDS).0[word % LINE_WORDS]
    }

    #[inline(always)]
    pub(super) fn header(&self) -> &'i AtomicU64 {
        self.word(0)
    }

    /// Returns the number of the bin behind this one, counted from one; zero if there is none.
    #[inline(always)]
    pub(super) fn link(&self) -> &'i AtomicU64 {
        self.word(1)
    }

    pub(super) fn address(&self) -> *const Line {
        self.lines.address(self.first)
    }

    #[inline(always)]
    fn key_word(&self, slot: usize, word: usize) -> &'i AtomicU64 {
        self.word(2 + slot * L::ENTRY + word)
    }

    #[inline(always)]
    fn value_word(&self, slot: usize, word: usize) -> &'i AtomicU64 {
        self.key_word(slot, L::KEY + word)
    }

    /// Returns the taken slot that has the key. What a thread reads that does not hold the bin counts
    /// only if the bin's header is the same afterwards.
    #[inline(always)]
    pub(super) fn slot_of(&self, header: u64, key: &Words) -> Option<usize> {
        (0..L::SLOTS).find(|&slot| {
            is_taken(header, slot)
                && (0..L::KEY).all(|word| self.key_word(slot, word).load(DATA) == key[word])
        })
    }

    /// As [`slot_of`](Self::slot_of), without a branch for each slot: for a bin that has been asked for, where a wrong
    /// guess gains nothing.
    #[inline(always)]
    pub(super) fn slot_of_fetched(&self, header: u64, key: &Words) -> Option<usize> {
        let mut matches = 0;
        for slot in 0..L::SLOTS {
            let differs = (0..L::KEY).fold(0, |differs, word| {
                differs | (self.key_word(slot, word).load(DATA) ^ key[word])
            });
            matches |= usize::from(differs == 0) << slot;
        }
        let matches = matches & (header >> FIRST_SLOT) as usize;
        (matches != 0).then_some(matches.trailing_zeros() as usize)
    }

    #[inline(always)]
    pub(super) fn value(&self, slot: usize) -> Words {
        let mut value = [0; 2];
        (0..L::VALUE).for_each(|word| value[word] = self.value_word(slot, word).load(DATA));
        value
    }

    pub(super) fn key(&self, slot: usize) -> Words {
        let mut key = [0; 2];
        (0..L::KEY).for_each(|word| key[word] = self.key_word(slot, word).load(DATA));
        key
    }

    /// Stores a value, in a bin that this thread holds.
    #[inline(always)]
    pub(super) fn set_value(&self, slot: usize, value: &Words) {
        for (at, &word) in value[..L::VALUE].iter().enumerate() {
            // Relaxed, here and below: the header's release publishes the words, and the fence of whoever
            // holds the bin orders them behind its lock.
            self.value_word(slot, at).store(word, Ordering::Relaxed);
        }
    }

    /// Stores an entry, in a bin that this thread holds.
    #[inline(always)]
    pub(super) fn set(&self, slot: usize, key: &Words, value: &Words) {
        for (at, &word) in key[..L::KEY].iter().enumerate() {
            self.key_word(slot, at).store(word, Ordering::Relaxed);
        }
        self.set_value(slot, value);
    }
}

#[inline(always)]
pub(super) fn is_taken(header: u64, slot: usize) -> bool {
    header >> (FIRST_SLOT + slot as u32) & 1 != 0
}

#[inline(always)]
pub(super) fn taken<L: Layout>(header: u64) -> impl Iterator<Item = usize> {
    (0..L::SLOTS).filter(move |&slot| is_taken(header, slot))
}

#[inline(always)]
pub(super) fn first_free<L: Layout>(header: u64) -> Option<usize> {
    (0..L::SLOTS).find(|&slot| !is_taken(header, slot))
}

/// Takes a slot that is free, or gives one back that is taken.
#[inline(always)]
pub(super) fn with_slot_changed(header: u64, slot: usize) -> u64 {
    header ^ 1 << (FIRST_SLOT + slot as u32)
}

pub(super) fn without_entries(header: u64) -> u64 {
    header & !SLOT_MASK
}

/// Returns the header of the bin's next version.
#[inline(always)]
pub(super) fn next_version(header: u64) -> u64 {
    header.wrapping_add(VERSION)
}
