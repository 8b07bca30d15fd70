//! Checks a durable table.

use super::Table;
use super::find::PASSED;
use super::geometry::fingerprint;
use super::shards::Counts;
use super::shards::ShardGuard;
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::BuddyExtent;
use crate::memory::durable::Paged;
use crate::table::shared::bucket::{Header, Layout};
use crate::table::shared::files::{IsPair, ensure, verify_pair};
use crate::table::shared::undo_log::UndoLog;

impl<P: HashCodec> Table<P, Paged> {
    /// Checks every slot, and returns the number of pairs. Changes wait, one shard at a time.
    pub(crate) fn verify(&self, is_pair: IsPair<'_>) -> Result<usize, Error> {
        self.shards.check()?;
        self.chains.slots().check()?;
        self.undo.as_ref().map_or(Ok(()), UndoLog::check)?;
        self.restore_all();
        let (mut pairs, mut words) = (0, Vec::new());
        for number in 0..self.shards.len() {
            self.change_shard(number, |held, hash| -> Result<(), Error> {
                if let Some(extent) = held.descriptor.extent() {
                    pairs += self.verify_shard(held, extent, hash)?;
                }
                words.clear();
                self.read_shard(held, hash, &mut words);
                words.iter().try_for_each(|&pair| verify_pair(self, pair, is_pair))
            })?;
        }
        Ok(pairs + self.chains.len())
    }

    /// Checks all slots of a locked shard, and returns the number of their pairs.
    fn verify_shard(
        &self,
        held: &ShardGuard<'_>,
        extent: BuddyExtent,
        prefix: u64,
    ) -> Result<usize, Error> {
        let (number, half) = (self.shards.number(prefix), (prefix >> 63) as usize);
        let mut counts = Counts::default();
        for (at, bucket) in self.shards.all(extent).enumerate() {
            let header = bucket.header();
            let free: Vec<usize> = header.matching(0).collect();
            let mut verify = |slot: usize| {
                let (tag, second) = bucket.pair(slot, self.pairs_load_whole);
                if free.contains(&slot) {
                    return ensure(tag == 0, "an empty slot holds a pair");
                }
                ensure(tag != 0 && self.codec.is_tag(tag), "a slot that is taken is empty")?;
                let hash = self.codec.hash_of_tag(tag, half);
                let is_its = self.shards.number(hash) == number;
                ensure(is_its, "a pair is in a shard that is not its key's")?;
                let is_known = header.matching(fingerprint(hash)).any(|other| other == slot);
                ensure(is_known, "a pair has another's fingerprint")?;
                self.verify_way(extent, at, hash, (tag, second))?;
                counts.live += 1;
                Ok(())
            };
            for slot in 0..Self::SLOTS {
                let located = |error| self.medium.pool().locate(bucket.slot(slot), error);
                verify(slot).map_err(located)?;
            }
            if header.has(PASSED) {
                counts.tombstones += free.len() as u32;
            }
        }
        ensure(counts == held.shard.counts(), "a shard has more or fewer pairs than is said")?;
        Ok(counts.live as usize)
    }

    /// Checks that a key's search reaches its slot, and no other slot with the key. (If words are
    /// not keys, other keys may have the same tag with another value.)
    fn verify_way(
        &self,
        extent: BuddyExtent,
        at: usize,
        hash: u64,
        pair: (u64, u64),
    ) -> Result<(), Error> {
        let is_same =
            |other: u64, second: u64| other == pair.0 && (P::WORDS_ARE_KEYS || second == pair.1);
        let (mut is_on_the_way, mut found) = (false, 0);
        for distance in 0..self.scope(extent) {
            let place = self.shards.place(extent, hash, distance);
            is_on_the_way |= place == extent.first + at;
            let bucket = self.shards.bucket(place);
            let slots = bucket.header().matching(fingerprint(hash));
            let pairs = slots.map(|slot| bucket.pair(slot, self.pairs_load_whole));
            found += pairs.filter(|&(other, second)| is_same(other, second)).count();
            if !bucket.header().has(PASSED) {
                break;
            }
        }
        ensure(is_on_the_way, "a pair is in a bucket that is not its key's")?;
        let chained = self.chains.of(hash, pair.0).into_iter();
        found += chained.filter(|&second| is_same(pair.0, second)).count();
        ensure(found == 1, "a key is in a shard twice")
    }
}
