//! Duplicate keys: buckets that adapt to how many values their keys have (section 3.3).
//!
//! A value of a key is in a slot, like the value of a unique key, while there is room. When a
//! bucket is full, keys with several values in it get a value buffer each ([`values`]), and one
//! slot that points to it. In RAM pointers come before values in a bucket. The last value that is
//! left in a buffer goes back to a slot.
//!
//! # The protocol
//! A change to a key holds the version of its first bucket's group, and the versions of all other
//! buckets that it changes. A reader validates the versions of all buckets that it has read. So it
//! returns the key's values as of one moment: when it loaded the last of these versions. After some
//! attempts the reader takes the locks, so that changes cannot starve it.
//!
//! A key may have a pointer in each of its buckets, and values in slots, too: an insert looks for a
//! pointer only where it would store the value. In the chains a key has one pointer or one value,
//! unless memory for a buffer was refused.
//!
//! In a durable table a change is durable before its locks are released, so what a reader returns
//! is durable, too. A change of several words goes through the [log].

mod batch;
mod chained;
mod compact;
mod duplicates;
mod find;
mod insert;
mod keys;
mod locks;
pub(super) mod log;
mod remove;
mod stats;
mod stores;
mod table;
pub(super) mod values;
pub(super) mod version;

pub(super) use chained::Chained;
pub(super) use duplicates::Duplicates;
#[cfg(all(test, durable))]
pub(super) use find::Visitor;
pub use stats::PeaMultiStats;
pub(crate) use table::build;
pub(crate) use table::{MultiMedium, MultiTable};

use super::Table;
use super::directory::Found;
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, OpPin, Shared};
use crate::table::shared::bucket::Layout;
use crate::table::shared::rehashed::Rehashed;
use locks::{At, Interrupted, LockedBuckets, STASHES};
use values::Values;

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
    /// Makes one attempt under the lock of the key's first bucket, which is enough for nearly all
    /// changes. A function of its own, as for unique keys; [`change_again`](Self::change_again)
    /// makes further attempts. `ahead` was the key's entry, if its buckets are on their way.
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
        // If the entry is the key's within the operation, its segment is not reused meanwhile.
        let is_still = |found: &Found<'_>| self.directories.is_still(*found);
        let found = ahead.filter(is_still).unwrap_or_else(|| self.locate(hash));
        self.copy_before_change(found, hash);
        if FETCHES {
            // Before the lock, since no load runs ahead of it.
            self.prefetch_buckets(found, hash);
        }
        let key = (hash, self.codec.tag(word, hash));
        self.change_locked(found, key, false, attempt)?.ok().flatten()
    }

    /// Makes one attempt under the lock of a key's first bucket, or of both buckets. Returns
    /// nothing if the key's entry has changed.
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

    /// Repeats a change after a failed attempt, until it succeeds: with locks in order, or with
    /// more room.
    ///
    /// # Errors
    /// If there is no more room, which is possible in files only.
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
