//! Creation and opening of tables in durable memory.
//!
//! A file holds slots and one root word: the number of rows, and whether it is changing. Everything
//! else is built again: fingerprints and marks, by one sequential scan that several threads share
//! (section 6), and level 3.
//!
//! The scan does not trust the slots. A crash may have come at any moment, also during a recovery.
//! A power cut of a file in the page cache leaves pages of different moments. So:
//!
//! - A pair in a place where its key does not belong was left by a move, or has not been moved yet.
//!   If the key is found where it belongs, that copy is newer, and this one is dropped. Otherwise
//!   the pair is stored where it belongs, and this copy is dropped when that is durable.
//! - Of two pairs of a key that are both where it belongs, one is dropped. The key was removed from
//!   one slot and put into another since the last barrier, and the pages were written in another
//!   order. Both values were the key's since then.
//! - The slots behind the rows are cleared before rows can be added.
//!
//! All loads are relaxed: no map has the table yet. Each thread reads only stores from before its
//! start, or of threads that have ended.

use super::back::Back;
use super::geometry::{
    BlockSizes, Geometry, Phase, State, back_fingerprint, choices, fingerprint, needs_all_bits,
};
use super::yard::Yard;
use super::{Config, Table, sizes};
use crate::error::{Error, FileError};
use crate::hash::HashCodec;
use crate::memory::durable::{Durable, InPool, Pool};
use crate::memory::prefetch::prefetch;
use crate::memory::{Medium, Part};
use crate::seeded::{Bug, seeded};
use crate::simd::BitIter;
use crate::sync::{Mutex, Ordering, Shared};
use crate::table::shared::Recovery;
use crate::table::shared::attempts::Request;
use crate::table::shared::files::ensure;
use crate::table::{ByEntry, Change};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::collections::VecDeque;

/// The place of a pair that is not to stay there.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Front(usize, usize),
    Back(usize, usize),
    Chain(usize),
}

/// The findings of a scan.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The number of items, without doubled ones.
    pub(super) items: i64,
    pub(super) misplaced: Vec<Place>,
    pub(super) doubled: Vec<Place>,
}

impl Found {
    pub(super) fn add(&mut self, mut other: Self) {
        self.items += other.items;
        self.misplaced.append(&mut other.misplaced);
        self.doubled.append(&mut other.doubled);
    }
}

/// Whether two pairs are of the same key. (If words are not keys, other keys may have the same tag
/// with another value word.)
pub(super) fn is_same<P: HashCodec>(one: (u64, u64), other: (u64, u64)) -> bool {
    one.0 == other.0 && (P::WORDS_ARE_KEYS || one.1 == other.1)
}

/// Returns the most rows that a file has slots for.
pub(super) fn most_rows(holds: impl Fn(u64) -> bool) -> u64 {
    (0..u64::BITS - 1).map(|bits| 1 << bits).take_while(|&rows| holds(rows)).last().unwrap_or(1)
}

/// Returns the phase and the rows of a table whose resize may have been named only, or may have
/// ended.
pub(super) fn held(phase: Phase, rows: u64, holds: impl Fn(u64) -> bool) -> (Phase, u64) {
    match phase {
        // The larger size was only named durably, so nothing has been removed from the smaller one.
        Phase::Doubling if !holds(rows) && holds(rows / 2) => (Phase::Stable, rows / 2),
        // The other half was given back after all of it had been moved.
        Phase::Halving if !holds(2 * rows) => (Phase::Stable, rows),
        other => (other, rows),
    }
}

/// A key in the back yard.
#[derive(Debug, Clone, Copy)]
struct Behind {
    block: usize,
    slot: usize,
    hash: u64,
}

/// The number of keys whose lines are fetched at once: enough to hide the latency of memory.
const LINES_AHEAD: usize = 24;

/// The number of blocks that a thread takes at once: four megabytes of slots.
const CHUNK: usize = 4096;

impl<P: HashCodec, B: BlockSizes, M: InPool> Table<P, B, M> {
    /// Returns the columns and rows of a table for so many items.
    pub(crate) fn columns_for(capacity: usize, config: &Config) -> Result<(usize, u64), Error> {
        Ok(Geometry::<B>::shape(sizes::blocks_for::<B>(capacity, config)?))
    }

    pub(crate) fn pool(&self) -> &Pool {
        self.medium.pool()
    }
}

impl<P: HashCodec, B: BlockSizes> Table<P, B, Durable> {
    /// Makes a table in an empty medium.
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

    /// Opens the table that a medium holds, if the medium's sizes agree with it.
    pub(crate) fn open(
        medium: Durable,
        codec: P,
        config: Config,
        columns: usize,
        threads: usize,
    ) -> Result<(Self, Recovery), Error> {
        let corrupt = |what| Error::File(FileError::corrupt(what));
        let pool = medium.pool();
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
        let root = pool
            .checked_root()
            .and_then(|root| State::of_root(root).ok_or(corrupt("the number of rows is none")));
        let is_lost = root.is_err();
        let (phase, rows) = pool.tolerate(root, || (Phase::Stable, most_rows(holds)))?;
        let (phase, rows) = held(phase, rows, holds);
        if !holds(rows) {
            let expected = bytes_of(rows, B::FRONT + B::BACK).unwrap_or(u64::MAX);
            return Err(FileError::Truncated { bytes: pool.file_bytes(), expected }.into());
        }
        let was_closed = pool.was_closed();
        let present = if phase == Phase::Halving { 2 * rows } else { rows };
        let mut table = Self::within(medium, codec, config, (columns, present))?;
        if phase == Phase::Halving {
            let state = State::new(rows, !table.front.is_fast());
            table.state = crate::sync::AtomicU64::new(state.0);
        }
        let present = if is_lost { table.likely_rows(present) } else { present };
        // A file may be closed in the middle of a resize.
        let is_settled = was_closed && phase == Phase::Stable;
        let recovery = table.recover(present, threads.max(1), is_settled)?;
        Ok((table, Recovery { was_closed, ..recovery }))
    }

    /// Builds everything that is not durable, and repairs the table after a crash.
    pub(super) fn recover(
        &self,
        present: u64,
        threads: usize,
        is_settled: bool,
    ) -> Result<Recovery, Error> {
        // Keeps the table from growing meanwhile.
        let _held = self.migrating.lock();
        let blocks = self.geometry.blocks(present - 1);
        // What can fail before the session begins is behind us, but for files that were closed,
        // which repeat nothing.
        self.pool().repeat();
        let mut found = self.scan(blocks, threads, |range, found| {
            self.populate(range.clone());
            for block in range {
                self.restore_front(block, found);
                self.restore_back(block, found);
            }
        });
        found.add(self.scan(blocks, threads, |range, found| self.check_back(range, found)));
        self.restore_chains(&mut found);
        if is_settled {
            self.check_settled(&found)?;
        }
        // Until here nothing was changed, but for what the journal repeats.
        self.pool().begin_session()?;
        let is_repeated = self.pool().end_repeat();
        let slots = blocks * Geometry::<B>::SLOTS + self.chains.slots().len();
        self.registry.count::<Shared>(found.items);
        let misplaced = found.misplaced.len();
        let (state, rows) = (self.state(), self.state().rows());
        // Slots without a fingerprint may hold pairs that are yet to be moved or dropped.
        self.enter(state.next(Phase::Halved, rows));
        let moved = self.mend(&found)?;
        self.enter(state.next(Phase::Stable, rows));
        self.medium.set_root(State::root(Phase::Stable, rows));
        // The other half of a halved table, or the memory for a doubling that did not happen.
        self.release(self.geometry.blocks(rows - 1));
        let has_changed = self.clear_behind(self.geometry.blocks(rows - 1));
        if is_repeated || has_changed || misplaced + found.doubled.len() > 0 {
            // After a repetition this makes room in the journal.
            self.medium.barrier()?;
        }
        if !self.pool().backing().is_read_only() {
            // If the disk is full, changes that find no room are refused.
            let _ = self.has_room();
        }
        Ok(Recovery {
            was_cut: false,
            was_closed: false,
            slots,
            items: found.items as usize + moved,
            moved,
            dropped: misplaced - moved + found.doubled.len(),
        })
    }

    /// Checks that a file that was closed between two resizes is as it was then.
    fn check_settled(&self, found: &Found) -> Result<(), Error> {
        if let Some(&place) = found.misplaced.first() {
            Err(self.corrupt_at("a pair is not where its key belongs", place))
        } else if let Some(&place) = found.doubled.first() {
            Err(self.corrupt_at("a key has two pairs", place))
        } else {
            ensure(found.items as u64 == self.pool().items(), "the number of pairs")
        }
    }
}

impl<P: HashCodec, B: BlockSizes, M: InPool> Table<P, B, M> {
    /// Finds the number of rows for which most pairs are where their keys belong, and makes it the
    /// table's: a damaged file has lost it.
    pub(super) fn likely_rows(&mut self, most: u64) -> u64 {
        let mut best = (0, most);
        for bits in 0..=most.ilog2() {
            let state = State::new(1 << bits, !self.front.is_fast());
            let blocks = 0..self.geometry.blocks(state.rows() - 1);
            let pairs = blocks.flat_map(|block| (0..B::FRONT).map(move |slot| (block, slot)));
            let is_right = |&(block, slot): &(usize, usize)| {
                let tag = self.front.slot(block, slot).load_first(Relaxed);
                let hash = self.hash_at(block, tag);
                self.codec.is_tag(tag) && self.geometry.block(hash, state.mask()) == block
            };
            best = best.max((pairs.filter(is_right).count(), state.rows()));
        }
        self.state = crate::sync::AtomicU64::new(State::new(best.1, !self.front.is_fast()).0);
        best.1
    }

    pub(super) fn corrupt_at(&self, what: &'static str, place: Place) -> Error {
        let error = FileError::corrupt(what).into();
        match place {
            Place::Front(block, slot) => self.pool().locate(self.front.slot(block, slot), error),
            Place::Back(block, slot) => self.pool().locate(self.back.slot(block, slot), error),
            Place::Chain(_) => error,
        }
    }

    /// Divides all blocks into chunks for several threads.
    pub(super) fn scan(
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
                // If no thread can be started, this thread does all the work.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        all.into_inner()
    }

    /// Reads the pages of blocks from the disk if need be, and maps them at once.
    pub(super) fn populate(&self, blocks: core::ops::Range<usize>) {
        let front = self.front.slot_address(blocks.start, 0);
        let back = self.back.slot_address(blocks.start, 0);
        self.medium.pool().populate(front.cast(), blocks.len() * B::FRONT * 16);
        self.medium.pool().populate(back.cast(), blocks.len() * B::BACK * 16);
    }

    fn hash_at(&self, block: usize, tag: u64) -> u64 {
        self.codec.hash_of_tag(tag, self.geometry.half(block))
    }

    /// Reads a block's tags without a branch that depends on them. At the loads of this table one
    /// slot of twenty is empty, and one of ten has the fingerprint of another. A processor predicts
    /// neither.
    pub(super) fn restore_front(&self, block: usize, found: &mut Found) {
        let (mask, half) = (self.state().mask(), self.geometry.half(block));
        let mut fingerprints = [0_u8; 64];
        // The fingerprints that were seen: only a key with one of them can be in the block twice.
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
            let pair = self.front.pair(block, slot);
            let before = self.front.matching(block, fingerprints[slot]) & ((1 << slot) - 1);
            let is_it = |other| is_same::<P>(self.front.pair(block, other), pair);
            if BitIter::new(before).any(is_it) {
                found.items -= 1;
                found.doubled.push(Place::Front(block, slot));
                self.front.set_fingerprint(block, slot, 0);
            }
        }
    }

    pub(super) fn restore_back(&self, block: usize, found: &mut Found) {
        let mask = self.state().mask();
        for slot in 0..B::BACK {
            let tag = self.back.slot(block, slot).load_first(Relaxed);
            if tag == 0 {
                continue;
            }
            let hash = self.hash_at(block, tag);
            let is_its = |hash| self.geometry.block(hash, mask) == block;
            let pair = self.back_pair(block, slot);
            let is_there_before =
                (0..slot).any(|other| is_same::<P>(self.back_pair(block, other), pair));
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

    /// Marks the front blocks of keys in the back yard, and checks whether the keys are elsewhere,
    /// too.
    pub(super) fn check_back(&self, blocks: core::ops::Range<usize>, found: &mut Found) {
        let mask = self.state().mask();
        // The keys whose lines of fingerprints are being fetched, and the keys whose slots are.
        let mut ahead = VecDeque::with_capacity(LINES_AHEAD + 1);
        let mut suspects = VecDeque::with_capacity(LINES_AHEAD + 1);
        for block in blocks {
            let empties = Back::<B, M>::empties(self.back.word(block));
            let empties = empties.fold(0_u32, |slots, slot| slots | 1 << slot);
            for slot in (0..B::BACK).filter(|slot| empties >> slot & 1 == 0) {
                let tag = self.back.slot(block, slot).load_first(Relaxed);
                let item = Behind { block, slot, hash: self.hash_at(block, tag) };
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

    /// Marks the front block of a key. Suspects the key if a slot elsewhere has its fingerprint.
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

    /// Visits the slots with a key's fingerprint in that block of the key which comes before its
    /// own in the back yard. Of two copies there, the one in the lower block stays.
    fn each_lower_match(&self, mask: u64, item: Behind, mut visit: impl FnMut(usize, usize)) {
        for hash in choices(item.hash) {
            let other = self.geometry.block(hash, mask);
            if other < item.block {
                Back::<B, M>::matching(self.back.word(other), back_fingerprint(item.hash))
                    .for_each(|slot| visit(other, slot));
            }
        }
    }

    fn check_suspect(&self, mask: u64, item: Behind, found: &mut Found) {
        let pair = self.back_pair(item.block, item.slot);
        let front = self.geometry.block(item.hash, mask);
        let mut in_front = BitIter::new(self.front.matching(front, fingerprint(item.hash)));
        let mut is_doubled = in_front.any(|slot| is_same::<P>(self.front.pair(front, slot), pair));
        self.each_lower_match(mask, item, |block, slot| {
            is_doubled |= is_same::<P>(self.back_pair(block, slot), pair);
        });
        if is_doubled && !seeded(Bug::DoubledKept) {
            found.items -= 1;
            found.doubled.push(Place::Back(item.block, item.slot));
        }
    }

    pub(super) fn restore_chains(&self, found: &mut Found) {
        let state = self.state();
        let Found { items, doubled, .. } = found;
        let accept = |slot, (tag, second)| {
            let hash = self.codec.hash_of_tag(tag, self.chains.slots().half(slot));
            let is_it = ByEntry(|other| P::WORDS_ARE_KEYS || other == second);
            if !self.codec.is_tag(tag) || self.find_tag(hash, tag, &is_it).is_some() {
                return None;
            }
            self.front.restore_overflowed(self.geometry.block(hash, state.mask()));
            self.mark_choices(state, hash);
            *items += 1;
            Some((hash, (tag, second)))
        };
        self.chains.restore(accept, |slot| doubled.push(Place::Chain(slot)));
    }

    /// Moves misplaced pairs, and drops leftover ones. Returns how many keys were moved.
    pub(super) fn mend(&self, found: &Found) -> Result<usize, Error> {
        // First, so that lookups find only the copies that stay.
        found.doubled.iter().for_each(|&place| self.hide(place));
        let mut moved = 0;
        for &place in &found.misplaced {
            let (half, tag, second) = self.pair_at(place);
            if !self.codec.is_tag(tag) {
                continue;
            }
            let hash = self.codec.hash_of_tag(tag, half);
            if self.is_tight()
                && let Err(error) = self.has_room()
            {
                if self.pool().forced().is_some() {
                    break;
                }
                return Err(error);
            }
            let keep = |_| Change::Keep;
            let is_it = ByEntry(|other| P::WORDS_ARE_KEYS || other == second);
            let request = Request { hash, tag, test: &is_it, fresh: Some(second), change: &keep };
            moved += usize::from(self.apply_slowly(&request).is_none());
        }
        if moved > 0 && !M::IS_PAGED && !seeded(Bug::MendWithoutBarrier) {
            // The stored copies must be durable before the others are dropped.
            self.medium.barrier()?;
        }
        for &place in found.misplaced.iter().chain(&found.doubled) {
            self.drop_pair(place)?;
        }
        Ok(moved)
    }

    pub(super) fn pair_at(&self, place: Place) -> (usize, u64, u64) {
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

    /// Clears the fingerprint of a pair that is to be dropped.
    pub(super) fn hide(&self, place: Place) {
        if let Place::Back(block, slot) = place {
            self.back.clear_fingerprint(block, slot);
        }
    }

    /// Drops a pair that is elsewhere, too, or is none.
    fn drop_pair(&self, place: Place) -> Result<(), Error> {
        let full = |_| Error::from(FileError::Full);
        let drop = || {
            let _pin = M::IS_PAGED.then(|| self.cut.enter());
            match place {
                Place::Front(block, slot) => {
                    self.front.make_writable(block).map(|()| self.front.clear(block, slot))
                }
                Place::Back(block, slot) => {
                    self.back.make_writable(block).map(|()| self.back.clear(block, slot))
                }
                Place::Chain(slot) => self.chains.slots().clear(slot as u32).map_err(full),
            }
        };
        // Only a medium that copies pages may have no room; a sync frees some.
        drop().or_else(|_| {
            self.make_room_for_copies();
            drop()
        })
    }

    /// Clears all slots behind the first `blocks` blocks. Returns whether any held a tag.
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
