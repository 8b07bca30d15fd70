//! Changes of keys that are their words, while no resize and no other thread is in the way: the same
//! steps as in [`apply`](super::apply), in line and with what was seen before.

use super::Table;
use super::apply::{Attempt, Done, Put};
use super::back::Back;
use super::behind::BehindSeen;
use super::front::first_from;
use super::geometry::{BlockSizes, State, back_fingerprint, fingerprint, preferred_slot};
use super::yard::Yard;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::{Ordering, fence};
use crate::table::shared::attempts::Request;
use crate::table::shared::memoised_key_test::NO_ANSWERS;
use crate::table::{Change, KeyTest};

impl<P: HashCodec, B: BlockSizes, M: Medium> Table<P, B, M> {
    /// Performs an operation on a key that is its word, unless a resize or another thread is in the
    /// way. The state may have been loaded before this operation was announced.
    #[inline(always)]
    pub(super) fn apply_at_once<const FETCHED: bool, T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        (state, block): (State, usize),
        request: &Request<'_, T, F>,
    ) -> Option<Done> {
        // A block of an older state may be beyond the size in use. Only operations that the
        // shrinking waits for may lock such a block.
        if self.state() != state || !self.front.try_lock(block) {
            return None;
        }
        if !self.is_still(state) && !seeded(Bug::LockWithoutStateRecheck) {
            self.front.unlock(block);
            return None;
        }
        if let Some((slot, second)) = self.find_locked::<FETCHED, T, F>(block, request) {
            let done = self.change_front(state, (block, slot), second, request);
            self.front.unlock(block);
            return Some(done);
        }
        if M::IS_DURABLE {
            return match self.apply_behind(state, block, request, &NO_ANSWERS) {
                Attempt::Done(done) => Some(done),
                _ => None,
            };
        }
        let done = self.apply_behind_at_once(state, block, request);
        self.front.unlock(block);
        done
    }

    /// Returns the slot and the value word of a key in a locked front block. The word must be the
    /// key.
    #[inline(always)]
    fn find_locked<const FETCHED: bool, T: KeyTest, F>(
        &self,
        block: usize,
        request: &Request<'_, T, F>,
    ) -> Option<(usize, u64)> {
        let preferred = preferred_slot::<B>(request.hash);
        let mut matching = self.front.matching_fast(block, fingerprint(request.hash));
        // As in a lookup, a miss loads the preferred slot. A batch has not prefetched that slot,
        // and loads one that is always empty.
        let mut slot = first_from(matching, preferred);
        let mut pair = self.front.slot_or_none(block, slot, !FETCHED || matching != 0);
        loop {
            // Relaxed: under the lock.
            if pair.load_first(Ordering::Relaxed) == request.tag {
                return Some((slot, pair.load_second(Ordering::Relaxed)));
            }
            if matching & matching.wrapping_sub(1) == 0 {
                return None;
            }
            matching &= !(1 << slot);
            slot = first_from(matching, preferred);
            pair = self.front.slot(block, slot);
        }
    }

    /// Completes an operation in RAM on a key that is not in its front block, which is locked.
    #[inline(always)]
    fn apply_behind_at_once<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        state: State,
        block: usize,
        request: &Request<'_, T, F>,
    ) -> Option<Done> {
        let &Request { hash, tag, fresh, .. } = request;
        let mut seen = None;
        if self.front.is_overflowed(block) {
            let behind = self.look_behind(state, hash);
            for (at, slot) in behind.matching::<B, M>(hash) {
                let place = (behind.blocks[at], slot);
                let pair = self.back.slot(place.0, slot).load_whole(self.front.pairs_load_whole);
                if pair.0 == tag {
                    return self.change_back_at_once(state, place, pair.1, request);
                }
            }
            if behind.may_be_chained() {
                let blocks = behind.blocks;
                match self.change_where_it_is(state, blocks, &{ *request }, &NO_ANSWERS) {
                    Some(Attempt::Done(done)) => return Some(done),
                    Some(_) => return None,
                    None => {}
                }
            }
            // Pairs with the releases of settlers: as in `change_behind`.
            fence(Ordering::Acquire);
            if !self.is_still(state) && !seeded(Bug::AbsentWithoutStateRecheck) {
                return None;
            }
            seen = Some(behind);
        }
        let Some(value) = fresh else { return Some((None, 0)) };
        let empty = self.front.empty_for(block, fingerprint(hash));
        if empty != 0 {
            let slot = first_from(empty, preferred_slot::<B>(hash));
            self.front.put(block, slot, fingerprint(hash), (tag, value));
            return Some((None, 1));
        }
        let behind = seen.unwrap_or_else(|| {
            if !seeded(Bug::FrontMarkForgotten) {
                self.front.mark_overflowed(block);
            }
            self.look_behind(state, hash)
        });
        if self.put_back_at_once(state, behind, hash, (tag, value)) {
            return Some((None, 1));
        }
        match self.put_behind(state, block, (hash, None), (tag, value)) {
            Put::Done => Some((None, 1)),
            Put::Stale | Put::NoRoom | Put::Refused | Put::Crowded => None,
        }
    }

    /// Puts a pair into the emptier of its blocks of the back yard. Returns `false`, and has
    /// changed nothing, if both are full or something is in the way.
    #[inline(always)]
    fn put_back_at_once(
        &self,
        state: State,
        behind: BehindSeen,
        hash: u64,
        pair: (u64, u64),
    ) -> bool {
        let (emptier, empty) = Back::<B, M>::emptier(behind.words);
        let Some(slot) = empty else { return false };
        let block = behind.blocks[emptier];
        let fingerprint = back_fingerprint(hash);
        if !self.back.try_lock_slot(block, behind.words[emptier], slot, fingerprint) {
            return false;
        }
        let is_asked =
            !seeded(Bug::BackLockWithoutStateRecheck) && !seeded(Bug::PutBackAtOnceInAnyState);
        if is_asked && !self.is_still(state) {
            self.back.clear_fingerprint(block, slot);
            self.back.unlock(block);
            return false;
        }
        self.back.put_pair(block, slot, pair);
        self.back.unlock(block);
        true
    }

    /// Changes a key that was found in the back yard: see [`change_back`](Self::change_back).
    #[inline(always)]
    fn change_back_at_once<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        state: State,
        (block, slot): (usize, usize),
        second: u64,
        request: &Request<'_, T, F>,
    ) -> Option<Done> {
        let change = (request.change)(second);
        if change == Change::Keep {
            return Some((Some(second), 0));
        }
        if !self.back.try_lock(block) {
            return None;
        }
        let is_asked =
            !seeded(Bug::BackLockWithoutStateRecheck) && !seeded(Bug::ChangedBackAtOnceInAnyState);
        let is_protected =
            || self.is_still(state) && self.is_protected((block, slot), second, request);
        if is_asked && !is_protected() {
            self.back.unlock(block);
            return None;
        }
        match change {
            Change::Keep => {}
            Change::To(new) => self.back.replace(block, slot, new),
            Change::Remove => {
                self.back.clear_and_unlock(block, slot);
                return Some((Some(second), -1));
            }
        }
        self.back.unlock(block);
        Some((Some(second), 0))
    }
}
