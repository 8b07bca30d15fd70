//! Files that are read again when they have changed.

use std::path::Path;
use std::time::SystemTime;

/// When a file was changed, and its length; `None` if it can't be seen.
type Stamp = Option<(Option<SystemTime>, u64)>;

fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok(), metadata.len()))
}

/// What is known of files that belong together.
#[derive(Debug)]
pub(crate) struct Watched<const FILES: usize> {
    /// As they were at the last look.
    seen: [Stamp; FILES],
    /// As they were read.
    read: [Stamp; FILES],
}

impl<const FILES: usize> Watched<FILES> {
    /// The files are about to be read.
    pub(crate) fn new(files: [&Path; FILES]) -> Self {
        let now = files.map(stamp);
        Self { seen: now, read: now }
    }

    /// Whether the files were changed before the last look, and not since: whoever writes them may need some time. A
    /// change is told once.
    pub(crate) fn has_changed(&mut self, files: [&Path; FILES]) -> bool {
        let now = files.map(stamp);
        let is_still = std::mem::replace(&mut self.seen, now) == now;
        let has_changed = is_still && self.read != now;
        if has_changed {
            self.read = now;
        }
        has_changed
    }

    /// The files are as this process has written them.
    pub(crate) fn have_been_written(&mut self, files: [&Path; FILES]) {
        self.read = files.map(stamp);
    }
}
