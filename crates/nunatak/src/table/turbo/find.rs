//! Lookups.

use super::Table;
use super::geometry::{Descriptor, fingerprint};
use super::shards::Shard;
use crate::hash::HashCodec;
use crate::memory::prefetch::{prefetch, prefetch_to_write};
use crate::memory::{BuddyExtent, Medium};
use crate::table::KeyTest;
use crate::table::shared::bucket::{Flag, Header, Layout, find_in};
use crate::table::stages::Lookups;

/// The flag of a *passed* bucket: some key's search goes on behind it.
pub(super) const PASSED: Flag = Flag::Second;

impl<P: HashCodec, M: Medium, L: Layout> Lookups for Table<P, M, L> {
    /// Returns the value word of a key. A hit touches the lines of the shard's descriptor, of the
    /// bucket's header and of the slot, which may be the header's. A miss touches the first two,
    /// and the slots of other keys with the same fingerprint. Keys behind their full bucket cost
    /// further headers.
    #[inline(always)]
    fn find<T: KeyTest>(&self, word: u64, test: &T) -> Option<u64> {
        let (hash, tag) = self.codec.hash_and_tag(word);
        self.find_tag::<true, _>(hash, tag, test)
    }

    #[inline(always)]
    fn prefetch(&self, word: u64) {
        self.prefetch_home::<false>(self.codec.hash(word));
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Looks a key up by its hash and tag. Fetches its bucket if `FETCHES`; otherwise it is on its
    /// way.
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
            // The answer does not count either if a page may have been reused.
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

    /// Looks a key up from its first bucket on.
    #[inline(always)]
    pub(super) fn find_from<T: KeyTest>(
        &self,
        first: usize,
        extent: BuddyExtent,
        (hash, tag): (u64, u64),
        test: &T,
    ) -> Option<u64> {
        let bucket = self.shards.bucket(first);
        // Before the fingerprints: if this header has no flag, the key is here or absent.
        let header = bucket.header();
        match self.find_in(bucket, header, (hash, tag), test) {
            None if header.has_no_flag() => None,
            None => self.find_behind(extent, header, (hash, tag), test),
            found => found,
        }
    }

    /// Looks for a key in a bucket whose header was loaded.
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

    /// Looks for a key behind its first bucket.
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
        // Tests a copy, since no code of the caller's runs under a lock (R7).
        self.chains.of(hash, tag).into_iter().find(|&second| test.accepts(second))
    }

    /// Returns the number of buckets that a key of an extent may be in.
    #[inline(always)]
    pub(super) fn scope(&self, extent: BuddyExtent) -> usize {
        self.config.scope.min(extent.len())
    }

    /// Fetches the first bucket of a hash, by a descriptor that may be out of date. Returns the
    /// shard, this descriptor, and the bucket's number, if the shard has buckets.
    #[inline(always)]
    pub(super) fn prefetch_home<const CHANGES: bool>(
        &self,
        hash: u64,
    ) -> (&Shard, Descriptor, usize) {
        let shard = self.shards.of(hash);
        let descriptor = shard.descriptor();
        let Some(extent) = descriptor.extent() else { return (shard, descriptor, 0) };
        let home = self.shards.place(extent, hash, 0);
        self.prefetch_bucket::<CHANGES>(home);
        (shard, descriptor, home)
    }

    /// Fetches all lines of a bucket, since the header tells too late which slot is needed.
    #[inline(always)]
    pub(super) fn prefetch_bucket<const CHANGES: bool>(&self, at: usize) {
        let first = self.shards.address(at).cast::<u8>();
        for line in (0..size_of::<L>()).step_by(64) {
            let address = first.wrapping_add(line);
            if CHANGES { prefetch_to_write(address) } else { prefetch(address) }
        }
    }
}
