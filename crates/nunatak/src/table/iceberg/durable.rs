//! What a durable table does beyond one in RAM.
//!
//! **Reads.** What a read returns must not be taken back by a crash. What is stored is
//! seen at once; whoever stores it holds the block's lock until it is durable. So a
//! read that finds a block locked after it has read the slot makes the slot durable
//! itself. (To give a pair its fingerprint only when it is durable is not enough, and
//! wrong: the slot's last key may have left one that is the same to whoever has read
//! it, so that one lookup finds the pair, and the next does not.)
//!
//! **Moves.** Of a pair that is moved, the copy must be durable before the original is
//! gone. In a medium that is ordered that takes a fence. In others it would take a
//! barrier for every block; so the originals are left where they were, without a
//! fingerprint, so that nobody finds them. One barrier follows when all blocks are
//! settled (the phases `Doubled` and `Halved`), and then they are cleared. After a
//! crash in between, a pair that is where it belongs is right, and one of the same key
//! where it does not is what was left. Therefore whoever removes a key meanwhile
//! clears what was left of it first; and whoever gives it a value gives that to what
//! was left, too: a barrier may come before the removal, and then a crash that loses
//! the removal of the one and not the clearing of the other must not go back behind
//! it.

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
    /// Makes what a read has found in a slot of the front yard durable, if whoever
    /// stored it may not have done so.
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

    /// Whether pairs that are moved are left where they were, for a time.
    #[inline(always)]
    pub(super) fn leaves_pairs(&self) -> bool {
        M::IS_DURABLE && !self.medium.is_ordered() && !seeded(Bug::MovedAtOnce)
    }

    /// The slots of a front block, which is locked, that look empty and are not.
    #[inline(always)]
    pub(super) fn leftovers_of_front(&self, state: State, block: usize) -> u64 {
        let may_be_there = M::IS_DURABLE && state.mask_of_leftovers().is_some();
        if may_be_there && !seeded(Bug::LeftoverOverwritten) {
            self.front.leftovers(block)
        } else {
            0
        }
    }

    /// Clears what a resize has left of a key that is about to be removed, or gives it
    /// the key's new value. The caller holds the lock of its front block.
    #[inline(always)]
    pub(super) fn change_leftovers(&self, state: State, hash: u64, tag: u64, new: Option<u64>) {
        if self.leaves_pairs()
            && let Some(mask) = state.mask_of_leftovers()
            && !seeded(match new {
                None => Bug::LeftoverOutlivesRemoval,
                Some(_) => Bug::LeftoverOutlivesUpdate,
            })
            // Which is seen if what is left has another value only.
            && (new.is_none() || !seeded(Bug::BatchReadsLeftovers))
        {
            self.change_leftovers_at(mask, hash, tag, new);
        }
    }

    #[cold]
    fn change_leftovers_at(&self, mask: u64, hash: u64, tag: u64, new: Option<u64>) {
        // By compare-and-swap, since no lock of these blocks is held: whoever cleans
        // up clears the same, and nobody stores in a slot that has a tag.
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

    /// Ends a resize whose blocks are all settled: when the copies are durable, what
    /// was left is cleared. The caller holds the migration lock.
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
            // A later doubling takes what it finds there for its own. If these stores are
            // lost, that is what keys had at the barrier, which is late enough.
            (smaller..2 * smaller).for_each(|block| self.clean_block(block));
        }
        self.medium.set_root(State::root(Phase::Stable, state.rows()));
        self.enter(state.next(Phase::Stable, state.rows()));
        Ok(())
    }

    fn clean_block(&self, block: usize) {
        // Release: before the state that says that there are none.
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

    /// Whether a key that finds room in level 3 only waits for what a resize has left in
    /// the others: one of a hundred may go there, so that nobody waits for a barrier
    /// unless keys come faster than the disk takes them.
    pub(super) fn is_crowded(&self, state: State) -> bool {
        self.leaves_pairs()
            && matches!(state.phase(), Phase::Doubling | Phase::Doubled)
            && self.chains.len() > self.slots() / 128
            && !self.medium.has_failed()
    }

    /// Ends the resize that is under way. The caller holds no lock.
    #[cold]
    pub(super) fn wait_for_clean(&self) {
        // If it fails the medium says so, and nobody waits any more.
        drop(self.complete());
    }

    #[cfg(durable)]
    /// All that was acknowledged before is durable after it, whatever the medium.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        if !matches!(self.state().phase(), Phase::Doubled | Phase::Halved) {
            return self.medium.persist();
        }
        let _held = self.migrating.lock();
        match self.state().phase() {
            // The barrier is part of it.
            Phase::Doubled | Phase::Halved => self.clean(),
            _ => self.medium.persist(),
        }
    }

    #[cfg(durable)]
    /// Whether a resize waits for a barrier.
    pub(crate) fn has_leftovers(&self) -> bool {
        matches!(self.state().phase(), Phase::Doubled | Phase::Halved)
    }

    #[cfg(durable)]
    /// Whether it has to be asked whether there is room.
    #[inline(always)]
    pub(crate) fn is_tight(&self) -> bool {
        self.chains.slots().is_tight()
    }

    #[cfg(durable)]
    /// An error if the map is so full that a key might find no room.
    pub(crate) fn has_room(&self) -> Result<(), Error> {
        self.chains.slots().has_room()
    }
}
