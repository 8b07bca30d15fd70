//! What a durable table does beyond a table in RAM (sections 3.3 to 3.7). The medium makes stores
//! durable in their order.
//!
//! **What is durable**: slots, and one word for each shard that says its extent of buckets. All
//! else follows from these: fingerprints and flags from the slots, free buckets from the
//! descriptors. In the paper, a tag array, two bitmaps, a sequence number and two versioned
//! descriptors for each shard are durable, too. So an insert or an update writes two lines back
//! there, and one here.
//!
//! ```text
//! descriptor  63  62 … 58       57 … 34   33 … 0
//!    first    0   size: log2+1  0         first bucket
//!    second   of a table that was closed: free slots that searches go past, pairs
//! ```
//!
//! **Values are replaced in place**, by a store of eight bytes. No slot is kept free for that: a
//! power cut leaves the old value or the new one.
//!
//! **Rehash.** The new extent is durable before the descriptor names it, by one store of eight
//! bytes. This store is durable before the old extent is given back. So recovery undoes and repeats
//! nothing: an extent that no descriptor names is free.
//!
//! **After a crash** a shard is restored at its first use, under its lock: its fingerprints and
//! flags are built again, its pairs are counted. So opening a table reads only the descriptors. A
//! table that is closed stores the counts in the descriptors; then headers are valid as they are. A
//! pair that is in a slot and also in a chain is the rest of an interrupted rehash; recovery drops
//! it from the chain.
//!
//! **Reads.** A crash must not take back what a read returned. The writer of a slot holds the
//! shard's lock until the slot is durable. So a reader that finds the lock held makes the slots
//! that it has seen durable itself. A fingerprint is cleared after the removal is durable: a reader
//! that finds no fingerprint has seen nothing that a crash takes back.

use super::Table;
use super::find::PASSED;
use super::geometry::{Descriptor, fingerprint};
#[cfg(not(durable))]
use super::shards::ShardGuard;
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::{BuddyExtent, Medium};
use crate::seeded::{Bug, seeded};
use crate::sync::Ordering;
use crate::table::shared::bucket::{Header, Layout};
#[cfg(durable)]
use crate::table::shared::undo_log::UndoLog;

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Makes a filled extent the shard's extent, durably.
    pub(super) fn commit(&self, number: usize, extent: Option<BuddyExtent>) {
        let Some(durable) = self.shards.durable(number) else { return };
        if let Some(extent) = extent
            && !seeded(Bug::RunUnflushed)
        {
            self.shards.flush(extent);
        }
        if !seeded(Bug::RunUnfenced) {
            self.medium.fence();
        }
        // Release: as every store to a medium.
        self.medium.store_first(durable, Descriptor::word(extent), Ordering::Release);
        if !seeded(Bug::DescriptorUnflushed) {
            self.medium.flush(durable, 1);
        }
        if !seeded(Bug::DescriptorUnfenced) {
            self.medium.fence();
        }
    }

    /// Makes what a read may have seen of a key durable, if a thread is changing the key's shard.
    /// `descriptor` is the shard's present one.
    #[inline(always)]
    pub(super) fn persist_read(&self, descriptor: Descriptor, hash: u64) {
        if M::IS_DURABLE
            && descriptor.is_locked()
            && self.medium.has_fences()
            && !seeded(Bug::ReadUnpersisted)
        {
            self.persist_key(descriptor, hash);
        }
    }

    #[cold]
    fn persist_key(&self, descriptor: Descriptor, hash: u64) {
        let Some(extent) = descriptor.extent() else { return };
        for distance in 0..self.scope(extent) {
            let bucket = self.shards.bucket(self.shards.place(extent, hash, distance));
            let header = bucket.header();
            for slot in header.matching(fingerprint(hash)) {
                bucket.flush(&self.medium, slot);
            }
            if !header.has(PASSED) {
                break;
            }
        }
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
                self.shards.trim_map()?;
                self.chains.slots().trim_map()?;
                #[cfg(durable)]
                self.undo.as_ref().map_or(Ok(()), UndoLog::trim_map)?;
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
    pub(super) fn restore(&self, _held: &mut ShardGuard<'_>, _hash: u64) {}

    pub(super) fn restore_all(&self) {}
}
