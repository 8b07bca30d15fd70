//! The check of every slot of a durable table.

use super::Table;
use super::back::Back;
use super::geometry::{BlockSizes, back_fingerprint, choices, fingerprint};
use super::recovery::is_same;
use super::yard::Yard;
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::durable::InPool;
use crate::simd::BitIter;
use crate::sync::{OpPin, Shared};
use crate::table::shared::files::{IsPair, ensure, verify_pair};
use std::collections::HashSet;

impl<P: HashCodec, B: BlockSizes, M: InPool> Table<P, B, M> {
    /// Returns the number of pairs, if each is where it belongs, is found there, and is valid for
    /// the caller.
    pub(crate) fn verify(&self, is_pair: IsPair<'_>) -> Result<usize, Error> {
        // Ends the current phase, so that no pair is being moved.
        let _held = self.complete()?;
        let blocks = self.geometry.blocks(self.state().mask());
        let mut pairs = 0;
        for block in 0..blocks {
            // Announced, so that no page is given out again meanwhile.
            let _pin = M::IS_PAGED.then(OpPin::<Shared>::new);
            self.front.lock(block);
            let front = self.verify_front(block, is_pair);
            self.front.unlock(block);
            self.back.lock(block);
            let back = self.verify_back(block, is_pair);
            self.back.unlock(block);
            pairs += front? + back?;
        }
        let mut chained = HashSet::new();
        for (hash, (tag, second)) in self.chains.all() {
            let key = (hash, if P::WORDS_ARE_KEYS { 0 } else { second });
            ensure(chained.insert(key), "a key is in level 3 twice")?;
            let mask = self.state().mask();
            let is_in_back = choices(hash).into_iter().any(|choice| {
                self.back_holds(self.geometry.block(choice, mask), hash, (tag, second))
            });
            ensure(
                !is_in_back && !self.front_holds(hash, (tag, second)),
                "a key is in two levels",
            )?;
            self.verify_pair(hash, (tag, second), is_pair)?;
            pairs += 1;
        }
        Ok(pairs)
    }

    /// Whether the front block of a hash has a pair of this key.
    fn front_holds(&self, hash: u64, pair: (u64, u64)) -> bool {
        let block = self.geometry.block(hash, self.state().mask());
        BitIter::new(self.front.matching(block, fingerprint(hash)))
            .any(|slot| is_same::<P>(self.front.pair(block, slot), pair))
    }

    /// Whether a back block has a pair of this key.
    fn back_holds(&self, block: usize, hash: u64, pair: (u64, u64)) -> bool {
        Back::<B, M>::matching(self.back.word(block), back_fingerprint(hash))
            .into_iter()
            .any(|slot| is_same::<P>(self.back_pair(block, slot), pair))
    }

    fn verify_front(&self, block: usize, is_pair: IsPair<'_>) -> Result<usize, Error> {
        let half = self.geometry.half(block);
        let used = !self.front.matching(block, 0) & (u64::MAX >> (64 - B::FRONT));
        for slot in 0..B::FRONT {
            let (tag, second) = self.front.pair(block, slot);
            let verify = || {
                if used >> slot & 1 == 0 {
                    return ensure(tag == 0, "an empty slot holds a pair");
                }
                ensure(tag != 0, "a slot with a fingerprint is empty")?;
                let hash = self.codec.hash_of_tag(tag, half);
                let is_its = self.geometry.block(hash, self.state().mask()) == block;
                ensure(is_its, "a pair is in a block that is not its key's")?;
                let same = |other: &usize| {
                    let is_used = used >> other & 1 != 0;
                    is_used && is_same::<P>(self.front.pair(block, *other), (tag, second))
                };
                let matching = BitIter::new(self.front.matching(block, fingerprint(hash)));
                ensure(matching.filter(same).eq([slot]), "a key is in a block twice")?;
                self.verify_pair(hash, (tag, second), is_pair)
            };
            verify().map_err(|error| self.pool().locate(self.front.slot(block, slot), error))?;
        }
        Ok(used.count_ones() as usize)
    }

    fn verify_back(&self, block: usize, is_pair: IsPair<'_>) -> Result<usize, Error> {
        let half = self.geometry.half(block);
        let word = self.back.word(block);
        let empties: Vec<usize> = Back::<B, M>::empties(word).collect();
        for slot in 0..B::BACK {
            let (tag, second) = self.back_pair(block, slot);
            let verify = || {
                if empties.contains(&slot) {
                    return ensure(tag == 0, "an empty slot holds a pair");
                }
                ensure(tag != 0, "a slot with a fingerprint is empty")?;
                let hash = self.codec.hash_of_tag(tag, half);
                let mask = self.state().mask();
                let its = choices(hash).map(|choice| self.geometry.block(choice, mask));
                ensure(its.contains(&block), "a pair is in a block that is not its key's")?;
                let matches = Back::<B, M>::matching(word, back_fingerprint(hash));
                let same =
                    |other: &usize| is_same::<P>(self.back_pair(block, *other), (tag, second));
                ensure(matches.into_iter().filter(same).eq([slot]), "a key is in a block twice")?;
                let is_elsewhere = its
                    .into_iter()
                    .any(|other| other != block && self.back_holds(other, hash, (tag, second)));
                ensure(!is_elsewhere, "a key is in two blocks")?;
                ensure(!self.front_holds(hash, (tag, second)), "a key is in two levels")?;
                self.verify_pair(hash, (tag, second), is_pair)
            };
            verify().map_err(|error| self.pool().locate(self.back.slot(block, slot), error))?;
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
