//! The store: databases, the locks of their keys, and who watches them.

#[cfg(target_os = "linux")]
pub(crate) mod file;
pub(crate) mod rdb;
pub(crate) mod record;
pub(crate) mod space;
pub(crate) mod stripes;
pub(crate) mod watch;

use nunatak::Error;
use space::Space;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stripes::Stripes;
use watch::Watches;

/// All keys of a server.
#[derive(Debug)]
pub(crate) struct Store {
    spaces: Vec<Space>,
    pub(crate) stripes: Stripes,
    pub(crate) watches: Watches,
    /// Whether a key with a time to live was ever stored, by database.
    has_expiring: Vec<AtomicBool>,
    /// Keys that were found expired and removed.
    pub(crate) expired: AtomicU64,
}

impl Store {
    pub(crate) fn new(spaces: Vec<Space>, seed: u64) -> Self {
        Self {
            has_expiring: spaces.iter().map(|space| AtomicBool::new(space.len() > 0)).collect(),
            spaces,
            stripes: Stripes::new(seed),
            watches: Watches::default(),
            expired: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn space(&self, db: usize) -> &Space {
        &self.spaces[db]
    }

    pub(crate) fn spaces(&self) -> &[Space] {
        &self.spaces
    }

    /// Notes that a key of a database expires.
    pub(crate) fn note_expiring(&self, db: usize) {
        // Relaxed: a hint, which is true for ever. It is read first, so that the line is not written.
        if !self.has_expiring[db].load(Ordering::Relaxed) {
            self.has_expiring[db].store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn may_expire(&self, db: usize) -> bool {
        // Relaxed: who misses it for a moment finds the key at its next round.
        self.has_expiring[db].load(Ordering::Relaxed)
    }

    /// Makes all changes survive a power cut, and a copy of the file have all of them.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.spaces.iter().try_for_each(Space::sync)
    }

    /// Closes all files.
    #[cfg(target_os = "linux")]
    pub(crate) fn close(self) -> Result<(), file::FileError> {
        self.spaces.into_iter().try_for_each(Space::close)
    }

    /// Makes all changes survive a power cut.
    pub(crate) fn commit(&self) -> Result<(), Error> {
        self.spaces.iter().try_for_each(Space::commit)
    }

    /// Whether changes wait for a log that is slower than they are made.
    pub(crate) fn is_behind(&self) -> bool {
        self.spaces.iter().any(Space::is_behind)
    }

    /// Returns the bytes that all maps take.
    pub(crate) fn memory(&self) -> usize {
        self.spaces.iter().map(|space| space.memory().resident).sum()
    }

    /// Removes a key if `is_victim` holds for its record, under the key's lock.
    pub(crate) fn remove_if(
        &self,
        db: usize,
        key: &[u8],
        is_victim: impl FnOnce(&[u8]) -> bool,
    ) -> Result<bool, Error> {
        let stripe = Stripes::of(self.stripes.hash(db, key));
        self.stripes.lock(stripe, false);
        let space = self.space(db);
        let removed = match space.get(key, |record| record.is_some_and(is_victim)) {
            true => space.delete(key),
            false => Ok(false),
        };
        let is_changed = !matches!(removed, Ok(false));
        if is_changed && self.stripes.is_watched(stripe) {
            self.watches.touch(stripe, db, key);
        }
        self.stripes.unlock(stripe, false, is_changed);
        removed
    }
}
