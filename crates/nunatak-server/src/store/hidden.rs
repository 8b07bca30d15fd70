//! Hidden keys: segments of large values, and in a file the mark that there are some. They are no keys of the
//! database's, so they are counted.
//!
//! The mark says how many segments there were when the file was closed last, and as of which sync:
//!
//! ```text
//! | 4 | segments (8) | the last sync when it was written (8) |
//! ```
//!
//! Before a file gets its first segment it gets the mark. A server that opens a file without it has nothing to count.
//! If nothing but the closing came behind it, the number is that of the file. Otherwise, so after a crash, all keys
//! are looked at: segments are counted, and those that no value names are removed.
//!
//! A value's segments change together with its own record. Only those of a value that goes, and those of a new value
//! that no record names yet, are changed by themselves: so a crash leaves segments that nobody names,
//! and never a value that lacks some.

use super::Store;
use super::draft::Finished;
use super::record::{MARK, Record};
use super::root::Root;
use super::space::{Change, Space};
use super::stripes::Stripes;
use nunatak::{Error, FileError};
use parking_lot::{RwLock, RwLockReadGuard};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The key of the mark. Clients that use it, in a file that has segments, are refused.
const MARK_KEY: &[u8] = b"\0nunatak: sets and hashes are in segments";
/// How many syncs the closing of a file makes. If it were another number, all keys would be looked at.
const SYNCS_OF_CLOSING: u64 = 2;
/// A sync that no file reaches.
const NEVER: u64 = u64::MAX;

/// How many segments of a new value are stored at a time.
const AT_A_TIME: usize = 256;

/// What a database knows of its hidden keys.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// Whether there may be segments.
    may_be: AtomicBool,
    /// Whether a value wants segments, and the mark is missing.
    is_wanted: AtomicBool,
    /// Segments, and the mark.
    keys: AtomicUsize,
    /// Whoever changes their number shares it, from before the map changes until they are counted. Whoever counts
    /// keys has it alone.
    changing: RwLock<()>,
}

fn mark(segments: usize, last_sync: u64) -> Vec<u8> {
    let mut record = vec![MARK];
    record.extend_from_slice(&(segments as u64).to_le_bytes());
    record.extend_from_slice(&last_sync.to_le_bytes());
    record
}

/// Returns the number of segments of a mark, if its file was closed by this sync.
fn closed_with(record: &[u8], sync: u64) -> Option<usize> {
    let (segments, last_sync) = record.strip_prefix(&[MARK])?.split_first_chunk()?;
    let last_sync = u64::from_le_bytes(last_sync.try_into().ok()?);
    let segments = usize::try_from(u64::from_le_bytes(*segments)).ok();
    segments.filter(|_| last_sync.checked_add(SYNCS_OF_CLOSING) == Some(sync))
}

/// Passes all keys to `found`.
fn for_each(space: &Space, mut found: impl FnMut(&[u8], &[u8])) {
    let mut part = 0;
    while space.read(|guard| guard.read_part(part, &mut |_, key, record| found(key, record))) {
        part += 1;
    }
}

/// Removes the segments that no value names, and returns how many others there are.
fn sweep(space: &Space) -> Result<usize, Error> {
    let (mut named, mut count, mut unnamed) = (HashSet::new(), 0, Vec::new());
    for_each(space, |_, record| named.extend(Record::root_of(record).map(|root| root.id)));
    for_each(space, |key, record| {
        let is_segment = Record::is_hidden(record) && key != MARK_KEY;
        if is_segment && !Root::id_of(key).is_some_and(|id| named.contains(&id)) {
            unnamed.push(key.to_vec());
        }
        count += usize::from(is_segment);
    });
    for key in &unnamed {
        count -= usize::from(space.delete(key)?);
    }
    Ok(count)
}

impl Hidden {
    /// Reads what a file has when a server begins.
    pub(super) fn open(space: &Space) -> Result<Self, Error> {
        let hidden = Self::default();
        let sync = space.closed_by();
        let found = space.get(MARK_KEY, |record| {
            let record = record.filter(|record| Record::is_hidden(record))?;
            Some(sync.and_then(|sync| closed_with(record, sync)))
        });
        let Some(closed_with) = found else { return Ok(hidden) };
        let segments = match closed_with {
            Some(segments) => segments,
            None => sweep(space)?,
        };
        // Copies that are made from here on have another number. A full disk may refuse the change, and must not keep
        // the file closed: keys have to be removed.
        match space.put(MARK_KEY, &mark(0, NEVER)) {
            Ok(_) | Err(Error::File(FileError::Full)) => {}
            Err(error) => return Err(error),
        }
        let (may_be, keys) = (AtomicBool::new(true), AtomicUsize::new(segments + 1));
        Ok(Self { may_be, keys, ..hidden })
    }

    /// Says how many segments the file has, for the next server.
    pub(super) fn close(&self, space: &Space) -> Result<(), Error> {
        match space.is_in_file() && self.may_be() {
            true => {
                let segments = self.keys().saturating_sub(1);
                space.put(MARK_KEY, &mark(segments, space.last_sync())).map(drop)
            }
            false => Ok(()),
        }
    }

    #[inline(always)]
    pub(super) fn may_be(&self) -> bool {
        // A key has segments only after it was set, which who takes the key's lock later sees. Acquire: the mark of a
        // file is stored before.
        self.may_be.load(Ordering::Acquire)
    }

    pub(super) fn keys(&self) -> usize {
        // Relaxed: a count.
        self.keys.load(Ordering::Relaxed)
    }

    fn change(&self) -> RwLockReadGuard<'_, ()> {
        self.changing.read()
    }

    /// Returns how many keys of the map are not hidden.
    fn others(&self, space: &Space) -> usize {
        let _alone = self.changing.write();
        space.len().saturating_sub(self.keys())
    }

    fn add(&self, growth: i64) {
        // Relaxed: a count.
        self.keys.fetch_add(growth as usize, Ordering::Relaxed);
    }
}

impl Store {
    /// Returns how many keys a database has.
    pub(crate) fn keys(&self, db: usize) -> usize {
        self.hidden[db].others(self.space(db))
    }

    /// Returns how many keys there are in all databases.
    pub(crate) fn all_keys(&self) -> usize {
        (0..self.spaces().len()).map(|db| self.keys(db)).sum()
    }

    /// Whether a database may have segments.
    #[inline(always)]
    pub(crate) fn may_have_segments(&self, db: usize) -> bool {
        self.hidden[db].may_be()
    }

    /// Whether a value may get segments. A file has to have its mark before.
    pub(crate) fn admits_segments(&self, db: usize) -> bool {
        self.may_have_segments(db) || !self.space(db).is_in_file()
    }

    /// Notes what is about to be stored: the database has segments from now on, or should have the mark soon.
    pub(crate) fn note_segments(&self, db: usize, finished: &Finished) {
        let hidden = &self.hidden[db];
        // Relaxed: in a file, which has to have its mark, this sets nothing; in RAM nothing precedes it. The thread that
        // makes marks looks again. They are read first, so that the line is not written.
        if finished.is_new && !hidden.may_be() {
            hidden.may_be.store(true, Ordering::Relaxed);
        }
        if finished.wants_segments && !hidden.is_wanted.load(Ordering::Relaxed) {
            hidden.is_wanted.store(true, Ordering::Relaxed);
        }
    }

    /// Gives files the mark that were wanted to have segments. The caller holds no lock.
    pub(crate) fn make_marks(&self) {
        for (db, hidden) in self.hidden.iter().enumerate() {
            // Relaxed: see `note_segments`.
            if hidden.is_wanted.load(Ordering::Relaxed) {
                hidden.is_wanted.store(false, Ordering::Relaxed);
                let space = self.space(db);
                let stripe = Stripes::of(self.stripes.hash(db, MARK_KEY));
                self.stripes.lock(stripe, false);
                // A client's key of that name stays, and large values are one record.
                let is_free = !hidden.may_be() && space.get(MARK_KEY, |record| record.is_none());
                let _changing = hidden.change();
                if is_free && space.put(MARK_KEY, &mark(0, NEVER)).is_ok() {
                    hidden.add(1);
                    // Release: pairs with `may_be`.
                    hidden.may_be.store(true, Ordering::Release);
                }
                self.stripes.unlock(stripe, false);
            }
        }
    }

    /// Returns the root of the value that a key has, even if it has expired. An error: the key is hidden.
    pub(crate) fn root(&self, db: usize, key: &[u8]) -> Result<Option<Root>, Hides> {
        if !self.may_have_segments(db) {
            return Ok(None);
        }
        self.space(db).get(key, root_of)
    }

    /// Stores a value, in place of one that has this root. The caller holds the lock of the key's stripe.
    pub(crate) fn put_value(
        &self,
        db: usize,
        key: &[u8],
        finished: &Finished,
        replaced: Option<Root>,
    ) -> Result<(), Error> {
        let space = self.space(db);
        self.note_segments(db, finished);
        if finished.segments.is_empty() && replaced.is_none() {
            return match &finished.record {
                Some(record) => space.put(key, record).map(drop),
                None => Ok(()),
            };
        }
        self.stripes.escalate(Stripes::of(self.stripes.hash(db, key)));
        let record = finished.record.as_deref().map(|record| (key, Some(record)));
        if finished.is_new {
            let stored = self.put_segments(db, finished).and_then(|()| match record {
                Some(change) => space.change_together(&[change]),
                None => Ok(()),
            });
            if stored.is_err() {
                // What can't be removed is removed after a restart.
                let keys = finished.segments.iter().map(|(key, _)| &key[..]);
                let _ = self.remove_segments(db, keys);
            }
            stored?;
        } else {
            let segments = finished.segments.iter();
            let segments = segments.map(|(key, record)| (&key[..], record.as_deref()));
            self.change_together(db, &segments.chain(record).collect::<Vec<_>>(), finished.growth)?;
        }
        replaced.iter().for_each(|root| self.drop_segments(db, root));
        Ok(())
    }

    /// Stores segments that no record names yet.
    fn put_segments(&self, db: usize, finished: &Finished) -> Result<(), Error> {
        for segments in finished.segments.chunks(AT_A_TIME) {
            let stored = segments.iter().filter_map(|(key, it)| Some((&key[..], it.as_deref()?)));
            let stored: Vec<_> = stored.collect();
            let _changing = self.hidden[db].change();
            let done = self.space(db).put_many(&stored);
            let there = match done {
                Ok(()) => stored.len(),
                Err(_) => {
                    let is_there = |key| self.space(db).get(key, |record| record.is_some());
                    stored.iter().filter(|(key, _)| is_there(key)).count()
                }
            };
            self.hidden[db].add(there as i64);
            done?;
        }
        Ok(())
    }

    fn remove_segments<'k>(
        &self,
        db: usize,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<(), Error> {
        // One by one: no record names them, so they need not change together.
        for key in keys {
            let _changing = self.hidden[db].change();
            if self.space(db).delete(key)? {
                self.hidden[db].add(-1);
            }
        }
        Ok(())
    }

    /// Removes the segments of a value that is not there any more. The caller holds the lock of its stripe. The
    /// change is made: what can't be removed is removed when a server looks at all keys.
    pub(crate) fn drop_segments(&self, db: usize, root: &Root) {
        let keys: Vec<_> = root.keys().collect();
        if let Err(error) = self.remove_segments(db, keys.iter().map(|key| &key[..])) {
            tell!("segments of a removed value are left: {error}");
        }
    }

    /// Makes changes together that leave so many more segments.
    pub(crate) fn change_together(
        &self,
        db: usize,
        changes: &[Change<'_>],
        growth: i64,
    ) -> Result<(), Error> {
        let hidden = &self.hidden[db];
        let _changing = (growth != 0).then(|| hidden.change());
        self.space(db).change_together(changes)?;
        hidden.add(growth);
        Ok(())
    }

    /// Removes a key, with its segments, and returns whether it was there. The caller holds the lock of its stripe.
    pub(crate) fn delete(&self, db: usize, key: &[u8]) -> Result<bool, Error> {
        match self.root(db, key) {
            Ok(None) => self.space(db).delete(key),
            Err(Hides) => Ok(false),
            Ok(Some(root)) => {
                self.stripes.escalate(Stripes::of(self.stripes.hash(db, key)));
                let is_removed = self.space(db).delete(key)?;
                self.drop_segments(db, &root);
                Ok(is_removed)
            }
        }
    }

    /// Removes all keys of a database. The caller holds all locks.
    pub(crate) fn clear(&self, db: usize) -> Result<(), Error> {
        let hidden = &self.hidden[db];
        let _changing = hidden.change();
        self.space(db).clear()?;
        // Relaxed: the locks order it.
        hidden.may_be.store(false, Ordering::Relaxed);
        hidden.keys.store(0, Ordering::Relaxed);
        Ok(())
    }
}

/// A key is hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hides;

/// Returns the root that the record of a key has. An error: it is hidden.
pub(crate) fn root_of(record: Option<&[u8]>) -> Result<Option<Root>, Hides> {
    match record {
        Some(record) if Record::is_hidden(record) => Err(Hides),
        record => Ok(record.and_then(Record::root_of)),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
