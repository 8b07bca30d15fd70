//! `nunatak file crash-test`: kills processes and checks the maps that they leave.
//!
//! A child changes a map, one operation after the other. Each operation follows from its number.
//! The child counts the acknowledged operations in a second file. The parent kills it at a random
//! instant, opens the map, and compares it with the result of those operations. The next child
//! continues from there.

use super::datum::Datum as _;
use super::failure::{Done, Failure, at};
use super::maps::{Kind, MapFile};
use clap::{Args, ValueEnum as _};
use indicatif::ProgressBar;
use nunatak::durable::Options;
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

#[derive(Debug, Args)]
pub(super) struct CrashArgs {
    /// The directory to create the file in; by default that of temporary files.
    directory: Option<PathBuf>,
    /// How many processes to kill.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// The longest time that a process may live, in milliseconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    milliseconds: u64,
    /// The shortest time that a process lives, in milliseconds.
    #[arg(long, default_value_t = 0)]
    least_milliseconds: u64,
    /// The kind of map to test.
    #[arg(long, value_enum, default_value_t = Kind::Iceberg)]
    pub(super) map: Kind,
}

#[derive(Debug, Args)]
pub(super) struct ChildArgs {
    pub(super) path: PathBuf,
    #[arg(long, value_enum)]
    pub(super) map: Kind,
}

/// The values of each key; in most maps a key has one value.
type Contents = BTreeMap<u64, BTreeSet<u64>>;

/// Returns all pairs, in order.
fn pairs_of(contents: &Contents) -> impl Iterator<Item = (u64, u64)> {
    contents.iter().flat_map(|(&key, values)| values.iter().map(move |&value| (key, value)))
}

#[derive(Debug, Clone, Copy)]
enum Action {
    Insert,
    Update,
    Remove,
    Shrink,
}

/// Returns the operation of this number. Keys come and go, so that the file grows and shrinks.
fn choose(number: u64) -> (u64, Action) {
    let mut random = SmallRng::seed_from_u64(number);
    let grows = (number / 50_000).is_multiple_of(2);
    let key = random.random_range(0..100_000);
    let action = match random.random_range(0..10) {
        _ if number % 50_000 == 49_999 => Action::Shrink,
        0..6 if grows => Action::Insert,
        0..3 => Action::Insert,
        6..8 => Action::Update,
        _ => Action::Remove,
    };
    (key, action)
}

/// Applies the operation of this number to the contents. A value is the number of its operation, so
/// no two values are equal.
fn apply<M: MapFile>(contents: &mut Contents, number: u64) {
    let (key, action) = choose(number);
    match action {
        Action::Insert => {
            let values = contents.entry(key).or_default();
            if !M::HAS_MANY {
                values.clear();
            }
            values.insert(number);
        }
        Action::Update if !M::HAS_MANY => {
            if let Some(values) = contents.get_mut(&key) {
                *values = BTreeSet::from([number]);
            }
        }
        Action::Remove => {
            contents.remove(&key);
        }
        Action::Update | Action::Shrink => {}
    }
}

/// Runs the operation of this number. A second run directly after the first changes nothing.
fn operate<M: MapFile>(map: &M, number: u64) -> Result<(), nunatak::Error> {
    let (key, action) = choose(number);
    let (key, value) = (M::Datum::of_number(key), M::Datum::of_number(number));
    match action {
        Action::Insert if M::HAS_MANY && map.values(&key)?.contains(&value) => Ok(()),
        Action::Insert => map.store(&[(key, value)]).map(drop),
        Action::Update => map.update(&key, value),
        Action::Remove => map.remove(&key).map(drop),
        Action::Shrink => map.shrink(),
    }
}

/// Returns the path of the file that counts the operations on a map.
fn counter(map: &Path) -> PathBuf {
    map.with_extension("count")
}

fn acknowledged(count: &File) -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    count.read_exact_at(&mut bytes, 0)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Runs operations in the process that the parent kills.
pub(super) fn child<M: MapFile>(path: &Path) -> Done {
    let failed = |error| Failure::Io(counter(path), error);
    let map = at(path, M::open_or_create(path, &Options::new()))?;
    let count = OpenOptions::new().read(true).write(true).open(counter(path)).map_err(failed)?;
    for number in acknowledged(&count).map_err(failed)?.. {
        at(path, operate(&map, number))?;
        count.write_all_at(&(number + 1).to_le_bytes(), 0).map_err(failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn test<M: MapFile>(args: &CrashArgs) -> Done {
    let directory = args.directory.clone().unwrap_or_else(std::env::temp_dir);
    let path = directory.join(format!("nunatak-crash-test-{}.map", std::process::id()));
    let failed = |error| Failure::Io(counter(&path), error);
    std::fs::write(counter(&path), [0; 8]).map_err(failed)?;
    let result = kill_and_look::<M>(args, &path);
    // After a failure the files are kept, to be inspected.
    if result.is_ok() {
        let _ = std::fs::remove_file(&path);
        let _ = std::fs::remove_file(counter(&path));
        remove_unfinished(&path);
    }
    let Outcome { operations, pairs, bytes, most, fresh } = result?;
    println!(
        "{} processes were killed after {operations} operations: nothing is lost; the file has \
         {bytes} bytes for {pairs} pairs, and had {most} at most; a new file has {fresh} for the \
         same pairs",
        args.rounds
    );
    Ok(ExitCode::SUCCESS)
}

/// Removes the hidden files of processes that were killed while they created the map. Their names
/// begin with that of the map.
fn remove_unfinished(path: &Path) {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return };
    let start = format!(".{}.", name.to_string_lossy());
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&start) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// What all the killed processes have left.
struct Outcome {
    operations: u64,
    pairs: usize,
    bytes: u64,
    /// The greatest size of the file after a kill.
    most: u64,
    /// The size of a new file with the same pairs.
    fresh: u64,
}

fn kill_and_look<M: MapFile>(args: &CrashArgs, path: &Path) -> Result<Outcome, Failure> {
    let failed = |error| Failure::Io(counter(path), error);
    let count = File::open(counter(path)).map_err(failed)?;
    let kind = args.map.to_possible_value().ok_or(Failure::Test("no such map".to_owned()))?;
    let program = std::env::current_exe().map_err(failed)?;
    let (mut contents, mut done) = (Contents::new(), 0);
    let mut random = SmallRng::seed_from_u64(42);
    let (least, longest) = (args.least_milliseconds * 1000, args.milliseconds * 1000);
    let lives = least..=longest.max(least);
    let mut most = 0;
    let bar = ProgressBar::new(args.rounds);
    for round in 0..args.rounds {
        let mut child = Command::new(&program)
            .args(["file", "crash-child", "--map", kind.get_name()])
            .arg(path)
            .stdout(Stdio::null())
            .spawn()
            .map_err(failed)?;
        std::thread::sleep(Duration::from_micros(random.random_range(lives.clone())));
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Err(Failure::Test(format!(
                "{}: after {round} kills a process has failed: {status}",
                path.display()
            )));
        }
        child.kill().map_err(failed)?;
        child.wait().map_err(failed)?;
        bar.inc(1);
        // A log has no bar, and a long run would say nothing for an hour. Ten lines, whatever the length.
        if bar.is_hidden() && (round + 1) % args.rounds.div_ceil(10) == 0 {
            eprintln!("{}: {} of {} kills", kind.get_name(), round + 1, args.rounds);
        }
        if !path.exists() {
            continue;
        }
        let acknowledged = acknowledged(&count).map_err(failed)?;
        (done..acknowledged).for_each(|number| apply::<M>(&mut contents, number));
        done = acknowledged;
        let map = at(path, M::open(path, &Options::new().read_only(true)))?;
        most = most.max(map.file_bytes());
        at(path, map.verify())?;
        let pairs = map.pairs().map(|(key, value)| key.number().zip(value.number()));
        let torn = || Failure::Test(format!("{}: a pair is torn", path.display()));
        // Sorted pairs are compared faster than two maps, and show a pair that is there twice.
        let mut found = pairs.collect::<Option<Vec<_>>>().ok_or_else(torn)?;
        found.sort_unstable();
        // The operation under way at the kill may have taken effect or not.
        if !pairs_of(&contents).eq(found.iter().copied()) {
            let mut next = contents.clone();
            apply::<M>(&mut next, done);
            if !pairs_of(&next).eq(found) {
                return Err(Failure::Test(format!(
                    "{}: after {done} operations and {round} kills the map is not what was acknowledged",
                    path.display()
                )));
            }
        }
    }
    bar.finish_and_clear();
    let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
    let pairs = pairs_of(&contents).count();
    let fresh = bytes_of_new::<M>(&contents, path)?;
    Ok(Outcome { operations: done, pairs, bytes, most, fresh })
}

/// Returns the size of a new file with these pairs, which it makes beside the map and removes.
fn bytes_of_new<M: MapFile>(contents: &Contents, path: &Path) -> Result<u64, Failure> {
    let path = path.with_extension("new");
    let map = at(&path, M::create(&path, &Options::new()))?;
    for (key, value) in pairs_of(contents) {
        at(&path, map.store(&[(M::Datum::of_number(key), M::Datum::of_number(value))]))?;
    }
    let bytes = map.file_bytes();
    drop(map);
    let _ = std::fs::remove_file(&path);
    Ok(bytes)
}
