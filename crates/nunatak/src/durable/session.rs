//! What open maps in files have in common, whatever their table.

use super::answering::Answering;
use super::maintenance::Maintenance;
use super::options::Durability;
use super::table::FileTable;
use crate::error::{Error, FileError};
use crate::table::iceberg::Recovery;
use core::sync::atomic::{AtomicU64, Ordering};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// How many operations of a batch run between two checks of the room that is left.
pub(super) const PORTION: usize = 256;

/// Threads whose changes share a sync. One of them syncs, and the others sleep until it is done; all
/// of them are woken at once, and one of those whose change came too late syncs next. (With a lock
/// around the sync, the thread that gave it up took it again before a sleeper woke, and 64 writers
/// made 1.2 times the changes of 4.)
#[derive(Debug, Default)]
pub(super) struct Group {
    asked: AtomicU64,
    synced: Mutex<Synced>,
    has_ended: Condvar,
}

#[derive(Debug, Default)]
struct Synced {
    /// The number of the last change that is known to be durable.
    last: u64,
    is_syncing: bool,
}

impl Group {
    pub(super) fn sync(&self, sync: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        /// Also a sync that fails or panics ends.
        struct Syncing<'g> {
            group: &'g Group,
            /// The last change that is durable at its end, if it succeeds.
            last: u64,
        }
        impl Drop for Syncing<'_> {
            fn drop(&mut self) {
                let mut synced = self.group.synced.lock();
                synced.is_syncing = false;
                synced.last = synced.last.max(self.last);
                self.group.has_ended.notify_all();
            }
        }
        // Release: the change is before it. Acquire: the thread that syncs has seen all numbered
        // changes.
        let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut synced = self.synced.lock();
        while synced.is_syncing && synced.last < number {
            self.has_ended.wait(&mut synced);
        }
        if synced.last >= number {
            return Ok(());
        }
        synced.is_syncing = true;
        drop(synced);
        let mut syncing = Syncing { group: self, last: 0 };
        let asked = self.asked.load(Ordering::Acquire);
        sync()?;
        syncing.last = asked;
        Ok(())
    }
}

/// Checks that the results of a batch fit.
pub(super) fn check_batch(requests: usize, results: usize) -> Result<(), Error> {
    match results < requests {
        true => Err(Error::InvalidOption {
            option: "results",
            expected: "at least as long as the batch",
        }),
        false => Ok(()),
    }
}

/// Checks that changes may be made.
#[inline(always)]
pub(super) fn admit(table: &impl FileTable) -> Result<(), Error> {
    match table.pool().is_open_to_changes() {
        true => Ok(()),
        false => refusal(table),
    }
}

/// The room for a change that stores something new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// Every such change succeeds.
    Enough,
    /// The disk is full. A change that finds no free slot has to be refused.
    Little,
}

/// Checks that changes may be made, and asks for room for something new.
#[inline(always)]
pub(super) fn admit_new(table: &impl FileTable) -> Result<Room, Error> {
    admit(table)?;
    if table.is_tight() { find_room(table) } else { Ok(Room::Enough) }
}

#[cold]
fn refusal(table: &impl FileTable) -> Result<(), Error> {
    let error = if table.pool().is_forked() {
        FileError::Forked
    } else if table.pool().backing().is_read_only() {
        FileError::ReadOnly
    } else {
        return Err(table.pool().poison_error());
    };
    Err(error.into())
}

#[cold]
fn find_room(table: &impl FileTable) -> Result<Room, Error> {
    match table.has_room() {
        Ok(()) => Ok(Room::Enough),
        Err(Error::File(FileError::Full | FileError::TooManyExtents)) => Ok(Room::Little),
        Err(error) => Err(error),
    }
}

/// The state of an open map in a file besides its table.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) durability: Durability,
    maintenance: Option<Maintenance>,
    answering: Option<Answering>,
    /// Shared with the thread that syncs for asynchronous operations.
    group: Arc<Group>,
    recovery: Recovery,
}

impl Session {
    pub(super) fn new(durability: Durability, recovery: Recovery) -> Self {
        Self { durability, maintenance: None, answering: None, group: Arc::default(), recovery }
    }

    pub(super) fn set_maintenance(&mut self, maintenance: Option<Maintenance>) {
        self.maintenance = maintenance;
    }

    pub(super) fn set_answering(&mut self, answering: Answering) {
        self.answering = Some(answering);
    }

    /// Returns the result of an operation once it is as durable as promised.
    #[inline(always)]
    pub(super) fn acknowledge<T>(&self, table: &impl FileTable, result: T) -> Result<T, Error> {
        if self.durability == Durability::Synced {
            self.sync(table)?;
        }
        Ok(result)
    }

    /// Makes everything durable that the caller has seen, by one sync for all threads that ask.
    pub(super) fn sync(&self, table: &impl FileTable) -> Result<(), Error> {
        self.group.sync(|| table.sync())
    }

    /// Returns the threads whose changes share syncs.
    pub(super) fn group(&self) -> Arc<Group> {
        Arc::clone(&self.group)
    }

    /// Returns what recovery has found, when the file was opened and since.
    pub(super) fn recovery(&self, table: &impl FileTable) -> Recovery {
        Recovery {
            items: self.recovery.items + table.found(),
            was_cut: table.pool().was_cut(),
            ..self.recovery
        }
    }

    /// Leaves the threads of the map to the process that has them.
    pub(super) fn leave_threads(&mut self) {
        core::mem::forget((self.answering.take(), self.maintenance.take()));
    }

    /// Ends the threads of the map, if there are any.
    pub(super) fn end_threads(&mut self) {
        self.answering = None;
        self.maintenance = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    /// A change is durable when its thread returns, and one sync serves several threads.
    #[test]
    fn threads_share_syncs_that_began_after_their_changes() {
        const THREADS: usize = 4;
        const ROUNDS: u64 = 50;
        let (group, syncs) = (Group::default(), AtomicU64::new(0));
        let made: [AtomicU64; THREADS] = Default::default();
        let durable: [AtomicU64; THREADS] = Default::default();
        let sync = || {
            syncs.fetch_add(1, Ordering::SeqCst);
            for (durable, made) in durable.iter().zip(&made) {
                durable.store(made.load(Ordering::SeqCst), Ordering::SeqCst);
            }
            // Others make changes meanwhile.
            thread::sleep(Duration::from_millis(1));
            Ok(())
        };
        thread::scope(|scope| {
            for (made, durable) in made.iter().zip(&durable) {
                scope.spawn(|| {
                    for change in 1..=ROUNDS {
                        made.store(change, Ordering::SeqCst);
                        group.sync(sync).unwrap();
                        assert!(durable.load(Ordering::SeqCst) >= change);
                    }
                });
            }
        });
        let syncs = syncs.load(Ordering::SeqCst);
        // Two syncs for each round of all threads, and some threads that come late.
        assert!((ROUNDS..=ROUNDS * THREADS as u64 * 3 / 4).contains(&syncs), "{syncs}");
    }

    /// A sync that fails, or panics, serves nobody.
    #[test]
    fn a_failed_sync_is_repeated() {
        let group = Group::default();
        assert!(group.sync(|| Err(FileError::Poisoned.into())).is_err());
        let panicked = std::panic::AssertUnwindSafe(|| group.sync(|| panic!("no disk")));
        assert!(std::panic::catch_unwind(panicked).is_err());
        let mut is_repeated = false;
        let synced = group.sync(|| {
            is_repeated = true;
            Ok(())
        });
        assert!(synced.is_ok() && is_repeated);
    }
}
