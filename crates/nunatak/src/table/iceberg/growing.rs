//! What a [growing](crate::table::growing) table needs of IcebergHT, and its handles of slots.

#[cfg(not(modelled))]
use super::handle::SlotHandle;
use super::sizes::{blocks_for, most_items};
use super::{BlockSizes, Config, IcebergStats, Table};
use crate::error::Error;
use crate::hash::HashCodec;
use crate::sync::Registry;
use crate::table::growing::Full;
#[cfg(not(modelled))]
use crate::table::{KeyTest, growing::Growing};
use std::sync::Arc;

impl<P: HashCodec + Clone, B: BlockSizes> Full for Table<P, B> {
    type Codec = P;
    type Config = Config;

    /// A table can't grow to more than there are addresses for. The builder has checked the rest.
    fn check(config: &Config) -> Result<(), Error> {
        config.max_capacity.map_or(Ok(()), |items| blocks_for::<B>(items, config).map(drop))
    }

    fn is_fixed(config: &Config) -> bool {
        config.room.is_fixed()
    }

    fn make(codec: P, config: Config, capacity: usize) -> Result<Self, Error> {
        Self::new(codec, config, capacity)
    }

    fn shared_registry(&mut self) -> &mut Arc<Registry> {
        &mut self.registry
    }

    /// All entries are in level 1, as it were, which has no blocks.
    fn small_stats(config: &Config, len: usize, slots: usize) -> IcebergStats {
        IcebergStats {
            len,
            levels: [len, 0, 0],
            blocks: 0,
            slots,
            load_factor: len as f64 / slots.max(1) as f64,
            overflowed_blocks: 0,
            longest_chain: 0,
            unsettled_blocks: 0,
            max_capacity: most_items::<B>(config),
        }
    }
}

// (Models of IcebergHT begin with the full table.)
#[cfg(not(modelled))]
impl<P: HashCodec + Clone, B: BlockSizes> Growing<Table<P, B>> {
    /// Returns the place of a key.
    pub(crate) fn slot_of<T: KeyTest>(&self, word: u64, test: &T) -> Option<SlotHandle> {
        match self.full() {
            Some(full) => full.slot_of(word, test),
            None => Some(SlotHandle::of_small(self.slot_in_small(word, test)?, word)),
        }
    }

    /// Returns the word and the value word of an item that is still in its place. An item of a small
    /// table has another place when the table has grown.
    #[inline]
    pub(crate) fn read_slot(&self, handle: &SlotHandle) -> Option<(u64, u64)> {
        match self.full() {
            Some(full) => full.read_slot(handle),
            None => {
                let (slot, word) = handle.in_small()?;
                self.pair_in_small(slot).filter(|pair| pair.0 == word)
            }
        }
    }
}
