//! What a durable table does beyond a table in RAM (section 3.4). The medium makes stores durable
//! in their order.
//!
//! **What is durable**: slots, and a descriptor of each segment. All else follows from these: the
//! directory from the descriptors; fingerprints, flags and strategies from the slots. So there is
//! no second directory and no strategy in several entries, and each segment has its stash from the
//! start. A change writes the line of its slot and no other line. So 15 inserts into a bucket write
//! 15 lines; the paper writes 27, or 18 if entries move.
//!
//! ```text
//! descriptor  63 … 24   23 … 16    15 … 8   7 … 0
//!    first    0         strategy   depth    1: of the hashes from the second word on;
//!    second   the first hash                0: of none
//! ```
//!
//! **Structural changes.** New segments are filled and durable before their descriptors say what
//! they are. These descriptors are durable before the descriptors of the replaced segments are
//! cleared. So after a power failure a hash belongs to one segment, or to several with the same
//! pairs, and then the segment of the smallest depth has all of them. The directory changes only
//! afterwards, so no thread has stored anything in the new segments before.
//!
//! **After a crash** a segment is restored at its first use: its fingerprints and flags are built
//! again, its pairs are counted. So opening a table reads only the descriptors. A table that is
//! closed stores the strategies in the descriptors, and the number of pairs before the first one;
//! then headers are valid as they are.
//!
//! **Reads.** A crash must not take back what a read returned. The writer of a slot holds the lock
//! of its key's first bucket until the slot is durable. So a reader that finds the lock held makes
//! the slots that it has seen durable itself. A fingerprint is cleared after the removal is
//! durable: a reader that finds no fingerprint has seen nothing that a crash takes back.

use super::Table;
#[cfg(not(durable))]
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
use crate::table::shared::bucket::{Flag, Header, Layout, UPPER_HALF};
#[cfg(durable)]
use crate::table::shared::undo_log::UndoLog;

/// The first word of a descriptor whose segment has no hashes.
const NONE: u64 = 0;
/// The lowest byte of a descriptor whose segment has hashes.
pub(super) const LIVE: u64 = 1;
pub(super) const DEPTH_SHIFT: u32 = 8;

/// The flags of a segment's first stash bucket: which half of the hashes the segment has, since it is
/// in use; both, since it was given back. (Stash buckets are no key's first bucket, so that their
/// flags say nothing else.) Only damaged files are read by these flags.
pub(super) const HALVES: [Flag; 2] = [Flag::Second, UPPER_HALF];

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Returns the number of segments that were not restored since a crash.
    pub(super) fn unrestored(&self) -> usize {
        if M::IS_DURABLE { self.restoring.left() } else { 0 }
    }

    /// Stores a segment's descriptor: which hashes it has. Durable after the next fence.
    pub(super) fn describe(&self, fresh: Fresh, hash: u64, depth: u32) {
        if let Some(descriptor) = self.segments.descriptor(fresh.number as usize) {
            // Relaxed: read when the table is opened. Both words are in one line, stored in this
            // order.
            self.medium.store_second(descriptor, hash, Ordering::Relaxed);
            let first = u64::from(depth) << DEPTH_SHIFT | LIVE;
            self.medium.store_first(descriptor, first, Ordering::Release);
            if !seeded(Bug::DescriptorUnflushed) {
                self.medium.flush(descriptor, 1);
            }
        }
    }

    /// Notes in a segment that no other thread knows which half of the hashes it has.
    pub(super) fn note_half(&self, segment: usize, hash: u64) {
        if M::IS_DURABLE {
            self.segments.stash(segment)[0].set(&self.medium, HALVES[(hash >> 63) as usize]);
        }
    }

    /// Notes in a segment that no descriptor names any more that it was given back. (A cut that comes
    /// first changes nothing: recovery notes the half of each segment in use.)
    pub(super) fn note_given_back(&self, segment: usize) {
        if M::IS_DURABLE {
            let stash = self.segments.stash(segment)[0];
            stash.add_flags(&self.medium, HALVES[0] as u64 | HALVES[1] as u64);
            self.medium.flush(stash, 1);
        }
    }

    /// Replaces parent segments by filled and flushed children, durably. Each child comes with its
    /// lowest hash.
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
        parents.iter().for_each(|&parent| self.note_given_back(parent));
    }

    /// Makes what a read may have seen of a key durable, if a thread is changing the key.
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

    /// Ends an epoch, so that pages replaced in it can be reused. The caller is in no operation.
    #[cold]
    pub(super) fn make_room_for_copies(&self) {
        // If the sync fails, the medium reports it and copies no more pages.
        let _ = self.sync();
    }

    /// Makes all acknowledged changes durable, whatever the medium.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.medium.sync(|begin| self.cut.frozen(begin))
    }

    /// Returns unused pages to the system.
    pub(super) fn release_pages(&self) -> Result<(), Error> {
        if M::IS_PAGED && !self.medium.is_read_only() {
            #[cfg(durable)]
            self.undo.iter().for_each(UndoLog::shrink);
            // So that no recovery needs the discarded pages.
            self.sync()?;
            self.cut.frozen(|| -> Result<(), Error> {
                self.segments.trim_maps()?;
                self.chains.slots().trim_map()?;
                #[cfg(durable)]
                self.undo.as_ref().map_or(Ok(()), UndoLog::trim_map)?;
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

/// For media that no table is opened in.
#[cfg(not(durable))]
impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    pub(super) fn restore(&self, _found: Found<'_>, _hash: u64) {}

    pub(super) fn restore_all(&self) {}
}
