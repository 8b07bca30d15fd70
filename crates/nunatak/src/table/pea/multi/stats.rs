//! Figures of a table of duplicate keys.

use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::table::pea::multi::values::Pointer;
use crate::table::pea::{PeaStats, Table};
use crate::table::shared::bucket::Layout;
use crate::table::stages::Figures;

/// What a [`PeaMultiMap`](crate::PeaMultiMap) looks like inside.
///
/// ```
/// use nunatak::PeaMultiMap;
/// let map: PeaMultiMap<u64, u64> = (0..1000).map(|value| (7, value)).collect();
/// let stats = map.stats();
/// assert_eq!(stats.table.len, 1000);
/// assert_eq!((stats.pointers, stats.buffers.iter().sum::<usize>()), (1, 1));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PeaMultiStats {
    /// The table's figures. Its slots hold values and pointers.
    pub table: PeaStats,
    /// Pointers to value buffers. A key may have one in each of its buckets.
    pub pointers: usize,
    /// Values in buffers.
    pub buffered: usize,
    /// Value buffers in use, of each type: those of type k are 2^k blocks of 256 bytes.
    pub buffers: Vec<usize>,
    /// Segments that are divided into value buffers.
    pub value_segments: usize,
}

impl<P: HashCodec, M: Medium> Table<P, M> {
    /// Looks at every bucket.
    pub(crate) fn multi_stats(&self) -> PeaMultiStats {
        let (mut pointers, mut buffered) = (0, 0);
        self.each_segment(|_, entry| {
            for bucket in self.segments.all(entry.segment()) {
                let is_pointer = bucket.items(self.marking()).filter(|item| item.is_pointer);
                is_pointer.for_each(|item| {
                    pointers += 1;
                    let pointer = Pointer(item.value_word);
                    buffered += self.values().count(pointer, || true);
                });
            }
        });
        for chained in self.all_chained().filter(|chained| chained.is_pointer) {
            pointers += 1;
            buffered += self.values().count(Pointer(chained.value_word), || true);
        }
        let (value_segments, buffers) = self.values().stats();
        let mut table = self.stats();
        let in_slots = (table.len + pointers).saturating_sub(buffered + table.chained);
        table.load_factor = in_slots as f64 / table.slots as f64;
        PeaMultiStats { table, pointers, buffered, buffers, value_segments }
    }
}
