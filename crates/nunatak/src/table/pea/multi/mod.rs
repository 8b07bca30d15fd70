//! Duplicate keys: buckets that adapt to how many values their keys have (section 3.3).
//!
//! A value of a key is in a slot like that of a unique key, as long as there is room.
//! When a bucket is full, keys that have several values in it get a value buffer each
//! ([`values`](super::values)), and one slot that points to it, before all slots that
//! hold values. When the buffer has a single value left, that is in a slot again.
//!
//! # The protocol
//! A change to a key holds the version of its first bucket's group, and those of all
//! other buckets that it changes; a reader asks the versions of all buckets that it has
//! looked at. So it returns what the key had at one moment, which is that of its last
//! first look at a version. After some attempts it takes the locks itself, so that
//! changes can't hold it up for ever.
//!
//! A key may have a pointer in each of its buckets, and values in slots besides: an
//! insert looks for a pointer only where it would store the value. In the chains it has one
//! pointer or one value, unless there was no memory for a buffer.
//!
//! In a durable table a change is durable when its locks are let go; so what a reader
//! returns is, too. A change of several words goes through the [log](super::log).

mod batch;
mod chained;
mod compact;
mod find;
mod insert;
mod remove;
mod stats;
mod stores;

pub(super) use chained::Chained;
#[cfg(all(test, target_os = "linux", not(any(loom, shuttle, miri))))]
pub(super) use find::Visitor;
pub use stats::PeaMultiStats;

use super::Table;
use super::bucket::Bucket;
use super::directory::Found;
use super::geometry::{first_bucket, second_bucket};
use super::log::{Location, Log};
use super::segments::{STASH, Segments};
use super::values::Values;
use super::version::Version;
use crate::error::Error;
use crate::hash::Placement;
use crate::memory::{Medium, MemoryUsage};
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, OpPin, Shared};

/// What a table of duplicate keys has besides.
#[derive(Debug)]
pub(super) struct Duplicates<M: Medium> {
    pub(super) values: Values<M>,
    /// Of a durable table.
    pub(super) log: Option<Log<M>>,
}

impl<M: Medium> Duplicates<M> {
    pub(super) fn new(medium: &M, per_segment: usize) -> Result<Self, Error> {
        let log = M::IS_DURABLE.then(|| Log::new(medium)).transpose()?;
        Ok(Self { values: Values::new(medium, per_segment)?, log })
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        let log = self.log.as_ref().map_or_else(MemoryUsage::default, Log::usage);
        self.values.usage() + log
    }
}

/// Which of a key's buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    First,
    Second,
    Stash(usize),
}

/// The buckets of a segment's stash.
const STASHES: [At; STASH] = [At::Stash(0), At::Stash(1)];

/// Why an attempt has come to nothing, and is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupted {
    /// The lock of another bucket was not to be had in this order.
    OutOfOrder,
    /// There is no room for a copy of a page.
    NoRoom,
    /// There is no memory for a buffer, and nowhere else to put a value.
    Refused,
}

/// A key, and the locks of its buckets: always that of the first.
struct Held<'t, M: Medium> {
    segments: &'t Segments<M>,
    hash: u64,
    tag: u64,
    found: Found<'t>,
    places: [usize; 2],
    first: &'t Bucket,
    second: &'t Bucket,
    locks: [(usize, &'t Version); 2],
    has_second: bool,
    has_stash: bool,
}

impl<'t, M: Medium> Held<'t, M> {
    fn segment(&self) -> usize {
        self.found.entry.segment()
    }

    /// Locks the second bucket, too.
    fn lock_second(&mut self) -> Result<(), Interrupted> {
        let [(first, _), (second, version)] = self.locks;
        if self.has_second || first == second {
            return Ok(());
        }
        if first < second {
            version.lock();
        } else if !version.try_lock() {
            return Err(Interrupted::OutOfOrder);
        }
        self.has_second = true;
        if M::IS_PAGED {
            // It may have been somewhere else before.
            self.second = self.segments.bucket(self.segment(), self.places[1]);
        }
        Ok(())
    }

    /// Locks the stash of the key's segment, which comes last.
    fn lock_stash(&mut self) {
        if !self.has_stash {
            self.segments.stash_version(self.segment()).lock();
            self.has_stash = true;
        }
    }

    fn bucket(&self, at: At) -> &'t Bucket {
        match at {
            At::First => self.first,
            At::Second => self.second,
            At::Stash(at) => self.segments.stash(self.segment())[at],
        }
    }

    /// Sees to it that a bucket may be changed, whose lock is held.
    #[inline(always)]
    fn open(&mut self, at: At) -> Result<(), Interrupted> {
        if M::IS_PAGED {
            let segment = self.segment();
            let opened = match at {
                At::First => self.segments.make_writable(segment, self.places[0]),
                At::Second => self.segments.make_writable(segment, self.places[1]),
                At::Stash(_) => self.segments.make_stash_writable(segment),
            };
            opened.map_err(|_| Interrupted::NoRoom)?;
            self.first = self.segments.bucket(segment, self.places[0]);
            self.second = self.segments.bucket(segment, self.places[1]);
        }
        Ok(())
    }

    /// Where a word of a slot is.
    fn location(&self, at: At, slot: usize, word: usize) -> Location {
        let (segment, per_segment) = (self.segment(), self.segments.per_segment);
        let bucket = |place| Location::Bucket { bucket: segment * per_segment + place, slot, word };
        match at {
            At::First => bucket(self.places[0]),
            At::Second => bucket(self.places[1]),
            At::Stash(at) => Location::Stash { bucket: segment * STASH + at, slot, word },
        }
    }
}

impl<P: Placement, M: Medium> Table<P, M> {
    fn duplicates(&self) -> &Duplicates<M> {
        match &self.duplicates {
            Some(duplicates) => duplicates,
            None => unreachable!("the keys of the table are unique"),
        }
    }

    pub(super) fn values(&self) -> &Values<M> {
        &self.duplicates().values
    }

    fn hold<'t>(&'t self, found: Found<'t>, (hash, tag): (u64, u64), both: bool) -> Held<'t, M> {
        let (segment, mask) = (found.entry.segment(), self.mask());
        let places = [first_bucket(hash, mask), second_bucket(hash, mask)];
        let locks = places.map(|bucket| self.segments.version(segment, bucket));
        let has_second = both && locks[1].0 < locks[0].0;
        if has_second {
            locks[1].1.lock();
        }
        locks[0].1.lock();
        // Of a durable table they may have been somewhere else before.
        let [first, second] = places.map(|bucket| self.segments.bucket(segment, bucket));
        let (segments, has_stash) = (&self.segments, false);
        Held { segments, hash, tag, found, places, first, second, locks, has_second, has_stash }
    }

    fn let_go(&self, held: &Held<'_, M>) {
        if held.has_stash {
            self.segments.stash_version(held.segment()).unlock();
        }
        if held.has_second {
            held.locks[1].1.unlock();
        }
        held.locks[0].1.unlock();
    }

    /// Runs a change to a key under the lock of its first bucket, again if others are
    /// needed in another order, or if it says that there is no room: then with more.
    ///
    /// # Errors
    /// If there is none to be had, which can be in files only.
    #[inline]
    fn change<R, const FETCHES: bool>(
        &self,
        hash: u64,
        word: u64,
        mut attempt: impl FnMut(&mut Held<'_, M>, bool) -> Result<Option<R>, Interrupted>,
    ) -> Result<R, Error> {
        let key = (hash, self.placement.tag(word, hash));
        let mut backoff = Backoff::new();
        let (mut in_order, mut is_refused, mut is_last) = (false, false, false);
        loop {
            let pin = OpPin::<Shared>::new();
            if self.cut.is_frozen() {
                drop(pin);
                backoff.wait();
                continue;
            }
            let found = self.locate(hash);
            self.copy_before_change(found, hash);
            if FETCHES {
                // Before the lock, behind which no load runs ahead.
                self.prefetch_buckets(found, hash);
            }
            let mut held = self.hold(found, key, in_order);
            let is_still = self.directories.is_still(found) || seeded(Bug::LockedWithoutEntry);
            let result = is_still.then(|| attempt(&mut held, is_refused));
            self.let_go(&held);
            match result {
                Some(Ok(Some(result))) => return Ok(result),
                Some(Ok(None)) => is_refused = self.make_room(found, hash).is_err(),
                Some(Err(Interrupted::OutOfOrder)) => in_order = true,
                Some(Err(Interrupted::NoRoom)) => {
                    drop(pin);
                    self.make_room_for_copies();
                }
                Some(Err(Interrupted::Refused)) if is_last => {
                    return Err(Error::CapacityOverflow);
                }
                Some(Err(Interrupted::Refused)) => {
                    is_last = true;
                    drop(pin);
                    self.make_room_for_copies();
                }
                None => {}
            }
        }
    }
}
