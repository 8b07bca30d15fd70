//! Changing keys: one function that inserts, replaces and removes.

use super::Table;
use super::bucket::Flag;
use super::directory::Found;
use super::geometry::{Strategy, fingerprint, first_bucket, second_bucket};
use super::layout::{Header, Layout};
use super::segments::{STASH, Segments};
use crate::hash::Placement;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, OpPin, Shared};
use crate::table::known::Known;
use crate::table::{Change, KeyTest};

/// An operation on one key: what becomes of it if it is present, and the value word to
/// insert if it is not.
struct Request<'r, T, F> {
    hash: u64,
    tag: u64,
    test: &'r T,
    fresh: Option<u64>,
    change: &'r F,
}

/// How an attempt under the lock of a key's first bucket ended.
enum Attempt {
    /// The value word before, and how many pairs more there are.
    Done(Option<u64>, i64),
    /// This value word has the key's tag, and is not known to be the key's or not.
    Unknown(u64),
    /// The lock of the second bucket was not to be had in this order.
    InOrder,
    /// There is no room under the segment's strategy.
    Full,
    /// There is no room for a copy of a page.
    NoRoom,
}

/// Where a key is.
#[derive(Clone, Copy)]
enum Place {
    First(usize),
    Second(usize),
    /// Which bucket of it, and the slot.
    Stash(usize, usize),
    Chain,
}

/// The buckets of a key, of which the first is locked, and the second if it says so.
pub(super) struct Buckets<'t, M: Medium, L: Layout> {
    segments: &'t Segments<M, L>,
    segment: usize,
    places: [usize; 2],
    first: &'t L,
    pub(super) second: &'t L,
    has_second: bool,
}

impl<M: Medium, L: Layout> Buckets<'_, M, L> {
    /// Locks the second bucket, too, if that can be.
    pub(super) fn lock_second(&mut self) -> bool {
        let [first, second] = self.places;
        if !self.has_second && !self.segments.share_lock(first, second) {
            if first < second {
                self.segments.lock_bucket(self.segment, second);
            } else if !self.segments.try_lock_bucket(self.segment, second) {
                return false;
            }
            self.has_second = true;
            if M::IS_PAGED {
                // Somebody may have copied its page, and stored something there.
                self.second = self.segments.bucket(self.segment, second);
            }
        }
        true
    }

    pub(super) fn unlock(&self) {
        if self.has_second {
            self.segments.unlock_bucket(self.segment, self.places[1]);
        }
        self.segments.unlock_bucket(self.segment, self.places[0]);
    }

    /// Sees to it that the first bucket may be changed.
    #[inline(always)]
    fn open_first(&mut self) -> Result<(), NoRoom> {
        if M::IS_PAGED {
            self.segments.make_writable(self.segment, self.places[0]).map_err(|_| NoRoom)?;
            self.first = self.segments.bucket(self.segment, self.places[0]);
            self.second = self.segments.bucket(self.segment, self.places[1]);
        }
        Ok(())
    }

    #[inline(always)]
    fn open_second(&mut self) -> Result<(), NoRoom> {
        if M::IS_PAGED {
            self.segments.make_writable(self.segment, self.places[1]).map_err(|_| NoRoom)?;
            self.second = self.segments.bucket(self.segment, self.places[1]);
            self.first = self.segments.bucket(self.segment, self.places[0]);
        }
        Ok(())
    }

    #[inline(always)]
    fn open_stash(&self) -> Result<(), NoRoom> {
        match M::IS_PAGED {
            true => self.segments.make_stash_writable(self.segment).map_err(|_| NoRoom),
            false => Ok(()),
        }
    }
}

/// What was to be changed is in a page of which there is no room for a copy.
struct NoRoom;

impl<P: Placement, M: Medium, L: Layout> Table<P, M, L> {
    /// Changes a key by its value word, or inserts it; see
    /// [`PairTable::apply`](crate::table::PairTable::apply).
    #[inline(always)]
    pub(super) fn apply<T: KeyTest>(
        &self,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64> {
        self.apply_hashed::<true, _>(self.placement.hash(word), word, test, fresh, change)
    }

    /// The same, of a key whose hash is known, and whose buckets are to be fetched or are
    /// on their way.
    #[inline(always)]
    pub(super) fn apply_hashed<const FETCHES: bool, T: KeyTest>(
        &self,
        hash: u64,
        word: u64,
        test: &T,
        fresh: Option<u64>,
        change: impl Fn(u64) -> Change,
    ) -> Option<u64> {
        let tag = self.placement.tag(word, hash);
        self.run::<FETCHES, _, _>(&Request { hash, tag, test, fresh, change: &change })
    }

    fn run<const FETCHES: bool, T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        request: &Request<'_, T, F>,
    ) -> Option<u64> {
        let mut known = Known::default();
        let mut backoff = Backoff::new();
        let (mut in_order, mut is_refused) = (false, false);
        loop {
            if !T::BY_WORD {
                known.learn(request.test, |test| {
                    self.find_tag::<FETCHES, _>(request.hash, request.tag, test);
                });
            }
            let pin = OpPin::<Shared>::new();
            if self.cut.is_frozen() {
                drop(pin);
                backoff.wait();
                continue;
            }
            let found = self.locate(request.hash);
            self.copy_before_change(found, request.hash);
            if FETCHES {
                // Before the lock, behind which no load runs ahead.
                self.prefetch_buckets(found, request.hash);
            }
            let mut buckets = self.lock_buckets(found, request.hash, in_order);
            if !self.directories.is_still(found) && !seeded(Bug::LockedWithoutEntry) {
                buckets.unlock();
                continue;
            }
            let attempt = self.attempt(found, &mut buckets, request, (&known, is_refused));
            buckets.unlock();
            match attempt {
                Attempt::Done(before, added) => {
                    drop(pin);
                    if added != 0 {
                        self.registry.count::<Shared>(added);
                    }
                    return before;
                }
                Attempt::Unknown(second) => {
                    drop(pin);
                    known.insert(second, request.test.accepts(second));
                }
                Attempt::InOrder => in_order = true,
                // Without memory for a segment the key goes to a chain, which needs less.
                Attempt::Full => is_refused = self.make_room(found, request.hash).is_err(),
                Attempt::NoRoom => {
                    drop(pin);
                    self.make_room_for_copies();
                }
            }
        }
    }

    pub(super) fn lock_buckets(
        &self,
        found: Found<'_>,
        hash: u64,
        both: bool,
    ) -> Buckets<'_, M, L> {
        let (segment, mask) = (found.entry.segment(), self.mask());
        let places @ [first, second] = [first_bucket(hash, mask), second_bucket(hash, mask)];
        let has_second = both && second < first && !self.segments.share_lock(first, second);
        if has_second {
            self.segments.lock_bucket(segment, second);
        }
        self.segments.lock_bucket(segment, first);
        Buckets {
            segments: &self.segments,
            segment,
            places,
            // Of a durable table they may have been somewhere else before.
            first: self.segments.bucket(segment, first),
            second: self.segments.bucket(segment, second),
            has_second,
        }
    }

    fn attempt<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        found: Found<'_>,
        buckets: &mut Buckets<'_, M, L>,
        request: &Request<'_, T, F>,
        known: (&Known, bool),
    ) -> Attempt {
        self.try_attempt(found, buckets, request, known).unwrap_or(Attempt::NoRoom)
    }

    #[inline(always)]
    fn try_attempt<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        found: Found<'_>,
        buckets: &mut Buckets<'_, M, L>,
        request: &Request<'_, T, F>,
        (known, is_refused): (&Known, bool),
    ) -> Result<Attempt, NoRoom> {
        Ok(match self.place_of(buckets, request, known) {
            Err(unknown) => Attempt::Unknown(unknown),
            Ok(Some((place, second))) => match (request.change)(second) {
                Change::Keep => Attempt::Done(Some(second), 0),
                Change::To(new) => {
                    self.replace(buckets, request, (place, second), new)?;
                    Attempt::Done(Some(second), 0)
                }
                Change::Remove => match self.remove(buckets, request, (place, second))? {
                    true => Attempt::Done(Some(second), -1),
                    false => Attempt::InOrder,
                },
            },
            Ok(None) => match request.fresh {
                None => Attempt::Done(None, 0),
                Some(second) => {
                    let pair = (request.tag, second);
                    let strategy = found.entry.strategy();
                    self.insert((strategy, is_refused), buckets, request.hash, pair)?
                }
            },
        })
    }

    /// Where a key is, and its value word; or one that is not known to be its.
    fn place_of<T: KeyTest, F>(
        &self,
        buckets: &Buckets<'_, M, L>,
        request: &Request<'_, T, F>,
        known: &Known,
    ) -> Result<Option<(Place, u64)>, u64> {
        let fingerprint = fingerprint(request.hash);
        let in_bucket = |bucket: &L| -> Result<Option<(usize, u64)>, u64> {
            for slot in bucket.header().matching(fingerprint) {
                // Nobody else changes the key, so that what has its tag is its pair.
                let (first, second) = self.segments.pair(bucket, slot, self.pairs_load_whole);
                if first == request.tag && known.is::<T>(second).ok_or(second)? {
                    return Ok(Some((slot, second)));
                }
            }
            Ok(None)
        };
        let header = buckets.first.header();
        if let Some((slot, second)) = in_bucket(buckets.first)? {
            return Ok(Some((Place::First(slot), second)));
        }
        if header.has_no_flag() {
            return Ok(None);
        }
        if header.has(Flag::Second)
            && let Some((slot, second)) = in_bucket(buckets.second)?
        {
            return Ok(Some((Place::Second(slot), second)));
        }
        if header.has(Flag::Stashed) && !seeded(Bug::StashForgotten) {
            for (at, bucket) in self.segments.stash(buckets.segment).into_iter().enumerate() {
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

    /// Replaces a value. The lock of the first bucket is enough: it keeps others from the
    /// key, and nobody but a split, which locks all, moves it. (Nor does a page move that
    /// somebody is changing: of a present epoch it has one place.)
    fn replace<T, F>(
        &self,
        buckets: &mut Buckets<'_, M, L>,
        request: &Request<'_, T, F>,
        (place, second): (Place, u64),
        new: u64,
    ) -> Result<(), NoRoom> {
        let replace = |bucket: &L, slot| {
            bucket.replace(&self.medium, slot, new);
            bucket.persist_value(&self.medium, slot);
        };
        match place {
            Place::First(slot) => {
                buckets.open_first()?;
                replace(buckets.first, slot);
            }
            Place::Second(slot) => {
                buckets.open_second()?;
                replace(buckets.second, slot);
            }
            Place::Stash(at, slot) => {
                buckets.open_stash()?;
                replace(self.segments.stash(buckets.segment)[at], slot);
            }
            Place::Chain => {
                let pair = (request.tag, second);
                self.chains.replace(request.hash, pair, new).map_err(|_| NoRoom)?;
            }
        }
        Ok(())
    }

    /// Takes a key out; false if the second bucket can't be locked.
    fn remove<T, F>(
        &self,
        buckets: &mut Buckets<'_, M, L>,
        request: &Request<'_, T, F>,
        (place, second): (Place, u64),
    ) -> Result<bool, NoRoom> {
        match place {
            Place::First(slot) => {
                buckets.open_first()?;
                buckets.first.clear(&self.medium, slot);
            }
            Place::Second(slot) => {
                if !buckets.lock_second() {
                    return Ok(false);
                }
                buckets.open_second()?;
                buckets.second.clear(&self.medium, slot);
            }
            Place::Stash(at, slot) => {
                self.segments.lock_stash(buckets.segment, at);
                let is_open = buckets.open_stash();
                if is_open.is_ok() {
                    self.segments.stash(buckets.segment)[at].clear(&self.medium, slot);
                }
                self.segments.unlock_stash(buckets.segment, at);
                is_open?;
            }
            Place::Chain => {
                let pair = (request.tag, second);
                self.chains.remove(request.hash, pair).map_err(|_| NoRoom)?;
            }
        }
        Ok(true)
    }

    /// Stores a new key as a strategy says; in a chain if that finds no room, and a split
    /// was refused or is not worth it.
    fn insert(
        &self,
        (strategy, is_refused): (Strategy, bool),
        buckets: &mut Buckets<'_, M, L>,
        hash: u64,
        pair: (u64, u64),
    ) -> Result<Attempt, NoRoom> {
        let fingerprint = fingerprint(hash);
        let medium = &self.medium;
        let put = |bucket: &L, slot| {
            bucket.put(medium, slot, fingerprint, pair);
            bucket.persist(medium, slot);
        };
        buckets.open_first()?;
        if strategy > Strategy::Single {
            if !buckets.lock_second() {
                return Ok(Attempt::InOrder);
            }
            let of_second = buckets.second.header();
            // Balanced: into the emptier one.
            if of_second.free_slots() > buckets.first.header().free_slots()
                && let Some(slot) = of_second.matching(0).next()
            {
                buckets.open_second()?;
                if !seeded(Bug::SecondUnflagged) {
                    buckets.first.set(medium, Flag::Second);
                }
                put(buckets.second, slot);
                return Ok(Attempt::Done(None, 1));
            }
        }
        if let Some(slot) = buckets.first.header().matching(0).next() {
            put(buckets.first, slot);
            return Ok(Attempt::Done(None, 1));
        }
        if strategy == Strategy::Stash {
            for at in 0..STASH {
                self.segments.lock_stash(buckets.segment, at);
                let is_open = buckets.open_stash();
                let bucket = self.segments.stash(buckets.segment)[at];
                let slot = bucket.header().matching(0).next().filter(|_| is_open.is_ok());
                if let Some(slot) = slot {
                    buckets.first.set(medium, Flag::Stashed);
                    put(bucket, slot);
                }
                self.segments.unlock_stash(buckets.segment, at);
                is_open?;
                if slot.is_some() {
                    return Ok(Attempt::Done(None, 1));
                }
            }
        }
        if strategy == self.last_strategy() && (is_refused || self.is_degenerate(hash)) {
            buckets.first.set(medium, Flag::Chained);
            // In RAM there is always room in chains; a durable map asks before.
            self.chains.push(hash, pair).map_err(|_| NoRoom)?;
            return Ok(Attempt::Done(None, 1));
        }
        Ok(Attempt::Full)
    }
}
