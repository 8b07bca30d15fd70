//! Checks a durable table.

use super::Table;
use super::geometry::{Entry, fingerprint, first_bucket, second_bucket};
use super::multi::Duplicates;
use super::multi::values::Pointer;
use crate::error::{Error, FileError};
use crate::hash::HashCodec;
use crate::memory::durable::Paged;
use crate::sync::{OpPin, Ordering::Relaxed, Shared};
use crate::table::shared::bucket::{Flag, Header, Layout, SLOTS};
use crate::table::shared::files::{IsPair, NO_PAIR, ensure, verify_pair};
use crate::table::shared::undo_log::UndoLog;
use std::collections::BTreeSet;

impl<P: HashCodec> Table<P, Paged> {
    /// Checks every slot, and returns the number of pairs. Changes wait, one segment at a time.
    pub(crate) fn verify(&self, is_pair: IsPair<'_>) -> Result<usize, Error> {
        self.segments.check()?;
        self.chains.slots().check()?;
        self.undo.as_ref().map_or(Ok(()), UndoLog::check)?;
        if let Some(Duplicates { values, log: Some(log) }) = &self.duplicates {
            values.check()?;
            log.check()?;
        }
        self.restore_all();
        let mut pairs = 0;
        let mut buffers = BTreeSet::new();
        let mut next = Some(0_u64);
        while let Some(hash) = next {
            let _pin = OpPin::<Shared>::new();
            let found = self.locate(hash);
            let (segment, depth) = (found.entry.segment(), found.entry.depth());
            self.segments.lock(segment);
            if self.directories.is_still(found) {
                let verified = self.verify_segment(found.entry, hash, is_pair, &mut buffers);
                self.segments.unlock(segment);
                pairs += verified?;
                next = hash.checked_add(1 << (64 - depth));
            } else {
                self.segments.unlock(segment);
            }
        }
        for one in self.all_chained() {
            let item = (one.tag, one.value_word, one.is_pointer);
            pairs += self.verify_item(one.hash, item, is_pair, &mut buffers)?;
        }
        if let Some(duplicates) = &self.duplicates {
            let in_use: usize = duplicates.values.stats().1.into_iter().sum();
            ensure(buffers.len() == in_use, "a value buffer is no key's")?;
        }
        // After a clean close this count is the file's.
        ensure(pairs == self.counted(), "there are more or fewer pairs than is said")?;
        Ok(pairs)
    }

    fn verify_segment(
        &self,
        entry: Entry,
        prefix: u64,
        is_pair: IsPair<'_>,
        buffers: &mut BTreeSet<usize>,
    ) -> Result<usize, Error> {
        let (segment, half, mask) = (entry.segment(), (prefix >> 63) as usize, self.mask());
        let per_segment = self.segments.per_segment;
        let mut pairs = 0;
        for (at, bucket) in self.segments.all(segment).enumerate() {
            let free: Vec<usize> = bucket.header().matching(0).collect();
            let mut verify = |slot: usize| {
                let word = bucket.slot(slot).load_first(Relaxed);
                let second = bucket.slot(slot).load_second(Relaxed);
                let tag = self.marking().tag(word);
                if free.contains(&slot) {
                    return ensure(word == 0, "an empty slot holds a pair");
                }
                ensure(word != 0 && self.codec.is_tag(tag), "a slot that is taken is empty")?;
                let hash = self.codec.hash_of_tag(tag, half);
                let is_its = (hash ^ prefix) >> (64 - entry.depth()) == 0;
                ensure(is_its, "a pair is in a segment that is not its key's")?;
                let header = self.segments.bucket(segment, first_bucket(hash, mask)).header();
                let may_be_there = at == first_bucket(hash, mask)
                    || at == second_bucket(hash, mask) && header.has(Flag::Second)
                    || at >= per_segment && header.has(Flag::Stashed);
                ensure(may_be_there, "a pair is in a bucket that is not its key's")?;
                let is_known = bucket.header().matching(fingerprint(hash)).any(|s| s == slot);
                ensure(is_known, "a pair has another's fingerprint")?;
                if self.duplicates.is_none() {
                    self.verify_once(segment, hash, (tag, second))?;
                }
                let item = (tag, second, self.marking().is_pointer(word));
                pairs += self.verify_item(hash, item, is_pair, buffers)?;
                Ok(())
            };
            let is_of_half = bucket.header().half().is_none_or(|noted| noted == half);
            ensure(is_of_half, "a bucket is said to have other keys")?;
            for slot in 0..SLOTS {
                let located = |error| self.medium.pool().locate(bucket.slot(slot), error);
                verify(slot).map_err(located)?;
            }
        }
        Ok(pairs)
    }

    /// Checks that a key is in one slot only. (If words are not keys, other keys may have the same
    /// tag with another value.)
    fn verify_once(&self, segment: usize, hash: u64, pair: (u64, u64)) -> Result<(), Error> {
        let is_same =
            |other: u64, second: u64| other == pair.0 && (P::WORDS_ARE_KEYS || second == pair.1);
        let places = [first_bucket(hash, self.mask()), second_bucket(hash, self.mask())];
        let buckets = places.map(|place| self.segments.bucket(segment, place)).into_iter();
        let slots = buckets.chain(self.segments.stash(segment)).flat_map(|bucket| {
            let slots = bucket.header().matching(fingerprint(hash));
            slots.map(|slot| bucket.pair(slot, self.pairs_load_whole))
        });
        let in_slots = slots.filter(|&(other, second)| is_same(other, second)).count();
        let chained = self.chains.of(hash, pair.0).into_iter();
        let in_chains = chained.filter(|&second| is_same(pair.0, second)).count();
        ensure(in_slots + in_chains == 1, "a key is in a segment twice")
    }

    /// Checks an item of a key, and returns the number of its pairs.
    fn verify_item(
        &self,
        hash: u64,
        (tag, second, is_pointer): (u64, u64, bool),
        is_pair: IsPair<'_>,
        buffers: &mut BTreeSet<usize>,
    ) -> Result<usize, Error> {
        let word = self.decoder.word(tag, (hash >> 63) as usize);
        let Some(duplicates) = &self.duplicates else {
            verify_pair(self, (word, second), is_pair)?;
            return Ok(1);
        };
        ensure(self.any_value(word).is_some(), "a key is not found where it is")?;
        if !is_pointer {
            ensure(is_pair(word, second), NO_PAIR)?;
            return Ok(1);
        }
        let blocks = duplicates.values.blocks(Pointer(second));
        let blocks = blocks.ok_or(FileError::corrupt("a pointer is to no buffer"))?;
        let is_its = blocks.into_iter().all(|block| buffers.insert(block));
        ensure(is_its, "a value buffer is of two keys")?;
        let (mut pairs, mut are_pairs) = (0, true);
        duplicates.values.each(
            Pointer(second),
            || true,
            |value| {
                pairs += 1;
                are_pairs &= is_pair(word, value);
            },
        );
        ensure(are_pairs, NO_PAIR)?;
        Ok(pairs)
    }
}
