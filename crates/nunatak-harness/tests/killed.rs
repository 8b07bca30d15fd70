//! Processes that are killed at random instants.
#![cfg(target_os = "linux")]

use nunatak::durable::{
    Durability, IcebergBlobMap, InFile, Map, Options, PeaBlobMap, PeaMap, PeaMultiMap,
    TurboBlobMap, TurboMap,
};
use nunatak::{Blocks, Error, Iceberg};
use nunatak_harness::Random;
use nunatak_harness::crashable::Crashable;
use nunatak_harness::crashes::{
    Batches, MultiAction, MultiContents, apply_changes, changes_of, contents_of_multi,
};
use nunatak_harness::effort::scaled;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Tells the child the directory of its files.
const DIRECTORY: &str = "NUNATAK_KILLED_IN";

/// Tells the child to use a journal.
const JOURNAL: &str = "NUNATAK_KILLED_WITH_JOURNAL";

/// Tells the child to use a map of Pea Hash.
const PEA: &str = "NUNATAK_KILLED_PEA";

/// Tells the child to use a map of TurboHash.
const TURBO: &str = "NUNATAK_KILLED_TURBO";

/// Tells the child to use a map of byte strings.
const ICEBERG: &str = "NUNATAK_KILLED_ICEBERG";
const BLOBS: &str = "NUNATAK_KILLED_BLOBS";

/// Tells the child to use a map of many values.
const MULTI: &str = "NUNATAK_KILLED_MULTI";

/// Tells the child to make changes in atomic batches.
const BATCHES: &str = "NUNATAK_KILLED_IN_BATCHES";

type Small = Map<u64, u64, InFile<Iceberg<Blocks<32, 4>>>>;
type Contents = BTreeMap<u64, u64>;
/// A map of many values.
struct Multi(PeaMultiMap<u64, u64>);

/// A map whose process is killed.
trait Victim: Sized {
    type Contents: Default + Clone + PartialEq;
    fn open_or_create(path: &Path, options: &Options) -> Result<Self, Error>;
    fn open(path: &Path, options: &Options) -> Result<Self, Error>;
    /// Runs the operation of this number. A second run directly after the first changes nothing.
    fn operate(&self, number: u64);
    /// Applies the operation of this number to the contents.
    fn apply(contents: &mut Self::Contents, number: u64);
    fn contents(&self) -> Self::Contents;
}

impl<M: Crashable> Victim for M {
    type Contents = Contents;

    fn open_or_create(path: &Path, options: &Options) -> Result<Self, Error> {
        M::open_or_create_file(path, options)
    }

    fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        M::open_file(path, options)
    }

    fn operate(&self, number: u64) {
        operate(self, number);
    }

    fn apply(contents: &mut Contents, number: u64) {
        apply(contents, number);
    }

    fn contents(&self) -> Contents {
        let found = Crashable::contents(self);
        assert_eq!(self.check(), Ok(found.len()));
        found
    }
}

/// A map that is changed by atomic batches.
struct Batched<M>(M);

impl<M: Batches> Victim for Batched<M> {
    type Contents = Contents;

    fn open_or_create(path: &Path, options: &Options) -> Result<Self, Error> {
        M::open_or_create_file(path, options).map(Self)
    }

    fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        M::open_file(path, options).map(Self)
    }

    fn operate(&self, number: u64) {
        self.0.change_together(&changes_of(number, 200)).expect("a batch");
    }

    fn apply(contents: &mut Contents, number: u64) {
        apply_changes(&changes_of(number, 200), contents);
    }

    fn contents(&self) -> Contents {
        Victim::contents(&self.0)
    }
}

/// Draws the key of an operation: a few keys have thousands of values, most have some.
fn key_of_many(random: &mut Random) -> u64 {
    match random.below(3) {
        0 => random.below(3),
        _ => 3 + random.below(1500),
    }
}

/// Returns the operation of this number. A value is the number of the operation that stores it.
fn choose_of_many(number: u64) -> MultiAction {
    let mut random = Random::new(number);
    let key = key_of_many(&mut random);
    match random.below(100) {
        0..=59 => MultiAction::Insert(key, number),
        60 if number.is_multiple_of(3) => MultiAction::RemoveAll(key),
        61..=63 if key >= 3 => MultiAction::RemoveAll(key),
        99 if number.is_multiple_of(500) => MultiAction::Shrink,
        _ => {
            // The value that an operation has stored recently, if it stored one.
            let earlier = number.saturating_sub(1 + random.below(400));
            MultiAction::RemoveOne(key_of_many(&mut Random::new(earlier)), earlier)
        }
    }
}

impl Victim for Multi {
    type Contents = MultiContents;

    fn open_or_create(path: &Path, options: &Options) -> Result<Self, Error> {
        PeaMultiMap::open_or_create_with(path, options).map(Self)
    }

    fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        PeaMultiMap::open_with(path, options).map(Self)
    }

    fn operate(&self, number: u64) {
        match choose_of_many(number) {
            MultiAction::Insert(key, value) if self.0.contains_pair(&key, &value) => {}
            action => action.run(&self.0),
        }
    }

    fn apply(contents: &mut MultiContents, number: u64) {
        choose_of_many(number).apply(contents);
    }

    fn contents(&self) -> MultiContents {
        contents_of_multi(&self.0)
    }
}

/// Runs the operation of this number. The child runs it, and the parent knows its effect. The
/// number of keys rises and falls, so that the map doubles and halves.
fn operate<M: Crashable>(map: &M, number: u64) {
    let (key, action) = choose(number);
    let done = match action {
        0..=5 => map.put(key, number),
        6 | 7 => map.take(key),
        8 if number.is_multiple_of(5000) => map.shrink().map(|()| None),
        _ => map.replace(key, number),
    };
    done.expect("a change");
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

/// Not a test: the process that the other tests start and kill.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let directory = Path::new(&directory);
    let options = Options::new().segment_buckets(16).shards(16);
    let options = match std::env::var_os(JOURNAL) {
        // The journal is so small, and syncs are so frequent, that transactions are written and
        // given up all the time.
        Some(_) => {
            options.durability(Durability::Interval(Duration::from_millis(2))).journal(256 << 10)
        }
        None => options,
    };
    let is_told = |name| std::env::var_os(name).is_some();
    if is_told(BATCHES) && is_told(ICEBERG) {
        operate_for_ever::<Batched<IcebergBlobMap>>(directory, &options);
    } else if is_told(ICEBERG) {
        operate_for_ever::<IcebergBlobMap>(directory, &options);
    } else if is_told(BATCHES) && is_told(BLOBS) && is_told(PEA) {
        operate_for_ever::<Batched<PeaBlobMap>>(directory, &options);
    } else if is_told(BATCHES) && is_told(PEA) {
        operate_for_ever::<Batched<PeaMap<u64, u64>>>(directory, &options);
    } else if is_told(BATCHES) && is_told(TURBO) {
        operate_for_ever::<Batched<TurboMap<u64, u64>>>(directory, &options);
    } else if is_told(BATCHES) {
        operate_for_ever::<Batched<TurboBlobMap>>(directory, &options);
    } else if is_told(BLOBS) && is_told(PEA) {
        operate_for_ever::<PeaBlobMap>(directory, &options);
    } else if is_told(PEA) {
        operate_for_ever::<PeaMap<u64, u64>>(directory, &options);
    } else if is_told(TURBO) {
        operate_for_ever::<TurboMap<u64, u64>>(directory, &options);
    } else if is_told(BLOBS) {
        operate_for_ever::<TurboBlobMap>(directory, &options);
    } else if is_told(MULTI) {
        operate_for_ever::<Multi>(directory, &options);
    } else {
        operate_for_ever::<Small>(directory, &options);
    }
}

fn operate_for_ever<M: Victim>(directory: &Path, options: &Options) {
    let map = M::open_or_create(&directory.join("map"), options).expect("the map");
    let count =
        OpenOptions::new().read(true).write(true).open(directory.join("count")).expect("the count");
    for number in acknowledged(&count).. {
        map.operate(number);
        count.write_all_at(&(number + 1).to_le_bytes(), 0).expect("the count");
    }
}

#[test]
fn a_killed_process_loses_nothing() {
    // The maps are tested in turn. A process that one test has just forked would hold the file
    // locks of another until it runs its program.
    kill_again_and_again::<Small>(scaled(100), &[]);
    kill_again_and_again::<Small>(scaled(50), &[JOURNAL]);
    kill_again_and_again::<PeaMap<u64, u64>>(scaled(100), &[PEA]);
    // This map syncs all the time, so it copies pages all the time.
    kill_again_and_again::<PeaMap<u64, u64>>(scaled(50), &[PEA, JOURNAL]);
    kill_again_and_again::<TurboMap<u64, u64>>(scaled(60), &[TURBO]);
    kill_again_and_again::<TurboMap<u64, u64>>(scaled(30), &[TURBO, JOURNAL]);
    kill_again_and_again::<TurboBlobMap>(scaled(60), &[BLOBS]);
    kill_again_and_again::<TurboBlobMap>(scaled(30), &[BLOBS, JOURNAL]);
    kill_again_and_again::<IcebergBlobMap>(scaled(60), &[ICEBERG]);
    kill_again_and_again::<IcebergBlobMap>(scaled(30), &[ICEBERG, JOURNAL]);
    kill_again_and_again::<PeaBlobMap>(scaled(60), &[BLOBS, PEA]);
    kill_again_and_again::<PeaBlobMap>(scaled(30), &[BLOBS, PEA, JOURNAL]);
    kill_again_and_again::<Batched<PeaMap<u64, u64>>>(scaled(40), &[BATCHES, PEA]);
    kill_again_and_again::<Batched<PeaMap<u64, u64>>>(scaled(20), &[BATCHES, PEA, JOURNAL]);
    kill_again_and_again::<Batched<TurboMap<u64, u64>>>(scaled(40), &[BATCHES, TURBO]);
    kill_again_and_again::<Batched<TurboBlobMap>>(scaled(40), &[BATCHES]);
    kill_again_and_again::<Batched<TurboBlobMap>>(scaled(20), &[BATCHES, JOURNAL]);
    kill_again_and_again::<Batched<IcebergBlobMap>>(scaled(40), &[BATCHES, ICEBERG]);
    kill_again_and_again::<Batched<IcebergBlobMap>>(scaled(20), &[BATCHES, ICEBERG, JOURNAL]);
    kill_again_and_again::<Batched<PeaBlobMap>>(scaled(40), &[BATCHES, BLOBS, PEA]);
    kill_again_and_again::<Batched<PeaBlobMap>>(scaled(20), &[BATCHES, BLOBS, PEA, JOURNAL]);
    kill_again_and_again::<Multi>(scaled(60), &[MULTI]);
    kill_again_and_again::<Multi>(scaled(30), &[MULTI, JOURNAL]);
}

fn kill_again_and_again<M: Victim>(rounds: usize, told: &[&str]) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("map");
    std::fs::write(directory.path().join("count"), [0; 8]).expect("the count");
    let count = File::open(directory.path().join("count")).expect("the count");
    let (mut contents, mut done) = (M::Contents::default(), 0);
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
        // Half of the children are killed while they work, however long this machine takes to start
        // them; the others mostly while they start and open the map.
        let works = round % 2 == 0;
        if works {
            wait_for_an_operation(&mut child, &count, done);
        }
        std::thread::sleep(Duration::from_micros(random.below(40_000)));
        child.kill().expect("killed");
        child.wait().expect("its end");
        if !path.exists() {
            continue;
        }
        let acknowledged = acknowledged(&count);
        (done..acknowledged).for_each(|number| M::apply(&mut contents, number));
        done = acknowledged;
        let map = M::open(&path, &Options::new().read_only(true)).expect("the map");
        let found = map.contents();
        // The operation under way at the kill may have taken effect.
        let mut next = contents.clone();
        M::apply(&mut next, done);
        assert!(found == contents || found == next, "round {round}, after {done} operations");
        drop(map);
        // In about half of the rounds the file is recovered and closed.
        if random.once_in(2) {
            let map = M::open(&path, &Options::new()).expect("the map");
            assert!(map.contents() == found);
            // The next child repeats the operation under way, which changes nothing more.
        }
    }
    println!("{done} operations");
}

/// Waits until the child has acknowledged more than `done` operations.
fn wait_for_an_operation(child: &mut Child, count: &File, done: u64) {
    let begun = Instant::now();
    while acknowledged(count) <= done {
        let ended = child.try_wait().expect("the child's state");
        assert!(ended.is_none(), "a child ended by itself: {ended:?}");
        assert!(begun.elapsed() < Duration::from_secs(120), "no operation in two minutes");
        std::thread::sleep(Duration::from_millis(1));
    }
}
