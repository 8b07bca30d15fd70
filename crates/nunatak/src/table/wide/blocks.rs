//! IcebergHT's blocks: many slots with a fingerprint each, and small blocks behind links for keys that find no room.
//!
//! ```text
//! block           0        8      12                  64                             1312 or 1728
//!                 | header | link | 52 fingerprints   | 52 entries of 24 or 32 bytes | (unused: 32 bytes, or none)
//! behind a link   0      4                8                             104 or 136
//!                 | link | 4 fingerprints | 4 entries                   |
//! entry           | words of the key | words of the value (of a set none) |
//!
//! hash     63                     24 23       8 7           0
//!          | block (highest bits)   | preferred | fingerprint |
//! ```
//!
//! A fingerprint of zero is a free slot. A key goes to the first free slot from its *preferred* one on, so that a lookup
//! can ask for its entry's line together with the block's first line.
//!
//! IcebergHT (SIGMOD '23, section 3) keeps the keys that a block has no room for in a second level that all blocks share.
//! Here they are behind links of their own block, since one lock then covers every place of a key. A block of 52 slots
//! varies so little that this takes no more room: with 49.4 entries a block (91 % of all slots) 3.5 % of the entries
//! are behind links; the paper's second level has 6.2 % then.

use super::layout::{Bin, Entry, LINE_WORDS, Matcher, Parts, Shape, Sought};
use crate::memory::prefetch::prefetch;
#[cfg(x86_64_assembly)]
use crate::simd::Mask;
use crate::simd::{BitIter, Level, match_byte_in};
use crate::sync::{DATA, Ordering};
use core::marker::PhantomData;

/// The shape of IcebergHT's blocks.
#[derive(Debug)]
pub struct Blocks<E>(PhantomData<fn() -> E>);

/// The words before the entries of a block. In a model two, with four fingerprints.
const HEAD: usize = if cfg!(modelled) { 2 } else { 8 };
/// The bytes of a block before its first fingerprint; the slots have the others.
const BEFORE: usize = 12;
const SLOTS: usize = 8 * HEAD - BEFORE;
const BEHIND_SLOTS: usize = 4;
/// The lower half of a word with a link.
const LINK: u64 = u32::MAX as u64;

/// Returns the fingerprint of a hash, which is not zero.
#[inline(always)]
fn fingerprint(hash: u64) -> u8 {
    (hash as u8).max(1)
}

/// Returns the slot at which the search for a free one begins: the first that begins in one of the lines.
#[inline(always)]
pub(super) fn preferred<E: Entry>(hash: u64) -> usize {
    let lines = SLOTS * E::WORDS / LINE_WORDS;
    let line = ((hash >> 8 & 0xFFFF) as usize * lines) >> 16;
    (line * LINE_WORDS).div_ceil(E::WORDS)
}

/// Returns the word of the head, and the shift in it, of a slot's fingerprint.
#[inline(always)]
fn place_of(is_behind: bool, slot: usize) -> (usize, u32) {
    let byte = slot + if is_behind { BEFORE - 8 } else { BEFORE };
    (byte / 8, 8 * (byte % 8) as u32)
}

/// Returns the slots whose fingerprint is `byte`.
#[inline(always)]
fn matching<E: Entry>(bin: Bin<'_, Blocks<E>>, state: u64, byte: u8, matcher: Matcher) -> u64 {
    if bin.is_behind {
        let matches = match_byte_in(Level::PORTABLE, &[state], byte);
        return matches >> (BEFORE - 8);
    }
    #[cfg(x86_64_assembly)]
    if matcher.ways.has_any() {
        static ALL: Mask = Mask::ALL;
        // SAFETY: a block's head is a line of its index, whose memory begins with one and whose blocks are whole lines.
        // There is a way.
        return unsafe { matcher.ways.matching(bin.address().cast(), byte, &ALL) } >> BEFORE;
    }
    let mut head = [0; HEAD];
    // The first word is the header, which has no fingerprint.
    (1..HEAD).for_each(|word| head[word] = bin.word(word).load(DATA));
    match_byte_in(matcher.level, &head, byte) >> BEFORE
}

/// Stores a slot's fingerprint, of a bin that this thread holds. Returns the state.
#[inline(always)]
fn set_fingerprint<E: Entry>(bin: Bin<'_, Blocks<E>>, state: u64, slot: usize, byte: u8) -> u64 {
    let (word, shift) = place_of(bin.is_behind, slot);
    let changed = |before: u64| before & !(0xFF << shift) | u64::from(byte) << shift;
    if bin.is_behind {
        return changed(state);
    }
    let word = bin.word(word);
    // Relaxed, both: this thread holds the bin, and the header's release publishes the word.
    word.store(changed(word.load(Ordering::Relaxed)), Ordering::Relaxed);
    state
}

/// Returns the word that has the bin's link.
#[inline(always)]
fn link_word(is_behind: bool) -> usize {
    if is_behind { 0 } else { 1 }
}

/// How many entries a block has on average when a share of all slots is taken, and how many bins behind links.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fill {
    pub(super) entries: f64,
    pub(super) links: f64,
}

impl Fill {
    /// Random hashes give a block a number of entries by Poisson's distribution.
    pub(super) fn of(entries: f64) -> Self {
        let (mut probability, mut links) = ((-entries).exp(), 0.0);
        // A block with three times as many entries as slots does not occur.
        for number in 1..3 * SLOTS {
            probability *= entries / number as f64;
            links += probability * number.saturating_sub(SLOTS).div_ceil(BEHIND_SLOTS) as f64;
        }
        Self { entries, links }
    }

    fn load(&self) -> f64 {
        self.entries / (SLOTS as f64 + BEHIND_SLOTS as f64 * self.links)
    }

    pub(super) fn at(load: f64) -> Self {
        let (mut low, mut high) = (0.0, 1.5 * SLOTS as f64);
        for _ in 0..30 {
            let middle = (low + high) / 2.0;
            if Self::of(middle).load() < load { low = middle } else { high = middle }
        }
        Self::of(low)
    }
}

impl<E: Entry> Shape for Blocks<E> {
    type Entry = E;
    const FIRST: Parts = Parts {
        head: HEAD,
        slots: SLOTS,
        stride: (HEAD + SLOTS * E::WORDS).next_multiple_of(HEAD),
    };
    const BEHIND: Parts =
        Parts { head: 1, slots: BEHIND_SLOTS, stride: 1 + BEHIND_SLOTS * E::WORDS };
    const GROWS_BY_LOAD: bool = true;
    const MOST_LINKS: usize = LINK as usize;

    #[inline(always)]
    fn slot_of<const FETCHED: bool>(
        bin: Bin<'_, Self>,
        state: u64,
        sought: &Sought<'_>,
    ) -> Option<usize> {
        let matches = matching(bin, state, fingerprint(sought.hash), sought.matcher);
        BitIter::new(matches).find(|&slot| bin.has(slot, sought.key))
    }

    #[inline(always)]
    fn taken(bin: Bin<'_, Self>, state: u64, matcher: Matcher) -> u64 {
        let all = (1 << if bin.is_behind { BEHIND_SLOTS } else { SLOTS }) - 1;
        !matching(bin, state, 0, matcher) & all
    }

    #[inline(always)]
    fn free_slot(bin: Bin<'_, Self>, state: u64, hash: u64, matcher: Matcher) -> Option<usize> {
        let free = matching(bin, state, 0, matcher);
        let from_preferred = free & u64::MAX << preferred::<E>(hash);
        let first = if from_preferred != 0 { from_preferred } else { free };
        (first != 0).then(|| first.trailing_zeros() as usize)
    }

    #[inline(always)]
    fn take(bin: Bin<'_, Self>, state: u64, slot: usize, hash: u64) -> u64 {
        set_fingerprint(bin, state, slot, fingerprint(hash))
    }

    #[inline(always)]
    fn free(bin: Bin<'_, Self>, state: u64, slot: usize) -> u64 {
        set_fingerprint(bin, state, slot, 0)
    }

    fn empty(bin: Bin<'_, Self>) {
        // Relaxed, here and below: no other thread can reach the bin.
        let link = bin.word(link_word(bin.is_behind));
        link.store(link.load(Ordering::Relaxed) & LINK, Ordering::Relaxed);
        if !bin.is_behind {
            (2..HEAD).for_each(|word| bin.word(word).store(0, Ordering::Relaxed));
        }
    }

    #[inline(always)]
    fn link(bin: Bin<'_, Self>) -> usize {
        // Acquire: pairs with the release below, or with that of the lock of a thread that has changed a fingerprint of
        // the word since; so the bin behind the link is there.
        (bin.word(link_word(bin.is_behind)).load(Ordering::Acquire) & LINK) as usize
    }

    fn set_link(bin: Bin<'_, Self>, number: usize) {
        let link = bin.word(link_word(bin.is_behind));
        // Relaxed: this thread holds the bin.
        let fingerprints = link.load(Ordering::Relaxed) & !LINK;
        // Release: a reader that finds the link finds the bin, and it is empty.
        link.store(fingerprints | number as u64, Ordering::Release);
    }

    #[inline(always)]
    fn prefetch_entry(bin: Bin<'_, Self>, hash: u64) {
        // Three of four entries are in these two lines when the block is full.
        let address = bin.slot_address(preferred::<E>(hash));
        prefetch(address);
        prefetch(address.wrapping_add(LINE_WORDS));
    }

    #[inline(always)]
    fn likely_slot(bin: Bin<'_, Self>, hash: u64, matcher: Matcher) -> Option<usize> {
        let matches = matching(bin, 0, fingerprint(hash), matcher);
        (matches != 0).then(|| matches.trailing_zeros() as usize)
    }
}
