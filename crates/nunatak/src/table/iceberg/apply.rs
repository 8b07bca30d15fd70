//! Changes of keys: one function that inserts, puts and deletes (sections 3.2, 5.1).

use super::Table;
use super::back::Back;
use super::batch::Ahead;
use super::behind::BehindSeen;
use super::front::first_from;
use super::geometry::{BlockSizes, Phase, State, back_fingerprint, fingerprint, preferred_slot};
use super::yard::Yard;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::memory::prefetch::prefetch_to_write;
use crate::seeded::{Bug, seeded};
use crate::sync::{FastPin, Ordering, fence};
use crate::table::shared::attempts::{Obstacle, Request};
use crate::table::shared::chains::Prepared;
use crate::table::shared::full_disk::refuse;
use crate::table::shared::memoised_key_test::{KeyTestAnswers, Learning};
use crate::table::stages::{Changes, Figures as _};
use crate::table::{Change, KeyTest};

/// The result of an operation: the value word before, and the change in the number of pairs.
pub(super) type Done = (Option<u64>, i64);

/// The result of an attempt under the lock of a key's front block.
pub(super) enum Attempt {
    Done(Done),
    /// The state has changed.
    Stale,
    /// This value word has the key's hash, and it is unknown whether it belongs to the key.
    Unknown(u64),
    /// The key finds no room, and the medium has no more.
    NoRoom,
    /// Only level 3 has room, and its slots are for other operations.
    Refused,
    /// There will be room when a resize has ended.
    Crowded,
}

/// The result of putting a pair behind its front block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    Done,
    /// Nothing was put: the state has changed.
    Stale,
    /// Nothing was put: there is no room.
    NoRoom,
    /// Nothing was put: only level 3 has room, and its slots are for other operations.
    Refused,
    /// Nothing was put: only level 3 has room, and it gets too full. The other levels will have
    /// room soon.
    Crowded,
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Changes for Table<P, B, M> {
    /// Changes a key by its value word, or inserts it; see
    /// [`PairTable::apply`](crate::table::PairTable::apply).
    ///
    /// Needs one atomic read-modify-write in the front yard, three in the back yard.
    #[inline(always)]
    fn apply<T: KeyTest>(
        &self,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64> {
        let hash = self.codec.hash(word);
        let tag = self.codec.tag(word, hash);
        let request = Request { hash, tag, test, fresh, change: &change };
        let state = self.state();
        if T::BY_WORD
            && !M::IS_PAGED
            && state.is_fast_to_change()
            && let Some(pin) = FastPin::<false>::new()
        {
            let block = self.geometry.block(hash, state.mask());
            // A locked instruction waits for earlier stores, and later instructions wait for it. So
            // all lines are prefetched before.
            prefetch_to_write(self.front.line_address(block));
            let preferred = preferred_slot::<B>(hash) as usize;
            prefetch_to_write(self.front.slot_address(block, preferred));
            let done = self.apply_at_once::<false, T, _>((state, block), &request);
            drop(pin);
            if let Some((before, added)) = done {
                self.count(added);
                return before;
            }
        }
        // A copy, here and below: a value whose address is known elsewhere is kept in memory all the time.
        self.apply_slowly(&{ request })
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Table<P, B, M> {
    /// Performs an operation of a batch. Its lines were prefetched, and it touches no others.
    #[inline(always)]
    pub(super) fn apply_fetched<T: KeyTest>(
        &self,
        (word, ahead): (u64, &Ahead),
        test: &T,
        fresh: Option<u64>,
        change: &impl Fn(u64) -> Change,
    ) -> Option<u64> {
        let tag = self.codec.tag(word, ahead.hash);
        let request = Request { hash: ahead.hash, tag, test, fresh, change };
        if T::BY_WORD
            && !M::IS_PAGED
            && ahead.state.is_fast_to_change()
            && let Some(pin) = FastPin::<false>::new()
        {
            let done = self.apply_at_once::<true, T, _>((ahead.state, ahead.block), &request);
            drop(pin);
            if let Some((before, added)) = done {
                self.count(added);
                return before;
            }
        }
        self.apply_slowly(&{ request })
    }

    #[inline(always)]
    pub(super) fn change_front<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        state: State,
        (block, slot): (usize, usize),
        second: u64,
        request: &Request<'_, T, F>,
    ) -> Done {
        match (request.change)(second) {
            Change::Keep => {}
            Change::To(new) => {
                self.change_leftovers(state, request.hash, request.tag, Some(new));
                self.front.replace(block, slot, new);
            }
            Change::Remove => {
                self.change_leftovers(state, request.hash, request.tag, None);
                self.front.clear(block, slot);
                return (Some(second), -1);
            }
        }
        (Some(second), 0)
    }

    #[inline(never)]
    pub(super) fn apply_slowly<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        request: &Request<'_, T, F>,
    ) -> Option<u64> {
        let &Request { hash, tag, .. } = request;
        // A part of the resize in this state that this thread settles.
        let mut unit: Option<(State, usize)> = None;
        let look_up = |test: &Learning<'_, T>| {
            self.find_tag(hash, tag, test);
        };
        request.repeat(look_up, |known| {
            let pin = self.try_enter().ok_or(Obstacle::Wait)?;
            let state = self.state();
            if state.phase() == Phase::Freezing {
                return Err(Obstacle::Wait);
            }
            if state.is_settling() {
                let is_settled = seeded(Bug::SettleForgotten) || self.settle(state, hash);
                if unit.is_none_or(|(of, _)| of != state) {
                    unit = self.take_unit(state).map(|unit| (state, unit));
                }
                let has_helped = unit.is_none_or(|(_, unit)| self.settle_unit(state, unit));
                if !(is_settled && has_helped) {
                    drop(pin);
                    self.prepare_to_settle();
                    return Err(Obstacle::Gone);
                }
            }
            let block = self.geometry.block(hash, state.mask());
            let is_writable =
                || seeded(Bug::ChangedPageNotCopied) || self.front.make_writable(block).is_ok();
            if M::IS_PAGED && !is_writable() {
                drop(pin);
                self.make_room_for_copies();
                return Err(Obstacle::Gone);
            }
            self.front.lock(block);
            if !self.is_still(state) && !seeded(Bug::LockWithoutStateRecheck) {
                self.front.unlock(block);
                return Err(Obstacle::Gone);
            }
            let attempt = self.apply_under_lock(state, block, request, known);
            drop(pin);
            match attempt {
                Attempt::Done((before, added)) => {
                    self.count(added);
                    return Ok(before);
                }
                Attempt::Unknown(second) => return Err(Obstacle::Unknown(second)),
                Attempt::Refused => {
                    refuse();
                    return Ok(None);
                }
                Attempt::NoRoom if M::IS_PAGED => self.make_room_for_copies(),
                Attempt::NoRoom => panic!("the map's file is full and can't grow"),
                Attempt::Crowded => self.wait_for_clean(),
                Attempt::Stale => {}
            }
            Err(Obstacle::Gone)
        })
    }

    /// Attempts an operation with the front block locked, and unlocks it.
    fn apply_under_lock<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        state: State,
        block: usize,
        request: &Request<'_, T, F>,
        known: &KeyTestAnswers,
    ) -> Attempt {
        let mut matching = self.front.matching(block, fingerprint(request.hash));
        while matching != 0 {
            let slot = matching.trailing_zeros() as usize;
            // Relaxed: under the lock.
            let pair = self.front.slot(block, slot);
            if pair.load_first(Ordering::Relaxed) == request.tag {
                let second = pair.load_second(Ordering::Relaxed);
                match known.is::<T>(second) {
                    Some(true) => {
                        let done = self.change_front(state, (block, slot), second, request);
                        self.front.unlock(block);
                        return Attempt::Done(done);
                    }
                    Some(false) => {}
                    None => {
                        self.front.unlock(block);
                        return Attempt::Unknown(second);
                    }
                }
            }
            matching &= matching - 1;
        }
        self.apply_behind(state, block, request, known)
    }

    /// Completes an attempt for a key that is not in its front block, which is locked. Unlocks the
    /// block.
    #[inline(always)]
    pub(super) fn apply_behind<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        state: State,
        block: usize,
        request: &Request<'_, T, F>,
        known: &KeyTestAnswers,
    ) -> Attempt {
        let attempt = match self.change_behind(state, block, request, known) {
            Some(attempt) => attempt,
            None => match request.fresh {
                None => Attempt::Done((None, 0)),
                Some(value) => {
                    let pair = (request.tag, value);
                    let fingerprint = fingerprint(request.hash);
                    let leftovers = self.leftovers_of_front(state, block);
                    let empty = self.front.empty_for(block, fingerprint) & !leftovers;
                    if empty != 0 {
                        let slot = first_from(empty, preferred_slot::<B>(request.hash));
                        self.front.put(block, slot, fingerprint, pair);
                        Attempt::Done((None, 1))
                    } else {
                        match self.put_behind(state, block, (request.hash, None), pair) {
                            Put::Done => Attempt::Done((None, 1)),
                            Put::Stale => Attempt::Stale,
                            Put::NoRoom => Attempt::NoRoom,
                            Put::Refused => Attempt::Refused,
                            Put::Crowded => Attempt::Crowded,
                        }
                    }
                }
            },
        };
        self.front.unlock(block);
        attempt
    }

    /// Changes a key in the back yard or in level 3. Returns `None` if neither has it.
    #[inline(always)]
    fn change_behind<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        state: State,
        block: usize,
        request: &Request<'_, T, F>,
        known: &KeyTestAnswers,
    ) -> Option<Attempt> {
        if !self.front.is_overflowed(block) {
            return None;
        }
        let seen = self.look_behind(state, request.hash);
        if !seen.matching::<B, M>(request.hash).is_empty() || seen.may_be_chained() {
            let attempt = self.change_where_it_is(state, seen.blocks, &{ *request }, known);
            if attempt.is_some() {
                return attempt;
            }
        }
        // Pairs with the releases of settlers: under a state that began meanwhile they may have
        // moved the key from a block that is searched late to one that was searched early.
        fence(Ordering::Acquire);
        let is_absent = self.is_still(state) || seeded(Bug::AbsentWithoutStateRecheck);
        if is_absent { None } else { Some(Attempt::Stale) }
    }

    #[inline(never)]
    pub(super) fn change_where_it_is<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        state: State,
        blocks: [usize; 2],
        request: &Request<'_, T, F>,
        known: &KeyTestAnswers,
    ) -> Option<Attempt> {
        let is = |second| known.is::<T>(second);
        for block in blocks {
            let word = self.back.word(block);
            for slot in Back::<B, M>::matching(word, back_fingerprint(request.hash)) {
                let pair = self.back.slot(block, slot).load_whole(self.front.pairs_load_whole);
                if pair.0 != request.tag {
                    continue;
                }
                match is(pair.1) {
                    Some(true) => {
                        return Some(self.change_back(state, (block, slot), pair.1, request));
                    }
                    Some(false) => {}
                    None => return Some(Attempt::Unknown(pair.1)),
                }
            }
        }
        if !blocks.iter().all(|&block| self.back.word(block).is_overflowed()) {
            return None;
        }
        for second in self.chains.of(request.hash, request.tag) {
            let pair = (request.tag, second);
            match is(second) {
                Some(true) => {
                    // Only a medium that copies pages may have no room.
                    let (changed, added) = match (request.change)(second) {
                        Change::Keep => (Ok(()), 0),
                        Change::To(new) => {
                            self.change_leftovers(state, request.hash, request.tag, Some(new));
                            (self.chains.replace(request.hash, pair, new), 0)
                        }
                        Change::Remove => {
                            self.change_leftovers(state, request.hash, request.tag, None);
                            (self.chains.remove(request.hash, pair), -1)
                        }
                    };
                    return Some(match changed {
                        Err(_) if M::IS_PAGED => Attempt::NoRoom,
                        _ => Attempt::Done((Some(second), added)),
                    });
                }
                Some(false) => {}
                None => return Some(Attempt::Unknown(second)),
            }
        }
        None
    }

    /// Changes a key that was found in the back yard. It is still there if its block is locked
    /// under the same state: other changes to it wait for the front block, and settlers would have
    /// made a newer state known.
    pub(super) fn change_back<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        state: State,
        (block, slot): (usize, usize),
        second: u64,
        request: &Request<'_, T, F>,
    ) -> Attempt {
        let change = (request.change)(second);
        if change == Change::Keep {
            return Attempt::Done((Some(second), 0));
        }
        self.back.lock(block);
        let is_asked = !seeded(Bug::BackLockWithoutStateRecheck);
        let is_protected =
            || self.is_still(state) && self.is_protected((block, slot), second, request);
        if is_asked && !is_protected() {
            self.back.unlock(block);
            return Attempt::Stale;
        }
        if M::IS_PAGED && self.back.make_writable(block).is_err() {
            self.back.unlock(block);
            return Attempt::NoRoom;
        }
        let added = match change {
            Change::Keep => 0,
            Change::To(new) => {
                self.change_leftovers(state, request.hash, request.tag, Some(new));
                self.back.replace(block, slot, new);
                0
            }
            Change::Remove => {
                self.change_leftovers(state, request.hash, request.tag, None);
                self.back.clear(block, slot);
                -1
            }
        };
        self.back.unlock(block);
        Attempt::Done((Some(second), added))
    }

    /// Returns whether the lock of the key's front block protects a pair of the back yard, whose
    /// block is locked. A hasher that contradicts itself reaches a key by way of another front
    /// block; then another thread may have removed the pair.
    #[inline(always)]
    pub(super) fn is_protected<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        (block, slot): (usize, usize),
        second: u64,
        request: &Request<'_, T, F>,
    ) -> bool {
        if !P::runs_callers_code() {
            return true;
        }
        let pair = self.back.slot(block, slot).load_whole(self.front.pairs_load_whole);
        let mut matching =
            Back::<B, M>::matching(self.back.word(block), back_fingerprint(request.hash));
        pair == (request.tag, second) && matching.any(|other| other == slot)
    }

    /// Puts a pair into the emptier of its blocks of the back yard, or into level 3. The caller
    /// holds the lock of the key's front block, has found the key absent, and has settled its
    /// blocks. A pair that is moved comes with the slots that were prepared for it, and is not
    /// refused.
    #[inline(never)]
    pub(super) fn put_behind(
        &self,
        state: State,
        block: usize,
        (hash, prepared): (u64, Option<&mut Prepared<'_, M>>),
        pair: (u64, u64),
    ) -> Put {
        if !seeded(Bug::FrontMarkForgotten) {
            self.front.mark_overflowed(block);
        }
        let BehindSeen { blocks, words } = self.look_behind(state, hash);
        let fingerprint = back_fingerprint(hash);
        let emptier = Back::<B, M>::emptier(words).0;
        for block in [blocks[emptier], blocks[1 - emptier]] {
            // In RAM one instruction locks the block and sets the fingerprint.
            let slot = match M::IS_DURABLE {
                true => self.back.lock_unused_slot(block),
                false => self.back.lock_empty_slot(block, fingerprint),
            };
            let Some(slot) = slot else { continue };
            let is_still = self.is_still(state) || seeded(Bug::BackLockWithoutStateRecheck);
            if M::IS_PAGED && is_still && self.back.make_writable(block).is_err() {
                self.back.unlock(block);
                return Put::NoRoom;
            }
            match (is_still, M::IS_DURABLE) {
                (true, true) => self.back.put(block, slot, fingerprint, pair),
                (true, false) => self.back.put_pair(block, slot, pair),
                (false, true) => {}
                (false, false) => self.back.clear_fingerprint(block, slot),
            }
            self.back.unlock(block);
            return if is_still { Put::Done } else { Put::Stale };
        }
        if self.is_crowded(state) {
            return Put::Crowded;
        }
        self.mark_choices(state, hash);
        if !self.is_still(state) && !seeded(Bug::BackLockWithoutStateRecheck) {
            // The settlers of these blocks may have come before the marks.
            return Put::Stale;
        }
        let must_refuse =
            || self.chains.slots().must_refuse() || self.config.room.must_refuse(|| self.len());
        let pushed = match prepared {
            None if must_refuse() => return Put::Refused,
            None => self.chains.push(hash, pair),
            Some(prepared) => self.chains.push_prepared(hash, pair, prepared),
        };
        if pushed.is_err() {
            return Put::NoRoom;
        }
        self.grow_if_full();
        Put::Done
    }
}
