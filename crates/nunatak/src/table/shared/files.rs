//! Opening and checking tables in files, whatever their design.

use crate::error::{Error, FileError};
use crate::table::{ByEntry, PairTable};

/// The findings and repairs of the opening of a durable map.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// use nunatak::durable::IcebergMap;
/// let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
/// map.insert(1, 10)?;
/// map.close()?;
/// let map: IcebergMap<u64, u64> = IcebergMap::open(&path)?;
/// assert!(map.recovery().was_closed);
/// assert_eq!((map.recovery().items, map.recovery().moved), (1, 0));
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Recovery {
    /// Whether the file was closed after its last use. If not, the process or the machine ended
    /// before.
    pub was_closed: bool,
    /// Whether the machine ended before, and not only the process: what was changed after the last
    /// sync is lost, except in an [`IcebergMap`](crate::durable::IcebergMap). Also for a copy of a file
    /// that was open, and after a failed sync.
    pub was_cut: bool,
    /// The slots that were read.
    pub slots: usize,
    /// The keys that were found.
    pub items: usize,
    /// The keys that a resize had left to move, and that were moved now.
    pub moved: usize,
    /// The copies of keys that were dropped.
    pub dropped: usize,
}

/// Whether the words of a pair are valid for the types of key and value.
pub(in crate::table) type IsPair<'f> = &'f (dyn Fn(u64, u64) -> bool + Sync);

pub(in crate::table) const NO_PAIR: &str = "a pair is of no key or value of these types";

/// Returns an error that says what is wrong, unless a condition holds.
pub(in crate::table) fn ensure(condition: bool, what: &'static str) -> Result<(), Error> {
    if condition { Ok(()) } else { Err(FileError::corrupt(what).into()) }
}

/// Returns an error unless a pair is valid, and a lookup finds it with its value.
pub(in crate::table) fn verify_pair(
    table: &impl PairTable,
    (word, value_word): (u64, u64),
    is_pair: IsPair<'_>,
) -> Result<(), Error> {
    ensure(is_pair(word, value_word), NO_PAIR)?;
    // Looks for this very pair: if the word is a hash, other pairs may have the same word.
    let found = table.find(word, &ByEntry(|other| other == value_word));
    ensure(found.is_some(), "a pair is not found where it is")
}
