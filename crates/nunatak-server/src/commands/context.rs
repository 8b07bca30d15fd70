//! What a command sees: its connection, the keys, the reply.

use super::pending::Pending;
use crate::ages::Ages;
use crate::protocol::reply::Reply;
use crate::pubsub::mailbox::Wakes;
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::WorkerStats;
use crate::store::draft::Finished;
use crate::store::hidden::{Hides, root_of};
use crate::store::record::{Kind, Record};
use crate::store::root::Root;
use crate::store::space::{Change, Space};
use crate::store::stripes::Stripes;
use crate::timing::Timing;
use std::borrow::Cow;

/// Why a command failed: the text of the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fail(pub(crate) Cow<'static, str>);

/// What a command returns. It has written its reply, unless it failed.
pub(crate) type Done = Result<(), Fail>;

impl Fail {
    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self(text.into())
    }
}

impl From<Hides> for Fail {
    fn from(_: Hides) -> Self {
        Self(Cow::Borrowed("ERR the server keeps this key for itself"))
    }
}

impl From<nunatak::Error> for Fail {
    fn from(error: nunatak::Error) -> Self {
        Self(format!("OOM the map refused the change: {error}").into())
    }
}

/// Makes a failure of a text that is known beforehand.
macro_rules! fail {
    ($text:literal) => {
        Err(crate::commands::context::Fail(std::borrow::Cow::Borrowed($text)))
    };
}
pub(crate) use fail;

pub(crate) const SYNTAX: Fail = Fail(Cow::Borrowed("ERR syntax error"));
pub(crate) const WRONG_TYPE: Fail =
    Fail(Cow::Borrowed("WRONGTYPE Operation against a key holding the wrong kind of value"));
pub(crate) const NOT_INTEGER: Fail =
    Fail(Cow::Borrowed("ERR value is not an integer or out of range"));
pub(crate) const NOT_FLOAT: Fail = Fail(Cow::Borrowed("ERR value is not a valid float"));

/// Runs `f` on the bytes of a record, as a transaction will have it.
#[inline(always)]
pub(super) fn raw<R>(
    shared: &Shared,
    pending: Option<&Pending>,
    db: usize,
    key: &[u8],
    f: impl FnOnce(Option<&[u8]>) -> R,
) -> R {
    match pending.and_then(|pending| pending.get(db, key)) {
        Some(bytes) => f(bytes),
        None => shared.store.space(db).get(key, f),
    }
}

/// The context of a command.
#[derive(Debug)]
pub(crate) struct Context<'c> {
    pub(crate) shared: &'c Shared,
    pub(crate) session: &'c mut Session,
    pub(crate) reply: Reply<'c>,
    /// Where records are put together.
    pub(crate) scratch: &'c mut Vec<u8>,
    /// Milliseconds since 1970.
    pub(crate) now: u64,
    /// Keys that expire up to then have expired: `now`, and 0 for the commands of a primary, which removes such
    /// keys itself.
    pub(crate) as_of: u64,
    /// Whether the command has changed a key.
    pub(crate) is_changed: bool,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Where the reply of `EXEC` begins, while a transaction runs.
    pub(crate) exec: Option<usize>,
    /// What a transaction has changed in files.
    pub(crate) pending: Option<Pending>,
    pub(crate) stats: &'c WorkerStats,
    /// Where uses of keys are noted, if they are.
    pub(crate) ages: Option<&'c Ages>,
    pub(crate) timing: &'c mut Timing,
    /// Threads that were sent messages.
    pub(crate) wakes: &'c mut Wakes,
}

impl Context<'_> {
    /// Runs `f` on a key's record, with the reply and the scratch buffer.
    #[inline(always)]
    pub(crate) fn view<R>(
        &mut self,
        key: &[u8],
        f: impl FnOnce(Option<Record<'_>>, &mut Reply<'_>, &mut Vec<u8>) -> R,
    ) -> R {
        let Self { shared, session, reply, scratch, as_of, pending, .. } = self;
        raw(shared, pending.as_ref(), session.db, key, |bytes| {
            f(bytes.and_then(|it| Record::read(it, *as_of)), reply, scratch)
        })
    }

    /// Runs `f` on the bytes of any record, even of one that has expired, or of a segment.
    #[inline(always)]
    pub(super) fn raw<R>(&self, db: usize, key: &[u8], f: impl FnOnce(Option<&[u8]>) -> R) -> R {
        raw(self.shared, self.pending.as_ref(), db, key, f)
    }

    /// Returns the root of the value that a key has, even if it has expired. Fails if the key is hidden.
    #[inline(always)]
    pub(super) fn root(&self, db: usize, key: &[u8]) -> Result<Option<Root>, Fail> {
        match self.shared.store.may_have_segments(db) {
            true => Ok(self.raw(db, key, root_of)?),
            false => Ok(None),
        }
    }

    /// As [`view`](Self::view), for a command that reads: counts hits and misses.
    #[inline(always)]
    pub(crate) fn look<R>(
        &mut self,
        key: &[u8],
        f: impl FnOnce(Option<Record<'_>>, &mut Reply<'_>) -> R,
    ) -> R {
        let (is_hit, result) =
            self.view(key, |record, reply, _| (record.is_some(), f(record, reply)));
        if is_hit {
            self.note_use(self.session.db, key);
        }
        self.hits += u64::from(is_hit);
        self.misses += u64::from(!is_hit);
        result
    }

    /// As [`look`](Self::look), for a record of one type.
    #[inline(always)]
    pub(crate) fn look_at<R>(
        &mut self,
        key: &[u8],
        kind: Kind,
        f: impl FnOnce(Option<Record<'_>>, &mut Reply<'_>) -> R,
    ) -> Result<R, Fail> {
        self.look(key, |record, reply| match record {
            Some(record) if record.kind != kind => Err(WRONG_TYPE),
            record => Ok(f(record, reply)),
        })
    }

    /// Returns the type and the expiry of a key.
    pub(crate) fn head(&mut self, key: &[u8]) -> Option<(Kind, Option<u64>)> {
        self.view(key, |record, _, _| record.map(|record| (record.kind, record.expiry)))
    }

    pub(crate) fn exists(&mut self, key: &[u8]) -> bool {
        self.head(key).is_some()
    }

    /// As [`exists`](Self::exists), in any database.
    pub(crate) fn exists_in(&mut self, db: usize, key: &[u8]) -> bool {
        let own = std::mem::replace(&mut self.session.db, db);
        let exists = self.exists(key);
        self.session.db = own;
        exists
    }

    /// Stores a value. One that has expired already is removed.
    #[inline(always)]
    pub(crate) fn put(
        &mut self,
        key: &[u8],
        kind: Kind,
        expiry: Option<u64>,
        payload: &[u8],
    ) -> Done {
        if expiry.is_some_and(|expiry| expiry <= self.as_of) {
            self.delete(key)?;
            return Ok(());
        }
        Record::begin(self.scratch, kind, expiry);
        self.scratch.extend_from_slice(payload);
        self.put_scratch(key)
    }

    /// Stores the record that the scratch buffer has.
    #[inline(always)]
    pub(crate) fn put_scratch(&mut self, key: &[u8]) -> Done {
        self.put_scratch_in(self.session.db, key)
    }

    /// As [`put_scratch`](Self::put_scratch), in any database.
    #[inline(always)]
    pub(crate) fn put_scratch_in(&mut self, db: usize, key: &[u8]) -> Done {
        let store = &self.shared.store;
        let replaced = self.root(db, key)?;
        if let Some(replaced) = replaced {
            let record = std::mem::take(self.scratch);
            let done = self.replace(db, &[(key, Some(&record))], &[replaced]);
            *self.scratch = record;
            return done;
        }
        if Record::may_expire(self.scratch) {
            store.note_expiring(db);
        }
        match &mut self.pending {
            None => drop(store.space(db).put(key, self.scratch)?),
            Some(pending) => pending.change(db, (key, Some(self.scratch))),
        }
        self.note_use(db, key);
        self.touch(db, key);
        Ok(())
    }

    /// Changes several keys, whose values have these roots. Segments go that no key names any more.
    fn replace(&mut self, db: usize, changes: &[Change<'_>], roots: &[Root]) -> Done {
        let store = &self.shared.store;
        let records = || changes.iter().filter_map(|(_, record)| *record);
        if records().any(Record::may_expire) {
            store.note_expiring(db);
        }
        let goes = |root: &&Root| {
            records().all(|record| Record::root_of(record).is_none_or(|kept| kept.id != root.id))
        };
        let gone = roots.iter().filter(goes);
        match &mut self.pending {
            None => {
                if !roots.is_empty() {
                    let of = |key| Stripes::of(store.stripes.hash(db, key));
                    changes.iter().for_each(|(key, _)| store.stripes.escalate(of(key)));
                }
                store.space(db).change_together(changes)?;
                gone.for_each(|root| store.drop_segments(db, root));
            }
            Some(pending) => {
                changes.iter().for_each(|&change| pending.change(db, change));
                gone.for_each(|&root| pending.drop_segments(db, root));
            }
        }
        for (key, record) in changes {
            if record.is_some() {
                self.note_use(db, key);
            }
            self.touch(db, key);
        }
        Ok(())
    }

    /// Stores a set or a hash.
    pub(super) fn put_finished(&mut self, db: usize, key: &[u8], finished: &Finished) -> Done {
        let store = &self.shared.store;
        let replaced = if finished.replaces { self.root(db, key)? } else { None };
        if finished.record.as_deref().is_some_and(Record::may_expire) {
            store.note_expiring(db);
        }
        match &mut self.pending {
            None => store.put_value(db, key, finished, replaced)?,
            Some(pending) => {
                store.note_segments(db, finished);
                for (key, record) in &finished.segments {
                    pending.change(db, (key, record.as_deref()));
                }
                if let Some(record) = &finished.record {
                    pending.change(db, (key, Some(record)));
                }
                pending.grow(db, finished.growth);
                replaced.into_iter().for_each(|root| pending.drop_segments(db, root));
            }
        }
        self.note_use(db, key);
        self.touch(db, key);
        Ok(())
    }

    /// Notes that a key is used.
    #[inline(always)]
    fn note_use(&self, db: usize, key: &[u8]) {
        if let Some(ages) = self.ages {
            ages.note(self.shared.store.stripes.hash(db, key), self.now);
        }
    }

    /// Changes several keys: see [`Space::change_together`].
    pub(crate) fn change_together(&mut self, changes: &[Change<'_>]) -> Done {
        let db = self.session.db;
        let mut roots = Vec::new();
        for (key, _) in changes {
            roots.extend(self.root(db, key)?);
        }
        self.replace(db, changes, &roots)
    }

    /// Removes a key, and returns whether it was there.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<bool, Fail> {
        let (is_there, db) = (self.exists(key), self.session.db);
        // A key that is hidden stays.
        let Ok(root) = self.root(db, key) else { return Ok(false) };
        let is_removed = match &mut self.pending {
            None => self.shared.store.delete(db, key)?,
            Some(pending) => {
                pending.change(db, (key, None));
                root.into_iter().for_each(|root| pending.drop_segments(db, root));
                true
            }
        };
        if is_removed && is_there {
            self.touch(db, key);
        }
        Ok(is_there)
    }

    /// Returns the space of the database, for a command that does not look at single keys. The pending
    /// changes of a transaction are made before.
    pub(crate) fn whole_space(&mut self) -> Result<&'_ Space, Fail> {
        self.write_pending()?;
        Ok(self.shared.store.space(self.session.db))
    }

    /// Makes the pending changes of a transaction.
    pub(crate) fn write_pending(&mut self) -> Done {
        if let Some(pending) = &mut self.pending {
            pending.write(&self.shared.store)?;
        }
        Ok(())
    }

    /// Notes that a key was changed.
    #[inline(always)]
    fn touch(&mut self, db: usize, key: &[u8]) {
        self.is_changed = true;
        let store = &self.shared.store;
        if !store.watches.are_any() {
            return;
        }
        let stripe = Stripes::of(store.stripes.hash(db, key));
        if store.stripes.is_watched(stripe) {
            store.watches.touch(stripe, db, key);
        }
    }
}
