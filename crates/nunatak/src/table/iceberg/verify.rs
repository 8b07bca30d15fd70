//! The check of every slot of a durable table.

use super::Table;
use super::back::Back;
use super::geometry::{BlockSizes, back_fingerprint, choices, fingerprint};
use super::yard::Yard;
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::durable::Durable;
use crate::simd::BitIter;
use crate::sync::Ordering::Relaxed;
use crate::table::shared::files::{IsPair, ensure, verify_pair};

impl<P: HashCodec, B: BlockSizes> Table<P, B, Durable> {
    /// Returns the number of pairs, if each is where it belongs, is found there, and is valid for
    /// the caller.
    pub(crate) fn verify(&self, is_pair: IsPair<'_>) -> Result<usize, Error> {
        let _held = self.migrating.lock();
        // Ends the current phase, so that no pair is being moved.
        self.try_complete()?;
        let blocks = self.geometry.blocks(self.state().mask());
        let mut pairs = 0;
        for block in 0..blocks {
            self.front.lock(block);
            let front = self.verify_front(block, is_pair);
            self.front.unlock(block);
            self.back.lock(block);
            let back = self.verify_back(block, is_pair);
            self.back.unlock(block);
            pairs += front? + back?;
        }
        for (hash, (tag, second)) in self.chains.all() {
            self.verify_pair(hash, (tag, second), is_pair)?;
            pairs += 1;
        }
        Ok(pairs)
    }

    fn verify_front(&self, block: usize, is_pair: IsPair<'_>) -> Result<usize, Error> {
        let half = self.geometry.half(block);
        let used = !self.front.matching(block, 0) & (u64::MAX >> (64 - B::FRONT));
        for slot in 0..B::FRONT {
            let (tag, second) = self.front.pair(block, slot);
            if used >> slot & 1 == 0 {
                ensure(tag == 0, "an empty slot holds a pair")?;
                continue;
            }
            ensure(tag != 0, "a slot with a fingerprint is empty")?;
            let hash = self.codec.hash_of_tag(tag, half);
            let is_its = self.geometry.block(hash, self.state().mask()) == block;
            ensure(is_its, "a pair is in a block that is not its key's")?;
            let same = |other: &usize| {
                self.front.slot(block, *other).load_first(Relaxed) == tag && used >> other & 1 != 0
            };
            let matching = BitIter::new(self.front.matching(block, fingerprint(hash)));
            ensure(matching.filter(same).eq([slot]), "a key is in a block twice")?;
            self.verify_pair(hash, (tag, second), is_pair)?;
        }
        Ok(used.count_ones() as usize)
    }

    fn verify_back(&self, block: usize, is_pair: IsPair<'_>) -> Result<usize, Error> {
        let half = self.geometry.half(block);
        let word = self.back.word(block);
        let empties: Vec<usize> = Back::<B, Durable>::empties(word).collect();
        for slot in 0..B::BACK {
            let (tag, second) = self.back_pair(block, slot);
            if empties.contains(&slot) {
                ensure(tag == 0, "an empty slot holds a pair")?;
                continue;
            }
            ensure(tag != 0, "a slot with a fingerprint is empty")?;
            let hash = self.codec.hash_of_tag(tag, half);
            let mask = self.state().mask();
            let is_its = choices(hash).iter().any(|&hash| self.geometry.block(hash, mask) == block);
            ensure(is_its, "a pair is in a block that is not its key's")?;
            let matches = Back::<B, Durable>::matching(word, back_fingerprint(hash));
            let same = |other: &usize| self.back.slot(block, *other).load_first(Relaxed) == tag;
            ensure(matches.into_iter().filter(same).eq([slot]), "a key is in a block twice")?;
            let front = self.geometry.block(hash, mask);
            let mut in_front = BitIter::new(self.front.matching(front, fingerprint(hash)));
            let is_in_front =
                in_front.any(|slot| self.front.slot(front, slot).load_first(Relaxed) == tag);
            ensure(!is_in_front, "a key is in two levels")?;
            self.verify_pair(hash, (tag, second), is_pair)?;
        }
        Ok(B::BACK - empties.len())
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
