//! DLHT's bins: one or two cache lines, and more of them behind links.
//!
//! ```text
//! bin of entries of 16 bytes (64 B)     0        8      16         32         48         64
//!                                       | header | link | entry 0  | entry 1  | entry 2  |
//! bin of entries of 24 bytes (64 B)     0        8      16         40         64
//!                                       | header | link | entry 0  | entry 1  |
//! bin of entries of 32 bytes (128 B)    | header | link | entry 0  | entry 1  | entry 2  | unused |
//! entry                                 | words of the key | words of the value |
//! ```
//!
//! A bin of entries of one word (a key without a value) has three of them, too, and 24 unused bytes.
//!
//! Bits 2 to 4 of a header say which slots are taken. The bins that a link leads to look the same; only these bits of
//! their headers are used.

use super::layout::{Bin, Entry, FIRST_OF_SHAPE, LINE_WORDS, Matcher, Parts, Shape, Sought};
use crate::sync::Ordering;
use core::marker::PhantomData;

/// The shape of DLHT's bins.
#[derive(Debug)]
pub struct Bins<E>(PhantomData<fn() -> E>);

impl<E: Entry> Bins<E> {
    const LINES: usize = if E::WORDS <= 3 { 1 } else { 2 };
    const SLOTS: usize = match (LINE_WORDS * Self::LINES - 2) / E::WORDS {
        // A header has bits for three.
        4.. => 3,
        slots => slots,
    };
    const MASK: u64 = ((1 << Self::SLOTS) - 1) << FIRST_OF_SHAPE;
    const PARTS: Parts = Parts { head: 2, slots: Self::SLOTS, stride: LINE_WORDS * Self::LINES };

    /// The planned number of entries in a bin when the caller names a capacity: a tenth of them is then behind links.
    pub(crate) const PLANNED: f64 = if Self::SLOTS == 2 { 1.1 } else { 1.7 };
}

#[inline(always)]
fn is_taken(header: u64, slot: usize) -> bool {
    header >> (FIRST_OF_SHAPE + slot as u32) & 1 != 0
}

impl<E: Entry> Shape for Bins<E> {
    type Entry = E;
    const FIRST: Parts = Self::PARTS;
    const BEHIND: Parts = Self::PARTS;
    const GROWS_BY_LOAD: bool = false;
    const MOST_LINKS: usize = usize::MAX;

    #[inline(always)]
    fn slot_of<const FETCHED: bool>(
        bin: Bin<'_, Self>,
        state: u64,
        sought: &Sought<'_>,
    ) -> Option<usize> {
        if !FETCHED {
            return (0..Self::SLOTS)
                .find(|&slot| is_taken(state, slot) && bin.has(slot, sought.key));
        }
        // Without a branch for each slot: a wrong guess gains nothing.
        let matches = (0..Self::SLOTS).fold(0, |matches, slot| {
            matches | u64::from(bin.has_by_all_words(slot, sought.key)) << slot
        });
        let matches = matches & state >> FIRST_OF_SHAPE;
        (matches != 0).then_some(matches.trailing_zeros() as usize)
    }

    #[inline(always)]
    fn taken(_bin: Bin<'_, Self>, state: u64, _matcher: Matcher) -> u64 {
        (state & Self::MASK) >> FIRST_OF_SHAPE
    }

    #[inline(always)]
    fn free_slot(_bin: Bin<'_, Self>, state: u64, _hash: u64, _matcher: Matcher) -> Option<usize> {
        (0..Self::SLOTS).find(|&slot| !is_taken(state, slot))
    }

    #[inline(always)]
    fn take(_bin: Bin<'_, Self>, state: u64, slot: usize, _hash: u64) -> u64 {
        state | 1 << (FIRST_OF_SHAPE + slot as u32)
    }

    #[inline(always)]
    fn free(_bin: Bin<'_, Self>, state: u64, slot: usize) -> u64 {
        state & !(1 << (FIRST_OF_SHAPE + slot as u32))
    }

    fn empty(bin: Bin<'_, Self>) {
        let state = bin.state();
        // Relaxed: no other thread can reach the bin.
        bin.word(0).store(state & !Self::MASK, Ordering::Relaxed);
    }

    #[inline(always)]
    fn link(bin: Bin<'_, Self>) -> usize {
        // Acquire: pairs with the release below, so the bin behind the link is there.
        bin.word(1).load(Ordering::Acquire) as usize
    }

    fn set_link(bin: Bin<'_, Self>, number: usize) {
        // Release: a reader that finds the link finds the bin, and it is empty.
        bin.word(1).store(number as u64, Ordering::Release);
    }

    #[inline(always)]
    fn prefetch_entry(_bin: Bin<'_, Self>, _hash: u64) {}

    #[inline(always)]
    fn likely_slot(_bin: Bin<'_, Self>, _hash: u64, _matcher: Matcher) -> Option<usize> {
        None
    }
}
