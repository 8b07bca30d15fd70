//! The thread of a durable map, which syncs at intervals and completes resizes.

use super::handle::MapInFile;
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
        let patience = interval.map_or(PATIENCE, |interval| interval.min(PATIENCE));
        signal.changed.wait_for(&mut is_over, patience);
        let is_due = interval.is_some_and(|interval| last.elapsed() >= interval);
        if *is_over || !is_due && !table.needs_sync() {
            continue;
        }
        // Without the lock, since a sync takes long.
        drop(is_over);
        // A failure poisons the map: the next change returns an error.
        let _ = table.sync();
        last = Instant::now();
        is_over = signal.is_over.lock();
    }
}
