//! Files that are read while another map changes and syncs them.
#![cfg(all(target_os = "linux", not(modelled)))]

mod forks;

use forks::in_fork;
use nunatak::durable::{
    BlobDesign, BlobsInFile, FileMap, IcebergMap, InFile, InPages, MapInFile, Options,
};
use nunatak::durable::{PeaMap, PeaMultiMap, TurboMap};
use nunatak::{Error, FileError, Iceberg, Pea, Turbo};
use std::fs::Permissions;
use std::io::{BufRead as _, BufReader};
use std::mem::ManuallyDrop;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The keys of a round: more and more, then few again, so that files grow and shrink.
fn keys_of(round: u64) -> u64 {
    [100, 1000, 3000, 9000, 200][round as usize % 5]
}

/// Reads a file again and again while a map changes it. Between two syncs all keys get the number of
/// the round, and others go; `read` returns the pairs of a map.
fn is_read<T: MapInFile>(
    change: impl Fn(&FileMap<T>, u64, Option<u64>) + Sync,
    read: impl Fn(&FileMap<T>) -> Vec<(u64, u64)>,
) where
    FileMap<T>: Sync,
{
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let options = Options::new().segment_buckets(16).shards(16);
    let map = FileMap::<T>::create_with(&path, &options).unwrap();
    let (synced, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !is_over.load(Ordering::Relaxed) {
                round += 1;
                let keys = keys_of(round);
                (0..keys).for_each(|key| change(&map, key, Some(round)));
                (keys..keys_of(round - 1)).for_each(|key| change(&map, key, None));
                map.sync().unwrap();
                synced.store(round, Ordering::Release);
                if round.is_multiple_of(10) {
                    map.shrink_to_fit().unwrap();
                }
            }
            println!("{round} rounds");
        });
        let mut seen = Vec::new();
        for _ in 0..3000 {
            if seen.len() >= 12 {
                break;
            }
            let before = synced.load(Ordering::Acquire);
            let beside = match FileMap::<T>::open_beside(&path) {
                Ok(beside) => beside,
                Err(error) => {
                    is_over.store(true, Ordering::Relaxed);
                    panic!("{error}");
                }
            };
            let pairs = read(&beside);
            let round = pairs.first().map_or(0, |pair| pair.1);
            let is_right = round >= before
                && pairs.iter().all(|pair| pair.1 == round)
                && (round == 0 || pairs.len() as u64 == keys_of(round))
                && beside.verify() == Ok(pairs.len());
            is_over.fetch_or(!is_right, Ordering::Relaxed);
            assert!(is_right, "round {round} after {before}, {:?}", beside.verify());
            seen.push(round);
            assert!(seen.is_sorted());
            seen.dedup();
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(seen.len() >= 12, "{seen:?}");
    });
}

#[test]
fn pea_files_are_read_beside_their_writer() {
    is_read(
        |map: &PeaMap<u64, u64>, key, value| match value {
            Some(value) => drop(map.insert(key, value).unwrap().is_some()),
            None => drop(map.remove(&key).unwrap().is_some()),
        },
        |map| map.iter().collect(),
    );
}

#[test]
fn turbo_files_are_read_beside_their_writer() {
    is_read(
        |map: &TurboMap<u64, u64>, key, value| match value {
            Some(value) => drop(map.insert(key, value).unwrap().is_some()),
            None => drop(map.remove(&key).unwrap().is_some()),
        },
        |map| map.iter().collect(),
    );
}

#[test]
fn files_of_many_values_are_read_beside_their_writer() {
    is_read(
        |map: &PeaMultiMap<u64, u64>, key, value| {
            map.remove_all(&(key / 50 + key % 50 * 1000)).unwrap();
            if let Some(value) = value {
                map.insert(key / 50 + key % 50 * 1000, value).unwrap();
            }
        },
        |map| map.iter().collect(),
    );
}

fn are_byte_strings_read<D: BlobDesign>() {
    let number = |bytes: &[u8]| u64::from_le_bytes(*bytes.first_chunk().unwrap());
    is_read(
        |map: &FileMap<BlobsInFile<D>>, key, value| match value {
            Some(value) => {
                let bytes = value.to_le_bytes().repeat(1 + key as usize % 40);
                map.put(&key.to_le_bytes(), &bytes).unwrap();
            }
            None => {
                map.delete(&key.to_le_bytes()).unwrap();
            }
        },
        |map| {
            map.iter()
                .map(|(key, value)| {
                    assert_eq!(value, value[..8].repeat(1 + number(&key) as usize % 40));
                    (number(&key), number(&value))
                })
                .collect()
        },
    );
}

#[test]
fn byte_strings_are_read_beside_their_writer() {
    are_byte_strings_read::<InFile<Turbo>>();
    are_byte_strings_read::<InFile<Pea>>();
    are_byte_strings_read::<InPages<Iceberg>>();
}

/// Writers change the values of their keys in the order of the keys, round by round. So at any
/// instant the values of one writer's keys are those of a round, and then those of the round before.
#[test]
fn snapshots_are_of_one_instant() {
    const WRITERS: u64 = 3;
    const SNAPSHOTS: usize = 12;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let map: IcebergMap<u64, u64> =
        IcebergMap::create_with(&path, &Options::new().answer_readers(true)).unwrap();
    let rounds: [AtomicU64; WRITERS as usize] = Default::default();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Also if an assertion fails.
        let _end = Ending(&is_over);
        for (writer, done) in rounds.iter().enumerate() {
            let (map, is_over) = (&map, &is_over);
            scope.spawn(move || {
                for round in 1.. {
                    // More and more keys: the table grows.
                    for key in 0..500 + 20 * round.min(1000) {
                        map.insert(key * WRITERS + writer as u64, round).unwrap();
                    }
                    done.store(round, Ordering::Release);
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let mut different = 0;
        for _ in 0..SNAPSHOTS {
            let before = rounds.each_ref().map(|round| round.load(Ordering::Acquire));
            let snapshot = IcebergMap::<u64, u64>::open_beside(&path).unwrap();
            assert_eq!(snapshot.verify(), Ok(snapshot.len()));
            assert!(matches!(snapshot.insert(1, 1), Err(Error::File(FileError::ReadOnly))));
            let mut keys = 0;
            for (writer, before) in before.into_iter().enumerate() {
                let value = |key| snapshot.get(&(key * WRITERS + writer as u64));
                let values: Vec<u64> = (0..).map_while(value).collect();
                let (first, last) = (values.first().copied(), values.last().copied());
                let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
                assert!(first >= before, "round {first} after {before}");
                assert!(first - last <= 1, "{first} and {last}");
                assert!(values.is_sorted_by(|a, b| a >= b), "not of one instant");
                different += usize::from(first != last);
                keys += values.len();
            }
            assert_eq!(snapshot.len(), keys, "keys in the middle are missing");
        }
        // Snapshots were taken in the middle of rounds.
        assert!(different > SNAPSHOTS, "{different}");
    });
}

struct Ending<'f>(&'f AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How many sockets this process has. It has one if it answers readers.
fn sockets() -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let target = |file: std::fs::DirEntry| std::fs::read_link(file.path()).ok();
    let targets = files.filter_map(|file| target(file.ok()?));
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

/// Whether this process has a thread that answers readers.
fn has_thread() -> bool {
    let mut tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
    tasks.any(|task| name(task).is_ok_and(|name| name == "nunatak-answer\n"))
}

/// Waits for something that the system or another thread does a moment later.
fn wait_until(is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not come");
        thread::yield_now();
    }
}

/// Tells a process which file it uses.
const FILE: &str = "NUNATAK_BESIDE";

/// Runs a test of this program in a process of its own, with a path.
fn process_of(test: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    command.env(FILE, path).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// The file of this process, if a test has started it.
fn path_of_process() -> Option<PathBuf> {
    std::env::var_os(FILE).map(PathBuf::from)
}

/// A process that changes a map until it is killed.
struct Writer(Child);

impl Writer {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        // The program itself prints lines, too.
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("is open")));
        Self(child)
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: sends a signal to the child, which was not waited for.
        assert_eq!(unsafe { libc::kill(self.0.id() as libc::pid_t, signal) }, 0);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test of its own: the process that is killed.
#[test]
fn writer() {
    let Some(path) = path_of_process() else { return };
    let options = Options::new().answer_readers(true);
    let map: IcebergMap<u64, u64> = IcebergMap::open_or_create_with(path, &options).unwrap();
    map.insert(0, 1).unwrap();
    println!("the map is open");
    for round in 1.. {
        fill(&map, 10_000, round);
    }
}

fn fill(map: &IcebergMap<u64, u64>, keys: u64, value: u64) {
    for key in 0..keys {
        map.insert(key, value).unwrap();
    }
}

fn beside(path: &Path) -> Result<usize, Error> {
    IcebergMap::<u64, u64>::open_beside(path).map(|map| map.len())
}

const IN_USE: Error = Error::File(FileError::InUse);

#[test]
fn a_killed_writer_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    for _ in 0..5 {
        let mut writer = Writer::start(&mut process_of("writer", &path));
        let asking = AtomicBool::new(true);
        thread::scope(|scope| {
            let ask = || {
                while asking.load(Ordering::Relaxed) {
                    // After the end of the writer it is opened as it is.
                    assert!(beside(&path).map_or_else(|error| error == IN_USE, |keys| keys > 0));
                }
            };
            scope.spawn(ask);
            scope.spawn(ask);
            thread::sleep(Duration::from_millis(200));
            writer.0.kill().unwrap();
            writer.0.wait().unwrap();
            asking.store(false, Ordering::Relaxed);
        });
        assert!(beside(&path).unwrap() > 0);
        let names: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }
}

/// A reader waits for a sign of life, and no longer.
#[test]
fn a_writer_that_does_not_answer_is_no_trouble() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let writer = Writer::start(&mut process_of("writer", &path));
    assert!(beside(&path).is_ok());
    writer.signal(libc::SIGSTOP);
    let begin = Instant::now();
    assert_eq!(beside(&path), Err(IN_USE));
    let waited = begin.elapsed();
    assert!((9..60).contains(&waited.as_secs()), "{waited:?}");
    writer.signal(libc::SIGCONT);
    assert!(beside(&path).is_ok());
    // Dies meanwhile.
    writer.signal(libc::SIGSTOP);
    thread::scope(|scope| {
        let begin = Instant::now();
        let reader = scope.spawn(|| beside(&path));
        thread::sleep(Duration::from_millis(300));
        writer.signal(libc::SIGKILL);
        assert_eq!(reader.join().unwrap(), Err(IN_USE));
        assert!(begin.elapsed() < Duration::from_secs(9));
    });
}

#[test]
fn ten_readers_at_once_are_answered() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let options = Options::new().answer_readers(true);
    let map: IcebergMap<u64, u64> = IcebergMap::create_with(&path, &options).unwrap();
    fill(&map, 50_000, 1);
    thread::scope(|scope| {
        let readers = [(); 10].map(|()| scope.spawn(|| beside(&path)));
        readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), Ok(50_000)));
    });
}

#[test]
fn closing_ends_a_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let options = Options::new().answer_readers(true);
    let map: IcebergMap<u64, u64> = IcebergMap::create_with(&path, &options).unwrap();
    const KEYS: usize = 1_000_000;
    fill(&map, KEYS as u64, 1);
    map.close().unwrap();
    // The moments differ, so that all steps of a snapshot are interrupted.
    let mut refused = 0;
    for milliseconds in (0..20).map(|n| n * 7) {
        let map: IcebergMap<u64, u64> = IcebergMap::open_with(&path, &options).unwrap();
        let begin = Instant::now();
        thread::scope(|scope| {
            let reader = scope.spawn(|| beside(&path));
            thread::sleep(Duration::from_millis(milliseconds));
            map.close().unwrap();
            match reader.join().unwrap() {
                Err(error) => refused += usize::from(error == IN_USE),
                Ok(keys) => assert_eq!(keys, KEYS),
            }
        });
        assert!(begin.elapsed() < Duration::from_secs(9), "{:?}", begin.elapsed());
    }
    assert!(refused >= 5, "{refused}");
}

/// A fork leaves the socket and the lock to its parent, and its handle does not disturb the parent's.
#[test]
fn a_fork_answers_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let options = Options::new().answer_readers(true);
    let map: IcebergMap<u64, u64> = IcebergMap::create_with(&path, &options).unwrap();
    map.insert(1, 10).unwrap();
    let map = ManuallyDrop::new(map);
    // SAFETY: in the fork, and in this process, the handle is used up once.
    let take = || unsafe { core::ptr::read(&raw const *map) };
    in_fork(
        || {
            drop(take());
            true
        },
        || {
            assert_eq!(beside(&path), Ok(1));
            let map = take();
            map.insert(2, 20).unwrap();
            assert_eq!(beside(&path), Ok(2));
            map.close().unwrap();
            // The fork still has the lock and the socket of the handle that was closed.
            let map: IcebergMap<u64, u64> = IcebergMap::open(&path).unwrap();
            let begin = Instant::now();
            assert_eq!(beside(&path), Err(IN_USE));
            assert!(begin.elapsed() < Duration::from_secs(9));
            map.close().unwrap();
            let map: IcebergMap<u64, u64> = IcebergMap::open_with(&path, &options).unwrap();
            assert_eq!(beside(&path), Ok(2));
            drop(map);
        },
    );
}

/// Not a test of its own: the process of the test below, which has no other threads.
#[test]
fn threads() {
    let Some(path) = path_of_process() else { return };
    let options = Options::new().answer_readers(true);
    let map: IcebergMap<u64, u64> = IcebergMap::create_with(&path, &options).unwrap();
    assert_eq!(sockets(), 1);
    // A thread gives itself its name.
    wait_until(has_thread);
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    (0..3).for_each(|_| assert_eq!(beside(&path), Ok(0)));
    // The thread gives up its descriptors when the reader may have ended already.
    wait_until(|| descriptors() <= before);
    // Of a file in no directory.
    std::fs::remove_file(&path).unwrap();
    drop(map);
    assert_eq!(sockets(), 0);
    wait_until(|| !has_thread());
    // Nobody needs these.
    let map: PeaMap<u64, u64> = PeaMap::create_with(&path, &options).unwrap();
    assert_eq!(sockets(), 0);
    map.close().unwrap();
    std::fs::remove_file(&path).unwrap();
    drop(IcebergMap::<u64, u64>::create(&path).unwrap());
    let reader: IcebergMap<u64, u64> =
        IcebergMap::open_with(&path, &options.read_only(true)).unwrap();
    assert_eq!(sockets(), 0);
    drop(reader);
    println!("all is right");
}

#[test]
fn nothing_is_left_of_a_thread_that_answers() {
    let directory = tempfile::tempdir().unwrap();
    let output = process_of("threads", &directory.path().join("map")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("all is right"), "{text}");
}

/// Not a test of its own: a process of another user.
#[test]
fn reader() {
    let Some(path) = path_of_process() else { return };
    println!("found {:?}", beside(&path));
}

/// Root reads what others write; others read what they write themselves.
#[test]
fn users_read_their_own_files() {
    const NOBODY: u32 = 65534;
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root can start processes of other users");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
    let path = directory.path().join("map");
    let options = Options::new().answer_readers(true);
    let map: IcebergMap<u64, u64> = IcebergMap::create_with(&path, &options).unwrap();
    let as_nobody = process_of("reader", &path).uid(NOBODY).output();
    let Ok(output) = as_nobody else {
        println!("skipped: others can't read this program");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("found Err(File(InUse))"), "{text}");
    assert_eq!(beside(&path), Ok(0));
    drop(map);
    let path = directory.path().join("another");
    let _writer = Writer::start(process_of("writer", &path).uid(NOBODY));
    assert!(beside(&path).unwrap() > 0);
    let output = process_of("reader", &path).uid(NOBODY).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("found Ok("), "{text}");
}

#[test]
fn others_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let map: IcebergMap<u64, u64> = IcebergMap::create(&path).unwrap();
    // Without the option.
    assert_eq!(beside(&path), Err(IN_USE));
    map.insert(1, 2).unwrap();
    map.close().unwrap();
    assert_eq!(beside(&path), Ok(1));
    // Of another kind.
    let path = directory.path().join("pea");
    let _map: PeaMap<u64, u64> = PeaMap::create(&path).unwrap();
    assert!(matches!(
        TurboMap::<u64, u64>::open_beside(&path).unwrap_err(),
        Error::File(FileError::OtherKind { .. })
    ));
    assert!(matches!(
        PeaMap::<u64, u64>::open_beside(directory.path().join("none")).unwrap_err(),
        Error::File(FileError::Io { .. })
    ));
}
