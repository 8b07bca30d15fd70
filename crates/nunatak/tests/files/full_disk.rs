//! Shared code of tests of full disks.

use nunatak::{Error, FileError};

/// Stores 0, 1 and so on until the disk is full. Returns how many were stored.
pub(crate) fn fill(mut store: impl FnMut(u64) -> Result<(), Error>) -> u64 {
    let mut stored = 0;
    let refused = loop {
        match store(stored) {
            Ok(()) => stored += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, Error::File(FileError::Full));
    stored
}
