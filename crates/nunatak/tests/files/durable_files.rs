//! Files of durable maps: their contents, damage, and refusals of the system.

use crate::full_disk::fill;
use crate::sampling::one_in;
use crate::temporary::{Temporary, error};
use nunatak::durable::{
    Durability, DurableDesign, IcebergMap, InFile, Options, Persistency, Simulation,
};
use nunatak::{Blocks, Error, FileError, Iceberg, Op, Outcome, Request, Stop, durable};
use std::fs;
use std::time::{Duration, Instant};

type Map = IcebergMap<u64, u64>;
type Small = durable::Map<u64, u64, InFile<Iceberg<Blocks<8, 2>>>>;

#[test]
fn a_map_is_there_again() {
    let path = Temporary::new();
    let map: Map = IcebergMap::create(&path).unwrap();
    for key in 0..100_000 {
        assert_eq!(map.insert(key, key * 2), Ok(None));
    }
    assert_eq!(map.remove(&7), Ok(Some(14)));
    map.close().unwrap();
    for threads in [1, 2, 5] {
        let map: Map = IcebergMap::open_with(&path, &Options::new().threads(threads)).unwrap();
        assert_eq!((map.len(), map.verify()), (99_999, Ok(99_999)));
        let recovery = map.recovery();
        assert!(recovery.was_closed && recovery.items == 99_999, "{recovery:?}");
        assert_eq!((recovery.moved, recovery.dropped), (0, 0));
        (0..100_000).for_each(|key| {
            assert_eq!(map.get(&key), (key != 7).then_some(key * 2));
        });
    }
}

#[test]
fn every_key_and_value_can_be_stored() {
    let path = Temporary::new();
    let words = [0, 1, 2, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, 1 << 62];
    let map: Map = IcebergMap::create(&path).unwrap();
    for key in words {
        words.iter().for_each(|value| {
            map.insert(key, *value).unwrap();
        });
    }
    drop(map);
    let map: Map = IcebergMap::open(&path).unwrap();
    assert!(words.iter().all(|key| map.get(key) == Some(1 << 62)));
    assert_eq!(map.len(), words.len());
}

/// Pairs that a resize has left in their old slots are shown by no iteration.
#[test]
fn iterations_while_the_map_grows_show_each_key_once() {
    let simulation = Simulation::new(Persistency::Pages);
    let map: Small = simulation.create(&Options::new()).unwrap();
    let mut model = std::collections::BTreeMap::new();
    for key in 0..4000_u64 {
        map.insert(key, key + 1).unwrap();
        model.insert(key, key + 1);
        let other = key * 7919 % (key + 1);
        if key % 3 == 0 {
            map.remove(&other).unwrap();
            model.remove(&other);
        } else if let Some(value) = model.get_mut(&other) {
            *value += 1 << 32;
            map.update(&other, *value).unwrap();
        }
        if key % 16 == 0 {
            let mut shown: Vec<_> = map.iter().collect();
            shown.sort_unstable();
            assert!(shown.into_iter().eq(model.iter().map(|(&key, &value)| (key, value))), "{key}");
        }
    }
}

/// A file executes a batch in portions, so that each of them has room.
#[test]
fn a_batch_of_several_portions_is_executed_and_stopped_as_one() {
    let path = Temporary::new();
    let map: Map = IcebergMap::create(&path).unwrap();
    assert!(map.is_empty());
    let inserts = |keys: core::ops::Range<u64>| -> Vec<Op<u64, u64>> {
        keys.map(|key| Op::new(Request::Insert(key, key + 1))).collect()
    };
    assert_eq!(map.execute(&mut inserts(0..5000), Stop::Never), Ok(5000));
    assert!(!map.is_empty() && map.len() == 5000);
    for key in 0..5000 {
        let slot = map.slot(&key).unwrap();
        assert_eq!((map.get(&key), map.get_at(&slot)), (Some(key + 1), Some((key, key + 1))));
    }
    // The insert of a present key fails: within a portion, and as the last one of a portion.
    for failing in [3000, 3071] {
        let map: Map = IcebergMap::create(Temporary::new()).unwrap();
        map.insert(u64::MAX, 7).unwrap();
        let mut operations = inserts(0..5000);
        operations[failing] = Op::new(Request::TryInsert(u64::MAX, 8));
        assert_eq!(map.execute(&mut operations, Stop::AtFirstFailure), Ok(failing + 1));
        assert_eq!(operations[failing].outcome, Outcome::Occupied(7));
        assert!(operations[failing + 1..].iter().all(|it| it.outcome == Outcome::Pending));
        assert_eq!(map.len(), failing + 1);
    }
}

#[test]
fn files_of_other_kinds_are_refused() {
    let path = Temporary::new();
    for contents in [&b""[..], b"NUNATAK", &[0; 100_000], &[0xFF; 5000], b"SQLite format 3\0"] {
        fs::write(&path, contents).unwrap();
        assert_eq!(Map::open(&path).unwrap_err(), error(FileError::NotAMap));
    }
    assert_eq!(Map::create(&path).unwrap_err(), error(FileError::Exists));
    assert_eq!(Map::open(std::env::temp_dir()).unwrap_err().to_string(), {
        let code = rustix::io::Errno::ISDIR.raw_os_error();
        error(FileError::Io { action: "open the file", code }).to_string()
    });
    assert!(matches!(
        Map::open("/nonexistent/map"),
        Err(Error::File(FileError::Io { action: "open the file", .. }))
    ));
    assert!(matches!(
        Map::create("/nonexistent/map"),
        Err(Error::File(FileError::Io { action: "create the file", .. }))
    ));
    assert_eq!(Map::open("/dev/null").unwrap_err(), error(FileError::NotAMap));
}

#[test]
fn files_of_other_types_are_refused() {
    let path = Temporary::new();
    drop(IcebergMap::<u64, u32>::create(&path).unwrap());
    let what = |error: Error| match error {
        Error::File(FileError::OtherKind { what }) => what,
        other => panic!("{other}"),
    };
    assert_eq!(what(Map::open(&path).unwrap_err()), "type of keys or values");
    let other: Result<durable::Map<u64, u32, InFile<Iceberg<Blocks<32, 4>>>>, Error> =
        durable::Map::open(&path);
    assert_eq!(what(other.unwrap_err()), "size of blocks");
}

#[test]
fn a_file_is_open_once() {
    let path = Temporary::new();
    let map: Map = IcebergMap::create(&path).unwrap();
    assert_eq!(Map::open(&path).unwrap_err(), error(FileError::InUse));
    let reading = Options::new().read_only(true);
    assert_eq!(Map::open_with(&path, &reading).unwrap_err(), error(FileError::InUse));
    map.insert(1, 10).unwrap();
    drop(map);
    let first: Map = IcebergMap::open_with(&path, &reading).unwrap();
    let second: Map = IcebergMap::open_with(&path, &reading).unwrap();
    assert_eq!((first.get(&1), second.get(&1)), (Some(10), Some(10)));
    assert_eq!(Map::open(&path).unwrap_err(), error(FileError::InUse));
    for refused in [
        first.insert(2, 20).map(drop),
        first.remove(&1).map(drop),
        first.insert_many(&[(3, 3)], &mut [None]).map(drop),
        first.clear(),
        first.reserve(1000),
    ] {
        assert_eq!(refused, Err(error(FileError::ReadOnly)));
    }
    assert_eq!(first.get(&1), Some(10));
}

#[test]
fn a_file_that_may_be_read_only_is_read() {
    let path = Temporary::new();
    let map: Map = IcebergMap::create(&path).unwrap();
    (0..1000).for_each(|key| {
        map.insert(key, key).unwrap();
    });
    drop(map);
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).unwrap();
    let before = fs::read(&path).unwrap();
    let map: Map = IcebergMap::open_with(&path, &Options::new().read_only(true)).unwrap();
    assert_eq!(map.len(), 1000);
    map.sync().unwrap();
    drop(map);
    assert!(fs::read(&path).unwrap() == before);
}

/// A file cut off at any length: opening fails, and the file stays as it was.
#[test]
fn truncated_files_are_refused() {
    let path = Temporary::new();
    let map: Map = IcebergMap::create(&path).unwrap();
    (0..20_000).for_each(|key| {
        map.insert(key, key).unwrap();
    });
    map.close().unwrap();
    let whole = fs::read(&path).unwrap();
    for length in (0..whole.len()).step_by(64 << 10).flat_map(|at| [at, at + 1, at + 4096]) {
        if length >= whole.len() {
            continue;
        }
        fs::write(&path, &whole[..length]).unwrap();
        match Map::open(&path) {
            Err(Error::File(FileError::Truncated { .. } | FileError::NotAMap)) => {
                assert_eq!(fs::metadata(&path).unwrap().len() as usize, length);
            }
            // Level 3 may have left no trace in the rest of the file.
            Ok(map) => assert_eq!(map.verify(), Ok(map.len())),
            Err(other) => panic!("cut off at {length}: {other}"),
        }
    }
}

/// Damages every bit of the header and random bits of the rest. Opening fails, or the map is whole.
#[test]
fn damaged_files_are_refused_or_mended() {
    let simulation = Simulation::new(Persistency::Pages);
    let map: Small = simulation.create(&Options::new()).unwrap();
    (0..60).for_each(|key| {
        map.insert(key, key).unwrap();
    });
    map.close().unwrap();
    let whole = simulation.crash(simulation.moment()).latest();
    let try_image = |image: &[u8]| {
        let simulation = Simulation::of(image, Persistency::Pages);
        let opened: Result<durable::Map<u64, u64, InFile<Iceberg<Blocks<8, 2>>>>, _> =
            simulation.open(&Options::new().threads(1));
        match opened {
            Err(Error::File(_) | Error::CapacityOverflow | Error::OutOfMemory { .. }) => {}
            Err(other) => panic!("{other}"),
            Ok(map) => {
                assert_eq!(map.verify(), Ok(map.iter().count()));
                (0..100).for_each(|key| {
                    map.insert(key, key).unwrap();
                });
                assert_eq!(map.verify(), Ok(map.len()));
            }
        }
    };
    let mut image = whole.clone();
    // Odd, so that each bit of a byte has its turn.
    let every = |bits| one_in(bits) | 1;
    let header = (0..1024 * 8).step_by(every(1)).chain((1024 * 8..4096 * 8).step_by(every(101)));
    let rest = (4096 * 8..whole.len() * 8).step_by(every(1009)).take(3000);
    for bit in header.chain(rest) {
        image[bit / 8] ^= 1 << (bit % 8);
        try_image(&image);
        image[bit / 8] ^= 1 << (bit % 8);
    }
    // Words that look valid.
    for at in (0..4096).step_by(8) {
        for word in [0, 1, u64::MAX, 1 << 63, 1 << 34, 3 << 34, 4 << 34 | 1, 5 << 34 | 0xFF] {
            image[at..at + 8].copy_from_slice(&word.to_ne_bytes());
            try_image(&image);
        }
        image[at..at + 8].copy_from_slice(&whole[at..at + 8]);
    }
}

/// Values that are invalid for their type are found when the file is opened.
#[test]
fn values_of_no_type_are_refused() {
    let simulation = Simulation::new(Persistency::Pages);
    let map: IcebergMap<u64, char> = simulation.create(&Options::new()).unwrap();
    map.insert(1, '\u{10FFFF}').unwrap();
    map.close().unwrap();
    let mut image = simulation.crash(simulation.moment()).latest();
    let word = 0x10_FFFF_u64.to_ne_bytes();
    let at = (0..image.len()).step_by(8).find(|&at| image[at..at + 8] == word).unwrap();
    image[at..at + 8].copy_from_slice(&0xD800_u64.to_ne_bytes());
    let simulation = Simulation::of(&image, Persistency::Pages);
    let opened: Result<IcebergMap<u64, char>, _> = simulation.open(&Options::new());
    assert!(matches!(opened.unwrap_err(), Error::File(FileError::Corrupt { .. })));
}

/// When the disk is full, the map goes on while it has room. Then it returns an error, and keeps
/// every acknowledged change.
#[test]
fn a_full_disk_is_an_error() {
    let simulation = Simulation::new(Persistency::Pages);
    let map: Small = simulation.create(&Options::new()).unwrap();
    simulation.fill_disk_at(Some(map.file_bytes()));
    let stored = fill(|key| map.insert(key, key + 1).map(|before| assert_eq!(before, None)));
    assert!(stored > 1000, "{stored}");
    assert_eq!((map.len() as u64, map.verify()), (stored, Ok(stored as usize)));
    assert!((0..stored).all(|key| map.get(&key) == Some(key + 1)));
    // Changes that need no room go on, and so do changes that make room.
    assert_eq!(map.update(&0, 7), Ok(Some(1)));
    assert_eq!(map.reserve(1 << 20), Err(error(FileError::Full)));
    let mut previous = vec![None; 600];
    let batch: Vec<(u64, u64)> = (0..600).map(|key| (1 << 40 | key, 1)).collect();
    assert_eq!(map.insert_many(&batch, &mut previous), Err(error(FileError::Full)));
    assert_eq!(map.len() as u64, stored);
    (0..stored / 2).for_each(|key| {
        map.remove(&key).unwrap();
    });
    assert_eq!(map.insert(1 << 40, 1), Ok(None));
    simulation.fill_disk_at(None);
    (0..stored).for_each(|key| {
        map.insert(key, key).unwrap();
    });
    assert_eq!(map.verify(), Ok(stored as usize + 1));
}

/// After a failed sync the map makes no promises.
#[test]
fn a_failed_sync_poisons_the_map() {
    let simulation = Simulation::new(Persistency::Pages);
    let map: Map = simulation.create(&Options::new().durability(Durability::Synced)).unwrap();
    map.insert(1, 10).unwrap();
    simulation.fail_sync_after(1);
    map.insert(2, 20).unwrap();
    let failed = map.insert(3, 30).unwrap_err();
    assert!(matches!(failed, Error::File(FileError::Io { action: "write the file", .. })));
    for refused in [map.insert(4, 40).map(drop), map.remove(&1).map(drop), map.sync()] {
        assert_eq!(refused, Err(error(FileError::Poisoned)));
    }
    assert_eq!((map.get(&1), map.get(&2), map.get(&4)), (Some(10), Some(20), None));
    assert_eq!(map.close(), Err(error(FileError::Poisoned)));
}

#[test]
fn a_file_that_gets_shorter_is_noticed() {
    let path = Temporary::new();
    let map: Map = IcebergMap::create(&path).unwrap();
    map.insert(1, 10).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let bytes = map.file_bytes();
    file.set_len(bytes - 4096).unwrap();
    let expected = FileError::Truncated { bytes: bytes - 4096, expected: bytes };
    assert_eq!(map.sync(), Err(error(expected)));
    assert_eq!(map.insert(2, 20), Err(error(FileError::Poisoned)));
    assert_eq!(map.failure(), Some(error(expected)));
    file.set_len(bytes).unwrap();
}

#[test]
fn ordinary_files_are_no_persistent_memory() {
    let path = Temporary::new();
    let options = Options::new().durability(Durability::PersistentMemory);
    let created = Map::create_with(&path, &options);
    if let Err(refused) = created {
        assert_eq!(refused, error(FileError::NotPersistentMemory));
        assert!(!path.as_ref().exists(), "a file was left");
    }
}

/// Every change writes its line back, in the page cache too: each insert and each removal takes at
/// least the time of one line. Such a file is for this level alone.
#[test]
fn emulated_persistent_memory_flushes_every_change() {
    fn flushes<D: DurableDesign>() {
        let (path, latency) = (Temporary::new(), Duration::from_micros(300));
        let level = Options::new().durability(Durability::PersistentMemory).shards(2).threads(1);
        let options = level.clone().emulate_persistent_memory(latency);
        let map: durable::Map<u64, u64, D> = durable::Map::create_with(&path, &options).unwrap();
        let begin = Instant::now();
        (0..10).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
        (0..5).for_each(|key| assert_eq!(map.remove(&key), Ok(Some(key))));
        assert!(begin.elapsed() >= 15 * latency, "{:?}", begin.elapsed());
        drop(map);
        let map = durable::Map::<u64, u64, D>::open_with(&path, &options).unwrap();
        assert_eq!((map.len(), map.get(&7)), (5, Some(7)));
    }
    flushes::<InFile<Iceberg>>();
    flushes::<InFile<nunatak::Pea>>();
    flushes::<InFile<nunatak::Turbo>>();
}

#[test]
fn options_out_of_range_are_refused() {
    let path = Temporary::new();
    for options in [
        Options::new().max_load(0.0),
        Options::new().max_load(f64::NAN),
        Options::new().durability(Durability::Interval(Duration::ZERO)),
        Options::new().threads(0),
    ] {
        assert!(matches!(Map::create_with(&path, &options), Err(Error::InvalidOption { .. })));
    }
    let huge = Options::new().capacity(usize::MAX);
    assert_eq!(Map::create_with(&path, &huge).unwrap_err(), Error::CapacityOverflow);
    assert!(!path.as_ref().exists());
}

#[test]
fn a_background_sync_comes_in_time() {
    let path = Temporary::new();
    let options = Options::new().durability(Durability::Interval(Duration::from_millis(20)));
    let map: Map = IcebergMap::create_with(&path, &options).unwrap();
    let begin = Instant::now();
    // Doublings end without a request.
    (0..200_000).for_each(|key| {
        map.insert(key, key).unwrap();
    });
    while map.stats().unsettled_blocks > 0 && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(map.stats().unsettled_blocks, 0);
    assert_eq!(map.verify(), Ok(200_000));
}

/// A change of an entry outside of level 3 (and in level 3 here) flushes one line once, and fences
/// once.
#[test]
fn a_change_writes_one_line() {
    let simulation = Simulation::new(Persistency::Lines);
    let map: Map = simulation.create(&Options::new().capacity(10_000)).unwrap();
    let count = |change: &dyn Fn()| {
        let before = simulation.moment();
        change();
        let counts = simulation.count(before..simulation.moment());
        (counts.lines_written, counts.lines_flushed, counts.fences, counts.blocks_written)
    };
    for key in 0..9000 {
        assert_eq!(
            count(&|| {
                map.insert(key, 1).unwrap();
            }),
            (1, 1, 1, 1),
            "insert {key}"
        );
    }
    assert!(map.stats().levels[1] > 100);
    for key in 0..9000 {
        assert_eq!(
            count(&|| {
                map.insert(key, 2).unwrap();
            }),
            (1, 1, 1, 1),
            "update {key}"
        );
        assert_eq!(
            count(&|| {
                map.get(&key);
            }),
            (0, 0, 0, 0),
            "get {key}"
        );
        assert_eq!(
            count(&|| {
                assert_eq!(map.try_insert(key, 3), Ok(Err(2)));
            }),
            (0, 0, 0, 0)
        );
    }
    for key in 0..9000 {
        assert_eq!(
            count(&|| {
                map.remove(&key).unwrap();
            }),
            (1, 1, 1, 1),
            "remove {key}"
        );
        assert_eq!(
            count(&|| {
                map.remove(&key).unwrap();
            }),
            (0, 0, 0, 0)
        );
    }
}

/// Table 3 of the paper: 85 % of the file are entries. Here more, since fingerprints are in RAM.
#[test]
fn most_of_a_file_is_entries() {
    let path = Temporary::new();
    let capacity = 1 << 20;
    let map: Map = IcebergMap::create_with(&path, &Options::new().capacity(capacity)).unwrap();
    (0..capacity as u64).for_each(|key| {
        map.insert(key, key).unwrap();
    });
    let share = 16.0 * capacity as f64 / map.file_bytes() as f64;
    assert!(share > 0.85, "{share}");
}

/// Growth extends all parts of a file, and shrinking takes the pages away again.
#[test]
fn an_emptied_map_returns_its_file_to_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let map: IcebergMap<u64, u64> = IcebergMap::create(&path).unwrap();
    let first = map.file_bytes();
    for round in 0..3 {
        // Faster than the file grows, so that level 3 is used, too.
        (0..400_000).for_each(|key| assert!(map.insert(key, round).is_ok()));
        assert!(map.file_bytes() > 400_000 * 16);
        map.retain(|key, _| *key == 7).unwrap();
        map.shrink_to_fit().unwrap();
        assert_eq!((map.file_bytes(), map.len()), (first, 1));
        assert_eq!(std::fs::metadata(&path).unwrap().len(), first);
    }
    map.close().unwrap();
    let map: IcebergMap<u64, u64> = IcebergMap::open(&path).unwrap();
    assert_eq!((map.get(&7), map.verify()), (Some(2), Ok(1)));
}

/// The journal is repeated after a restart of the machine, and only then. An incomplete transaction
/// is not repeated.
#[test]
fn journals_are_repeated_after_another_start_of_the_machine() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let options = Options::new().journal(1 << 20);
    let map: IcebergMap<u64, u64> = IcebergMap::create_with(&path, &options).unwrap();
    (0..100).for_each(|key| assert!(map.insert(key, 0).is_ok()));
    map.sync().unwrap();
    for key in 0..50 {
        map.insert(key, 1).unwrap();
        map.remove(&(key + 50)).unwrap();
        map.sync().unwrap();
    }
    (0..100).for_each(|key| assert!(map.insert(key, 2).is_ok()));
    // The file of a killed process.
    let image = std::fs::read(&path).unwrap();
    drop(map);
    let open = |image: &[u8], was_cut: bool| -> IcebergMap<u64, u64> {
        std::fs::write(&path, image).unwrap();
        IcebergMap::open_with(&path, &Options::new().after_power_cut(was_cut)).unwrap()
    };
    let map = open(&image, false);
    assert!((0..100).all(|key| map.get(&key) == Some(2)));
    drop(map);
    // The file after a power cut. All pages were written, so the test undoes the changes that were
    // not synced.
    let map = open(&image, true);
    assert!((0..50).all(|key| map.get(&key) == Some(1)));
    assert!((50..100).all(|key| map.get(&key).is_none_or(|value| value == 2)));
    assert!(map.verify().is_ok());
    drop(map);
    // Damage anywhere in the first transactions: the transactions before are repeated.
    let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
    let is_first = |&at: &usize| word(at) == word(256) << 16 >> 16 && word(at + 16) >> 32 == 1;
    let journal = (0..image.len()).step_by(512).find(is_first).expect("a transaction");
    for at in (journal..journal + 3000).step_by(41) {
        let mut damaged = image.clone();
        damaged[at] ^= 0x10;
        let map = open(&damaged, true);
        assert!((0..50).all(|key| map.get(&key).is_some()));
        assert!(map.verify().is_ok());
    }
}

/// A power cut while a file is being closed, before, in and after resizes: the file opens, and has
/// all keys.
#[test]
fn files_that_are_being_closed_can_be_opened() {
    type Small = durable::Map<u64, u64, InFile<Iceberg<nunatak::Blocks<8, 2>>>>;
    for keys in (20..300).step_by(one_in(3)) {
        for journal in [0, 64 << 10] {
            let simulation = Simulation::new(Persistency::Pages);
            let options = Options::new().journal(journal).threads(1);
            let map: Small = simulation.create(&options).unwrap();
            (0..keys).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
            map.sync().unwrap();
            // Without a sync: a resize may wait for one, which closing makes.
            (keys..2 * keys).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
            let before = simulation.moment();
            map.close().unwrap();
            for moment in before..=simulation.moment() {
                for image in simulation.crash(moment).images(6, moment as u64) {
                    let again = Simulation::of(&image, Persistency::Pages);
                    let map: Small = again.open(&options).unwrap();
                    assert!((0..keys).all(|key| map.get(&key) == Some(key)), "{keys}");
                    let is_all = map.len() == 2 * keys as usize;
                    assert!(map.verify().is_ok() && (is_all || moment < simulation.moment()));
                }
            }
        }
    }
}

/// A journal without room for a sync's changes begins again, after a barrier.
#[test]
fn a_full_journal_begins_again() {
    const KEYS: u64 = 1000;
    let simulation = Simulation::new(Persistency::Pages);
    // As small as a journal can be: some hundred syncs fill it.
    let options = Options::new().durability(Durability::Synced).journal(1);
    let map: IcebergMap<u64, u64> = simulation.create(&options).unwrap();
    (0..KEYS).for_each(|key| assert_eq!(map.insert(key, !key), Ok(None)));
    let cut = simulation.crash(simulation.moment()).earliest();
    let map: IcebergMap<u64, u64> =
        Simulation::of(&cut, Persistency::Pages).open(&options).unwrap();
    assert_eq!(map.verify(), Ok(KEYS as usize));
    assert!((0..KEYS).all(|key| map.get(&key) == Some(!key)));
}
