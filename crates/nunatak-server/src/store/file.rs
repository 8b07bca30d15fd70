//! A map in a file, with a log if changes are to survive a power cut.

use super::space::Change;
use crate::config::Durability;
use crate::log::{Files, Left, Log, LogError, Pending, Sizes, Step};
use nunatak::Error;
use nunatak::durable::{Options, TurboBlobMap};
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the log is written, if not for each batch.
const INTERVAL: Duration = Duration::from_secs(1);

/// A map in a file. It can be read as the map; changes go through the log.
#[derive(Debug)]
pub(crate) struct MapFile {
    /// `None` when it was closed.
    map: Option<Arc<TurboBlobMap>>,
    logging: Option<Logging>,
    /// By which sync it was closed before.
    closed_by: Option<u64>,
}

/// A log, and the thread that writes it and syncs the map.
#[derive(Debug)]
struct Logging {
    log: Arc<Log>,
    thread: Option<JoinHandle<()>>,
}

/// Why a file can't be opened or closed.
#[derive(Debug)]
pub(crate) enum FileError {
    Map(Error),
    Log(LogError),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Map(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FileError {}

impl From<Error> for FileError {
    fn from(error: Error) -> Self {
        Self::Map(error)
    }
}

impl From<FileError> for Error {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Map(error) => error,
            FileError::Log(error) => error.into(),
        }
    }
}

impl From<LogError> for FileError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl Deref for MapFile {
    type Target = TurboBlobMap;

    #[inline(always)]
    fn deref(&self) -> &TurboBlobMap {
        match &self.map {
            Some(map) => map,
            None => unreachable!("nobody has the map after its end"),
        }
    }
}

impl MapFile {
    /// Opens a map, or creates it. Replays the changes of the log that the map lacks.
    pub(crate) fn open(path: &Path, durability: Durability) -> Result<Self, FileError> {
        Self::open_with(path, durability, Sizes::default())
    }

    /// Does what precedes the opening of the map. Returns the log's files, what an earlier server has left of
    /// them, and whether the map needs its replay.
    fn prepare(path: &Path, logs: bool) -> Result<(Option<Files>, Option<Left>, bool), FileError> {
        if !logs && !Files::exist(path) {
            return Ok((None, None, false));
        }
        let files = Files::lock(path)?;
        let Some(left) = Left::read(&files)? else { return Ok((Some(files), None, false)) };
        if path.symlink_metadata().is_err() {
            return Err(LogError::NoMap(files.control().into()).into());
        }
        // As a reader, which changes nothing: once it was opened for changes, the map does not tell again
        // that the power was cut.
        let reader = TurboBlobMap::open_with(path, &Options::new().read_only(true))?;
        let recovery = reader.recovery();
        let found = (recovery.was_closed, recovery.was_cut, reader.last_sync());
        let needs_replay = left.is_needed(&files, found)?;
        if needs_replay {
            left.begin(&files)?;
        }
        Ok((Some(files), Some(left), needs_replay))
    }

    /// Makes durable what an earlier server has left, and removes it from the log.
    fn recover(
        map: &TurboBlobMap,
        files: &Files,
        left: Left,
        needs_replay: bool,
    ) -> Result<(), FileError> {
        if needs_replay {
            let count = left.replay(files, |step| replay_step(map, step))?;
            tell!("replayed {count} changes of the log");
        }
        map.sync()?;
        Ok(left.retire(files)?)
    }

    fn open_with(path: &Path, durability: Durability, sizes: Sizes) -> Result<Self, FileError> {
        let logs = durability != Durability::Process;
        let (files, left, needs_replay) = Self::prepare(path, logs)?;
        let map = Arc::new(TurboBlobMap::open_or_create(path)?);
        let closed_by = map.recovery().was_closed.then(|| map.last_sync());
        let (Some(files), left) = (files, left) else {
            return Ok(Self { map: Some(map), logging: None, closed_by });
        };
        if let Some(left) = left {
            Self::recover(&map, &files, left, needs_replay)?;
        }
        if !logs {
            files.remove_all()?;
            return Ok(Self { map: Some(map), logging: None, closed_by });
        }
        map.sync()?;
        let log = Arc::new(Log::create(files, map.last_sync(), sizes)?);
        let committed = Arc::clone(&log);
        map.before_sync(move || committed.commit())?;
        let (path, log_of_keeper) = (path.to_path_buf(), Arc::clone(&log));
        let keeper = Keeper { path, map: Arc::clone(&map), log: log_of_keeper };
        let thread = std::thread::Builder::new().name("nunatak-log".into());
        let thread = thread.spawn(move || keeper.run());
        let thread = thread.map_err(|error| LogError::Io { action: "start a thread", error })?;
        let logging = Some(Logging { log, thread: Some(thread) });
        Ok(Self { map: Some(map), logging, closed_by })
    }

    fn logged<R>(
        &self,
        append: impl FnOnce(&Log) -> Result<Pending, Error>,
        change: impl FnOnce(&TurboBlobMap) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let Some(Logging { log, .. }) = &self.logging else { return change(self) };
        let pending = append(log)?;
        let result = change(self);
        log.finish(pending, result.is_ok());
        result
    }

    /// Stores a record. The caller holds the lock of the key's stripe.
    #[inline]
    pub(crate) fn put(&self, key: &[u8], record: &[u8]) -> Result<bool, Error> {
        self.logged(|log| log.append(&[(key, Some(record))]), |map| map.put(key, record))
    }

    /// Stores records, in order, each by itself. If that fails, some of them may be stored. The caller holds
    /// the locks of their stripes.
    pub(crate) fn put_many(&self, records: &[(&[u8], &[u8])]) -> Result<usize, Error> {
        let Some(Logging { log, .. }) = &self.logging else {
            return TurboBlobMap::put_many(self, records);
        };
        let pending = log.append_each(records)?;
        let result = TurboBlobMap::put_many(self, records);
        log.finish_each(pending, result.is_ok());
        result
    }

    /// Removes a key, and returns whether it was there. The caller holds the lock of its stripe.
    pub(crate) fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        if self.logging.is_some() && self.pin().get(key).is_none() {
            return Ok(false);
        }
        self.logged(|log| log.append(&[(key, None)]), |map| map.delete(key))
    }

    /// Makes several changes, all or none. The caller holds the locks of the keys' stripes.
    pub(crate) fn change_together(&self, changes: &[Change<'_>]) -> Result<(), Error> {
        self.logged(|log| log.append(changes), |map| map.write_batch(changes))
    }

    /// Removes all keys. The caller holds all locks.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        self.logged(Log::append_clear, TurboBlobMap::clear)
    }

    /// Makes all changes survive a power cut, by the log if there is one.
    pub(crate) fn commit(&self) -> Result<(), Error> {
        match &self.logging {
            Some(logging) => logging.log.commit(),
            None => self.sync(),
        }
    }

    /// Returns by which sync the file was closed before it was opened; `None` if it was not closed.
    pub(crate) fn closed_by(&self) -> Option<u64> {
        self.closed_by
    }

    /// Whether more bytes wait for the log than its thread can write.
    pub(crate) fn is_behind(&self) -> bool {
        self.logging.as_ref().is_some_and(|logging| logging.log.is_behind())
    }

    /// Returns how many bytes the log has.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.logging.as_ref().map_or(0, |logging| logging.log.bytes())
    }

    /// Syncs and closes the map, then removes the log.
    pub(crate) fn close(&mut self) -> Result<(), FileError> {
        let logging = self.logging.take().map(|mut logging| {
            logging.log.stop();
            // It only ends.
            let _ = logging.thread.take().map(JoinHandle::join);
            logging.log
        });
        if let Some(log) = &logging {
            log.end()?;
        }
        if let Some(map) = self.map.take().and_then(Arc::into_inner) {
            map.close()?;
        }
        // The map has dropped what commits the log before its syncs.
        if let Some(log) = logging.and_then(Arc::into_inner) {
            log.remove()?;
        }
        Ok(())
    }
}

impl Drop for MapFile {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tell!("the file was not closed: {error}");
        }
    }
}

/// Makes a change of the log again. The map may have it, or later changes of the keys, too.
fn replay_step(map: &TurboBlobMap, step: Step<'_>) -> Result<(), Error> {
    match step {
        Step::Store(records) => map.put_many(records).map(drop),
        Step::Change(&[(key, None)]) => map.delete(key).map(drop),
        Step::Change(changes) => map.write_batch(changes),
        Step::Clear => map.clear(),
    }
}

/// What the thread of a log does.
struct Keeper {
    path: PathBuf,
    map: Arc<TurboBlobMap>,
    log: Arc<Log>,
}

impl Keeper {
    fn run(self) {
        loop {
            // Without an answer, the least.
            let map = std::fs::metadata(&self.path).map_or(0, |it| it.len());
            let bytes = self.log.before_sync(map);
            if !self.log.wait(INTERVAL, bytes) {
                return;
            }
            let written = match self.log.full_before(bytes) {
                Some(number) => self.checkpoint(number),
                None => self.log.commit(),
            };
            if let Err(error) = written {
                tell!("changes are not durable: {error}");
                if !matches!(error, Error::File(nunatak::FileError::Full)) {
                    // All later changes fail, and say so.
                    return;
                }
                std::thread::sleep(INTERVAL);
            }
        }
    }

    /// Syncs the map, so that the segments before one are not needed any more.
    fn checkpoint(&self, number: u64) -> Result<(), Error> {
        self.log.wait_for_changes(number);
        self.map.sync()?;
        self.log.truncate_before(number, self.map.last_sync())
    }
}

#[cfg(test)]
mod tests;
