//! Lookups.

use super::Table;
use super::geometry::{Descriptor, fingerprint};
use super::shards::Shard;
use crate::hash::HashCodec;
use crate::memory::prefetch::{prefetch_behind_header, prefetch_bucket, prefetch_bucket_to_write};
use crate::memory::{BuddyExtent, Medium};
use crate::seeded::{Bug, seeded};
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
        let hash = self.codec.hash(word);
        if let Some(extent) = self.shards.of(hash).descriptor().extent() {
            prefetch_bucket(self.shards.address(self.shards.place(extent, hash, 0)));
        }
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
        let key = (hash, tag);
        // Here for the first bucket, where nearly all keys are. Every call ends the lookup, so no value has to outlast one.
        if self.pairs_load_whole {
            let (shard, recycled) = (self.shards.of(hash), self.medium.recycled());
            let descriptor = shard.descriptor();
            let Some(extent) = descriptor.extent() else { return self.find_again(key, test) };
            let first = self.shards.place(extent, hash, 0);
            if FETCHES {
                prefetch_behind_header(self.shards.address(first));
            }
            let bucket = self.shards.bucket(first);
            let header = bucket.header();
            let found = self.find_in(bucket, header, key, test, true);
            if found.is_none() && !header.has_no_flag() {
                return self.find_behind_once((descriptor, recycled), key, test);
            }
            if self.is_answer(shard, (descriptor, recycled), hash) {
                return found;
            }
        }
        self.find_again(key, test)
    }

    /// Looks a key up behind its first bucket, which does not hold it; everywhere, if its shard got other buckets
    /// meanwhile.
    #[inline(never)]
    fn find_behind_once<T: KeyTest>(
        &self,
        seen: (Descriptor, u64),
        key: (u64, u64),
        test: &T,
    ) -> Option<u64> {
        if let Some(extent) = seen.0.extent() {
            let found =
                self.find_behind(extent, self.shards.home(extent, key.0).header(), key, test);
            let is_answer = self.is_answer(self.shards.of(key.0), seen, key.0);
            if is_answer || seeded(Bug::BehindNotAskedAgain) {
                return found;
            }
        }
        self.find_again(key, test)
    }

    /// Looks a key up as often as its shard gets other buckets meanwhile.
    #[inline(never)]
    fn find_again<T: KeyTest>(&self, key @ (hash, tag): (u64, u64), test: &T) -> Option<u64> {
        loop {
            let (shard, recycled) = (self.shards.of(hash), self.medium.recycled());
            let descriptor = shard.descriptor();
            let second = match descriptor.extent() {
                Some(extent) => {
                    let first = self.shards.place(extent, hash, 0);
                    self.find_from(first, extent, key, test)
                }
                None if M::IS_DURABLE && descriptor.is_unrestored() => {
                    drop(self.hold(hash));
                    continue;
                }
                None if self.chains.len() == 0 => return None,
                None => self.find_in_chain(hash, tag, test),
            };
            if self.is_answer(shard, (descriptor, recycled), hash) {
                return second;
            }
        }
    }

    /// Returns whether the shard of a hash still has a descriptor after the caller read from its buckets, and no page was
    /// reused since. If not, what the caller read does not count.
    #[inline(always)]
    fn is_answer(
        &self,
        shard: &Shard,
        (descriptor, recycled): (Descriptor, u64),
        hash: u64,
    ) -> bool {
        let now = shard.descriptor_after();
        self.persist_read(now, hash);
        now.has_extent_of(descriptor) && self.medium.recycled() == recycled
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
        match self.find_in(bucket, header, (hash, tag), test, self.pairs_load_whole) {
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
        whole: bool,
    ) -> Option<u64> {
        let pair = |slot| self.shards.pair(bucket, slot, whole);
        find_in(bucket, header, (fingerprint(hash), tag), test, pair)
    }

    /// Looks for a key behind its first bucket. A function of its own: in line, its values took the registers of the
    /// lookups that end in the first bucket.
    #[inline(never)]
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
            let found = self.find_in(bucket, header, key, test, self.pairs_load_whole);
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

    /// Fetches the first bucket of a hash for a change, by a descriptor that may be out of date.
    #[inline(always)]
    pub(super) fn prefetch_home(&self, hash: u64) {
        if let Some(extent) = self.shards.of(hash).descriptor().extent() {
            prefetch_bucket_to_write(self.shards.address(self.shards.place(extent, hash, 0)));
        }
    }
}
