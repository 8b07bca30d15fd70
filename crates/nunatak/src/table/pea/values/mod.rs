//! Value buffers: the values of keys that have many (section 3.3).
//!
//! A value segment is as large as a segment of buckets, and divided into buffers of one
//! type: those of type k are 2^k blocks of 256 bytes. The values of a key are in one
//! buffer, and move to one twice as large when it is full. The last type is a whole
//! segment, of which a key may have any number: each but the first one names the one
//! before it in its first word.
//!
//! ```text
//! pointer   63 … 59   58 … 38              37 … 0
//!           | type    | values in it       | first block |
//! ```
//!
//! Invariants
//! 1. Who holds the lock of the bucket that a pointer is in is the only one to change
//!    its buffer. Readers copy it meanwhile, as far as it is mapped, and ask the bucket's
//!    version afterwards whether that counts.
//! 2. A pointer's buffer is full up to the number of values that the pointer says, and
//!    never empty; those before it in a chain are full.
//!
//! Words are stored relaxed: what publishes them is the release of the pointer, or of the
//! lock. Who has the lock loads them relaxed; readers validate what they have loaded.

use super::segments::room;
use crate::error::Error;
use crate::memory::{MemoryUsage, Stretch};
use crate::sync::{AtomicU64, DATA, Mutex, Ordering};
use crate::table::addresses::Addresses;
use std::collections::BTreeSet;

/// Words of a block.
const WORDS: usize = if cfg!(any(loom, shuttle)) { 4 } else { 32 };

const BLOCK_BYTES: usize = WORDS * size_of::<u64>();
const BLOCK_BITS: u32 = 38;
const COUNT_BITS: u32 = 21;

/// The values of a key: where they are, and how many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pointer(pub(super) u64);

impl Pointer {
    fn new(kind: usize, count: usize, block: usize) -> Self {
        debug_assert!(count < 1 << COUNT_BITS && (block as u64) < 1 << BLOCK_BITS);
        let count = (count as u64) << BLOCK_BITS;
        Self((kind as u64) << (BLOCK_BITS + COUNT_BITS) | count | block as u64)
    }

    fn kind(self) -> usize {
        (self.0 >> (BLOCK_BITS + COUNT_BITS)) as usize
    }

    fn count(self) -> usize {
        (self.0 >> BLOCK_BITS) as usize & ((1 << COUNT_BITS) - 1)
    }

    fn block(self) -> usize {
        (self.0 & ((1 << BLOCK_BITS) - 1)) as usize
    }

    fn with_count(self, count: usize) -> Self {
        Self::new(self.kind(), count, self.block())
    }
}

/// What is left when a value was taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    Many(Pointer),
    One(u64),
}

#[derive(Debug)]
pub(super) struct Values {
    /// Of all blocks.
    words: Stretch<AtomicU64>,
    /// Blocks of a segment: a power of two.
    per_segment: usize,
    most: usize,
    state: Mutex<State>,
    _addresses: Addresses,
}

#[derive(Debug, Default)]
struct State {
    segments: Vec<Segment>,
    /// Segments that are not used at all.
    free: BTreeSet<usize>,
    /// Of each type, the segments that have a free buffer.
    with_room: Vec<BTreeSet<usize>>,
}

#[derive(Debug, Default)]
struct Segment {
    kind: usize,
    used: usize,
    /// Buffers that are free, by their numbers.
    free: Vec<u16>,
}

impl Values {
    pub(super) fn new(per_segment: usize) -> Result<Self, Error> {
        let bytes = per_segment * BLOCK_BYTES;
        let most_blocks = 1_usize << BLOCK_BITS.min(usize::BITS - 2);
        let mut most = (Addresses::share() as usize / bytes).clamp(8, most_blocks / per_segment);
        let words = loop {
            match Stretch::new(0, most * per_segment * WORDS) {
                Ok(words) => break words,
                // The system may limit the addresses of a process.
                Err(_) if most > 8 => most /= 2,
                Err(error) => return Err(error),
            }
        };
        let kinds = per_segment.ilog2() as usize + 1;
        let with_room = (0..kinds).map(|_| BTreeSet::new()).collect();
        Ok(Self {
            words,
            per_segment,
            most,
            state: Mutex::new(State { with_room, ..State::default() }),
            _addresses: Addresses::count((most * bytes) as u64),
        })
    }

    /// The type of whole segments, which are chained.
    fn last_kind(&self) -> usize {
        self.per_segment.ilog2() as usize
    }

    /// The first word of a buffer that holds a value.
    fn first_word(&self, kind: usize) -> usize {
        usize::from(kind == self.last_kind())
    }

    /// How many values a buffer of a type holds.
    fn capacity(&self, kind: usize) -> usize {
        (WORDS << kind) - self.first_word(kind)
    }

    fn word(&self, block: usize, word: usize) -> &AtomicU64 {
        self.words.at(block * WORDS + word)
    }

    /// The place of a value.
    fn value(&self, pointer: Pointer, at: usize) -> &AtomicU64 {
        self.word(pointer.block(), self.first_word(pointer.kind()) + at)
    }

    /// The full buffer before one of a chain.
    fn before(&self, pointer: Pointer) -> Option<Pointer> {
        if pointer.kind() != self.last_kind() {
            return None;
        }
        let link = self.word(pointer.block(), 0).load(DATA);
        let capacity = self.capacity(pointer.kind());
        (link != 0).then(|| Pointer::new(pointer.kind(), capacity, self.block_of(link)))
    }

    fn block_of(&self, link: u64) -> usize {
        ((link - 1) & ((1 << BLOCK_BITS) - 1)) as usize
    }

    /// Whether a pointer that may be nonsense can be followed.
    fn is_mapped(&self, pointer: Pointer) -> bool {
        pointer.kind() <= self.last_kind()
            && (pointer.block() + (1 << pointer.kind())) * WORDS <= self.words.len()
            && pointer.count() <= self.capacity(pointer.kind())
    }

    /// The buffers of a key, which may change meanwhile: it is asked from time to time
    /// whether to go on.
    fn chain(&self, last: Pointer, is_still: impl Fn() -> bool) -> impl Iterator<Item = Pointer> {
        let is_sound = move |pointer: &Pointer| self.is_mapped(*pointer);
        let mut next = Some(last).filter(is_sound);
        core::iter::from_fn(move || {
            let current = next?;
            next = self.before(current).filter(|pointer| is_sound(pointer) && is_still());
            Some(current)
        })
    }

    /// How many values there are.
    pub(super) fn count(&self, pointer: Pointer, is_still: impl Fn() -> bool) -> usize {
        self.chain(pointer, is_still).map(Pointer::count).sum()
    }

    /// All values, buffer by buffer, the last buffer first if there are more.
    #[inline(always)]
    pub(super) fn each_buffer(
        &self,
        pointer: Pointer,
        is_still: impl Fn() -> bool,
        mut visit: impl FnMut(&[AtomicU64]),
    ) {
        for buffer in self.chain(pointer, is_still) {
            let first = buffer.block() * WORDS + self.first_word(buffer.kind());
            visit(self.words.slice(first, buffer.count()));
        }
    }

    /// All values.
    pub(super) fn each(
        &self,
        pointer: Pointer,
        is_still: impl Fn() -> bool,
        mut visit: impl FnMut(u64),
    ) {
        self.each_buffer(pointer, is_still, |words| {
            words.iter().for_each(|word| visit(word.load(DATA)));
        });
    }

    /// Whether a value is one of a key's.
    pub(super) fn contains(
        &self,
        pointer: Pointer,
        value: u64,
        is_still: impl Fn() -> bool,
    ) -> bool {
        self.chain(pointer, is_still).any(|buffer| self.find(buffer, value).is_some())
    }

    /// The value that was stored last.
    pub(super) fn newest(&self, pointer: Pointer) -> Option<u64> {
        let last = pointer.count().checked_sub(1).filter(|_| self.is_mapped(pointer))?;
        Some(self.value(pointer, last).load(DATA))
    }

    fn find(&self, buffer: Pointer, value: u64) -> Option<usize> {
        let first = buffer.block() * WORDS + self.first_word(buffer.kind());
        let words = self.words.slice(first, buffer.count());
        words.iter().position(|word| word.load(DATA) == value)
    }

    /// The lines that a reader of a buffer comes to first.
    pub(super) fn address(&self, pointer: Pointer) -> *const u8 {
        self.words.address(pointer.block() * WORDS).cast()
    }

    /// The line that the next value is stored in.
    pub(super) fn end(&self, pointer: Pointer) -> *const u8 {
        let word = self.first_word(pointer.kind()) + pointer.count();
        self.address(pointer).wrapping_add(word * size_of::<u64>())
    }

    /// Puts values into buffers of their own.
    pub(super) fn store(&self, values: &[u64]) -> Result<Pointer, Error> {
        let kinds = 0..self.last_kind();
        let fits = |kind: &usize| values.len() <= self.capacity(*kind);
        let kind = kinds.into_iter().find(fits).unwrap_or(self.last_kind());
        let mut pointer = self.take(kind, 0)?;
        for &value in values {
            match self.append(pointer, value) {
                Ok(next) => pointer = next,
                Err(error) => {
                    self.free(pointer);
                    return Err(error);
                }
            }
        }
        Ok(pointer)
    }

    /// Puts another value behind those of a key.
    pub(super) fn append(&self, pointer: Pointer, value: u64) -> Result<Pointer, Error> {
        let (kind, count) = (pointer.kind(), pointer.count());
        let pointer = match count < self.capacity(kind) {
            true => pointer,
            false if kind == self.last_kind() => self.take(kind, pointer.block() as u64 + 1)?,
            false => self.move_to(kind + 1, pointer)?,
        };
        let count = pointer.count();
        // Relaxed: before the release of the pointer or of the lock.
        self.value(pointer, count).store(value, Ordering::Relaxed);
        Ok(pointer.with_count(count + 1))
    }

    /// Takes one of the values out, if it is there.
    pub(super) fn remove(&self, pointer: Pointer, value: u64) -> Option<Left> {
        let found = self.chain(pointer, || true).find_map(|buffer| {
            let at = self.find(buffer, value)?;
            Some(self.value(buffer, at))
        });
        let last = self.value(pointer, pointer.count() - 1);
        found?.store(last.load(Ordering::Relaxed), Ordering::Relaxed);
        let left = pointer.with_count(pointer.count() - 1);
        let (kind, count) = (left.kind(), left.count());
        match self.before(left) {
            Some(before) if count == 0 => {
                self.give_back(left);
                return Some(Left::Many(before));
            }
            Some(_) => return Some(Left::Many(left)),
            None => {}
        }
        if count == 1 {
            let one = self.value(left, 0).load(Ordering::Relaxed);
            self.give_back(left);
            return Some(Left::One(one));
        }
        // Half full afterwards, so that the next few changes move nothing.
        let is_sparse = kind > 0 && count <= self.capacity(kind - 1) / 2;
        let smaller = if is_sparse { self.move_to(kind - 1, left).ok() } else { None };
        Some(Left::Many(smaller.unwrap_or(left)))
    }

    /// Gives all buffers of a key back.
    pub(super) fn free(&self, pointer: Pointer) {
        let mut next = Some(pointer);
        while let Some(buffer) = next {
            next = self.before(buffer);
            self.give_back(buffer);
        }
    }

    /// Moves the values of a buffer to one of another type.
    fn move_to(&self, kind: usize, from: Pointer) -> Result<Pointer, Error> {
        let to = self.take(kind, 0)?.with_count(from.count());
        for at in 0..from.count() {
            let value = self.value(from, at).load(Ordering::Relaxed);
            self.value(to, at).store(value, Ordering::Relaxed);
        }
        self.give_back(from);
        Ok(to)
    }

    /// An empty buffer, behind another one if it is a chain's.
    fn take(&self, kind: usize, link: u64) -> Result<Pointer, Error> {
        let mut state = self.state.lock();
        let State { segments, free, with_room } = &mut *state;
        let number = match with_room[kind].first() {
            Some(&number) => number,
            None => {
                let number = match free.pop_first() {
                    Some(number) => number,
                    None if segments.len() >= self.most => return Err(Error::CapacityOverflow),
                    None => {
                        let bytes = self.per_segment * BLOCK_BYTES;
                        let room = room(segments.len() + 1, bytes);
                        self.words.grow(room * self.per_segment * WORDS)?;
                        segments.push(Segment::default());
                        segments.len() - 1
                    }
                };
                let buffers = (self.per_segment >> kind) as u32;
                let free = (0..buffers).rev().map(|buffer| buffer as u16).collect();
                segments[number] = Segment { kind, used: 0, free };
                with_room[kind].insert(number);
                number
            }
        };
        let segment = &mut segments[number];
        let buffer = segment.free.pop().unwrap_or_default();
        segment.used += 1;
        if segment.free.is_empty() {
            with_room[kind].remove(&number);
        }
        drop(state);
        let block = number * self.per_segment + ((buffer as usize) << kind);
        if kind == self.last_kind() {
            self.word(block, 0).store(link, Ordering::Relaxed);
        }
        Ok(Pointer::new(kind, 0, block))
    }

    fn give_back(&self, pointer: Pointer) {
        let mut state = self.state.lock();
        let number = pointer.block() / self.per_segment;
        let State { segments, free, with_room } = &mut *state;
        let segment = &mut segments[number];
        debug_assert_eq!(segment.kind, pointer.kind());
        let buffer = (pointer.block() % self.per_segment) >> segment.kind;
        segment.free.push(buffer as u16);
        segment.used -= 1;
        if segment.used == 0 {
            with_room[segment.kind].remove(&number);
            segment.free = Vec::new();
            free.insert(number);
        } else if segment.free.len() == 1 {
            with_room[segment.kind].insert(number);
        }
    }

    /// Gives the memory of the last segments back to the system, if they are free.
    pub(super) fn trim(&self) {
        let mut state = self.state.lock();
        let before = state.segments.len();
        while let Some(last) = state.segments.len().checked_sub(1)
            && state.free.remove(&last)
        {
            state.segments.pop();
        }
        if state.segments.len() < before {
            self.words.shrink(state.segments.len() * self.per_segment * WORDS);
        }
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        self.words.usage()
    }

    /// How many segments there are, and of each type how many buffers are in use.
    pub(super) fn stats(&self) -> (usize, Vec<usize>) {
        let state = self.state.lock();
        let mut buffers = vec![0; self.last_kind() + 1];
        for segment in &state.segments {
            buffers[segment.kind] += segment.used;
        }
        (state.segments.len() - state.free.len(), buffers)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn all(values: &Values, pointer: Pointer) -> Vec<u64> {
        let mut all = Vec::new();
        values.each(pointer, || true, |value| all.push(value));
        all.sort_unstable();
        all
    }

    /// Segments of eight blocks: types of 32, 64, 128 and chained 255 values.
    #[test]
    fn buffers_grow_and_shrink_with_what_they_hold() {
        let values = Values::new(8).unwrap();
        let mut pointer = values.store(&[0, 1]).unwrap();
        for value in 2..3000 {
            pointer = values.append(pointer, value).unwrap();
            let kind = [32, 64, 128, u64::MAX].iter().position(|&most| value < most).unwrap();
            assert_eq!(pointer.kind(), kind);
            assert_eq!(values.count(pointer, || true), value as usize + 1);
        }
        assert_eq!(all(&values, pointer), (0..3000).collect::<Vec<_>>());
        assert_eq!(values.stats(), (12, vec![0, 0, 0, 12]));
        assert!(values.contains(pointer, 7, || true) && !values.contains(pointer, 3000, || true));

        for value in 0..2998 {
            assert_eq!(values.remove(pointer, 3000), None);
            match values.remove(pointer, value) {
                Some(Left::Many(left)) => pointer = left,
                other => panic!("{other:?}"),
            }
            assert_eq!(values.count(pointer, || true), 2999 - value as usize);
        }
        assert_eq!((pointer.kind(), all(&values, pointer)), (0, vec![2998, 2999]));
        assert_eq!(values.remove(pointer, 2998), Some(Left::One(2999)));
        assert_eq!(values.stats(), (0, vec![0; 4]));
        values.trim();
        assert_eq!(values.words.len(), 0);
    }

    #[test]
    fn buffers_that_were_freed_are_used_again() {
        let values = Values::new(8).unwrap();
        let pointers: Vec<_> = (0..20).map(|n| values.store(&[n; 40]).unwrap()).collect();
        assert_eq!(values.stats(), (5, vec![0, 20, 0, 0]));
        pointers.iter().step_by(2).for_each(|&pointer| values.free(pointer));
        let again: Vec<_> = (0..10).map(|n| values.store(&[n; 64]).unwrap()).collect();
        assert_eq!(values.stats(), (5, vec![0, 20, 0, 0]));
        for (n, &pointer) in again.iter().enumerate() {
            assert_eq!(all(&values, pointer), [n as u64; 64]);
        }
        let odd = pointers.iter().enumerate().skip(1).step_by(2);
        odd.for_each(|(n, &pointer)| assert_eq!(all(&values, pointer), [n as u64; 40]));
    }

    /// As a reader may find it that comes too late.
    #[test]
    fn nonsense_is_not_followed() {
        let values = Values::new(8).unwrap();
        values.store(&[1, 2, 3]).unwrap();
        for nonsense in [u64::MAX, 0, 1 << 59, 3 << 59 | 255 << 38, 7 << 38] {
            // A chain may lead back to itself, until somebody asks.
            let asked = core::cell::Cell::new(0);
            let is_still = || asked.replace(asked.get() + 1) < 10;
            values.each(Pointer(nonsense), is_still, |_| ());
            asked.set(0);
            let _ = values.count(Pointer(nonsense), is_still);
        }
    }
}
