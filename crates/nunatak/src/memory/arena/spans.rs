//! Spans: their owners, and which of their places are taken.

use super::classes::{CLASSES, SPAN, size_of_class};
use crate::memory::prefetch::prefetch;
use std::collections::BTreeSet;

/// The owner of a span in use, as a word: a class of a shard, or one place that has this span and
/// some behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Class {
        shard: usize,
        class: usize,
        /// Where the class has it. A file does not tell it.
        index: usize,
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
            Self::Class { shard, class, index } => {
                (index << 32 | shard << 16 | class << 8 | 1) as u64
            }
            Self::Alone { spans } => (spans << 8 | 2) as u64,
            Self::Inside => 3,
            Self::Nobody => 0,
        }
    }

    pub(super) fn of(word: u64) -> Self {
        match word & 0xFF {
            1 => Self::Class {
                shard: (word >> 16 & 0xFFFF) as usize,
                class: (word >> 8 & 0xFF) as usize,
                index: (word >> 32) as usize,
            },
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
    /// Which span of the arena it is.
    pub(super) at: usize,
    /// One bit for each place that is taken. In a medium of epochs each word is followed by one of the
    /// places that were given out in the epoch `fresh_in`, in the same cache line. A place that was given
    /// out and is not taken is kept.
    words: Box<[u64]>,
    /// How many words there are for 64 places.
    stride: usize,
    /// The last epoch in which places were given out.
    fresh_in: u64,
    /// Places before this word are taken or kept.
    low: usize,
    /// Whether no place is given out, since it is not known yet which places are taken.
    pub(super) is_held: bool,
    /// Whether the class has it among its partial spans.
    is_partial: bool,
    /// The number of places, and of those that are taken or kept.
    pub(super) places: u32,
    pub(super) live: u32,
}

impl Span {
    /// Makes a span without taken places. `epoch` is zero in a medium without epochs.
    pub(super) fn new(at: usize, class: usize, epoch: u64) -> Self {
        let places = SPAN / size_of_class(class);
        let stride = if epoch == 0 { 1 } else { 2 };
        let mut words = vec![0_u64; places.div_ceil(64) * stride].into_boxed_slice();
        if !places.is_multiple_of(64) {
            // Bits behind the last place count as taken.
            words[places / 64 * stride] = !0 << (places % 64);
        }
        Self {
            at,
            words,
            stride,
            fresh_in: 0,
            low: 0,
            is_held: false,
            is_partial: false,
            places: places as u32,
            live: 0,
        }
    }

    /// Returns the index of a place's word, and its bit.
    fn bit(&self, place: usize) -> (usize, u64) {
        (place / 64 * self.stride, 1 << (place % 64))
    }

    /// Takes a free place. `epoch` is zero in a medium without epochs.
    pub(super) fn reuse(&mut self, epoch: u64) -> Option<usize> {
        let in_use = |words: &[u64]| words.iter().fold(0, |all, word| all | word);
        let words = self.words.chunks_exact(self.stride).skip(self.low);
        self.low += words.take_while(|&words| in_use(words) == !0).count();
        let at = self.low * self.stride;
        let free = !in_use(self.words.get(at..at + self.stride)?);
        let place = 64 * self.low + free.trailing_zeros() as usize;
        self.take(place, epoch);
        self.live += 1;
        Some(place)
    }

    fn take(&mut self, place: usize, epoch: u64) {
        let (at, bit) = self.bit(place);
        self.words[at] |= bit;
        if self.stride == 2 {
            if self.fresh_in != epoch {
                // Kept places stay.
                self.words.chunks_exact_mut(2).for_each(|words| words[1] &= !words[0]);
                self.fresh_in = epoch;
            }
            self.words[at + 1] |= bit;
        }
    }

    /// Whether a place is kept.
    fn is_kept(&self, place: usize) -> bool {
        let (at, bit) = self.bit(place);
        let fresh = self.words.get(at + 1).filter(|_| self.stride == 2);
        fresh.is_some_and(|word| !self.words[at] & word & bit != 0)
    }

    /// Keeps a place that is taken and fresh.
    fn keep(&mut self, place: usize) {
        let (at, bit) = self.bit(place);
        self.words[at] &= !bit;
    }

    /// Gives all kept places back.
    pub(super) fn let_kept_go(&mut self) {
        if self.stride == 2 {
            for words in self.words.chunks_exact_mut(2) {
                self.live -= (words[1] & !words[0]).count_ones();
                words[1] &= words[0];
            }
            self.low = 0;
        }
    }

    /// Whether a place is there and taken.
    pub(super) fn is_taken(&self, place: usize) -> bool {
        let (at, bit) = self.bit(place);
        place < self.places as usize && self.words[at] & bit != 0
    }

    /// Whether a taken place was given out in this epoch.
    fn is_fresh(&self, place: usize, epoch: u64) -> bool {
        let (at, bit) = self.bit(place);
        self.stride == 2
            && self.fresh_in == epoch
            && self.words.get(at + 1).is_some_and(|word| self.words[at] & word & bit != 0)
    }

    /// Prefetches the words of a place.
    pub(super) fn prefetch(&self, place: usize) {
        prefetch(self.words.as_ptr().wrapping_add(self.bit(place).0));
    }

    /// Gives back a place that is taken or kept.
    pub(super) fn give_back(&mut self, place: usize) {
        let (at, bit) = self.bit(place);
        self.words[at..at + self.stride].iter_mut().for_each(|word| *word &= !bit);
        self.low = self.low.min(place / 64);
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
            let (at, bit) = self.bit(place);
            self.words[at] |= bit;
            self.live += 1;
        }
        is_free
    }

    /// Returns as words which places are taken.
    pub(super) fn taken(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().copied().step_by(self.stride)
    }

    /// Makes a span from the first of these words, which tell which places are taken. Also returns how
    /// many it has read; nothing if there are too few.
    pub(super) fn of_words(
        at: usize,
        class: usize,
        epoch: u64,
        words: &[u64],
    ) -> Option<(Self, usize)> {
        let mut span = Self::new(at, class, epoch);
        let len = span.words.len() / span.stride;
        let behind = span.taken().last()?;
        let words = words.get(..len)?;
        for (at, word) in words.iter().enumerate() {
            let last = if at + 1 == len { behind } else { 0 };
            span.words[at * span.stride] = word | last;
        }
        let taken: u32 = span.taken().map(u64::count_ones).sum();
        span.live = taken - behind.count_ones();
        Some((span, len))
    }
}

/// The spans of a class.
#[derive(Debug, Default)]
pub(super) struct Class {
    /// By the index that a span's owner has.
    spans: Vec<Option<Span>>,
    /// Indexes without a span.
    vacant: Vec<usize>,
    /// The spans with a free place that is given out, and their indexes.
    partial: BTreeSet<(usize, usize)>,
    /// Places that were given back last, for the next strings: in a medium of epochs those that were
    /// given out in the same epoch. In RAM a place that goes through here costs a lock and no look at
    /// its span, whose words are seldom in a cache. In a medium of epochs the span says whether a place
    /// is kept indeed: the look when it was given back has brought its words into a cache.
    kept: Vec<usize>,
    /// About how many places are in use: those that the shard has given out, less those that were given
    /// back to it, and those of spans that came with taken places. Below zero in a shard whose threads
    /// remove what others store.
    pub(super) given: isize,
}

/// What a span has when a place was given back to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    /// The place was not taken, or not kept, or there is none.
    Twice,
    /// Other places that are taken, or places that are not given out.
    Back,
    /// No taken place.
    Last,
}

impl Class {
    pub(super) fn span(&self, index: usize) -> Option<&Span> {
        self.spans.get(index)?.as_ref()
    }

    fn span_mut(&mut self, index: usize) -> Option<&mut Span> {
        self.spans.get_mut(index)?.as_mut()
    }

    /// Returns the indexes of spans that a condition holds for.
    pub(super) fn spans_that(&self, holds: impl Fn(&Span) -> bool) -> Vec<usize> {
        let spans = self.spans.iter().enumerate();
        spans.filter(|(_, span)| span.as_ref().is_some_and(&holds)).map(|(at, _)| at).collect()
    }

    /// Adds a span, and returns its index.
    pub(super) fn insert(&mut self, mut span: Span) -> usize {
        let index = self.vacant.pop().unwrap_or(self.spans.len());
        self.given += span.live as isize;
        span.is_partial = !span.is_full() && !span.is_held;
        if span.is_partial {
            self.partial.insert((span.at, index));
        }
        if index == self.spans.len() {
            self.spans.push(Some(span));
        } else {
            self.spans[index] = Some(span);
        }
        index
    }

    /// Takes a span out.
    pub(super) fn remove(&mut self, index: usize) -> Option<Span> {
        let span = self.spans.get_mut(index)?.take()?;
        self.vacant.push(index);
        self.given -= span.live as isize;
        if span.is_partial {
            self.partial.remove(&(span.at, index));
        }
        Some(span)
    }

    /// Returns the lowest span that gives places out, and its index.
    pub(super) fn first_partial(&self) -> Option<(usize, usize)> {
        self.partial.first().copied()
    }

    /// Returns the next one.
    pub(super) fn second_partial(&self) -> Option<(usize, usize)> {
        self.partial.iter().nth(1).copied()
    }

    /// Takes a place of the lowest span, so that the highest spans become free. Returns the span and
    /// the place.
    fn take(&mut self, epoch: u64) -> Option<(usize, usize)> {
        let (at, index) = self.first_partial()?;
        let span = self.span_mut(index)?;
        let place = span.reuse(epoch)?;
        if span.is_full() {
            span.is_partial = false;
            self.partial.remove(&(at, index));
        }
        self.given += 1;
        Some((at, place))
    }

    /// Makes a place of a span a kept one, if it was given out in this epoch.
    pub(super) fn keep_fresh(&mut self, index: usize, place: usize, epoch: u64) -> bool {
        let span = self.span_mut(index).filter(|span| !span.is_held && span.is_fresh(place, epoch));
        span.map(|span| span.keep(place)).is_some()
    }

    /// Takes a place that is kept. Returns false if it is not.
    pub(super) fn take_again(&mut self, index: usize, place: usize, epoch: u64) -> bool {
        let span = self.span_mut(index).filter(|span| span.is_kept(place));
        span.map(|span| span.take(place, epoch)).is_some()
    }

    /// Gives a taken place back to its span.
    pub(super) fn give_back(&mut self, index: usize, place: usize) -> Given {
        self.give_back_if(index, place, Span::is_taken)
    }

    /// Gives a kept place back to its span.
    pub(super) fn give_back_kept(&mut self, index: usize, place: usize) -> Given {
        self.give_back_if(index, place, Span::is_kept)
    }

    fn give_back_if(
        &mut self,
        index: usize,
        place: usize,
        is_so: impl Fn(&Span, usize) -> bool,
    ) -> Given {
        let Some(span) = self.span_mut(index).filter(|span| is_so(span, place)) else {
            return Given::Twice;
        };
        span.give_back(place);
        if span.is_held {
            return Given::Back;
        }
        let is_empty = span.live == 0;
        if !span.is_partial {
            span.is_partial = true;
            let at = span.at;
            self.partial.insert((at, index));
        }
        if is_empty { Given::Last } else { Given::Back }
    }

    /// Lets free places of a held span be given out. Returns whether it has no taken one.
    #[cfg(durable)]
    pub(super) fn let_go(&mut self, index: usize) -> bool {
        let Some(span) = self.span_mut(index) else { return false };
        span.is_held = false;
        span.is_partial = !span.is_full();
        let (at, is_partial, is_empty) = (span.at, span.is_partial, span.live == 0);
        if is_partial {
            self.partial.insert((at, index));
        }
        is_empty
    }

    /// Marks a place of a held span as taken. Returns false if it was.
    #[cfg(durable)]
    pub(super) fn mark(&mut self, index: usize, place: usize) -> bool {
        let is_taken = self.span_mut(index).is_some_and(|span| span.take_at(place));
        self.given += isize::from(is_taken);
        is_taken
    }

    /// Returns how many places the class may keep: few beside those that are in use, so that they
    /// hold few spans back.
    fn most_kept(&self, size: usize) -> usize {
        /// About what a thread gives back at once, when no guard sees it any more.
        const MOST: usize = 256;
        /// As many places of a KiB, whose spans are seldom in a cache either.
        const MOST_BYTES: usize = 512 << 10;
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

    /// Takes a place for so many bytes. Returns its offset.
    pub(super) fn take(&mut self, class: usize, bytes: usize, epoch: u64) -> Option<usize> {
        let (span, place) = self.classes[class].take(epoch)?;
        let size = size_of_class(class);
        self.totals.add(bytes, size);
        Some(span * SPAN + place * size)
    }

    /// Takes the place that was given back last.
    #[inline(always)]
    pub(super) fn take_kept(&mut self, class: usize) -> Option<usize> {
        self.classes[class].kept.pop()
    }

    /// Returns the place that is taken next.
    #[inline(always)]
    pub(super) fn next_kept(&self, class: usize) -> Option<usize> {
        self.classes[class].kept.last().copied()
    }

    /// Counts a place for so many bytes that was kept.
    #[inline(always)]
    pub(super) fn count(&mut self, class: usize, bytes: usize) {
        self.classes[class].given += 1;
        self.totals.add(bytes, size_of_class(class));
    }

    /// Counts that a place for so many bytes is given back, and not kept.
    pub(super) fn count_back(&mut self, class: usize, bytes: usize) {
        self.classes[class].given -= 1;
        self.totals.subtract(bytes, size_of_class(class));
    }

    pub(super) fn has_kept(&self, class: usize, place: usize) -> bool {
        self.classes[class].kept.contains(&place)
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
