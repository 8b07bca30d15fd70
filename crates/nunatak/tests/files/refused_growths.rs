//! A disk that is full for a moment, at each moment at which a file wants to grow: what a map says
//! of a change is so, and nothing else has changed.

use crate::kinds::{Kind, Test, for_each_kind, small};
use crate::sampling::one_in;
use nunatak::durable::{FileMap, MapInFile, Options, Persistency, Simulation};
use nunatak::{Error, FileError};
use std::collections::BTreeSet;

const FULL: Error = Error::File(FileError::Full);

/// Fills, empties, compacts and fills a map; returns its keys. Every refusal is one of a full disk.
fn live<T: MapInFile>(kind: &Kind<T>, map: &FileMap<T>) -> BTreeSet<u64> {
    let mut keys = BTreeSet::new();
    let or_full = |result: Result<(), Error>, what: &str| {
        assert!([Ok(()), Err(FULL)].contains(&result), "{}: {what}: {result:?}", kind.name);
        result.is_ok()
    };
    let put = |keys: &mut BTreeSet<u64>, key: u64| {
        if or_full((kind.put)(map, key), "an insert") {
            keys.insert(key);
        }
    };
    (0..3600).for_each(|key| put(&mut keys, key));
    or_full(map.sync(), "a sync");
    for key in 0..3300 {
        let removed = (kind.remove)(map, key);
        assert_eq!(removed, Ok(keys.remove(&key)), "{}: a removal needs no room", kind.name);
    }
    or_full(map.shrink_to_fit(), "a shrink");
    (4000..7600).for_each(|key| put(&mut keys, key));
    or_full(map.reserve(20_000), "a reservation");
    (8000..10_000).for_each(|key| put(&mut keys, key));
    keys
}

fn check<T: MapInFile>(kind: &Kind<T>, map: &FileMap<T>, keys: &BTreeSet<u64>, name: &str) {
    let wrong = (0..10_100).find(|key| (kind.has)(map, *key) != keys.contains(key));
    assert_eq!(wrong, None, "{name}");
    assert_eq!((map.len(), map.verify()), (keys.len(), Ok(keys.len())), "{name}");
}

struct Refused(Persistency);

impl Test for Refused {
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let create = || {
            let simulation = Simulation::new(self.0);
            let map: FileMap<T> = simulation.create(&small()).unwrap();
            (simulation, map)
        };
        let (simulation, map) = create();
        simulation.refuse_growths(0..0);
        let all = live(kind, &map);
        assert_eq!(all.len(), 5900);
        let growths = simulation.growths();
        drop(map);
        let mut refusals = 0;
        for (number, first) in (0..growths).step_by(one_in(1)).enumerate() {
            // For a moment, or for long.
            let count = if number % 2 == 0 { 1 } else { 100 };
            let name = format!("{} in {:?}, {first} and {count}", kind.name, self.0);
            let (simulation, map) = create();
            simulation.refuse_growths(first..first + count);
            let keys = live(kind, &map);
            refusals += all.len() - keys.len();
            check(kind, &map, &keys, &name);
            let killed = simulation.crash(simulation.moment()).latest();
            map.close().unwrap_or_else(|error| panic!("{name}: {error}"));
            for image in [killed, simulation.crash(simulation.moment()).latest()] {
                let again = Simulation::of(&image, self.0).of_killed();
                let map: FileMap<T> = again.open(&Options::new()).unwrap();
                check(kind, &map, &keys, &name);
                (11_000..11_100).for_each(|key| (kind.put)(&map, key).unwrap());
            }
        }
        println!("{}: {growths} growths, {refusals} refused inserts", kind.name);
        assert!(growths >= 3, "{}: {growths}", kind.name);
    }
}

#[test]
fn a_moment_without_room_in_the_page_cache() {
    for_each_kind(&Refused(Persistency::Pages));
}

#[test]
fn a_moment_without_room_in_persistent_memory() {
    for_each_kind(&Refused(Persistency::Lines));
}

struct Creating;

impl Test for Creating {
    /// A file that can't be made is an error.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        for persistency in [Persistency::Pages, Persistency::Lines] {
            let growths = {
                let simulation = Simulation::new(persistency);
                let _: FileMap<T> = simulation.create(&small()).unwrap();
                simulation.growths()
            };
            for growth in 0..growths {
                let simulation = Simulation::new(persistency);
                simulation.refuse_growths(growth..growth + 1);
                match simulation.create::<T>(&small()) {
                    Ok(map) => (0..100).for_each(|key| (kind.put)(&map, key).unwrap()),
                    Err(error) => assert_eq!(error, FULL, "{}: {growth}", kind.name),
                }
            }
            assert!(growths > 0);
        }
    }
}

#[test]
fn a_file_for_which_there_is_no_room() {
    for_each_kind(&Creating);
}
