//! The parts of a table that only a durable medium needs.
//!
//! **Reads.** A crash must not take back a pair that a read has returned. A store is visible at
//! once, and its thread holds the block's lock until the store is durable. So a read that finds the
//! block locked after it has read the slot makes the slot durable itself. (It would be wrong to set
//! a fingerprint only when its pair is durable. The slot's last key may have left an equal
//! fingerprint, so one lookup would find the pair and the next would not.)
//!
//! **Moves.** The copy of a moved pair must be durable before the original is cleared. In an
//! ordered medium that takes a fence. In other media it would take a barrier for every block. So
//! there the originals stay in their slots without a fingerprint, and lookups do not find them:
//! they are *leftovers*. When all blocks are settled (the phases `Doubled` and `Halved`), one
//! barrier follows, and the leftovers are cleared. After a crash in between, a pair that is where
//! its key belongs is right; a pair of the same key elsewhere is a leftover.
//!
//! Therefore a removal first clears the key's leftover, and an update gives its value to the
//! leftover, too. A barrier may come before the removal. A crash that loses the removal of the
//! pair, but not the clearing of the leftover, must not bring back an older value.

use super::Table;
use super::back::Back;
use super::geometry::{BlockSizes, Phase, State, choices};
use super::yard::Yard;
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::simd::BitIter;
use crate::sync::Ordering;

impl<P: HashCodec, B: BlockSizes, M: Medium> Table<P, B, M> {
    /// Makes a slot of the front yard durable that a read has found, if the thread that stored it
    /// may not have done so yet.
    #[inline(always)]
    pub(super) fn persist_front(&self, block: usize, slot: usize) {
        if M::IS_DURABLE && self.front.is_locked(block) && !seeded(Bug::ReadUnpersisted) {
            self.front.flush(block, slot);
            self.front.fence();
        }
    }

    #[cold]
    pub(super) fn persist_front_if(&self, is_slot: bool, block: usize, slot: usize) {
        if is_slot {
            self.persist_front(block, slot);
        }
    }

    #[inline(always)]
    pub(super) fn persist_back(&self, block: usize, slot: usize) {
        if M::IS_DURABLE && self.back.word(block).is_locked() {
            self.back.flush(block, slot);
            self.front.fence();
        }
    }

    /// Returns whether moved pairs are left in their old slots for a time.
    #[inline(always)]
    pub(super) fn leaves_pairs(&self) -> bool {
        M::IS_DURABLE && !self.medium.is_ordered() && !seeded(Bug::MovedAtOnce)
    }

    /// Returns the slots of a locked front block that hold a leftover.
    #[inline(always)]
    pub(super) fn leftovers_of_front(&self, state: State, block: usize) -> u64 {
        let may_be_there = M::IS_DURABLE && state.mask_of_leftovers().is_some();
        if may_be_there && !seeded(Bug::LeftoverOverwritten) {
            self.front.leftovers(block)
        } else {
            0
        }
    }

    /// Clears the leftover of a key that is about to be removed, or gives it the key's new value.
    /// The caller holds the lock of the key's front block.
    #[inline(always)]
    pub(super) fn change_leftovers(&self, state: State, hash: u64, tag: u64, new: Option<u64>) {
        if self.leaves_pairs()
            && let Some(mask) = state.mask_of_leftovers()
            && !seeded(match new {
                None => Bug::LeftoverOutlivesRemoval,
                Some(_) => Bug::LeftoverOutlivesUpdate,
            })
            // `BatchReadsLeftovers` shows only if a leftover has another value.
            && (new.is_none() || !seeded(Bug::BatchReadsLeftovers))
        {
            self.change_leftovers_at(mask, hash, tag, new);
        }
    }

    #[cold]
    fn change_leftovers_at(&self, mask: u64, hash: u64, tag: u64, new: Option<u64>) {
        // By compare-and-swap, since these blocks are not locked. A cleaning thread clears the same
        // slots, and no thread stores in a slot that has a tag.
        let change = |slot| match new {
            None => self.medium.clear_first(slot, tag),
            Some(second) => self.medium.replace_second(slot, tag, second),
        };
        let block = self.geometry.block(hash, mask);
        for slot in BitIter::new(self.front.matching(block, 0)) {
            change(self.front.slot(block, slot));
        }
        for block in choices(hash).map(|hash| self.geometry.block(hash, mask)) {
            for slot in Back::<B, M>::empties(self.back.word(block)) {
                change(self.back.slot(block, slot));
            }
        }
    }

    /// Ends a resize whose blocks are all settled: makes the copies durable, and clears the
    /// leftovers. The caller holds the migration lock.
    pub(super) fn clean(&self) -> Result<(), Error> {
        let state = self.state();
        if !matches!(state.phase(), Phase::Doubled | Phase::Halved) {
            return Ok(());
        }
        if !seeded(Bug::CleanWithoutBarrier) {
            self.medium.barrier()?;
        }
        let mask = state.mask_of_leftovers().unwrap_or(state.mask());
        let smaller = self.geometry.blocks(state.mask().min(mask));
        if state.phase() == Phase::Doubled {
            (0..smaller).for_each(|block| self.clean_block(block));
        } else {
            // A later doubling takes the pairs in these blocks for its own. If these stores are
            // lost, the pairs are as they were at the barrier, which is late enough.
            (smaller..2 * smaller).for_each(|block| self.clean_block(block));
        }
        self.set_root(State::root(Phase::Stable, state.rows()));
        self.enter(state.next(Phase::Stable, state.rows()));
        Ok(())
    }

    fn clean_block(&self, block: usize) {
        // Release: before the state that says that no leftovers exist.
        let clear = |slot| self.medium.store_first(slot, 0, Ordering::Release);
        self.front.lock(block);
        for slot in BitIter::new(self.front.leftovers(block)) {
            clear(self.front.slot(block, slot));
        }
        self.front.unlock(block);
        self.back.lock(block);
        for slot in self.back.leftovers(block) {
            clear(self.back.slot(block, slot));
        }
        self.back.unlock(block);
    }

    /// Returns whether a key must wait that finds room in level 3 only, because leftovers take the
    /// room in the other levels. One of 128 keys may go to level 3, so a key waits for a barrier
    /// only if keys come faster than the disk takes them.
    pub(super) fn is_crowded(&self, state: State) -> bool {
        self.leaves_pairs()
            && matches!(state.phase(), Phase::Doubling | Phase::Doubled)
            && self.chains.len() > self.slots() / 128
            && !self.medium.has_failed()
    }

    /// Ends the current resize. The caller holds no lock.
    #[cold]
    pub(super) fn wait_for_clean(&self) {
        // If this fails, the medium has failed, and no thread waits any more.
        drop(self.complete());
    }

    #[cfg(durable)]
    /// Makes everything durable that was acknowledged before, in any medium.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        if !matches!(self.state().phase(), Phase::Doubled | Phase::Halved) {
            return self.medium.persist();
        }
        let _held = self.migrating.lock();
        match self.state().phase() {
            // The barrier is part of `clean`.
            Phase::Doubled | Phase::Halved => self.clean(),
            _ => self.medium.persist(),
        }
    }

    #[cfg(durable)]
    /// Returns whether a resize waits for a barrier.
    pub(crate) fn has_leftovers(&self) -> bool {
        matches!(self.state().phase(), Phase::Doubled | Phase::Halved)
    }

    #[cfg(durable)]
    /// Returns whether [`has_room`](Self::has_room) must be called before a change.
    #[inline(always)]
    pub(crate) fn is_tight(&self) -> bool {
        self.chains.slots().is_tight()
    }

    #[cfg(durable)]
    /// Returns an error if the map is so full that a key might find no room.
    pub(crate) fn has_room(&self) -> Result<(), Error> {
        self.chains.slots().has_room()
    }
}
