//! Changes: one function inserts, replaces and removes.

use super::Table;
use super::directory::Found;
use super::geometry::{Strategy, fingerprint, second_bucket};
use super::locks::{Buckets, HeldStash, NoRoom};
use super::segments::STASH;
use super::two_choice::Either;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::{FastPin, Shared};
use crate::table::shared::attempts::{Obstacle, Request};
use crate::table::shared::bucket::{Flag, Header, Layout, clear_slot, put_into_slot};
use crate::table::shared::full_disk::refuse;
use crate::table::shared::memoised_key_test::{KeyTestAnswers, Learning, NO_ANSWERS};
use crate::table::shared::rehashed::Rehashed;
use crate::table::stages::Changes;
use crate::table::{Change, KeyTest};

/// The result of an attempt under the lock of a key's first bucket.
enum Attempt {
    /// The value word from before, and the change of the number of pairs.
    Done(Option<u64>, i64),
    /// This value word has the key's tag. Whether the key is the same is not known yet.
    Unknown(u64),
    /// The attempt must be repeated with both buckets locked in order.
    InOrder,
    /// The segment's strategy has no room.
    Full,
    /// There is no room for a copy of a page.
    NoRoom,
    /// Only a chain has room, and its slots are for other operations.
    Refused,
}

#[derive(Clone, Copy)]
enum Place {
    First(usize),
    Second(usize),
    /// The number of the stash bucket, and the slot.
    Stash(usize, usize),
    Chain,
}

impl<P: HashCodec, M: Medium, L: Layout> Changes for Table<P, M, L> {
    /// Changes a key by its value word, or inserts it; see
    /// [`PairTable::apply`](crate::table::PairTable::apply).
    #[inline(always)]
    fn apply<T: KeyTest>(
        &self,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64> {
        self.apply_hashed::<true, _>(self.codec.hash(word), None, word, test, fresh, change)
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Applies a change to a key whose hash is known. Fetches its buckets if `FETCHES`; otherwise
    /// they are on their way, and `ahead` was the key's entry.
    #[inline(always)]
    pub(super) fn apply_hashed<const FETCHES: bool, T: KeyTest>(
        &self,
        hash: u64,
        ahead: Option<Found<'_>>,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64> {
        let tag = self.codec.tag(word, hash);
        let request = Request { hash, tag, test, fresh, change: &change };
        if !T::BY_WORD {
            return self.run::<FETCHES, _, _>(&request);
        }
        match self.run_once::<FETCHES, _, _>(ahead, &request) {
            Some(before) => before,
            // A copy, here and below: a value whose address is known elsewhere is kept in memory all the time.
            None => self.run_again::<FETCHES, _, _>(&{ request }),
        }
    }

    /// Makes one attempt, which is enough for nearly all operations. A function of its own, since a
    /// loop needs more values than there are registers (`docs/measurements.md`).
    #[inline(always)]
    fn run_once<const FETCHES: bool, T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        ahead: Option<Found<'_>>,
        request: &Request<'_, T, F>,
    ) -> Option<Option<u64>> {
        // As in TurboHash.
        let pin = FastPin::<false>::new()?;
        if self.cut.is_frozen() && !seeded(Bug::FrozenIgnored) {
            return None;
        }
        // If the entry is the key's within the operation, its segment is not reused meanwhile.
        let is_still = |found: &Found<'_>| self.directories.is_still(*found);
        let found = ahead.filter(is_still).unwrap_or_else(|| self.locate(request.hash));
        let buckets = self.lock_fetched::<FETCHES>(found, request.hash, false)?;
        let attempt = self.attempt::<FETCHES, _, _>(found, buckets, request, (&NO_ANSWERS, false));
        buckets.unlock();
        drop(pin);
        match attempt {
            Attempt::Done(before, added) => {
                if added != 0 {
                    self.registry.count::<Shared>(added);
                }
                Some(before)
            }
            _ => None,
        }
    }

    /// Locks the buckets of a key, and fetches them meanwhile if `FETCHES`. Returns nothing if the
    /// key's entry has changed.
    #[inline(always)]
    fn lock_fetched<const FETCHES: bool>(
        &self,
        found: Found<'_>,
        hash: u64,
        both: bool,
    ) -> Option<Buckets<'_, M, L>> {
        self.copy_before_change(found, hash);
        if FETCHES {
            // Before the lock, since no load runs ahead of it.
            self.prefetch_buckets(found, hash);
        }
        let buckets = self.lock_buckets(found, hash, both);
        if !self.directories.is_still(found) && !seeded(Bug::LockedWithoutEntry) {
            buckets.unlock();
            return None;
        }
        Some(buckets)
    }

    /// Tries again after a failed attempt.
    #[cold]
    #[inline(never)]
    fn run_again<const FETCHES: bool, T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        request: &Request<'_, T, F>,
    ) -> Option<u64> {
        self.run::<FETCHES, _, _>(request)
    }

    fn run<const FETCHES: bool, T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        request: &Request<'_, T, F>,
    ) -> Option<u64> {
        let &Request { hash, tag, .. } = request;
        let (mut hashes, mut in_order, mut is_refused) = (Rehashed::default(), false, false);
        let look_up = |test: &Learning<'_, T>| {
            self.find_tag::<FETCHES, _>(hash, tag, test);
        };
        request.repeat(look_up, |known| {
            let pin = self.cut.try_enter().ok_or(Obstacle::Wait)?;
            let found = self.locate(hash);
            let locked = self.lock_fetched::<FETCHES>(found, hash, in_order);
            let buckets = locked.ok_or(Obstacle::Gone)?;
            let attempt =
                self.attempt::<FETCHES, _, _>(found, buckets, request, (known, is_refused));
            buckets.unlock();
            match attempt {
                Attempt::Done(before, added) => {
                    drop(pin);
                    if added != 0 {
                        self.registry.count::<Shared>(added);
                    }
                    return Ok(before);
                }
                Attempt::Unknown(second) => return Err(Obstacle::Unknown(second)),
                Attempt::InOrder => in_order = true,
                // If a segment is refused memory, the key goes to a chain, which needs less.
                Attempt::Full => {
                    is_refused = self.make_room(found, hash, &mut hashes).is_err();
                    if hashes.is_missing() {
                        drop(pin);
                        hashes.learn(&self.codec);
                    }
                }
                Attempt::Refused => {
                    refuse();
                    return Ok(None);
                }
                Attempt::NoRoom => {
                    drop(pin);
                    self.make_room_for_copies();
                }
            }
            Err(Obstacle::Gone)
        })
    }

    #[inline(always)]
    fn attempt<const FETCHES: bool, T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        found: Found<'_>,
        buckets: Buckets<'_, M, L>,
        request: &Request<'_, T, F>,
        known: (&KeyTestAnswers, bool),
    ) -> Attempt {
        self.try_attempt::<FETCHES, _, _>(found, buckets, request, known).unwrap_or(Attempt::NoRoom)
    }

    #[inline(always)]
    fn try_attempt<const FETCHES: bool, T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        found: Found<'_>,
        buckets: Buckets<'_, M, L>,
        request: &Request<'_, T, F>,
        (known, is_refused): (&KeyTestAnswers, bool),
    ) -> Result<Attempt, NoRoom> {
        let header = buckets.first.header();
        let pair = |slot| self.segments.held_pair(buckets.first, slot);
        let slots = header.matching(fingerprint(request.hash));
        let place = match known.slot_of::<T>(request.tag, slots, pair) {
            // The case of nearly all keys. A branch of its own, since the place is known in it.
            Ok(Some((slot, second))) => {
                let found = (Place::First(slot), second);
                return self.change_found::<FETCHES, _, _>(buckets, request, found);
            }
            Ok(None) if self.goes_to_either(found, request) => {
                let key = (request.hash, request.tag);
                let second = request.fresh.unwrap_or_default();
                match self.insert_in_either::<FETCHES>(buckets.first, buckets.segment, key, second)
                {
                    Either::Inserted => return Ok(Attempt::Done(None, 1)),
                    Either::InSecond(slot) => {
                        let second = self.segments.held_pair(buckets.second(), slot).1;
                        let found = (Place::Second(slot), second);
                        return self.change_behind::<FETCHES, _, _>(buckets, &{ *request }, found);
                    }
                    Either::Elsewhere if header.has_no_flag() => Ok(None),
                    Either::Elsewhere => {
                        self.place_behind(buckets.segment, header, &{ *request }, known)
                    }
                }
            }
            Ok(None) if header.has_no_flag() => Ok(None),
            Ok(None) => self.place_behind(buckets.segment, header, &{ *request }, known),
            Err(unknown) => Err(unknown),
        };
        match (place, request.fresh) {
            (Err(unknown), _) => Ok(Attempt::Unknown(unknown)),
            (Ok(Some(found)), _) => {
                self.change_behind::<FETCHES, _, _>(buckets, &{ *request }, found)
            }
            (Ok(None), None) => Ok(Attempt::Done(None, 0)),
            (Ok(None), Some(second)) => {
                let (pair, strategy) = ((request.tag, second), found.entry.strategy());
                self.insert::<FETCHES>((strategy, is_refused), buckets, request.hash, pair)
            }
        }
    }

    #[inline(always)]
    fn change_found<const FETCHES: bool, T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        buckets: Buckets<'_, M, L>,
        request: &Request<'_, T, F>,
        (place, second): (Place, u64),
    ) -> Result<Attempt, NoRoom> {
        match (request.change)(second) {
            Change::Keep => Ok(Attempt::Done(Some(second), 0)),
            Change::To(new) => match self.replace(buckets, request, (place, second), new)? {
                true => Ok(Attempt::Done(Some(second), 0)),
                false => Ok(Attempt::InOrder),
            },
            Change::Remove => {
                match self.remove::<FETCHES, _, _>(buckets, request, (place, second))? {
                    true => Ok(Attempt::Done(Some(second), -1)),
                    false => Ok(Attempt::InOrder),
                }
            }
        }
    }

    /// Changes a key that is not in its first bucket.
    #[inline(never)]
    fn change_behind<const FETCHES: bool, T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        buckets: Buckets<'_, M, L>,
        request: &Request<'_, T, F>,
        found: (Place, u64),
    ) -> Result<Attempt, NoRoom> {
        self.change_found::<FETCHES, _, _>(buckets, request, found)
    }

    /// Returns the slot and the value word of a key in a bucket; as an error, a value word that may
    /// be the key's.
    #[inline(always)]
    fn slot_of<T: KeyTest, F>(
        &self,
        (bucket, header): (&L, L::Header),
        request: &Request<'_, T, F>,
        known: &KeyTestAnswers,
    ) -> Result<Option<(usize, u64)>, u64> {
        let pair = |slot| self.segments.pair(bucket, slot, self.pairs_load_whole);
        known.slot_of::<T>(request.tag, header.matching(fingerprint(request.hash)), pair)
    }

    /// Finds a key behind its first bucket, by this bucket's header. Returns its place and value
    /// word; as an error, a value word that may be the key's.
    #[inline(never)]
    fn place_behind<T: KeyTest, F>(
        &self,
        segment: usize,
        header: L::Header,
        request: &Request<'_, T, F>,
        known: &KeyTestAnswers,
    ) -> Result<Option<(Place, u64)>, u64> {
        let in_bucket = |bucket: &L| self.slot_of((bucket, bucket.header()), request, known);
        if header.has(Flag::Second) {
            let second = second_bucket(request.hash, self.mask());
            if let Some((slot, second)) = in_bucket(self.segments.bucket(segment, second))? {
                return Ok(Some((Place::Second(slot), second)));
            }
        }
        if header.has(Flag::Stashed) && !seeded(Bug::StashForgotten) {
            for (at, bucket) in self.segments.stash(segment).into_iter().enumerate() {
                if let Some((slot, second)) = in_bucket(bucket)? {
                    return Ok(Some((Place::Stash(at, slot), second)));
                }
            }
        }
        if header.has(Flag::Chained) {
            for second in self.chains.of(request.hash, request.tag) {
                if known.is::<T>(second).ok_or(second)? {
                    return Ok(Some((Place::Chain, second)));
                }
            }
        }
        Ok(None)
    }

    fn held_stash(&self, segment: usize, at: usize) -> HeldStash<'_, M, L> {
        HeldStash::lock(&self.segments, segment, at)
    }

    /// Returns whether a slot of a locked bucket still holds the pair that was found there. It does
    /// unless the caller's hasher is inconsistent: the lock of the first bucket keeps other threads
    /// from the key, but another hash leads to the key by another first bucket.
    #[inline(always)]
    fn still_holds<T, F>(
        &self,
        bucket: &L,
        slot: usize,
        request: &Request<'_, T, F>,
        second: u64,
    ) -> bool {
        if !P::runs_callers_code() {
            return true;
        }
        let pair = self.segments.pair(bucket, slot, self.pairs_load_whole);
        let mut matching = bucket.header().matching(fingerprint(request.hash));
        pair == (request.tag, second) && matching.any(|other| other == slot)
    }

    /// Replaces a value. Returns false if the second bucket can't be locked, or if the pair has
    /// gone. The lock of the first bucket is enough: it keeps other threads from the key, and only
    /// a split moves the key, which locks all buckets. (A page that a thread is changing does not
    /// move either: it has one place in the present epoch.) With the caller's hasher the other
    /// bucket is locked, too, since the hasher may be inconsistent.
    #[inline(always)]
    fn replace<T, F>(
        &self,
        mut buckets: Buckets<'_, M, L>,
        request: &Request<'_, T, F>,
        (place, second): (Place, u64),
        new: u64,
    ) -> Result<bool, NoRoom> {
        let replace = |bucket: &L, slot| {
            let is_there = self.still_holds(bucket, slot, request, second);
            if is_there {
                bucket.replace(&self.medium, slot, new);
                bucket.persist_value(&self.medium, slot);
            }
            is_there
        };
        Ok(match place {
            Place::First(slot) => {
                buckets.open_first()?;
                replace(buckets.first, slot)
            }
            Place::Second(slot) => {
                let locked = if P::runs_callers_code() { buckets.lock_second() } else { None };
                if P::runs_callers_code() && locked.is_none() {
                    return Ok(false);
                }
                buckets.open_second()?;
                replace(buckets.second(), slot)
            }
            Place::Stash(at, slot) => {
                let _locked = P::runs_callers_code().then(|| self.held_stash(buckets.segment, at));
                buckets.open_stash()?;
                replace(self.segments.stash(buckets.segment)[at], slot)
            }
            Place::Chain => {
                let pair = (request.tag, second);
                self.chains.replace(request.hash, pair, new).map_err(|_| NoRoom)?;
                true
            }
        })
    }

    /// Removes a key. Returns false if the second bucket can't be locked, or if the pair has gone.
    #[inline(always)]
    fn remove<const FETCHES: bool, T, F>(
        &self,
        mut buckets: Buckets<'_, M, L>,
        request: &Request<'_, T, F>,
        (place, second): (Place, u64),
    ) -> Result<bool, NoRoom> {
        match place {
            Place::First(slot) => {
                buckets.open_first()?;
                clear_slot::<FETCHES, _, _>(&self.medium, buckets.first, slot);
            }
            Place::Second(slot) => {
                let Some(_locked) = buckets.lock_second() else { return Ok(false) };
                buckets.open_second()?;
                if !self.still_holds(buckets.second(), slot, request, second) {
                    return Ok(false);
                }
                clear_slot::<FETCHES, _, _>(&self.medium, buckets.second(), slot);
            }
            Place::Stash(at, slot) => {
                let _locked = self.held_stash(buckets.segment, at);
                buckets.open_stash()?;
                let bucket = self.segments.stash(buckets.segment)[at];
                if !self.still_holds(bucket, slot, request, second) {
                    return Ok(false);
                }
                bucket.clear(&self.medium, slot);
            }
            Place::Chain => {
                let pair = (request.tag, second);
                self.chains.remove(request.hash, pair).map_err(|_| NoRoom)?;
            }
        }
        Ok(true)
    }

    /// Stores a new key by a strategy. Stores it in a chain if the last strategy has no room, and a
    /// split was refused or is not worth it.
    #[inline(always)]
    fn insert<const FETCHES: bool>(
        &self,
        (strategy, is_refused): (Strategy, bool),
        mut buckets: Buckets<'_, M, L>,
        hash: u64,
        pair: (u64, u64),
    ) -> Result<Attempt, NoRoom> {
        buckets.open_first()?;
        if strategy == Strategy::Single
            && let Some(slot) = buckets.first.header().matching(0).next()
        {
            self.put::<FETCHES>(buckets.first, slot, hash, pair);
            return Ok(Attempt::Done(None, 1));
        }
        self.insert_balanced::<FETCHES>((strategy, is_refused), buckets, hash, pair)
    }

    #[inline(always)]
    pub(super) fn put<const FETCHES: bool>(
        &self,
        bucket: &L,
        slot: usize,
        hash: u64,
        pair: (u64, u64),
    ) {
        bucket.note_half(&self.medium, hash);
        put_into_slot::<FETCHES, _, _>(&self.medium, bucket, slot, (fingerprint(hash), pair));
        bucket.persist(&self.medium, slot);
    }

    /// Stores a new key that needs more than a free slot by single hashing. The first bucket is
    /// writable.
    #[inline(never)]
    fn insert_balanced<const FETCHES: bool>(
        &self,
        (strategy, is_refused): (Strategy, bool),
        mut buckets: Buckets<'_, M, L>,
        hash: u64,
        pair: (u64, u64),
    ) -> Result<Attempt, NoRoom> {
        let medium = &self.medium;
        let put = |bucket: &L, slot| self.put::<FETCHES>(bucket, slot, hash, pair);
        let _second;
        if strategy > Strategy::Single {
            let Some(locked) = buckets.lock_second() else { return Ok(Attempt::InOrder) };
            _second = locked;
            let of_second = buckets.second().header();
            // Balances: chooses the bucket with more room.
            if of_second.has_more_room_than(buckets.first.header())
                && let Some(slot) = of_second.matching(0).next()
            {
                buckets.open_second()?;
                if !seeded(Bug::SecondUnflagged) {
                    buckets.first.set(medium, Flag::Second);
                }
                put(buckets.second(), slot);
                return Ok(Attempt::Done(None, 1));
            }
        }
        if let Some(slot) = buckets.first.header().matching(0).next() {
            put(buckets.first, slot);
            return Ok(Attempt::Done(None, 1));
        }
        if strategy == Strategy::Stash {
            for at in 0..STASH {
                let _locked = self.held_stash(buckets.segment, at);
                buckets.open_stash()?;
                let bucket = self.segments.stash(buckets.segment)[at];
                if let Some(slot) = bucket.header().matching(0).next() {
                    buckets.first.set(medium, Flag::Stashed);
                    put(bucket, slot);
                    return Ok(Attempt::Done(None, 1));
                }
            }
        }
        if strategy == self.last_strategy() && (is_refused || self.is_degenerate(hash)) {
            let is_full = self.config.room.must_refuse(|| self.counted());
            if is_full || self.chains.slots().must_refuse() {
                return Ok(Attempt::Refused);
            }
            buckets.first.set(medium, Flag::Chained);
            // In RAM chains always have room. A durable map asks for room before.
            self.chains.push(hash, pair).map_err(|_| NoRoom)?;
            return Ok(Attempt::Done(None, 1));
        }
        Ok(Attempt::Full)
    }
}
