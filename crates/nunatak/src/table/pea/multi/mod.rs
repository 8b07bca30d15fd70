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
//! insert looks for a pointer only where it would store the value.

mod batch;
mod compact;
mod find;
mod insert;
mod remove;
mod stats;

pub use stats::PeaMultiStats;

use super::Table;
use super::bucket::Bucket;
use super::directory::Found;
use super::geometry::{first_bucket, second_bucket};
use super::segments::STASH;
use super::values::Values;
use super::version::Version;
use crate::error::Error;
use crate::hash::Placement;
use crate::memory::{Heap, Medium, MemoryUsage};
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, OpPin, Shared};
use crate::table::iceberg::chains::Chains;

/// What a table of duplicate keys has besides.
#[derive(Debug)]
pub(super) struct Duplicates {
    pub(super) values: Values,
    /// Pointers that found no room in a split.
    pub(super) pointers: Chains<Heap>,
}

impl Duplicates {
    pub(super) fn new(per_segment: usize) -> Result<Self, Error> {
        Ok(Self { values: Values::new(per_segment)?, pointers: Chains::new(&Heap)? })
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        self.values.usage() + self.pointers.usage()
    }
}

/// A key, and the locks of its buckets: always that of the first.
struct Held<'t> {
    hash: u64,
    tag: u64,
    found: Found<'t>,
    first: &'t Bucket,
    second: &'t Bucket,
    locks: [(usize, &'t Version); 2],
    has_second: bool,
    has_stash: bool,
}

/// The lock of another bucket was not to be had in this order.
struct OutOfOrder;

impl Held<'_> {
    /// Locks the second bucket, too.
    fn lock_second(&mut self) -> Result<(), OutOfOrder> {
        let [(first, _), (second, version)] = self.locks;
        if self.has_second || first == second {
            return Ok(());
        }
        if first < second {
            version.lock();
        } else if !version.try_lock() {
            return Err(OutOfOrder);
        }
        self.has_second = true;
        Ok(())
    }
}

impl<P: Placement, M: Medium> Table<P, M> {
    fn duplicates(&self) -> &Duplicates {
        match &self.duplicates {
            Some(duplicates) => duplicates,
            None => unreachable!("the keys of the table are unique"),
        }
    }

    fn values(&self) -> &Values {
        &self.duplicates().values
    }

    /// Locks the stash of a key's segment, which comes last.
    fn lock_stash(&self, held: &mut Held<'_>) -> [&Bucket; STASH] {
        let segment = held.found.entry.segment();
        if !held.has_stash {
            self.segments.stash_version(segment).lock();
            held.has_stash = true;
        }
        self.segments.stash(segment)
    }

    fn hold<'t>(&'t self, found: Found<'t>, (hash, tag): (u64, u64), both: bool) -> Held<'t> {
        let (segment, mask) = (found.entry.segment(), self.mask());
        let buckets = [first_bucket(hash, mask), second_bucket(hash, mask)];
        let locks = buckets.map(|bucket| self.segments.version(segment, bucket));
        let [first, second] = buckets.map(|bucket| self.segments.bucket(segment, bucket));
        let has_second = both && locks[1].0 < locks[0].0;
        if has_second {
            locks[1].1.lock();
        }
        locks[0].1.lock();
        Held { hash, tag, found, first, second, locks, has_second, has_stash: false }
    }

    fn let_go(&self, held: &Held<'_>) {
        if held.has_stash {
            self.segments.stash_version(held.found.entry.segment()).unlock();
        }
        if held.has_second {
            held.locks[1].1.unlock();
        }
        held.locks[0].1.unlock();
    }

    /// Runs a change to a key under the lock of its first bucket, again if others are
    /// needed in another order, or if it says that there is no room: then with more.
    fn change<R>(
        &self,
        word: u64,
        mut attempt: impl FnMut(&mut Held<'_>, bool) -> Result<Option<R>, OutOfOrder>,
    ) -> R {
        let hash = self.placement.hash(word);
        let key = (hash, self.placement.tag(word, hash));
        let mut backoff = Backoff::new();
        let (mut in_order, mut is_refused) = (false, false);
        loop {
            let pin = OpPin::<Shared>::new();
            if self.is_frozen() {
                drop(pin);
                backoff.wait();
                continue;
            }
            let found = self.locate(hash);
            // Before the lock, behind which no load runs ahead.
            self.prefetch_buckets(found, hash);
            let mut held = self.hold(found, key, in_order);
            let is_still = self.directories.is_still(found) || seeded(Bug::LockedWithoutEntry);
            let result = is_still.then(|| attempt(&mut held, is_refused));
            self.let_go(&held);
            match result {
                Some(Ok(Some(result))) => return result,
                Some(Ok(None)) => is_refused = self.make_room(found, hash).is_err(),
                Some(Err(OutOfOrder)) => in_order = true,
                None => {}
            }
        }
    }
}
