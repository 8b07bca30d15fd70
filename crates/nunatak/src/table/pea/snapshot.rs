//! What a [cut](crate::table::shared::cut) of the table copies: segments.
//!
//! A segment is copied under the locks of all its buckets, before a thread locks one of them for a
//! change. The segments that a split makes of a copied segment count as copied.

use super::Table;
use super::directory::Found;
use super::geometry::Entry;
use super::iterate::Hashes;
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::{OpPin, Shared};
use crate::table::shared::bucket::Layout;
use crate::table::shared::cut::PairSnapshot;
use crate::table::stages::{Figures, Snapshots};

impl<P: HashCodec, M: Medium, L: Layout> Snapshots for Table<P, M, L> {
    type Snapshot = PairSnapshot;

    fn snapshot(&self) -> Result<PairSnapshot, Error> {
        // This lock keeps merges out, too.
        let _held = self.exclusive.lock();
        self.cut.take(self.len(), || {
            let number = self.cut.number();
            let mut from = Some(0_u64);
            while let Some(hash) = from {
                let _pin = OpPin::<Shared>::new();
                let found = self.locate(hash);
                self.copy(found, hash, number);
                if self.directories.is_still(found) {
                    from = hash.checked_add(1 << (64 - found.entry.depth()));
                }
            }
        })
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Copies the segment of a hash for the present cut, unless the cut has a copy. The caller is
    /// in an operation and holds no lock.
    #[inline(always)]
    pub(super) fn copy_before_change(&self, found: Found<'_>, hash: u64) {
        let number = self.cut.number();
        if number != 0
            && !self.segments.is_copied(found.entry.segment(), number)
            && !seeded(Bug::ChangedUncopied)
        {
            self.copy(found, hash, number);
        }
    }

    #[cold]
    fn copy(&self, found: Found<'_>, hash: u64, number: u64) {
        let segment = found.entry.segment();
        self.segments.lock(segment);
        // If the entry has changed, the caller notices, too.
        if self.directories.is_still(found) {
            self.copy_locked(found.entry, hash, number);
        }
        self.segments.unlock(segment);
    }

    /// Copies a locked segment, if a cut is being taken.
    pub(super) fn copy_locked(&self, entry: Entry, hash: u64, number: u64) {
        let segment = entry.segment();
        if number == 0 || self.segments.is_copied(segment, number) {
            return;
        }
        let first = hash >> (64 - entry.depth()) << (64 - entry.depth());
        let mut pairs = Vec::new();
        // Reads all of the segment, from its first hash on, which needs no hashes of keys.
        self.read_locked(entry, Hashes::from(first), Self::push_pairs, &mut pairs, &mut Vec::new());
        self.cut.add(&pairs);
        self.segments.set_copied(segment, number);
    }
}
