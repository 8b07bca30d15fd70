//! Looking keys up.

use super::Table;
use super::geometry::{Descriptor, fingerprint};
use super::shards::Shard;
use crate::hash::HashCodec;
use crate::memory::prefetch::{prefetch, prefetch_to_write};
use crate::memory::{BuddyExtent, Medium};
use crate::table::KeyTest;
use crate::table::shared::bucket::{Flag, Header, Layout, find_in};
use crate::table::stages::Lookups;

/// A flag of a bucket: some key's search goes on behind it.
pub(super) const PASSED: Flag = Flag::Second;

impl<P: HashCodec, M: Medium, L: Layout> Lookups for Table<P, M, L> {
    /// The value word of a key. A hit touches the line of its shard's descriptor, that of
    /// the header of its bucket and that of its slot, which may be the same; a miss the
    /// first two, but for fingerprints that are another key's; more headers if keys that
    /// found no room are behind the bucket.
    #[inline(always)]
    fn find<T: KeyTest>(&self, word: u64, test: &T) -> Option<u64> {
        let hash = self.codec.hash(word);
        self.find_tag::<true, _>(hash, self.codec.tag(word, hash), test)
    }

    #[inline(always)]
    fn prefetch(&self, word: u64) {
        self.prefetch_home::<false>(self.codec.hash(word));
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// The same, of a key whose bucket is to be fetched or is on its way.
    #[inline(always)]
    pub(super) fn find_tag<const FETCHES: bool, T: KeyTest>(
        &self,
        hash: u64,
        tag: u64,
        test: &T,
    ) -> Option<u64> {
        let shard = self.shards.of(hash);
        loop {
            let recycled = self.medium.recycled();
            let descriptor = shard.descriptor();
            let second = match descriptor.extent() {
                Some(extent) => {
                    if FETCHES {
                        self.prefetch_bucket::<false>(self.shards.place(extent, hash, 0));
                    }
                    self.find_in_extent(extent, hash, tag, test)
                }
                None if M::IS_DURABLE && descriptor.is_unrestored() => {
                    drop(self.hold(hash));
                    continue;
                }
                None if self.chains.len() == 0 => return None,
                None => self.find_in_chain(hash, tag, test),
            };
            let now = shard.descriptor_after();
            self.persist_read(now, hash);
            // Nor does it count if a page may have been used for something else.
            if now.has_extent_of(descriptor) && self.medium.recycled() == recycled {
                return second;
            }
        }
    }

    #[inline(always)]
    fn find_in_extent<T: KeyTest>(
        &self,
        extent: BuddyExtent,
        hash: u64,
        tag: u64,
        test: &T,
    ) -> Option<u64> {
        self.find_from(self.shards.place(extent, hash, 0), extent, (hash, tag), test)
    }

    /// A lookup by a key's first bucket, and by the extent that it is in.
    #[inline(always)]
    pub(super) fn find_from<T: KeyTest>(
        &self,
        first: usize,
        extent: BuddyExtent,
        (hash, tag): (u64, u64),
        test: &T,
    ) -> Option<u64> {
        let bucket = self.shards.bucket(first);
        // Before the fingerprints: who finds no flag finds the key here, if anywhere.
        let header = bucket.header();
        match self.find_in(bucket, header, (hash, tag), test) {
            None if header.has_no_flag() => None,
            None => self.find_behind(extent, header, (hash, tag), test),
            found => found,
        }
    }

    /// A key of a bucket whose header was loaded.
    #[inline(always)]
    fn find_in<T: KeyTest>(
        &self,
        bucket: &L,
        header: L::Header,
        (hash, tag): (u64, u64),
        test: &T,
    ) -> Option<u64> {
        let pair = |slot| self.shards.pair(bucket, slot, self.pairs_load_whole);
        find_in(bucket, header, (fingerprint(hash), tag), test, pair)
    }

    /// The rest of a lookup, for a key that is not in its first bucket.
    fn find_behind<T: KeyTest>(
        &self,
        extent: BuddyExtent,
        first: L::Header,
        key @ (hash, tag): (u64, u64),
        test: &T,
    ) -> Option<u64> {
        let mut header = first;
        for distance in 1..self.scope(extent) {
            if !header.has(PASSED) {
                break;
            }
            let bucket = self.shards.bucket(self.shards.place(extent, hash, distance));
            header = bucket.header();
            let found = self.find_in(bucket, header, key, test);
            if found.is_some() {
                return found;
            }
        }
        if first.has(Flag::Chained) { self.find_in_chain(hash, tag, test) } else { None }
    }

    #[cold]
    fn find_in_chain<T: KeyTest>(&self, hash: u64, tag: u64, test: &T) -> Option<u64> {
        // Of a copy, since the caller's code must not run under the lock.
        self.chains.of(hash, tag).into_iter().find(|&second| test.accepts(second))
    }

    /// How many buckets a key of an extent may be in.
    #[inline(always)]
    pub(super) fn scope(&self, extent: BuddyExtent) -> usize {
        self.config.scope.min(extent.len())
    }

    /// Fetches the bucket that an operation looks at first, by a descriptor that may not be
    /// its shard's any more; which shard that is, and its descriptor.
    #[inline(always)]
    pub(super) fn prefetch_home<const CHANGES: bool>(&self, hash: u64) -> (&Shard, Descriptor) {
        let shard = self.shards.of(hash);
        let descriptor = shard.descriptor();
        if let Some(extent) = descriptor.extent() {
            self.prefetch_bucket::<CHANGES>(self.shards.place(extent, hash, 0));
        }
        (shard, descriptor)
    }

    /// Fetches all of a bucket: its header, and what that tells too late where to look.
    #[inline(always)]
    pub(super) fn prefetch_bucket<const CHANGES: bool>(&self, at: usize) {
        let first = self.shards.address(at).cast::<u8>();
        for line in (0..size_of::<L>()).step_by(64) {
            let address = first.wrapping_add(line);
            if CHANGES { prefetch_to_write(address) } else { prefetch(address) }
        }
    }
}
