//! Processes that are killed in the middle of whatever they do.
#![cfg(target_os = "linux")]

use nunatak::durable::{Durability, DurableDesign, InFile, Map, Options};
use nunatak::{Blocks, ConcurrentMap, Iceberg, Pea};
use nunatak_harness::Random;
use nunatak_harness::effort::scaled;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Tells the child where its files are.
const DIRECTORY: &str = "NUNATAK_KILLED_IN";

/// Tells it to have a journal.
const JOURNAL: &str = "NUNATAK_KILLED_WITH_JOURNAL";

/// Tells it to have a map of Pea Hash.
const PEA: &str = "NUNATAK_KILLED_PEA";

type Small = InFile<Iceberg<Blocks<32, 4>>>;
type Contents = BTreeMap<u64, u64>;

/// The operation of this number: the child does it, the parent knows what it does. The
/// number of keys rises and falls, so that the map doubles and halves.
fn operate<M: ConcurrentMap<u64, u64>>(map: &M, number: u64) {
    let (key, action) = choose(number);
    match action {
        0..=5 => {
            map.insert(key, number);
        }
        6 | 7 => {
            map.remove(&key);
        }
        8 if number.is_multiple_of(5000) => map.shrink_to_fit().expect("a shrink"),
        _ => {
            map.update(&key, number);
        }
    }
}

fn choose(number: u64) -> (u64, u64) {
    let mut random = Random::new(number);
    let phase = number / 20_000;
    let (keys, shift) = if phase.is_multiple_of(2) { (30_000, 0) } else { (3000, 4) };
    (random.below(keys), (random.below(10) + shift).min(9))
}

fn apply(contents: &mut Contents, number: u64) {
    let (key, action) = choose(number);
    match action {
        0..=5 => {
            contents.insert(key, number);
        }
        6 | 7 => {
            contents.remove(&key);
        }
        8 if number.is_multiple_of(5000) => {}
        _ => {
            if let Some(value) = contents.get_mut(&key) {
                *value = number;
            }
        }
    }
}

fn acknowledged(file: &File) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0).expect("the count");
    u64::from_le_bytes(bytes)
}

/// Not a test: what the others run, and kill.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let directory = Path::new(&directory);
    let options = Options::new().segment_buckets(16);
    let options = match std::env::var_os(JOURNAL) {
        // So small, and so often, that transactions are written and given up all the time.
        Some(_) => {
            options.durability(Durability::Interval(Duration::from_millis(2))).journal(256 << 10)
        }
        None => options,
    };
    match std::env::var_os(PEA) {
        None => operate_for_ever::<Small>(directory, &options),
        Some(_) => operate_for_ever::<InFile<Pea>>(directory, &options),
    }
}

fn operate_for_ever<D: DurableDesign>(directory: &Path, options: &Options) {
    let map: Map<u64, u64, D> =
        Map::open_or_create_with(directory.join("map"), options).expect("the map");
    let count =
        OpenOptions::new().read(true).write(true).open(directory.join("count")).expect("the count");
    for number in acknowledged(&count).. {
        operate(&map, number);
        count.write_all_at(&(number + 1).to_le_bytes(), 0).expect("the count");
    }
}

#[test]
fn a_killed_process_loses_nothing() {
    // One after the other: a process that one test has just forked would hold what the
    // other has locked until it runs its program.
    kill_again_and_again::<Small>(scaled(100), &[]);
    kill_again_and_again::<Small>(scaled(50), &[JOURNAL]);
    kill_again_and_again::<InFile<Pea>>(scaled(100), &[PEA]);
    // Which syncs all the time, so that pages are copied all the time.
    kill_again_and_again::<InFile<Pea>>(scaled(50), &[PEA, JOURNAL]);
}

fn kill_again_and_again<D: DurableDesign>(rounds: usize, told: &[&str]) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("map");
    std::fs::write(directory.path().join("count"), [0; 8]).expect("the count");
    let count = File::open(directory.path().join("count")).expect("the count");
    let (mut contents, mut done) = (Contents::new(), 0);
    let mut random = Random::new(1);
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "child", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .envs(told.iter().map(|name| (name, "1")))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a process");
        std::thread::sleep(Duration::from_micros(random.below(40_000)));
        child.kill().expect("killed");
        child.wait().expect("its end");
        if !path.exists() {
            continue;
        }
        let acknowledged = acknowledged(&count);
        (done..acknowledged).for_each(|number| apply(&mut contents, number));
        done = acknowledged;
        let map: Map<u64, u64, D> =
            Map::open_with(&path, &Options::new().read_only(true)).expect("the map");
        let found: Contents = map.iter().collect();
        // The one that was under way may have happened.
        let mut next = contents.clone();
        apply(&mut next, done);
        assert!(found == contents || found == next, "round {round}, after {done} operations");
        assert_eq!(map.verify(), Ok(found.len()));
        drop(map);
        // Recovered for good, and closed, now and then.
        if random.once_in(2) {
            let map: Map<u64, u64, D> = Map::open(&path).expect("the map");
            assert_eq!(map.iter().collect::<Contents>(), found);
            // What was under way is done again, which changes nothing more.
        }
    }
    println!("{done} operations");
    assert!(done > 100 * rounds as u64, "the processes did nothing: {done}");
}
