//! Maps with logs whose power is cut: copies of their files.

use super::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tempfile::TempDir;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A folder with a map, and its log.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn map(&self) -> PathBuf {
        self.0.path().join("data.map")
    }

    fn open(&self, segment_bytes: u64) -> Result<MapFile, FileError> {
        MapFile::open_with(&self.map(), Durability::Always, Sizes::of_segments(segment_bytes))
    }

    /// The map as any other program sees it.
    fn open_map(&self) -> TurboBlobMap {
        TurboBlobMap::open(self.map()).unwrap()
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    /// The files as a power cut leaves them: a copy of a map that is open counts as one.
    fn cut(&self, map: &MapFile) -> Self {
        loop {
            let (copy, before) = (Self::new(), (self.files(), map.last_sync()));
            let is_copied = before.0.iter().all(|file| {
                let name = file.file_name().unwrap();
                // A segment may be removed meanwhile.
                std::fs::copy(file, copy.0.path().join(name)).is_ok()
            });
            if is_copied && (self.files(), map.last_sync()) == before {
                return copy;
            }
        }
    }

    fn last_segment(&self) -> PathBuf {
        let number = |file: &PathBuf| file.extension()?.to_str()?.parse::<u64>().ok();
        self.files().into_iter().max_by_key(number).unwrap()
    }
}

fn contents(map: &TurboBlobMap) -> Model {
    map.pin().iter().map(|(key, record)| (key.to_vec(), record.to_vec())).collect()
}

/// Makes random changes, and returns what the map had after each.
struct Steps {
    random: u64,
    history: Vec<Model>,
}

impl Steps {
    fn new() -> Self {
        Self { random: 7, history: vec![Model::new()] }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1);
        (self.random >> 33) % bound
    }

    fn run(&mut self, map: &MapFile) {
        let (mut model, step) = (self.history.last().unwrap().clone(), self.history.len());
        let mut change = |model: &mut Model| {
            let key = format!("key {}", self.below(60)).into_bytes();
            let len = self.below(90) as usize;
            let record = (self.below(3) > 0).then(|| vec![b'a' + len as u8 % 26; len]);
            match &record {
                Some(record) => model.insert(key.clone(), record.clone()),
                None => model.remove(&key),
            };
            (key, record)
        };
        let (key, record) = change(&mut model);
        match (step % 7, record) {
            (3, record) => {
                let others: Vec<_> = (0..8).map(|_| change(&mut model)).collect();
                let changes = [(key, record)].into_iter().chain(others);
                let last: BTreeMap<_, _> = changes.collect();
                let changes: Vec<Change<'_>> =
                    last.iter().map(|(key, record)| (&**key, record.as_deref())).collect();
                map.change_together(&changes).unwrap();
            }
            (_, Some(record)) => drop(map.put(&key, &record).unwrap()),
            (_, None) => drop(map.delete(&key).unwrap()),
        }
        if step % 97 == 96 {
            map.clear().unwrap();
            model.clear();
        }
        self.history.push(model);
    }

    /// Returns the numbers of the steps after which the map had these contents.
    fn of(&self, found: &Model) -> Vec<usize> {
        (0..self.history.len()).filter(|&step| self.history[step] == *found).collect()
    }
}

/// Wherever the power is cut, what was committed is there, and all changes are there up to some step.
#[test]
fn committed_changes_survive_a_power_cut() {
    let (folder, mut steps) = (Folder::new(), Steps::new());
    let map = folder.open(4096).unwrap();
    let (mut committed, mut numbers) = (0, Vec::new());
    for step in 0..600 {
        steps.run(&map);
        if step % 5 == 0 {
            map.commit().unwrap();
            committed = steps.history.len() - 1;
        }
        if step % 31 == 30 {
            // The state of the map, and the log with it.
            map.sync().unwrap();
            committed = steps.history.len() - 1;
        }
        if step % 13 == 0 || step % 31 == 30 {
            let copy = folder.cut(&map);
            numbers.push(copy.files().len());
            let again = copy.open(4096).unwrap();
            let found = contents(&again);
            let when = steps.of(&found);
            assert!(when.iter().any(|&at| at >= committed), "{step}: {when:?}, {committed}");
            drop(again);
            assert_eq!((copy.files(), contents(&copy.open_map())), (vec![copy.map()], found));
        }
    }
    assert_eq!(contents(&map), *steps.history.last().unwrap());
    assert!(map.log_bytes() < 5 * 4096 && map.last_sync() > 10, "{}", map.log_bytes());
}

/// If the end of the log is lost or damaged, the changes before it are there.
#[test]
fn a_torn_log_leaves_an_earlier_state() {
    let (folder, mut steps) = (Folder::new(), Steps::new());
    let map = folder.open(1 << 20).unwrap();
    (0..40).for_each(|_| steps.run(&map));
    map.sync().unwrap();
    let begin = map.log_bytes() as usize;
    (0..40).for_each(|_| steps.run(&map));
    map.commit().unwrap();
    let end = map.log_bytes() as usize;
    let copy = folder.cut(&map);
    let bytes = std::fs::read(copy.last_segment()).unwrap();
    let mut last = 40;
    for at in (begin..=end).step_by(41) {
        let copy = folder.cut(&map);
        let mut torn = bytes[..end].to_vec();
        if at % 2 == 0 {
            torn[at..].fill(0);
        } else if at < end {
            torn[at] ^= 4;
        }
        std::fs::write(copy.last_segment(), torn).unwrap();
        let found = contents(&copy.open(1 << 20).unwrap());
        let step = steps.of(&found).into_iter().find(|&step| step >= last);
        last = step.unwrap_or_else(|| panic!("{at}: not what was there after {last} or later"));
    }
    assert!(last > 76, "{last}");
}

/// A server that ends while it replays the log: the map does not know of the cut any more.
#[test]
fn an_interrupted_replay_begins_again() {
    let (folder, mut steps) = (Folder::new(), Steps::new());
    let map = folder.open(1 << 20).unwrap();
    (0..90).for_each(|_| steps.run(&map));
    map.commit().unwrap();
    let last = steps.history.last().unwrap();
    let copy = folder.cut(&map);
    assert!(MapFile::prepare(&copy.map(), true).unwrap().2);
    let begun = copy.open_map();
    assert!(begun.recovery().was_cut && contents(&begun).is_empty());
    begun.put(last.keys().next().unwrap(), b"an earlier record").unwrap();
    begun.close().unwrap();
    assert_eq!(contents(&copy.open(4096).unwrap()), *last);
}

/// The power is cut again as soon as the log was replayed: the map has it durably.
#[test]
fn a_replayed_log_is_durable_before_it_is_removed() {
    let (folder, mut steps) = (Folder::new(), Steps::new());
    let map = folder.open(1 << 20).unwrap();
    (0..90).for_each(|_| steps.run(&map));
    map.commit().unwrap();
    let copy = folder.cut(&map);
    let (files, left, needs_replay) = MapFile::prepare(&copy.map(), true).unwrap();
    let (files, again) = (files.unwrap(), copy.open_map());
    MapFile::recover(&again, &files, left.unwrap(), needs_replay).unwrap();
    let twice = Folder::new();
    for file in copy.files() {
        std::fs::copy(&file, twice.0.path().join(file.file_name().unwrap())).unwrap();
    }
    assert_eq!(contents(&twice.open(4096).unwrap()), *steps.history.last().unwrap());
}

/// If a server ends while it removes segments that the map has, they do not come back.
#[test]
fn retired_segments_do_not_count() {
    let (folder, mut steps) = (Folder::new(), Steps::new());
    let map = folder.open(4096).unwrap();
    (0..90).for_each(|_| steps.run(&map));
    map.sync().unwrap();
    let copy = folder.cut(&map);
    let control = copy.0.path().join("data.map.log");
    std::fs::write(&control, "r").unwrap();
    let begun = copy.open_map();
    begun.put(b"key 1", b"later").unwrap();
    begun.close().unwrap();
    let map = copy.open(4096).unwrap();
    assert_eq!(map.get(b"key 1").as_deref(), Some(&b"later"[..]));
}

#[test]
fn a_closed_map_has_no_log() {
    let (folder, mut steps) = (Folder::new(), Steps::new());
    let map = folder.open(4096).unwrap();
    assert!(matches!(folder.open(4096), Err(FileError::Log(LogError::InUse))));
    (0..90).for_each(|_| steps.run(&map));
    drop(map);
    assert_eq!(folder.files(), [folder.map()]);
    assert_eq!(contents(&folder.open_map()), *steps.history.last().unwrap());
    // Without a log from here on.
    let map = MapFile::open(&folder.map(), Durability::Process).unwrap();
    assert_eq!((folder.files(), map.log_bytes()), (vec![folder.map()], 0));
}

/// A log is replayed by a server that keeps none, too.
#[test]
fn another_durability_loses_no_log() {
    let (folder, mut steps) = (Folder::new(), Steps::new());
    let map = folder.open(1 << 20).unwrap();
    (0..50).for_each(|_| steps.run(&map));
    map.commit().unwrap();
    let copy = folder.cut(&map);
    let again = MapFile::open(&copy.map(), Durability::Process).unwrap();
    assert_eq!(contents(&again), *steps.history.last().unwrap());
    assert_eq!(copy.files(), [copy.map()]);
}

/// What can't be told is refused, and nothing is removed.
#[test]
fn a_log_that_does_not_fit_is_refused() {
    let (folder, mut steps) = (Folder::new(), Steps::new());
    let early = {
        let map = folder.open(4096).unwrap();
        steps.run(&map);
        map.commit().unwrap();
        let early = folder.cut(&map);
        (0..300).for_each(|_| steps.run(&map));
        map.commit().unwrap();
        while map.last_sync() < 5 {
            steps.run(&map);
            map.sync().unwrap();
        }
        let refused = |copy: &Folder, is_it: fn(&LogError) -> bool| {
            let before = copy.files();
            let error = match copy.open(4096).unwrap_err() {
                FileError::Log(error) => error,
                FileError::Map(error) => panic!("{error}"),
            };
            assert!(is_it(&error) && !error.to_string().is_empty(), "{error:?}");
            assert_eq!(copy.files(), before);
        };
        let copy = folder.cut(&map);
        copy.open_map().close().unwrap();
        refused(&copy, |error| matches!(error, LogError::ClosedByOther(_)));
        let copy = folder.cut(&map);
        std::fs::remove_file(copy.map()).unwrap();
        refused(&copy, |error| matches!(error, LogError::NoMap(_)));
        let copy = folder.cut(&map);
        std::fs::copy(early.map(), copy.map()).unwrap();
        refused(&copy, |error| matches!(error, LogError::Gap(_)));
        let copy = folder.cut(&map);
        let segment = copy.last_segment();
        let mut bytes = std::fs::read(&segment).unwrap();
        bytes[8] = 9;
        std::fs::write(&segment, &bytes).unwrap();
        refused(&copy, |error| matches!(error, LogError::Newer(_, 9)));
        bytes[0] = 0;
        std::fs::write(&segment, &bytes).unwrap();
        refused(&copy, |error| matches!(error, LogError::Unknown(_)));
        early
    };
    assert_eq!(contents(&early.open(4096).unwrap()), steps.history[1]);
}

/// The map is synced, and the first segment removed, when the log is larger than the map: not before.
#[test]
fn a_log_grows_as_large_as_its_map() {
    let folder = Folder::new();
    let sizes = Sizes { segment: 4096, least: 4096, most: 1 << 30 };
    let map = MapFile::open_with(&folder.map(), Durability::Everysec, sizes).unwrap();
    let size = std::fs::metadata(folder.map()).unwrap().len();
    let first = folder.0.path().join("data.map.log.1");
    while map.log_bytes() < size / 2 {
        map.put(b"key", &[0; 1000]).unwrap();
    }
    // Each full segment has woken the thread.
    std::thread::sleep(Duration::from_millis(300));
    assert!(first.exists(), "{} bytes of log, {size} of the map", map.log_bytes());
    let begin = std::time::Instant::now();
    while first.exists() {
        map.put(b"key", &[0; 1000]).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(60), "{} bytes of log", map.log_bytes());
    }
}
