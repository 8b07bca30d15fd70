//! Files of durable maps of TurboHash: their contents, and what operations write.

use crate::temporary::Temporary;
use nunatak::durable::{
    Counts, FileKind, Options, Persistency, Simulation, TurboBlobMap, TurboMap,
};
use nunatak::{Error, FileError};
use std::fs;

type Map = TurboMap<u64, u64>;

#[test]
fn constants_are_the_file_s_own() {
    let directory = Temporary::new();
    let options = Options::new().shards(64).scope(4).tombstones(0.5).capacity(50_000);
    let map: Map = TurboMap::create_with(directory.path(), &options).unwrap();
    assert_eq!(FileKind::of(directory.path()), Ok(FileKind::Turbo));
    let slots = map.stats().slots;
    assert!(slots > 50_000 && map.stats().shards == 64, "{slots}");
    (0..50_000).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    assert_eq!(map.stats().grown, 0);
    let stats = map.stats();
    map.close().unwrap();
    let map: Map = TurboMap::open(directory.path()).unwrap();
    let again = map.stats();
    assert_eq!((again.shards, again.slots, again.len), (64, slots, 50_000));
    assert_eq!((&again.distances, &again.probes), (&stats.distances, &stats.probes));
    assert!(again.distances.len() <= 4, "{:?}", again.distances);
    // No shard becomes smaller than its initial size.
    map.clear().unwrap();
    assert_eq!((map.stats().slots, map.verify()), (slots, Ok(0)));
}

#[test]
fn options_out_of_range_are_refused() {
    let directory = Temporary::new();
    let all = [
        ("shards", Options::new().shards(100)),
        ("shards", Options::new().shards(1 << 21)),
        ("scope", Options::new().scope(0)),
        ("tombstones", Options::new().tombstones(f64::NAN)),
    ];
    for (name, options) in all {
        let refused = Map::create_with(directory.path(), &options);
        let is_it = matches!(&refused, Err(Error::InvalidOption { option, .. }) if *option == name);
        assert!(is_it, "{name}: {refused:?}");
    }
    let huge = Options::new().capacity(usize::MAX);
    assert_eq!(Map::create_with(directory.path(), &huge).unwrap_err(), Error::CapacityOverflow);
    assert!(!directory.path().exists());
}

/// A closed file's number of pairs of a shard is checked, too.
#[test]
fn a_wrong_number_of_pairs_is_found() {
    let simulation = Simulation::new(Persistency::Lines);
    let options = Options::new().shards(2);
    let map: Map = simulation.create(&options).unwrap();
    (0..47).for_each(|key| assert_eq!(map.insert(key, 1 << 50), Ok(None)));
    map.close().unwrap();
    let image = simulation.crash(simulation.moment()).latest();
    // Descriptors: where the buckets are, and how many pairs they hold.
    let word = |at: usize| u64::from_ne_bytes(image[at..at + 8].try_into().unwrap());
    let is_count =
        |at: &usize| (1..47).contains(&word(*at)) && (1..=3).contains(&(word(at - 8) >> 58));
    let at = (4104..image.len()).step_by(16).find(is_count).expect("the number of pairs");
    let mut image = image.clone();
    image[at] += 1;
    let map: Map = Simulation::of(&image, Persistency::Lines).open(&Options::new()).unwrap();
    assert_eq!(map.len(), 48);
    assert!(matches!(map.verify(), Err(Error::File(FileError::Corrupt { .. }))));
}

/// Of a closed file headers count as they are. A pair that was moved to the next bucket is where no
/// search for it goes.
#[test]
fn a_pair_in_a_bucket_that_is_not_its_keys_is_found() {
    let simulation = Simulation::new(Persistency::Lines);
    let map: Map = simulation.create(&Options::new().shards(2)).unwrap();
    (0..47).for_each(|key| assert_eq!(map.insert(key, (1 << 50) + key), Ok(None)));
    map.close().unwrap();
    let mut image = simulation.crash(simulation.moment()).latest();
    let word = |at: usize| u64::from_ne_bytes(image[at..at + 8].try_into().unwrap());
    // A bucket: fingerprints, flags, slots of a tag and a value. Without a flag searches end there.
    let is_pair = |at: usize| (1 << 50..(1 << 50) + 47).contains(&word(at + 8));
    let slots = |bucket: usize| (bucket + 16..bucket + 256).step_by(16);
    let of_bucket = |bucket: usize| {
        let from = slots(bucket).position(is_pair)?;
        let next = bucket ^ 256;
        let to = slots(next).position(|at| word(at) == 0)?;
        let is_moved = image[bucket + 15] == 0 && slots(next).any(is_pair);
        is_moved.then_some((bucket, from, next, to))
    };
    let (bucket, from, next, to) =
        (4096..image.len()).step_by(256).find_map(of_bucket).expect("two buckets of a shard");
    let (pair, fingerprint) = (bucket + 16 + 16 * from, image[bucket + from]);
    image.copy_within(pair..pair + 16, next + 16 + 16 * to);
    image[pair..pair + 16].fill(0);
    (image[next + to], image[bucket + from]) = (fingerprint, 0);
    let map: Map = Simulation::of(&image, Persistency::Lines).open(&Options::new()).unwrap();
    assert_eq!((map.len(), map.iter().count()), (47, 47));
    let damage = map.verify().unwrap_err().to_string();
    assert!(damage.contains("a bucket that is not its key's"), "{damage}");
}

/// Section 3.3: what an operation writes. The paper: two lines and two fences for an insert or an
/// update, or one where the slot is in the line of the word; one line for a removal; all in one
/// block of 256 bytes.
#[test]
fn a_change_writes_one_line() {
    let simulation = Simulation::new(Persistency::Lines);
    let options = Options::new().capacity(30_000).shards(16);
    let map: Map = simulation.create(&options).unwrap();
    let count = |change: &dyn Fn()| {
        let before = simulation.moment();
        change();
        let counts: Counts = simulation.count(before..simulation.moment());
        (counts.lines_flushed, counts.fences, counts.blocks_written)
    };
    let most = map.stats().slots as u64 / 4;
    for key in 0..most {
        assert_eq!(count(&|| assert_eq!(map.insert(key, 1), Ok(None))), (1, 1, 1), "{key}");
    }
    for key in 0..most {
        assert_eq!(count(&|| assert_eq!(map.update(&key, 2), Ok(Some(1)))), (1, 1, 1));
        assert_eq!(count(&|| assert_eq!(map.get(&key), Some(2))), (0, 0, 0));
        assert_eq!(count(&|| assert_eq!(map.try_insert(key, 3), Ok(Err(2)))), (0, 0, 0));
    }
    // Where buckets are full, an insert sets flags on its way. These need not be durable.
    let (mut blocks, mut inserts) = (0, 0);
    while map.load_factor() < 0.7 {
        let (lines, fences, written) = count(&|| {
            map.insert(most + inserts, 1).unwrap();
        });
        assert_eq!((lines, fences), (1, 1), "insert {inserts}");
        inserts += 1;
        blocks += written;
    }
    assert_eq!(map.stats().grown, 0);
    let mean = blocks as f64 / inserts as f64;
    assert!(mean < 1.1, "{mean} blocks an insert");
    for key in 0..most {
        assert_eq!(count(&|| assert_eq!(map.update(&key, 3), Ok(Some(2)))), (1, 1, 1));
        assert_eq!(count(&|| assert_eq!(map.remove(&key), Ok(Some(3)))), (1, 1, 1));
        assert_eq!(count(&|| assert_eq!(map.remove(&key), Ok(None))), (0, 0, 0));
    }
}

/// The durable writes of a growing shard: its new buckets, by lines, and one word.
#[test]
fn a_shard_grows_by_one_word() {
    let simulation = Simulation::new(Persistency::Lines);
    let map: Map = simulation.create(&Options::new().shards(2)).unwrap();
    let (mut grown, mut in_place) = (0, 0);
    for key in 0..2000 {
        let before = simulation.moment();
        map.insert(key, key).unwrap();
        let counts = simulation.count(before..simulation.moment());
        let stats = map.stats();
        if stats.grown > grown {
            grown = stats.grown;
            // The new buckets with their headers; the descriptor; the pair; and both copies of an
            // extent, if the file has grown.
            let (most, extents) = (stats.buckets * 4 + 2, counts.syncs);
            let is_right =
                counts.lines_flushed <= most + 2 * extents && counts.fences == 3 + extents;
            assert!(is_right && extents <= 1, "{counts:?} {stats:?}");
            in_place += usize::from(extents == 0);
        }
    }
    assert!(in_place >= 10, "{in_place} of {grown}");
}

/// Opening a file that was not closed reads no slot. The first operation on a shard's keys looks at
/// the shard.
#[test]
fn opening_looks_at_descriptors_only() {
    let directory = Temporary::new();
    let map: Map = TurboMap::create(directory.path()).unwrap();
    (0..300_000).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    let image = fs::read(directory.path()).unwrap();
    drop(map);
    fs::write(directory.path(), &image).unwrap();
    let map: Map = TurboMap::open(directory.path()).unwrap();
    assert!(!map.recovery().was_closed && map.recovery().items == 0);
    assert_eq!(map.get(&1), Some(1));
    let items = map.recovery().items;
    assert!(items > 0 && items < 3 * 300_000 / 1024, "{items}");
    assert_eq!((map.len(), map.recovery().items), (300_000, 300_000));
    assert_eq!(map.verify(), Ok(300_000));
}

/// If a file is closed before all shards were looked at, the next process looks at them.
#[test]
fn shards_that_nobody_has_looked_at_stay_so() {
    let directory = Temporary::new();
    let map: Map = TurboMap::create_with(directory.path(), &Options::new().shards(8)).unwrap();
    (0..1000).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    let image = fs::read(directory.path()).unwrap();
    drop(map);
    fs::write(directory.path(), &image).unwrap();
    let map: Map = TurboMap::open(directory.path()).unwrap();
    assert_eq!(map.get(&1), Some(1));
    map.close().unwrap();
    let map: Map = TurboMap::open(directory.path()).unwrap();
    let known = map.recovery().items;
    assert!(map.recovery().was_closed && known > 0 && known < 1000, "{known}");
    assert!((0..1000).all(|key| map.get(&key) == Some(key)));
    assert_eq!((map.recovery().items, map.verify()), (1000, Ok(1000)));
}

/// XXH3 of a string of 32 bytes that begins with this word multiplies the next eight bytes by zero.
/// It is the first word of the hash's secret, plus the seed of every simulated file.
const ZERO_FACTOR: u64 = 0xBE4B_A423_396C_FEB8 + 1;

/// Byte strings of one hash have more keys than slots that a search looks at. The others are in
/// chains, and are there again after a close, and after a crash.
#[test]
fn byte_strings_in_chains_are_there_again() {
    const KEYS: u64 = 150;
    let bytes = |number: u64| [ZERO_FACTOR, number, 0, 0].map(u64::to_le_bytes).concat();
    let value = |number: u64| (number + 1).to_le_bytes();
    for is_closed in [true, false] {
        let simulation = Simulation::new(Persistency::Lines);
        let options = Options::new().shards(2).scope(2);
        let map: TurboBlobMap = simulation.create(&options).unwrap();
        (0..KEYS).for_each(|key| assert_eq!(map.put(&bytes(key), &value(key)), Ok(false)));
        let chained = map.stats().chained;
        assert!(chained > 100 && chained < KEYS as usize, "{chained} are in chains");
        if is_closed {
            map.close().unwrap();
        }
        let image = simulation.crash(simulation.moment()).latest();
        let map: TurboBlobMap =
            Simulation::of(&image, Persistency::Lines).open(&Options::new()).unwrap();
        assert!((0..KEYS).all(|key| map.get(&bytes(key)) == Some(value(key).to_vec())));
        assert_eq!((map.len(), map.verify()), (KEYS as usize, Ok(KEYS as usize)));
        assert_eq!((map.stats().chained, map.recovery().dropped), (chained, 0));
        for key in 0..KEYS {
            assert_eq!(map.delete(&bytes(key)), Ok(true));
        }
        assert!(map.is_empty());
    }
}
