//! Value buffers: the values of keys that have many (section 3.3).
//!
//! A value segment is as large as a segment of buckets, and is divided into buffers of one type. A
//! buffer of type k is 2^k blocks of 256 bytes. The values of a key are in one buffer, and move to
//! a buffer twice as large when it is full. A buffer of the last type is a whole segment. A key may
//! have any number of these, in a chain: the first word of each names the buffer before it.
//!
//! ```text
//! pointer   63 … 59   58 … 38              37 … 0
//!           | type    | values in it       | first block |
//! ```
//!
//! Invariants
//! 1. Only the holder of the lock of a pointer's bucket (in chains: of the key's first bucket)
//!    changes the pointer's buffer. Readers copy the buffer meanwhile, as far as it is mapped. They
//!    validate the bucket's version afterwards.
//! 2. A pointer's buffer holds as many values as the pointer says, and at least one. The buffers
//!    before it in a chain are full.
//! 3. A buffer is given back only after no pointer names it any more, durably.
//!
//! Words are stored relaxed: the release of the pointer or of the lock publishes them. The holder
//! of the lock loads them relaxed; readers validate what they have loaded.

mod buffers;
mod change;
#[cfg(durable)]
mod found;

pub(in crate::table::pea) use change::{Left, Removal};

use crate::error::Error;
use crate::memory::Addresses;
use crate::memory::{Heap, Medium, MemoryUsage, Part, ReservedArray};
use crate::sync::{AtomicU64, DATA, Mutex};
use std::collections::BTreeSet;

/// Words of a block.
const WORDS: usize = if cfg!(modelled) { 4 } else { 32 };

const BLOCK_BYTES: usize = WORDS * size_of::<u64>();
const BLOCK_BITS: u32 = 38;
const COUNT_BITS: u32 = 21;

/// Neighbouring words in every medium.
const PAGE_WORDS: usize = 4096 / size_of::<u64>();

/// Where the values of a key are, and their number.
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

/// Which buffers are in use.
#[derive(Debug, Default)]
struct State {
    segments: Vec<Segment>,
    /// Unused segments.
    free: BTreeSet<usize>,
    /// For each type, the segments with a free buffer.
    with_room: Vec<BTreeSet<usize>>,
    /// The number of old segments.
    old: usize,
}

impl State {
    fn new(kinds: usize) -> Self {
        Self { with_room: (0..kinds).map(|_| BTreeSet::new()).collect(), ..Self::default() }
    }
}

#[derive(Debug, Default)]
struct Segment {
    kind: usize,
    used: usize,
    /// The numbers of the free buffers.
    free: Vec<u16>,
}

/// A segment of which only some used buffers are known.
#[derive(Debug, Default)]
struct Old {
    /// The type of the buffers that were found.
    kind: usize,
    used: usize,
    /// A bit for each buffer.
    marks: Vec<u64>,
}

#[derive(Debug)]
pub(in crate::table::pea) struct Values<M: Medium = Heap> {
    medium: M,
    /// The words of all blocks.
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
        most = most.max(words.len() / (per_segment * WORDS));
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

    /// Returns the type of whole segments, which form chains.
    fn last_kind(&self) -> usize {
        self.per_segment.ilog2() as usize
    }

    /// Returns the first word of a buffer that holds a value.
    fn first_word(&self, kind: usize) -> usize {
        usize::from(kind == self.last_kind())
    }

    /// Returns the number of values that a buffer of a type has room for.
    fn capacity(&self, kind: usize) -> usize {
        (WORDS << kind) - self.first_word(kind)
    }

    /// Returns the number of a value's word.
    fn place(&self, pointer: Pointer, at: usize) -> usize {
        pointer.block() * WORDS + self.first_word(pointer.kind()) + at
    }

    /// Returns the word of a value, by its number.
    pub(in crate::table::pea) fn word(&self, place: usize) -> &AtomicU64 {
        self.words.at(place)
    }

    /// Returns the word of a value, by its buffer and its place there.
    fn value(&self, pointer: Pointer, at: usize) -> &AtomicU64 {
        self.words.at(self.place(pointer, at))
    }

    /// Returns the full buffer before a buffer of a chain.
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

    /// Returns whether a pointer that may be invalid can be followed.
    pub(in crate::table::pea) fn is_mapped(&self, pointer: Pointer) -> bool {
        pointer.kind() <= self.last_kind()
            && (pointer.block() + (1 << pointer.kind())) * WORDS <= self.words.len()
            && pointer.count() <= self.capacity(pointer.kind())
    }

    /// Iterates over the buffers of a key, which may change meanwhile. Asks `is_still` before each
    /// further buffer.
    fn chain(&self, last: Pointer, is_still: impl Fn() -> bool) -> impl Iterator<Item = Pointer> {
        let is_sound = move |pointer: &Pointer| self.is_mapped(*pointer);
        let mut next = Some(last).filter(is_sound);
        let mut count = 0;
        core::iter::from_fn(move || {
            let current = next?;
            count += 1;
            let goes_on = |pointer: &Pointer| {
                // Bounds the length: in a damaged file a chain may lead back to itself.
                let is_chain = count <= self.words.len() / (self.per_segment * WORDS);
                is_chain && is_sound(pointer) && is_still()
            };
            next = self.before(current).filter(goes_on);
            Some(current)
        })
    }

    pub(in crate::table::pea) fn count(
        &self,
        pointer: Pointer,
        is_still: impl Fn() -> bool,
    ) -> usize {
        self.chain(pointer, is_still).map(Pointer::count).sum()
    }

    /// Iterates over the words of a buffer that hold values, in slices of neighbours.
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

    /// Visits all values in slices, the last buffer of a chain first.
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

    /// Returns whether a key has a value.
    pub(in crate::table::pea) fn contains(
        &self,
        pointer: Pointer,
        value: u64,
        is_still: impl Fn() -> bool,
    ) -> bool {
        self.chain(pointer, is_still).any(|buffer| self.find(buffer, value).is_some())
    }

    /// Returns the value that was stored last.
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

    /// Returns the address of a buffer's first line, and the number of lines that hold values.
    pub(in crate::table::pea) fn lines(&self, pointer: Pointer) -> (*const u8, usize) {
        let bytes = (self.first_word(pointer.kind()) + pointer.count()) * size_of::<u64>();
        (self.words.address(pointer.block() * WORDS).cast(), bytes.div_ceil(64))
    }

    /// Returns the address where the next value will be stored.
    pub(in crate::table::pea) fn end(&self, pointer: Pointer) -> *const u8 {
        let last = self.capacity(pointer.kind()) - 1;
        self.words.address(self.place(pointer, pointer.count().min(last))).cast()
    }

    pub(in crate::table::pea) fn usage(&self) -> MemoryUsage {
        self.words.usage()
    }

    /// Gives back what the medium knows of pages behind the last segment.
    pub(in crate::table::pea) fn trim_map(&self) -> Result<(), Error> {
        self.words.trim_map()
    }
}

#[cfg(durable)]
impl Values<crate::memory::durable::Paged> {
    /// Returns an error if a map names pages that are not in the file.
    pub(in crate::table::pea) fn check(&self) -> Result<(), Error> {
        self.words.region().check()
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::sync::Ordering::Relaxed;

    fn all(values: &Values, pointer: Pointer) -> Vec<u64> {
        let mut all = Vec::new();
        values.each(pointer, || true, |value| all.push(value));
        all.sort_unstable();
        all
    }

    /// Removes a value as the holder of the pointer does.
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

    /// Segments of eight blocks: types of 32, 64 and 128 values, and chained buffers of 255.
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

    /// A smaller buffer gets all values but the removed one, wherever that one was.
    #[test]
    fn a_copy_lacks_the_removed_value_only() {
        for removed in 0..17 {
            let values = Values::new(&Heap, 8).unwrap();
            // Too many for the smallest buffer, so that they are in the next one; then few enough.
            let mut pointer = values.store(&(0..40).collect::<Vec<_>>()).unwrap();
            for value in 17..40 {
                let Some(Left::Many(left)) = remove(&values, pointer, value) else { panic!() };
                pointer = left;
            }
            assert_eq!((pointer.kind(), pointer.count()), (1, 17));
            let Some(Left::Many(left)) = remove(&values, pointer, removed) else { panic!() };
            assert_eq!(left.kind(), 0);
            let others: Vec<u64> = (0..17).filter(|&value| value != removed).collect();
            assert_eq!(all(&values, left), others);
        }
    }

    #[test]
    fn a_single_free_buffer_of_a_segment_is_used() {
        let values = Values::new(&Heap, 8).unwrap();
        let pointers: Vec<_> = (0..16).map(|n| values.store(&[n; 20]).unwrap()).collect();
        assert_eq!(values.stats(), (2, vec![16, 0, 0, 0]));
        values.free(pointers[3]);
        values.store(&[7; 20]).unwrap();
        assert_eq!(values.stats(), (2, vec![16, 0, 0, 0]));
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

    /// A reader that comes too late may find such pointers.
    #[test]
    fn nonsense_is_not_followed() {
        let values = Values::new(&Heap, 8).unwrap();
        values.store(&[1, 2, 3]).unwrap();
        for nonsense in [u64::MAX, 0, 1 << 59, 3 << 59 | 255 << 38, 7 << 38] {
            // A chain may lead back to itself, until `is_still` ends the loop.
            let asked = core::cell::Cell::new(0);
            let is_still = || asked.replace(asked.get() + 1) < 10;
            values.each(Pointer(nonsense), is_still, |_| ());
            asked.set(0);
            let _ = values.count(Pointer(nonsense), is_still);
        }
    }

    /// A pointer of which any value would be behind the last segment.
    #[test]
    fn a_pointer_beyond_the_end_is_not_followed() {
        let values = Values::new(&Heap, 8).unwrap();
        values.store(&[1, 2, 3]).unwrap();
        let blocks = values.words.len() / WORDS;
        for (kind, block) in [(0, blocks), (1, blocks - 1), (0, 1 << 37)] {
            let beyond = Pointer::new(kind, 3, block);
            assert!(!values.is_mapped(beyond), "{kind} {block}");
            assert_eq!(values.count(beyond, || true), 0);
        }
    }

    /// In a damaged file a chain may lead back to itself. It has no more buffers than the segments.
    #[test]
    fn a_chain_that_leads_back_to_itself_ends() {
        let values = Values::new(&Heap, 8).unwrap();
        // The first word, read as a link, names its own buffer.
        values.store(&[1, 2, 3]).unwrap();
        let itself = Pointer::new(values.last_kind(), 7, 0);
        assert_eq!(values.before(itself).map(Pointer::block), Some(0));
        assert!(values.chain(itself, || true).take(100).count() <= 2);
    }

    /// Pointers to two segments of eight blocks, of which the second is unused, that name no buffer
    /// in use: another type, no value, not the first block of a buffer, nothing in use, no segment.
    #[cfg(durable)]
    fn wrong_pointers(values: &Values, right: Pointer) -> [Pointer; 6] {
        assert_eq!((right.kind(), right.block(), values.words.len()), (1, 0, 2 * 8 * WORDS));
        [(0, 3, 7), (2, 3, 0), (1, 0, 0), (1, 3, 1), (1, 3, 8), (1, 3, 16)]
            .map(|(kind, count, block)| Pointer::new(kind, count, block))
    }

    #[cfg(durable)]
    #[test]
    fn a_wrong_pointer_names_no_blocks() {
        let values = Values::new(&Heap, 8).unwrap();
        let pointers: Vec<_> = (0..5).map(|n| values.store(&[n; 40]).unwrap()).collect();
        values.free(pointers[4]);
        assert_eq!(values.blocks(pointers[0]), Some(vec![0]));
        for pointer in wrong_pointers(&values, pointers[0]) {
            assert_eq!(values.blocks(pointer), None, "{pointer:?}");
        }
    }

    /// When buffers are searched, one that a second pointer names is not that one's.
    #[cfg(durable)]
    #[test]
    fn a_wrong_pointer_claims_no_buffer() {
        let values = Values::new(&Heap, 8).unwrap();
        let pointers: Vec<_> = (0..5).map(|n| values.store(&[n; 40]).unwrap()).collect();
        values.find_segments().unwrap();
        pointers[..4].iter().for_each(|&pointer| assert!(values.claim(pointer, &())));
        assert!(!values.claim(pointers[0], &()), "twice");
        let [others @ .., _, beyond] = wrong_pointers(&values, pointers[0]);
        others.iter().for_each(|&it| assert!(!values.claim(it, &()), "{it:?}"));
        assert!(!values.claim(beyond, &()));
        assert_eq!(values.stats(), (2, vec![0, 4, 0, 0]));
    }

    /// Words of a closed file that contradict themselves: all buffers are searched again.
    #[cfg(durable)]
    #[test]
    fn words_that_contradict_themselves_are_not_learned() {
        let values = Values::new(&Heap, 8).unwrap();
        (0..3).for_each(|n| _ = values.store(&[n; 40]).unwrap());
        let words = values.to_words().unwrap();
        assert_eq!(words, [1 << 32 | 3, 0b111]);
        for wrong in [
            &[1 << 32 | 2, 0b111][..],
            &[1 << 32 | 3, 0b11],
            &[1 << 32, 0],
            &[1 << 32 | 3],
            &[1 << 32],
            &[4 << 32 | 3, 0b111],
        ] {
            assert!(!values.learn(wrong), "{wrong:?}");
        }
        assert!(values.learn(&words));
        assert_eq!((values.stats(), values.to_words()), ((1, vec![0, 3, 0, 0]), Some(words)));
    }
}
