//! Duplicate keys: buckets that adapt to how many values their keys have (section 3.3).
//!
//! A value of a key is in a slot like that of a unique key, as long as there is room.
//! When a bucket is full, keys that have several values in it get a value buffer each
//! ([`values`]), and one slot that points to it, before all slots that
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
//! returns is, too. A change of several words goes through the [log].

mod batch;
mod chained;
mod compact;
mod find;
mod insert;
mod locks;
pub(super) mod log;
mod remove;
mod stats;
mod stores;
pub(super) mod values;
pub(super) mod version;

pub(super) use chained::Chained;
#[cfg(all(test, target_os = "linux", not(any(loom, shuttle, miri))))]
pub(super) use find::Visitor;
pub use stats::PeaMultiStats;

use super::Table;
use super::directory::Found;
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::{Medium, MemoryUsage};
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, OpPin, Shared};
use crate::table::shared::bucket::Layout;
use crate::table::shared::rehashed::Rehashed;
use locks::{At, Interrupted, LockedBuckets, STASHES};
use log::Log;
use values::Values;

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

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    fn duplicates(&self) -> &Duplicates<M> {
        match &self.duplicates {
            Some(duplicates) => duplicates,
            None => unreachable!("the keys of the table are unique"),
        }
    }

    pub(super) fn values(&self) -> &Values<M> {
        &self.duplicates().values
    }
}

impl<P: HashCodec, M: Medium> Table<P, M> {
    /// What nearly all changes to a key are: one attempt under the lock of its first bucket, which
    /// succeeds. By itself, as those of unique keys are; after it come [others](Self::change_again).
    /// `ahead` was the key's entry, if its buckets are on their way already.
    #[inline(always)]
    fn change_once<R, const FETCHES: bool>(
        &self,
        ahead: Option<Found<'_>>,
        (hash, word): (u64, u64),
        attempt: impl FnOnce(&mut LockedBuckets<'_, M>) -> Result<Option<R>, Interrupted>,
    ) -> Option<R> {
        let _pin = OpPin::<Shared>::new();
        if self.cut.is_frozen() {
            return None;
        }
        // An entry that is the key's within the operation is of a segment that stays.
        let is_still = |found: &Found<'_>| self.directories.is_still(*found);
        let found = ahead.filter(is_still).unwrap_or_else(|| self.locate(hash));
        self.copy_before_change(found, hash);
        if FETCHES {
            // Before the lock, behind which no load runs ahead.
            self.prefetch_buckets(found, hash);
        }
        let key = (hash, self.codec.tag(word, hash));
        self.change_locked(found, key, false, attempt)?.ok().flatten()
    }

    /// One attempt under the lock of a key's first bucket, or of both; none if its entry is
    /// another by then.
    #[inline(always)]
    fn change_locked<R>(
        &self,
        found: Found<'_>,
        key: (u64, u64),
        in_order: bool,
        attempt: impl FnOnce(&mut LockedBuckets<'_, M>) -> Result<Option<R>, Interrupted>,
    ) -> Option<Result<Option<R>, Interrupted>> {
        let mut held = LockedBuckets::lock(&self.segments, found, key, in_order);
        let is_still = self.directories.is_still(found) || seeded(Bug::LockedWithoutEntry);
        let result = is_still.then(|| attempt(&mut held));
        held.unlock();
        result
    }

    /// Runs a change after an attempt that came to nothing: again if other locks are needed, in
    /// another order, or if it says that there is no room: then with more.
    ///
    /// # Errors
    /// If there is none to be had, which can be in files only.
    #[cold]
    #[inline(never)]
    fn change_again<R>(
        &self,
        (hash, word): (u64, u64),
        mut attempt: impl FnMut(&mut LockedBuckets<'_, M>, bool) -> Result<Option<R>, Interrupted>,
    ) -> Result<R, Error> {
        let key = (hash, self.codec.tag(word, hash));
        let (mut hashes, mut backoff) = (Rehashed::default(), Backoff::new());
        let (mut in_order, mut is_refused, mut is_last) = (false, false, false);
        loop {
            let Some(pin) = self.cut.try_enter() else {
                backoff.wait();
                continue;
            };
            let found = self.locate(hash);
            self.copy_before_change(found, hash);
            let attempt = |held: &mut LockedBuckets<'_, M>| attempt(held, is_refused);
            match self.change_locked(found, key, in_order, attempt) {
                Some(Ok(Some(result))) => return Ok(result),
                Some(Ok(None)) => {
                    is_refused = self.make_room(found, hash, &mut hashes).is_err();
                    if hashes.is_missing() {
                        drop(pin);
                        hashes.learn(&self.codec);
                    }
                }
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
