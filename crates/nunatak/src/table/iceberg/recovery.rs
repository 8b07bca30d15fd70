//! Creating and opening tables in durable memory.
//!
//! A file holds slots and one word that says how many rows there are and whether that
//! is changing. All else is built anew: fingerprints and marks, by one sequential scan
//! that any number of threads share (section 6), and level 3.
//!
//! The scan does not trust what it finds, since a crash may have come in the middle of
//! anything, recovery included, and a power cut of a file in the page cache leaves
//! pages of different moments:
//!
//! - A pair where its key does not belong is what a move has left, or what has not been
//!   moved yet. If the key is found where it belongs, that copy is the newer one, and
//!   this one is dropped. Otherwise it is stored where it belongs, and dropped when that
//!   is durable.
//! - Of two pairs of a key that both are where it belongs, one is dropped: the key was
//!   taken out of one slot and put into another since the last barrier, and the pages
//!   that tell of it were written in another order. Either value was the key's since.
//! - What is behind the rows is cleared before the rows can become more.
//!
//! Loads are relaxed throughout: no map has the table yet, and the threads of a scan
//! read what was there before they were started, or what threads stored that have
//! ended since.

use super::back::Back;
use super::geometry::{
    BlockSizes, Geometry, Phase, State, back_fingerprint, choices, fingerprint, needs_all_bits,
};
use super::yard::Yard;
use super::{Config, Table, growth};
use crate::error::{Error, FileError};
use crate::hash::HashCodec;
use crate::memory::durable::{Durable, Pool};
use crate::memory::prefetch::prefetch;
use crate::memory::{Medium, Part};
use crate::seeded::{Bug, seeded};
use crate::simd::BitIter;
use crate::sync::{Mutex, Ordering, Shared};
use crate::table::shared::Recovery;
use crate::table::shared::attempts::Request;
use crate::table::{ByWord, Change};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::collections::VecDeque;

/// Where a pair is that is not to stay there.
#[derive(Debug, Clone, Copy)]
enum Place {
    Front(usize, usize),
    Back(usize, usize),
    Chain(usize),
}

/// What a scan has come upon.
#[derive(Debug, Default)]
struct Found {
    /// Less those that turn out to be doubled.
    items: i64,
    misplaced: Vec<Place>,
    doubled: Vec<Place>,
}

impl Found {
    fn add(&mut self, mut other: Self) {
        self.items += other.items;
        self.misplaced.append(&mut other.misplaced);
        self.doubled.append(&mut other.doubled);
    }
}

/// A key in the back yard.
#[derive(Debug, Clone, Copy)]
struct Behind {
    block: usize,
    slot: usize,
    tag: u64,
    hash: u64,
}

/// For how many keys lines are fetched at once: as many as hide the way to memory.
const LINES_AHEAD: usize = 24;

/// How many blocks a thread takes at once: four megabytes of slots.
const CHUNK: usize = 4096;

impl<P: HashCodec, B: BlockSizes> Table<P, B, Durable> {
    /// The columns of a table for so many items.
    pub(crate) fn columns_for(capacity: usize, config: &Config) -> Result<(usize, u64), Error> {
        Ok(Geometry::<B>::shape(growth::blocks_for::<B>(capacity, config)?))
    }

    pub(crate) fn pool(&self) -> &Pool {
        self.medium.pool()
    }

    /// A table in a medium that holds nothing.
    pub(crate) fn create(
        medium: Durable,
        codec: P,
        config: Config,
        (columns, rows): (usize, u64),
    ) -> Result<Self, Error> {
        let table = Self::within(medium, codec, config, (columns, rows))?;
        table.has_room()?;
        table.medium.set_root(State::root(Phase::Stable, rows));
        Ok(table)
    }

    /// The table that a medium holds, as far as it is certain that it does.
    pub(crate) fn open(
        medium: Durable,
        codec: P,
        config: Config,
        columns: usize,
        threads: usize,
    ) -> Result<(Self, Recovery), Error> {
        let corrupt = |what| Error::File(FileError::Corrupt { what });
        let pool = medium.pool();
        let (phase, rows) =
            State::of_root(pool.root()).ok_or(corrupt("the number of rows is none"))?;
        if !(2..=128).contains(&columns) || !columns.is_multiple_of(2) {
            return Err(corrupt("the number of columns is none"));
        }
        let bytes_of = |rows: u64, slots: usize| {
            (columns as u64).checked_mul(rows)?.checked_mul(slots as u64 * 16)
        };
        let holds = |rows: u64| {
            let parts = [(Part::Front, B::FRONT), (Part::Back, B::BACK)];
            parts.iter().all(|&(part, slots)| {
                bytes_of(rows, slots).is_some_and(|bytes| bytes <= pool.bytes_of(part) as u64)
            })
        };
        let (phase, rows) = match phase {
            // Of the larger size nothing but its name was durable, so nothing has been
            // taken out of the smaller one.
            Phase::Doubling if !holds(rows) && holds(rows / 2) => (Phase::Stable, rows / 2),
            // The other half was given back, when all of it had been moved.
            Phase::Halving if !holds(2 * rows) => (Phase::Stable, rows),
            other => (other, rows),
        };
        if !holds(rows) {
            let expected = bytes_of(rows, B::FRONT + B::BACK).unwrap_or(u64::MAX);
            return Err(FileError::Truncated { bytes: pool.file_bytes(), expected }.into());
        }
        pool.trim_and_open()?;
        let was_closed = pool.was_closed();
        let present = if phase == Phase::Halving { 2 * rows } else { rows };
        let mut table = Self::within(medium, codec, config, (columns, present))?;
        if phase == Phase::Halving {
            let state = State::new(rows, !table.front.is_fast());
            table.state = crate::sync::AtomicU64::new(state.0);
        }
        let is_repeated = table.pool().end_repeat();
        let recovery = table.recover(present, threads.max(1))?;
        if is_repeated {
            // So that the journal has room again.
            table.medium.barrier()?;
        }
        Ok((table, Recovery { was_closed, ..recovery }))
    }

    /// Builds all that is not durable, and mends what a crash has left.
    fn recover(&self, present: u64, threads: usize) -> Result<Recovery, Error> {
        // Nothing may grow meanwhile.
        let _held = self.migrating.lock();
        let blocks = self.geometry.blocks(present - 1);
        let mut found = self.scan(blocks, threads, |range, found| {
            self.populate(range.clone());
            for block in range {
                self.restore_front(block, found);
                self.restore_back(block, found);
            }
        });
        found.add(self.scan(blocks, threads, |range, found| self.check_back(range, found)));
        self.restore_chains(&mut found);
        let slots = blocks * Geometry::<B>::SLOTS + self.chains.slots().len();
        self.registry.count::<Shared>(found.items);
        let misplaced = found.misplaced.len();
        let (state, rows) = (self.state(), self.state().rows());
        // Slots without a fingerprint may hold what has yet to be moved or dropped.
        self.enter(state.next(Phase::Halved, rows));
        let moved = self.mend(&found)?;
        self.enter(state.next(Phase::Stable, rows));
        self.medium.set_root(State::root(Phase::Stable, rows));
        // The other half of what was halved, or what a doubling that did not come to
        // anything has brought.
        self.release(self.geometry.blocks(rows - 1));
        let has_changed = self.clear_behind(self.geometry.blocks(rows - 1));
        if has_changed || misplaced + found.doubled.len() > 0 {
            self.medium.barrier()?;
        }
        if !self.pool().backing().is_read_only() {
            self.has_room()?;
        }
        Ok(Recovery {
            was_closed: false,
            slots,
            items: found.items as usize + moved,
            moved,
            dropped: misplaced - moved + found.doubled.len(),
        })
    }

    /// Gives chunks of all blocks to threads.
    fn scan(
        &self,
        blocks: usize,
        threads: usize,
        read: impl Fn(core::ops::Range<usize>, &mut Found) + Sync,
    ) -> Found {
        let next = AtomicUsize::new(0);
        let all = Mutex::new(Found::default());
        let work = || {
            let mut found = Found::default();
            loop {
                let from = next.fetch_add(CHUNK, Relaxed);
                if from >= blocks {
                    break all.lock().add(found);
                }
                read(from..blocks.min(from + CHUNK), &mut found);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(blocks.div_ceil(CHUNK)) {
                // If there is no other thread to be had, this one does it all.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        all.into_inner()
    }

    /// Reads the pages of blocks from the disk, if need be, and maps them at once.
    fn populate(&self, blocks: core::ops::Range<usize>) {
        let front = self.front.slot_address(blocks.start, 0);
        let back = self.back.slot_address(blocks.start, 0);
        self.medium.pool().populate(front.cast(), blocks.len() * B::FRONT * 16);
        self.medium.pool().populate(back.cast(), blocks.len() * B::BACK * 16);
    }

    fn hash_at(&self, block: usize, tag: u64) -> u64 {
        self.codec.hash_of_tag(tag, self.geometry.half(block))
    }

    /// Looks at a block's tags without a branch that depends on them: at the loads of
    /// this table, one in twenty slots is empty and one in ten has the fingerprint of
    /// another, neither of which a processor foresees.
    fn restore_front(&self, block: usize, found: &mut Found) {
        let (mask, half) = (self.state().mask(), self.geometry.half(block));
        let mut fingerprints = [0_u8; 64];
        // Which fingerprints have been seen, since only those can be of a key that was.
        let mut seen = [0_u64; 4];
        let (mut present, mut misplaced, mut seen_before) = (0_u64, 0_u64, 0_u64);
        for (slot, fingerprint_of_slot) in fingerprints[..B::FRONT].iter_mut().enumerate() {
            let tag = self.front.slot(block, slot).load_first(Relaxed);
            let hash = self.codec.hash_of_tag(tag, half);
            let byte = fingerprint(hash);
            let fits = (slot < B::FRONT - 2) | !needs_all_bits(byte);
            let belongs = self.geometry.block(hash, mask) == block;
            let is_its = self.codec.is_tag(tag) & belongs & fits;
            present |= u64::from(is_its) << slot;
            misplaced |= u64::from((tag != 0) & !is_its) << slot;
            *fingerprint_of_slot = byte & 0_u8.wrapping_sub(u8::from(is_its));
            let (word, bit) = (usize::from(byte / 64), byte % 64);
            seen_before |= (seen[word] >> bit & u64::from(is_its)) << slot;
            seen[word] |= u64::from(is_its) << bit;
        }
        self.front.restore(block, &fingerprints);
        found.items += i64::from(present.count_ones());
        for slot in BitIter::new(misplaced) {
            found.misplaced.push(Place::Front(block, slot));
        }
        for slot in BitIter::new(seen_before) {
            let tag = self.front.slot(block, slot).load_first(Relaxed);
            let before = self.front.matching(block, fingerprints[slot]) & ((1 << slot) - 1);
            let is_it = |other| self.front.slot(block, other).load_first(Relaxed) == tag;
            if BitIter::new(before).any(is_it) {
                found.items -= 1;
                found.doubled.push(Place::Front(block, slot));
                self.front.set_fingerprint(block, slot, 0);
            }
        }
    }

    fn restore_back(&self, block: usize, found: &mut Found) {
        let mask = self.state().mask();
        for slot in 0..B::BACK {
            let tag = self.back.slot(block, slot).load_first(Relaxed);
            if tag == 0 {
                continue;
            }
            let hash = self.hash_at(block, tag);
            let is_its = |hash| self.geometry.block(hash, mask) == block;
            let is_there_before =
                (0..slot).any(|other| self.back.slot(block, other).load_first(Relaxed) == tag);
            if !self.codec.is_tag(tag) || !choices(hash).into_iter().any(is_its) {
                found.misplaced.push(Place::Back(block, slot));
            } else if is_there_before {
                found.doubled.push(Place::Back(block, slot));
            } else {
                self.back.set_fingerprint(block, slot, back_fingerprint(hash));
                found.items += 1;
            }
        }
    }

    /// Marks the front blocks of keys that are in the back yard, and looks whether the
    /// keys are somewhere else, too.
    fn check_back(&self, blocks: core::ops::Range<usize>, found: &mut Found) {
        let mask = self.state().mask();
        // Of which the lines of fingerprints are being fetched, and of which slots are.
        let mut ahead = VecDeque::with_capacity(LINES_AHEAD + 1);
        let mut suspects = VecDeque::with_capacity(LINES_AHEAD + 1);
        for block in blocks {
            let empties = Back::<B, Durable>::empties(self.back.word(block));
            let empties = empties.fold(0_u32, |slots, slot| slots | 1 << slot);
            for slot in (0..B::BACK).filter(|slot| empties >> slot & 1 == 0) {
                let tag = self.back.slot(block, slot).load_first(Relaxed);
                let item = Behind { block, slot, tag, hash: self.hash_at(block, tag) };
                prefetch(self.front.line_address(self.geometry.block(item.hash, mask)));
                for hash in choices(item.hash) {
                    prefetch(self.back.word_address(self.geometry.block(hash, mask)));
                }
                ahead.push_back(item);
                if ahead.len() > LINES_AHEAD
                    && let Some(item) = ahead.pop_front()
                {
                    self.mark(mask, item, &mut suspects);
                }
            }
            while suspects.len() > LINES_AHEAD
                && let Some(item) = suspects.pop_front()
            {
                self.check_suspect(mask, item, found);
            }
        }
        ahead.into_iter().for_each(|item| self.mark(mask, item, &mut suspects));
        suspects.into_iter().for_each(|item| self.check_suspect(mask, item, found));
    }

    /// Marks the front block of a key, and suspects it if a slot elsewhere has its
    /// fingerprint.
    fn mark(&self, mask: u64, item: Behind, suspects: &mut VecDeque<Behind>) {
        let front = self.geometry.block(item.hash, mask);
        self.front.restore_overflowed(front);
        let in_front = self.front.matching(front, fingerprint(item.hash));
        BitIter::new(in_front).for_each(|slot| prefetch(self.front.slot_address(front, slot)));
        let mut is_suspect = in_front != 0;
        self.each_lower_match(mask, item, |block, slot| {
            prefetch(self.back.slot_address(block, slot));
            is_suspect = true;
        });
        if is_suspect {
            suspects.push_back(item);
        }
    }

    /// The slots with a key's fingerprint in those of its blocks in the back yard that
    /// come before the one where it was found: of two there that of the lower stays.
    fn each_lower_match(&self, mask: u64, item: Behind, mut visit: impl FnMut(usize, usize)) {
        for hash in choices(item.hash) {
            let other = self.geometry.block(hash, mask);
            if other < item.block {
                Back::<B, Durable>::matching(self.back.word(other), back_fingerprint(item.hash))
                    .for_each(|slot| visit(other, slot));
            }
        }
    }

    fn check_suspect(&self, mask: u64, item: Behind, found: &mut Found) {
        let front = self.geometry.block(item.hash, mask);
        let mut in_front = BitIter::new(self.front.matching(front, fingerprint(item.hash)));
        let mut is_doubled =
            in_front.any(|slot| self.front.slot(front, slot).load_first(Relaxed) == item.tag);
        self.each_lower_match(mask, item, |block, slot| {
            is_doubled |= self.back.slot(block, slot).load_first(Relaxed) == item.tag;
        });
        if is_doubled && !seeded(Bug::DoubledKept) {
            found.items -= 1;
            found.doubled.push(Place::Back(item.block, item.slot));
        }
    }

    fn restore_chains(&self, found: &mut Found) {
        let state = self.state();
        let Found { items, doubled, .. } = found;
        let accept = |half, (tag, second)| {
            let hash = self.codec.hash_of_tag(tag, half);
            if !self.codec.is_tag(tag) || self.find_tag(hash, tag, &ByWord).is_some() {
                return None;
            }
            self.front.restore_overflowed(self.geometry.block(hash, state.mask()));
            self.mark_choices(state, hash);
            *items += 1;
            Some((hash, (tag, second)))
        };
        self.chains.restore(accept, |slot| doubled.push(Place::Chain(slot)));
    }

    /// Moves what is misplaced, and drops what is left; how many keys were moved.
    fn mend(&self, found: &Found) -> Result<usize, Error> {
        // First, so that what is found is what stays.
        found.doubled.iter().for_each(|&place| self.hide(place));
        let mut moved = 0;
        for &place in &found.misplaced {
            let (half, tag, second) = self.pair_at(place);
            if !self.codec.is_tag(tag) {
                continue;
            }
            let hash = self.codec.hash_of_tag(tag, half);
            if self.is_tight() {
                self.has_room()?;
            }
            let keep = |_| Change::Keep;
            let request = Request { hash, tag, test: &ByWord, fresh: Some(second), change: &keep };
            moved += usize::from(self.apply_slowly(&request).is_none());
        }
        if moved > 0 && !seeded(Bug::MendWithoutBarrier) {
            // What was stored, before what is taken away.
            self.medium.barrier()?;
        }
        for &place in found.misplaced.iter().chain(&found.doubled) {
            self.drop_pair(place);
        }
        Ok(moved)
    }

    fn pair_at(&self, place: Place) -> (usize, u64, u64) {
        let (half, slot) = match place {
            Place::Front(block, slot) => (self.geometry.half(block), self.front.slot(block, slot)),
            Place::Back(block, slot) => (self.geometry.half(block), self.back.slot(block, slot)),
            Place::Chain(slot) => {
                let (tag, second) = self.chains.slots().pair(slot);
                return (slot % 2, tag, second);
            }
        };
        (half, slot.load_first(Relaxed), slot.load_second(Relaxed))
    }

    /// Takes away the fingerprint of a pair that is to be dropped.
    fn hide(&self, place: Place) {
        if let Place::Back(block, slot) = place {
            self.back.clear_fingerprint(block, slot);
        }
    }

    fn drop_pair(&self, place: Place) {
        match place {
            Place::Front(block, slot) => self.front.clear(block, slot),
            Place::Back(block, slot) => self.back.clear(block, slot),
            // This medium copies no pages, so it has room for all changes.
            Place::Chain(slot) => drop(self.chains.slots().clear(slot as u32)),
        }
    }

    /// Clears all slots behind so many blocks; whether there was anything.
    fn clear_behind(&self, blocks: usize) -> bool {
        let mut has_changed = false;
        let mut clear = |slot: &crate::sync::AtomicPair| {
            if slot.load_first(Relaxed) != 0 && !seeded(Bug::BehindRowsKept) {
                self.medium.store_first(slot, 0, Ordering::Release);
                self.medium.flush(slot, 1);
                has_changed = true;
            }
        };
        self.front.slots_behind(blocks).for_each(&mut clear);
        self.back.slots_behind(blocks).for_each(&mut clear);
        self.medium.fence();
        has_changed
    }
}
