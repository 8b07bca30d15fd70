//! The two buckets of a key during a change, and their locks.
//!
//! Invariants
//! 1. The first bucket's lock is the key's lock: only its holder changes the key. The second
//!    bucket's lock is for threads that store or remove a pair there.
//! 2. A thread waits for locks in the order of the buckets. It only tries a lock against this
//!    order.

use super::Table;
use super::directory::Found;
use super::geometry::{first_bucket, second_bucket};
use super::segments::Segments;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::table::shared::bucket::Layout;

/// The buckets of a key. The first is locked; the second is locked if `has_second`.
pub(super) struct Buckets<'t, M: Medium, L: Layout> {
    segments: &'t Segments<M, L>,
    pub(super) segment: usize,
    hash: u64,
    pub(super) first: &'t L,
    has_second: bool,
}

impl<M: Medium, L: Layout> Clone for Buckets<'_, M, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Medium, L: Layout> Copy for Buckets<'_, M, L> {}

impl<'t, M: Medium, L: Layout> Buckets<'t, M, L> {
    #[inline(always)]
    fn mask(&self) -> usize {
        self.segments.per_segment - 1
    }

    #[inline(always)]
    fn first_place(&self) -> usize {
        first_bucket(self.hash, self.mask())
    }

    #[inline(always)]
    fn second_place(&self) -> usize {
        second_bucket(self.hash, self.mask())
    }

    /// Returns the second bucket at its present address: in a durable table its page may have been
    /// copied.
    #[inline(always)]
    pub(super) fn second(&self) -> &'t L {
        self.segments.bucket(self.segment, self.second_place())
    }

    /// Locks the second bucket, too. Returns nothing if its lock comes first in the order and is
    /// taken.
    pub(super) fn lock_second(&self) -> Option<Second<'t, M, L>> {
        let (segments, segment) = (self.segments, self.segment);
        let (first, second) = (self.first_place(), self.second_place());
        let has_lock = !self.has_second && !segments.share_lock(first, second);
        if has_lock {
            if first < second {
                segments.lock_bucket(segment, second);
            } else if !segments.try_lock_bucket(segment, second) {
                return None;
            }
        }
        Some(Second { segments, segment, place: has_lock.then_some(second) })
    }

    #[inline(always)]
    pub(super) fn unlock(&self) {
        if self.has_second {
            self.segments.unlock_bucket(self.segment, self.second_place());
        }
        if M::IS_DURABLE {
            self.segments.unlock_bucket(self.segment, self.first_place());
        } else {
            self.first.unlock();
        }
    }

    #[inline(always)]
    pub(super) fn open_first(&mut self) -> Result<(), NoRoom> {
        self.open(self.first_place())
    }

    #[inline(always)]
    pub(super) fn open_second(&mut self) -> Result<(), NoRoom> {
        self.open(self.second_place())
    }

    #[inline(always)]
    fn open(&mut self, place: usize) -> Result<(), NoRoom> {
        if M::IS_PAGED {
            self.segments.make_writable(self.segment, place).map_err(|_| NoRoom)?;
            self.first = self.segments.bucket(self.segment, self.first_place());
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn open_stash(&self) -> Result<(), NoRoom> {
        match M::IS_PAGED {
            true => self.segments.make_stash_writable(self.segment).map_err(|_| NoRoom),
            false => Ok(()),
        }
    }
}

/// The right to change the second bucket. Unlocks it if it has a lock of its own that was taken for
/// this.
pub(super) struct Second<'t, M: Medium, L: Layout> {
    segments: &'t Segments<M, L>,
    segment: usize,
    place: Option<usize>,
}

impl<M: Medium, L: Layout> Drop for Second<'_, M, L> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.segments.unlock_bucket(self.segment, place);
        }
    }
}

pub(super) struct HeldStash<'t, M: Medium, L: Layout> {
    segments: &'t Segments<M, L>,
    segment: usize,
    at: usize,
}

impl<'t, M: Medium, L: Layout> HeldStash<'t, M, L> {
    pub(super) fn lock(segments: &'t Segments<M, L>, segment: usize, at: usize) -> Self {
        segments.lock_stash(segment, at);
        Self { segments, segment, at }
    }
}

impl<M: Medium, L: Layout> Drop for HeldStash<'_, M, L> {
    fn drop(&mut self) {
        self.segments.unlock_stash(self.segment, self.at);
    }
}

/// There is no room for a copy of the page that the change needs.
pub(super) struct NoRoom;

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    #[inline(always)]
    pub(super) fn lock_buckets(
        &self,
        found: Found<'_>,
        hash: u64,
        both: bool,
    ) -> Buckets<'_, M, L> {
        let (segment, mask) = (found.entry.segment(), self.mask());
        let first = first_bucket(hash, mask);
        let mut has_second = false;
        if both {
            let second = second_bucket(hash, mask);
            has_second = second < first && !self.segments.share_lock(first, second);
            if has_second {
                self.segments.lock_bucket(segment, second);
            }
        }
        let at_first = || self.segments.bucket(segment, first);
        let first = if M::IS_DURABLE {
            // The lock is not in the bucket, whose address may change until the lock is held.
            self.segments.lock_bucket(segment, first);
            at_first()
        } else {
            // Computes the bucket's address once, for both uses.
            let bucket = at_first();
            bucket.lock();
            bucket
        };
        Buckets { segments: &self.segments, segment, hash, first, has_second }
    }
}
