//! The log of a map in a file: changes are durable when they are in the log, by one write for all that were
//! made together. A sync of the map copies each page that was changed; it is made once for many changes.
//!
//! Invariants
//! 1. A change is in the log before it is in the map. So each state of the map's file that is durable has
//!    no change that the log lacks: a [sync](nunatak::durable::FileMap::before_sync) commits the log first.
//! 2. Changes of a key are in the log in the order of the map: the caller holds the lock of its stripe.
//! 3. A segment is removed when a sync that began after all of its changes were made is durable, and the
//!    log says so.
//! 4. What is durable of the log is a prefix: a segment is durable before the next one is written to.
//!
//! After a power cut the map is in the state of its last sync, and the changes since are replayed. After a
//! kill the map has all changes, in part more than the log; then nothing is replayed.

mod files;
mod record;
mod replay;

pub(crate) use files::Files;
pub(crate) use replay::{Left, Step};

use crate::store::space::Change;
use nunatak::{Error, FileError};
use parking_lot::{Condvar, Mutex};
use record::{HEADER, Header, Position, Record, SMALL, Start};
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Sizes of a log, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) segment: u64,
    /// The full segments that a map has at least, and at most, before it is synced.
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl Sizes {
    /// A map is synced when a segment is full.
    #[cfg(test)]
    pub(crate) fn of_segments(bytes: u64) -> Self {
        Self { segment: bytes, least: bytes, most: bytes }
    }

    /// Returns after how many bytes of full segments a map of so many bytes is synced. A sync copies each page
    /// that was changed, and where keys are changed at random that is soon each page of the map: the log may
    /// grow as large as the map, so that a change costs the same in a large map as in a small one.
    pub(crate) fn before_sync(self, map: u64) -> u64 {
        map.clamp(self.least, self.most)
    }
}

impl Default for Sizes {
    fn default() -> Self {
        // The most is a matter of time: how long a server replays after a power cut.
        Self { segment: 64 << 20, least: 128 << 20, most: 2 << 30 }
    }
}

/// How many bytes may wait until somebody writes them, whatever the durability.
const MOST_WAITING: usize = 4 << 20;

/// Why a log can't be used.
#[derive(Debug)]
pub(crate) enum LogError {
    Io {
        action: &'static str,
        error: io::Error,
    },
    InUse,
    /// A file that is no part of a log.
    Unknown(PathBuf),
    Newer(PathBuf, u32),
    /// The segments do not continue the map: one is missing, or the map is older.
    Gap(PathBuf),
    /// The map was closed by another program since its server has ended, and the log may have more.
    ClosedByOther(PathBuf),
    /// There is a log and no map.
    NoMap(PathBuf),
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { action, error } => write!(f, "can't {action}: {error}"),
            Self::InUse => write!(f, "another server has the log"),
            Self::Unknown(path) => write!(f, "{} is no part of a log", path.display()),
            Self::Newer(path, version) => write!(
                f,
                "{} has version {version}, this program knows {}",
                path.display(),
                record::VERSION
            ),
            Self::Gap(path) => write!(
                f,
                "{} does not continue the map: a segment is missing, or the map is an older copy; \
                 without the files of the log the map can be used as it is",
                path.display()
            ),
            Self::ClosedByOther(path) => write!(
                f,
                "another program has used the map since its server ended without a shutdown, and {} may \
                 have changes that the map lacks (if the power was cut); without the files of the log the \
                 map can be used as it is",
                path.display()
            ),
            Self::NoMap(path) => write!(f, "{} is there, and no map", path.display()),
        }
    }
}

impl std::error::Error for LogError {}

impl From<LogError> for Error {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Io { action, error } => match error.kind() {
                io::ErrorKind::StorageFull => FileError::Full.into(),
                _ => FileError::Io { action, code: error.raw_os_error().unwrap_or(0) }.into(),
            },
            _ => FileError::InUse.into(),
        }
    }
}

#[derive(Debug)]
struct Segment {
    number: u64,
    file: Arc<File>,
    bytes: u64,
    /// Changes that are in the log, and may not be in the map yet.
    in_flight: Arc<AtomicUsize>,
}

/// Bytes to be written.
#[derive(Debug)]
struct Chunk {
    file: Arc<File>,
    at: u64,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct State {
    /// The last one is being filled.
    segments: VecDeque<Segment>,
    /// The end of the filled segments.
    full: Vec<Chunk>,
    /// The end of the last segment, and where it belongs.
    buffer: Vec<u8>,
    at: u64,
    /// Memory for the next buffer.
    spare: Vec<u8>,
    start: Start,
    /// Bytes since the log was created.
    appended: u64,
    durable: u64,
    is_writing: bool,
    failure: Option<Error>,
    /// Whether there was no room for a segment, so that full ones should go soon.
    is_tight: bool,
    is_over: bool,
}

/// A change that is in the log, and not yet known to be in the map.
#[derive(Debug)]
#[must_use = "it is finished by `Log::finish`"]
pub(crate) struct Pending {
    position: Position,
    in_flight: Arc<AtomicUsize>,
}

/// As [`Pending`], of several changes.
#[derive(Debug)]
#[must_use = "they are finished by `Log::finish_each`"]
pub(crate) struct PendingEach {
    positions: Vec<Position>,
    in_flight: Arc<AtomicUsize>,
}

/// The log of a map.
#[derive(Debug)]
pub(crate) struct Log {
    files: Files,
    sizes: Sizes,
    state: Mutex<State>,
    /// A write has ended.
    written: Condvar,
    /// A segment is full, many bytes wait, or the log ends.
    nudged: Condvar,
}

impl State {
    fn position(&self) -> Position {
        let segment = self.segments.back().map_or(0, |segment| segment.number);
        Position { segment, offset: self.at + self.buffer.len() as u64 }
    }

    /// Whether the map should be synced, as full segments have so many bytes.
    fn is_full(&self, bytes: u64) -> bool {
        let full = self.segments.iter().rev().skip(1).map(|segment| segment.bytes);
        self.segments.len() > 1 && (self.is_tight || full.sum::<u64>() >= bytes)
    }

    fn append(&mut self, record: &Record<'_>) {
        let (position, before) = (self.position(), self.buffer.len());
        record.append_to(&mut self.buffer, position);
        self.appended += (self.buffer.len() - before) as u64;
    }
}

impl Log {
    /// Begins the log of a map whose sync `base` has all changes. The files have no segments.
    pub(crate) fn create(files: Files, base: u64, sizes: Sizes) -> Result<Self, LogError> {
        let start = Start { from: 1, base };
        let state = State {
            segments: VecDeque::new(),
            full: Vec::new(),
            buffer: Vec::new(),
            at: 0,
            spare: Vec::new(),
            start,
            appended: 0,
            durable: 0,
            is_writing: false,
            failure: None,
            is_tight: false,
            is_over: false,
        };
        let (written, nudged) = (Condvar::new(), Condvar::new());
        let log = Self { files, sizes, state: Mutex::new(state), written, nudged };
        log.begin_segment(&mut log.state.lock(), 0)?;
        Ok(log)
    }

    /// Begins a segment with room for a record of so many bytes.
    fn begin_segment(&self, state: &mut State, bytes: u64) -> Result<(), LogError> {
        let number = state.segments.back().map_or(state.start.from, |last| last.number + 1);
        let size = self.sizes.segment.max(HEADER as u64 + bytes + 4 * SMALL as u64);
        let file = self.files.create(number, size).inspect_err(|_| {
            state.is_tight = true;
            self.nudged.notify_one();
        });
        let file = Arc::new(file?);
        if let Some(last) = state.segments.back() {
            let file = Arc::clone(&last.file);
            state.append(&Record::Continued);
            let empty = std::mem::take(&mut state.spare);
            let bytes = std::mem::replace(&mut state.buffer, empty);
            state.full.push(Chunk { file, at: state.at, bytes });
        }
        state.segments.push_back(Segment { number, file, bytes: size, in_flight: Arc::default() });
        (state.at, state.appended) = (0, state.appended + HEADER as u64);
        state.buffer.extend(Header { number, start: state.start }.encode());
        self.nudged.notify_one();
        Ok(())
    }

    /// Makes room for a record of so many bytes. Behind it, there is room for records without changes.
    fn make_room(&self, state: &mut State, bytes: usize) -> Result<(), Error> {
        self.make_room_with(state, bytes, 3 * SMALL)
    }

    /// Makes room for a record of so many bytes, and for so many behind it.
    fn make_room_with(&self, state: &mut State, bytes: usize, behind: usize) -> Result<(), Error> {
        if let Some(failure) = state.failure {
            return Err(failure);
        }
        let end = state.position().offset + (bytes + behind) as u64;
        if state.segments.back().is_none_or(|last| end > last.bytes) {
            self.begin_segment(state, bytes as u64)?;
        }
        Ok(())
    }

    /// Appends changes that are about to be made together.
    pub(crate) fn append(&self, changes: &[Change<'_>]) -> Result<Pending, Error> {
        self.append_with(record::bytes_of(changes), |out, position| {
            record::append_changes(out, changes, position);
        })
    }

    /// Appends that records are about to be stored, each by itself.
    pub(crate) fn append_each(&self, records: &[(&[u8], &[u8])]) -> Result<PendingEach, Error> {
        let bytes = records.iter().map(|&(key, it)| record::bytes_of(&[(key, Some(it))])).sum();
        let mut positions = Vec::with_capacity(records.len());
        let in_flight = self.append_in_segment(bytes, |state| {
            positions.extend(records.iter().map(|&(key, it)| {
                let position = state.position();
                record::append_changes(&mut state.buffer, &[(key, Some(it))], position);
                position
            }));
        })?;
        Ok(PendingEach { positions, in_flight })
    }

    /// Appends that all keys are about to be removed.
    pub(crate) fn append_clear(&self) -> Result<Pending, Error> {
        self.append_with(SMALL, |out, position| Record::Clear.append_to(out, position))
    }

    #[inline(always)]
    fn append_with(
        &self,
        bytes: usize,
        append: impl FnOnce(&mut Vec<u8>, Position),
    ) -> Result<Pending, Error> {
        let mut position = Position::default();
        let in_flight = self.append_in_segment(bytes, |state| {
            position = state.position();
            append(&mut state.buffer, position);
        })?;
        Ok(Pending { position, in_flight })
    }

    /// Appends to a segment that has room for so many bytes. Returns the count of the segment's changes in
    /// flight, which are one more.
    #[inline(always)]
    fn append_in_segment(
        &self,
        bytes: usize,
        append: impl FnOnce(&mut State),
    ) -> Result<Arc<AtomicUsize>, Error> {
        let mut state = self.state.lock();
        let state = &mut *state;
        self.make_room(state, bytes)?;
        let before = state.buffer.len();
        append(state);
        state.appended += (state.buffer.len() - before) as u64;
        if state.buffer.len() > MOST_WAITING && before <= MOST_WAITING {
            self.nudged.notify_one();
        }
        let in_flight = state.segments.back().map(|last| Arc::clone(&last.in_flight));
        let in_flight = in_flight.unwrap_or_default();
        // Relaxed: `wait_for_changes` looks at it after it had the lock.
        in_flight.fetch_add(1, Ordering::Relaxed);
        Ok(in_flight)
    }

    /// Notes that the map has the changes, or has refused them.
    pub(crate) fn finish(&self, pending: Pending, is_done: bool) {
        self.finish_at(&[pending.position], &pending.in_flight, is_done);
    }

    /// As [`finish`](Self::finish). If the map has refused one of the changes, none counts.
    pub(crate) fn finish_each(&self, pending: PendingEach, is_done: bool) {
        self.finish_at(&pending.positions, &pending.in_flight, is_done);
    }

    #[inline(always)]
    fn finish_at(&self, positions: &[Position], in_flight: &AtomicUsize, is_done: bool) {
        if !is_done {
            let mut state = self.state.lock();
            for &position in positions {
                match self.make_room(&mut state, SMALL) {
                    Ok(()) => state.append(&Record::Void(position)),
                    // Otherwise a power cut would bring back what was refused.
                    Err(error) => {
                        state.failure = Some(error);
                        break;
                    }
                }
            }
        }
        // Release: the changes precede it.
        in_flight.fetch_sub(1, Ordering::Release);
    }

    /// Makes all changes durable that were appended. Threads that call it at the same time share a write.
    pub(crate) fn commit(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        let asked = state.appended;
        loop {
            if let Some(failure) = state.failure {
                return Err(failure);
            }
            if state.durable >= asked {
                return Ok(());
            }
            if !state.is_writing {
                break;
            }
            self.written.wait(&mut state);
        }
        let mut chunks = std::mem::take(&mut state.full);
        let empty = std::mem::take(&mut state.spare);
        let bytes = std::mem::replace(&mut state.buffer, empty);
        if let Some(last) = state.segments.back() {
            let file = Arc::clone(&last.file);
            let at = state.at;
            state.at += bytes.len() as u64;
            chunks.push(Chunk { file, at, bytes });
        }
        let all = state.appended;
        state.is_writing = true;
        drop(state);
        // Each is durable before the next is written to (invariant 4).
        let write = |chunk: &Chunk| {
            chunk.file.write_all_at(&chunk.bytes, chunk.at)?;
            chunk.file.sync_data()
        };
        let result = chunks.iter().try_for_each(write);
        let mut state = self.state.lock();
        state.is_writing = false;
        if let Some(Chunk { mut bytes, .. }) = chunks.pop() {
            bytes.clear();
            bytes.shrink_to(MOST_WAITING);
            state.spare = bytes;
        }
        let result = result.map_err(|error| {
            // The system forgets what it could not write: a second attempt would prove nothing.
            let error = LogError::Io { action: "write the log", error }.into();
            state.failure = Some(error);
            error
        });
        if result.is_ok() {
            state.durable = all;
        }
        self.written.notify_all();
        result
    }

    /// Whether so many bytes wait that somebody should write them.
    pub(crate) fn is_behind(&self) -> bool {
        let state = self.state.lock();
        state.buffer.len() + state.full.iter().map(|chunk| chunk.bytes.len()).sum::<usize>()
            > 4 * MOST_WAITING
    }

    /// Waits until segments of so many bytes are full, many bytes wait, or some time has passed. Returns whether
    /// the log goes on.
    pub(crate) fn wait(&self, time: Duration, bytes: u64) -> bool {
        let mut state = self.state.lock();
        if !state.is_over && !state.is_full(bytes) && state.buffer.len() <= MOST_WAITING {
            self.nudged.wait_for(&mut state, time);
        }
        !state.is_over
    }

    /// Ends the thread that waits.
    pub(crate) fn stop(&self) {
        self.state.lock().is_over = true;
        self.nudged.notify_all();
    }

    /// Returns after how many bytes of full segments a map of so many bytes is synced.
    pub(crate) fn before_sync(&self, map: u64) -> u64 {
        self.sizes.before_sync(map)
    }

    /// Returns the number of the last segment, if so many bytes of others are before it, or if there was no room
    /// for the next one.
    pub(crate) fn full_before(&self, bytes: u64) -> Option<u64> {
        let state = self.state.lock();
        state.segments.back().map(|last| last.number).filter(|_| state.is_full(bytes))
    }

    /// Waits until the map has all changes of the segments before one.
    pub(crate) fn wait_for_changes(&self, number: u64) {
        let state = self.state.lock();
        let before = state.segments.iter().filter(|segment| segment.number < number);
        let counts: Vec<_> = before.map(|segment| Arc::clone(&segment.in_flight)).collect();
        drop(state);
        for count in counts {
            // Acquire: pairs with `finish`.
            while count.load(Ordering::Acquire) > 0 {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    /// Removes the segments before one: the sync `base` of the map, which is durable, has their changes.
    pub(crate) fn truncate_before(&self, number: u64, base: u64) -> Result<(), Error> {
        let mut state = self.state.lock();
        // In the room behind changes: there may be none for another segment before this one frees some. The end
        // of the segment still has room.
        self.make_room_with(&mut state, SMALL, SMALL)?;
        state.start = Start { from: number, base };
        let record = Record::Checkpoint(state.start);
        state.append(&record);
        drop(state);
        self.commit()?;
        let mut state = self.state.lock();
        let mut old = Vec::new();
        while state.segments.front().is_some_and(|first| first.number < number) {
            old.extend(state.segments.pop_front());
        }
        drop(state);
        old.iter().try_for_each(|segment| self.files.remove(segment.number))?;
        self.state.lock().is_tight = false;
        self.files.sync_names()?;
        Ok(())
    }

    /// Returns how many bytes the segments have.
    pub(crate) fn bytes(&self) -> u64 {
        let state = self.state.lock();
        let full = state.segments.iter().rev().skip(1).map(|segment| segment.bytes).sum::<u64>();
        full + state.position().offset
    }

    /// Says that the map has everything, and is about to be closed.
    pub(crate) fn end(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        self.make_room(&mut state, SMALL)?;
        state.append(&Record::Closed);
        drop(state);
        self.commit()
    }

    /// Removes the log of a map that was closed.
    pub(crate) fn remove(self) -> Result<(), LogError> {
        self.files.remove_all()
    }
}

#[cfg(test)]
mod tests;
