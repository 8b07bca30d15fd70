//! The thread of a durable map, which syncs at intervals and completes resizes.

use super::content::MapInFile;
use super::options::Durability;
use super::table::FileTable;
use crate::error::Error;
use core::time::Duration;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// How often the thread checks whether a resize waits for a sync. A sync takes longer.
const PATIENCE: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
struct Signal {
    is_over: Mutex<bool>,
    changed: Condvar,
}

/// The thread of maintenance, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Maintenance {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl Maintenance {
    /// Starts the thread if the map needs one.
    pub(super) fn start<T: MapInFile>(
        map: &Arc<T>,
        durability: Durability,
    ) -> Result<Option<Self>, Error> {
        let backing = map.table().pool().backing();
        // A simulation must do the same every time.
        let has_nothing_to_do =
            !T::Table::MAY_NEED_SYNC && !matches!(durability, Durability::Interval(_));
        if backing.is_ordered() || backing.is_simulated() || has_nothing_to_do {
            return Ok(None);
        }
        let signal = Arc::new(Signal::default());
        let (map, told) = (Arc::clone(map), Arc::clone(&signal));
        let thread = std::thread::Builder::new().name("nunatak-sync".into());
        let thread = thread.spawn(move || maintain(map.table(), durability, &told));
        let thread = thread.map_err(|error| crate::FileError::Io {
            action: "start a thread",
            code: error.raw_os_error().unwrap_or(0),
        })?;
        Ok(Some(Self { signal, thread: Some(thread) }))
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        *self.signal.is_over.lock() = true;
        self.signal.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn maintain(table: &impl FileTable, durability: Durability, signal: &Signal) {
    let interval = match durability {
        Durability::Interval(interval) => Some(interval),
        _ => None,
    };
    let mut last = Instant::now();
    let mut is_over = signal.is_over.lock();
    while !*is_over {
        let rest = interval.map(|interval| interval.saturating_sub(last.elapsed()));
        let patience = rest.unwrap_or(PATIENCE).min(PATIENCE);
        signal.changed.wait_for(&mut is_over, patience);
        let is_due = interval.is_some_and(|interval| last.elapsed() >= interval);
        if *is_over || !is_due && !table.needs_sync() {
            continue;
        }
        // Without the lock, since a sync takes long.
        drop(is_over);
        // Intervals are from the begin of one sync to that of the next: a change that comes during
        // a sync waits for one interval, too.
        last = Instant::now();
        // A failure poisons the map: the next change returns an error.
        let _ = table.sync();
        is_over = signal.is_over.lock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::{IcebergMap, Options, PeaMap};
    use crate::memory::durable::Pool;
    use crate::sync::{AtomicUsize, Ordering};

    /// Counts its syncs.
    #[derive(Default)]
    struct Counting {
        syncs: AtomicUsize,
        needs_sync: bool,
    }

    impl FileTable for Counting {
        const MAY_NEED_SYNC: bool = true;

        fn sync(&self) -> Result<(), Error> {
            self.syncs.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn has_room(&self) -> Result<(), Error> {
            Ok(())
        }

        fn is_tight(&self) -> bool {
            false
        }

        fn needs_sync(&self) -> bool {
            self.needs_sync
        }

        fn pool(&self) -> &Pool {
            unreachable!("maintenance asks the table only")
        }

        fn check(&self, _: &(dyn Fn(u64, u64) -> bool + Sync)) -> Result<usize, Error> {
            Ok(0)
        }
    }

    /// How often a table is synced, until it was twice or half a second has gone.
    fn syncs(durability: Durability, needs_sync: bool, expected: bool) -> usize {
        let table = Counting { needs_sync, ..Counting::default() };
        let signal = Signal::default();
        let synced = || table.syncs.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| maintain(&table, durability, &signal));
            let begin = Instant::now();
            let is_waiting = || begin.elapsed() < Duration::from_millis(500);
            // On a machine that is busy the thread may come late, but it comes.
            let is_patient = || expected && begin.elapsed() < Duration::from_secs(60);
            while synced() < 2 && (is_waiting() || is_patient()) {
                std::thread::yield_now();
            }
            *signal.is_over.lock() = true;
            signal.changed.notify_all();
        });
        synced()
    }

    #[test]
    fn intervals_and_leftovers_are_synced_and_nothing_else_is() {
        assert!(syncs(Durability::Interval(Duration::from_millis(2)), false, true) >= 2);
        assert!(syncs(Durability::Process, true, true) >= 2);
        assert_eq!(syncs(Durability::Process, false, false), 0);
        assert_eq!(syncs(Durability::Interval(Duration::from_secs(3600)), false, false), 0);
    }

    /// Whether something comes to be, on a machine that may be busy.
    fn comes(is_there: impl Fn() -> bool) -> bool {
        let begin = Instant::now();
        while !is_there() && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        is_there()
    }

    /// A doubling leaves entries in their old slots, too, until a sync.
    #[test]
    fn a_doubling_ends_without_a_request() {
        let directory = tempfile::tempdir().unwrap();
        // So few entries that no insert waits for a sync to make room.
        let options = Options::new().max_load(0.5);
        let map: IcebergMap<u64, u64> =
            IcebergMap::create_with(directory.path().join("map"), &options).unwrap();
        let before = map.stats().blocks;
        let has_moved = || {
            let stats = map.stats();
            stats.blocks > before && stats.unsettled_blocks == 0
        };
        let mut keys = 0..;
        while !has_moved() {
            keys.by_ref().take(100).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
        }
        assert!(comes(|| !map.table().has_leftovers()));
    }

    /// Also a map whose resizes wait for no sync.
    #[test]
    fn a_map_in_a_file_is_synced_at_intervals() {
        let directory = tempfile::tempdir().unwrap();
        let often = Options::new().durability(Durability::Interval(Duration::from_millis(2)));
        let map: PeaMap<u64, u64> =
            PeaMap::create_with(directory.path().join("map"), &often).unwrap();
        let before = map.last_sync();
        map.insert(1, 10).unwrap();
        assert!(comes(|| map.last_sync() > before));
    }
}
