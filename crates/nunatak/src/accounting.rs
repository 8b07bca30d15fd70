//! Counts the cache lines, and the blocks of 256 bytes, that operations touch: the quantity by
//! which the papers argue about I/O, the same on every machine.
//!
//! The feature `accounting` slows every operation down many times.

use crate::memory::touched;

/// How many lines of a table an operation has read or written, each counted once.
///
/// ```
/// use nunatak::DlhtMap;
/// use nunatak::accounting::touched;
/// let map: DlhtMap<u64, u64> = DlhtMap::with_capacity(1000);
/// assert_eq!(touched(|| drop(map.get(&1))).lines, 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Touched {
    /// Lines of 64 bytes.
    pub lines: usize,
    /// The durable lines among them.
    pub durable_lines: usize,
    /// Durable blocks of 256 bytes: the unit of some persistent memories.
    pub durable_blocks: usize,
}

/// Returns what an operation touches in this thread.
///
/// ```
/// use nunatak::IcebergMap;
/// use nunatak::accounting::touched;
/// let map: IcebergMap<u64, u64> = IcebergMap::with_capacity(1000);
/// map.insert(1, 10);
/// assert_eq!(touched(|| drop(map.get(&1))).lines, 2, "of fingerprints, and of the pair");
/// ```
pub fn touched(operation: impl FnOnce()) -> Touched {
    let places = touched::places_of(operation);
    let durable = || places.iter().filter(|(_, is_durable)| *is_durable);
    let blocks: std::collections::BTreeSet<usize> = durable().map(|(line, _)| line / 4).collect();
    Touched { lines: places.len(), durable_lines: durable().count(), durable_blocks: blocks.len() }
}
