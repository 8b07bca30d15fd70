//! Shared code of tests with files.

use nunatak::{Error, FileError};
use std::path::PathBuf;

/// A path in a directory that is deleted in the end.
pub(crate) struct Temporary(tempfile::TempDir);

impl Temporary {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("map")
    }
}

#[allow(dead_code, reason = "some tests expect no errors")]
pub(crate) fn error(file: FileError) -> Error {
    Error::File(file)
}
