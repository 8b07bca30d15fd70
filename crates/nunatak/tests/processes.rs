//! Files and processes: forks, copies of open files, and many that create one file at once.
#![cfg(all(target_os = "linux", not(modelled)))]

mod forks;
mod kinds;

use forks::in_fork;
use kinds::{Kind, Test, for_each_kind, small};
use nunatak::durable::{Durability, FileKind, FileMap, IcebergMap, MapInFile, Options};
use nunatak::{Error, FileError};
use std::fs;
use std::path::Path;
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::Duration;

const KEYS: u64 = 1000;

/// Runs a test of this file while no other one runs. A fork has one thread, and would wait for ever
/// for an operation that another thread had begun.
fn alone_for_each_kind(test: &impl Test) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for_each_kind(test);
}

struct Forks(Durability);

impl Test for Forks {
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        let map = FileMap::<T>::create_with(&path, &small().durability(self.0)).unwrap();
        (0..KEYS).for_each(|key| (kind.put)(&map, key).unwrap());
        let mut handle = Some(map);
        let forked = Err(Error::File(FileError::Forked));
        let of_fork = core::mem::take(&mut handle).map(std::mem::ManuallyDrop::new);
        let of_fork = of_fork.as_ref().unwrap();
        // SAFETY: in the fork, and in this process, the handle is used up once.
        let take = || unsafe { core::ptr::read(&raw const **of_fork) };
        in_fork(
            || {
                let map = take();
                let is_refused = (kind.put)(&map, KEYS) == forked
                    && (kind.remove)(&map, 1).map(drop) == forked
                    && map.sync() == forked
                    && map.reserve(1 << 20) == forked
                    && map.shrink_to_fit() == forked
                    && map.clear() == forked;
                is_refused && map.close() == forked
            },
            || {
                let map = take();
                (KEYS..2 * KEYS).for_each(|key| (kind.put)(&map, key).unwrap());
                assert!(kind.is_whole(&map, 2 * KEYS), "{}", kind.name);
                map.close().unwrap();
                // Though the fork has the file open.
                let map = kind.open(&path).unwrap();
                assert!(map.recovery().was_closed && kind.is_whole(&map, 2 * KEYS));
                drop(map);
            },
        );
        let map = kind.open(&path).unwrap();
        assert!(map.recovery().was_closed, "{}", kind.name);
        assert_eq!(map.verify(), Ok(2 * KEYS as usize), "{}", kind.name);
        // A fork that just drops the handle, or ends.
        in_fork(
            || {
                // SAFETY: the fork's copy; the parent's is another one.
                drop(unsafe { core::ptr::read(&raw const map) });
                true
            },
            || (2 * KEYS..3 * KEYS).for_each(|key| (kind.put)(&map, key).unwrap()),
        );
        drop(map);
        let map = kind.open(&path).unwrap();
        assert!(map.recovery().was_closed && kind.is_whole(&map, 3 * KEYS), "{}", kind.name);
    }
}

#[test]
fn a_fork_changes_nothing() {
    alone_for_each_kind(&Forks(Durability::Process));
    alone_for_each_kind(&Forks(Durability::Interval(Duration::from_millis(1))));
}

struct Unrecovered;

impl Test for Unrecovered {
    /// What recovery of a part stores would be in the parent's file.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        let map = kind.create(&path, KEYS);
        let killed = fs::read(&path).unwrap();
        drop(map);
        fs::write(&path, killed).unwrap();
        let map = kind.open(&path).unwrap();
        let opened = fs::read(&path).unwrap();
        if map.recovery().items == KEYS as usize {
            // Maps that are read as a whole when they are opened.
            return;
        }
        in_fork(
            || {
                std::panic::set_hook(Box::new(|_| {}));
                let read = std::panic::AssertUnwindSafe(|| (kind.has)(&map, 0));
                std::panic::catch_unwind(read).is_err()
            },
            || assert!(fs::read(&path).unwrap() == opened, "{}", kind.name),
        );
        assert!(kind.is_whole(&map, KEYS), "{}", kind.name);
        assert_eq!(map.verify(), Ok(KEYS as usize), "{}", kind.name);
    }
}

#[test]
fn a_fork_recovers_no_part_of_its_parents_file() {
    alone_for_each_kind(&Unrecovered);
}

struct Limited;

impl Test for Limited {
    /// The limit of a process for the size of its files is a full disk, and not a signal.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        drop(kind.create(&path, 10));
        let bytes = fs::metadata(&path).unwrap().len() + 300_000;
        in_fork(
            || {
                let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
                // SAFETY: of the fork alone.
                assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
                let map = kind.open(&path).unwrap();
                let full = Err(Error::File(FileError::Full));
                let keys = (10..1 << 20).find(|&key| (kind.put)(&map, key) == full);
                map.sync().unwrap();
                keys.is_some_and(|keys| kind.is_whole(&map, keys)) && map.close().is_ok()
            },
            || {},
        );
        assert!(fs::metadata(&path).unwrap().len() <= bytes, "{}", kind.name);
        let map = kind.open(&path).unwrap();
        let keys = map.len() as u64;
        assert!(map.recovery().was_closed && keys > 10, "{}: {keys}", kind.name);
        // Without the limit it grows again.
        (keys..2 * keys).for_each(|key| (kind.put)(&map, key).unwrap());
        assert!(map.verify().is_ok());
    }
}

#[test]
fn a_limit_of_the_process_is_a_full_disk() {
    alone_for_each_kind(&Limited);
}

struct Copies;

impl Test for Copies {
    /// A copy of an open file is in the state of the last sync, or refused: never a mixture.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let directory = tempfile::tempdir().unwrap();
        let (path, copy) = (directory.path().join("map"), directory.path().join("copy"));
        let map = kind.create(&path, KEYS);
        map.sync().unwrap();
        (KEYS..2 * KEYS).for_each(|key| (kind.put)(&map, key).unwrap());
        // In place of a snapshot: nothing changes the file meanwhile.
        fs::copy(&path, &copy).unwrap();
        let opened = kind.open(&copy).unwrap();
        assert!(opened.verify().is_ok() && !opened.recovery().was_closed);
        assert!((0..KEYS).all(|key| (kind.has)(&opened, key)), "{}", kind.name);
        // Iceberg hash tables keep more than the last sync if the disk has more.
        let is_of_sync = kind.name == "iceberg" || opened.len() as u64 == KEYS;
        assert!(is_of_sync, "{}: {}", kind.name, opened.len());
        drop(opened);
        // The file itself is that of a killed process: nothing is lost.
        let killed = fs::read(&path).unwrap();
        drop(map);
        fs::write(&path, &killed).unwrap();
        let map = kind.open(&path).unwrap();
        assert!(kind.is_whole(&map, 2 * KEYS), "{}", kind.name);
        drop(map);
        // Unless the caller knows better.
        fs::write(&path, &killed).unwrap();
        let cut = Options::new().after_power_cut(true);
        let map = FileMap::<T>::open_with(&path, &cut).unwrap();
        assert!(kind.name == "iceberg" || kind.is_whole(&map, KEYS), "{}", kind.name);
        assert!(map.verify().is_ok());
    }
}

#[test]
fn a_copy_of_an_open_file_is_no_file_of_a_killed_process() {
    alone_for_each_kind(&Copies);
}

struct Creating;

impl Test for Creating {
    /// One creates the file; all others learn that it exists, or that it is in use.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        for _ in 0..20 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("map");
            for may_open in [false, true] {
                let path = path.with_extension(if may_open { "opened" } else { "created" });
                let threads = 6;
                let (start, end) = (Barrier::new(threads), Barrier::new(threads));
                let create = || {
                    start.wait();
                    let map: Result<FileMap<T>, Error> = match may_open {
                        true => FileMap::open_or_create_with(&path, &small()),
                        false => FileMap::create_with(&path, &small()),
                    };
                    end.wait();
                    if let Ok(map) = &map {
                        (0..10).for_each(|key| (kind.put)(map, key).unwrap());
                    }
                    map.map(drop)
                };
                let results: Vec<_> = std::thread::scope(|scope| {
                    let all: Vec<_> = (0..threads).map(|_| scope.spawn(create)).collect();
                    all.into_iter().map(|thread| thread.join().unwrap()).collect()
                });
                assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
                let error = if may_open { FileError::InUse } else { FileError::Exists };
                let is_told = |result: &&Result<(), Error>| **result == Err(Error::File(error));
                assert_eq!(results.iter().filter(is_told).count(), threads - 1, "{results:?}");
                assert!(kind.is_whole(&kind.open(&path).unwrap(), 10), "{}", kind.name);
            }
            assert_eq!(names(directory.path()), ["map.created", "map.opened"]);
        }
    }
}

fn names(directory: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let names = fs::read_dir(directory).unwrap().map(name);
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn one_of_many_creates_a_file() {
    alone_for_each_kind(&Creating);
}

/// A pipe is no map, and opening it does not wait for its other end.
#[test]
fn a_pipe_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: a string with a zero at its end.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let (answer, answered) = std::sync::mpsc::channel();
    // A thread that waits for ever does not hold the test up.
    std::thread::spawn(move || {
        answer.send(FileKind::of(&path).is_err()).unwrap();
        answer.send(IcebergMap::<u64, u64>::open(&path).is_err()).unwrap();
    });
    for what in ["its kind", "the map"] {
        assert_eq!(answered.recv_timeout(Duration::from_secs(60)), Ok(true), "{what}");
    }
}
