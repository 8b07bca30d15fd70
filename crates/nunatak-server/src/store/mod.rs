//! The store: databases, the locks of their keys, and who watches them.

pub(crate) mod databases;
pub(crate) mod draft;
#[cfg(target_os = "linux")]
pub(crate) mod file;
pub(crate) mod hidden;
pub(crate) mod rdb;
pub(crate) mod record;
pub(crate) mod root;
pub(crate) mod space;
pub(crate) mod stripes;
pub(crate) mod watch;

use hidden::Hidden;
use nunatak::Error;
use space::Space;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stripes::Stripes;
use watch::Watches;

/// The keys of a database that have a time to live.
#[derive(Debug, Default)]
struct Expiring {
    /// Whether one was ever stored.
    are_any: AtomicBool,
    /// How many there were at the last walk over all keys, and how many milliseconds they had left on average.
    keys: AtomicU64,
    average: AtomicU64,
}

/// All keys of a server.
#[derive(Debug)]
pub(crate) struct Store {
    spaces: Vec<Space>,
    pub(crate) stripes: Stripes,
    pub(crate) watches: Watches,
    /// By database.
    expiring: Vec<Expiring>,
    hidden: Vec<Hidden>,
    /// Keys that were found expired and removed.
    pub(crate) expired: AtomicU64,
}

impl Expiring {
    fn of(space: &Space) -> Self {
        // A file may have some.
        Self { are_any: AtomicBool::new(space.len() > 0), ..Self::default() }
    }
}

impl Store {
    /// Makes a store of these databases. An error comes with its database.
    pub(crate) fn new(spaces: Vec<Space>, seed: u64) -> Result<Self, (usize, Error)> {
        let hidden = |(db, space)| Hidden::open(space).map_err(|error| (db, error));
        Ok(Self {
            expiring: spaces.iter().map(Expiring::of).collect(),
            hidden: spaces.iter().enumerate().map(hidden).collect::<Result<_, _>>()?,
            spaces,
            stripes: Stripes::new(seed),
            watches: Watches::default(),
            expired: AtomicU64::new(0),
        })
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
        let are_any = &self.expiring[db].are_any;
        if !are_any.load(Ordering::Relaxed) {
            are_any.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn may_expire(&self, db: usize) -> bool {
        // Relaxed: who misses it for a moment finds the key at its next round.
        self.expiring[db].are_any.load(Ordering::Relaxed)
    }

    /// Notes what a walk over all keys of a database has found: how many have a time to live, and how many
    /// milliseconds they have left in sum.
    pub(crate) fn note_walk(&self, db: usize, keys: u64, left: u64) {
        // Relaxed: statistics.
        self.expiring[db].keys.store(keys, Ordering::Relaxed);
        self.expiring[db].average.store(left / keys.max(1), Ordering::Relaxed);
    }

    /// Returns how many keys of a database had a time to live at the last walk over all keys, at most as many
    /// as there are now, and how many milliseconds they had left on average.
    pub(crate) fn expiring(&self, db: usize) -> (u64, u64) {
        let Expiring { keys, average, .. } = &self.expiring[db];
        // Relaxed: statistics, which may be of two walks.
        let keys = keys.load(Ordering::Relaxed).min(self.keys(db) as u64);
        (keys, if keys == 0 { 0 } else { average.load(Ordering::Relaxed) })
    }

    /// Makes all changes survive a power cut, and a copy of the file have all of them.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.spaces.iter().try_for_each(Space::sync)
    }

    /// Closes all files. An error comes with its database.
    #[cfg(target_os = "linux")]
    pub(crate) fn close(self) -> Result<(), (usize, file::FileError)> {
        let mut spaces = self.spaces.into_iter().zip(self.hidden).enumerate();
        spaces.try_for_each(|(db, (space, hidden))| {
            if let Err(error) = hidden.close(&space) {
                tell!("the next start looks at all keys of database {db}: {error}");
            }
            space.close().map_err(|error| (db, error))
        })
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
        let removed = match self.space(db).get(key, |record| record.is_some_and(is_victim)) {
            true => self.delete(db, key),
            false => Ok(false),
        };
        let is_changed = !matches!(removed, Ok(false));
        if is_changed && self.stripes.is_watched(stripe) {
            self.watches.touch(stripe, db, key);
        }
        self.stripes.unlock(stripe, is_changed);
        removed
    }
}
