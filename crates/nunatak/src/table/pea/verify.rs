//! Looking whether all of a durable table is as it should be.

use super::Table;
use super::bucket::{Flag, SLOTS};
use super::geometry::{Entry, fingerprint, first_bucket, second_bucket};
use crate::error::Error;
use crate::hash::Placement;
use crate::memory::durable::Paged;
use crate::sync::{OpPin, Ordering::Relaxed, Shared};
use crate::table::verify::{IsPair, ensure, verify_pair};

impl<P: Placement> Table<P, Paged> {
    /// Looks at every slot: how many pairs there are. Changes wait, segment by segment.
    pub(crate) fn verify(&self, is_pair: IsPair<'_>) -> Result<usize, Error> {
        self.segments.check()?;
        self.chains.slots().check()?;
        self.restore_all();
        let mut pairs = 0;
        let mut next = Some(0_u64);
        while let Some(hash) = next {
            let _pin = OpPin::<Shared>::new();
            let found = self.locate(hash);
            let (segment, depth) = (found.entry.segment(), found.entry.depth());
            self.segments.lock(segment);
            if self.directories.is_still(found) {
                let verified = self.verify_segment(found.entry, hash, is_pair);
                self.segments.unlock(segment);
                pairs += verified?;
                next = hash.checked_add(1 << (64 - depth));
            } else {
                self.segments.unlock(segment);
            }
        }
        for (hash, pair) in self.chains.all() {
            self.verify_pair(hash, pair, is_pair)?;
            pairs += 1;
        }
        // Of a file that was closed it is what the file says.
        ensure(pairs == self.counted(), "there are more or fewer pairs than is said")?;
        Ok(pairs)
    }

    fn verify_segment(
        &self,
        entry: Entry,
        prefix: u64,
        is_pair: IsPair<'_>,
    ) -> Result<usize, Error> {
        let (segment, half, mask) = (entry.segment(), (prefix >> 63) as usize, self.mask());
        let per_segment = self.segments.per_segment;
        let mut pairs = 0;
        for (at, bucket) in self.segments.all(segment).enumerate() {
            let free: Vec<usize> = bucket.header().matching(0).collect();
            for slot in 0..SLOTS {
                let tag = bucket.slot(slot).load_first(Relaxed);
                let second = bucket.slot(slot).load_second(Relaxed);
                if free.contains(&slot) {
                    ensure(tag == 0, "an empty slot holds a pair")?;
                    continue;
                }
                ensure(tag != 0 && self.placement.is_tag(tag), "a slot that is taken is empty")?;
                let hash = self.placement.hash_of_tag(tag, half);
                let is_its = (hash ^ prefix) >> (64 - entry.depth()) == 0;
                ensure(is_its, "a pair is in a segment that is not its key's")?;
                let header = self.segments.bucket(segment, first_bucket(hash, mask)).header();
                let may_be_there = at == first_bucket(hash, mask)
                    || at == second_bucket(hash, mask) && header.has(Flag::Second)
                    || at >= per_segment && header.has(Flag::Stashed);
                ensure(may_be_there, "a pair is in a bucket that is not its key's")?;
                let is_known = bucket.header().matching(fingerprint(hash)).any(|s| s == slot);
                ensure(is_known, "a pair has another's fingerprint")?;
                self.verify_once(segment, hash, tag)?;
                self.verify_pair(hash, (tag, second), is_pair)?;
                pairs += 1;
            }
        }
        Ok(pairs)
    }

    /// Whether a key is in one slot only.
    fn verify_once(&self, segment: usize, hash: u64, tag: u64) -> Result<(), Error> {
        let places = [first_bucket(hash, self.mask()), second_bucket(hash, self.mask())];
        let buckets = places.map(|place| self.segments.bucket(segment, place)).into_iter();
        let slots = buckets.chain(self.segments.stash(segment)).flat_map(|bucket| {
            let slots = bucket.header().matching(fingerprint(hash));
            slots.map(|slot| bucket.slot(slot).load_first(Relaxed))
        });
        let in_slots = slots.filter(|&other| other == tag).count();
        let is_once = in_slots + self.chains.of(hash, tag).len() == 1;
        ensure(is_once, "a key is in a segment twice")
    }

    fn verify_pair(
        &self,
        hash: u64,
        (tag, second): (u64, u64),
        is_pair: IsPair<'_>,
    ) -> Result<(), Error> {
        let word = self.decoder.word(tag, (hash >> 63) as usize);
        verify_pair(self, (word, second), is_pair)
    }
}
