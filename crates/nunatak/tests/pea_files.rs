//! Files of durable maps of Pea Hash: what is in them, what may be wrong with them, what
//! the system may refuse, and what operations write.
#![cfg(all(target_os = "linux", not(any(loom, shuttle))))]

mod temporary;

use nunatak::durable::{Durability, IcebergMap, InFile, Options, PeaMap, Persistency, Simulation};
use nunatak::{Error, FileError, Pea};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use temporary::{Temporary, error};

type Map = PeaMap<u64, u64>;

/// Segments that tens of keys split.
fn small() -> Options {
    Options::new().segment_buckets(2)
}

#[test]
fn a_map_is_there_again() {
    let directory = Temporary::new();
    let map: Map = PeaMap::create(directory.path()).unwrap();
    for key in 0..200_000 {
        assert_eq!(map.insert(key, key * 2), Ok(None));
    }
    assert_eq!(map.remove(&7), Ok(Some(14)));
    let stats = map.stats();
    map.close().unwrap();
    for _ in 0..2 {
        let map: Map = PeaMap::open(directory.path()).unwrap();
        assert_eq!((map.len(), map.verify()), (199_999, Ok(199_999)));
        let recovery = map.recovery();
        assert!(recovery.was_closed && recovery.items == 199_999, "{recovery:?}");
        assert_eq!((map.stats().strategies, map.stats().depth), (stats.strategies, stats.depth));
        (0..200_000).for_each(|key| {
            assert_eq!(map.get(&key), (key != 7).then_some(key * 2));
        });
    }
}

/// A file that version 1 of the format has written, with the squares of the numbers
/// below a thousand: it can be read for ever.
#[test]
fn a_file_of_version_1_is_read() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pea-1.map");
    let read = Options::new().read_only(true);
    let map: Map = PeaMap::open_with(&golden, &read).unwrap();
    assert_eq!((map.len(), map.verify()), (1000, Ok(1000)));
    assert!((0..1000).all(|key| map.get(&key) == Some(key * key)));
    // And changed: a copy.
    let directory = Temporary::new();
    fs::copy(&golden, directory.path()).unwrap();
    let map: Map = PeaMap::open(directory.path()).unwrap();
    (0..5000).for_each(|key| assert!(map.insert(key, key).is_ok()));
    assert_eq!(map.verify(), Ok(5000));
}

#[test]
fn every_key_and_value_can_be_stored() {
    let directory = Temporary::new();
    let words = [0, 1, 2, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, 1 << 62];
    let map: Map = PeaMap::create(directory.path()).unwrap();
    for key in words {
        words.iter().for_each(|value| {
            map.insert(key, *value).unwrap();
        });
    }
    drop(map);
    let map: Map = PeaMap::open(directory.path()).unwrap();
    assert!(words.iter().all(|key| map.get(key) == Some(1 << 62)));
    assert_eq!(map.len(), words.len());
}

#[test]
fn files_of_other_kinds_are_refused() {
    let directory = Temporary::new();
    drop(IcebergMap::<u64, u64>::create(directory.path()).unwrap());
    let other = FileError::OtherKind { what: "kind of map" };
    assert_eq!(Map::open(directory.path()).unwrap_err(), error(other));
    let directory = Temporary::new();
    drop(PeaMap::<u64, u32>::create(directory.path()).unwrap());
    let other = FileError::OtherKind { what: "type of keys or values" };
    assert_eq!(Map::open(directory.path()).unwrap_err(), error(other));
    assert!(IcebergMap::<u64, u32>::open(directory.path()).is_err());
}

#[test]
fn a_file_that_is_read_stays_as_it_is() {
    let directory = Temporary::new();
    let map: Map = PeaMap::create_with(directory.path(), &small()).unwrap();
    (0..1000).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    // As a killed process leaves it, so that there is something to recover.
    let image = fs::read(directory.path()).unwrap();
    drop(map);
    fs::write(directory.path(), &image).unwrap();
    let reading = Options::new().read_only(true);
    let first: Map = PeaMap::open_with(directory.path(), &reading).unwrap();
    let second: Map = PeaMap::open_with(directory.path(), &reading).unwrap();
    assert_eq!(Map::open(directory.path()).unwrap_err(), error(FileError::InUse));
    for map in [&first, &second] {
        assert!((0..1000).all(|key| map.get(&key) == Some(key)));
        assert_eq!((map.len(), map.verify()), (1000, Ok(1000)));
    }
    for refused in [
        first.insert(2, 20).map(drop),
        first.remove(&1).map(drop),
        first.insert_many(&[(3, 3)], &mut [None]).map(drop),
        first.clear(),
        first.reserve(100_000),
    ] {
        assert_eq!(refused, Err(error(FileError::ReadOnly)));
    }
    first.sync().unwrap();
    drop((first, second));
    assert!(fs::read(directory.path()).unwrap() == image);
}

/// A file that was cut off, wherever that is: an error, and the file is as it was.
#[test]
fn truncated_files_are_refused() {
    let directory = Temporary::new();
    let map: Map = PeaMap::create_with(directory.path(), &small()).unwrap();
    (0..5000).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    // As a killed process leaves it, and closed.
    let killed = fs::read(directory.path()).unwrap();
    map.close().unwrap();
    let closed = fs::read(directory.path()).unwrap();
    for whole in [killed, closed] {
        truncate_everywhere(&directory, &whole);
    }
}

fn truncate_everywhere(directory: &Temporary, whole: &[u8]) {
    let (mut refused, mut opened) = (0, 0);
    for length in (0..whole.len()).step_by(64 << 10).flat_map(|at| [at, at + 1, at + 4096]) {
        if length >= whole.len() {
            continue;
        }
        fs::write(directory.path(), &whole[..length]).unwrap();
        match Map::open(directory.path()) {
            Err(Error::File(_)) => refused += 1,
            // What is missing may be what nothing was stored in, or it is found out.
            Ok(map) => {
                opened += 1;
                assert!(map.verify().is_err() || map.verify() == Ok(5000));
                core::mem::forget(map);
            }
            Err(other) => panic!("cut off at {length}: {other}"),
        }
    }
    assert!(refused > opened, "{refused} {opened}");
}

/// Every bit of the header and random ones of the rest: an error, or a map that says what
/// is wrong with it, or one that is whole; and it can be used.
#[test]
fn damaged_files_are_refused_or_used() {
    for persistency in [Persistency::Pages, Persistency::Lines] {
        let simulation = Simulation::new(persistency);
        let map: Map = simulation.create(&small()).unwrap();
        (0..60).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
        map.close().unwrap();
        let whole = simulation.crash(simulation.moment()).latest();
        let try_image = |image: &[u8]| {
            let simulation = Simulation::of(image, persistency);
            match simulation.open::<u64, u64, InFile<Pea>>(&Options::new().threads(1)) {
                Err(Error::File(_) | Error::CapacityOverflow | Error::OutOfMemory { .. }) => {}
                Err(other) => panic!("{other}"),
                Ok(map) => {
                    let sound = map.verify();
                    (0..100).for_each(|key| {
                        map.insert(key, key).unwrap();
                    });
                    if sound.is_ok() {
                        assert!(map.verify().is_ok());
                        assert!((0..100).all(|key| map.get(&key) == Some(key)));
                    }
                }
            }
        };
        let mut image = whole.clone();
        let header = (0..1024 * 8).step_by(3).chain((1024 * 8..4096 * 8).step_by(401));
        let rest = (4096 * 8..whole.len() * 8).step_by(5003).take(1000);
        for bit in header.chain(rest) {
            image[bit / 8] ^= 1 << (bit % 8);
            try_image(&image);
            image[bit / 8] ^= 1 << (bit % 8);
        }
        // Whatever is stored somewhere, so that it is seen.
        let words = (4096..whole.len()).step_by(8).filter(|&at| image[at..at + 8] != [0; 8]);
        for at in words.collect::<Vec<_>>().into_iter().step_by(7) {
            for word in [0, u64::MAX, 1 << 63, 0x01FF, 1 << 28 | 7] {
                image[at..at + 8].copy_from_slice(&word.to_ne_bytes());
                try_image(&image);
            }
            image[at..at + 8].copy_from_slice(&whole[at..at + 8]);
        }
    }
}

/// Values that are none of their type are found when the file is opened.
#[test]
fn values_of_no_type_are_refused() {
    let simulation = Simulation::new(Persistency::Pages);
    let map: PeaMap<u64, char> = simulation.create(&small()).unwrap();
    map.insert(1, '\u{10FFFF}').unwrap();
    map.close().unwrap();
    let mut image = simulation.crash(simulation.moment()).latest();
    let word = 0x10_FFFF_u64.to_ne_bytes();
    for at in (0..image.len()).step_by(8) {
        if image[at..at + 8] == word {
            image[at..at + 8].copy_from_slice(&0xD800_u64.to_ne_bytes());
        }
    }
    let opened =
        Simulation::of(&image, Persistency::Pages).open::<u64, char, InFile<Pea>>(&Options::new());
    assert!(matches!(opened.unwrap_err(), Error::File(FileError::Corrupt { .. })));
}

/// What a closed file says of how many pairs it has is looked at, too.
#[test]
fn a_wrong_number_of_pairs_is_found() {
    let simulation = Simulation::new(Persistency::Lines);
    let map: Map = simulation.create(&small()).unwrap();
    (0..47).for_each(|key| assert_eq!(map.insert(key, 1 << 50), Ok(None)));
    map.close().unwrap();
    let mut image = simulation.crash(simulation.moment()).latest();
    let is_count = |at: &usize| image[*at..at + 8] == 47_u64.to_ne_bytes();
    let at = (4096..image.len()).step_by(8).find(is_count).expect("the number of pairs");
    image[at..at + 8].copy_from_slice(&48_u64.to_ne_bytes());
    let map: Map = Simulation::of(&image, Persistency::Lines).open(&Options::new()).unwrap();
    assert!(matches!(map.verify(), Err(Error::File(FileError::Corrupt { .. }))));
}

/// When the disk is full the map goes on as far as it has room, then it says so, and
/// everything that it has acknowledged is there; what needs no room goes on, also where
/// pages have to be copied for it.
#[test]
fn a_full_disk_is_an_error() {
    for persistency in [Persistency::Pages, Persistency::Lines] {
        let simulation = Simulation::new(persistency);
        let map: Map = simulation.create(&small()).unwrap();
        simulation.fill_disk_at(Some(map.file_bytes()));
        let mut stored = 0_u64;
        let refused = loop {
            match map.insert(stored, stored + 1) {
                Ok(None) => stored += 1,
                Ok(other) => panic!("{other:?}"),
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused, error(FileError::Full));
        assert!(stored > 100, "{stored}");
        eprintln!("{persistency:?} stored {stored} {} {}", simulation.moment(), map.file_bytes());
        assert_eq!((map.len() as u64, map.verify()), (stored, Ok(stored as usize)));
        for round in 0..5 {
            for key in 0..stored {
                assert_eq!(
                    map.update(&key, key + round),
                    Ok(Some(key + round.max(1) - 1 + u64::from(round == 0)))
                );
            }
            map.sync().unwrap();
        }
        assert_eq!(map.reserve(1 << 20), Err(error(FileError::Full)));
        (0..stored).for_each(|key| assert!(matches!(map.remove(&key), Ok(Some(_)))));
        assert_eq!((map.len(), map.insert(1 << 40, 1)), (0, Ok(None)));
        simulation.fill_disk_at(None);
        (0..2 * stored).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
        assert_eq!(map.verify(), Ok(2 * stored as usize + 1));
    }
}

/// After a sync that failed nothing is promised any more.
#[test]
fn a_failed_sync_poisons_the_map() {
    for failing in 0..2 {
        let simulation = Simulation::new(Persistency::Pages);
        let options = small().durability(Durability::Synced);
        let map: Map = simulation.create(&options).unwrap();
        map.insert(1, 10).unwrap();
        // The pages, and what says that they are durable.
        simulation.fail_sync_after(2 + failing);
        map.insert(2, 20).unwrap();
        let failed = map.insert(3, 30).unwrap_err();
        assert!(matches!(failed, Error::File(FileError::Io { action: "write the file", .. })));
        for refused in [map.insert(4, 40).map(drop), map.remove(&1).map(drop), map.sync()] {
            assert_eq!(refused, Err(error(FileError::Poisoned)));
        }
        assert_eq!((map.get(&1), map.get(&2), map.get(&4)), (Some(10), Some(20), None));
        assert_eq!(map.close(), Err(error(FileError::Poisoned)));
    }
}

#[test]
fn options_out_of_range_are_refused() {
    let directory = Temporary::new();
    for buckets in [0, 1, 3, 1 << 17] {
        let options = Options::new().segment_buckets(buckets);
        let refused = Map::create_with(directory.path(), &options);
        assert!(matches!(refused, Err(Error::InvalidOption { option: "segment_buckets", .. })));
    }
    let huge = Options::new().capacity(usize::MAX);
    assert_eq!(Map::create_with(directory.path(), &huge).unwrap_err(), Error::CapacityOverflow);
    assert!(!directory.path().exists());
}

/// What is changed all the time takes no more and more room: pages that were replaced are
/// used again after a sync, which comes by itself.
#[test]
fn replaced_pages_are_used_again() {
    let directory = Temporary::new();
    let map: Map = PeaMap::create(directory.path()).unwrap();
    (0..20_000).for_each(|key| assert_eq!(map.insert(key, 0), Ok(None)));
    map.sync().unwrap();
    let before = map.file_bytes();
    for round in 1..20 {
        (0..20_000).for_each(|key| assert_eq!(map.insert(key, round), Ok(Some(round - 1))));
        map.sync().unwrap();
    }
    assert!(map.file_bytes() <= 3 * before, "{} {before}", map.file_bytes());
    assert_eq!(map.verify(), Ok(20_000));
    let options = Options::new().durability(Durability::Interval(Duration::from_millis(5)));
    map.close().unwrap();
    let map: Map = PeaMap::open_with(directory.path(), &options).unwrap();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(300) {
        (0..20_000).for_each(|key| assert!(map.insert(key, 1).is_ok()));
    }
    assert!(map.file_bytes() <= 4 * before, "{} {before}", map.file_bytes());
    assert_eq!(map.verify(), Ok(20_000));
}

#[test]
fn an_emptied_map_returns_its_file_to_the_disk() {
    let directory = Temporary::new();
    let map: Map = PeaMap::create(directory.path()).unwrap();
    let first = map.file_bytes();
    for round in 0..3 {
        (0..400_000).for_each(|key| assert!(map.insert(key, round).is_ok()));
        assert!(map.file_bytes() > 400_000 * 16);
        map.retain(|key, _| *key == 7).unwrap();
        map.shrink_to_fit().unwrap();
        assert!(map.file_bytes() <= first + (128 << 10), "{} {first}", map.file_bytes());
        assert_eq!(map.len(), 1);
        assert_eq!(fs::metadata(directory.path()).unwrap().len(), map.file_bytes());
    }
    map.close().unwrap();
    let map: Map = PeaMap::open(directory.path()).unwrap();
    assert_eq!((map.get(&7), map.verify()), (Some(2), Ok(1)));
}

/// A change writes back one line, by one flush and one fence: 15 for 15 inserts into an
/// empty bucket. (The paper: 27, or 18 if entries are moved out of the way.)
#[test]
fn a_change_writes_one_line() {
    let simulation = Simulation::new(Persistency::Lines);
    let map: Map = simulation.create(&Options::new().capacity(30_000)).unwrap();
    let count = |change: &dyn Fn()| {
        let before = simulation.moment();
        change();
        let counts = simulation.count(before..simulation.moment());
        (counts.lines_flushed, counts.fences, counts.blocks_written)
    };
    let most = map.stats().slots as u64 / 4;
    for key in 0..most {
        let insert = || assert_eq!(map.insert(key, 1), Ok(None));
        assert_eq!(count(&insert), (1, 1, 1), "insert {key}");
    }
    assert_eq!(map.stats().strategies[1..], [0, 0]);
    for key in 0..most {
        assert_eq!(count(&|| assert_eq!(map.update(&key, 2), Ok(Some(1)))), (1, 1, 1));
        assert_eq!(count(&|| assert_eq!(map.get(&key), Some(2))), (0, 0, 0));
        assert_eq!(count(&|| assert_eq!(map.try_insert(key, 3), Ok(Err(2)))), (0, 0, 0));
    }
    for key in 0..most {
        assert_eq!(count(&|| assert_eq!(map.remove(&key), Ok(Some(2)))), (1, 1, 1));
        assert_eq!(count(&|| assert_eq!(map.remove(&key), Ok(None))), (0, 0, 0));
    }
}

/// Opening a file that was not closed looks at no slot; who comes to a key looks at its
/// segment.
#[test]
fn opening_looks_at_segments_only() {
    let directory = Temporary::new();
    let map: Map = PeaMap::create(directory.path()).unwrap();
    (0..300_000).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    let segments = map.stats().segments;
    let image = fs::read(directory.path()).unwrap();
    drop(map);
    fs::write(directory.path(), &image).unwrap();
    let map: Map = PeaMap::open(directory.path()).unwrap();
    assert!(!map.recovery().was_closed && map.recovery().items == 0);
    assert_eq!(map.get(&1), Some(1));
    let items = map.recovery().items;
    assert!(items > 0 && items < 3 * 300_000 / segments, "{items} of {segments} segments");
    assert_eq!((map.len(), map.recovery().items), (300_000, 300_000));
    assert_eq!(map.verify(), Ok(300_000));
}

/// Reads go on while a file is synced, and what they find is what was stored.
#[test]
fn reads_and_changes_go_on_during_syncs() {
    let directory = Temporary::new();
    let map: Map =
        PeaMap::create_with(directory.path(), &Options::new().segment_buckets(64)).unwrap();
    (0..50_000).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let map = &map;
            scope.spawn(move || {
                for round in 0..40_000 {
                    let key = (round * 7 + thread) % 50_000;
                    assert_eq!(map.get(&key).map(|value| value % 100_000), Some(key));
                    if key % 2 == thread {
                        map.update(&key, key + 100_000 * round).unwrap();
                    }
                }
            });
        }
        scope.spawn(|| (0..30).for_each(|_| map.sync().unwrap()));
    });
    assert_eq!(map.verify(), Ok(50_000));
}
