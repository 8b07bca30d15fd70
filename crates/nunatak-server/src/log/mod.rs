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

/// The size of a segment. The map is synced when one is full.
pub(crate) const SEGMENT_BYTES: u64 = 64 << 20;

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
    is_over: bool,
}

/// A change that is in the log, and not yet known to be in the map.
#[derive(Debug)]
#[must_use = "it is finished by `Log::finish`"]
pub(crate) struct Pending {
    position: Position,
    in_flight: Arc<AtomicUsize>,
}

/// The log of a map.
#[derive(Debug)]
pub(crate) struct Log {
    files: Files,
    segment_bytes: u64,
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

    fn append(&mut self, record: &Record<'_>) {
        let (position, before) = (self.position(), self.buffer.len());
        record.append_to(&mut self.buffer, position);
        self.appended += (self.buffer.len() - before) as u64;
    }
}

impl Log {
    /// Begins the log of a map whose sync `base` has all changes. The files have no segments.
    pub(crate) fn create(files: Files, base: u64, segment_bytes: u64) -> Result<Self, LogError> {
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
            is_over: false,
        };
        let (written, nudged) = (Condvar::new(), Condvar::new());
        let log = Self { files, segment_bytes, state: Mutex::new(state), written, nudged };
        log.begin_segment(&mut log.state.lock(), 0)?;
        Ok(log)
    }

    /// Begins a segment with room for a record of so many bytes.
    fn begin_segment(&self, state: &mut State, bytes: u64) -> Result<(), LogError> {
        let number = state.segments.back().map_or(state.start.from, |last| last.number + 1);
        let size = self.segment_bytes.max(HEADER as u64 + bytes + 4 * SMALL as u64);
        let file = Arc::new(self.files.create(number, size)?);
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

    /// Makes room for a record of so many bytes.
    fn make_room(&self, state: &mut State, bytes: usize) -> Result<(), Error> {
        if let Some(failure) = state.failure {
            return Err(failure);
        }
        // Behind it there is room for records without changes.
        let end = state.position().offset + (bytes + 3 * SMALL) as u64;
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
        let mut state = self.state.lock();
        let state = &mut *state;
        self.make_room(state, bytes)?;
        let (position, before) = (state.position(), state.buffer.len());
        append(&mut state.buffer, position);
        state.appended += (state.buffer.len() - before) as u64;
        if state.buffer.len() > MOST_WAITING && before <= MOST_WAITING {
            self.nudged.notify_one();
        }
        let in_flight = state.segments.back().map(|last| Arc::clone(&last.in_flight));
        let in_flight = in_flight.unwrap_or_default();
        // Relaxed: `wait_for_changes` looks at it after it had the lock.
        in_flight.fetch_add(1, Ordering::Relaxed);
        Ok(Pending { position, in_flight })
    }

    /// Notes that the map has the changes, or has refused them.
    pub(crate) fn finish(&self, pending: Pending, is_done: bool) {
        if !is_done {
            let mut state = self.state.lock();
            match self.make_room(&mut state, SMALL) {
                Ok(()) => state.append(&Record::Void(pending.position)),
                // Otherwise a power cut would bring back what was refused.
                Err(error) => state.failure = Some(error),
            }
        }
        // Release: the changes precede it.
        pending.in_flight.fetch_sub(1, Ordering::Release);
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

    /// Waits until a segment is full, many bytes wait, or some time has passed. Returns whether the log goes
    /// on.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.is_over && state.segments.len() < 2 && state.buffer.len() <= MOST_WAITING {
            self.nudged.wait_for(&mut state, time);
        }
        !state.is_over
    }

    /// Ends the thread that waits.
    pub(crate) fn stop(&self) {
        self.state.lock().is_over = true;
        self.nudged.notify_all();
    }

    /// Returns the number of the last segment, if there are others before it.
    pub(crate) fn full_before(&self) -> Option<u64> {
        let state = self.state.lock();
        state.segments.back().map(|last| last.number).filter(|_| state.segments.len() > 1)
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
        self.make_room(&mut state, SMALL)?;
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
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    fn log(map: &Path, segment_bytes: u64) -> Log {
        Log::create(Files::lock(map).unwrap(), 1, segment_bytes).unwrap()
    }

    /// Returns the keys that are replayed after a power cut; `None` if nothing is left of the log.
    fn replayed(map: &Path) -> Option<Vec<Vec<u8>>> {
        let files = Files::lock(map).unwrap();
        let left = Left::read(&files).unwrap()?;
        assert!(left.is_needed(&files, (false, true, 1)).unwrap());
        let mut keys = Vec::new();
        left.replay(|step| {
            if let Step::Change(changes) = step {
                keys.extend(changes.iter().map(|(key, _)| key.to_vec()));
            }
            Ok(())
        })
        .unwrap();
        Some(keys)
    }

    #[test]
    fn what_the_map_has_refused_is_not_replayed() {
        let folder = tempfile::tempdir().unwrap();
        let map = folder.path().join("data.map");
        let log = log(&map, 200);
        for (at, key) in [b"a", b"b", b"c", b"d"].into_iter().enumerate() {
            let pending = log.append(&[(key, Some(&[0; 50]))]).unwrap();
            log.finish(pending, at % 2 == 0);
        }
        log.commit().unwrap();
        assert!(log.full_before() > Some(1), "in several segments");
        drop(log);
        assert_eq!(replayed(&map).unwrap(), [b"a", b"c"]);
    }

    #[test]
    fn what_was_not_committed_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let map = folder.path().join("data.map");
        let log = log(&map, 4096);
        let append = |key: &[u8]| log.finish(log.append(&[(key, None)]).unwrap(), true);
        append(b"a");
        log.commit().unwrap();
        append(b"b");
        drop(log);
        assert_eq!(replayed(&map).unwrap(), [b"a"]);
    }

    /// A record that is longer than segments are gets a longer segment.
    #[test]
    fn long_records_have_room() {
        let folder = tempfile::tempdir().unwrap();
        let map = folder.path().join("data.map");
        let log = log(&map, 4096);
        let long = vec![b'x'; 100_000];
        for key in [b"a", b"b"] {
            log.finish(log.append(&[(key, Some(&long))]).unwrap(), true);
        }
        log.commit().unwrap();
        drop(log);
        assert_eq!(replayed(&map).unwrap(), [b"a", b"b"]);
    }

    /// Segments wait for changes that are in them, and perhaps not in the map.
    #[test]
    fn segments_wait_for_their_changes() {
        let folder = tempfile::tempdir().unwrap();
        let map = folder.path().join("data.map");
        let log = log(&map, 4096);
        let pending = log.append(&[(b"first", None)]).unwrap();
        while log.full_before().is_none() {
            log.finish(log.append(&[(b"other", None)]).unwrap(), true);
        }
        let number = log.full_before().unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                is_done.store(true, Ordering::SeqCst);
                log.finish(pending, true);
            });
            log.wait_for_changes(number);
            assert!(is_done.load(Ordering::SeqCst));
        });
        log.truncate_before(number, 1).unwrap();
        assert_eq!(log.full_before(), None);
        drop(log);
        assert!(replayed(&map).unwrap().iter().all(|key| key == b"other"));
    }

    /// A segment that is not whole ends the log: the next one was not durable either.
    #[test]
    fn a_segment_without_an_end_is_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let map = folder.path().join("data.map");
        let log = log(&map, 300);
        for key in 0..20_u8 {
            log.finish(log.append(&[(&[key], Some(&[0; 40]))]).unwrap(), true);
        }
        log.commit().unwrap();
        let first = log.files.segment(1);
        drop(log);
        assert_eq!(replayed(&map).unwrap().len(), 20);
        let mut bytes = std::fs::read(&first).unwrap();
        let of_first: Vec<Position> = record::Records::of(1, &bytes).map(|it| it.0).collect();
        // Its end, which says that the log goes on.
        bytes[of_first[of_first.len() - 1].offset as usize..].fill(0);
        std::fs::write(&first, bytes).unwrap();
        let keys = replayed(&map).unwrap();
        assert_eq!(keys.len(), of_first.len() - 1, "{keys:?}");
    }

    /// A power cut during the first write of a segment: what follows the header is there, the header is not.
    /// The next segment was made already.
    #[test]
    fn a_segment_without_a_header_ends_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let map = folder.path().join("data.map");
        let log = log(&map, 300);
        for key in 0..20_u8 {
            log.finish(log.append(&[(&[key], Some(&[0; 40]))]).unwrap(), true);
        }
        log.commit().unwrap();
        let last = log.full_before().unwrap();
        let paths = [last - 1, last].map(|number| log.files.segment(number));
        drop(log);
        let first = std::fs::read(&paths[0]).unwrap();
        let count = record::Records::of(last - 1, &first).count();
        std::fs::write(&paths[0], [&[0; HEADER][..], &first[HEADER..]].concat()).unwrap();
        std::fs::write(&paths[1], [0; 300]).unwrap();
        let keys = replayed(&map).unwrap();
        assert!(keys.len() >= 20 - 2 * count && keys.len() < 20 && count > 1, "{keys:?}");
        // A header that is wrong in another way is damage.
        std::fs::write(&paths[0], [&[1; HEADER][..], &first[HEADER..]].concat()).unwrap();
        let files = Files::lock(&map).unwrap();
        assert!(matches!(Left::read(&files), Err(LogError::Unknown(_))));
    }

    /// A log that can't be written refuses changes from then on.
    #[test]
    fn a_failed_write_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let map = folder.path().join("data.map");
        let log = log(&map, 4096);
        log.finish(log.append(&[(b"a", None)]).unwrap(), true);
        // No file for writing.
        log.state.lock().segments[0].file = Arc::new(File::open(log.files.control()).unwrap());
        let failed = log.commit().unwrap_err();
        assert!(matches!(failed, Error::File(FileError::Io { action: "write the log", .. })));
        assert_eq!(log.append(&[(b"b", None)]).unwrap_err(), failed);
        assert_eq!((log.commit(), log.end()), (Err(failed), Err(failed)));
    }
}
