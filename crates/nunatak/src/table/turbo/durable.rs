//! What a durable table does beyond one in RAM (sections 3.3 to 3.7), in a medium whose
//! stores are durable in their order.
//!
//! **What is durable**: slots, and a descriptor of each shard: one word, which says its run of
//! buckets. All else can be told from these: fingerprints and flags from the slots, and which
//! buckets are free from the descriptors. The paper has a tag array, two bitmaps and a
//! sequence number that are durable besides, and two descriptors of a shard with a version;
//! so an insert or an update writes two lines back there, and one here.
//!
//! ```text
//! descriptor  63  62 … 58       57 … 34   33 … 0
//!    first    0   size: log2+1  0         first bucket
//!    second   of a table that was closed: free slots that searches go past, pairs
//! ```
//!
//! **A value is replaced where it is**, by a store of eight bytes, and no slot is kept free
//! for it: a power cut leaves the old one or the new one.
//!
//! **Rehash.** The new extent is durable before the descriptor names it, by one store of eight
//! bytes; and that is durable before the old run is given back. So there is nothing to be
//! undone or repeated: an extent that no descriptor names is free.
//!
//! **After a crash** each shard is looked at when somebody comes to it first, under its lock:
//! its fingerprints and flags are made anew, its pairs counted. So opening a table reads the
//! descriptors alone. When a table is closed these say the counts; then headers are taken as
//! they are. What is in chains of a shard whose slots have it, too, was stored there by a
//! rehash that came to nothing, and is dropped.
//!
//! **Reads.** What a read returns must not be taken back by a crash. Who changes a slot holds
//! the lock of its shard until that is durable; so a reader that finds it locked makes what
//! it has looked at durable itself. A fingerprint is cleared when the removal is durable:
//! who finds none has seen nothing that a crash takes back.

use super::Table;
#[cfg(any(not(target_os = "linux"), loom, shuttle, miri))]
use super::apply::ShardGuard;
use super::find::PASSED;
use super::geometry::{Descriptor, fingerprint};
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::{BuddyExtent, Medium};
use crate::seeded::{Bug, seeded};
use crate::sync::Ordering;
use crate::table::shared::bucket::{Header, Layout};

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Makes an extent that was filled that of a shard, durably.
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
        // Release: as of everything that is stored in a medium.
        self.medium.store_first(durable, Descriptor::word(extent), Ordering::Release);
        if !seeded(Bug::DescriptorUnflushed) {
            self.medium.flush(durable, 1);
        }
        if !seeded(Bug::DescriptorUnfenced) {
            self.medium.fence();
        }
    }

    /// Makes what a read may have seen of a key durable, if somebody is changing its shard,
    /// whose descriptor this is now.
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
                self.shards.trim_map()?;
                self.chains.slots().trim_map()?;
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
    pub(super) fn restore(&self, _held: &mut ShardGuard<'_>, _hash: u64) {}

    pub(super) fn restore_all(&self) {}
}
