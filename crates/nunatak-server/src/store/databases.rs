//! The files of several databases: the first has the name that was given, the others that name with `.db` and
//! their number behind it.

use crate::numbered;
use std::path::{Path, PathBuf};

const SUFFIX: &str = ".db";

/// Returns the file of a database.
pub(crate) fn path_of(path: &Path, db: usize) -> PathBuf {
    if db == 0 { path.into() } else { numbered::path_of(path, SUFFIX, db as u64) }
}

/// Returns how many databases there are at least, since so many have files; one if none has.
#[cfg(target_os = "linux")]
pub(crate) fn count(path: &Path) -> std::io::Result<usize> {
    let last = numbered::numbers_of(path, SUFFIX)?.last().copied();
    Ok(last.map_or(1, |db| (db as usize).saturating_add(1)))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn files_of_databases_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.map");
        assert_eq!((count(&path).unwrap(), path_of(&path, 0)), (1, path.clone()));
        let names =
            ["data.map", "data.map.db2", "data.map.db2.log", "data.map.db007", "data.map.dbx"];
        for name in names.into_iter().chain(["data.map.db", "other.map.db9", "data.map.db0"]) {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(count(&path).unwrap(), 3);
        assert_eq!(path_of(&path, 2), folder.path().join("data.map.db2"));
        assert!(count(Path::new("/no/such/folder/data.map")).is_err());
        assert!(count(Path::new("data.map")).is_ok(), "of this folder");
    }
}
