//! The directory: names the segment of a key, by the highest bits of the key's hash.
//!
//! Invariants
//! 1. Only the holder of the structure's lock writes entries, or makes another directory the
//!    current one.
//! 2. Directories live as long as the table, one of each depth. Together they are less than twice
//!    the largest. So readers need no announcement. A reader of a directory that is not current any
//!    more notices when it asks again.

use super::geometry::{Entry, MOST_DEPTH, place};
use crate::error::Error;
use crate::sync::{AtomicPtr, AtomicU64, Mutex, MutexGuard, Ordering};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Directory {
    pub(super) depth: u32,
    entries: Box<[AtomicU64]>,
}

impl Directory {
    fn new(depth: u32) -> Result<Self, Error> {
        let count = 1_usize << depth;
        let mut entries = Vec::new();
        let bytes = count * size_of::<AtomicU64>();
        entries.try_reserve_exact(count).map_err(|_| Error::OutOfMemory { bytes })?;
        entries.extend((0..count).map(|_| AtomicU64::new(0)));
        Ok(Self { depth, entries: entries.into() })
    }

    pub(super) fn entry(&self, place: usize) -> Entry {
        // Acquire: pairs with the release of the thread that published the segment.
        Entry(self.entries[place].load(Ordering::Acquire))
    }

    /// Stores an entry in all places of its segment: the places that agree with `hash` in as many
    /// of the highest bits as the entry's depth.
    pub(super) fn publish(&self, hash: u64, entry: Entry) {
        let shift = self.depth - entry.depth();
        let first = place(hash, self.depth) >> shift << shift;
        for word in &self.entries[first..first + (1 << shift)] {
            // Release: the segment holds all of its keys.
            word.store(entry.0, Ordering::Release);
        }
    }
}

/// The result of a look into the directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'t> {
    directory: &'t Directory,
    word: &'t AtomicU64,
    pub(super) entry: Entry,
}

#[derive(Debug)]
pub(super) struct Directories {
    current: AtomicPtr<Directory>,
    /// The structure's lock: the directories by depth. `Arc`, not `Box`: readers use the current
    /// directory by its address, and moving a box claims that no other reference exists.
    all: Mutex<Vec<Option<Arc<Directory>>>>,
}

/// The right to change entries, and the current directory.
pub(super) struct Structure<'t> {
    all: MutexGuard<'t, Vec<Option<Arc<Directory>>>>,
    directories: &'t Directories,
}

impl Directories {
    pub(super) fn new(depth: u32) -> Result<Self, Error> {
        debug_assert!((1..=MOST_DEPTH).contains(&depth));
        let first = Arc::new(Directory::new(depth)?);
        let current = AtomicPtr::new(Arc::as_ptr(&first).cast_mut());
        let mut all: Vec<_> = (0..=MOST_DEPTH).map(|_| None).collect();
        all[depth as usize] = Some(first);
        Ok(Self { current, all: Mutex::new(all) })
    }

    #[inline(always)]
    pub(super) fn current(&self) -> &Directory {
        // Acquire: pairs with the release of the thread that filled the directory.
        // SAFETY: directories live as long as the table (invariant 2).
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    #[inline(always)]
    pub(super) fn find(&self, hash: u64) -> Found<'_> {
        let directory = self.current();
        let word = &directory.entries[place(hash, directory.depth)];
        // Acquire: pairs with the release of the thread that published the segment.
        Found { directory, word, entry: Entry(word.load(Ordering::Acquire)) }
    }

    /// Returns whether a key's entry is unchanged. Earlier loads must be ordered before, by an
    /// acquire.
    #[inline(always)]
    pub(super) fn is_still(&self, found: Found<'_>) -> bool {
        // Relaxed: a thread that acts on a newer entry releases its own stores.
        core::ptr::eq(self.current.load(Ordering::Relaxed), found.directory)
            && found.word.load(Ordering::Relaxed) == found.entry.0
    }

    pub(super) fn change(&self) -> Structure<'_> {
        Structure { all: self.all.lock(), directories: self }
    }
}

impl Structure<'_> {
    pub(super) fn current(&self) -> &Directory {
        self.directories.current()
    }

    /// Makes the directory deeper or shallower.
    pub(super) fn set_depth(&mut self, depth: u32) -> Result<(), Error> {
        let before = self.directories.current();
        if depth == before.depth {
            return Ok(());
        }
        if depth > MOST_DEPTH {
            return Err(Error::CapacityOverflow);
        }
        let slot = &mut self.all[depth as usize];
        if slot.is_none() {
            *slot = Some(Arc::new(Directory::new(depth)?));
        }
        let Some(next) = slot else { return Ok(()) };
        for (place, word) in next.entries.iter().enumerate() {
            let of_before = match depth > before.depth {
                true => place >> (depth - before.depth),
                false => place << (before.depth - depth),
            };
            // Release: a reader may know this directory from an earlier time when it was current.
            // It may load this entry before the pointer, and then find the directory current again.
            word.store(before.entry(of_before).0, Ordering::Release);
        }
        // Release: publishes the entries, too.
        self.directories.current.store(Arc::as_ptr(next).cast_mut(), Ordering::Release);
        Ok(())
    }
}
