//! Spans: their owners, and which of their places are taken.

use super::classes::{SPAN, size_of_class};
use std::collections::{BTreeMap, BTreeSet};

/// The owner of a span in use, as a word: a class of a shard, or one place that has this span and
/// some behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Class {
        shard: usize,
        class: usize,
    },
    Alone {
        spans: usize,
    },
    /// A place that begins in an earlier span.
    Inside,
    /// No known owner.
    Nobody,
}

impl Owner {
    pub(super) fn word(self) -> u64 {
        match self {
            Self::Class { shard, class } => (shard << 16 | class << 8 | 1) as u64,
            Self::Alone { spans } => (spans << 8 | 2) as u64,
            Self::Inside => 3,
            Self::Nobody => 0,
        }
    }

    pub(super) fn of(word: u64) -> Self {
        match word & 0xFF {
            1 => Self::Class { shard: (word >> 16) as usize, class: (word >> 8 & 0xFF) as usize },
            2 => Self::Alone { spans: (word >> 8) as usize },
            3 => Self::Inside,
            _ => Self::Nobody,
        }
    }
}

/// How far the search for taken places has come.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(durable), allow(dead_code, reason = "there are no files"))]
pub(super) enum Search {
    /// All taken places are known.
    #[default]
    Over,
    /// Taken places before span `end` are not all known.
    Marking { end: usize },
    /// All taken places are known, but spans before `end` wait until this epoch is durable.
    Ended { end: usize, epoch: u64 },
}

impl Search {
    /// Returns the span before which no place is given out.
    pub(super) fn end(self) -> usize {
        match self {
            Self::Over => 0,
            Self::Marking { end } | Self::Ended { end, .. } => end,
        }
    }
}

/// A span divided into places.
#[derive(Debug)]
pub(super) struct Span {
    /// One bit for each place.
    taken: Box<[u64]>,
    /// In a medium of epochs: the last epoch in which places were given out, and these places.
    fresh: (u64, Box<[u64]>),
    /// Whether no place is given out, since it is not known yet which places are taken.
    pub(super) is_held: bool,
    /// The number of places, and of taken ones.
    pub(super) places: u32,
    pub(super) live: u32,
}

impl Span {
    pub(super) fn new(class: usize) -> Self {
        let places = SPAN / size_of_class(class);
        let mut taken = vec![0_u64; places.div_ceil(64)].into_boxed_slice();
        if !places.is_multiple_of(64) {
            // Bits behind the last place count as taken.
            taken[places / 64] = !0 << (places % 64);
        }
        Self { taken, fresh: (0, Box::default()), is_held: false, places: places as u32, live: 0 }
    }

    /// Takes a free place. `epoch` is zero in a medium without epochs.
    pub(super) fn reuse(&mut self, epoch: u64) -> Option<usize> {
        let at = self.taken.iter().position(|&word| word != !0)?;
        let bit = (!self.taken[at]).trailing_zeros() as usize;
        self.taken[at] |= 1 << bit;
        self.live += 1;
        if epoch != 0 {
            if self.fresh.0 != epoch {
                self.fresh = (epoch, vec![0; self.taken.len()].into_boxed_slice());
            }
            self.fresh.1[at] |= 1 << bit;
        }
        Some(64 * at + bit)
    }

    pub(super) fn is_taken(&self, place: usize) -> bool {
        self.taken.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// Whether a place was given out in this epoch.
    pub(super) fn is_fresh(&self, place: usize, epoch: u64) -> bool {
        self.fresh.0 == epoch
            && self.fresh.1.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// Gives back a taken place.
    pub(super) fn give_back(&mut self, place: usize) {
        self.taken[place / 64] &= !(1 << (place % 64));
        self.live -= 1;
    }

    pub(super) fn is_full(&self) -> bool {
        self.live == self.places
    }
}

#[cfg(durable)]
impl Span {
    /// Takes this place. Returns false if it is taken or does not exist.
    pub(super) fn take_at(&mut self, place: usize) -> bool {
        let is_free = place < self.places as usize && !self.is_taken(place);
        if is_free {
            self.taken[place / 64] |= 1 << (place % 64);
            self.live += 1;
        }
        is_free
    }

    /// Returns as words which places are taken.
    pub(super) fn words(&self) -> &[u64] {
        &self.taken
    }

    /// Makes a span from the words that tell which places are taken. Returns nothing if there are
    /// too few words.
    pub(super) fn of_words(class: usize, words: &[u64]) -> Option<Self> {
        let mut span = Self::new(class);
        let len = span.taken.len();
        let behind = span.taken.last().copied()?;
        span.taken.copy_from_slice(words.get(..len)?);
        span.taken[len - 1] |= behind;
        let taken: u32 = span.taken.iter().map(|word| word.count_ones()).sum();
        span.live = taken - behind.count_ones();
        Some(span)
    }
}

/// The spans of a class.
#[derive(Debug, Default)]
pub(super) struct Class {
    pub(super) spans: BTreeMap<usize, Span>,
    /// The spans with a free place.
    pub(super) partial: BTreeSet<usize>,
}
