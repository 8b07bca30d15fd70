//! The thread of an open map that makes snapshots for readers in other processes.

use crate::error::{Error, FileError};
use crate::memory::durable::{Listener, Pool, Request};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often readers are told that their snapshot is being made.
const INTERVAL: Duration = Duration::from_secs(1);

/// Ends a snapshot before it is whole, by an error.
pub(super) type GoOn<'s> = dyn FnMut() -> Result<(), Error> + 's;

/// The thread that answers readers. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Answering {
    listener: Arc<Listener>,
    thread: Option<JoinHandle<()>>,
}

impl Answering {
    /// Starts a thread that calls a function for snapshots. The function asks now and then whether
    /// it shall go on.
    pub(super) fn start(
        pool: &Pool,
        snapshot: impl Fn(&mut GoOn<'_>) -> Result<OwnedFd, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let listener = Arc::new(Listener::new(pool)?);
        let shared = Arc::clone(&listener);
        let thread = std::thread::Builder::new().name("nunatak-answer".into());
        let thread = thread.spawn(move || answer(&shared, snapshot));
        let thread = thread.map_err(|error| FileError::Io {
            action: "start a thread",
            code: error.raw_os_error().unwrap_or(0),
        })?;
        Ok(Self { listener, thread: Some(thread) })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.listener.stop();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Makes one snapshot after the other. Each is for all readers that have asked before it begins, so
/// a reader waits for two at most.
fn answer(listener: &Listener, snapshot: impl Fn(&mut GoOn<'_>) -> Result<OwnedFd, Error>) {
    let mut next: Vec<Request> = Vec::new();
    while !listener.is_over() {
        if next.is_empty() {
            listener.wait();
        }
        listener.accept(&mut next);
        let mut current = core::mem::take(&mut next);
        current.retain(Request::put_off);
        if current.is_empty() {
            continue;
        }
        let mut told = Instant::now();
        let made = snapshot(&mut || {
            if told.elapsed() >= INTERVAL {
                told = Instant::now();
                listener.accept(&mut next);
                current.retain(Request::put_off);
                next.retain(Request::put_off);
            }
            // Nobody sees this error: the readers are gone, or are refused.
            let is_wanted = !listener.is_over() && !current.is_empty();
            if is_wanted { Ok(()) } else { Err(FileError::InUse.into()) }
        });
        if !listener.is_over() {
            current.iter().for_each(|request| request.answer(&made));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::{
        FileMap, IcebergBlobMap, IcebergMap, MapInFile, PeaBlobMap, PeaMap, PeaMultiMap,
        Persistency, Simulation, TurboBlobMap, TurboMap,
    };
    use crate::durable::{Options, table::FileTable};
    use rustix::fd::{AsFd, AsRawFd};
    use rustix::fs::FlockOperation;
    use std::fs::File;
    use std::path::{Path, PathBuf};

    /// Makes a map on simulated persistent memory, and opens it as another process would while it
    /// has an entry.
    fn is_answered<T: MapInFile>(put: impl Fn(&FileMap<T>), has: impl Fn(&FileMap<T>) -> bool) {
        let simulation = Simulation::new(Persistency::Lines);
        let options = Options::new().segment_buckets(16).shards(16);
        let mut map: FileMap<T> = simulation.create(&options).unwrap();
        let file = map.table().pool().backing().file();
        // A file in memory has no other name.
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        // A simulated file is not locked.
        rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let in_use = Error::File(FileError::InUse);
        assert_eq!(FileMap::<T>::open_beside(&path).unwrap_err(), in_use);
        put(&map);
        map.start_answering().unwrap();
        let snapshot = FileMap::<T>::open_beside(&path).unwrap();
        assert!(has(&snapshot));
        assert_eq!((snapshot.len(), snapshot.verify()), (1, Ok(1)));
        map.close().unwrap();
        assert!(has(&snapshot), "the snapshot is the reader's own");
    }

    #[test]
    fn maps_on_persistent_memory_are_read_beside_their_writer() {
        is_answered(
            |map: &IcebergMap<u64, u64>| assert_eq!(map.insert(1, 10), Ok(None)),
            |map| map.get(&1) == Some(10),
        );
        is_answered(
            |map: &PeaMap<u64, u64>| assert_eq!(map.insert(1, 10), Ok(None)),
            |map| map.get(&1) == Some(10),
        );
        is_answered(
            |map: &TurboMap<u64, u64>| assert_eq!(map.insert(1, 10), Ok(None)),
            |map| map.get(&1) == Some(10),
        );
        is_answered(
            |map: &PeaMultiMap<u64, u64>| assert_eq!(map.insert(1, 10), Ok(())),
            |map| map.get_all(&1).eq([10]),
        );
        is_answered(
            |map: &TurboBlobMap| assert_eq!(map.put(b"a", b"b"), Ok(false)),
            |map| map.get(b"a").as_deref() == Some(b"b"),
        );
        is_answered(
            |map: &PeaBlobMap| assert_eq!(map.put(b"a", b"b"), Ok(false)),
            |map| map.get(b"a").as_deref() == Some(b"b"),
        );
    }

    /// Answers one reader by a file, or by an error, and returns what the reader makes of it.
    fn received(path: &Path, map: &IcebergMap<u64, u64>, answer: Result<OwnedFd, Error>) -> Error {
        let pool = map.table().pool();
        let answer = std::sync::Mutex::new(Some(answer));
        let _answering = Answering::start(pool, move |_| answer.lock().unwrap().take().unwrap());
        IcebergMap::<u64, u64>::open_beside(path).unwrap_err()
    }

    #[test]
    fn a_file_that_is_no_snapshot_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let map: IcebergMap<u64, u64> = IcebergMap::create(at("map")).unwrap();
        let received = |answer| received(&at("map"), &map, answer);
        let file = |name: &str| Ok(OwnedFd::from(File::open(at(name)).unwrap()));
        let not_a_map = Error::File(FileError::NotAMap);
        // Files of others.
        std::fs::write(at("other"), "something else".repeat(10_000)).unwrap();
        assert_eq!(received(file("other")), not_a_map);
        assert_eq!(received(file("")), not_a_map);
        let (pipe, _end) = std::io::pipe().unwrap();
        assert_eq!(received(Ok(pipe.into())), not_a_map);
        PeaMap::<u64, u64>::create(at("pea")).unwrap().close().unwrap();
        let is_other = |error| matches!(error, Error::File(FileError::OtherKind { .. }));
        assert!(is_other(received(file("pea"))));
        IcebergMap::<u32, u64>::create(at("types")).unwrap().close().unwrap();
        assert!(is_other(received(file("types"))));
        // Damaged ones.
        map.backup(at("damaged")).unwrap();
        let damaged = File::options().write(true).open(at("damaged")).unwrap();
        let bytes = damaged.metadata().unwrap().len();
        damaged.set_len(bytes - 1).unwrap();
        let error = received(file("damaged"));
        assert!(matches!(error, Error::File(FileError::Truncated { .. })), "{error}");
        // A descriptor that can't be read.
        let error = received(Ok(damaged.into()));
        assert!(matches!(error, Error::File(FileError::Io { .. })), "{error}");
        // A reason.
        let error = received(Err(FileError::Full.into()));
        let code = rustix::io::Errno::NOSPC.raw_os_error();
        assert!(matches!(error, Error::File(FileError::Io { code: found, .. }) if found == code));
    }

    /// Also after the map was renamed.
    #[test]
    fn the_snapshot_is_beside_the_map_and_has_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        let map = IcebergBlobMap::create(&path).unwrap();
        let pool = map.table().pool();
        let device = |file: rustix::fd::BorrowedFd<'_>| rustix::fs::fstat(file).unwrap().st_dev;
        let moved = directory.path().join("moved");
        std::fs::rename(&path, &moved).unwrap();
        let (_, file) = crate::memory::durable::file_for_snapshot(pool).unwrap();
        assert_eq!(device(file.as_fd()), device(pool.backing().file()));
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_nlink, 0);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(rustix::io::pwrite(&file, b"a", 0).is_err(), "it can only be read");
    }

    /// Closing a map does not wait for snapshots.
    #[test]
    fn a_snapshot_ends_early_when_the_map_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        let map: IcebergMap<u64, u64> = IcebergMap::create(&path).unwrap();
        let (begin, has_begun) = std::sync::mpsc::channel();
        let (end, has_ended) = std::sync::mpsc::channel();
        let answering = Answering::start(map.table().pool(), move |go_on| {
            begin.send(()).unwrap();
            let begun = Instant::now();
            let mut gone_on = Ok(());
            // Not forever, so that the test would fail.
            while gone_on.is_ok() && begun.elapsed() < 10 * INTERVAL {
                std::thread::yield_now();
                gone_on = go_on();
            }
            end.send(gone_on).unwrap();
            Err(FileError::Full.into())
        });
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| IcebergMap::<u64, u64>::open_beside(&path).map(drop));
            has_begun.recv().unwrap();
            drop(answering);
            let in_use = Err(Error::File(FileError::InUse));
            assert_eq!((has_ended.recv().unwrap(), reader.join().unwrap()), (in_use, in_use));
        });
    }
}
