//! The place of an item. An item stays there until it is removed or the table changes its size
//! (referential stability, section 1).

use super::Table;
use super::back::Back;
use super::geometry::{BlockSizes, back_fingerprint, choices, fingerprint};
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::table::KeyTest;

/// The place of an item in an [`IcebergMap`](crate::IcebergMap), as
/// [`slot`](crate::InlineMap::slot) returns it. It is valid for the map that it came from; in
/// another map it finds nothing, or another item.
///
/// ```
/// use nunatak::IcebergMap;
/// let map: IcebergMap<u64, u64> = IcebergMap::new();
/// map.insert(1, 10);
/// let slot = map.slot(&1).unwrap();
/// map.insert(2, 20);
/// assert_eq!(map.slot(&1), Some(slot));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotHandle {
    place: Place,
    tag: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Front {
        block: usize,
        slot: u8,
    },
    Back {
        block: usize,
        slot: u8,
    },
    Chain {
        hash: u64,
    },
    /// A slot of a table that is small. The handle's tag is the word.
    #[cfg_attr(modelled, allow(dead_code, reason = "models begin with the full table"))]
    Small {
        slot: usize,
    },
}

impl SlotHandle {
    /// Returns the handle of a word in a slot of a small table.
    #[cfg(not(modelled))]
    pub(super) fn of_small(slot: usize, word: u64) -> Self {
        Self { place: Place::Small { slot }, tag: word }
    }

    /// Returns the slot and the word if this is a handle of a small table.
    #[cfg(not(modelled))]
    pub(super) fn in_small(&self) -> Option<(usize, u64)> {
        match self.place {
            Place::Small { slot } => Some((slot, self.tag)),
            _ => None,
        }
    }

    /// Returns the level that the item is in: 1, 2 or 3. A map of few items has level 1 only.
    ///
    /// ```
    /// # use nunatak::IcebergMap;
    /// let map: IcebergMap<u64, u64> = IcebergMap::new();
    /// map.insert(1, 10);
    /// assert_eq!(map.slot(&1).unwrap().level(), 1);
    /// ```
    pub fn level(&self) -> u8 {
        match self.place {
            Place::Front { .. } | Place::Small { .. } => 1,
            Place::Back { .. } => 2,
            Place::Chain { .. } => 3,
        }
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Table<P, B, M> {
    /// Returns the place of a key.
    pub(crate) fn slot_of<T: KeyTest>(&self, word: u64, test: &T) -> Option<SlotHandle> {
        let hash = self.codec.hash(word);
        let tag = self.codec.tag(word, hash);
        let found = |pair: (u64, u64)| pair.0 == tag && test.accepts(pair.1);
        loop {
            let state = self.state();
            for mask in [state.mask_before(), state.mask()] {
                let block = self.geometry.block(hash, mask);
                for slot in crate::simd::BitIter::new(self.front.matching(block, fingerprint(hash)))
                {
                    if found(self.front.pair(block, slot)) {
                        return Some(SlotHandle {
                            place: Place::Front { block, slot: slot as u8 },
                            tag,
                        });
                    }
                }
            }
            for mask in [state.mask_before(), state.mask()] {
                for block in choices(hash).map(|hash| self.geometry.block(hash, mask)) {
                    for slot in
                        Back::<B, M>::matching(self.back.word(block), back_fingerprint(hash))
                    {
                        if found(self.back_pair(block, slot)) {
                            return Some(SlotHandle {
                                place: Place::Back { block, slot: slot as u8 },
                                tag,
                            });
                        }
                    }
                }
            }
            if self.chains.of(hash, tag).into_iter().any(|second| test.accepts(second)) {
                return Some(SlotHandle { place: Place::Chain { hash }, tag });
            }
            crate::sync::fence(crate::sync::Ordering::Acquire);
            if self.is_still(state) {
                return None;
            }
        }
    }

    /// Returns the word and the value word of an item that is still in its place. Reads one cache
    /// line in the front yard.
    #[inline]
    pub(crate) fn read_slot(&self, handle: &SlotHandle) -> Option<(u64, u64)> {
        let blocks = self.geometry.blocks(self.state().larger_mask());
        let (half, pair) = match handle.place {
            Place::Front { block, slot } if block < blocks && usize::from(slot) < B::FRONT => {
                let is_used = self.front.matching(block, 0) >> slot & 1 == 0;
                (is_used || !M::IS_DURABLE).then_some(())?;
                let pair = self.front.pair(block, usize::from(slot));
                self.persist_front(block, usize::from(slot));
                (self.geometry.half(block), pair)
            }
            Place::Back { block, slot } if block < blocks && usize::from(slot) < B::BACK => {
                let mut empties = Back::<B, M>::empties(self.back.word(block));
                (!M::IS_DURABLE || empties.all(|empty| empty != usize::from(slot))).then_some(())?;
                let pair = self.back_pair(block, usize::from(slot));
                self.persist_back(block, usize::from(slot));
                (self.geometry.half(block), pair)
            }
            Place::Chain { hash } => {
                let second = self.chains.of(hash, handle.tag).into_iter().next()?;
                ((hash >> 63) as usize, (handle.tag, second))
            }
            // A handle of a larger size, of a small table, or of another map.
            _ => return None,
        };
        (pair.0 == handle.tag).then(|| (self.decoder.word(pair.0, half), pair.1))
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::hash::{HashCodec, Hashing, RandomState, WordCodec};
    use crate::table::iceberg::yard::Yard;
    use crate::table::iceberg::{Blocks, Config};
    use crate::table::{ByWord, Change, PairTable};

    #[test]
    fn handles_of_other_maps_name_no_slot_that_there_is_not() {
        let codec = RandomState::default().into_codec().unwrap().into_shared();
        let config = Config { max_load: 0.99, ..Config::default() };
        let table: Table<<WordCodec<RandomState> as HashCodec>::Shared, Blocks<8, 2>> =
            Table::new(codec, config, 1000).unwrap();
        for word in 0..1000 {
            assert_eq!(table.apply(word, &ByWord, Some(!word), |_| Change::Keep), None);
        }
        let blocks = table.stats().blocks;
        // Memory for a doubling, where no handle may look, whatever it holds.
        table.front.grow(blocks + 1).unwrap();
        table.back.grow(blocks + 1).unwrap();
        let mut levels = [0; 3];
        for word in 0..1000 {
            let handle = table.slot_of(word, &ByWord).unwrap();
            assert_eq!(table.read_slot(&handle), Some((word, !word)));
            levels[usize::from(handle.level() - 1)] += 1;
            // The same slot, counted from the block before, and one behind all blocks.
            let others = match handle.place {
                Place::Front { block, slot } => [
                    Place::Front { block: block.wrapping_sub(1), slot: slot + 8 },
                    Place::Front { block: blocks, slot },
                ],
                Place::Back { block, slot } => [
                    Place::Back { block: block.wrapping_sub(1), slot: slot + 2 },
                    Place::Back { block: blocks, slot },
                ],
                Place::Chain { .. } | Place::Small { .. } => continue,
            };
            for place in others {
                match place {
                    Place::Front { slot, .. } if usize::from(slot) < 8 => {
                        table.front.put(blocks, slot.into(), 1, (handle.tag, 0));
                    }
                    Place::Back { slot, .. } if usize::from(slot) < 2 => {
                        table.back.put(blocks, slot.into(), 1, (handle.tag, 0));
                    }
                    _ => {}
                }
                assert_eq!(table.read_slot(&SlotHandle { place, tag: handle.tag }), None);
            }
        }
        assert!(levels[0] > 500 && levels[1] > 50, "{levels:?}");
    }
}
