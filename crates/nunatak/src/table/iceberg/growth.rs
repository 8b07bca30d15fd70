//! The decision when the table changes its size, and to which size (sections 4 and 5.3).

use super::Table;
use super::back::Back;
use super::geometry::{BlockSizes, Geometry, Phase, State};
use super::sizes::blocks_for;
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, MutexGuard, Ordering, Shared, operations_ended, retire_tag};
use crate::table::stages::{Figures, Resizing};

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
            let _pin = M::IS_PAGED.then(|| self.cut.enter());
            self.start_doubling(state)?;
        }
    }

    /// Halves the table as long as half of it has room for its items.
    fn shrink_to_fit(&self) -> Result<(), Error> {
        loop {
            let held = self.complete()?;
            let state = self.state();
            let half = state.mask() >> 1;
            // Sequentially consistent with the start of an iterator: both happen under the lock.
            if state.mask() == 0
                || self.iterators.load(Ordering::Acquire) > 0
                || self.len() > self.most_items(half)
            {
                return self.end_shrinking(held);
            }
            if M::IS_DURABLE {
                let reserved = self.chains.slots().reserve(self.most_chained_by_halving(half));
                if M::IS_PAGED && reserved.is_err() {
                    // On a full disk the table is left as it is.
                    return self.end_shrinking(held);
                }
                reserved?;
            }
            if !self.start_halving(state) {
                self.chains.slots().reserve(0)?;
                return self.end_shrinking(held);
            }
            let completed = self.complete_held(held);
            self.chains.slots().reserve(0)?;
            let _held = completed?;
            if self.state().mask() != half {
                // Another thread has doubled the table while hashes were asked for.
                continue;
            }
            // A thread that computed a block of the half that is gone may be about to lock it, or
            // hold its lock until it loads the state. After these operations have ended, no thread
            // touches the block.
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
    /// Counts pairs that this thread has added. Now and then, grows the table if it is full.
    #[inline(always)]
    pub(super) fn count(&self, added: i64) {
        let sum = self.registry.count::<Shared>(added);
        if added > 0 && self.looks.is_due(sum) {
            self.clean_or_grow_if_full();
        }
    }

    /// Starts to halve the table. Returns false if the disk has no room. The caller holds the
    /// migration lock.
    fn start_halving(&self, state: State) -> bool {
        let start = || {
            let _pin = M::IS_PAGED.then(|| self.cut.enter());
            let is_ready = self.prepare_root().is_ok();
            if is_ready {
                self.start(state, Phase::Halving, state.rows() / 2);
            }
            is_ready
        };
        start() || {
            self.make_room_for_copies();
            start()
        }
    }

    /// Gives back what a table that is not halved further does not need.
    fn end_shrinking(&self, held: MutexGuard<'_, ()>) -> Result<(), Error> {
        // Also the memory that was prepared for a doubling that did not come.
        self.release(self.geometry.blocks(self.state().mask()));
        self.chains.slots().shrink();
        drop(held);
        self.release_pages()
    }

    /// Returns how many items a table of so many rows may hold.
    pub(super) fn most_items(&self, mask: u64) -> usize {
        let slots = self.geometry.blocks(mask) * Geometry::<B>::SLOTS;
        (slots as f64 * self.config.max_load) as usize
    }

    /// Grows the table like [`grow_if_full`](Self::grow_if_full). Ends a doubling first that waits
    /// for a barrier. The caller holds no lock.
    #[cold]
    #[inline(never)]
    pub(super) fn clean_or_grow_if_full(&self) {
        let state = self.state();
        if state.phase() == Phase::Doubled
            && self.len() > self.most_items(state.mask())
            && let Some(_held) = self.migrating.try_lock()
        {
            // If this fails, the table gets fuller, and the map's owner is told.
            let _ = self.clean();
        }
        self.grow_if_full();
    }

    /// Starts to double the table if it holds more items than it should.
    #[cold]
    #[inline(never)]
    pub(super) fn grow_if_full(&self) {
        let state = self.state();
        let (items, most) = (self.len(), self.most_items(state.mask()));
        self.looks.set(most.saturating_sub(items), self.registry.threads());
        if state.is_stable()
            && !self.config.room.is_fixed()
            && items > most
            && let Some(_held) = self.migrating.try_lock()
            // A refusal is tried again at the next check; until then level 3 takes the keys that
            // find no room.
            && self.is_still(state)
            // Not while changes are kept out: the thread may have announced an operation.
            && let Some(_pin) = self.try_enter_if_paged()
        {
            let _ = self.prepare_doubling(state);
        }
    }

    /// Makes a piece of the memory for a table of twice the size resident; when no piece is left,
    /// starts the doubling. Otherwise the first changes to new blocks would wait for the system:
    /// each touches nine pages.
    fn prepare_doubling(&self, state: State) -> Result<(), Error> {
        self.commit(2 * state.rows())?;
        let blocks = self.geometry.blocks(state.mask());
        // Relaxed: under the lock.
        let piece = self.migration.populated.load(Ordering::Relaxed);
        if M::IS_PAGED {
            return self.prepare_pages(state, piece);
        }
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

    /// Commits the memory for a table of twice the size and starts to use it. The caller holds the
    /// migration lock, and the state is stable.
    pub(super) fn start_doubling(&self, state: State) -> Result<(), Error> {
        let rows = 2 * state.rows();
        self.commit(rows)?;
        if M::IS_PAGED {
            self.make_present(self.geometry.blocks(state.mask())..self.geometry.blocks(rows - 1))?;
            self.prepare_root()?;
        }
        self.start(state, Phase::Doubling, rows);
        Ok(())
    }

    /// Enters a phase in which blocks are settled.
    pub(super) fn start(&self, state: State, phase: Phase, rows: u64) {
        let next = state.next(phase, rows);
        // Relaxed: the release of the state publishes these stores.
        self.migration.remaining.store(2 * self.units(next), Ordering::Relaxed);
        self.migration.cursor.store(0, Ordering::Relaxed);
        self.migration.populated.store(0, Ordering::Relaxed);
        if next.is_moving() {
            self.set_root(State::root(phase, rows));
        }
        self.enter(next);
    }

    /// Publishes a state. The caller holds the migration lock, or ends the current phase.
    pub(super) fn enter(&self, state: State) {
        self.looks.reset();
        // Release: the memory, the counters, and all moves come before the state.
        self.state.store(state.0, Ordering::Release);
    }

    /// Returns how many blocks (or pairs of blocks) of each yard a phase settles.
    fn units(&self, state: State) -> usize {
        self.geometry.blocks(state.smaller_mask())
    }

    /// Counts a block as settled. The last one ends the phase.
    pub(super) fn settled_one(&self, state: State) {
        // Acquire, release: the thread that ends the phase has seen all of its moves.
        if self.migration.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
            let phase = match state.phase() {
                Phase::Doubling if self.leaves_pairs() => Phase::Doubled,
                Phase::Halving if self.leaves_pairs() => Phase::Halved,
                _ => Phase::Stable,
            };
            if phase == Phase::Stable && state.is_moving() {
                self.set_root(State::root(phase, state.rows()));
            }
            self.enter(state.next(phase, state.rows()));
        }
    }

    /// Takes a block of each yard that no thread has taken, to settle it, so that a resize ends
    /// soon after it began.
    pub(super) fn take_unit(&self, state: State) -> Option<usize> {
        // Relaxed: the cursor divides the work. If it belongs to a later phase, a block is passed
        // over; the next thread that needs the block settles it.
        let unit = self.migration.cursor.fetch_add(1, Ordering::Relaxed);
        (unit < self.units(state)).then_some(unit)
    }

    /// Settles a block of each yard. Returns false if hashes must be asked for first.
    #[must_use]
    pub(super) fn settle_unit(&self, state: State, unit: usize) -> bool {
        self.settle_front(state, unit) && self.settle_back(state, unit)
    }

    /// Takes the migration lock after the current phase has ended. Only the lock's holder can begin
    /// a phase.
    pub(super) fn complete(&self) -> Result<MutexGuard<'_, ()>, Error> {
        self.complete_held(self.migrating.lock())
    }

    /// Ends the current phase. The lock is released only while the caller's hasher is called: an
    /// iterator that began in the middle of a halving would miss keys.
    fn complete_held<'t>(
        &'t self,
        mut held: MutexGuard<'t, ()>,
    ) -> Result<MutexGuard<'t, ()>, Error> {
        while !self.try_complete()? {
            drop(held);
            self.prepare_to_settle();
            held = self.migrating.lock();
        }
        Ok(held)
    }

    /// Ends the current phase; the caller holds the migration lock. Returns false if hashes must be
    /// asked for first, without the lock.
    pub(super) fn try_complete(&self) -> Result<bool, Error> {
        let state = self.state();
        if state.is_settling() {
            // Settles all blocks, so that all missing hashes are wanted at once.
            let settled = |is_settled, unit| {
                let _pin = M::IS_PAGED.then(|| self.cut.enter());
                self.settle_unit(state, unit) && is_settled
            };
            if !(0..self.units(state)).fold(true, settled) {
                return Ok(false);
            }
            // Other threads may be about to count the last block.
            let mut backoff = Backoff::new();
            while self.is_still(state) {
                backoff.wait();
            }
        }
        self.hashes.clear();
        self.clean()?;
        Ok(true)
    }

    /// Returns how many keys may have to go to level 3 when the table halves: keys that find no
    /// room in their front block and in the back yard.
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

    /// Gives back the memory behind the first `blocks` blocks, which no thread uses. The caller
    /// holds the migration lock.
    pub(super) fn release(&self, blocks: usize) {
        let _pin = M::IS_PAGED.then(|| self.cut.enter());
        self.front.shrink(blocks);
        self.back.shrink(blocks);
        self.migration.populated.store(0, Ordering::Relaxed);
    }
}
