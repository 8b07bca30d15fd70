//! Settling of blocks: moving keys to where they belong after a resize (section 5.3), or copying
//! blocks for a snapshot, once in each phase.
//!
//! The hashes of a block's keys are computed before the block is locked; changed keys are computed
//! again. A hasher of the caller's is called while no operation is announced, too
//! ([`hashes`](crate::table::shared::hashes)). A block with unknown hashes is not settled; the
//! thread that wanted to settle it asks for them and tries again.

use super::Table;
use super::apply::Put;
use super::geometry::{BlockSizes, Phase, State, choices};
use super::yard::Yard;
use crate::hash::{HashCodec, with_half};
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::Ordering;
use crate::table::shared::chains::Prepared;

/// The result of an attempt to settle a block.
enum Attempt {
    /// This thread has settled the block.
    Settled,
    /// The block was settled before, or the phase is over.
    Nothing,
    /// The block has changed since its hashes were computed.
    Changed,
    /// Hashes must be asked for first, or pages be freed.
    Unhashed,
}

/// The tags of a block and their hashes. The tag of an empty slot is zero.
type Hashes<const N: usize> = [(u64, u64); N];

/// Returns the tag of a slot. Relaxed: checked again under the lock.
fn tag_of<Y: Yard<N>, const N: usize>(yard: &Y, block: usize, slot: usize) -> u64 {
    if slot < Y::SLOTS { yard.slot(block, slot).load_first(Ordering::Relaxed) } else { 0 }
}

/// Returns whether the tags of a locked block are still those whose hashes are known.
fn is_as_hashed<Y: Yard<N>, const N: usize>(yard: &Y, block: usize, hashes: &Hashes<N>) -> bool {
    (0..Y::SLOTS).all(|slot| tag_of(yard, block, slot) == hashes[slot].0)
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Table<P, B, M> {
    /// Settles all blocks that a key may be in. Returns false if hashes must be asked for first.
    #[must_use]
    pub(super) fn settle(&self, state: State, hash: u64) -> bool {
        let mask = state.smaller_mask();
        self.settle_front(state, self.geometry.block(hash, mask))
            && choices(hash)
                .into_iter()
                .all(|hash| self.settle_back(state, self.geometry.block(hash, mask)))
    }

    /// Settles a block of the front yard and its partner in the other half. Returns false if hashes
    /// must be asked for first. The caller holds no lock.
    #[must_use]
    pub(super) fn settle_front(&self, state: State, block: usize) -> bool {
        self.settle_block(&self.front, state, block)
    }

    /// Settles a block of the back yard like `settle_front`. Takes no lock of the front yard.
    #[must_use]
    pub(super) fn settle_back(&self, state: State, block: usize) -> bool {
        self.settle_block(&self.back, state, block)
    }

    fn settle_block<Y: Yard<N>, const N: usize>(
        &self,
        yard: &Y,
        state: State,
        block: usize,
    ) -> bool {
        while !yard.is_settled(block, state.settled_mark()) {
            let attempt = match state.phase() {
                Phase::Doubling => self.double(yard, state, block),
                Phase::Halving => self.halve(yard, state, block),
                Phase::Copying => self.copy_block(yard, state, block),
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

    /// Returns the hashes of a block's tags, or `None` if they must be asked for first.
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
                *hash = self.codec.hash_of_tag(*tag, half);
            }
            return Some(hashes);
        }
        let keys = || hashes.iter().filter(|(tag, _)| *tag != 0).map(|&(tag, _)| (tag, half));
        if !self.hashes.want(keys()) {
            return None;
        }
        for (tag, hash) in hashes.iter_mut().filter(is_taken) {
            // If another thread has settled the block and forgotten the hash, this one asks again
            // in vain.
            *hash = with_half(self.hashes.of((*tag, half))?, half);
        }
        Some(hashes)
    }

    /// Forgets the hashes of a block that is settled.
    fn forget<const N: usize>(&self, block: usize, hashes: &Hashes<N>) {
        if P::runs_callers_code() {
            let half = self.geometry.half(block);
            self.hashes.forget(hashes.iter().map(|&(tag, _)| (tag, half)));
        }
    }

    /// Returns whether a locked block is still to be settled.
    fn is_unsettled<Y: Yard<N>, const N: usize>(
        &self,
        yard: &Y,
        state: State,
        block: usize,
    ) -> bool {
        self.is_still(state) && !yard.is_settled(block, state.settled_mark())
    }

    /// Returns the partner, in the other half, of a block of the lower half.
    fn partner(&self, state: State, low: usize) -> usize {
        low + self.geometry.blocks(state.smaller_mask())
    }

    /// Moves the keys of a block whose row is now one of the new half.
    fn double<Y: Yard<N>, const N: usize>(&self, yard: &Y, state: State, low: usize) -> Attempt {
        let high = self.partner(state, low);
        let hashes: Option<Hashes<N>> = self.hashes(low, |slot| tag_of(yard, low, slot));
        let Some(hashes) = hashes else { return Attempt::Unhashed };
        if M::IS_PAGED && !self.is_ready_to_settle(yard, [low, high]) {
            return Attempt::Unhashed;
        }
        let locks_low = !(Y::IS_FRONT && seeded(Bug::SettleWithoutLock));
        if locks_low {
            yard.lock(low);
        }
        yard.lock(high);
        let attempt = self.double_locked(yard, state, (low, high), &hashes);
        yard.unlock(high);
        if locks_low {
            yard.unlock(low);
        }
        self.forget(low, &hashes);
        attempt
    }

    fn double_locked<Y: Yard<N>, const N: usize>(
        &self,
        yard: &Y,
        state: State,
        (low, high): (usize, usize),
        hashes: &Hashes<N>,
    ) -> Attempt {
        if !self.is_unsettled(yard, state, low) {
            return Attempt::Nothing;
        }
        if !is_as_hashed(yard, low, hashes) {
            return Attempt::Changed;
        }
        let block_of = |hash| self.geometry.block(hash, state.mask());
        let belongs_there =
            |&(tag, hash): &(u64, u64)| tag != 0 && Y::moves(hash, block_of, low, high);
        let moving = || (0..Y::SLOTS).filter(|&slot| belongs_there(&hashes[slot]));
        if Y::IS_FRONT && seeded(Bug::CountedBeforeMoved) {
            self.enter(state.next(Phase::Stable, state.rows()));
        }
        if Y::IS_FRONT && seeded(Bug::MoveErasesFirst) {
            yard.vacate(low, moving(), false);
        }
        let pairs = moving().map(|slot| {
            let (tag, hash) = hashes[slot];
            let second = yard.slot(low, slot).load_second(Ordering::Relaxed);
            (slot, Y::fingerprint(hash), (tag, second))
        });
        yard.put_all(high, pairs);
        yard.vacate(low, moving(), self.leaves_pairs());
        if yard.is_overflowed(low) && !seeded(Y::MARK_NOT_INHERITED) {
            yard.mark_overflowed(high);
        }
        Self::set_settled(yard, state, (low, high))
    }

    fn set_settled<Y: Yard<N>, const N: usize>(
        yard: &Y,
        state: State,
        (low, high): (usize, usize),
    ) -> Attempt {
        yard.set_settled(high, state.settled_mark());
        yard.set_settled(low, state.settled_mark());
        Attempt::Settled
    }

    /// Moves the keys of a block of the half that goes into its partner, as many as find room. The
    /// other keys go where an insert would put them.
    fn halve<Y: Yard<N>, const N: usize>(&self, yard: &Y, state: State, low: usize) -> Attempt {
        let high = self.partner(state, low);
        let hashes: Option<Hashes<N>> = self.hashes(high, |slot| tag_of(yard, high, slot));
        let Some(hashes) = hashes else { return Attempt::Unhashed };
        let coming = hashes.iter().filter(|(tag, _)| *tag != 0);
        let is_tight = yard.is_tight(low, coming.clone().count());
        if is_tight {
            // Before anything is locked: invariant 2 of the table.
            for hash in coming.flat_map(|&(_, hash)| choices(hash)) {
                if !self.settle_back(state, self.geometry.block(hash, state.smaller_mask())) {
                    return Attempt::Unhashed;
                }
            }
        }
        if M::IS_PAGED && !self.is_ready_to_settle(yard, [low, high]) {
            return Attempt::Unhashed;
        }
        let Some(mut prepared) = self.prepare_overflow(yard, state, low, &hashes) else {
            return Attempt::Unhashed;
        };
        yard.lock(low);
        yard.lock(high);
        let attempt =
            self.halve_locked(yard, state, (low, high), &hashes, (is_tight, &mut prepared));
        yard.unlock(high);
        yard.unlock(low);
        self.forget(high, &hashes);
        attempt
    }

    fn halve_locked<Y: Yard<N>, const N: usize>(
        &self,
        yard: &Y,
        state: State,
        (low, high): (usize, usize),
        hashes: &Hashes<N>,
        (may_overflow, prepared): (bool, &mut Prepared<'_, M>),
    ) -> Attempt {
        if !self.is_unsettled(yard, state, low) {
            return Attempt::Nothing;
        }
        let coming = || (0..Y::SLOTS).filter(|&slot| hashes[slot].0 != 0);
        let is_too_tight = || yard.is_tight(low, coming().count()) && !may_overflow;
        let lacks_slots = M::IS_PAGED && coming().count() > yard.room(low) + prepared.len();
        if !is_as_hashed(yard, high, hashes) || is_too_tight() || lacks_slots {
            return Attempt::Changed;
        }
        if yard.is_overflowed(high) && !(Y::IS_FRONT && seeded(Y::MARK_NOT_INHERITED)) {
            yard.mark_overflowed(low);
        }
        for slot in coming() {
            let (tag, hash) = hashes[slot];
            let pair = (tag, yard.slot(high, slot).load_second(Ordering::Relaxed));
            match yard.empty_slot(low, Y::fingerprint(hash)) {
                Some(free) => yard.put(low, free, Y::fingerprint(hash), pair),
                None if Y::IS_FRONT => {
                    // The phase can't end before this block is settled, and slots of level 3 are
                    // kept for it.
                    let put = self.put_behind(state, low, (hash, Some(&mut *prepared)), pair);
                    debug_assert_eq!(put, Put::Done);
                }
                // Not into the other choice: its lock may not be taken now.
                None => self.chain(state, hash, pair, prepared),
            }
        }
        yard.vacate(high, coming(), self.leaves_pairs());
        Self::set_settled(yard, state, (low, high))
    }

    fn copy_block<Y: Yard<N>, const N: usize>(
        &self,
        yard: &Y,
        state: State,
        block: usize,
    ) -> Attempt {
        yard.lock(block);
        let is_unsettled = self.is_unsettled(yard, state, block);
        if is_unsettled {
            let pairs = (0..Y::SLOTS).map(|slot| yard.slot(block, slot));
            self.copy.push(self.geometry.half(block), pairs);
            yard.set_settled(block, state.settled_mark());
        }
        yard.unlock(block);
        if is_unsettled { Attempt::Settled } else { Attempt::Nothing }
    }

    /// Puts a pair into level 3, after the marks by which lookups find it.
    fn chain(&self, state: State, hash: u64, pair: (u64, u64), prepared: &mut Prepared<'_, M>) {
        self.mark_choices(state, hash);
        let pushed = self.chains.push_prepared(hash, pair, prepared);
        debug_assert_eq!(pushed, Ok(()), "slots were kept for this");
    }

    pub(super) fn mark_choices(&self, state: State, hash: u64) {
        if !seeded(Bug::ChainedWithoutMark) {
            for hash in choices(hash) {
                self.back.mark_overflowed(self.geometry.block(hash, state.mask()));
            }
        }
    }
}
