//! Full disks: a change that finds no room changes nothing; keys can be removed, their room is used
//! again, and a file can be closed, opened and made smaller.

use crate::kinds::{Kind, Test, for_each_kind, small};
use nunatak::durable::{FileMap, MapInFile, Options, Persistency, Simulation};
use nunatak::{Error, FileError};

const FULL: Error = Error::File(FileError::Full);

/// Adds keys until the disk is full; returns the number of keys.
fn fill<T: MapInFile>(kind: &Kind<T>, map: &FileMap<T>, from: u64) -> u64 {
    let is_full = |key: &u64| match (kind.put)(map, *key) {
        Ok(()) => false,
        Err(FULL) => true,
        Err(other) => panic!("{}: {other}", kind.name),
    };
    (from..).find(is_full).unwrap()
}

struct Full(Persistency);

impl Test for Full {
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let has_blobs = kind.name.ends_with("-blobs");
        for more in if has_blobs { [300_000, 1 << 20] } else { [0, 65_536] } {
            let name = format!("{} in {:?} of {more} bytes", kind.name, self.0);
            let simulation = Simulation::new(self.0);
            let map: FileMap<T> = simulation.create(&small()).unwrap();
            let full_at = Some(map.file_bytes() + more);
            simulation.fill_disk_at(full_at);
            let keys = fill(kind, &map, 0);
            let has_all = |map: &FileMap<T>, gone: u64| {
                (0..keys).all(|key| (kind.has)(map, key) == (key >= gone))
            };
            assert!(has_all(&map, 0) && !(kind.has)(&map, keys), "{name}");
            assert_eq!(map.sync(), Ok(()), "{name}");
            if keys == 0 {
                // The first values of a map of many need more than there is.
                assert!(kind.name == "pea-multi" && more == 0, "{name}");
                continue;
            }
            // Half of the keys go and come, again and again.
            for round in 0..3 {
                for key in 0..keys / 2 {
                    let was_there = (kind.has)(&map, key);
                    assert_eq!((kind.remove)(&map, key), Ok(was_there), "{name}, {key} of {keys}");
                }
                assert!(has_all(&map, keys / 2), "{name}");
                let back = (0..keys / 2).filter(|&key| (kind.put)(&map, key).is_ok()).count();
                let most = keys as usize / 2;
                assert!(back >= most * 3 / 4, "{name}, {round}: {back} of {most} keys are back");
            }
            let keys_then: Vec<u64> = (0..keys).filter(|&key| (kind.has)(&map, key)).collect();
            // Closed, or not: the file opens, and can be changed and made smaller.
            let killed = simulation.crash(simulation.moment()).latest();
            map.close().unwrap();
            let closed = simulation.crash(simulation.moment()).latest();
            for (image, was_cut) in [(&closed, false), (&killed, false), (&closed, true)] {
                let again = Simulation::of(image, self.0);
                let again = if was_cut { again } else { again.of_killed() };
                again.fill_disk_at(Some(image.len() as u64));
                let map: FileMap<T> =
                    again.open(&Options::new()).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(keys_then.iter().all(|&key| (kind.has)(&map, key)), "{name}");
                for &key in keys_then.iter().filter(|key| *key % 8 > 0) {
                    assert_eq!((kind.remove)(&map, key), Ok(true), "{name}");
                }
                let before = map.file_bytes();
                assert_eq!(map.shrink_to_fit(), Ok(()), "{name}");
                assert!(map.file_bytes() <= before);
                let left: Vec<u64> = keys_then.iter().copied().filter(|key| key % 8 == 0).collect();
                assert!(left.iter().all(|&key| (kind.has)(&map, key)), "{name}");
                assert_eq!(map.verify(), Ok(left.len()), "{name}");
            }
        }
    }
}

#[test]
fn a_full_disk_is_no_dead_end_in_the_page_cache() {
    for_each_kind(&Full(Persistency::Pages));
}

#[test]
fn a_full_disk_is_no_dead_end_in_persistent_memory() {
    for_each_kind(&Full(Persistency::Lines));
}

struct Told;

impl Test for Told {
    /// Several threads on a full disk: what they are told of their keys is so, while slots come and
    /// go and the table is made smaller.
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let simulation = Simulation::new(Persistency::Lines);
        let map: FileMap<T> = simulation.create(&small()).unwrap();
        simulation.fill_disk_at(Some(map.file_bytes() + 300_000));
        let keys = fill(kind, &map, 0);
        let (threads, rounds) = (3, 6);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let map = &map;
                scope.spawn(move || {
                    let own = || (0..keys).filter(move |key| key % threads == thread);
                    let mut is_there = vec![true; keys as usize];
                    for round in 0..rounds {
                        // Now the early keys go, which have slots, now the late ones, in chains.
                        let goes = |key: &u64| !(key / 64 + round).is_multiple_of(3);
                        for key in own().filter(goes) {
                            let was_there = std::mem::take(&mut is_there[key as usize]);
                            assert_eq!((kind.remove)(map, key), Ok(was_there), "{}", kind.name);
                        }
                        for key in own().filter(goes) {
                            is_there[key as usize] = match (kind.put)(map, key) {
                                Ok(()) => true,
                                Err(error) => {
                                    assert_eq!(error, FULL, "{}", kind.name);
                                    false
                                }
                            };
                        }
                        for key in own() {
                            let expected = is_there[key as usize];
                            assert_eq!((kind.has)(map, key), expected, "{} {key}", kind.name);
                        }
                    }
                });
            }
            scope.spawn(|| (0..rounds).for_each(|_| map.shrink_to_fit().unwrap()));
        });
        map.verify().unwrap();
    }
}

#[test]
fn what_threads_are_told_on_a_full_disk_is_so() {
    for_each_kind(&Told);
}
