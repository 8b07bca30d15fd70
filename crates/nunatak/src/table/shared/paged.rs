//! What tables in files have in common that rest on the order of their stores: Pea Hash and
//! TurboHash.

use super::chains::Chains;
use super::files::IsPair;
use super::recovery_progress::RecoveryProgress;
use crate::error::Error;
use crate::memory::Medium;
use crate::memory::durable::{Paged, Pool};

/// A table whose pages are copied before they are changed, unless the medium has an order.
#[allow(private_interfaces, reason = "the trait is sealed: tables are internal")]
pub trait PagedTable: Send + Sync {
    #[doc(hidden)]
    fn medium(&self) -> &Paged;
    #[doc(hidden)]
    fn chains(&self) -> &Chains<Paged>;
    #[doc(hidden)]
    fn restoring(&self) -> &RecoveryProgress;
    /// All that was acknowledged before is durable after it.
    #[doc(hidden)]
    fn sync(&self) -> Result<(), Error>;
    /// Looks at every slot: how many pairs there are.
    #[doc(hidden)]
    fn verify(&self, is_pair: IsPair<'_>) -> Result<usize, Error>;
    /// Says what the next one who opens the table wants to know, since nobody changes it
    /// any more.
    #[doc(hidden)]
    fn close(&self) -> Result<(), Error>;

    #[doc(hidden)]
    fn pool(&self) -> &Pool {
        self.medium().pool()
    }

    /// Whether it has to be asked whether there is room.
    #[doc(hidden)]
    #[inline(always)]
    fn is_tight(&self) -> bool {
        self.chains().slots().is_tight() || self.medium().is_tight()
    }

    /// An error if the map is so full that a key might find no room.
    #[doc(hidden)]
    fn has_room(&self) -> Result<(), Error> {
        self.chains().slots().has_room()?;
        // What was replaced is free after a sync.
        self.with_room(|| self.medium().has_room(0))
    }

    /// Does something that needs room for copies, after a sync if there is none.
    #[doc(hidden)]
    fn with_room(&self, run: impl Fn() -> Result<(), Error>) -> Result<(), Error> {
        run().or_else(|_| {
            self.sync()?;
            run()
        })
    }

    /// How many pairs were found since the table was opened.
    #[doc(hidden)]
    fn found(&self) -> usize {
        self.restoring().found()
    }
}

/// Begins to open the table that a medium holds: trims the file. Returns whether the file was
/// closed.
pub(in crate::table) fn begin_to_open(medium: &Paged) -> Result<bool, Error> {
    let was_closed = medium.pool().was_closed();
    if medium.pool().trim()? {
        // What was cut off must not be there when the file grows again.
        medium.barrier()?;
    }
    Ok(was_closed)
}

/// Whether there is room for what a table that was just made or opened needs first.
pub(in crate::table) fn has_first_room(table: &impl PagedTable) -> Result<(), Error> {
    if !table.medium().is_read_only() {
        table.chains().slots().has_room()?;
        table.medium().has_room(0)?;
    }
    Ok(())
}
