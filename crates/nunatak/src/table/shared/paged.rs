//! The common parts of the tables whose files rest on the order of their stores: Pea Hash and
//! TurboHash.

use super::chains::Chains;
use super::files::IsPair;
use super::recovery_progress::RecoveryProgress;
use crate::error::Error;
use crate::memory::Medium;
use crate::memory::durable::{Paged, Pool};

/// A table whose pages are copied before they are changed, unless the medium is ordered.
#[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
pub trait PagedTable: Send + Sync {
    #[doc(hidden)]
    fn medium(&self) -> &Paged;
    #[doc(hidden)]
    fn chains(&self) -> &Chains<Paged>;
    #[doc(hidden)]
    fn restoring(&self) -> &RecoveryProgress;
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
