//! The common parts of the tables whose files rest on the order of their stores: Pea Hash,
//! TurboHash, and IcebergHT of byte strings.

use super::chains::Chains;
use super::files::IsPair;
use super::recovery_progress::RecoveryProgress;
use super::undo_log::{Replaced, UndoLog};
use crate::error::{Error, FileError};
use crate::memory::Medium;
use crate::memory::durable::{Paged, Pool};
use crate::seeded::{Bug, seeded};
use crate::sync::{OpPin, Shared};
use crate::table::{ByEntry, ByWord, Change, PairTable};

/// The methods of [`PagedTable`] that return parts, for a table whose fields have these names.
macro_rules! paged_parts {
    () => {
        fn medium(&self) -> &$crate::memory::durable::Paged {
            &self.medium
        }

        fn chains(&self) -> &$crate::table::shared::chains::Chains<$crate::memory::durable::Paged> {
            &self.chains
        }

        fn restoring(&self) -> &$crate::table::shared::recovery_progress::RecoveryProgress {
            &self.restoring
        }

        const WORDS_ARE_KEYS: bool = P::WORDS_ARE_KEYS;

        fn undo_log(
            &self,
        ) -> Result<
            &$crate::table::shared::undo_log::UndoLog<$crate::memory::durable::Paged>,
            $crate::error::Error,
        > {
            self.undo.as_ref().ok_or_else($crate::table::shared::paged::no_undo_log)
        }

        fn enter(&self) -> $crate::sync::OpPin<$crate::sync::Shared> {
            self.cut.enter()
        }

        fn alone<R>(&self, run: impl FnOnce() -> R) -> R {
            let _held = self.exclusive.lock();
            self.cut.alone(run)
        }
    };
}

pub(in crate::table) use paged_parts;

/// A table whose pages are copied before they are changed, unless the medium is ordered.
#[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
pub trait PagedTable: Send + Sync {
    #[doc(hidden)]
    fn medium(&self) -> &Paged;
    #[doc(hidden)]
    fn chains(&self) -> &Chains<Paged>;
    #[doc(hidden)]
    fn restoring(&self) -> &RecoveryProgress;
    /// Whether words are the keys.
    #[doc(hidden)]
    const WORDS_ARE_KEYS: bool;
    #[doc(hidden)]
    fn undo_log(&self) -> Result<&UndoLog<Paged>, Error>;
    /// Announces an operation that changes something, as soon as changes are allowed.
    #[doc(hidden)]
    fn enter(&self) -> OpPin<Shared>;
    /// Runs a function while no other thread changes anything or takes a snapshot.
    #[doc(hidden)]
    fn alone<R>(&self, run: impl FnOnce() -> R) -> R;
    /// Makes everything durable that was acknowledged before.
    #[doc(hidden)]
    fn sync(&self) -> Result<(), Error>;
    /// Checks every slot. Returns the number of pairs.
    #[doc(hidden)]
    fn verify(&self, is_pair: IsPair<'_>) -> Result<usize, Error>;
    /// Stores the data that the next opening of the table needs. No thread changes the table any
    /// more.
    #[doc(hidden)]
    fn close(&self) -> Result<(), Error>;

    #[doc(hidden)]
    fn pool(&self) -> &Pool {
        self.medium().pool()
    }

    /// Returns whether [`has_room`](Self::has_room) must be called before a change.
    #[doc(hidden)]
    #[inline(always)]
    fn is_tight(&self) -> bool {
        self.chains().slots().is_tight() || self.medium().is_tight()
    }

    /// Returns an error if the map is so full that a key might find no room.
    #[doc(hidden)]
    fn has_room(&self) -> Result<(), Error> {
        self.chains().slots().has_room()?;
        // A sync frees the pages that were replaced.
        self.with_room(|| self.medium().has_room(0))
    }

    /// Runs a function that needs room for copies. If there is none, syncs and tries once more.
    #[doc(hidden)]
    fn with_room(&self, run: impl Fn() -> Result<(), Error>) -> Result<(), Error> {
        run().or_else(|_| {
            self.sync()?;
            run()
        })
    }

    /// Returns how many pairs were found since the table was opened.
    #[doc(hidden)]
    fn found(&self) -> usize {
        self.restoring().found()
    }
}

/// The error of a table without a log for batches.
pub(in crate::table) fn no_undo_log() -> Error {
    FileError::OtherKind { what: "kind: its batches are not atomic" }.into()
}

/// Takes back the batch of a log, if it has not ended. Passes on each of its changes, the last one
/// first, and the value word that the key had.
///
/// # Errors
/// If the disk is full. The log keeps the batch.
pub(crate) fn take_back<T: PagedTable + PairTable>(
    table: &T,
    mut each: impl FnMut(&Replaced, Option<u64>),
) -> Result<(), Error> {
    let log = table.undo_log()?;
    for replaced in log.records()? {
        let Replaced { word, before, after } = replaced;
        let change = |_| before.map_or(Change::Remove, Change::To);
        let found = match T::WORDS_ARE_KEYS {
            true => table.apply(word, &ByWord, before, change),
            false => {
                let is_its = |second| [before, after].contains(&Some(second));
                table.apply(word, &ByEntry(is_its), before, change)
            }
        };
        each(&replaced, found);
    }
    table.with_room(|| {
        let _pin = table.enter();
        log.clear()
    })
}

/// Does the same when a table is opened, and counts what it changes.
pub(in crate::table) fn take_back_at_open<T: PagedTable + PairTable>(
    table: &T,
    mut each: impl FnMut(&Replaced, Option<u64>),
) -> Result<(), Error> {
    if seeded(Bug::BatchNotTakenBack) {
        return Ok(());
    }
    if table.pool().was_closed() && !table.undo_log()?.is_empty() {
        return Err(FileError::corrupt("a file that was closed has a batch under way").into());
    }
    take_back(table, |replaced, found| {
        match (found, replaced.before) {
            (Some(_), None) => table.restoring().subtract_one(),
            (None, Some(_)) => table.restoring().add(1),
            _ => {}
        }
        each(replaced, found);
    })
}

/// Panics in a fork of the process that has opened the file. Recovery of a part would change what
/// that process uses.
pub(in crate::table) fn refuse_fork(medium: &impl Medium) {
    assert!(!medium.is_forked(), "a fork must not use the maps in files of its parent");
}

/// Returns an error unless a table that was just made has room for its first changes.
pub(in crate::table) fn has_first_room(table: &impl PagedTable) -> Result<(), Error> {
    if !table.medium().is_read_only() {
        table.chains().slots().has_room()?;
        table.medium().has_room(0)?;
    }
    Ok(())
}
