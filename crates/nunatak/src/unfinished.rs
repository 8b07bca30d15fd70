//! Files that are not whole yet: their names, and how a name becomes durable.

use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

/// Draws a hidden name beside that of a file: `.NAME.RANDOM.PURPOSE`. Others may make a file of the
/// same name at the same time. `None` if the path has no name.
pub(crate) fn hidden_path(path: &Path, purpose: &str) -> Option<PathBuf> {
    let mut hidden = OsString::from(".");
    hidden.push(path.file_name()?);
    hidden.push(format!(".{:016x}.{purpose}", RandomState::new().hash_one(())));
    Some(path.with_file_name(hidden))
}

/// Makes the name of a file durable, where directories can be opened.
pub(crate) fn sync_name(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    std::fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}
