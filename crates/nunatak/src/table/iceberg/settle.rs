//! Settling blocks: moving what belongs elsewhere after a resize (section 5.3),
//! or copying them for a snapshot, once in each phase.
//!
//! The hashes of a block's keys are computed before it is locked; what has changed until then
//! is computed again. If the hasher is the caller's, it is asked while no operation is announced,
//! too ([`hashes`](crate::table::shared::hashes)): a block whose hashes are not known is not settled, and
//! who wanted that asks and tries again.

use super::Table;
use super::apply::Put;
use super::back::Back;
use super::geometry::{BlockSizes, Phase, State, back_fingerprint, choices, fingerprint};
use crate::hash::{Placement, with_half};
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::Ordering;

/// What became of an attempt to settle a block.
enum Attempt {
    /// It is settled, by this thread.
    Settled,
    /// It was settled before, or the phase is over.
    Nothing,
    /// It has changed since its hashes were computed.
    Changed,
    /// Hashes are to be asked for first.
    Unhashed,
}

/// The tags of a block and their hashes; tag zero for a slot that is empty.
type Hashes<const N: usize> = [(u64, u64); N];

impl<P: Placement, B: BlockSizes, M: Medium> Table<P, B, M> {
    /// Settles all blocks that a key may be in; false if hashes are to be asked for first.
    #[must_use]
    pub(super) fn settle(&self, state: State, hash: u64) -> bool {
        let mask = state.smaller_mask();
        self.settle_front(state, self.geometry.block(hash, mask))
            && choices(hash)
                .into_iter()
                .all(|hash| self.settle_back(state, self.geometry.block(hash, mask)))
    }

    /// Settles a block of the front yard, and the one of the other half that goes
    /// with it; false if hashes are to be asked for first. The caller holds no lock.
    #[must_use]
    pub(super) fn settle_front(&self, state: State, block: usize) -> bool {
        while !self.front.is_settled(block, state.settled_mark()) {
            let attempt = match state.phase() {
                Phase::Doubling => self.double_front(state, block),
                Phase::Halving => self.halve_front(state, block),
                Phase::Copying => self.copy_front(state, block),
                Phase::Stable | Phase::Freezing | Phase::Doubled | Phase::Halved => return true,
            };
            match attempt {
                Attempt::Settled => {
                    self.settled_one(state);
                    return true;
                }
                Attempt::Nothing => return true,
                Attempt::Changed => {}
                Attempt::Unhashed => return false,
            }
        }
        true
    }

    /// As above, of the back yard. Takes no lock of the front yard.
    #[must_use]
    pub(super) fn settle_back(&self, state: State, block: usize) -> bool {
        while !self.back.is_settled(block, state.settled_mark()) {
            let attempt = match state.phase() {
                Phase::Doubling => self.double_back(state, block),
                Phase::Halving => self.halve_back(state, block),
                Phase::Copying => self.copy_back(state, block),
                Phase::Stable | Phase::Freezing | Phase::Doubled | Phase::Halved => return true,
            };
            match attempt {
                Attempt::Settled => {
                    self.settled_one(state);
                    return true;
                }
                Attempt::Nothing => return true,
                Attempt::Changed => {}
                Attempt::Unhashed => return false,
            }
        }
        true
    }

    /// The hashes of a block's tags; nothing if they are to be asked for first.
    fn hashes<const N: usize>(
        &self,
        block: usize,
        tag: impl Fn(usize) -> u64,
    ) -> Option<Hashes<N>> {
        let half = self.geometry.half(block);
        let mut hashes: Hashes<N> = core::array::from_fn(|slot| (tag(slot), 0));
        let is_taken = |&&mut (tag, _): &&mut (u64, u64)| tag != 0;
        if !P::runs_callers_code() {
            for (tag, hash) in hashes.iter_mut().filter(is_taken) {
                *hash = self.placement.hash_of_tag(*tag, half);
            }
            return Some(hashes);
        }
        let keys = || hashes.iter().filter(|(tag, _)| *tag != 0).map(|&(tag, _)| (tag, half));
        if !self.hashes.want(keys()) {
            return None;
        }
        for (tag, hash) in hashes.iter_mut().filter(is_taken) {
            // Forgotten by another thread that has settled the block: it asks again in vain.
            *hash = with_half(self.hashes.of((*tag, half))?, half);
        }
        Some(hashes)
    }

    /// The keys of a block that is settled.
    fn forget<const N: usize>(&self, block: usize, hashes: &Hashes<N>) {
        if P::runs_callers_code() {
            let half = self.geometry.half(block);
            self.hashes.forget(hashes.iter().map(|&(tag, _)| (tag, half)));
        }
    }

    fn front_tag(&self, block: usize, slot: usize) -> u64 {
        // Relaxed: looked at again under the lock.
        if slot < B::FRONT { self.front.slot(block, slot).load_first(Ordering::Relaxed) } else { 0 }
    }

    fn back_tag(&self, block: usize, slot: usize) -> u64 {
        if slot < B::BACK { self.back.slot(block, slot).load_first(Ordering::Relaxed) } else { 0 }
    }

    /// Whether a block that is locked is to be settled still.
    fn is_unsettled_front(&self, state: State, block: usize) -> bool {
        self.is_still(state) && !self.front.is_settled(block, state.settled_mark())
    }

    fn is_unsettled_back(&self, state: State, block: usize) -> bool {
        self.is_still(state) && !self.back.is_settled(block, state.settled_mark())
    }

    /// Moves the keys of a block whose row is a new one.
    fn double_front(&self, state: State, low: usize) -> Attempt {
        let high = low + self.geometry.blocks(state.smaller_mask());
        let hashes: Option<Hashes<64>> = self.hashes(low, |slot| self.front_tag(low, slot));
        let Some(hashes) = hashes else { return Attempt::Unhashed };
        if !seeded(Bug::SettleWithoutLock) {
            self.front.lock(low);
        }
        self.front.lock(high);
        let attempt = self.double_locked_front(state, (low, high), &hashes);
        self.front.unlock(high);
        if !seeded(Bug::SettleWithoutLock) {
            self.front.unlock(low);
        }
        self.forget(low, &hashes);
        attempt
    }

    fn double_locked_front(
        &self,
        state: State,
        (low, high): (usize, usize),
        hashes: &Hashes<64>,
    ) -> Attempt {
        if !self.is_unsettled_front(state, low) {
            return Attempt::Nothing;
        }
        let is_as_hashed = |slot: &usize| self.front_tag(low, *slot) == hashes[*slot].0;
        if !(0..B::FRONT).all(|slot| is_as_hashed(&slot)) {
            return Attempt::Changed;
        }
        let belongs_there =
            |&(tag, hash): &(u64, u64)| tag != 0 && self.geometry.block(hash, state.mask()) == high;
        let moving = || (0..B::FRONT).filter(|&slot| belongs_there(&hashes[slot]));
        if seeded(Bug::CountedBeforeMoved) {
            self.enter(state.next(Phase::Stable, state.rows()));
        }
        if seeded(Bug::MoveErasesFirst) {
            self.front.clear_all(low, moving());
        }
        let pairs = moving().map(|slot| {
            let (tag, hash) = hashes[slot];
            let second = self.front.slot(low, slot).load_second(Ordering::Relaxed);
            (slot, fingerprint(hash), (tag, second))
        });
        self.front.put_all(high, pairs);
        self.vacate_front(low, moving());
        if self.front.is_overflowed(low) && !seeded(Bug::FrontMarkNotInherited) {
            self.front.mark_overflowed(high);
        }
        self.mark_front(state, (low, high));
        Attempt::Settled
    }

    fn mark_front(&self, state: State, (low, high): (usize, usize)) {
        self.front.set_settled(high, state.settled_mark());
        self.front.set_settled(low, state.settled_mark());
    }

    /// Moves all keys of a block of the half that goes into its partner, or as
    /// many as find room; the others go where an insert would put them.
    fn halve_front(&self, state: State, low: usize) -> Attempt {
        let high = low + self.geometry.blocks(state.smaller_mask());
        let hashes: Option<Hashes<64>> = self.hashes(high, |slot| self.front_tag(high, slot));
        let Some(hashes) = hashes else { return Attempt::Unhashed };
        let coming = hashes.iter().filter(|(tag, _)| *tag != 0);
        // All but the last, which not every key may go to.
        let free = self.front.empty_for(low, 0x80).count_ones() as usize;
        let is_tight = coming.clone().count() > free;
        if is_tight {
            // Before anything is locked: invariant 2 of the table.
            for hash in coming.flat_map(|&(_, hash)| choices(hash)) {
                if !self.settle_back(state, self.geometry.block(hash, state.smaller_mask())) {
                    return Attempt::Unhashed;
                }
            }
        }
        self.front.lock(low);
        self.front.lock(high);
        let attempt = self.halve_locked_front(state, (low, high), &hashes, is_tight);
        self.front.unlock(high);
        self.front.unlock(low);
        self.forget(high, &hashes);
        attempt
    }

    fn halve_locked_front(
        &self,
        state: State,
        (low, high): (usize, usize),
        hashes: &Hashes<64>,
        may_overflow: bool,
    ) -> Attempt {
        if !self.is_unsettled_front(state, low) {
            return Attempt::Nothing;
        }
        let coming = || (0..B::FRONT).filter(|&slot| hashes[slot].0 != 0);
        let free = self.front.empty_for(low, 0x80).count_ones() as usize;
        if !(0..B::FRONT).all(|slot| self.front_tag(high, slot) == hashes[slot].0)
            || coming().count() > free && !may_overflow
        {
            return Attempt::Changed;
        }
        if self.front.is_overflowed(high) && !seeded(Bug::FrontMarkNotInherited) {
            self.front.mark_overflowed(low);
        }
        for slot in coming() {
            let (tag, hash) = hashes[slot];
            let pair = (tag, self.front.slot(high, slot).load_second(Ordering::Relaxed));
            match self.front.empty_for(low, fingerprint(hash)) {
                0 => {
                    // The phase can't end before this block is settled, and slots of
                    // level 3 were kept for it.
                    let put = self.put_behind(state, low, hash, pair);
                    debug_assert_eq!(put, Put::Done);
                }
                free => {
                    self.front.put(low, free.trailing_zeros() as usize, fingerprint(hash), pair);
                }
            }
        }
        self.vacate_front(high, coming());
        self.mark_front(state, (low, high));
        Attempt::Settled
    }

    fn double_back(&self, state: State, low: usize) -> Attempt {
        let high = low + self.geometry.blocks(state.smaller_mask());
        let hashes: Option<Hashes<8>> = self.hashes(low, |slot| self.back_tag(low, slot));
        let Some(hashes) = hashes else { return Attempt::Unhashed };
        self.back.lock(low);
        self.back.lock(high);
        let attempt = self.double_locked_back(state, (low, high), &hashes);
        self.back.unlock(high);
        self.back.unlock(low);
        self.forget(low, &hashes);
        attempt
    }

    fn double_locked_back(
        &self,
        state: State,
        (low, high): (usize, usize),
        hashes: &Hashes<8>,
    ) -> Attempt {
        if !self.is_unsettled_back(state, low) {
            return Attempt::Nothing;
        }
        if !(0..B::BACK).all(|slot| self.back_tag(low, slot) == hashes[slot].0) {
            return Attempt::Changed;
        }
        // A key may stay if either of its choices does.
        let belongs_there = |&(tag, hash): &(u64, u64)| {
            tag != 0
                && choices(hash).iter().all(|&hash| self.geometry.block(hash, state.mask()) != low)
        };
        let moving = || (0..B::BACK).filter(|&slot| belongs_there(&hashes[slot]));
        for slot in moving() {
            let (tag, hash) = hashes[slot];
            let second = self.back.slot(low, slot).load_second(Ordering::Relaxed);
            self.back.put(high, slot, back_fingerprint(hash), (tag, second));
        }
        self.vacate_back(low, moving());
        if self.back.word(low).is_overflowed() && !seeded(Bug::MarkNotInherited) {
            self.back.mark_overflowed(high);
        }
        self.mark_back(state, (low, high));
        Attempt::Settled
    }

    fn mark_back(&self, state: State, (low, high): (usize, usize)) {
        self.back.set_settled(high, state.settled_mark());
        self.back.set_settled(low, state.settled_mark());
    }

    fn halve_back(&self, state: State, low: usize) -> Attempt {
        let high = low + self.geometry.blocks(state.smaller_mask());
        let hashes: Option<Hashes<8>> = self.hashes(high, |slot| self.back_tag(high, slot));
        let Some(hashes) = hashes else { return Attempt::Unhashed };
        self.back.lock(low);
        self.back.lock(high);
        let attempt = self.halve_locked_back(state, (low, high), &hashes);
        self.back.unlock(high);
        self.back.unlock(low);
        self.forget(high, &hashes);
        attempt
    }

    fn halve_locked_back(
        &self,
        state: State,
        (low, high): (usize, usize),
        hashes: &Hashes<8>,
    ) -> Attempt {
        if !self.is_unsettled_back(state, low) {
            return Attempt::Nothing;
        }
        if !(0..B::BACK).all(|slot| self.back_tag(high, slot) == hashes[slot].0) {
            return Attempt::Changed;
        }
        if self.back.word(high).is_overflowed() {
            self.back.mark_overflowed(low);
        }
        let coming = || (0..B::BACK).filter(|&slot| hashes[slot].0 != 0);
        for slot in coming() {
            let (tag, hash) = hashes[slot];
            let pair = (tag, self.back.slot(high, slot).load_second(Ordering::Relaxed));
            match Back::<B, M>::empties(self.back.word(low)).next() {
                Some(free) => self.back.put(low, free, back_fingerprint(hash), pair),
                // Not to the other choice, whose lock may not be taken now.
                None => self.chain(state, hash, pair),
            }
        }
        self.vacate_back(high, coming());
        self.mark_back(state, (low, high));
        Attempt::Settled
    }

    /// Puts a pair into level 3, after the marks by which it is found.
    pub(super) fn chain(&self, state: State, hash: u64, pair: (u64, u64)) {
        self.mark_choices(state, hash);
        let pushed = self.chains.push(hash, pair);
        debug_assert_eq!(pushed, Ok(()), "slots were kept for this");
    }

    pub(super) fn mark_choices(&self, state: State, hash: u64) {
        if !seeded(Bug::ChainedWithoutMark) {
            for hash in choices(hash) {
                self.back.mark_overflowed(self.geometry.block(hash, state.mask()));
            }
        }
    }

    /// Empties slots whose pairs have been stored elsewhere. Where that is not
    /// durable before this, the pairs are left as they are, but are not found.
    fn vacate_front(&self, block: usize, slots: impl Iterator<Item = usize> + Clone) {
        if self.leaves_pairs() {
            slots.for_each(|slot| self.front.set_fingerprint(block, slot, 0));
        } else {
            self.front.clear_all(block, slots);
        }
    }

    fn vacate_back(&self, block: usize, slots: impl Iterator<Item = usize>) {
        if self.leaves_pairs() {
            slots.for_each(|slot| self.back.clear_fingerprint(block, slot));
        } else {
            slots.for_each(|slot| self.back.clear(block, slot));
        }
    }

    fn copy_front(&self, state: State, block: usize) -> Attempt {
        self.front.lock(block);
        let is_unsettled = self.is_unsettled_front(state, block);
        if is_unsettled {
            let pairs = (0..B::FRONT).map(|slot| self.front.slot(block, slot));
            self.copy.push(self.geometry.half(block), pairs);
            self.front.set_settled(block, state.settled_mark());
        }
        self.front.unlock(block);
        if is_unsettled { Attempt::Settled } else { Attempt::Nothing }
    }

    fn copy_back(&self, state: State, block: usize) -> Attempt {
        self.back.lock(block);
        let is_unsettled = self.is_unsettled_back(state, block);
        if is_unsettled {
            let pairs = (0..B::BACK).map(|slot| self.back.slot(block, slot));
            self.copy.push(self.geometry.half(block), pairs);
            self.back.set_settled(block, state.settled_mark());
        }
        self.back.unlock(block);
        if is_unsettled { Attempt::Settled } else { Attempt::Nothing }
    }
}
