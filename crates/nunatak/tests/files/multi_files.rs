//! Files of durable maps of keys with many values: their contents, damage, refusals of the system,
//! and what operations write.

use crate::full_disk::fill;
use crate::temporary::{Temporary, error};
use nunatak::durable::{
    Counts, Durability, FileKind, Options, PeaMap, PeaMultiMap, Persistency, Simulation,
};
use nunatak::{Error, FileError};
use std::collections::BTreeSet;
use std::fs;

type Map = PeaMultiMap<u64, u64>;

/// Segments that split after tens of values, and buffers for tens of values.
fn small() -> Options {
    Options::new().segment_buckets(2)
}

/// Key `n` has `n` values.
fn triangle(map: &Map, keys: u64) -> usize {
    let pairs: Vec<(u64, u64)> =
        (0..keys).flat_map(|key| (0..key).map(move |n| (key, key << 32 | n))).collect();
    map.insert_many(&pairs).unwrap();
    pairs.len()
}

/// Whether the map is such a triangle.
fn is_triangle(map: &Map, keys: u64) -> bool {
    (0..keys).all(|key| {
        let mut values: Vec<u64> = map.get_all(&key).collect();
        values.sort_unstable();
        map.count(&key) == key as usize && values.into_iter().eq((0..key).map(|n| key << 32 | n))
    })
}

#[test]
fn a_map_is_there_again() {
    for buckets in [2, 64, 2048] {
        let directory = Temporary::new();
        let options = Options::new().segment_buckets(buckets);
        let map: Map = PeaMultiMap::create_with(directory.path(), &options).unwrap();
        let pairs = triangle(&map, 600);
        let (stats, killed) = (map.stats(), fs::read(directory.path()).unwrap());
        assert!(stats.buffered > pairs / 2 && stats.buffers.len() > 1, "{stats:?}");
        map.close().unwrap();
        for was_closed in [true, true, false] {
            if !was_closed {
                fs::write(directory.path(), &killed).unwrap();
            }
            let map: Map = PeaMultiMap::open(directory.path()).unwrap();
            let at_once = if was_closed { pairs } else { 0 };
            let recovery = map.recovery();
            assert!(recovery.was_closed == was_closed && recovery.items >= at_once, "{recovery:?}");
            assert!(is_triangle(&map, 600));
            assert_eq!((map.len(), map.verify(), map.recovery().items), (pairs, Ok(pairs), pairs));
            assert_eq!(
                (map.stats().pointers, map.stats().buffers),
                (stats.pointers, stats.buffers.clone())
            );
        }
        assert_eq!(FileKind::of(directory.path()), Ok(FileKind::PeaMulti));
    }
}

/// Room of removed values in a killed process's file is used again when all segments were looked
/// at.
#[test]
fn buffers_of_before_a_crash_are_used_again() {
    let directory = Temporary::new();
    let map: Map = PeaMultiMap::create_with(directory.path(), &small()).unwrap();
    let pairs = triangle(&map, 200);
    let (bytes, segments) = (map.file_bytes(), map.stats().value_segments);
    (0..200).for_each(|key| assert_eq!(map.remove_all(&key), Ok(key as usize)));
    let killed = fs::read(directory.path()).unwrap();
    drop(map);
    fs::write(directory.path(), &killed).unwrap();
    let map: Map = PeaMultiMap::open(directory.path()).unwrap();
    assert_eq!((map.len(), map.stats().value_segments), (0, 0));
    assert_eq!(triangle(&map, 200), pairs);
    // As many as before; some values may be in slots now that were in buffers.
    let again = map.stats().value_segments;
    assert!(again <= segments + segments / 8 + 1, "{again} {segments}");
    assert!(map.file_bytes() <= bytes + (bytes >> 2), "{} {bytes}", map.file_bytes());
}

/// Buffers that are given back while a killed process's file is searched for buffers are free
/// afterwards, and no others are.
#[test]
fn buffers_that_are_emptied_during_the_search_are_used_again() {
    const KEYS: u64 = 1200;
    let directory = Temporary::new();
    // Many segments, so that the search goes on for many removals; 256 small buffers a segment.
    let options = Options::new().segment_buckets(256).capacity(40_000);
    let map: Map = PeaMultiMap::create_with(directory.path(), &options).unwrap();
    // Of three types of buffers.
    let count = |key: u64| [20, 40, 100][key as usize % 3];
    let values = |key: u64| (0..count(key)).map(move |n| (key, key << 32 | n)).collect::<Vec<_>>();
    (0..KEYS).for_each(|key| map.insert_many(&values(key)).unwrap());
    let (pairs, segments) = (map.len(), map.stats().value_segments);
    assert!(map.stats().buffers[..3].iter().all(|&buffers| buffers > 300));
    let killed = fs::read(directory.path()).unwrap();
    drop(map);
    fs::write(directory.path(), &killed).unwrap();
    let map: Map = PeaMultiMap::open(directory.path()).unwrap();
    let removed = || (0..KEYS).step_by(2);
    for (number, key) in removed().enumerate() {
        assert_eq!(map.remove_all(&key), Ok(count(key) as usize));
        assert!(number > 3 || map.recovery().items < pairs, "all was found at once");
    }
    let left = pairs - removed().map(count).sum::<u64>() as usize;
    assert_eq!((map.len(), map.verify()), (left, Ok(left)));
    removed().for_each(|key| map.insert_many(&values(key)).unwrap());
    assert_eq!(map.verify(), Ok(pairs));
    let again = map.stats().value_segments;
    assert!(again <= segments + 3, "{again} {segments}");
    let is_whole = |key: u64| {
        let mut found: Vec<(u64, u64)> = map.get_all(&key).map(|value| (key, value)).collect();
        found.sort_unstable();
        found == values(key)
    };
    assert!((0..KEYS).all(is_whole));
    // The closed file says which buffers are in use.
    (0..KEYS).step_by(7).for_each(|key| assert!(map.remove_all(&key).is_ok()));
    let left = map.len();
    map.close().unwrap();
    let map: Map = PeaMultiMap::open(directory.path()).unwrap();
    assert_eq!((map.recovery().items, map.verify()), (left, Ok(left)));
}

#[test]
fn every_key_and_value_can_be_stored() {
    let directory = Temporary::new();
    let words = [0, 1, 2, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, 1 << 62];
    let map: Map = PeaMultiMap::create(directory.path()).unwrap();
    for key in words {
        (0..3).for_each(|_| map.insert_many(&words.map(|value| (key, value))).unwrap());
    }
    drop(map);
    let map: Map = PeaMultiMap::open(directory.path()).unwrap();
    for key in words {
        assert!(words.iter().all(|value| map.contains_pair(&key, value)));
        words.iter().for_each(|value| assert_eq!(map.remove_one(&key, value), Ok(true)));
        assert_eq!(map.count(&key), 2 * words.len());
    }
    assert_eq!(map.verify(), Ok(2 * words.len() * words.len()));
}

#[test]
fn files_of_other_kinds_are_refused() {
    let other = |what| error(FileError::OtherKind { what });
    let directory = Temporary::new();
    drop(PeaMap::<u64, u64>::create(directory.path()).unwrap());
    assert_eq!(Map::open(directory.path()).unwrap_err(), other("kind of map"));
    let directory = Temporary::new();
    drop(PeaMultiMap::<u64, u32>::create(directory.path()).unwrap());
    assert_eq!(Map::open(directory.path()).unwrap_err(), other("type of keys or values"));
    assert!(PeaMap::<u64, u32>::open(directory.path()).is_err());
    assert_eq!(Map::create(directory.path()).unwrap_err(), error(FileError::Exists));
}

#[test]
fn a_file_that_is_read_stays_as_it_is() {
    [2, 64].into_iter().for_each(read_only);
}

fn read_only(buckets: usize) {
    let directory = Temporary::new();
    let options = Options::new().segment_buckets(buckets);
    let map: Map = PeaMultiMap::create_with(directory.path(), &options).unwrap();
    // This leaves unused buffers.
    (0..300).for_each(|key| (0..40).for_each(|n| map.insert(1000 + key, n).unwrap()));
    let pairs = triangle(&map, 100);
    (0..300).for_each(|key| assert_eq!(map.remove_all(&(1000 + key)), Ok(40)));
    // The file of a killed process, so that there is something to recover.
    let image = fs::read(directory.path()).unwrap();
    drop(map);
    fs::write(directory.path(), &image).unwrap();
    let reading = Options::new().read_only(true);
    let map: Map = PeaMultiMap::open_with(directory.path(), &reading).unwrap();
    assert!(is_triangle(&map, 100));
    assert_eq!((map.len(), map.verify()), (pairs, Ok(pairs)));
    for refused in [
        map.insert(2, 20),
        map.insert_many(&[(3, 3)]),
        map.remove_one(&1, &1).map(drop),
        map.remove_all(&1).map(drop),
        map.remove_all_many(&[1], &mut [0]),
        map.drain(&1).map(drop),
        map.retain(|_, _| false),
        map.clear(),
        map.reserve(100_000),
        map.shrink_to_fit(),
    ] {
        assert_eq!(refused, Err(error(FileError::ReadOnly)));
    }
    map.sync().unwrap();
    map.close().unwrap();
    assert!(fs::read(directory.path()).unwrap() == image);
}

/// A file cut off at any length: opening fails, or the map reports what is missing.
#[test]
fn truncated_files_are_refused() {
    let directory = Temporary::new();
    let map: Map = PeaMultiMap::create_with(directory.path(), &small()).unwrap();
    let pairs = triangle(&map, 120);
    let killed = fs::read(directory.path()).unwrap();
    map.close().unwrap();
    let (mut refused, mut opened) = (0, 0);
    for whole in [killed, fs::read(directory.path()).unwrap()] {
        for length in (0..whole.len()).step_by(64 << 10).flat_map(|at| [at, at + 1, at + 4096]) {
            fs::write(directory.path(), &whole[..length.min(whole.len() - 1)]).unwrap();
            match Map::open(directory.path()) {
                Err(Error::File(_)) => refused += 1,
                Ok(map) => {
                    opened += 1;
                    assert!(map.verify().is_err() || map.verify() == Ok(pairs));
                    core::mem::forget(map);
                }
                Err(other) => panic!("cut off at {length}: {other}"),
            }
        }
    }
    assert!(refused > opened, "{refused} {opened}");
}

/// Replaces every stored word. Opening fails, or the map reports the damage, or the map is whole.
/// It can be used in any case, wherever its pointers lead.
#[test]
fn damaged_files_are_refused_or_used() {
    for (persistency, is_closed) in
        [(Persistency::Pages, true), (Persistency::Lines, true), (Persistency::Lines, false)]
    {
        let simulation = Simulation::new(persistency);
        // Checksums of pages would tell the damage, and refuse changes.
        let options = small().page_checksums(false);
        let map: Map = simulation.create(&options).unwrap();
        triangle(&map, 11);
        (0..150).for_each(|n| map.insert(20, n).unwrap());
        map.sync().unwrap();
        let killed = simulation.crash(simulation.moment()).latest();
        map.close().unwrap();
        let closed = simulation.crash(simulation.moment()).latest();
        let whole = if is_closed { closed } else { killed };
        let mut image = whole.clone();
        let words = (4096..whole.len()).step_by(8).filter(|&at| image[at..at + 8] != [0; 8]);
        for (number, at) in words.collect::<Vec<_>>().into_iter().enumerate() {
            let before = u64::from_ne_bytes(whole[at..at + 8].try_into().unwrap());
            let others = [0, 1, u64::MAX, before ^ 1 << 63, before ^ 1 << 38, before ^ 1 << 59];
            let word = others[number % 6];
            image[at..at + 8].copy_from_slice(&word.to_ne_bytes());
            use_damaged(&Simulation::of(&image, persistency));
            image[at..at + 8].copy_from_slice(&whole[at..at + 8]);
        }
    }
}

fn use_damaged(simulation: &Simulation) {
    let map: Map = match simulation.open(&Options::new()) {
        Err(Error::File(_) | Error::CapacityOverflow | Error::OutOfMemory { .. }) => return,
        Err(other) => panic!("{other}"),
        Ok(map) => map,
    };
    let sound = map.verify();
    let before: Vec<usize> = (0..30).map(|key| map.count(&key)).collect();
    for key in 0..30 {
        (0..40).for_each(|n| map.insert(key, 1 << 40 | n).unwrap());
        (0..20).for_each(|n| assert!(map.remove_one(&key, &(1 << 40 | n)).is_ok()));
    }
    if sound.is_ok() {
        (0..30).for_each(|key| assert_eq!(map.count(&key), before[key as usize] + 20));
        assert!(map.verify().is_ok());
    }
    (0..30).for_each(|key| assert!(map.remove_all(&key).is_ok()));
}

/// A pointer that is not its key's is told: each check of `verify` finds something that was damaged
/// for it.
#[test]
fn each_kind_of_wrong_pointer_is_told() {
    let simulation = Simulation::new(Persistency::Lines);
    let map: Map = simulation.create(&small()).unwrap();
    (0..12).for_each(|key| (0..24).for_each(|n| map.insert(key, 1 << 50 | n).unwrap()));
    assert!(map.stats().pointers >= 12 && map.stats().buffers[0] >= 12);
    map.close().unwrap();
    let image = simulation.crash(simulation.moment()).latest();
    let word = |at: usize| u64::from_ne_bytes(image[at..at + 8].try_into().unwrap());
    let told = |changes: &[(usize, u64)]| {
        let mut damaged = image.clone();
        for &(at, word) in changes {
            damaged[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        let simulation = Simulation::of(&damaged, Persistency::Lines);
        let map: Map = simulation.open(&Options::new()).unwrap();
        match map.verify() {
            Ok(_) => None,
            Err(Error::File(FileError::Corrupt { what, .. })) => Some(what),
            Err(other) => panic!("{other}"),
        }
    };
    // Pointers to 1 to 32 values in a buffer of the first type: bits 38 to 43.
    let count = |word: u64| word >> 38;
    let is_pointer = |&at: &usize| (1..=32).contains(&count(word(at))) && word(at - 8) >> 63 == 0;
    let pointers: Vec<usize> =
        (1 << 16..image.len()).step_by(16).map(|at| at + 8).filter(is_pointer).collect();
    let mut all = BTreeSet::new();
    for (number, &at) in pointers.iter().enumerate() {
        let other = word(pointers[(number + 1) % pointers.len()]);
        all.extend(told(&[(at, other)]));
        all.extend(told(&[(at, word(at) & ((1 << 38) - 1))]));
        all.extend(told(&[(at, word(at) ^ 1 << 37)]));
        all.extend(told(&[(at, word(at) - (1 << 38))]));
        // The pointer is a value.
        all.extend(told(&[(at - 8, word(at - 8) | 1 << 63)]));
    }
    let expected = [
        "a key is not found where it is",
        "a value buffer is no key's",
        "a value buffer is of two keys",
        "there are more or fewer pairs than is said",
    ];
    assert!(expected.iter().all(|what| all.contains(what)), "{all:?}");
}

/// Keys and values that are invalid for their type are found when the file is opened, also in buffers.
#[test]
fn words_of_no_type_are_refused() {
    const NO_CHAR: u32 = 0xD800;
    let is_refused = |opened: Result<(), Error>| {
        let Err(Error::File(FileError::Corrupt { what, .. })) = opened else {
            panic!("{opened:?}")
        };
        assert_eq!(what, "a pair is of no key or value of these types");
    };
    for values in [1, 40] {
        let simulation = Simulation::new(Persistency::Pages);
        let map: PeaMultiMap<u32, u32> = simulation.create(&small()).unwrap();
        (0..values).for_each(|_| map.insert('a'.into(), NO_CHAR).unwrap());
        map.close().unwrap();
        let image = simulation.crash(simulation.moment()).latest();
        let simulation = Simulation::of(&image, Persistency::Pages);
        let opened: Result<PeaMultiMap<u32, char>, _> = simulation.open(&small());
        is_refused(opened.map(drop));
        let map: PeaMultiMap<char, u32> = simulation.open(&small()).unwrap();
        assert_eq!((map.count(&'a'), map.verify()), (values, Ok(values)));
    }
    let simulation = Simulation::new(Persistency::Pages);
    let map: PeaMultiMap<u32, u32> = simulation.create(&small()).unwrap();
    map.insert(NO_CHAR, 1).unwrap();
    map.close().unwrap();
    let image = simulation.crash(simulation.moment()).latest();
    let simulation = Simulation::of(&image, Persistency::Pages);
    let opened: Result<PeaMultiMap<char, u32>, _> = simulation.open(&small());
    is_refused(opened.map(drop));
}

/// When the disk is full, the map goes on while it has room. Then it returns an error, and keeps
/// every acknowledged change. Changes that need no room go on.
#[test]
fn a_full_disk_is_an_error() {
    for persistency in [Persistency::Pages, Persistency::Lines] {
        let simulation = Simulation::new(persistency);
        let map: Map = simulation.create(&small()).unwrap();
        simulation.fill_disk_at(Some(map.file_bytes()));
        let key = |n: u64| if n.is_multiple_of(2) { 2 + n % 16 } else { n };
        let stored = fill(|n| map.insert(key(n), n));
        assert!(stored > 100, "{stored}");
        assert_eq!((map.len() as u64, map.verify()), (stored, Ok(stored as usize)));
        for _ in 0..3 {
            map.sync().unwrap();
            for n in 0..stored {
                assert_eq!(map.remove_one(&key(n), &n), Ok(true));
                if map.insert(key(n), n).is_err() {
                    map.sync().unwrap();
                    simulation.fill_disk_at(None);
                    map.insert(key(n), n).unwrap();
                    simulation.fill_disk_at(Some(map.file_bytes()));
                }
            }
        }
        assert_eq!(map.verify(), Ok(stored as usize));
        (0..stored).for_each(|n| assert_eq!(map.remove_one(&key(n), &n), Ok(true)));
        assert_eq!(map.verify(), Ok(0));
        simulation.fill_disk_at(None);
        triangle(&map, 100);
        assert!(is_triangle(&map, 100) && map.verify().is_ok());
    }
}

/// A batch that finds the disk full has stored its first values, and none behind the one that was
/// refused, though some of those would find a free slot.
#[test]
fn a_refused_batch_has_stored_its_first_values() {
    const BEFORE: u64 = 20_000;
    for persistency in [Persistency::Pages, Persistency::Lines] {
        let simulation = Simulation::new(persistency);
        let map: Map = simulation.create(&small()).unwrap();
        let batch: Vec<(u64, u64)> = (0..4 * BEFORE).map(|n| (n, n)).collect();
        map.insert_many(&batch[..BEFORE as usize]).unwrap();
        // From here on the first change of each page takes another page.
        map.sync().unwrap();
        simulation.fill_disk_at(Some(map.file_bytes()));
        let mut stored = BEFORE;
        for _ in 0..2 {
            let refused = map.insert_many(&batch[stored as usize..]);
            assert_eq!(refused, Err(error(FileError::Full)));
            let mut values: Vec<u64> = map.iter().map(|(_, value)| value).collect();
            values.sort_unstable();
            stored = values.len() as u64;
            assert!(values.into_iter().eq(0..stored), "{stored} values, some of them behind");
        }
        assert!(stored > BEFORE, "nothing was stored");
        assert_eq!(map.verify(), Ok(stored as usize));
    }
}

/// A batch whose results have no room changes nothing.
#[test]
fn a_batch_with_too_few_results_is_refused() {
    let simulation = Simulation::new(Persistency::Pages);
    let map: Map = simulation.create(&small()).unwrap();
    map.insert_many(&[(1, 10), (2, 20)]).unwrap();
    let expected = "at least as long as the batch";
    let refused = Error::InvalidOption { option: "results", expected };
    assert_eq!(map.remove_all_many(&[1, 2], &mut [0]), Err(refused));
    assert_eq!((map.count(&1), map.count(&2)), (1, 1));
    let pairs: PeaMap<u64, u64> = Simulation::new(Persistency::Pages).create(&small()).unwrap();
    pairs.insert(1, 10).unwrap();
    let inserted = pairs.insert_many(&[(1, 11), (2, 20)], &mut [None]);
    assert_eq!(inserted.map(drop), Err(refused));
    assert_eq!((pairs.get(&1), pairs.len()), (Some(10), 1));
}

/// After a failed sync the map makes no promises.
#[test]
fn a_failed_sync_poisons_the_map() {
    let simulation = Simulation::new(Persistency::Pages);
    let options = small().durability(Durability::Synced);
    let map: Map = simulation.create(&options).unwrap();
    map.insert(1, 10).unwrap();
    simulation.fail_sync_after(0);
    let failed = map.insert(1, 20).unwrap_err();
    assert!(matches!(failed, Error::File(FileError::Io { action: "write the file", .. })));
    for refused in [map.insert(4, 40), map.remove_all(&1).map(drop), map.sync()] {
        assert_eq!(refused, Err(error(FileError::Poisoned)));
    }
    assert_eq!((map.count(&1), map.get(&4)), (2, None));
    assert_eq!(map.close(), Err(error(FileError::Poisoned)));
}

#[test]
fn an_emptied_map_returns_its_file_to_the_disk() {
    let directory = Temporary::new();
    let map: Map = PeaMultiMap::create(directory.path()).unwrap();
    let first = map.file_bytes();
    for _ in 0..2 {
        for n in 0..300_000 {
            map.insert(n % 3, n).unwrap();
            map.insert(n % 10_000, n).unwrap();
        }
        assert!(map.file_bytes() > 600_000 * 8);
        (0..10_000).for_each(|key| assert!(map.remove_all(&key).unwrap() > 0));
        map.shrink_to_fit().unwrap();
        assert!(map.file_bytes() <= first + (128 << 10), "{} {first}", map.file_bytes());
        assert_eq!((map.len(), map.verify()), (0, Ok(0)));
    }
}

/// The lines that the change of one value writes back: one line, or two in a buffer. If several
/// words must change at once, lines of the log are added.
#[test]
fn a_change_writes_few_lines() {
    let simulation = Simulation::new(Persistency::Lines);
    let map: Map = simulation.create(&Options::new().segment_buckets(64)).unwrap();
    let count = |change: &dyn Fn()| {
        let before = simulation.moment();
        change();
        let Counts { lines_flushed, fences, .. } = simulation.count(before..simulation.moment());
        (lines_flushed, fences)
    };
    let insert = |key, value| count(&|| map.insert(key, value).unwrap());
    let remove = |key, value| count(&|| assert_eq!(map.remove_one(&key, &value), Ok(true)));
    // So that buffers exist.
    (0..20).for_each(|n| map.insert(2, n).unwrap());
    // Values in slots.
    (0..15).for_each(|n| assert_eq!(insert(1, n), (1, 1), "value {n}"));
    assert_eq!((remove(1, 3), insert(1, 3)), ((1, 1), (1, 1)));
    // All fifteen become a buffer: two lines of values; five lines of the log, and the line with
    // its length; the bucket; the log again. Then the value and its pointer.
    assert_eq!(insert(1, 15), (2 + 5 + 1 + 4 + 1 + 2, 1 + 1 + 1 + 1 + 1 + 2));
    assert_eq!(insert(1, 16), (2, 2));
    // Removing the last value writes only the number; another value: the log, both words, the log.
    assert_eq!((remove(1, 16), remove(1, 0)), ((1, 1), (4, 3)));
    assert_eq!(map.count(&1), 15);
    // All values of a key in one slot: only the slot.
    assert_eq!(count(&|| assert_eq!(map.remove_all(&1), Ok(15))), (1, 1));
    assert_eq!(count(&|| assert_eq!(map.remove_all(&1), Ok(0))), (0, 0));
}

/// Removing an absent value stores nothing, and copies no page.
#[test]
fn what_is_absent_is_taken_out_for_nothing() {
    let simulation = Simulation::new(Persistency::Pages);
    let map: Map = simulation.create(&small()).unwrap();
    (0..40).for_each(|n| map.insert(1, n).unwrap());
    map.sync().unwrap();
    let before = simulation.moment();
    assert_eq!(map.remove_one(&1, &40), Ok(false));
    assert_eq!((map.remove_one(&2, &1), map.remove_all(&2)), (Ok(false), Ok(0)));
    assert_eq!(simulation.moment(), before);
    assert_eq!(map.remove_one(&1, &7), Ok(true));
    assert!(simulation.moment() > before);
}

/// Opening a file that was not closed reads no slot and no value.
#[test]
fn opening_looks_at_segments_only() {
    let directory = Temporary::new();
    let options = Options::new().segment_buckets(64);
    let map: Map = PeaMultiMap::create_with(directory.path(), &options).unwrap();
    let pairs = triangle(&map, 500) + 9000;
    (1000..10_000).for_each(|key| map.insert(key, key).unwrap());
    let segments = map.stats().table.segments;
    let image = fs::read(directory.path()).unwrap();
    drop(map);
    fs::write(directory.path(), &image).unwrap();
    let map: Map = PeaMultiMap::open(directory.path()).unwrap();
    assert!(!map.recovery().was_closed && map.recovery().items == 0 && segments > 8);
    assert_eq!(map.count(&400), 400);
    let items = map.recovery().items;
    assert!(items >= 400 && items < pairs / 2, "{items} of {pairs}");
    assert_eq!((map.len(), map.recovery().items), (pairs, pairs));
}
