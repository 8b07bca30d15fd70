//! The places of a map's blobs: few in memory of the allocator, more in an [arena](super::Arena).
//!
//! An arena reserves addresses for all that it may become. So a map in RAM makes its arena only when
//! it has more than a few blobs. In RAM the word of a place is its address, so a lookup needs not
//! know where the place is; in a file it is the offset in the arena.
//!
//! Invariants
//! 1. In a file the arena exists from the start. In RAM it is made once, and stays.
//! 2. A place that is not in the arena is in the list of allocations from when it is given out until
//!    it is given back.

use super::{Addresses, Arena, Totals};
use crate::error::Error;
use crate::memory::{Medium, MemoryUsage};
use crate::sync::Mutex;
use core::ptr;
use std::alloc::Layout;
use std::sync::OnceLock;

/// The most allocations, and the most bytes of them, before places are in the arena.
const FEW: usize = 32;
const SMALL: usize = 4 << 10;

#[derive(Debug)]
pub(crate) struct Places<M: Medium> {
    medium: M,
    arena: OnceLock<(Arena<M>, Addresses)>,
    allocations: Mutex<Allocations>,
}

/// The addresses and the layouts of places in memory of the allocator.
#[derive(Debug, Default)]
struct Allocations {
    places: Vec<(usize, Layout)>,
    bytes: usize,
    /// Of the strings in them.
    totals: Totals,
}

/// Returns the layout of a place. Places are aligned like those of the arena.
fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), align_of::<u64>()).ok()
}

impl<M: Medium> Places<M> {
    /// The medium may hold bytes already. They are free only after a search or `learn`.
    pub(crate) fn new(medium: &M) -> Result<Self, Error> {
        let places =
            Self { medium: medium.clone(), arena: OnceLock::new(), allocations: Mutex::default() };
        if M::IS_DURABLE {
            places.make_arena()?;
        }
        Ok(places)
    }

    fn make_arena(&self) -> Result<&Arena<M>, Error> {
        // Under this lock no other thread makes one.
        let _held = self.allocations.lock();
        if let Some(arena) = self.if_any() {
            return Ok(arena);
        }
        let most = Addresses::share();
        let made = (Arena::new(&self.medium, most as usize)?, Addresses::count(most));
        made.0.address(0).expose_provenance();
        Ok(&self.arena.get_or_init(|| made).0)
    }

    #[inline(always)]
    fn if_any(&self) -> Option<&Arena<M>> {
        self.arena.get().map(|(arena, _)| arena)
    }

    /// The arena of a map in a file.
    #[inline(always)]
    pub(crate) fn arena(&self) -> &Arena<M> {
        match self.if_any() {
            Some(arena) => arena,
            None => unreachable!("invariant 1"),
        }
    }

    /// Returns the address of a place's word.
    #[inline(always)]
    pub(crate) fn address(&self, word: u64) -> *mut u8 {
        if M::IS_DURABLE {
            self.arena().address(word as usize)
        } else {
            ptr::with_exposed_provenance_mut(word as usize)
        }
    }

    /// Returns the arena that has a place, and the place's offset there.
    fn locate(&self, word: u64) -> Option<(&Arena<M>, usize)> {
        let arena = self.if_any()?;
        let base = if M::IS_DURABLE { 0 } else { arena.address(0).addr() };
        let offset = (word as usize).checked_sub(base).filter(|&at| arena.may_have(at))?;
        Some((arena, offset))
    }

    fn word(arena: &Arena<M>, offset: usize) -> u64 {
        (if M::IS_DURABLE { offset } else { arena.address(offset).addr() }) as u64
    }

    /// Takes a place for so many bytes.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        let arena = match self.if_any() {
            Some(arena) => arena,
            None => match self.take_alone(bytes)? {
                Some(word) => return Ok(word),
                None => self.make_arena()?,
            },
        };
        Ok(Self::word(arena, arena.allocate(bytes)?))
    }

    /// Allocates a place, if there are few and they are small.
    fn take_alone(&self, bytes: usize) -> Result<Option<u64>, Error> {
        let mut allocations = self.allocations.lock();
        if allocations.places.len() >= FEW || bytes.saturating_add(allocations.bytes) > SMALL {
            return Ok(None);
        }
        let layout = layout(bytes).ok_or(Error::CapacityOverflow)?;
        allocations.places.try_reserve(1).map_err(|_| Error::OutOfMemory { bytes })?;
        // SAFETY: the size is not zero.
        let address = unsafe { std::alloc::alloc(layout) }.expose_provenance();
        if address == 0 {
            return Err(Error::OutOfMemory { bytes });
        }
        allocations.bytes += layout.size();
        allocations.totals.add(bytes, Arena::<M>::placed(bytes));
        allocations.places.push((address, layout));
        Ok(Some(address as u64))
    }

    /// Gives back a place of so many bytes that no operation can newly find.
    #[inline]
    pub(crate) fn give_back(&self, word: u64, bytes: usize) {
        if let Some((arena, offset)) = self.locate(word) {
            return arena.give_back(offset, bytes);
        }
        self.give_back_alone(word, bytes);
    }

    #[cold]
    fn give_back_alone(&self, word: u64, bytes: usize) {
        let mut allocations = self.allocations.lock();
        let of_word = |&(address, _): &(usize, Layout)| address as u64 == word;
        if let Some(at) = allocations.places.iter().position(of_word) {
            let (address, layout) = allocations.places.swap_remove(at);
            allocations.bytes -= layout.size();
            allocations.totals.subtract(bytes, Arena::<M>::placed(bytes));
            // SAFETY: invariant 2: it was allocated with this layout, and the caller owns it.
            unsafe { std::alloc::dealloc(ptr::with_exposed_provenance_mut(address), layout) };
        } else {
            debug_assert!(M::IS_DURABLE, "nobody's place is given back");
        }
    }

    /// Whether a blob should move to a lower place. One in memory of the allocator should not.
    pub(crate) fn should_move(&self, word: u64) -> bool {
        self.locate(word).is_some_and(|(arena, offset)| arena.should_move(offset))
    }

    /// Takes a place for a blob that should move.
    pub(crate) fn take_lower(&self, bytes: usize) -> Result<u64, Error> {
        match self.if_any() {
            Some(arena) => Ok(Self::word(arena, arena.take_lower(bytes)?)),
            None => self.allocate(bytes),
        }
    }

    /// Gives memory behind the last used place back to the system.
    pub(crate) fn trim(&self) {
        if let Some(arena) = self.if_any() {
            arena.trim();
        }
    }

    pub(crate) fn spans(&self) -> usize {
        self.if_any().map_or(0, Arena::spans)
    }

    /// Returns what has been given out.
    pub(crate) fn totals(&self) -> Totals {
        let alone = self.allocations.lock().totals;
        self.if_any().map_or(alone, |arena| arena.totals() + alone)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.if_any().map_or(0, Arena::waiting)
    }

    pub(crate) fn usage(&self) -> MemoryUsage {
        let alone = MemoryUsage::allocated(self.allocations.lock().bytes);
        self.if_any().map_or(alone, |arena| arena.usage() + alone)
    }
}

impl<M: Medium> Drop for Places<M> {
    fn drop(&mut self) {
        for (address, layout) in self.allocations.lock().places.drain(..) {
            // SAFETY: invariant 2: it was allocated with this layout, and no thread uses it any
            // more.
            unsafe { std::alloc::dealloc(ptr::with_exposed_provenance_mut(address), layout) };
        }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::memory::Heap;

    #[test]
    fn few_places_need_no_arena_and_all_come_back() {
        let places = Places::new(&Heap).unwrap();
        let mut words: Vec<u64> = (0..FEW).map(|_| places.allocate(40).unwrap()).collect();
        assert_eq!((places.spans(), places.usage().mapped), (0, FEW * 40));
        words.push(places.allocate(40).unwrap());
        assert_eq!(places.spans(), 1);
        for (byte, &word) in (0..).zip(&words) {
            // SAFETY: the place is ours and has so many bytes.
            unsafe { places.address(word).write_bytes(byte, 40) };
        }
        for (byte, word) in (0..).zip(words) {
            // SAFETY: as above.
            assert_eq!(unsafe { places.address(word).cast::<[u8; 40]>().read() }, [byte; 40]);
            places.give_back(word, 40);
        }
        assert_eq!(places.totals(), Totals::default());
        places.trim();
        assert_eq!((places.spans(), places.allocations.lock().bytes), (0, 0));
    }

    #[test]
    fn places_of_sparse_spans_should_move_and_find_lower_ones() {
        let places = Places::new(&Heap).unwrap();
        let few = places.allocate(64).unwrap();
        let words: Vec<u64> = (0..4000).map(|_| places.allocate(64).unwrap()).collect();
        let give = (0..).zip(&words).filter(|(at, _)| at % 8 != 0).map(|(_, &word)| word);
        give.for_each(|word| places.give_back(word, 64));
        assert!(!places.should_move(few) && places.should_move(words[3600]));
        let lower = places.take_lower(64).unwrap();
        assert!(lower < words[3600], "{lower}");
    }

    #[test]
    fn a_large_place_is_in_the_arena_and_others_are_freed_with_the_map() {
        let places = Places::new(&Heap).unwrap();
        places.allocate(16).unwrap();
        let large = places.allocate(SMALL + 1).unwrap();
        assert!(!places.should_move(large));
        places.give_back(large, SMALL + 1);
        let places = Places::new(&Heap).unwrap();
        places.allocate(SMALL).unwrap();
        assert_eq!((places.spans(), places.usage().mapped), (0, SMALL));
    }
}
