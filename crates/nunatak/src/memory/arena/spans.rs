//! Spans: their owners, and which of their places are taken.

use super::classes::{CLASSES, SPAN, size_of_class};
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
    /// In RAM: places that were given back last, for the next strings. A place that goes through
    /// here costs a lock and no look at its span, whose words are seldom in a cache.
    kept: Vec<usize>,
    /// How many places the shard has given out, less those that were given back to it. Below zero in
    /// a shard whose threads remove what others store.
    pub(super) given: isize,
}

impl Class {
    /// Returns how many places the class may keep: few beside those that are in use, so that they
    /// hold few spans back.
    fn most_kept(&self, size: usize) -> usize {
        /// About what a thread gives back at once, when no guard sees it any more.
        const MOST: usize = 256;
        const MOST_BYTES: usize = 16 << 10;
        let in_use = self.given.max(0).cast_unsigned();
        MOST.min(MOST_BYTES / size).min(in_use / 32)
    }
}

/// What was given out, modulo 2^64: one shard may give back what another one has given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    /// Byte strings.
    pub(crate) strings: usize,
    /// Their bytes.
    pub(crate) bytes: usize,
    /// The bytes of their places.
    pub(crate) placed: usize,
}

impl Totals {
    #[inline(always)]
    pub(crate) fn add(&mut self, bytes: usize, placed: usize) {
        *self = *self + Self { strings: 1, bytes, placed };
    }

    #[inline(always)]
    pub(crate) fn subtract(&mut self, bytes: usize, placed: usize) {
        *self = *self
            + Self {
                strings: usize::MAX,
                bytes: bytes.wrapping_neg(),
                placed: placed.wrapping_neg(),
            };
    }
}

impl core::ops::Add for Totals {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self {
            strings: self.strings.wrapping_add(other.strings),
            bytes: self.bytes.wrapping_add(other.bytes),
            placed: self.placed.wrapping_add(other.placed),
        }
    }
}

/// What one shard has.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) classes: [Class; CLASSES],
    pub(super) totals: Totals,
}

impl Shard {
    pub(super) fn new() -> Self {
        Self { classes: core::array::from_fn(|_| Class::default()), totals: Totals::default() }
    }

    /// Takes the place that was given back last.
    #[inline(always)]
    pub(super) fn take_kept(&mut self, class: usize, bytes: usize) -> Option<usize> {
        let place = self.classes[class].kept.pop()?;
        self.classes[class].given += 1;
        self.totals.add(bytes, size_of_class(class));
        Some(place)
    }

    /// Keeps a place of so many bytes that was given back. Moves places to `surplus` that must go to
    /// their spans: those that were given back first.
    #[inline(always)]
    pub(super) fn keep(
        &mut self,
        class: usize,
        bytes: usize,
        place: usize,
        surplus: &mut Vec<usize>,
    ) {
        let size = size_of_class(class);
        self.totals.subtract(bytes, size);
        let class = &mut self.classes[class];
        debug_assert!(!class.kept.contains(&place), "a place is given back twice");
        class.given -= 1;
        class.kept.push(place);
        let most = class.most_kept(size);
        if class.kept.len() > most {
            // Half of them, so that the next ones go to no span again.
            surplus.extend(class.kept.drain(..class.kept.len() - most / 2));
        }
    }

    /// Returns all kept places, which the caller must give to their spans.
    pub(super) fn give_up_kept(&mut self) -> Vec<usize> {
        self.classes.iter_mut().flat_map(|class| core::mem::take(&mut class.kept)).collect()
    }
}
