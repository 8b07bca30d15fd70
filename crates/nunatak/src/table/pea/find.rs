//! Lookups.

use super::Table;
use super::directory::Found;
use super::geometry::{Entry, Strategy, fingerprint, first_bucket, second_bucket};
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::memory::prefetch::{
    prefetch, prefetch_behind_header, prefetch_bucket, prefetch_bucket_to_write,
};
use crate::seeded::{Bug, seeded};
use crate::sync::{Ordering, fence};
use crate::table::KeyTest;
use crate::table::shared::bucket::{Flag, Header, Layout, find_in};
use crate::table::stages::Lookups;

impl<P: HashCodec, M: Medium, L: Layout> Lookups for Table<P, M, L> {
    /// Returns the value word of a key. A hit touches the lines of the bucket's header and of the
    /// slot, which may be the header's. A miss touches the header's line, and the slots of other
    /// keys with the same fingerprint. Both touch more if the segment is so full that keys are
    /// elsewhere.
    #[inline(always)]
    fn find<T: KeyTest>(&self, word: u64, test: &T) -> Option<u64> {
        let hash = self.codec.hash(word);
        self.find_tag::<true, _>(hash, self.codec.tag(word, hash), test)
    }

    #[inline(always)]
    fn prefetch(&self, word: u64) {
        self.prefetch_hash(self.codec.hash(word));
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
        // Here for both buckets, where nearly all keys are. Every call ends the lookup, so no value has to outlast one.
        if self.pairs_load_whole {
            let (recycled, found) = (self.medium.recycled(), self.locate(hash));
            let segment = found.entry.segment();
            if FETCHES {
                let first = first_bucket(hash, self.mask());
                prefetch_behind_header(self.segments.address(segment, first));
            }
            let (second, is_all) = self.find_in_buckets(segment, key, test, true);
            if second.is_none() && !is_all {
                return self.find_elsewhere_once((found.entry, recycled), key, test);
            }
            if self.is_answer((found, recycled), hash) {
                return second;
            }
        }
        self.find_again(key, test)
    }

    /// Looks a key up that is in neither of its buckets; everywhere, if it goes to another segment meanwhile. Gets its entry
    /// alone, which a register holds: the same entry in another directory is the same segment.
    #[inline(never)]
    fn find_elsewhere_once<T: KeyTest>(
        &self,
        (entry, recycled): (Entry, u64),
        key: (u64, u64),
        test: &T,
    ) -> Option<u64> {
        let found = self.locate(key.0);
        if found.entry == entry || seeded(Bug::EntryNotCompared) {
            let second = self.find_elsewhere(entry.segment(), key, test);
            let is_answer = self.is_answer((found, recycled), key.0);
            if is_answer || seeded(Bug::ElsewhereNotAskedAgain) {
                return second;
            }
        }
        self.find_again(key, test)
    }

    /// Looks a key up as often as it goes to another segment meanwhile.
    #[inline(never)]
    fn find_again<T: KeyTest>(&self, key @ (hash, _): (u64, u64), test: &T) -> Option<u64> {
        loop {
            let (recycled, found) = (self.medium.recycled(), self.locate(hash));
            let second = self.find_in_segment(found.entry.segment(), key, test);
            if self.is_answer((found, recycled), hash) {
                return second;
            }
        }
    }

    /// Returns whether a key's entry is unchanged after the caller read from its segment, and no page was reused since.
    /// If not, what the caller read does not count.
    #[inline(always)]
    fn is_answer(&self, (found, recycled): (Found<'_>, u64), hash: u64) -> bool {
        self.persist_read(found.entry.segment(), hash);
        self.is_still(found) && self.medium.recycled() == recycled
    }

    /// Returns whether a key's entry is unchanged after the caller read from its segment. If not,
    /// what the caller read does not count.
    #[inline(always)]
    pub(super) fn is_still(&self, found: Found<'_>) -> bool {
        // Acquire: pairs with the release of a thread that published another entry.
        fence(Ordering::Acquire);
        self.directories.is_still(found) || seeded(Bug::EntryNotAskedAgain)
    }

    #[inline(always)]
    pub(super) fn find_in_segment<T: KeyTest>(
        &self,
        segment: usize,
        key: (u64, u64),
        test: &T,
    ) -> Option<u64> {
        match self.find_in_buckets(segment, key, test, self.pairs_load_whole) {
            (None, false) => self.find_elsewhere(segment, key, test),
            (found, _) => found,
        }
    }

    /// Looks for a key in its two buckets. Also returns whether these are all places where it may be.
    #[inline(always)]
    fn find_in_buckets<T: KeyTest>(
        &self,
        segment: usize,
        key @ (hash, _): (u64, u64),
        test: &T,
        whole: bool,
    ) -> (Option<u64>, bool) {
        let bucket = self.segments.bucket(segment, first_bucket(hash, self.mask()));
        // Before the fingerprints: if this header has no flag, the key is here or absent. So for each flag.
        let header = bucket.header();
        let mut found = self.find_in(bucket, header, key, test, whole);
        if found.is_none() && header.has(Flag::Second) {
            let bucket = self.segments.bucket(segment, second_bucket(hash, self.mask()));
            found = self.find_in(bucket, bucket.header(), key, test, whole);
        }
        (found, !header.has(Flag::Stashed) && !header.has(Flag::Chained))
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
        let pair = |slot| self.segments.pair(bucket, slot, whole);
        find_in(bucket, header, (fingerprint(hash), tag), test, pair)
    }

    /// Looks for a key that is in neither of its buckets. A function of its own: in line, its values took the registers of
    /// the lookups that end in the buckets.
    #[inline(never)]
    fn find_elsewhere<T: KeyTest>(
        &self,
        segment: usize,
        key @ (hash, tag): (u64, u64),
        test: &T,
    ) -> Option<u64> {
        let header = self.segments.bucket(segment, first_bucket(hash, self.mask())).header();
        let find_in =
            |bucket: &L| self.find_in(bucket, bucket.header(), key, test, self.pairs_load_whole);
        let in_stash = || self.segments.stash(segment).into_iter().find_map(find_in);
        // Tests a copy, since no code of the caller's runs under a lock (R7).
        let in_chain =
            || self.chains.of(hash, tag).into_iter().find(|&second| test.accepts(second));
        None.or_else(|| if header.has(Flag::Stashed) { in_stash() } else { None })
            .or_else(|| if header.has(Flag::Chained) { in_chain() } else { None })
    }

    /// Fetches the buckets that a change looks at.
    #[inline(always)]
    pub(super) fn prefetch_buckets(&self, found: Found<'_>, hash: u64) {
        let segment = found.entry.segment();
        self.prefetch_bucket::<true>(segment, first_bucket(hash, self.mask()));
        if found.entry.strategy() > Strategy::Single {
            self.prefetch_bucket::<true>(segment, second_bucket(hash, self.mask()));
        }
    }

    /// Fetches all lines of a bucket, since the header tells too late which slot is needed.
    #[inline(always)]
    pub(super) fn prefetch_bucket<const CHANGES: bool>(&self, segment: usize, place: usize) {
        let address = self.segments.address(segment, place);
        if CHANGES { prefetch_bucket_to_write(address) } else { prefetch_bucket(address) }
    }

    /// Fetches the first line that every operation on a key needs.
    #[inline(always)]
    pub(super) fn prefetch_hash(&self, hash: u64) {
        let segment = self.locate(hash).entry.segment();
        prefetch(self.segments.address(segment, first_bucket(hash, self.mask())));
    }
}
