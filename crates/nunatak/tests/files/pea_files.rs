//! Files of durable maps of Pea Hash: their contents, and what operations write.

use crate::temporary::Temporary;
use nunatak::durable::{Options, PeaMap, Persistency, Simulation};
use nunatak::{Error, FileError};
use std::collections::BTreeSet;
use std::fs;

type Map = PeaMap<u64, u64>;

/// Segments that split after tens of keys.
fn small() -> Options {
    Options::new().segment_buckets(2)
}

/// A closed file's number of pairs is checked, too.
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

/// A change writes back one line, with one flush and one fence: 15 flushes for 15 inserts into an
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

/// Opening a file that was not closed reads no slot. The first operation on a segment's keys looks
/// at the segment.
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

/// Headers that are right are not stored again: after a crash, opening a file and looking at all of it
/// writes no page of slots.
#[test]
fn looking_at_a_segment_after_a_crash_stores_nothing_that_is_there() {
    for persistency in [Persistency::Lines, Persistency::Pages] {
        let simulation = Simulation::new(persistency);
        let map: Map = simulation.create(&small()).unwrap();
        (0..2000).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
        map.sync().unwrap();
        let image = simulation.crash(simulation.moment()).latest();
        let killed = Simulation::of(&image, persistency).of_killed();
        let map: Map = killed.open(&Options::new()).unwrap();
        assert_eq!(map.recovery().items, 0, "nothing was looked at yet");
        let before = killed.moment();
        assert_eq!((map.len(), map.recovery().items), (2000, 2000));
        assert_eq!(killed.moment(), before, "{persistency:?}");
    }
}

/// A file that is closed before each segment was looked at is as one that was not closed: for these
/// segments.
#[test]
fn a_file_that_is_closed_during_its_recovery_loses_nothing() {
    for persistency in [Persistency::Lines, Persistency::Pages] {
        let simulation = Simulation::new(persistency);
        let map: Map = simulation.create(&small()).unwrap();
        (0..2000).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
        map.sync().unwrap();
        let crashed = simulation.crash(simulation.moment()).earliest();
        let again = Simulation::of(&crashed, persistency);
        let map: Map = again.open(&Options::new()).unwrap();
        assert_eq!((map.get(&1), map.recovery().was_closed), (Some(1), false));
        assert!((1..1000).contains(&map.recovery().items), "{:?}", map.recovery());
        map.close().unwrap();
        let closed = again.crash(again.moment()).latest();
        let map: Map = Simulation::of(&closed, persistency).open(&Options::new()).unwrap();
        assert!(map.recovery().was_closed && map.recovery().items < 1000);
        assert!((0..2000).all(|key| map.get(&key) == Some(key)), "{persistency:?}");
        assert_eq!((map.len(), map.verify()), (2000, Ok(2000)));
    }
}

/// A closed file says how far each segment is filled, so nothing is tried in vain.
#[test]
fn strategies_are_there_again() {
    let directory = Temporary::new();
    let map: Map = PeaMap::create_with(directory.path(), &small()).unwrap();
    (0..2000).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    let strategies = map.stats().strategies;
    assert!(strategies[0] > 0 && strategies[2] > 0, "{strategies:?}");
    map.close().unwrap();
    let map: Map = PeaMap::open(directory.path()).unwrap();
    assert_eq!(map.stats().strategies, strategies);
}

/// A bucket that says that its keys have the other half of the hashes.
#[test]
fn a_wrong_half_is_found() {
    let simulation = Simulation::new(Persistency::Lines);
    let map: Map = simulation.create(&small()).unwrap();
    (0..2000).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    map.close().unwrap();
    let image = simulation.crash(simulation.moment()).latest();
    let open = |image: &[u8]| -> Map {
        Simulation::of(image, Persistency::Lines).open(&Options::new()).unwrap()
    };
    assert_eq!(open(&image).verify(), Ok(2000));
    // Bits 3 and 4 of byte 15 of a bucket.
    let is_upper = |at: &usize| image[*at + 15] >> 3 == 2 && image[*at] != 0;
    let bucket = (1 << 16..image.len()).step_by(256).find(is_upper).expect("a bucket");
    let mut damaged = image.clone();
    damaged[bucket + 15] ^= 3 << 3;
    let found = open(&damaged).verify();
    let what = "a bucket is said to have other keys";
    let is_told =
        |error: &FileError| matches!(error, FileError::Corrupt { what: told, .. } if *told == what);
    assert!(matches!(&found, Err(Error::File(error)) if is_told(error)), "{found:?}");
}

/// What is wrong in a slot is told: each check of `verify` finds something that was damaged for it.
#[test]
fn each_kind_of_wrong_slot_is_told() {
    // Segments of each strategy.
    const KEYS: u64 = 700;
    let simulation = Simulation::new(Persistency::Lines);
    let map: Map = simulation.create(&Options::new().segment_buckets(8)).unwrap();
    (0..KEYS).for_each(|key| assert_eq!(map.insert(key, key | 1 << 50), Ok(None)));
    map.close().unwrap();
    let image = simulation.crash(simulation.moment()).latest();
    let word = |at: usize| u64::from_ne_bytes(image[at..at + 8].try_into().unwrap());
    let told = |damage: &dyn Fn(&mut [u8])| {
        let mut damaged = image.clone();
        damage(&mut damaged);
        let simulation = Simulation::of(&damaged, Persistency::Lines);
        let map: Map = simulation.open(&Options::new()).unwrap();
        match map.verify() {
            Ok(_) => None,
            Err(Error::File(FileError::Corrupt { what, .. })) => Some(what),
            Err(other) => panic!("{other}"),
        }
    };
    // Fifteen fingerprints, then flags, then as many pairs.
    let slot = |bucket: usize, number: usize| bucket + 16 + 16 * number;
    let is_pair = |at: usize| word(at) != 0 && word(at + 8) >> 50 == 1;
    let taken = |bucket: usize| (0..15).filter(move |&number| is_pair(slot(bucket, number)));
    let is_bucket = |&at: &usize| {
        let mut numbers = 0..15;
        numbers.all(|number| (image[at + number] != 0) == is_pair(slot(at, number)))
            && (1..15).contains(&taken(at).count())
    };
    let buckets: Vec<usize> = (1 << 16..image.len()).step_by(256).filter(is_bucket).collect();
    // Without the flags of their first buckets, pairs elsewhere are not found: in the second bucket, in the
    // stash.
    let is_any = |&at: &usize| {
        let mut numbers = 0..15;
        numbers.all(|number| (image[at + number] != 0) == is_pair(slot(at, number)))
            && taken(at).count() > 0
    };
    let flagged: Vec<usize> = (1 << 16..image.len()).step_by(256).filter(is_any).collect();
    for flag in [1, 2] {
        let cleared = told(&|image| flagged.iter().for_each(|bucket| image[bucket + 15] &= !flag));
        assert_eq!(cleared, Some("a pair is in a bucket that is not its key's"), "{flag}");
    }
    // The highest bit of each tag is set.
    let tag = slot(buckets[0], taken(buckets[0]).next().unwrap());
    assert_eq!(told(&|image| image[tag + 7] ^= 0x80), Some("a slot that is taken is empty"));
    let mut all = BTreeSet::new();
    for (at, &bucket) in buckets.iter().enumerate() {
        let number = taken(bucket).next().unwrap();
        let pair = slot(bucket, number);
        all.extend(told(&|image| image[bucket + number] = 0));
        all.extend(told(&|image| image[pair..pair + 8].fill(0)));
        all.extend(told(&|image| image[bucket + number] ^= 0xF8));
        // A copy in the same bucket, in the next ones, and in another segment.
        for other in [at, at + 1, at + 2, at + 40].map(|at| buckets[at % buckets.len()]) {
            let free = (0..15).find(|&number| image[other + number] == 0).unwrap();
            all.extend(told(&|image| {
                image[other + free] = image[bucket + number];
                image.copy_within(pair..pair + 16, slot(other, free));
            }));
        }
    }
    let expected = [
        "a key is in a segment twice",
        "a pair has another's fingerprint",
        "a pair is in a bucket that is not its key's",
        "a pair is in a segment that is not its key's",
        "a slot that is taken is empty",
        "an empty slot holds a pair",
    ];
    assert!(expected.iter().all(|what| all.contains(what)), "{all:?}");
}
