//! The files of several databases: the first has the name that was given, the others that name with `.db` and
//! their number behind it.

use std::path::{Path, PathBuf};

/// Returns the file of a database.
pub(crate) fn path_of(path: &Path, db: usize) -> PathBuf {
    if db == 0 {
        return path.into();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".db{db}"));
    name.into()
}

/// Returns how many databases there are at least, since so many have files; one if none has.
#[cfg(target_os = "linux")]
pub(crate) fn count(path: &Path) -> std::io::Result<usize> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut prefix = path.file_name().unwrap_or_default().to_owned();
    prefix.push(".db");
    let mut most = 0;
    for entry in folder.read_dir()? {
        let name = entry?.file_name();
        let number = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
        let number = number.and_then(|it| std::str::from_utf8(it).ok()?.parse::<usize>().ok());
        // No other number has this name, such as `01`.
        if let Some(db) = number.filter(|&db| path_of(path, db).ends_with(&name)) {
            most = most.max(db);
        }
    }
    Ok(most + 1)
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
