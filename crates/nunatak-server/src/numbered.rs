//! Files beside another one, whose names are its name, a suffix and a number: segments of a log, databases.

use std::path::{Path, PathBuf};

/// Returns the path of a number.
pub(crate) fn path_of(path: &Path, suffix: &str, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("{suffix}{number}"));
    name.into()
}

/// Returns the folder of a file.
#[cfg(target_os = "linux")]
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Returns the numbers of the files that are there, in order.
#[cfg(target_os = "linux")]
pub(crate) fn numbers_of(path: &Path, suffix: &str) -> std::io::Result<Vec<u64>> {
    let mut prefix = path.file_name().unwrap_or_default().to_owned();
    prefix.push(suffix);
    let mut numbers = Vec::new();
    for entry in folder_of(path).read_dir()? {
        let name = entry?.file_name();
        let rest = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
        let number = rest.and_then(|rest| std::str::from_utf8(rest).ok()?.parse().ok());
        // A number has one name: `01` is none.
        numbers.extend(number.filter(|&number| path_of(path, suffix, number).ends_with(&name)));
    }
    numbers.sort_unstable();
    Ok(numbers)
}
