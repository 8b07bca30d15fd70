//! Devices that fail: an error at each write of a file, one at a time. The handle is poisoned, and the
//! file opens as one of the syncs that were acknowledged or were under way has left it, also in the
//! process that saw the error and still has in its page cache what the disk has not got.

use crate::effort::some_of;
use crate::kinds::{Kind, Test, for_each_kind, small};
use nunatak::durable::{FileMap, MapInFile, Options, Persistency, Simulation};
use nunatak::{Error, FileError};
use std::collections::BTreeSet;

const POISONED: Error = Error::File(FileError::Poisoned);

/// What a map was told to do until a write failed.
#[derive(Default)]
struct Life {
    /// The keys at the last sync that was acknowledged.
    synced: BTreeSet<u64>,
    /// The keys of all changes that were acknowledged.
    keys: BTreeSet<u64>,
    /// The key of the operation that has returned an error.
    unsure: Option<u64>,
    error: Option<Error>,
}

impl Life {
    fn did(&mut self, result: Result<bool, Error>, key: Option<u64>) -> bool {
        self.error = self.error.take().or(result.err());
        self.unsure = if result.is_err() { key } else { self.unsure };
        result.unwrap_or(false)
    }

    fn put<T: MapInFile>(&mut self, kind: &Kind<T>, map: &FileMap<T>, keys: core::ops::Range<u64>) {
        for key in keys {
            if self.error.is_none() && self.did((kind.put)(map, key).map(|()| true), Some(key)) {
                self.keys.insert(key);
            }
        }
    }

    fn remove<T: MapInFile>(
        &mut self,
        kind: &Kind<T>,
        map: &FileMap<T>,
        keys: core::ops::Range<u64>,
    ) {
        for key in keys {
            if self.error.is_none() && self.did((kind.remove)(map, key), Some(key)) {
                self.keys.remove(&key);
            }
        }
    }

    fn sync<T: MapInFile>(&mut self, map: &FileMap<T>) {
        if self.error.is_none() && self.did(map.sync().map(|()| true), None) {
            self.synced.clone_from(&self.keys);
        }
    }

    fn shrink<T: MapInFile>(&mut self, map: &FileMap<T>) {
        if self.error.is_none() && self.did(map.shrink_to_fit().map(|()| true), None) {
            // A shrink ends with a sync.
            self.synced.clone_from(&self.keys);
        }
    }

    /// Fills, empties, compacts and fills a map, until a write fails.
    fn of<T: MapInFile>(kind: &Kind<T>, map: &FileMap<T>) -> Self {
        let mut life = Self::default();
        for step in 0..4 {
            life.put(kind, map, step * 150..(step + 1) * 150);
            life.sync(map);
        }
        life.remove(kind, map, 0..500);
        life.shrink(map);
        life.put(kind, map, 1000..1100);
        life.sync(map);
        life.remove(kind, map, 1000..1050);
        life.put(kind, map, 1100..1200);
        life.sync(map);
        life
    }
}

struct Failing {
    options: Options,
}

impl Test for Failing {
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let (mut failures, mut images) = (0, 0);
        loop {
            let simulation = Simulation::new(Persistency::Pages);
            let map: FileMap<T> = simulation.create(&self.options).unwrap();
            simulation.fail_sync_after(failures);
            let life = Life::of(kind, &map);
            let Some(error) = &life.error else { break };
            let name = format!("{}: write {failures} has failed", kind.name);
            let is_io = matches!(error, Error::File(FileError::Io { .. }));
            assert!(is_io || *error == POISONED, "{name}: {error}");
            let failure = map.failure();
            assert!(
                matches!(failure, Some(Error::File(FileError::Io { .. }))),
                "{name}: {failure:?}"
            );
            // The device works again, and the handle does not.
            for _ in 0..2 {
                assert_eq!((kind.put)(&map, 5000), Err(POISONED), "{name}");
                assert_eq!((kind.remove)(&map, 1), Err(POISONED), "{name}");
                assert_eq!(map.sync(), Err(POISONED), "{name}");
            }
            assert_eq!(map.close(), Err(POISONED), "{name}");
            let crash = simulation.crash(simulation.moment());
            // In the same start of the machine: all stores are in the page cache.
            let latest = crash.latest();
            let again = Simulation::of(&latest, Persistency::Pages).of_killed();
            examine(kind, &again, &life, &name);
            for image in crash.images(some_of(12) as u64, failures as u64) {
                let cut = Simulation::of(&image, Persistency::Pages);
                examine(kind, &cut, &life, &name);
                images += 1;
            }
            failures += 1;
        }
        println!("{}: {failures} failed writes, {images} images", kind.name);
        assert!(failures >= 6, "{}: {failures}", kind.name);
    }
}

/// Opens a file that a failed write has left, compares it, and uses it.
fn examine<T: MapInFile>(kind: &Kind<T>, simulation: &Simulation, life: &Life, name: &str) {
    let map: FileMap<T> = simulation.open(&Options::new()).unwrap();
    let found: BTreeSet<u64> = (0..1200).filter(|&key| (kind.has)(&map, key)).collect();
    assert_eq!((map.len(), map.verify()), (found.len(), Ok(found.len())), "{name}");
    let is_of = |keys: &BTreeSet<u64>| {
        found.symmetric_difference(keys).all(|&key| Some(key) == life.unsure)
    };
    let is_right = match kind.name {
        // Each key is as at the last sync, or since. No key is put or removed twice between syncs.
        "iceberg" => (0..1200).filter(|&key| Some(key) != life.unsure).all(|key| {
            let (has, had) = (life.keys.contains(&key), life.synced.contains(&key));
            has != had || found.contains(&key) == has
        }),
        _ => is_of(&life.synced) || is_of(&life.keys),
    };
    let (synced, all) = (life.synced.len(), life.keys.len());
    assert!(is_right, "{name}: {} keys; {synced} were synced, {all} stored", found.len());
    (6000..6040).for_each(|key| (kind.put)(&map, key).unwrap());
    map.sync().unwrap();
    assert_eq!(map.verify(), Ok(found.len() + 40), "{name}");
    map.close().unwrap();
}

#[test]
fn a_write_that_fails_loses_nothing_that_was_acknowledged() {
    for_each_kind(&Failing { options: small() });
}

#[test]
fn nor_does_one_of_a_map_with_a_journal() {
    for_each_kind(&Failing { options: small().journal(64 << 10) });
}

/// What has failed is not in the page cache for the next handle.
struct Marked;

impl Test for Marked {
    fn run<T: MapInFile>(&self, kind: &Kind<T>) {
        let simulation = Simulation::new(Persistency::Pages);
        let map: FileMap<T> = simulation.create(&small()).unwrap();
        (0..100).for_each(|key| (kind.put)(&map, key).unwrap());
        map.sync().unwrap();
        (100..200).for_each(|key| (kind.put)(&map, key).unwrap());
        let killed = simulation.crash(simulation.moment()).latest();
        simulation.fail_sync_after(0);
        assert!(map.sync().is_err());
        let failed = simulation.crash(simulation.moment()).latest();
        // A process that is only killed loses nothing.
        let of = |image: &[u8]| {
            let again = Simulation::of(image, Persistency::Pages).of_killed();
            let map: FileMap<T> = again.open(&Options::new()).unwrap();
            let cut = map.recovery();
            (map.len(), cut.was_closed)
        };
        assert_eq!(of(&killed), (200, false), "{}", kind.name);
        let expected = if kind.name == "iceberg" { 200 } else { 100 };
        assert_eq!(of(&failed), (expected, false), "{}", kind.name);
    }
}

#[test]
fn a_file_whose_sync_has_failed_opens_as_after_a_power_cut() {
    for_each_kind(&Marked);
}
