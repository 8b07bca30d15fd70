//! Looking keys up.

use super::Table;
use super::geometry::{Descriptor, fingerprint};
use super::shards::Shard;
use crate::hash::Placement;
use crate::memory::prefetch::{prefetch, prefetch_to_write};
use crate::memory::{Medium, Run};
use crate::table::KeyTest;
use crate::table::shared::bucket::{Flag, Header, Layout, find_in};
use crate::table::stages::Lookups;

/// A flag of a bucket: some key's search goes on behind it.
pub(super) const PASSED: Flag = Flag::Second;

impl<P: Placement, M: Medium, L: Layout> Lookups for Table<P, M, L> {
    /// The value word of a key. A hit touches the line of its shard's descriptor, that of
    /// the header of its bucket and that of its slot, which may be the same; a miss the
    /// first two, but for fingerprints that are another key's; more headers if keys that
    /// found no room are behind the bucket.
    #[inline(always)]
    fn find<T: KeyTest>(&self, word: u64, test: &T) -> Option<u64> {
        let hash = self.placement.hash(word);
        self.find_tag::<true, _>(hash, self.placement.tag(word, hash), test)
    }

    #[inline(always)]
    fn prefetch(&self, word: u64) {
        self.prefetch_home::<false>(self.placement.hash(word));
    }
}

impl<P: Placement, M: Medium, L: Layout> Table<P, M, L> {
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
            let second = match descriptor.run() {
                Some(run) => {
                    if FETCHES {
                        self.prefetch_bucket::<false>(self.shards.place(run, hash, 0));
                    }
                    self.find_in_run(run, hash, tag, test)
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
            if now.has_run_of(descriptor) && self.medium.recycled() == recycled {
                return second;
            }
        }
    }

    #[inline(always)]
    fn find_in_run<T: KeyTest>(&self, run: Run, hash: u64, tag: u64, test: &T) -> Option<u64> {
        self.find_from(self.shards.place(run, hash, 0), run, (hash, tag), test)
    }

    /// A lookup by a key's first bucket, and by the run that it is in.
    #[inline(always)]
    pub(super) fn find_from<T: KeyTest>(
        &self,
        first: usize,
        run: Run,
        (hash, tag): (u64, u64),
        test: &T,
    ) -> Option<u64> {
        let bucket = self.shards.bucket(first);
        // Before the fingerprints: who finds no flag finds the key here, if anywhere.
        let header = bucket.header();
        match self.find_in(bucket, header, (hash, tag), test) {
            None if header.has_no_flag() => None,
            None => self.find_behind(run, header, (hash, tag), test),
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
        run: Run,
        first: L::Header,
        key @ (hash, tag): (u64, u64),
        test: &T,
    ) -> Option<u64> {
        let mut header = first;
        for distance in 1..self.scope(run) {
            if !header.has(PASSED) {
                break;
            }
            let bucket = self.shards.bucket(self.shards.place(run, hash, distance));
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

    /// How many buckets a key of a run may be in.
    #[inline(always)]
    pub(super) fn scope(&self, run: Run) -> usize {
        self.config.scope.min(run.len())
    }

    /// Fetches the bucket that an operation looks at first, by a descriptor that may not be
    /// its shard's any more; which shard that is, and its descriptor.
    #[inline(always)]
    pub(super) fn prefetch_home<const CHANGES: bool>(&self, hash: u64) -> (&Shard, Descriptor) {
        let shard = self.shards.of(hash);
        let descriptor = shard.descriptor();
        if let Some(run) = descriptor.run() {
            self.prefetch_bucket::<CHANGES>(self.shards.place(run, hash, 0));
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
