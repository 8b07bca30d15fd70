//! Files of durable maps that rest on the order of their stores, Pea Hash and TurboHash: damage,
//! refusals of the system, and their consequences.

use crate::full_disk::fill;
use crate::sampling::one_in;
use crate::temporary::{Temporary, error};
use nunatak::durable::{
    Durability, DurableDesign, IcebergMap, InFile, Map, Options, Persistency, Simulation,
};
use nunatak::{Error, FileError, Pea, Turbo};
use std::fs;
use std::time::{Duration, Instant};

type Words<D> = Map<u64, u64, D>;

/// Segments and shards that grow after tens of keys.
fn small() -> Options {
    Options::new().segment_buckets(2).shards(2)
}

fn a_map_is_there_again<D: DurableDesign>() {
    let directory = Temporary::new();
    let map: Words<D> = Map::create(directory.path()).unwrap();
    for key in 0..200_000 {
        assert_eq!(map.insert(key, key * 2), Ok(None));
    }
    assert_eq!(map.remove(&7), Ok(Some(14)));
    map.close().unwrap();
    for _ in 0..2 {
        let map: Words<D> = Map::open(directory.path()).unwrap();
        assert_eq!((map.len(), map.verify()), (199_999, Ok(199_999)));
        let recovery = map.recovery();
        assert!(recovery.was_closed && recovery.items == 199_999, "{recovery:?}");
        (0..200_000).for_each(|key| {
            assert_eq!(map.get(&key), (key != 7).then_some(key * 2));
        });
    }
}

fn every_key_and_value_can_be_stored<D: DurableDesign>() {
    let directory = Temporary::new();
    let words = [0, 1, 2, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, 1 << 62];
    let map: Words<D> = Map::create(directory.path()).unwrap();
    for key in words {
        words.iter().for_each(|value| {
            map.insert(key, *value).unwrap();
        });
    }
    drop(map);
    let map: Words<D> = Map::open(directory.path()).unwrap();
    assert!(words.iter().all(|key| map.get(key) == Some(1 << 62)));
    assert_eq!(map.len(), words.len());
}

fn files_of_other_kinds_are_refused<D: DurableDesign>() {
    let directory = Temporary::new();
    drop(IcebergMap::<u64, u64>::create(directory.path()).unwrap());
    let other = FileError::OtherKind { what: "kind of map" };
    assert_eq!(Words::<D>::open(directory.path()).unwrap_err(), error(other));
    let directory = Temporary::new();
    drop(Map::<u64, u32, D>::create(directory.path()).unwrap());
    let other = FileError::OtherKind { what: "type of keys or values" };
    assert_eq!(Words::<D>::open(directory.path()).unwrap_err(), error(other));
    assert!(IcebergMap::<u64, u32>::open(directory.path()).is_err());
}

fn a_file_that_is_read_stays_as_it_is<D: DurableDesign>() {
    let directory = Temporary::new();
    let map: Words<D> = Map::create_with(directory.path(), &small()).unwrap();
    (0..1000).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    // The file of a killed process, so that there is something to recover.
    let image = fs::read(directory.path()).unwrap();
    drop(map);
    fs::write(directory.path(), &image).unwrap();
    let reading = Options::new().read_only(true);
    let first: Words<D> = Map::open_with(directory.path(), &reading).unwrap();
    let second: Words<D> = Map::open_with(directory.path(), &reading).unwrap();
    assert_eq!(Words::<D>::open(directory.path()).unwrap_err(), error(FileError::InUse));
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
    first.close().unwrap();
    drop(second);
    assert!(fs::read(directory.path()).unwrap() == image);
}

/// A file cut off at any length: opening fails, and the file stays as it was.
fn truncated_files_are_refused<D: DurableDesign>() {
    let directory = Temporary::new();
    let map: Words<D> = Map::create_with(directory.path(), &small()).unwrap();
    (0..5000).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    // The files of a killed process and of a closed map.
    let killed = fs::read(directory.path()).unwrap();
    map.close().unwrap();
    let closed = fs::read(directory.path()).unwrap();
    for whole in [killed, closed] {
        truncate_everywhere::<D>(&directory, &whole);
    }
}

fn truncate_everywhere<D: DurableDesign>(directory: &Temporary, whole: &[u8]) {
    let (mut refused, mut opened) = (0, 0);
    for length in (0..whole.len()).step_by(64 << 10).flat_map(|at| [at, at + 1, at + 4096]) {
        if length >= whole.len() {
            continue;
        }
        fs::write(directory.path(), &whole[..length]).unwrap();
        match Words::<D>::open(directory.path()) {
            Err(Error::File(_)) => refused += 1,
            // The missing part may never have been stored to; otherwise the map reports it.
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

/// Damages every bit of the header and random bits of the rest. Opening fails, or the map reports
/// the damage, or the map is whole. It can be used in any case, unless a checksum of a page tells
/// the damage: then it refuses changes.
fn damaged_files_are_refused_or_used<D: DurableDesign>() {
    use Persistency::{Lines, Pages};
    for (persistency, has_checksums) in [(Pages, false), (Lines, false), (Pages, true)] {
        let simulation = Simulation::new(persistency);
        let options = small().page_checksums(has_checksums);
        let map: Words<D> = simulation.create(&options).unwrap();
        (0..60).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
        map.close().unwrap();
        let whole = simulation.crash(simulation.moment()).latest();
        let try_image = |image: &[u8]| {
            let simulation = Simulation::of(image, persistency);
            let opened: Result<Words<D>, _> = simulation.open(&Options::new().threads(1));
            match opened {
                Err(Error::File(_) | Error::CapacityOverflow | Error::OutOfMemory { .. }) => {}
                Err(other) => panic!("{other}"),
                Ok(map) => {
                    let sound = map.verify();
                    for key in 0..100 {
                        match map.insert(key, key) {
                            Ok(_) => {}
                            Err(error) => {
                                assert!(has_checksums && sound.is_err(), "{error}");
                                return assert_eq!(map.damage(), Some(error));
                            }
                        }
                    }
                    if sound.is_ok() {
                        assert!(map.verify().is_ok());
                        assert!((0..100).all(|key| map.get(&key) == Some(key)));
                    }
                }
            }
        };
        let mut image = whole.clone();
        let header =
            (0..1024 * 8).step_by(one_in(3)).chain((1024 * 8..4096 * 8).step_by(one_in(401)));
        let rest = (4096 * 8..whole.len() * 8).step_by(one_in(5003)).take(1000);
        for bit in header.chain(rest) {
            image[bit / 8] ^= 1 << (bit % 8);
            try_image(&image);
            image[bit / 8] ^= 1 << (bit % 8);
        }
        // Words that hold something, so that the damage is seen.
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

/// Values that are invalid for their type are found when the file is opened.
fn values_of_no_type_are_refused<D: DurableDesign>() {
    let simulation = Simulation::new(Persistency::Pages);
    let map: Map<u64, char, D> = simulation.create(&small()).unwrap();
    map.insert(1, '\u{10FFFF}').unwrap();
    map.close().unwrap();
    let mut image = simulation.crash(simulation.moment()).latest();
    let word = 0x10_FFFF_u64.to_ne_bytes();
    for at in (0..image.len()).step_by(8) {
        if image[at..at + 8] == word {
            image[at..at + 8].copy_from_slice(&0xD800_u64.to_ne_bytes());
        }
    }
    let simulation = Simulation::of(&image, Persistency::Pages);
    let opened: Result<Map<u64, char, D>, _> = simulation.open(&Options::new());
    assert!(matches!(opened.unwrap_err(), Error::File(FileError::Corrupt { .. })));
}

/// When the disk is full, the map goes on while it has room. Then it returns an error, and keeps
/// every acknowledged change. Changes that need no room go on, also where they copy pages.
fn a_full_disk_is_an_error<D: DurableDesign>() {
    for persistency in [Persistency::Pages, Persistency::Lines] {
        let simulation = Simulation::new(persistency);
        let map: Words<D> = simulation.create(&small()).unwrap();
        simulation.fill_disk_at(Some(map.file_bytes()));
        let stored = fill(|key| map.insert(key, key + 1).map(|before| assert_eq!(before, None)));
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

/// After a failed sync the map makes no promises.
fn a_failed_sync_poisons_the_map<D: DurableDesign>() {
    for failing in 0..2 {
        let simulation = Simulation::new(Persistency::Pages);
        let options = small().durability(Durability::Synced);
        let map: Words<D> = simulation.create(&options).unwrap();
        map.insert(1, 10).unwrap();
        // The sync of the pages, and the sync of the header that says that they are durable.
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

/// A map that changes all the time does not take more and more room: replaced pages are used again
/// after a sync, which comes by itself.
fn replaced_pages_are_used_again<D: DurableDesign>() {
    let directory = Temporary::new();
    let map: Words<D> = Map::create(directory.path()).unwrap();
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
    let map: Words<D> = Map::open_with(directory.path(), &options).unwrap();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(300) {
        (0..20_000).for_each(|key| assert!(map.insert(key, 1).is_ok()));
    }
    assert!(map.file_bytes() <= 4 * before, "{} {before}", map.file_bytes());
    assert_eq!(map.verify(), Ok(20_000));
}

fn an_emptied_map_returns_its_file_to_the_disk<D: DurableDesign>() {
    let directory = Temporary::new();
    let map: Words<D> = Map::create(directory.path()).unwrap();
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
    let map: Words<D> = Map::open(directory.path()).unwrap();
    assert_eq!((map.get(&7), map.verify()), (Some(2), Ok(1)));
}

/// Reads go on during a sync, and find what was stored.
fn reads_and_changes_go_on_during_syncs<D: DurableDesign>()
where
    Words<D>: Sync,
{
    let directory = Temporary::new();
    let map: Words<D> =
        Map::create_with(directory.path(), &Options::new().segment_buckets(64)).unwrap();
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

/// Pages without stores are copies of the file's first page of zeros.
fn a_page_of_zeros_that_is_none_is_found<D: DurableDesign>() {
    let simulation = Simulation::new(Persistency::Pages);
    let map: Words<D> = simulation.create(&small()).unwrap();
    map.sync().unwrap();
    let mut image = simulation.crash(simulation.moment()).latest();
    image[(64 << 10) + 7] = 0xFF;
    let map: Words<D> = Simulation::of(&image, Persistency::Pages).open(&Options::new()).unwrap();
    let what = "the page of zeros is none";
    assert_eq!(map.verify(), Err(error(FileError::Corrupt { what, at: None })));
}

/// Both extent entries of the file's pages are gone: versions then name pages that do not exist,
/// also after the file has got as many new ones.
fn pages_that_are_gone_are_missed<D: DurableDesign>() {
    let simulation = Simulation::new(Persistency::Pages);
    let map: Words<D> = simulation.create(&small()).unwrap();
    (0..60).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    let mut image = simulation.crash(simulation.moment()).latest();
    let is_entry_of_pages = |entry: &&mut [u8]| entry[6] >> 4 == 8 && entry[0] > 0;
    let entries = image[8192..40_960].chunks_exact_mut(32).filter(is_entry_of_pages);
    assert!(entries.map(|entry| entry[..8].fill(0)).count() >= 2);
    let killed = Simulation::of(&image, Persistency::Pages).of_killed();
    let opened: Result<Words<D>, _> = killed.open(&Options::new());
    let Ok(map) = opened else { return };
    assert!(matches!(map.verify(), Err(Error::File(FileError::Corrupt { .. }))));
    (0..60).for_each(|key| assert_eq!(map.insert(key, 7), Ok(None)));
}

/// A file whose stores rest on fences is not changed where there are none, nor the other way round.
fn files_stay_in_their_medium<D: DurableDesign>() {
    use Persistency::{Lines, Pages};
    let cases = [
        (Lines, Pages, "medium: it is for persistent memory"),
        (Pages, Lines, "medium: it is for the page cache"),
    ];
    for (made, opened, what) in cases {
        let simulation = Simulation::new(made);
        let map: Words<D> = simulation.create(&small()).unwrap();
        assert_eq!(map.insert(1, 10), Ok(None));
        map.close().unwrap();
        let image = simulation.crash(simulation.moment()).latest();
        let refused: Result<Words<D>, _> = Simulation::of(&image, opened).open(&Options::new());
        assert_eq!(refused.map(drop), Err(error(FileError::OtherKind { what })));
        let map: Words<D> = Simulation::of(&image, made).open(&Options::new()).unwrap();
        assert_eq!(map.get(&1), Some(10));
    }
}

/// All these tests of a design.
macro_rules! file_suite {
    ($name:ident, $design:ty, [$($test:ident)*]) => {
        mod $name {
            use super::*;
            $(
                #[test]
                fn $test() {
                    super::$test::<$design>();
                }
            )*
        }
    };
    ($name:ident, $design:ty) => {
        file_suite!($name, $design, [
            a_map_is_there_again
            a_page_of_zeros_that_is_none_is_found
            pages_that_are_gone_are_missed
            files_stay_in_their_medium
            every_key_and_value_can_be_stored
            files_of_other_kinds_are_refused
            a_file_that_is_read_stays_as_it_is
            truncated_files_are_refused
            damaged_files_are_refused_or_used
            values_of_no_type_are_refused
            a_full_disk_is_an_error
            a_failed_sync_poisons_the_map
            replaced_pages_are_used_again
            an_emptied_map_returns_its_file_to_the_disk
            reads_and_changes_go_on_during_syncs
        ]);
    };
}

file_suite!(pea, InFile<Pea>);
file_suite!(turbo, InFile<Turbo>);
