//! Shared code of tests with files.

use nunatak::{Error, FileError};
use std::path::{Path, PathBuf};

/// A path in a directory that is deleted in the end.
pub(crate) struct Temporary {
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Temporary {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { path: directory.path().join("map"), _directory: directory }
    }

    #[allow(dead_code, reason = "some tests give the whole away")]
    pub(crate) fn path(&self) -> PathBuf {
        self.path.clone()
    }
}

impl AsRef<Path> for Temporary {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

#[allow(dead_code, reason = "some tests expect no errors")]
pub(crate) fn error(file: FileError) -> Error {
    Error::File(file)
}
