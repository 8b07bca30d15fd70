//! Batches: operations in order, with overlapping memory accesses. The paper has no batches.
//!
//! Operations go in [groups](crate::table::shared::prefetch_groups) through four stages. They fetch
//! the shard's descriptor; fetch the header of the key's bucket; fetch the slot that matches, or a
//! free slot; run the operation.

use super::Table;
use super::find::PASSED;
use super::geometry::{Descriptor, fingerprint};
use super::shards::Shard;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::memory::prefetch::{prefetch, prefetch_to_write};
use crate::table::shared::bucket::{Header, Layout};
use crate::table::shared::prefetch_groups::StageDelays;
use crate::table::stages::Batches;
use crate::table::{Change, KeyTest};

/// The delays of an operation's stages: fetching the header, fetching the slot, running.
const DELAYS: StageDelays<3> = StageDelays { near: [1, 3, 4], far: [1, 4, 6] };
const RING: usize = DELAYS.ring();
/// Marks a shard without buckets, in place of the first bucket.
const NONE: usize = usize::MAX;
/// Marks a key whose fingerprint no slot has.
const NO_SLOT: u32 = u32::MAX;

/// State of an operation before its turn.
#[derive(Clone, Copy)]
struct Ahead<'s> {
    hash: u64,
    tag: u64,
    shard: &'s Shard,
    /// The descriptor when the bucket was fetched.
    descriptor: Descriptor,
    /// The first bucket by this descriptor.
    bucket: usize,
    /// A slot of this bucket that has the key's fingerprint.
    slot: u32,
}

impl<P: HashCodec, M: Medium, L: Layout> Batches for Table<P, M, L> {
    #[inline(always)]
    fn find_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        mut found: impl FnMut(usize, Option<u64>),
    ) {
        self.for_each_fetched::<false>(count, word, |at, ahead| {
            found(at, self.find_ahead(ahead, &test(at)));
            true
        });
    }

    #[inline(always)]
    fn apply_many<T: KeyTest>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        test: impl Fn(usize) -> T,
        fresh: impl Fn(usize) -> Option<u64>,
        change: impl Fn(usize, u64) -> Change,
        mut done: impl FnMut(usize, Option<u64>) -> bool,
    ) {
        self.for_each_fetched::<true>(count, word, |at, Ahead { hash, tag, .. }| {
            let change = |second| change(at, second);
            done(at, self.apply_hashed::<false, _>((hash, tag), &test(at), fresh(at), change))
        });
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Runs `step` for every operation of a batch, in order, while later operations' lines are
    /// fetched.
    #[inline(always)]
    fn for_each_fetched<'s, const CHANGES: bool>(
        &'s self,
        count: usize,
        word: impl Fn(usize) -> u64,
        mut step: impl FnMut(usize, Ahead<'s>) -> bool,
    ) {
        let none = Ahead {
            hash: 0,
            tag: 0,
            shard: self.shards.shard(0),
            descriptor: Descriptor(0),
            bucket: NONE,
            slot: NO_SLOT,
        };
        let mut ring = [none; RING];
        let (groups, [header_lag, slot_lag, step_lag]) = DELAYS.groups(count);
        for turn in groups.turns() {
            for at in groups.at(turn, 0) {
                let (hash, tag) = self.codec.hash_and_tag(word(at));
                let shard = self.shards.of(hash);
                let ahead = &mut ring[at % RING];
                (ahead.hash, ahead.tag) = (hash, tag);
                (ahead.shard, ahead.slot) = (shard, NO_SLOT);
                let shard: *const _ = shard;
                if CHANGES { prefetch_to_write(shard) } else { prefetch(shard) }
            }
            for at in groups.at(turn, header_lag) {
                let ahead = &mut ring[at % RING];
                ahead.descriptor = ahead.shard.descriptor();
                let extent = ahead.descriptor.extent();
                ahead.bucket =
                    extent.map_or(NONE, |extent| self.shards.place(extent, ahead.hash, 0));
            }
            // A loop of its own, since these fetches wait for addresses of pages.
            for at in groups.at(turn, header_lag) {
                let bucket = ring[at % RING].bucket;
                if bucket != NONE {
                    let address = self.shards.address(bucket);
                    if CHANGES { prefetch_to_write(address) } else { prefetch(address) }
                }
            }
            for at in groups.at(turn, slot_lag) {
                self.prefetch_slot::<CHANGES>(&mut ring[at % RING]);
            }
            for at in groups.at(turn, step_lag) {
                if !step(at, ring[at % RING]) {
                    return;
                }
            }
        }
    }

    #[inline(always)]
    fn prefetch_slot<const CHANGES: bool>(&self, ahead: &mut Ahead<'_>) {
        let Ahead { hash, bucket: at, .. } = *ahead;
        if at == NONE {
            return;
        }
        let bucket = self.shards.bucket(at);
        let header = bucket.header();
        let slot = header.matching(fingerprint(hash)).next();
        ahead.slot = slot.map_or(NO_SLOT, |slot| slot as u32);
        if slot.is_none() && header.has(PASSED) {
            // This is mostly the next bucket: the scope seldom wraps round the shard's end.
            let next = self.shards.address(at + 1);
            return if CHANGES { prefetch_to_write(next) } else { prefetch(next) };
        }
        let slot = if CHANGES { slot.or_else(|| header.matching(0).next()) } else { slot };
        for address in bucket.addresses(slot.unwrap_or(0)) {
            if CHANGES { prefetch_to_write(address) } else { prefetch(address) }
        }
    }

    /// Looks a key up by a descriptor that may be out of date.
    #[inline(always)]
    fn find_ahead<T: KeyTest>(&self, ahead: Ahead<'_>, test: &T) -> Option<u64> {
        let Ahead { hash, tag, shard, descriptor, bucket, slot } = ahead;
        // A page of a file may have moved by now, or not be durable.
        let Some(extent) = descriptor.extent().filter(|_| !M::IS_DURABLE) else {
            return self.find_tag::<false, _>(hash, tag, test);
        };
        let is_still = || shard.descriptor_after().has_extent_of(descriptor);
        if L::PAIRS_ARE_WHOLE && slot != NO_SLOT {
            let bucket = self.shards.bucket(bucket);
            let (first, second) = self.shards.pair(bucket, slot as usize, self.pairs_load_whole);
            if first == tag && test.accepts(second) && is_still() {
                return Some(second);
            }
        }
        match self.find_from(bucket, extent, (hash, tag), test) {
            found if is_still() => found,
            _ => self.find_tag::<false, _>(hash, tag, test),
        }
    }
}
