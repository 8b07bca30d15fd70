//! The file with the users: a line for each.

use super::user::{User, join_selectors};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Users by their names.
pub(crate) type Users = BTreeMap<Arc<[u8]>, Arc<User>>;

/// Makes a user of its name and rules. `user`: one without rules.
pub(crate) fn define(mut user: User, rules: &[&[u8]]) -> Result<User, String> {
    let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    let rules = join_selectors(rules.iter().copied()).map_err(|begin| {
        format!("Unmatched parenthesis in selector starting at '{}'", shown(begin))
    })?;
    for rule in rules {
        user.apply(&rule).map_err(|error| format!("rule '{}': {error}", shown(&rule)))?;
    }
    Ok(user)
}

/// Divides a line into words.
pub(crate) fn words(line: &[u8]) -> Vec<&[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect()
}

/// Reads all users of a text, each made of `fresh`. Fails with all errors and their lines.
pub(crate) fn parse(
    path: &Path,
    text: &[u8],
    mut fresh: impl FnMut(&[u8]) -> User,
) -> Result<Users, String> {
    let (mut users, mut errors) = (Users::new(), Vec::new());
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let words = words(line);
        let done = match &words[..] {
            [] => continue,
            [first, ..] if first.starts_with(b"#") => continue,
            [b"user", name, rules @ ..] => define(fresh(name), rules).and_then(|user| match users
                .insert(Arc::clone(&user.name), Arc::new(user))
            {
                None => Ok(()),
                Some(_) => Err(format!("user '{}' is there twice", String::from_utf8_lossy(name))),
            }),
            _ => Err("a line begins with 'user' and a name".into()),
        };
        if let Err(error) = done {
            errors.push(format!("{}:{}: {error}", path.display(), number + 1));
        }
    }
    if errors.is_empty() { Ok(users) } else { Err(errors.join(". ")) }
}

/// Writes all users to another file, which then takes the place of this one.
pub(crate) fn write(path: &Path, users: &Users) -> io::Result<()> {
    let mut next = path.as_os_str().to_owned();
    next.push(".next");
    let next = PathBuf::from(next);
    let mut text = Vec::new();
    for user in users.values() {
        text.extend(user.line());
        text.push(b'\n');
    }
    let written = create(&next).and_then(|mut file| {
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&next, path)
    });
    if written.is_err() {
        // What is left of it is of no use. It may not exist.
        let _ = fs::remove_file(&next);
        return written;
    }
    // On Linux a rename survives a power cut when its directory was synced.
    #[cfg(unix)]
    {
        let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

/// Creates a file that only its owner reads: it has the hashes of passwords.
fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
