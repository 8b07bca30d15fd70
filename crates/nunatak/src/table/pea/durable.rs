//! What a durable table does beyond one in RAM (section 3.4), in a medium whose stores
//! are durable in their order.
//!
//! **What is durable**: slots, and a descriptor of each segment. All else can be told from
//! these: the directory from the descriptors, fingerprints, flags and strategies from the
//! slots. So there is no second directory, no strategy in several entries, and a stash is
//! as new as its segment; and a change writes the line of its slot and no other: 15 for
//! the 15 slots of a bucket, where the paper has 27, or 18 if it moves entries.
//!
//! ```text
//! descriptor  63 … 24   23 … 16    15 … 8   7 … 0
//!    first    0         strategy   depth    1: of the hashes from the second word on;
//!    second   the first hash                0: of none
//! ```
//!
//! **Structural changes.** Segments that take the place of others are filled, and durable,
//! before their descriptors say what they are; and these are before those of the others
//! say that they are of nothing. So whenever the power fails, who covers a hash is either
//! one segment, or several with the same pairs, at least one of which has all of them:
//! the one of the smallest depth. Only then the directory changes, and nobody has stored
//! anything in the new ones before.
//!
//! **After a crash** each segment is looked at when somebody comes to it first: its
//! fingerprints and flags are made anew, its pairs counted. So opening a table reads the
//! descriptors alone. When a table is closed these say the strategies, and the first of
//! all how many pairs there are; then headers are taken as they are.
//!
//! **Reads.** What a read returns must not be taken back by a crash. Who changes a slot
//! holds the lock of its key's first bucket until that is durable; so a reader that finds
//! it locked makes what it has looked at durable itself. A fingerprint is cleared when
//! the removal is durable: who finds none has seen nothing that a crash takes back.

use super::Table;
#[cfg(any(not(target_os = "linux"), loom, shuttle, miri))]
use super::directory::Found;
use super::geometry::{fingerprint, first_bucket, second_bucket};
use super::multi::log::Log;
use super::segments::Fresh;
use super::split::Child;
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::Ordering;
use crate::table::shared::bucket::{Header, Layout};

/// A descriptor of a segment that is of no hashes.
const NONE: u64 = 0;
/// The lowest byte of one that is of some.
pub(super) const LIVE: u64 = 1;
pub(super) const DEPTH_SHIFT: u32 = 8;

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// How many segments nobody has looked at since a crash.
    pub(super) fn unrestored(&self) -> usize {
        if M::IS_DURABLE { self.restoring.left() } else { 0 }
    }

    /// Says of a segment which hashes it is of: not durably before a fence.
    pub(super) fn describe(&self, fresh: Fresh, hash: u64, depth: u32) {
        if let Some(descriptor) = self.segments.descriptor(fresh.number as usize) {
            // Relaxed: read when the table is opened. One line, in this order.
            self.medium.store_second(descriptor, hash, Ordering::Relaxed);
            let first = u64::from(depth) << DEPTH_SHIFT | LIVE;
            self.medium.store_first(descriptor, first, Ordering::Release);
            if !seeded(Bug::DescriptorUnflushed) {
                self.medium.flush(descriptor, 1);
            }
        }
    }

    /// Makes segments that were filled and flushed, each with the first of its hashes, take
    /// the place of others, durably.
    pub(super) fn commit(&self, depth: u32, children: &[(u64, Child)], parents: &[usize]) {
        if !M::IS_DURABLE {
            return;
        }
        if !seeded(Bug::ChildrenUnfenced) {
            self.medium.fence();
        }
        let forget = || {
            for &parent in parents {
                if let Some(descriptor) = self.segments.descriptor(parent) {
                    self.medium.store_first(descriptor, NONE, Ordering::Release);
                    self.medium.flush(descriptor, 1);
                }
            }
            if !seeded(Bug::ParentUnfenced) {
                self.medium.fence();
            }
        };
        if seeded(Bug::ParentForgottenFirst) {
            forget();
        }
        children.iter().for_each(|(hash, child)| self.describe(child.fresh, *hash, depth));
        self.medium.fence();
        forget();
    }

    /// Makes what a read may have seen of a key durable, if somebody is changing it.
    #[inline(always)]
    pub(super) fn persist_read(&self, segment: usize, hash: u64) {
        if M::IS_DURABLE
            && self.medium.has_fences()
            && self.segments.version(segment, first_bucket(hash, self.mask())).1.is_locked()
            && !seeded(Bug::ReadUnpersisted)
        {
            self.persist_key(segment, hash);
        }
    }

    #[cold]
    fn persist_key(&self, segment: usize, hash: u64) {
        let mask = self.mask();
        let persist = |bucket: &L| {
            for slot in bucket.header().matching(fingerprint(hash)) {
                bucket.flush(&self.medium, slot);
            }
        };
        persist(self.segments.bucket(segment, first_bucket(hash, mask)));
        persist(self.segments.bucket(segment, second_bucket(hash, mask)));
        self.segments.stash(segment).into_iter().for_each(persist);
        self.medium.fence();
    }

    /// Ends an epoch, so that pages that were replaced in it may be used again. The caller
    /// is in no operation.
    #[cold]
    pub(super) fn make_room_for_copies(&self) {
        // If it fails the medium says so, and copies nothing any more.
        let _ = self.sync();
    }

    /// All that was acknowledged before is durable after it, whatever the medium.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.medium.sync(|begin| self.cut.frozen(begin))
    }

    /// Gives pages that nobody needs back to the system.
    pub(super) fn release_pages(&self) -> Result<(), Error> {
        if M::IS_PAGED && !self.medium.is_read_only() {
            // So that what is discarded is needed by no recovery.
            self.sync()?;
            self.cut.frozen(|| -> Result<(), Error> {
                self.segments.trim_maps()?;
                self.chains.slots().trim_map()?;
                if let Some(duplicates) = &self.duplicates {
                    duplicates.values.trim_map()?;
                    duplicates.log.as_ref().map_or(Ok(()), Log::trim_map)?;
                }
                self.medium.move_pages()
            })?;
            self.sync()?;
            self.cut.frozen(|| self.medium.trim_pages());
        }
        Ok(())
    }
}

/// Media that no table is opened in.
#[cfg(any(not(target_os = "linux"), loom, shuttle, miri))]
impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    pub(super) fn restore(&self, _found: Found<'_>, _hash: u64) {}

    pub(super) fn restore_all(&self) {}
}
