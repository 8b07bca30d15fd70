//! Rows: records of words. The first word is a lock and a version.
//!
//! A writer makes the version odd by a compare-and-swap, and even again after its changes. A reader
//! reads the version before and after.

use crate::threads::CheckFailed;
use nunatak::alloc::Arena;
use nunatak::entry::{Format, InPlace, Named, VARIABLE, Words};
use nunatak::{ByteGuard, DlhtShadowRecordMap, DlhtShadows, Namespace, RandomState};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Keys of 8 bytes, with a namespace for each table.
pub(super) type RowFormat = Format<8, VARIABLE, Named, InPlace>;
pub(super) type Database = DlhtShadowRecordMap<RowFormat, Arena>;
pub(super) type Guard<'d> =
    ByteGuard<'d, nunatak::entry::Records<RowFormat, Arena, RandomState>, DlhtShadows>;

/// A table of a database and a key in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowKey {
    pub(super) table: u16,
    pub(super) key: u64,
}

impl RowKey {
    pub(super) fn bytes(self) -> (Namespace, [u8; 8]) {
        (Namespace::new(self.table).unwrap_or_default(), self.key.to_le_bytes())
    }
}

/// Creates an empty database with room for `rows` rows.
pub(super) fn database(rows: u64) -> Result<Database, CheckFailed> {
    let made = Arena::new()
        .and_then(|arena| Database::try_new_in(rows as usize, RandomState::default(), arena));
    made.map_err(|error| CheckFailed(error.to_string()))
}

/// Returns the bytes of an unlocked row with these columns.
pub(super) fn row(columns: &[u64]) -> Vec<u8> {
    let words = [0].iter().chain(columns);
    words.flat_map(|word| word.to_ne_bytes()).collect()
}

pub(super) fn insert(database: &Database, key: RowKey, row: &[u8]) -> Result<(), CheckFailed> {
    let (namespace, bytes) = key.bytes();
    match database.put((namespace, &bytes), row) {
        Ok(false) => Ok(()),
        other => Err(CheckFailed(format!("a row could not be loaded: {other:?}"))),
    }
}

pub(super) fn prefetch(database: &Database, key: RowKey) {
    let (namespace, bytes) = key.bytes();
    database.prefetch((namespace, &bytes));
}

/// Finds a row in the map, without copying it.
pub(super) fn find<'g>(guard: &'g Guard<'_>, key: RowKey) -> Option<Row<'g>> {
    let (namespace, bytes) = key.bytes();
    guard.get((namespace, &bytes)).map(|words| Row { words })
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'g> {
    words: Words<'g>,
}

impl<'g> Row<'g> {
    fn version(self) -> &'g AtomicU64 {
        self.words.word(0)
    }

    /// Returns a column, counted from zero.
    pub(super) fn column(self, at: usize) -> &'g AtomicU64 {
        self.words.word(1 + at)
    }

    /// Returns how many times the row was locked.
    pub(super) fn changes(self) -> u64 {
        self.version().load(Ordering::Relaxed) / 2
    }

    /// Returns the result of `look` on the row at one moment; `None` while a transaction changes
    /// it.
    pub(super) fn read<T>(self, look: impl FnOnce(Self) -> T) -> Option<T> {
        // Acquire: the columns are at least as new as the version.
        let before = self.version().load(Ordering::Acquire);
        if before % 2 == 1 {
            return None;
        }
        let seen = look(self);
        fence(Ordering::Acquire);
        (self.version().load(Ordering::Relaxed) == before).then_some(seen)
    }

    /// Locks the row, unless another transaction holds the lock.
    pub(super) fn lock(self) -> Option<Locked<'g>> {
        let version = self.version().load(Ordering::Relaxed);
        let is_free = version.is_multiple_of(2)
            // Acquire: the last writer's changes are visible.
            && self
                .version()
                .compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        // A reader that sees a change below also sees the odd version afterwards.
        fence(Ordering::Release);
        // A lock that was not taken must not be made: dropping it would free another's.
        is_free.then(|| Locked { row: self })
    }
}

/// A row that its owner has locked, until it is dropped.
#[derive(Debug)]
pub(super) struct Locked<'g> {
    row: Row<'g>,
}

impl Locked<'_> {
    pub(super) fn get(&self, at: usize) -> u64 {
        self.row.column(at).load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, at: usize, value: u64) {
        self.row.column(at).store(value, Ordering::Relaxed);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let version = self.row.version();
        // Release: the changes come before. (Other threads do not change an odd version.)
        version.store(version.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who finds a row locked leaves its lock alone.
    #[test]
    fn a_row_has_one_owner() {
        let database = database(10).unwrap();
        let key = RowKey { table: 1, key: 7 };
        insert(&database, key, &row(&[0])).unwrap();
        let guard = database.pin();
        let row = find(&guard, key).unwrap();
        let locked = row.lock().unwrap();
        assert!(row.lock().is_none() && row.lock().is_none());
        assert!(row.read(|_| ()).is_none(), "the row is still locked");
        drop(locked);
        assert!(row.read(|_| ()).is_some() && row.lock().is_some());
    }
}
