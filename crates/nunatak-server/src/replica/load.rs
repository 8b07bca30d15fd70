//! A full synchronisation: all keys of this server are removed, and those of the primary's file stored.

use super::link::Fault;
use super::source::Source;
use super::{Replica, Stage};
use crate::commands::Locks;
use crate::shared::Shared;
use crate::store::draft::Draft;
use crate::store::rdb::file::{Entry, FileError, RdbFile, shown};
use crate::store::record::{Kind, Record};
use crate::store::stripes::Stripes;
use nunatak::Error;
use std::io::{BufRead, ErrorKind, Read};
use std::sync::Arc;

/// How many keys, and how many bytes of values, are stored until it is looked at how far the transfer and the
/// log are.
const STEP: usize = 1024;
const STEP_BYTES: usize = 1 << 20;

/// How the primary sends its file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    /// With its length in front.
    Length(u64),
    /// With these bytes behind it.
    Mark(Vec<u8>),
}

impl Transfer {
    /// Parses the line in front of the file.
    pub(super) fn parse(line: &str) -> Result<Self, Fault> {
        let wrong =
            || Fault::lost(format!("the primary announces no file: {}", line.escape_default()));
        let text = line.strip_prefix('$').ok_or_else(wrong)?;
        match text.strip_prefix("EOF:") {
            Some(mark) if mark.len() == 40 => Ok(Self::Mark(mark.into())),
            Some(_) => Err(wrong()),
            None => text.parse().map(Self::Length).map_err(|_| wrong()),
        }
    }
}

impl From<FileError> for Fault {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Unsupported(what) => Self::Halted(what),
            FileError::Io(error) if error.kind() == ErrorKind::TimedOut => error.into(),
            other => Self::lost(other),
        }
    }
}

/// Removes all keys, under all locks.
fn flush(shared: &Shared, generation: u64) -> Result<(), Fault> {
    let all: Vec<u32> = Stripes::all().collect();
    let store = &shared.store;
    let mut locks = Locks::take(&store.stripes, &all, true);
    if !shared.replica.is_current(generation) {
        return Err(Fault::Over);
    }
    shared.replica.change(generation, &shared.settings, |_, is_loading| *is_loading = true);
    store.watches.touch_all(|_| true);
    locks.is_changed = true;
    (0..store.spaces().len()).try_for_each(|db| store.clear(db)).map_err(Fault::refused)
}

/// Stores the keys of a file, from its first key on.
struct Load<'s> {
    shared: &'s Shared,
    generation: u64,
    record: Vec<u8>,
    count: usize,
    /// Keys and bytes since the last look.
    since: (usize, usize),
}

impl Load<'_> {
    fn store(&mut self, entry: &Entry) -> Result<(), Fault> {
        let (shared, db) = (self.shared, entry.db);
        let store = &shared.store;
        let databases = store.spaces().len();
        if db >= databases {
            return Err(Fault::Halted(format!(
                "key {} is in database {db}, and this server has {databases}",
                shown(&entry.key)
            )));
        }
        if entry.expiry.is_some() {
            store.note_expiring(db);
        }
        let stripe = Stripes::of(store.stripes.hash(db, &entry.key));
        store.stripes.lock(stripe, false);
        let stored = match shared.replica.is_current(self.generation) {
            true => self.put(entry).map_err(Fault::refused),
            false => Err(Fault::Over),
        };
        if store.stripes.is_watched(stripe) {
            store.watches.touch(stripe, db, &entry.key);
        }
        store.stripes.unlock(stripe, true);
        stored
    }

    /// Stores the value of a key, whose lock is held.
    fn put(&mut self, entry: &Entry) -> Result<(), Error> {
        let (store, Entry { db, key, kind, expiry, payload }) = (&self.shared.store, entry);
        if *kind == Kind::String {
            Record::begin(&mut self.record, *kind, *expiry);
            self.record.extend_from_slice(payload);
            return store.space(*db).put(key, &self.record).map(drop);
        }
        let admits = store.admits_segments(*db);
        match Draft::of_payload((*kind, *expiry), payload, admits).finish() {
            // All keys were removed before.
            Some(finished) => store.put_value(*db, key, &finished, None),
            None => Ok(()),
        }
    }

    /// Makes changes durable while they are made.
    fn commit(&self, is_end: bool) -> Result<(), Fault> {
        let (store, syncs) = (&self.shared.store, self.shared.settings.syncs());
        if store.is_behind() || is_end && syncs {
            store.commit().map_err(Fault::refused)?;
        }
        Ok(())
    }

    /// Reads a file. Returns the database of the stream behind it.
    fn run<R: BufRead>(
        &mut self,
        source: R,
        mut note: impl FnMut(&R) -> Result<(), Fault>,
    ) -> Result<usize, Fault> {
        let mut file = RdbFile::open(source)?;
        // Not before: whoever sends something else than a file removes no key.
        flush(self.shared, self.generation)?;
        while let Some(entry) = file.next()? {
            self.store(&entry)?;
            self.count += 1;
            self.since = (self.since.0 + 1, self.since.1 + entry.payload.len());
            if self.since.0 >= STEP || self.since.1 >= STEP_BYTES {
                self.since = (0, 0);
                note(file.source())?;
                self.commit(false)?;
            }
        }
        Ok(file.stream_db().unwrap_or(0))
    }
}

/// Takes over all keys of a primary. Returns how many there are, and the database of its stream.
///
/// If it fails after keys were removed, no key is left: a part of the primary's would look like all of them.
pub(super) fn load(
    shared: &Arc<Shared>,
    source: &mut Source<'_>,
    generation: u64,
    transfer: &Transfer,
) -> Result<(usize, usize), Fault> {
    let replica: &Replica = &shared.replica;
    let settings = &shared.settings;
    let begin = source.used();
    let whole = match transfer {
        Transfer::Length(len) => Some(*len),
        Transfer::Mark(_) => None,
    };
    let note = |used: u64| {
        replica.change(generation, settings, |plan, _| {
            plan.stage = Stage::Sync;
            plan.transfer = Some((used - begin, whole));
        });
        Ok(())
    };
    note(begin)?;
    // A primary counts replicas as lost that are silent.
    source.beats = true;
    let mut load = Load { shared, generation, record: Vec::new(), count: 0, since: (0, 0) };
    let done = match transfer {
        Transfer::Length(len) => {
            let mut part = source.by_ref().take(*len);
            load.run(&mut part, |part| note(begin + (len - part.limit()))).and_then(|db| match part
                .limit()
            {
                0 => Ok(db),
                rest => Err(Fault::lost(format!("{rest} bytes follow the RDB file"))),
            })
        }
        Transfer::Mark(mark) => {
            load.run(&mut *source, |source| note(source.used())).and_then(|db| {
                let mut end = vec![0; mark.len()];
                source.read_exact(&mut end).map_err(Fault::lost)?;
                match end == *mark {
                    true => Ok(db),
                    false => Err(Fault::lost("the RDB file does not end where it should")),
                }
            })
        }
    };
    source.beats = false;
    let done = done.and_then(|db| load.commit(true).map(|()| db));
    let is_loading = replica.is_loading();
    if done.is_err() && is_loading {
        flush(shared, generation)?;
    }
    if is_loading {
        // Who has looked at a key meanwhile has seen it missing.
        shared.store.watches.touch_all(|_| true);
    }
    replica.change(generation, settings, |plan, is_loading| {
        (plan.transfer, *is_loading) = (None, false);
    });
    done.map(|db| (load.count, db))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_announced_by_a_line() {
        let mark = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(Transfer::parse("$17").unwrap(), Transfer::Length(17));
        let parsed = Transfer::parse(&format!("$EOF:{mark}")).unwrap();
        assert_eq!(parsed, Transfer::Mark(mark.into()));
        for line in ["", "17", "$", "$-1", "$EOF:", "$EOF:0", "$99999999999999999999", "-ERR no"] {
            assert!(matches!(Transfer::parse(line), Err(Fault::Lost(_))), "{line}");
        }
    }
}
