//! Which cache lines, and which blocks of 256 bytes, operations touch: what the papers
//! argue about where they argue about I/O, whatever the machine.
//!
//! With the feature `accounting`, which slows every operation down many times.

use crate::memory::touched;

/// How many lines of a table an operation has touched, read or written, each once.
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
    /// Those of them that are durable.
    pub durable_lines: usize,
    /// Durable blocks of 256 bytes: the unit of some persistent memories.
    pub durable_blocks: usize,
}

/// What an operation touches in this thread.
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
