//! The quantities that the paper reports of a table (sections 7.3–7.7).

use super::Table;
use super::back::Back;
use super::geometry::{BlockSizes, Geometry};
use crate::hash::HashCodec;
use crate::memory::{Medium, MemoryUsage};
use crate::table::stages::Figures;

/// Figures about the inside of an [`IcebergMap`](crate::IcebergMap).
///
/// ```
/// use nunatak::IcebergMap;
/// let map: IcebergMap<u64, u64> = (0..1000).map(|key| (key, key)).collect();
/// let stats = map.stats();
/// assert_eq!(stats.levels.iter().sum::<usize>(), 1000);
/// assert!(stats.share(1) > 0.8);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct IcebergStats {
    /// The number of entries.
    pub len: usize,
    /// Entries in level 1, 2 and 3 (table 4 of the paper).
    pub levels: [usize; 3],
    /// The number of blocks in level 1; level 2 has as many. A map of at most 32 entries has none yet;
    /// its slots count as level 1.
    pub blocks: usize,
    /// The slots of levels 1 and 2.
    pub slots: usize,
    /// The share of the slots that hold an entry.
    pub load_factor: f64,
    /// Blocks of level 2 from which a key went to level 3 because they were full.
    pub overflowed_blocks: usize,
    /// The highest number of entries of level 3 that share a hash.
    pub longest_chain: usize,
    /// Blocks of levels 1 and 2 that a resize has yet to settle.
    pub unsettled_blocks: usize,
    /// The number of entries to which the map can grow.
    pub max_capacity: usize,
}

impl IcebergStats {
    /// Returns the share of the entries that is in a level: 1, 2 or 3. Returns zero for an empty
    /// map.
    ///
    /// # Panics
    /// If there is no such level.
    ///
    /// ```
    /// # use nunatak::IcebergMap;
    /// assert_eq!(IcebergMap::<u64, u64>::new().stats().share(2), 0.0);
    /// ```
    pub fn share(&self, level: usize) -> f64 {
        let all = self.levels.iter().sum::<usize>().max(1);
        self.levels[level - 1] as f64 / all as f64
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Figures for Table<P, B, M> {
    type Stats = IcebergStats;

    fn len(&self) -> usize {
        // The counts are concurrent: a removal may be visible before its insert.
        self.registry.added().cast_signed().max(0) as usize
    }

    /// Items in chains take no slot.
    fn load_factor(&self) -> f64 {
        self.len().saturating_sub(self.chains.len()) as f64 / self.slots() as f64
    }

    fn memory_usage(&self) -> MemoryUsage {
        let all = self.front.usage() + self.back.usage() + self.chains.usage() + self.copy.usage();
        if M::IS_PAGED { all + self.usage_of_pages() } else { all }
    }

    /// Reads the fingerprints of every block.
    fn stats(&self) -> IcebergStats {
        let state = self.state();
        let blocks = self.geometry.blocks(state.larger_mask());
        let slots_of_front = u64::MAX >> (64 - B::FRONT);
        let mut levels = [0, 0, self.chains.len()];
        let mut overflowed_blocks = 0;
        for block in 0..blocks {
            let taken = !self.front.matching(block, 0) & slots_of_front;
            levels[0] += taken.count_ones() as usize;
            let word = self.back.word(block);
            levels[1] += B::BACK - Back::<B, M>::empties(word).count() as usize;
            overflowed_blocks += usize::from(word.is_overflowed());
        }
        IcebergStats {
            len: self.len(),
            levels,
            blocks: self.geometry.blocks(state.mask()),
            slots: self.slots(),
            load_factor: self.load_factor(),
            overflowed_blocks,
            longest_chain: self.chains.longest(),
            unsettled_blocks: if state.is_stable() { 0 } else { self.migration.remaining() },
            max_capacity: (self.geometry.blocks(self.most_rows - 1) as f64
                * Geometry::<B>::SLOTS as f64
                * self.config.max_load) as usize,
        }
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Table<P, B, M> {
    /// Returns the number of all slots of the size in use.
    pub(super) fn slots(&self) -> usize {
        self.geometry.blocks(self.state().mask()) * Geometry::<B>::SLOTS
    }
}
