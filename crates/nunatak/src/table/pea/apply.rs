//! Changing keys: one function that inserts, replaces and removes.

use super::Table;
use super::bucket::{Bucket, Flag};
use super::directory::Found;
use super::geometry::{Strategy, fingerprint, first_bucket, second_bucket};
use crate::hash::Placement;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, OpPin, Ordering, Shared};
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
struct Buckets<'t> {
    segment: usize,
    first: &'t Bucket,
    second: &'t Bucket,
    /// Whether the second comes after the first.
    is_ascending: bool,
    has_second: bool,
}

impl Buckets<'_> {
    /// Locks the second bucket, too, if that can be.
    fn lock_second(&mut self) -> bool {
        if !self.has_second {
            if self.is_ascending {
                self.second.lock();
            } else if !self.second.try_lock() {
                return false;
            }
            self.has_second = true;
        }
        true
    }

    fn unlock(&self) {
        if self.has_second {
            self.second.unlock();
        }
        self.first.unlock();
    }
}

impl<P: Placement> Table<P> {
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
        let hash = self.placement.hash(word);
        let tag = self.placement.tag(word, hash);
        self.run(&Request { hash, tag, test, fresh, change: &change })
    }

    fn run<T: KeyTest, F: Fn(u64) -> Change>(&self, request: &Request<'_, T, F>) -> Option<u64> {
        let mut known = Known::default();
        let mut backoff = Backoff::new();
        let (mut in_order, mut is_refused) = (false, false);
        loop {
            if !T::BY_WORD {
                known.learn(request.test, |test| {
                    self.find_tag(request.hash, request.tag, test);
                });
            }
            let pin = OpPin::<Shared>::new();
            // Acquire: pairs with the release of who has taken the snapshot.
            if self.freezing.load(Ordering::Acquire) != 0 {
                drop(pin);
                backoff.wait();
                continue;
            }
            let found = self.locate(request.hash);
            // Before the lock, behind which no load runs ahead.
            self.prefetch_buckets(found, request.hash);
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
            }
        }
    }

    fn lock_buckets(&self, found: Found<'_>, hash: u64, both: bool) -> Buckets<'_> {
        let (segment, mask) = (found.entry.segment(), self.mask());
        let (first, second) = (first_bucket(hash, mask), second_bucket(hash, mask));
        let mut buckets = Buckets {
            segment,
            first: self.segments.bucket(segment, first),
            second: self.segments.bucket(segment, second),
            is_ascending: first < second,
            has_second: false,
        };
        if both && !buckets.is_ascending {
            buckets.second.lock();
            buckets.has_second = true;
        }
        buckets.first.lock();
        buckets
    }

    fn attempt<T: KeyTest, F: Fn(u64) -> Change>(
        &self,
        found: Found<'_>,
        buckets: &mut Buckets<'_>,
        request: &Request<'_, T, F>,
        (known, is_refused): (&Known, bool),
    ) -> Attempt {
        match self.place_of(buckets, request, known) {
            Err(unknown) => Attempt::Unknown(unknown),
            Ok(Some((place, second))) => match (request.change)(second) {
                Change::Keep => Attempt::Done(Some(second), 0),
                Change::To(new) => {
                    self.replace(buckets, request, (place, second), new);
                    Attempt::Done(Some(second), 0)
                }
                Change::Remove => match self.remove(buckets, request, (place, second)) {
                    true => Attempt::Done(Some(second), -1),
                    false => Attempt::InOrder,
                },
            },
            Ok(None) => match request.fresh {
                None => Attempt::Done(None, 0),
                Some(second) => {
                    let pair = (request.tag, second);
                    let strategy = found.entry.strategy();
                    self.insert((strategy, is_refused), buckets, request.hash, pair)
                }
            },
        }
    }

    /// Where a key is, and its value word; or one that is not known to be its.
    fn place_of<T: KeyTest, F>(
        &self,
        buckets: &Buckets<'_>,
        request: &Request<'_, T, F>,
        known: &Known,
    ) -> Result<Option<(Place, u64)>, u64> {
        let fingerprint = fingerprint(request.hash);
        let in_bucket = |bucket: &Bucket| -> Result<Option<(usize, u64)>, u64> {
            for slot in bucket.header().matching(fingerprint) {
                let (first, second) = bucket.slot(slot).load_whole(self.pairs_load_whole);
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

    /// Replaces a value. The lock of the first bucket is enough: it keeps others from
    /// the key, and nobody but a split, which locks all, moves it.
    fn replace<T, F>(
        &self,
        buckets: &Buckets<'_>,
        request: &Request<'_, T, F>,
        (place, second): (Place, u64),
        new: u64,
    ) {
        match place {
            Place::First(slot) => buckets.first.replace(slot, new),
            Place::Second(slot) => buckets.second.replace(slot, new),
            Place::Stash(at, slot) => {
                self.segments.stash(buckets.segment)[at].replace(slot, new);
            }
            Place::Chain => self.chains.replace(request.hash, (request.tag, second), new),
        }
    }

    /// Takes a key out; false if the second bucket can't be locked.
    fn remove<T, F>(
        &self,
        buckets: &mut Buckets<'_>,
        request: &Request<'_, T, F>,
        (place, second): (Place, u64),
    ) -> bool {
        match place {
            Place::First(slot) => buckets.first.clear(slot),
            Place::Second(slot) => {
                if !buckets.lock_second() {
                    return false;
                }
                buckets.second.clear(slot);
            }
            Place::Stash(at, slot) => {
                let bucket = self.segments.stash(buckets.segment)[at];
                bucket.lock();
                bucket.clear(slot);
                bucket.unlock();
            }
            Place::Chain => self.chains.remove(request.hash, (request.tag, second)),
        }
        true
    }

    /// Stores a new key as a strategy says; in a chain if that finds no room, and a split
    /// was refused or is not worth it.
    fn insert(
        &self,
        (strategy, is_refused): (Strategy, bool),
        buckets: &mut Buckets<'_>,
        hash: u64,
        pair: (u64, u64),
    ) -> Attempt {
        let fingerprint = fingerprint(hash);
        if strategy > Strategy::Single {
            if !buckets.lock_second() {
                return Attempt::InOrder;
            }
            let of_second = buckets.second.header();
            // Balanced: into the emptier one.
            if of_second.free_slots() > buckets.first.header().free_slots()
                && let Some(slot) = of_second.matching(0).next()
            {
                if !seeded(Bug::SecondUnflagged) {
                    buckets.first.set(Flag::Second);
                }
                buckets.second.put(slot, fingerprint, pair);
                return Attempt::Done(None, 1);
            }
        }
        if let Some(slot) = buckets.first.header().matching(0).next() {
            buckets.first.put(slot, fingerprint, pair);
            return Attempt::Done(None, 1);
        }
        if strategy == Strategy::Stash {
            for bucket in self.segments.stash(buckets.segment) {
                bucket.lock();
                let slot = bucket.header().matching(0).next();
                if let Some(slot) = slot {
                    buckets.first.set(Flag::Stashed);
                    bucket.put(slot, fingerprint, pair);
                }
                bucket.unlock();
                if slot.is_some() {
                    return Attempt::Done(None, 1);
                }
            }
        }
        if strategy == self.last_strategy() && (is_refused || self.is_degenerate(hash)) {
            buckets.first.set(Flag::Chained);
            // In RAM there is always room in chains.
            let _ = self.chains.push(hash, pair);
            return Attempt::Done(None, 1);
        }
        Attempt::Full
    }
}
