//! What every table in a file reports when it is opened.

/// What opening a durable map has found and done.
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
    /// Whether the file was closed when it was open last. If not, the process or the
    /// machine has ended before.
    pub was_closed: bool,
    /// Slots that were read.
    pub slots: usize,
    /// Keys that were found.
    pub items: usize,
    /// Keys that a resize had yet to move, and that were moved now.
    pub moved: usize,
    /// Copies of keys that were dropped.
    pub dropped: usize,
}
