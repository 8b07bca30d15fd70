//! What maps in files have in common while they are open, whatever their table.

use super::maintenance::Maintenance;
use super::options::Durability;
use super::table::FileTable;
use crate::error::{Error, FileError};
use crate::table::iceberg::Recovery;
use core::sync::atomic::{AtomicU64, Ordering};
use parking_lot::Mutex;

/// How many operations of a batch are done between looks at the room that is left.
pub(super) const PORTION: usize = 256;

/// Threads whose changes share a sync.
#[derive(Debug, Default)]
struct Group {
    asked: AtomicU64,
    /// The last number whose change is durable.
    synced: Mutex<u64>,
}

impl Group {
    fn sync(&self, sync: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        // Release: the change is before it. Acquire: whoever syncs has seen all of them.
        let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut synced = self.synced.lock();
        if *synced >= number {
            return Ok(());
        }
        let asked = self.asked.load(Ordering::Acquire);
        sync()?;
        *synced = asked;
        Ok(())
    }
}

/// A batch must fit its results.
pub(super) fn check_batch(requests: usize, results: usize) -> Result<(), Error> {
    match results < requests {
        true => Err(Error::InvalidOption {
            option: "results",
            expected: "at least as long as the batch",
        }),
        false => Ok(()),
    }
}

/// Whether changes may be made.
#[inline(always)]
pub(super) fn admit(table: &impl FileTable) -> Result<(), Error> {
    match table.pool().is_open_to_changes() {
        true => Ok(()),
        false => refusal(table),
    }
}

/// Whether something new may be stored.
#[inline(always)]
pub(super) fn admit_new(table: &impl FileTable) -> Result<(), Error> {
    admit(table)?;
    if table.is_tight() { find_room(table) } else { Ok(()) }
}

#[cold]
fn refusal(table: &impl FileTable) -> Result<(), Error> {
    Err(match table.pool().backing().is_read_only() {
        true => FileError::ReadOnly,
        false => FileError::Poisoned,
    }
    .into())
}

#[cold]
fn find_room(table: &impl FileTable) -> Result<(), Error> {
    table.has_room()
}

/// What a map in a file has besides its table.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) durability: Durability,
    maintenance: Option<Maintenance>,
    group: Group,
    recovery: Recovery,
}

impl Session {
    pub(super) fn new(
        durability: Durability,
        maintenance: Option<Maintenance>,
        recovery: Recovery,
    ) -> Self {
        Self { durability, maintenance, group: Group::default(), recovery }
    }

    /// Returns what an operation came to, when it may be.
    #[inline(always)]
    pub(super) fn acknowledge<T>(&self, table: &impl FileTable, result: T) -> Result<T, Error> {
        if self.durability == Durability::Synced {
            self.group.sync(|| table.sync())?;
        }
        Ok(result)
    }

    /// What was found since the file was opened, or then.
    pub(super) fn recovery(&self, table: &impl FileTable) -> Recovery {
        Recovery { items: self.recovery.items + table.found(), ..self.recovery }
    }

    /// Ends the thread, if there is one.
    pub(super) fn end_maintenance(&mut self) {
        self.maintenance = None;
    }
}
