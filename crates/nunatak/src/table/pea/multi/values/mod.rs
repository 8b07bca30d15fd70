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
//! 3. A buffer is given back when no pointer names it any more, durably.
//!
//! Words are stored relaxed: what publishes them is the release of the pointer, or of the
//! lock. Who has the lock loads them relaxed; readers validate what they have loaded.

mod buffers;
mod change;
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
mod found;

pub(in crate::table::pea) use change::{Left, Removal};

use crate::error::Error;
use crate::memory::Addresses;
use crate::memory::{Heap, Medium, MemoryUsage, Part, ReservedArray};
use crate::sync::{AtomicU64, DATA, Mutex};
use buffers::{Old, State};

/// Words of a block.
const WORDS: usize = if cfg!(any(loom, shuttle)) { 4 } else { 32 };

const BLOCK_BYTES: usize = WORDS * size_of::<u64>();
const BLOCK_BITS: u32 = 38;
const COUNT_BITS: u32 = 21;

/// Words that are side by side in every medium.
const PAGE_WORDS: usize = 4096 / size_of::<u64>();

/// The values of a key: where they are, and how many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::table::pea) struct Pointer(pub(in crate::table::pea) u64);

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

#[derive(Debug)]
pub(in crate::table::pea) struct Values<M: Medium = Heap> {
    medium: M,
    /// Of all blocks.
    words: ReservedArray<AtomicU64, M>,
    /// Blocks of a segment: a power of two.
    per_segment: usize,
    most: usize,
    state: Mutex<State>,
    old: Mutex<Vec<Old>>,
    _addresses: Addresses,
}

impl<M: Medium> Values<M> {
    pub(in crate::table::pea) fn new(medium: &M, per_segment: usize) -> Result<Self, Error> {
        let bytes = per_segment * BLOCK_BYTES;
        let most_blocks = 1_usize << BLOCK_BITS;
        let mut most = (Addresses::share() as usize / bytes).clamp(8, most_blocks / per_segment);
        let words = loop {
            match ReservedArray::within(medium, Part::Values, 0, most * per_segment * WORDS) {
                Ok(words) => break words,
                // The system may limit the addresses of a process.
                Err(_) if most > 8 => most /= 2,
                Err(error) => return Err(error),
            }
        };
        Ok(Self {
            medium: medium.clone(),
            words,
            per_segment,
            most,
            state: Mutex::new(State::new(per_segment.ilog2() as usize + 1)),
            old: Mutex::new(Vec::new()),
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

    /// The number of the word of a value.
    fn place(&self, pointer: Pointer, at: usize) -> usize {
        pointer.block() * WORDS + self.first_word(pointer.kind()) + at
    }

    /// The word of a value, by its number.
    pub(in crate::table::pea) fn word(&self, place: usize) -> &AtomicU64 {
        self.words.at(place)
    }

    /// The place of a value.
    fn value(&self, pointer: Pointer, at: usize) -> &AtomicU64 {
        self.words.at(self.place(pointer, at))
    }

    /// The full buffer before one of a chain.
    fn before(&self, pointer: Pointer) -> Option<Pointer> {
        if pointer.kind() != self.last_kind() {
            return None;
        }
        let link = self.words.at(pointer.block() * WORDS).load(DATA);
        let capacity = self.capacity(pointer.kind());
        (link != 0).then(|| Pointer::new(pointer.kind(), capacity, self.block_of(link)))
    }

    fn block_of(&self, link: u64) -> usize {
        ((link - 1) & ((1 << BLOCK_BITS) - 1)) as usize
    }

    /// Whether a pointer that may be nonsense can be followed.
    pub(in crate::table::pea) fn is_mapped(&self, pointer: Pointer) -> bool {
        pointer.kind() <= self.last_kind()
            && (pointer.block() + (1 << pointer.kind())) * WORDS <= self.words.len()
            && pointer.count() <= self.capacity(pointer.kind())
    }

    /// The buffers of a key, which may change meanwhile: it is asked from time to time
    /// whether to go on.
    fn chain(&self, last: Pointer, is_still: impl Fn() -> bool) -> impl Iterator<Item = Pointer> {
        let is_sound = move |pointer: &Pointer| self.is_mapped(*pointer);
        let mut next = Some(last).filter(is_sound);
        let mut count = 0;
        core::iter::from_fn(move || {
            let current = next?;
            count += 1;
            let goes_on = |pointer: &Pointer| {
                // No more than there are: in a damaged file they may lead back.
                let is_chain = count <= self.words.len() / (self.per_segment * WORDS);
                is_chain && is_sound(pointer) && is_still()
            };
            next = self.before(current).filter(goes_on);
            Some(current)
        })
    }

    /// How many values there are.
    pub(in crate::table::pea) fn count(
        &self,
        pointer: Pointer,
        is_still: impl Fn() -> bool,
    ) -> usize {
        self.chain(pointer, is_still).map(Pointer::count).sum()
    }

    /// The words of a buffer that hold values, as far as they are side by side.
    #[inline(always)]
    fn pieces(&self, buffer: Pointer) -> impl Iterator<Item = &[AtomicU64]> {
        let most = if M::IS_PAGED { PAGE_WORDS } else { usize::MAX };
        let mut next = self.place(buffer, 0);
        let end = next + buffer.count();
        core::iter::from_fn(move || {
            let count = (end - next).min(most - next % most);
            next += count;
            (count > 0).then(|| self.words.slice(next - count, count))
        })
    }

    /// All values, piece by piece, those of the last buffer first if there are more.
    #[inline(always)]
    pub(in crate::table::pea) fn each_piece(
        &self,
        pointer: Pointer,
        is_still: impl Fn() -> bool,
        mut visit: impl FnMut(&[AtomicU64]),
    ) {
        for buffer in self.chain(pointer, is_still) {
            self.pieces(buffer).for_each(&mut visit);
        }
    }

    /// All values.
    pub(in crate::table::pea) fn each(
        &self,
        pointer: Pointer,
        is_still: impl Fn() -> bool,
        mut visit: impl FnMut(u64),
    ) {
        self.each_piece(pointer, is_still, |words| {
            words.iter().for_each(|word| visit(word.load(DATA)));
        });
    }

    /// Whether a value is one of a key's.
    pub(in crate::table::pea) fn contains(
        &self,
        pointer: Pointer,
        value: u64,
        is_still: impl Fn() -> bool,
    ) -> bool {
        self.chain(pointer, is_still).any(|buffer| self.find(buffer, value).is_some())
    }

    /// The value that was stored last.
    pub(in crate::table::pea) fn newest(&self, pointer: Pointer) -> Option<u64> {
        let last = pointer.count().checked_sub(1).filter(|_| self.is_mapped(pointer))?;
        Some(self.value(pointer, last).load(DATA))
    }

    fn find(&self, buffer: Pointer, value: u64) -> Option<usize> {
        let mut before = 0;
        self.pieces(buffer).find_map(|words| {
            let found = words.iter().position(|word| word.load(DATA) == value);
            let at = found.map(|at| before + at);
            before += words.len();
            at
        })
    }

    /// Of the lines that a reader of a buffer comes to first the addresses, side by side,
    /// and how many they are at most.
    pub(in crate::table::pea) fn lines(&self, pointer: Pointer) -> (*const u8, usize) {
        let bytes = (self.first_word(pointer.kind()) + pointer.count()) * size_of::<u64>();
        (self.words.address(pointer.block() * WORDS).cast(), bytes.div_ceil(64))
    }

    /// The line that the next value is stored in.
    pub(in crate::table::pea) fn end(&self, pointer: Pointer) -> *const u8 {
        let last = self.capacity(pointer.kind()) - 1;
        self.words.address(self.place(pointer, pointer.count().min(last))).cast()
    }

    pub(in crate::table::pea) fn usage(&self) -> MemoryUsage {
        self.words.usage()
    }

    /// Gives what is known of pages behind the last segment back.
    pub(in crate::table::pea) fn trim_map(&self) -> Result<(), Error> {
        self.words.trim_map()
    }
}

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
impl Values<crate::memory::durable::Paged> {
    /// An error if it is said of pages that they are where none are.
    pub(in crate::table::pea) fn check(&self) -> Result<(), Error> {
        self.words.region().check()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::Ordering::Relaxed;

    fn all(values: &Values, pointer: Pointer) -> Vec<u64> {
        let mut all = Vec::new();
        values.each(pointer, || true, |value| all.push(value));
        all.sort_unstable();
        all
    }

    /// Takes a value out as who has the pointer does.
    fn remove(values: &Values, pointer: Pointer, value: u64) -> Option<Left> {
        let found = values.locate(pointer, value)?;
        let Removal { hole, left } = values.plan_removal(pointer, found, false);
        if let Some((word, value)) = hole {
            values.word(word).store(value, Relaxed);
        }
        match left {
            Left::Many(left) => values.replaced(pointer, left),
            Left::One(_) | Left::Nothing => values.free(pointer),
        }
        Some(left)
    }

    fn append(values: &Values, pointer: Pointer, value: u64) -> Pointer {
        let appended = values.append(pointer, value).unwrap();
        values.replaced(pointer, appended);
        appended
    }

    /// Segments of eight blocks: types of 32, 64, 128 and chained 255 values.
    #[test]
    fn buffers_grow_and_shrink_with_what_they_hold() {
        let values = Values::new(&Heap, 8).unwrap();
        let mut pointer = values.store(&[0, 1]).unwrap();
        for value in 2..3000 {
            pointer = append(&values, pointer, value);
            let kind = [32, 64, 128, u64::MAX].iter().position(|&most| value < most).unwrap();
            assert_eq!(pointer.kind(), kind);
            assert_eq!(values.count(pointer, || true), value as usize + 1);
        }
        assert_eq!(all(&values, pointer), (0..3000).collect::<Vec<_>>());
        assert_eq!(values.stats(), (12, vec![0, 0, 0, 12]));
        assert!(values.contains(pointer, 7, || true) && !values.contains(pointer, 3000, || true));

        for value in 0..2998 {
            assert_eq!(remove(&values, pointer, 3000), None);
            match remove(&values, pointer, value) {
                Some(Left::Many(left)) => pointer = left,
                other => panic!("{other:?}"),
            }
            assert_eq!(values.count(pointer, || true), 2999 - value as usize);
        }
        assert_eq!((pointer.kind(), all(&values, pointer)), (0, vec![2998, 2999]));
        assert_eq!(remove(&values, pointer, 2998), Some(Left::One(2999)));
        assert_eq!(values.stats(), (0, vec![0; 4]));
        values.trim();
        assert_eq!(values.words.len(), 0);
    }

    #[test]
    fn buffers_that_were_freed_are_used_again() {
        let values = Values::new(&Heap, 8).unwrap();
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
        let values = Values::new(&Heap, 8).unwrap();
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
