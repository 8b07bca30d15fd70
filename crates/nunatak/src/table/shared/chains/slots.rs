//! The slots for the chained items of a durable table, in no order.
//!
//! The paper has lists of nodes. Here the hash tables of [`chains`](super) are in RAM and are built
//! again when a table is opened. So items need no order and no links: an item is stored and removed
//! by one line and one fence, as in any other slot. Only RAM says which slots are free. Even slots
//! hold items of one half of the hashes, odd slots of the other half. The half and the tag give the
//! hash.
//!
//! Invariants
//! 1. A slot is free and in a list of free slots, or its item is in the hash tables, or an
//!    operation has taken it, to change it from one to the other or to give it back.
//! 2. A table in RAM has no slots here.
//!
//! A slot's words are read only when the table is opened. The number of reserved slots and
//! `is_tight` are hints, read and stored relaxed: the margin serves threads that act on an old
//! value.

use crate::error::Error;
use crate::memory::{Addresses, Medium, MemoryUsage, Part, ReservedArray};
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicPair, AtomicUsize, Mutex, Ordering};
use crate::table::shared::bucket::put_pair;
use crate::table::shared::full_disk::is_permitted;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// No slot is free, and the medium has no room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::table) struct NoRoom;

/// The number of slots at the start.
const FIRST: usize = if cfg!(modelled) { 16 } else { 4096 };
/// The most slots for which addresses are reserved.
const MOST: usize = if cfg!(modelled) { 64 } else { 1 << 32 };
/// Slots of a page.
const PAGE: usize = if cfg!(modelled) { 1 } else { 256 };
/// How many slots are kept free for running operations when the medium is full.
pub(in crate::table) const MARGIN: usize = if cfg!(modelled) { 4 } else { 1024 };

/// Slots that an operation has taken out of the lists before it locks anything, so that no item that
/// it moves is refused. They go back when this is dropped.
#[derive(Debug)]
pub(in crate::table) struct Prepared<'s, M: Medium> {
    slots: &'s Slots<M>,
    /// Writable slots for each half of the hashes.
    taken: [Vec<u32>; 2],
}

impl<M: Medium> Prepared<'_, M> {
    pub(in crate::table) fn len(&self) -> usize {
        self.taken.iter().map(Vec::len).sum()
    }

    /// Stores a pair durably in one of these slots, or else in another free slot. Returns the slot.
    pub(super) fn put(&mut self, half: usize, pair: (u64, u64)) -> Result<u32, NoRoom> {
        let Some(slots) = &self.slots.slots else { return Ok(0) };
        match self.taken[half].pop() {
            Some(slot) => {
                self.slots.put_into(slots, slot, pair);
                Ok(slot)
            }
            None => self.slots.put(half, pair),
        }
    }
}

impl<M: Medium> Drop for Prepared<'_, M> {
    fn drop(&mut self) {
        let taken = self.taken.iter().flatten().rev();
        taken.for_each(|&slot| self.slots.add_free(slot as usize));
    }
}

#[derive(Debug)]
pub(in crate::table) struct Slots<M: Medium> {
    slots: Option<ReservedArray<AtomicPair, M>>,
    /// The free slots of each half of the hashes.
    free: [Mutex<Vec<u32>>; 2],
    growing: Mutex<()>,
    /// The number of slots that are kept for a halving.
    reserved: AtomicUsize,
    /// Whether too few slots are free and the medium had no room for more.
    is_tight: AtomicBool,
    medium: M,
}

impl<M: Medium> Slots<M> {
    pub(super) fn new(medium: &M) -> Result<Self, Error> {
        let slots = match M::IS_DURABLE {
            true => {
                let most = Addresses::at_most::<AtomicPair>(MOST);
                Some(ReservedArray::within(medium, Part::Chains, 0, most)?)
            }
            false => None,
        };
        Ok(Self {
            slots,
            free: [Mutex::new(Vec::new()), Mutex::new(Vec::new())],
            growing: Mutex::new(()),
            reserved: AtomicUsize::new(0),
            is_tight: AtomicBool::new(false),
            medium: medium.clone(),
        })
    }

    pub(in crate::table) fn len(&self) -> usize {
        self.slots.as_ref().map_or(0, ReservedArray::len)
    }

    #[cfg(durable)]
    pub(in crate::table) fn pair(&self, slot: usize) -> (u64, u64) {
        self.slots.as_ref().map_or((0, 0), |slots| {
            let slot = slots.at(slot);
            (slot.load_first(Ordering::Relaxed), slot.load_second(Ordering::Relaxed))
        })
    }

    /// Returns the half of the hashes that the item of a slot has.
    #[cfg(durable)]
    pub(in crate::table) fn half(&self, slot: usize) -> usize {
        slot % 2
    }

    /// Returns a slot of a durable table.
    pub(in crate::table) fn at(&self, slot: usize) -> Option<&AtomicPair> {
        self.slots.as_ref().map(|slots| slots.at(slot))
    }

    pub(in crate::table) fn make_writable(&self, slot: u32) -> Result<(), NoRoom> {
        let slots = self.slots.as_ref();
        slots.map_or(Ok(()), |slots| slots.make_writable(slot as usize).map_err(|_| NoRoom))
    }

    /// Takes free slots for items of these halves, and makes the slots writable, in a medium that
    /// copies pages. Returns nothing if it has too little room for that before the next sync.
    pub(in crate::table) fn prepare(
        &self,
        halves: impl Iterator<Item = usize>,
    ) -> Option<Prepared<'_, M>> {
        let mut prepared = Prepared { slots: self, taken: [Vec::new(), Vec::new()] };
        if !M::IS_PAGED {
            return Some(prepared);
        }
        let mut needed = [0, 0];
        halves.for_each(|half| needed[half] += 1);
        for (half, needed) in needed.into_iter().enumerate() {
            let mut unwritable = Vec::new();
            let taken = &mut prepared.taken[half];
            while taken.len() < needed {
                let len = self.len();
                let Some(slot) = self.free[half].lock().pop() else {
                    // Other halvings may have taken more slots than they need.
                    if self.grow(len).is_err() {
                        break;
                    }
                    continue;
                };
                let list =
                    if self.make_writable(slot).is_ok() { &mut *taken } else { &mut unwritable };
                list.push(slot);
            }
            let is_enough = taken.len() == needed;
            unwritable.into_iter().rev().for_each(|slot| self.add_free(slot as usize));
            if !is_enough {
                return None;
            }
        }
        Some(prepared)
    }

    pub(in crate::table) fn add_free(&self, slot: usize) {
        self.free[slot % 2].lock().push(slot as u32);
    }

    /// Adds many slots under one lock for each half. (With a lock for each slot this was 7 % of the
    /// time of the tests of files.)
    pub(super) fn add_all_free(&self, slots: impl Iterator<Item = usize> + Clone) {
        for (half, free) in self.free.iter().enumerate() {
            let added = slots.clone().filter(|slot| slot % 2 == half);
            free.lock().extend(added.map(|slot| slot as u32));
        }
    }

    fn free_slots(&self) -> usize {
        self.free[0].lock().len().min(self.free[1].lock().len())
    }

    /// Makes sure that enough slots are free for all running operations.
    pub(in crate::table) fn has_room(&self) -> Result<(), Error> {
        self.has_room_for(MARGIN + self.reserved.load(Ordering::Relaxed))
    }

    /// Keeps `slots` slots of each half free, until another call keeps fewer.
    pub(in crate::table) fn reserve(&self, slots: usize) -> Result<(), Error> {
        self.has_room_for(MARGIN + slots)?;
        self.reserved.store(slots, Ordering::Relaxed);
        Ok(())
    }

    fn has_room_for(&self, slots: usize) -> Result<(), Error> {
        while M::IS_DURABLE && self.free_slots() < slots {
            let grown = self.grow(self.len());
            if grown.is_err() {
                self.is_tight.store(true, Relaxed);
                return grown;
            }
        }
        self.is_tight.store(false, Relaxed);
        Ok(())
    }

    #[cfg(durable)]
    /// Returns whether the last call of [`has_room`](Self::has_room) failed. It is called whenever
    /// few slots are free.
    #[inline(always)]
    pub(in crate::table) fn is_tight(&self) -> bool {
        // Relaxed: the margin serves threads that have not seen the new value.
        self.is_tight.load(Relaxed)
    }

    /// Whether the medium is full, so few slots are free that only admitted operations may take
    /// them, and the operation of this thread is not one of them.
    pub(in crate::table) fn must_refuse(&self) -> bool {
        M::IS_DURABLE
            && self.is_tight.load(Relaxed)
            && is_permitted()
            && self.free_slots() < MARGIN + self.reserved.load(Relaxed)
    }

    /// Doubles the number of slots, if it is still `len`.
    fn grow(&self, len: usize) -> Result<(), Error> {
        let Some(slots) = &self.slots else { return Ok(()) };
        let _held = self.growing.lock();
        if slots.len() != len {
            return Ok(());
        }
        let more = (2 * len).max(FIRST);
        if more > MOST {
            return Err(Error::CapacityOverflow);
        }
        slots.grow(more)?;
        // Makes all new slots writable now, so that no later change is refused.
        let ready = (len..more).step_by(PAGE).try_for_each(|slot| slots.make_writable(slot));
        if ready.is_err() {
            slots.shrink(len);
            return ready;
        }
        // The lowest slots are taken first.
        self.add_all_free((len..slots.len()).rev());
        Ok(())
    }

    /// Gives slots back by halves, in reverse order of the growth. The upper half must be free, and
    /// the lower half must have enough free slots.
    pub(in crate::table) fn shrink(&self) {
        let Some(slots) = &self.slots else { return };
        let _held = self.growing.lock();
        let mut free = [self.free[0].lock(), self.free[1].lock()];
        let needed = MARGIN + self.reserved.load(Ordering::Relaxed);
        let is_spare = |free: &[Vec<u32>; 2], half: usize| {
            let upper = |free: &[u32]| free.iter().filter(|&&slot| slot as usize >= half).count();
            let is_left = |free: &[u32]| free.len() - half / 2 >= needed;
            half >= FIRST && free.iter().all(|free| upper(free) == half / 2 && is_left(free))
        };
        let mut lists = [core::mem::take(&mut *free[0]), core::mem::take(&mut *free[1])];
        let mut len = slots.len();
        while is_spare(&lists, len / 2) {
            len /= 2;
            lists.iter_mut().for_each(|free| free.retain(|&slot| (slot as usize) < len));
        }
        for (free, list) in free.iter_mut().zip(lists) {
            **free = list;
        }
        if len < slots.len() {
            slots.shrink(len);
        }
    }

    /// Stores a pair durably. Returns its slot.
    pub(super) fn put(&self, half: usize, pair: (u64, u64)) -> Result<u32, NoRoom> {
        let Some(slots) = &self.slots else { return Ok(0) };
        loop {
            let len = self.len();
            let Some(free) = self.free[half].lock().pop() else {
                self.grow(len).map_err(|_| NoRoom)?;
                continue;
            };
            if slots.make_writable(free as usize).is_err() {
                self.add_free(free as usize);
                return Err(NoRoom);
            }
            self.put_into(slots, free, pair);
            if self.free_slots() < MARGIN + self.reserved.load(Ordering::Relaxed) {
                let _ = self.has_room();
            }
            return Ok(free);
        }
    }

    /// Stores a pair durably in a slot that is the caller's.
    fn put_into(&self, slots: &ReservedArray<AtomicPair, M>, slot: u32, pair: (u64, u64)) {
        put_pair(&self.medium, slots.at(slot as usize), pair);
        self.make_durable(slots, slot);
    }

    pub(super) fn replace(&self, slot: u32, value_word: u64) -> Result<(), NoRoom> {
        if let Some(slots) = &self.slots {
            slots.make_writable(slot as usize).map_err(|_| NoRoom)?;
            self.medium.store_second(slots.at(slot as usize), value_word, Ordering::Release);
            self.make_durable(slots, slot);
        }
        Ok(())
    }

    /// Empties a slot durably, and then adds it to the free slots.
    pub(in crate::table) fn clear(&self, slot: u32) -> Result<(), NoRoom> {
        if let Some(slots) = &self.slots {
            slots.make_writable(slot as usize).map_err(|_| NoRoom)?;
            self.medium.store_first(slots.at(slot as usize), 0, Ordering::Release);
            self.make_durable(slots, slot);
            self.add_free(slot as usize);
        }
        Ok(())
    }

    fn make_durable(&self, slots: &ReservedArray<AtomicPair, M>, slot: u32) {
        if !seeded(Bug::ChainUnflushed) {
            self.medium.flush(slots.address(slot as usize), 1);
        }
        if !seeded(Bug::ChainUnfenced) {
            self.medium.fence();
        }
    }

    /// Gives back what the medium knows of pages behind the last slot.
    pub(in crate::table) fn trim_map(&self) -> Result<(), Error> {
        self.slots.as_ref().map_or(Ok(()), ReservedArray::trim_map)
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        self.slots.as_ref().map_or(MemoryUsage::default(), ReservedArray::usage)
    }
}

#[cfg(durable)]
impl Slots<crate::memory::durable::Paged> {
    /// Returns an error if the page map names pages that do not exist.
    pub(in crate::table) fn check(&self) -> Result<(), Error> {
        self.slots.as_ref().map_or(Ok(()), |slots| slots.region().check())
    }
}

#[cfg(all(test, durable))]
mod tests {
    use super::*;
    use crate::memory::Epochs;

    /// Makes slots, and takes so many of each half.
    fn taken(of_each: usize) -> (Slots<Epochs>, Vec<u32>) {
        let slots = Slots::new(&Epochs::default()).unwrap();
        let put = |n: usize| slots.put(n % 2, (n as u64 + 1, 7)).unwrap();
        let taken: Vec<u32> = (0..2 * of_each).map(put).collect();
        (slots, taken)
    }

    #[test]
    fn running_operations_always_have_slots() {
        let (slots, _) = taken(0);
        let mut taken = std::collections::BTreeSet::new();
        for n in 0..20_000 {
            let slot = slots.put(n % 2, (n as u64 + 1, 7)).unwrap() as usize;
            assert!(taken.insert(slot) && slot % 2 == n % 2);
            assert_eq!(slots.pair(slot), (n as u64 + 1, 7));
            assert!(slots.free_slots() >= MARGIN, "only {} after {n}", slots.free_slots());
        }
        slots.reserve(20_000).unwrap();
        assert!(slots.free_slots() >= MARGIN + 20_000 && !slots.is_tight());
    }

    #[test]
    fn slots_that_a_halving_has_reserved_stay_free() {
        let (slots, _) = taken(0);
        slots.reserve(MARGIN / 2).unwrap();
        for n in 0..FIRST {
            slots.put(n % 2, (n as u64 + 1, 7)).unwrap();
            let free = slots.free_slots();
            assert!(free >= MARGIN + MARGIN / 2, "only {free} after {n}");
        }
    }

    #[test]
    fn free_halves_are_given_back() {
        let (slots, taken) = taken(6_000);
        assert_eq!(slots.len(), 4 * FIRST);
        let (low, high): (Vec<u32>, Vec<u32>) =
            taken.into_iter().partition(|&slot| (slot as usize) < FIRST);
        let (even, odd): (Vec<u32>, Vec<u32>) = low.into_iter().partition(|slot| slot % 2 == 0);
        // As many as leave just enough of the first slots for running operations, and one more.
        let few = FIRST / 2 - MARGIN;
        let (more, last) = (even[few], *high.iter().max().unwrap());
        let others = high.iter().filter(|&&slot| slot != last);
        others
            .chain(&even[few + 1..])
            .chain(&odd[few..])
            .for_each(|&slot| slots.clear(slot).unwrap());
        slots.shrink();
        assert_eq!(slots.len(), 4 * FIRST, "a taken slot keeps the upper half");
        slots.clear(last).unwrap();
        assert_eq!(slots.pair(last as usize).0, 0);
        slots.shrink();
        assert_eq!(slots.len(), 2 * FIRST, "one slot too few would be free");
        slots.clear(more).unwrap();
        slots.reserve(1).unwrap();
        slots.shrink();
        assert_eq!(slots.len(), 2 * FIRST, "a halving has reserved one");
        slots.reserve(0).unwrap();
        slots.shrink();
        assert_eq!((slots.len(), slots.free_slots()), (FIRST, MARGIN));
        let is_kept = |&slot: &u32| slots.pair(slot as usize).1 == 7;
        assert!(even[..few].iter().chain(&odd[..few]).all(is_kept));
    }
}
