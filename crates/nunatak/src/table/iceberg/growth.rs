//! When the table changes its size, and to what (sections 4 and 5.3).

use super::Table;
use super::back::Back;
use super::front::Front;
use super::geometry::{BlockSizes, Geometry, MOST_ROWS, Phase, State};
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::Addresses;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicUsize, Backoff, MutexGuard, Ordering, operations_ended, retire_tag};
use crate::table::stages::{Figures, Resizing};

/// After how many inserts a thread looks whether the table is full. A power of two.
pub(super) const CHECKED_EVERY: u64 = if cfg!(modelled) { 1 } else { 32 };

/// What is left to be done of a resize or a snapshot.
#[derive(Debug)]
pub(super) struct Migration {
    /// The next block that nobody has come to.
    cursor: AtomicUsize,
    /// Blocks of both yards that are not settled.
    remaining: AtomicUsize,
    /// Pieces of the memory for the next doubling that are resident.
    populated: AtomicUsize,
}

impl Migration {
    pub(super) fn new() -> Self {
        Self {
            cursor: AtomicUsize::new(0),
            remaining: AtomicUsize::new(0),
            populated: AtomicUsize::new(0),
        }
    }

    pub(super) fn remaining(&self) -> usize {
        // Relaxed: a statistic.
        self.remaining.load(Ordering::Relaxed)
    }
}

/// The blocks of a table for so many items.
pub(super) fn blocks_for<B: BlockSizes>(
    items: usize,
    config: &super::Config,
) -> Result<usize, Error> {
    let blocks = (items as f64 / (Geometry::<B>::SLOTS as f64 * config.max_load)).ceil();
    // Pointers are signed, and a quarter is room for what rounds it up.
    if blocks >= (isize::MAX as usize / 4 / bytes_of_block::<B>()) as f64 {
        return Err(Error::CapacityOverflow);
    }
    Ok((blocks as usize).max(2))
}

/// What a block of each yard takes, with all that goes with them.
pub(super) const fn bytes_of_block<B: BlockSizes>() -> usize {
    B::FRONT * 17 + 1 + B::BACK * 16 + 8 + 1
}

/// Both yards, the most rows that there are addresses for, and those addresses.
type Reserved<B, M> = (Front<B, M>, Back<B, M>, u64, Addresses);

/// Reserves addresses for as many rows as the caller wants, or as the machine
/// could need.
pub(super) fn reserve_rows<B: BlockSizes, M: Medium>(
    medium: &M,
    (columns, rows): (usize, u64),
    config: &super::Config,
) -> Result<Reserved<B, M>, Error> {
    let mut most = match config.max_capacity {
        Some(items) => {
            let blocks = blocks_for::<B>(items, config)?;
            (blocks.div_ceil(columns) as u64).next_power_of_two()
        }
        None => {
            let rows = Addresses::share() / (columns * bytes_of_block::<B>()) as u64;
            1 << rows.max(1).ilog2()
        }
    };
    if rows > MOST_ROWS {
        return Err(Error::CapacityOverflow);
    }
    most = most.clamp(rows, MOST_ROWS);
    let blocks = columns * rows as usize;
    loop {
        let all = columns * most as usize;
        let reserved = Front::new(medium, blocks, all)
            .and_then(|front| Ok((front, Back::new(medium, blocks, all)?)));
        match reserved {
            Ok((front, back)) => {
                let addresses = Addresses::count((all * bytes_of_block::<B>()) as u64);
                return Ok((front, back, most, addresses));
            }
            // The system may limit the addresses of a process.
            Err(_) if most > rows => most /= 2,
            Err(error) => return Err(error),
        }
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Resizing for Table<P, B, M> {
    fn reserve(&self, additional: usize) -> Result<(), Error> {
        let items = self.len().checked_add(additional).ok_or(Error::CapacityOverflow)?;
        let blocks = blocks_for::<B>(items, &self.config)?;
        let rows = blocks.div_ceil(self.geometry.columns as usize) as u64;
        if rows > self.most_rows {
            return Err(Error::CapacityOverflow);
        }
        loop {
            let _held = self.complete()?;
            let state = self.state();
            if state.rows() >= rows {
                return Ok(());
            }
            self.start_doubling(state)?;
        }
    }

    /// Halves the table as often as its items fit half of it well.
    fn shrink_to_fit(&self) -> Result<(), Error> {
        loop {
            let held = self.complete()?;
            let state = self.state();
            let half = state.mask() >> 1;
            // Sequentially consistent with the counting of an iterator: under the
            // lock, both.
            if state.mask() == 0
                || self.iterators.load(Ordering::Acquire) > 0
                || self.len() > self.most_items(half)
            {
                // What was made ready for a doubling that did not come.
                self.release(self.geometry.blocks(state.mask()));
                self.chains.slots().shrink();
                return Ok(());
            }
            if M::IS_DURABLE {
                self.chains.slots().reserve(self.most_chained_by_halving(half))?;
            }
            self.start(state, Phase::Halving, half + 1);
            let completed = self.complete_held(held);
            self.chains.slots().reserve(0)?;
            let _held = completed?;
            if self.state().mask() != half {
                // Made larger by another thread while hashes were asked for.
                continue;
            }
            // Who computed a block of the half that is no more may be about to lock
            // it, or have done so and found out. When they are gone nobody touches it.
            if !seeded(Bug::ReleaseWithoutGrace) {
                let tag = retire_tag();
                let mut backoff = Backoff::new();
                while !operations_ended(tag, false) {
                    backoff.wait();
                }
            }
            self.release(self.geometry.blocks(half));
        }
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Table<P, B, M> {
    /// How many items may be in a table of so many rows.
    pub(super) fn most_items(&self, mask: u64) -> usize {
        let slots = self.geometry.blocks(mask) * Geometry::<B>::SLOTS;
        (slots as f64 * self.config.max_load) as usize
    }

    /// As [`grow_if_full`](Self::grow_if_full), by who holds no lock: a doubling that
    /// waits for a barrier ends first.
    #[cold]
    #[inline(never)]
    pub(super) fn clean_or_grow_if_full(&self) {
        let state = self.state();
        if state.phase() == Phase::Doubled
            && self.len() > self.most_items(state.mask())
            && let Some(_held) = self.migrating.try_lock()
        {
            // If it fails, the table gets fuller, and the map's owner is told.
            let _ = self.clean();
        }
        self.grow_if_full();
    }

    /// Starts to double the table if it holds more than it should.
    #[cold]
    #[inline(never)]
    pub(super) fn grow_if_full(&self) {
        let state = self.state();
        if state.is_stable()
            && self.len() > self.most_items(state.mask())
            && let Some(_held) = self.migrating.try_lock()
            // A refusal is tried again at the next look; until then level 3 takes
            // what finds no room.
            && self.is_still(state)
        {
            let _ = self.prepare_doubling(state);
        }
    }

    /// Makes a piece of the memory for a table of twice the size resident, and starts
    /// to use all of it when there is no other. Otherwise those who come to the new
    /// blocks first would wait for the system again and again: one change comes to
    /// nine pages, and one huge page takes 0.1 ms, or 5 ms if a hypervisor has to find
    /// it. The table gets a few parts of ten thousand fuller meanwhile.
    fn prepare_doubling(&self, state: State) -> Result<(), Error> {
        self.commit(2 * state.rows())?;
        let blocks = self.geometry.blocks(state.mask());
        // Relaxed: under the lock.
        let piece = self.migration.populated.load(Ordering::Relaxed);
        let populated = self.front.populate(blocks, piece);
        if populated.or_else(|piece| self.back.populate(blocks, piece)).is_ok() {
            self.migration.populated.store(piece + 1, Ordering::Relaxed);
            return Ok(());
        }
        self.start_doubling(state)
    }

    /// Commits memory for so many rows.
    fn commit(&self, rows: u64) -> Result<(), Error> {
        if rows > self.most_rows {
            return Err(Error::CapacityOverflow);
        }
        let blocks = self.geometry.blocks(rows - 1);
        self.front.grow(blocks)?;
        self.back.grow(blocks)
    }

    /// Makes the memory for a table of twice the size and starts to use it. The
    /// caller holds the migration lock, and the state is stable.
    fn start_doubling(&self, state: State) -> Result<(), Error> {
        let rows = 2 * state.rows();
        self.commit(rows)?;
        self.start(state, Phase::Doubling, rows);
        Ok(())
    }

    /// Enters a phase in which blocks are settled.
    pub(super) fn start(&self, state: State, phase: Phase, rows: u64) {
        let next = state.next(phase, rows);
        // Relaxed: the state releases them.
        self.migration.remaining.store(2 * self.units(next), Ordering::Relaxed);
        self.migration.cursor.store(0, Ordering::Relaxed);
        self.migration.populated.store(0, Ordering::Relaxed);
        if next.is_moving() {
            self.medium.set_root(State::root(phase, rows));
        }
        self.enter(next);
    }

    /// Makes a state known. The caller holds the migration lock, or ends the phase
    /// that the table is in.
    pub(super) fn enter(&self, state: State) {
        // Release: the memory, the counters, and all moves are there before it.
        self.state.store(state.0, Ordering::Release);
    }

    /// How many blocks of each yard, or pairs of them, a phase settles.
    fn units(&self, state: State) -> usize {
        self.geometry.blocks(state.smaller_mask())
    }

    /// One block was settled; the last one ends the phase.
    pub(super) fn settled_one(&self, state: State) {
        // Acquire, release: who ends the phase has all that was done in it behind
        // it.
        if self.migration.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
            let phase = match state.phase() {
                Phase::Doubling if self.leaves_pairs() => Phase::Doubled,
                Phase::Halving if self.leaves_pairs() => Phase::Halved,
                _ => Phase::Stable,
            };
            if phase == Phase::Stable && state.is_moving() {
                self.medium.set_root(State::root(phase, state.rows()));
            }
            self.enter(state.next(phase, state.rows()));
        }
    }

    /// Takes a block of each yard that nobody has come to, to settle it, so that a resize
    /// ends soon after it began.
    pub(super) fn take_unit(&self, state: State) -> Option<usize> {
        // Relaxed: it divides the work up. If it is that of a later phase a block
        // is passed over, and left to who comes to it.
        let unit = self.migration.cursor.fetch_add(1, Ordering::Relaxed);
        (unit < self.units(state)).then_some(unit)
    }

    /// Settles a block of each yard; false if hashes are to be asked for first.
    #[must_use]
    pub(super) fn settle_unit(&self, state: State, unit: usize) -> bool {
        self.settle_front(state, unit) && self.settle_back(state, unit)
    }

    /// Takes the migration lock, under which no phase begins but by its holder, when the phase
    /// that the table was in has ended.
    pub(super) fn complete(&self) -> Result<MutexGuard<'_, ()>, Error> {
        self.complete_held(self.migrating.lock())
    }

    /// The same by who has the lock, which is let go only while the caller's hasher is asked: an
    /// iterator that began in the middle of a halving would miss keys.
    fn complete_held<'t>(
        &'t self,
        mut held: MutexGuard<'t, ()>,
    ) -> Result<MutexGuard<'t, ()>, Error> {
        while !self.try_complete()? {
            drop(held);
            self.hashes.ask(&self.codec);
            held = self.migrating.lock();
        }
        Ok(held)
    }

    /// Ends the phase that the table is in, by a holder of the migration lock; false if hashes
    /// are to be asked for first, for which the lock is let go.
    pub(super) fn try_complete(&self) -> Result<bool, Error> {
        let state = self.state();
        if state.is_settling() {
            // All of them, so that all hashes are wanted at once.
            let settled = |is_settled, unit| self.settle_unit(state, unit) && is_settled;
            if !(0..self.units(state)).fold(true, settled) {
                return Ok(false);
            }
            // Others may be about to count the last block.
            let mut backoff = Backoff::new();
            while self.is_still(state) {
                backoff.wait();
            }
        }
        self.hashes.clear();
        self.clean()?;
        Ok(true)
    }

    /// How many keys may have to go to level 3 when the table halves: those that find
    /// no room in their front block and those of the back yard.
    fn most_chained_by_halving(&self, mask: u64) -> usize {
        let blocks = self.geometry.blocks(mask);
        let used = |block| B::FRONT - self.front.matching(block, 0).count_ones() as usize;
        let behind =
            |block| B::BACK - Back::<B, M>::empties(self.back.word(block)).count() as usize;
        (0..blocks)
            .map(|low| {
                let both = used(low) + used(low + blocks);
                (both + 2).saturating_sub(B::FRONT) + behind(low + blocks)
            })
            .sum()
    }

    /// Gives back the memory of all blocks but so many, which nobody comes to. The
    /// caller holds the migration lock.
    pub(super) fn release(&self, blocks: usize) {
        self.front.shrink(blocks);
        self.back.shrink(blocks);
        self.migration.populated.store(0, Ordering::Relaxed);
    }
}
