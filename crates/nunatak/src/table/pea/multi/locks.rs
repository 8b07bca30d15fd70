//! The locks of a key's buckets while its values are changed, in a table of duplicate keys.
//!
//! Invariants
//! 1. The version of the first bucket is the key's lock: only its holder changes the key. A value
//!    is stored in or removed from another bucket under this bucket's version, too.
//! 2. A thread waits for locks in the order of the versions, the stash last. It only tries a lock
//!    against this order.

use crate::memory::Medium;
use crate::table::pea::directory::Found;
use crate::table::pea::geometry::{first_bucket, second_bucket};
use crate::table::pea::multi::log::Location;
use crate::table::pea::multi::version::Version;
use crate::table::pea::segments::{STASH, Segments};
use crate::table::shared::bucket::Bucket;

/// One of a key's buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    First,
    Second,
    Stash(usize),
}

/// The buckets of a segment's stash.
pub(super) const STASHES: [At; STASH] = [At::Stash(0), At::Stash(1)];

/// Why an attempt failed and is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interrupted {
    /// The lock of another bucket is taken, and comes first in the order.
    OutOfOrder,
    /// There is no room for a copy of a page.
    NoRoom,
    /// There is no memory for a buffer, and no other place for the value.
    Refused,
}

/// A key, and the locks of its buckets. The first one is always held.
pub(super) struct LockedBuckets<'t, M: Medium> {
    segments: &'t Segments<M>,
    pub(super) hash: u64,
    pub(super) tag: u64,
    pub(super) found: Found<'t>,
    /// In a durable table its address may have been another before it was locked or opened.
    pub(super) first: &'t Bucket,
    has_second: bool,
    has_stash: bool,
}

impl<'t, M: Medium> LockedBuckets<'t, M> {
    /// Locks the first bucket of a key. If `both`, locks the second bucket first if that comes
    /// first in the order.
    #[inline(always)]
    pub(super) fn lock(
        segments: &'t Segments<M>,
        found: Found<'t>,
        (hash, tag): (u64, u64),
        both: bool,
    ) -> Self {
        let (segment, mask) = (found.entry.segment(), segments.per_segment - 1);
        let place = first_bucket(hash, mask);
        let (group, version) = segments.version(segment, place);
        let mut has_second = false;
        if both {
            let (of_second, second) = segments.version(segment, second_bucket(hash, mask));
            has_second = of_second < group;
            if has_second {
                second.lock();
            }
        }
        version.lock();
        let first = segments.bucket(segment, place);
        Self { segments, hash, tag, found, first, has_second, has_stash: false }
    }

    #[inline(always)]
    pub(super) fn unlock(&self) {
        if self.has_stash {
            self.segments.stash_version(self.segment()).unlock();
        }
        if self.has_second {
            self.second_version().1.unlock();
        }
        self.first_version().1.unlock();
    }

    #[inline(always)]
    pub(super) fn segment(&self) -> usize {
        self.found.entry.segment()
    }

    #[inline(always)]
    fn place(&self, at: At) -> usize {
        let mask = self.segments.per_segment - 1;
        match at {
            At::Second => second_bucket(self.hash, mask),
            _ => first_bucket(self.hash, mask),
        }
    }

    #[inline(always)]
    pub(super) fn first_version(&self) -> (usize, &'t Version) {
        self.segments.version(self.segment(), self.place(At::First))
    }

    fn second_version(&self) -> (usize, &'t Version) {
        self.segments.version(self.segment(), self.place(At::Second))
    }

    pub(super) fn lock_second(&mut self) -> Result<(), Interrupted> {
        let ((first, _), (second, version)) = (self.first_version(), self.second_version());
        if self.has_second || first == second {
            return Ok(());
        }
        if first < second {
            version.lock();
        } else if !version.try_lock() {
            return Err(Interrupted::OutOfOrder);
        }
        self.has_second = true;
        Ok(())
    }

    /// Locks the stash of the key's segment, which is last in the order.
    pub(super) fn lock_stash(&mut self) {
        if !self.has_stash {
            self.segments.stash_version(self.segment()).lock();
            self.has_stash = true;
        }
    }

    #[inline(always)]
    pub(super) fn bucket(&self, at: At) -> &'t Bucket {
        match at {
            At::First => self.first,
            At::Second => self.segments.bucket(self.segment(), self.place(At::Second)),
            At::Stash(at) => self.segments.stash(self.segment())[at],
        }
    }

    /// Makes a bucket writable. The caller holds its lock.
    #[inline(always)]
    pub(super) fn open(&mut self, at: At) -> Result<(), Interrupted> {
        if M::IS_PAGED {
            let segment = self.segment();
            let opened = match at {
                At::Stash(_) => self.segments.make_stash_writable(segment),
                _ => self.segments.make_writable(segment, self.place(at)),
            };
            opened.map_err(|_| Interrupted::NoRoom)?;
            self.first = self.segments.bucket(segment, self.place(At::First));
        }
        Ok(())
    }

    pub(super) fn location(&self, at: At, slot: usize, word: usize) -> Location {
        let (segment, per_segment) = (self.segment(), self.segments.per_segment);
        match at {
            At::Stash(at) => Location::Stash { bucket: segment * STASH + at, slot, word },
            _ => Location::Bucket { bucket: segment * per_segment + self.place(at), slot, word },
        }
    }
}
