//! What a bin is: a header, a link, slots. Two shapes of bins are in files of their own: `bins.rs`, `blocks.rs`.
//!
//! ```text
//! header  63        8   5        4        2   1       0
//!         | version | – | frozen | by shape |  moved | locked |
//! ```

use crate::memory::{Slab, Zeroed};
use crate::simd::Level;
#[cfg(x86_64_assembly)]
use crate::simd::Ways;
use crate::sync::{AtomicU64, DATA, Ordering};
use core::marker::PhantomData;

/// Which words an entry has.
pub trait Entry: Send + Sync + 'static {
    /// The words of a key, one or two.
    const KEY: usize;
    /// The words of a value, at most two.
    const VALUE: usize;
    const WORDS: usize = Self::KEY + Self::VALUE;
}

/// The words of a key, or of a value. One that has one word leaves the second zero.
pub(crate) type Words = [u64; 2];

pub(super) const LINE_WORDS: usize = 8;

/// In a header: one thread changes the bin.
pub(super) const LOCKED: u64 = 1;
/// In a header: the next index has the bin's entries.
pub(super) const MOVED: u64 = 1 << 1;
/// In a header: three bits that the shape may use.
pub(super) const FIRST_OF_SHAPE: u32 = 2;
/// In a header: the bin's entries belong to a cut that is being taken.
pub(super) const FROZEN: u64 = 1 << 5;
/// The step from one version to the next.
const VERSION: u64 = 1 << 8;

/// One word of an index.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(super) struct Word(AtomicU64);

// SAFETY: zero bytes are a valid atomic integer. It needs no drop.
unsafe impl Zeroed for Word {
    #[cfg(modelled)]
    fn zeroed() -> Self {
        Self::default()
    }
}

/// Where the parts of a bin are, in words.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// The words before the first entry.
    pub(super) head: usize,
    pub(super) slots: usize,
    /// The words from one bin to the next.
    pub(super) stride: usize,
}

/// What the bins of a table look like.
///
/// The *state* of a bin that the index has is its header. The state of one behind a link is its first word. The thread
/// that holds a bin stores the state that `take` and `free` return; both may have changed other words of the head.
pub trait Shape: Sized + Send + Sync + 'static {
    type Entry: Entry;
    /// A bin of the index.
    const FIRST: Parts;
    /// A bin behind a link.
    const BEHIND: Parts;
    /// Whether the table grows at a number of entries, and not when its links are used up.
    const GROWS_BY_LOAD: bool;
    /// How many bins behind links an index can have.
    const MOST_LINKS: usize;

    /// Returns the taken slot that has the key. What a thread reads that does not hold the bin counts only if the
    /// bin's header is the same afterwards. A bin that was `FETCHED` is in the cache.
    fn slot_of<const FETCHED: bool>(
        bin: Bin<'_, Self>,
        state: u64,
        sought: &Sought<'_>,
    ) -> Option<usize>;

    /// Returns the slots that are taken, a bit each.
    fn taken(bin: Bin<'_, Self>, state: u64, matcher: Matcher) -> u64;

    /// Returns the free slot that a key with this hash goes to.
    fn free_slot(bin: Bin<'_, Self>, state: u64, hash: u64, matcher: Matcher) -> Option<usize>;

    /// Marks a free slot as taken by a key with this hash. Returns the state.
    fn take(bin: Bin<'_, Self>, state: u64, slot: usize, hash: u64) -> u64;

    /// Marks a taken slot as free. Returns the state.
    fn free(bin: Bin<'_, Self>, state: u64, slot: usize) -> u64;

    /// Marks all slots as free, of a bin that no other thread can reach.
    fn empty(bin: Bin<'_, Self>);

    /// Returns the number of the bin behind this one, counted from one; zero if there is none. Acquires.
    fn link(bin: Bin<'_, Self>) -> usize;

    /// Sets the link, of a bin that this thread holds. Releases.
    fn set_link(bin: Bin<'_, Self>, number: usize);

    /// Asks for the line in which the key's entry is most likely, before the head is there.
    fn prefetch_entry(bin: Bin<'_, Self>, hash: u64);

    /// Returns the slot whose lines are worth asking for, by the head alone.
    fn likely_slot(bin: Bin<'_, Self>, hash: u64, matcher: Matcher) -> Option<usize>;
}

/// How fingerprints are compared.
#[derive(Debug, Clone, Copy)]
pub struct Matcher {
    #[cfg(x86_64_assembly)]
    pub(super) ways: Ways,
    /// Where no way compares a line at once.
    pub(super) level: Level,
}

impl Matcher {
    pub(super) fn detect() -> Self {
        let level = if cfg!(modelled) { Level::PORTABLE } else { Level::detect() };
        Self {
            #[cfg(x86_64_assembly)]
            ways: Ways::detect(true),
            level,
        }
    }
}

/// A key that is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Sought<'k> {
    pub(super) key: &'k Words,
    pub(super) hash: u64,
    pub(super) matcher: Matcher,
}

/// A bin of the index, or a bin behind a link.
#[derive(Debug)]
pub struct Bin<'i, S> {
    words: &'i Slab<Word>,
    first: usize,
    pub(super) is_behind: bool,
    shape: PhantomData<S>,
}

impl<S> Clone for Bin<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Bin<'_, S> {}

impl<'i, S: Shape> Bin<'i, S> {
    #[inline(always)]
    pub(super) fn first(words: &'i Slab<Word>, number: usize) -> Self {
        Self { words, first: number * S::FIRST.stride, is_behind: false, shape: PhantomData }
    }

    #[inline(always)]
    pub(super) fn behind(words: &'i Slab<Word>, number: usize) -> Self {
        Self { words, first: number * S::BEHIND.stride, is_behind: true, shape: PhantomData }
    }

    #[inline(always)]
    fn parts(self) -> Parts {
        if self.is_behind { S::BEHIND } else { S::FIRST }
    }

    #[inline(always)]
    pub(super) fn word(self, word: usize) -> &'i AtomicU64 {
        &self.words.at(self.first + word).0
    }

    #[inline(always)]
    pub(super) fn header(self) -> &'i AtomicU64 {
        debug_assert!(!self.is_behind);
        self.word(0)
    }

    /// Returns the state of a bin behind a link.
    #[inline(always)]
    pub(super) fn state(self) -> u64 {
        // Relaxed: the first bin's header orders it, or no other thread can reach the chain.
        self.word(0).load(Ordering::Relaxed)
    }

    pub(super) fn address(self) -> *const Word {
        self.words.address(self.first)
    }

    /// Returns the address of the first word of a slot.
    #[inline(always)]
    pub(super) fn slot_address(self, slot: usize) -> *const Word {
        self.words.address(self.first + self.parts().head + slot * S::Entry::WORDS)
    }

    #[inline(always)]
    fn key_word(self, slot: usize, word: usize) -> &'i AtomicU64 {
        self.word(self.parts().head + slot * S::Entry::WORDS + word)
    }

    #[inline(always)]
    fn value_word(self, slot: usize, word: usize) -> &'i AtomicU64 {
        self.key_word(slot, S::Entry::KEY + word)
    }

    /// Whether the slot's words are those of the key.
    #[inline(always)]
    pub(super) fn has(self, slot: usize, key: &Words) -> bool {
        (0..S::Entry::KEY).all(|word| self.key_word(slot, word).load(DATA) == key[word])
    }

    /// As [`has`](Self::has), without a branch for each word.
    #[inline(always)]
    pub(super) fn has_by_all_words(self, slot: usize, key: &Words) -> bool {
        let differs = (0..S::Entry::KEY)
            .fold(0, |differs, word| differs | (self.key_word(slot, word).load(DATA) ^ key[word]));
        differs == 0
    }

    #[inline(always)]
    pub(super) fn value(self, slot: usize) -> Words {
        let mut value = [0; 2];
        (0..S::Entry::VALUE).for_each(|word| value[word] = self.value_word(slot, word).load(DATA));
        value
    }

    pub(super) fn key(self, slot: usize) -> Words {
        let mut key = [0; 2];
        (0..S::Entry::KEY).for_each(|word| key[word] = self.key_word(slot, word).load(DATA));
        key
    }

    /// Stores a value, in a bin that this thread holds.
    #[inline(always)]
    pub(super) fn set_value(self, slot: usize, value: &Words) {
        for (at, &word) in value[..S::Entry::VALUE].iter().enumerate() {
            // Relaxed, here and below: the header's release publishes the words, and the fence of whoever
            // holds the bin orders them behind its lock.
            self.value_word(slot, at).store(word, Ordering::Relaxed);
        }
    }

    /// Stores an entry in a free slot, in a bin that this thread holds. Returns the bin's state.
    #[inline(always)]
    pub(super) fn fill(
        self,
        state: u64,
        slot: usize,
        hash: u64,
        key: &Words,
        value: &Words,
    ) -> u64 {
        for (at, &word) in key[..S::Entry::KEY].iter().enumerate() {
            self.key_word(slot, at).store(word, Ordering::Relaxed);
        }
        self.set_value(slot, value);
        S::take(self, state, slot, hash)
    }

    /// Stores the state of a bin behind a link, whose chain this thread holds.
    #[inline(always)]
    pub(super) fn set_state(self, state: u64) {
        debug_assert!(self.is_behind);
        // Relaxed: the first bin's header publishes it.
        self.word(0).store(state, Ordering::Relaxed);
    }

    /// Yields the entries of the taken slots.
    pub(super) fn entries(
        self,
        state: u64,
        matcher: Matcher,
    ) -> impl Iterator<Item = (Words, Words)> + use<'i, S> {
        let taken = crate::simd::BitIter::new(S::taken(self, state, matcher));
        taken.map(move |slot| (self.key(slot), self.value(slot)))
    }
}

/// Returns the header of the bin's next version.
#[inline(always)]
pub(super) fn next_version(header: u64) -> u64 {
    header.wrapping_add(VERSION)
}
