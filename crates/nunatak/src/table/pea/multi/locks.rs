//! A key of a table of duplicate keys while its values are changed, and the locks of its buckets.
//!
//! Invariants
//! 1. The version of the first bucket is the key's lock: who holds it is the only one to change
//!    the key. What is stored or removed in another bucket is so under that one's, too.
//! 2. Locks are waited for in the order of the versions, that of the stash at the end; one that
//!    is out of order is only tried.

use crate::memory::Medium;
use crate::table::pea::directory::Found;
use crate::table::pea::geometry::{first_bucket, second_bucket};
use crate::table::pea::multi::log::Location;
use crate::table::pea::multi::version::Version;
use crate::table::pea::segments::{STASH, Segments};
use crate::table::shared::bucket::Bucket;

/// Which of a key's buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    First,
    Second,
    Stash(usize),
}

/// The buckets of a segment's stash.
pub(super) const STASHES: [At; STASH] = [At::Stash(0), At::Stash(1)];

/// Why an attempt has come to nothing, and is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interrupted {
    /// The lock of another bucket was not to be had in this order.
    OutOfOrder,
    /// There is no room for a copy of a page.
    NoRoom,
    /// There is no memory for a buffer, and nowhere else to put a value.
    Refused,
}

/// A key, and the locks of its buckets: always that of the first.
pub(super) struct LockedBuckets<'t, M: Medium> {
    segments: &'t Segments<M>,
    pub(super) hash: u64,
    pub(super) tag: u64,
    pub(super) found: Found<'t>,
    /// Of a durable table it may have been somewhere else before it was locked, or opened.
    pub(super) first: &'t Bucket,
    has_second: bool,
    has_stash: bool,
}

impl<'t, M: Medium> LockedBuckets<'t, M> {
    /// Locks a key, with its second bucket if that comes first and is asked for.
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

    /// Locks the second bucket, too.
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

    /// Locks the stash of the key's segment, which comes last.
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

    /// Sees to it that a bucket may be changed, whose lock is held.
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

    /// Where a word of a slot is.
    pub(super) fn location(&self, at: At, slot: usize, word: usize) -> Location {
        let (segment, per_segment) = (self.segment(), self.segments.per_segment);
        match at {
            At::Stash(at) => Location::Stash { bucket: segment * STASH + at, slot, word },
            _ => Location::Bucket { bucket: segment * per_segment + self.place(at), slot, word },
        }
    }
}
