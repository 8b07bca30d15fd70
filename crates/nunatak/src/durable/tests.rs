//! Keys with colliding hashes, in files: they go to chains.

use super::{Options, PeaMap, PeaMultiMap, Persistency, Simulation, TurboMap};
use crate::error::FileError;
use crate::hash::{HashCodec as _, StableCodec, StableHash};
use crate::memory::Part;
use std::collections::BTreeMap;

type Map = PeaMultiMap<u64, u64>;

/// Returns keys whose hashes agree in all bits that place them, in simulations.
fn colliding(count: u64) -> Vec<u64> {
    let decoder = StableCodec::new(StableHash::EXAMPLE.multipliers).decoder();
    (0..count).map(|n| decoder.word(1 << 63 | 0x1234_5678_9A00_0400 | n, 0)).collect()
}

fn small() -> Options {
    Options::new().threads(1).segment_buckets(2)
}

fn contents(map: &Map) -> BTreeMap<u64, Vec<u64>> {
    let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    map.iter().for_each(|(key, value)| found.entry(key).or_default().push(value));
    found.values_mut().for_each(|values| values.sort_unstable());
    assert_eq!(map.verify(), Ok(map.len()));
    found
}

#[test]
fn keys_that_collide_are_there_again() {
    for persistency in [Persistency::Lines, Persistency::Pages] {
        let simulation = Simulation::new(persistency);
        let map: Map = simulation.create(&small()).unwrap();
        let keys = colliding(150);
        for value in 0..3 {
            keys.iter().for_each(|&key| map.insert(key, value).unwrap());
        }
        assert!(map.stats().table.chained > 50, "{:?}", map.stats());
        map.sync().unwrap();
        let killed = simulation.crash(simulation.moment()).latest();
        map.close().unwrap();
        for image in [simulation.crash(simulation.moment()).latest(), killed] {
            let again = Simulation::of(&image, persistency);
            let map: Map = again.open(&small()).unwrap();
            assert_eq!(map.recovery().dropped, 0);
            assert_eq!((map.len(), map.verify()), (450, Ok(450)));
            assert!(contents(&map).values().all(|values| *values == [0, 1, 2]));
            keys.iter().for_each(|key| assert_eq!(map.remove_all(key), Ok(3)));
            assert_eq!((map.verify(), map.stats().table.chained), (Ok(0), 0));
            assert_eq!(map.stats().buffers.iter().sum::<usize>(), 0);
        }
    }
}

/// Values in chains become a buffer, are added to it, removed from it, and become one value again;
/// crashed at every moment.
#[test]
fn chains_are_crashed() {
    let simulation = Simulation::new(Persistency::Lines);
    let map: Map = simulation.create(&small()).unwrap();
    let keys = colliding(70);
    keys.iter().for_each(|&key| map.insert(key, 7).unwrap());
    assert!(map.stats().table.chained >= 8, "{:?}", map.stats());
    let chained = keys[69];
    let insert = |value| map.insert(chained, value).unwrap();
    let remove = |value| assert_eq!(map.remove_one(&chained, &value), Ok(true));
    let steps: [&dyn Fn(); 8] = [
        &|| insert(8),
        &|| (9..50).for_each(insert),
        &|| remove(10),
        &|| (11..50).for_each(remove),
        &|| remove(7),
        &|| remove(8),
        &|| insert(10),
        &|| assert_eq!(map.remove_all(&chained), Ok(2)),
    ];
    let mut images = 0;
    for step in steps {
        let (before, from) = (contents(&map), simulation.moment());
        step();
        let (after, to) = (contents(&map), simulation.moment());
        let of_chained = |all: &BTreeMap<u64, Vec<u64>>| all.get(&chained).map_or(0, Vec::len);
        // After several operations only the last moment is checked.
        let is_one = of_chained(&before).abs_diff(of_chained(&after)) <= 2;
        for moment in if is_one { from..=to } else { to..=to } {
            for image in simulation.crash(moment).images(32, 1) {
                let again = Simulation::of(&image, Persistency::Lines);
                let map: Map = again.open(&small()).unwrap();
                let found = contents(&map);
                assert!(found == after || moment < to && found == before, "{moment} of {to}");
                images += 1;
            }
        }
    }
    assert!(images > 100, "{images}");
}

/// A power cut takes back what was changed since the last sync, also in chains: the page of a
/// chain's slot is copied before its first change, as the others are.
#[test]
fn changes_in_chains_are_taken_back_with_the_others() {
    let simulation = Simulation::new(Persistency::Pages);
    let map: Map = simulation.create(&small()).unwrap();
    let keys = colliding(70);
    keys.iter().for_each(|&key| map.insert(key, 7).unwrap());
    assert!(map.stats().table.chained >= 8, "{:?}", map.stats());
    map.sync().unwrap();
    let before = contents(&map);
    let steps: [&dyn Fn(); 4] = [
        &|| map.insert(keys[69], 8).unwrap(),
        &|| assert_eq!(map.remove_one(&keys[68], &7), Ok(true)),
        &|| (8..50).for_each(|value| map.insert(keys[67], value).unwrap()),
        &|| assert_eq!(map.remove_all(&keys[67]), Ok(43)),
    ];
    for (number, step) in steps.into_iter().enumerate() {
        step();
        for image in simulation.crash(simulation.moment()).images(10, number as u64) {
            let map: Map = Simulation::of(&image, Persistency::Pages).open(&small()).unwrap();
            assert_eq!(contents(&map), before, "step {number}");
        }
    }
}

/// A value that is replaced in a chain is replaced in the file.
#[test]
fn replaced_values_of_chains_are_there_again() {
    for persistency in [Persistency::Lines, Persistency::Pages] {
        let simulation = Simulation::new(persistency);
        let map: PeaMap<u64, u64> = simulation.create(&small()).unwrap();
        let keys = colliding(100);
        keys.iter().for_each(|&key| assert_eq!(map.insert(key, 1), Ok(None)));
        assert!(map.stats().chained >= 8, "{:?}", map.stats());
        keys.iter().for_each(|&key| assert_eq!(map.insert(key, key), Ok(Some(1))));
        let killed = simulation.crash(simulation.moment()).latest();
        map.close().unwrap();
        let closed = simulation.crash(simulation.moment()).latest();
        for image in [killed, closed] {
            let again = Simulation::of(&image, persistency).of_killed();
            let map: PeaMap<u64, u64> = again.open(&small()).unwrap();
            assert_eq!(map.verify(), Ok(100));
            assert!(keys.iter().all(|key| map.get(key) == Some(*key)));
        }
    }
}

/// The page map names a page of slots that is not in the file. Of the keys in chains nothing else tells how
/// many there were.
#[test]
fn a_lost_page_of_chains_is_damage() {
    let simulation = Simulation::new(Persistency::Pages);
    let options = small().shards(2).scope(2);
    let map: TurboMap<u64, u64> = simulation.create(&options).unwrap();
    let keys = colliding(100);
    keys.iter().for_each(|&key| assert_eq!(map.insert(key, key), Ok(None)));
    assert!(map.stats().chained >= 8, "{:?}", map.stats());
    map.close().unwrap();
    let mut image = simulation.crash(simulation.moment()).latest();
    let word = |at: usize| u64::from_ne_bytes(image[at..at + 8].try_into().unwrap());
    let mut extents = (8192..).step_by(32).map(word);
    let of_map = extents.find(|extent| extent >> 52 == Part::ChainsMap as u64).unwrap();
    let first = (of_map as usize & 0xFFFF_FFFF) << 16;
    for version in (first..first + 32).step_by(8).filter(|&at| word(at) != 0).collect::<Vec<_>>() {
        image[version..version + 3].fill(0xFF);
    }
    let map: TurboMap<u64, u64> =
        Simulation::of(&image, Persistency::Pages).open(&Options::new()).unwrap();
    assert!(keys.iter().any(|key| map.get(key).is_none()));
    assert_eq!(map.verify(), Err(FileError::corrupt("a page is not in the file").into()));
}

#[test]
fn a_change_in_a_chain_writes_one_line() {
    let simulation = Simulation::new(Persistency::Lines);
    let map: PeaMap<u64, u64> = simulation.create(&small()).unwrap();
    let keys = colliding(100);
    let (&last, others) = keys.split_last().unwrap();
    others.iter().for_each(|&key| assert_eq!(map.insert(key, 1), Ok(None)));
    let chained = map.stats().chained;
    let changes: [(&dyn Fn(), usize); 3] = [
        (&|| assert_eq!(map.insert(last, 1), Ok(None)), chained + 1),
        (&|| assert_eq!(map.insert(last, 2), Ok(Some(1))), chained + 1),
        (&|| assert_eq!(map.remove(&last), Ok(Some(2))), chained),
    ];
    for (change, then) in changes {
        let before = simulation.moment();
        change();
        let counts = simulation.count(before..simulation.moment());
        assert_eq!((counts.lines_flushed, counts.fences), (1, 1));
        assert_eq!(map.stats().chained, then);
    }
}
