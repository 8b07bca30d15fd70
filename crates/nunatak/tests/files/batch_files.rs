//! Atomic batches of maps in files: other threads, snapshots, errors, and files opened again.

use crate::sampling::one_in;
use nunatak::durable::{
    AtomicBatches, BlobDesign, BlobsInFile, Durability, FileMap, InFile, InPages, Map, Options,
    Persistency, Simulation, TurboBlobMap,
};
use nunatak::{Error, FileError, Iceberg, Pea, Turbo};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

type BlobsOf<D> = FileMap<BlobsInFile<D>>;

fn for_both(test: [fn(); 2]) {
    test.into_iter().for_each(|test| test());
}

/// Changes of other threads wait for the end of a batch, snapshots show all of it, and syncs in its
/// middle change nothing.
fn is_isolated<D: AtomicBatches>()
where
    Map<u64, u64, D>: Sync,
{
    const PAIRS: u64 = 40;
    let directory = tempfile::tempdir().unwrap();
    let often = Durability::Interval(Duration::from_micros(200));
    let options = Options::new().segment_buckets(4).shards(4).durability(often);
    let map: Map<u64, u64, D> = Map::create_with(directory.path().join("map"), &options).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..2 {
            let (map, is_over) = (&map, &is_over);
            scope.spawn(move || {
                for round in 0..1500_u64 {
                    let number = round * 2 + writer;
                    let mut changes = vec![(0, Some(u64::MAX))];
                    changes.extend((1..PAIRS).map(|key| (key, Some(number))));
                    changes.extend((1..PAIRS).map(|key| (1000 + number * PAIRS + key, Some(key))));
                    changes.push((0, Some(number)));
                    map.write_batch(&changes).unwrap();
                    let remove = |key| (1000 + number * PAIRS + key, None);
                    map.write_batch(&(1..PAIRS).map(remove).collect::<Vec<_>>()).unwrap();
                }
                is_over.store(true, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let before = map.remove(&0).unwrap();
                assert_ne!(before, Some(u64::MAX), "a change in the middle of a batch");
                map.insert(500, before.unwrap_or(0)).unwrap();
            }
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let all: Vec<_> = map.snapshot().unwrap().collect();
                let of_batch: Vec<u64> =
                    all.iter().filter(|(key, _)| (1..PAIRS).contains(key)).map(|of| of.1).collect();
                assert!(of_batch.windows(2).all(|two| two[0] == two[1]), "{of_batch:?}");
                let others = all.iter().filter(|(key, _)| *key >= 1000).count() as u64;
                assert!(others.is_multiple_of(PAIRS - 1), "{others}");
            }
        });
    });
    assert_eq!(map.verify(), Ok(map.len()));
}

#[test]
fn a_batch_keeps_other_changes_out() {
    for_both([is_isolated::<InFile<Pea>>, is_isolated::<InFile<Turbo>>]);
}

fn changes_in_order<D: AtomicBatches>() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let map: Map<u64, u64, D> = Map::create(&path).unwrap();
    map.write_batch(&[]).unwrap();
    map.write_batch(&[(1, Some(1)), (1, None), (2, Some(2)), (2, Some(3)), (9, None)]).unwrap();
    assert_eq!((map.get(&1), map.get(&2), map.len()), (None, Some(3), 1));
    let many: Vec<_> = (0..100_000).map(|key| (key, Some(!key))).collect();
    map.write_batch(&many).unwrap();
    map.close().unwrap();
    let map: Map<u64, u64, D> = Map::open(&path).unwrap();
    assert_eq!((map.verify(), map.get(&99_999)), (Ok(100_000), Some(!99_999)));
    let none: Vec<_> = (0..100_000).map(|key| (key, None)).collect();
    map.write_batch(&none).unwrap();
    map.shrink_to_fit().unwrap();
    map.close().unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() < 2 << 20);
    let map: Map<u64, u64, D> = Map::open_with(&path, &Options::new().read_only(true)).unwrap();
    assert_eq!(map.write_batch(&[(1, Some(1))]), Err(Error::File(FileError::ReadOnly)));
    assert!(map.is_empty());
}

#[test]
fn the_last_change_of_a_key_counts() {
    for_both([changes_in_order::<InFile<Pea>>, changes_in_order::<InFile<Turbo>>]);
}

fn are_byte_strings_changed<D: BlobDesign>() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let map = BlobsOf::<D>::create(&path).unwrap();
    let long = vec![7; 100_000];
    map.write_batch(&[("a", Some(&b"1"[..])), ("b", Some(&long)), ("a", Some(b"2"))]).unwrap();
    map.write_batch(&[("b", None), ("none", None), ("c", Some(""))]).unwrap();
    assert_eq!((map.get(b"a"), map.get(b"c"), map.len()), (Some(b"2".to_vec()), Some(vec![]), 2));
    map.reclaim();
    assert_eq!(map.blob_stats().blobs, 2, "replaced byte strings are given back");
    map.close().unwrap();
    let map: BlobsOf<D> = FileMap::open(&path).unwrap();
    assert_eq!(map.verify(), Ok(2));
}

#[test]
fn byte_strings_are_changed_together() {
    for_both([are_byte_strings_changed::<InFile<Pea>>, are_byte_strings_changed::<InFile<Turbo>>]);
    are_byte_strings_changed::<InPages<Iceberg>>();
}

/// A batch in whose middle the caller's code panics leaves its log behind, which would take later
/// changes back. So none are accepted, and the file is as before the batch when it is opened again.
#[test]
fn a_batch_that_panics_is_taken_back() {
    struct Name(&'static str);
    impl AsRef<[u8]> for Name {
        fn as_ref(&self) -> &[u8] {
            assert!(!self.0.is_empty(), "a key that panics");
            self.0.as_bytes()
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let map = TurboBlobMap::create(&path).unwrap();
    map.put(b"a", b"1").unwrap();
    let changes = [(Name("a"), Some("2")), (Name("b"), Some("3")), (Name(""), Some("4"))];
    let batch = std::panic::AssertUnwindSafe(|| map.write_batch(&changes));
    assert!(std::panic::catch_unwind(batch).is_err());
    let later = [map.put(b"a", b"5").map(drop), map.write_batch(&[("c", Some("6"))]), map.sync()];
    assert_eq!(later, [Err(Error::File(FileError::Poisoned)); 3]);
    drop(map);
    let map: TurboBlobMap = FileMap::open(&path).unwrap();
    assert_eq!((map.get(b"a"), map.get(b"b")), (Some(b"1".to_vec()), None));
    assert_eq!(map.verify(), Ok(1));
}

/// On a full disk a batch changes everything or nothing, also for who opens the file after a crash.
fn is_refused_whole<D: AtomicBatches>() {
    for (persistency, more) in [
        (Persistency::Pages, 1 << 20),
        (Persistency::Pages, 400_000),
        (Persistency::Lines, 1 << 20),
    ] {
        let options = Options::new().segment_buckets(4).shards(4);
        let simulation = Simulation::new(persistency);
        let map: Map<u64, u64, D> = simulation.create(&options).unwrap();
        simulation.fill_disk_at(Some(map.file_bytes() + more));
        let (mut keys, mut refused) = (0, 0);
        while refused < 20 {
            let of_batch = keys..keys + 200;
            let changes: Vec<_> = of_batch.clone().map(|key| (key, Some(key))).collect();
            let old = of_batch.clone().map(|key| (key / 2, Some(keys)));
            let changes: Vec<_> = changes.into_iter().chain(old).collect();
            let before: Vec<_> = map.iter().collect();
            match map.write_batch(&changes) {
                Ok(()) => {
                    keys = of_batch.end;
                    assert!(changes.iter().skip(200).all(|(key, value)| map.get(key) == *value));
                }
                Err(error) => {
                    refused += 1;
                    assert_eq!(error, Error::File(FileError::Full));
                    let sorted = |mut all: Vec<(u64, u64)>| {
                        all.sort_unstable();
                        all
                    };
                    assert!(sorted(map.iter().collect()) == sorted(before));
                    // Room for a part of the next one.
                    (0..refused)
                        .for_each(|at| assert!(map.remove(&(keys - 1 - at)).unwrap().is_some()));
                    keys -= refused;
                }
            }
            assert_eq!((map.len() as u64, map.verify()), (keys, Ok(keys as usize)));
        }
        assert!(keys > 200, "{keys}");
        let left = simulation.crash(simulation.moment()).latest();
        let killed = Simulation::of(&left, persistency).of_killed();
        let map: Map<u64, u64, D> = killed.open(&options).unwrap();
        assert_eq!(map.verify(), Ok(keys as usize));
        assert_eq!(map.write_batch(&[(0, None)]), Ok(()));
    }
}

#[test]
fn a_full_disk_refuses_a_batch_as_a_whole() {
    for_both([is_refused_whole::<InFile<Pea>>, is_refused_whole::<InFile<Turbo>>]);
}

fn are_byte_strings_refused_whole<D: BlobDesign>() {
    for persistency in [Persistency::Pages, Persistency::Lines] {
        let simulation = Simulation::new(persistency);
        let options = Options::new().shards(4).segment_buckets(4);
        let map: BlobsOf<D> = simulation.create(&options).unwrap();
        simulation.fill_disk_at(Some(map.file_bytes() + (2 << 20)));
        let bytes_of = |key: u64| vec![key as u8; 3000];
        let (mut keys, mut refused) = (0_u64, 0);
        while refused < 10 {
            let names: Vec<_> = (keys..keys + 30).map(|key| key.to_le_bytes()).collect();
            let changes: Vec<_> = names.iter().map(|name| (name, Some(bytes_of(keys)))).collect();
            match map.write_batch(&changes) {
                Ok(()) => keys += 30,
                Err(error) => {
                    assert_eq!(error, Error::File(FileError::Full));
                    assert!(names.iter().all(|name| !map.contains_key(name)));
                    refused += 1;
                    map.delete(&(keys - 1).to_le_bytes()).unwrap();
                    keys -= 1;
                }
            }
            assert_eq!(map.verify(), Ok(keys as usize));
        }
        map.sync().unwrap();
        map.reclaim();
        assert!(keys > 200 && map.blob_stats().blobs as u64 == keys, "{keys}");
        map.close().unwrap();
    }
}

#[test]
fn a_full_disk_refuses_byte_strings_as_a_whole() {
    for_both([
        are_byte_strings_refused_whole::<InFile<Pea>>,
        are_byte_strings_refused_whole::<InFile<Turbo>>,
    ]);
}

/// A damaged log takes nothing back.
fn is_not_misread<D: AtomicBatches>() {
    for persistency in [Persistency::Pages, Persistency::Lines] {
        let simulation = Simulation::new(persistency);
        let map: Map<u64, u64, D> = simulation.create(&Options::new().shards(4)).unwrap();
        map.insert(7, 70).unwrap();
        let before = simulation.moment();
        let (gone, come) = (0x1234_5678_9abc, 0x8765_4321_fedc);
        map.write_batch(&[(7, None), (gone, Some(come)), (1, Some(1))]).unwrap();
        let after = simulation.moment();
        let words = |image: &[u8], wanted: u64| -> Vec<usize> {
            let is_it = |at: &usize| image[*at..at + 8] == wanted.to_ne_bytes();
            (0..image.len() - 7).step_by(8).filter(is_it).collect()
        };
        let mut refused = 0;
        for moment in (before..=after).step_by(5) {
            let mut image = simulation.crash(moment).latest();
            // The key's word and the value word after the change are in the log, as they are.
            for wanted in [gone, come] {
                for at in words(&image, wanted) {
                    image[at] ^= 4;
                    let killed = Simulation::of(&image, persistency).of_killed();
                    let opened: Result<Map<u64, u64, D>, Error> = killed.open(&Options::new());
                    match opened {
                        // The byte is in a slot.
                        Ok(_) => {}
                        Err(Error::File(FileError::Corrupt { .. })) => refused += 1,
                        Err(other) => panic!("{other}"),
                    }
                    image[at] ^= 4;
                }
            }
        }
        assert!(refused > 2, "{refused}");
    }
}

#[test]
fn a_damaged_log_is_refused() {
    for_both([is_not_misread::<InFile<Pea>>, is_not_misread::<InFile<Turbo>>]);
}

/// On a disk that is nearly full a batch syncs in its middle, for room for copies of pages. What a
/// power cut leaves then has none of the batch.
fn is_whole_after_syncs<D: AtomicBatches>() {
    const KEYS: u64 = 3000;
    let options = Options::new().segment_buckets(16).shards(4);
    let simulation = Simulation::new(Persistency::Pages);
    let map: Map<u64, u64, D> = simulation.create(&options).unwrap();
    let set_all = |number: u64| {
        let changes: Vec<_> = (0..KEYS).map(|key| (key, Some(number))).collect();
        map.write_batch(&changes).unwrap();
    };
    set_all(0);
    map.sync().unwrap();
    simulation.fill_disk_at(Some(map.file_bytes()));
    let begin = simulation.moment();
    (1..5).for_each(set_all);
    let end = simulation.moment();
    let mut found: Vec<u64> = Vec::new();
    for moment in (begin..=end).step_by(one_in((end - begin) / 150 + 1)) {
        for image in simulation.crash(moment).images(2, moment as u64) {
            let cut = Simulation::of(&image, Persistency::Pages);
            let map: Map<u64, u64, D> = cut.open(&options).unwrap();
            let values: Vec<u64> = map.iter().map(|(_, value)| value).collect();
            let is_one = values.windows(2).all(|two| two[0] == two[1]);
            assert!(is_one && values.len() as u64 == KEYS, "at {moment}: {values:?}");
            assert_eq!(map.verify(), Ok(values.len()));
            found.extend(values.first());
        }
    }
    found.dedup();
    assert!(found.len() > 2, "the batches made no sync: {found:?}");
}

#[test]
fn a_sync_in_the_middle_of_a_batch_keeps_none_of_it() {
    for_both([is_whole_after_syncs::<InFile<Pea>>, is_whole_after_syncs::<InFile<Turbo>>]);
}

/// The same for byte strings, whose places must not be used again while a durable log names them.
fn are_byte_strings_whole_after_syncs<D: BlobDesign>() {
    const KEYS: u64 = 3000;
    let options = Options::new().shards(4).segment_buckets(4);
    let simulation = Simulation::new(Persistency::Pages);
    let map: BlobsOf<D> = simulation.create(&options).unwrap();
    let keys: Vec<_> = (0..KEYS).map(u64::to_le_bytes).collect();
    let set_all = |number: u8| {
        let value = vec![number; 60];
        let changes: Vec<_> = keys.iter().map(|key| (key, Some(&value))).collect();
        map.write_batch(&changes).unwrap();
    };
    set_all(0);
    map.sync().unwrap();
    // Room for the byte strings, and not for copies of all pages.
    map.put(b"filling", &vec![0; 4 << 20]).unwrap();
    map.sync().unwrap();
    map.delete(b"filling").unwrap();
    map.reclaim();
    map.sync().unwrap();
    simulation.fill_disk_at(Some(map.file_bytes()));
    let begin = simulation.moment();
    (1..7).for_each(set_all);
    let end = simulation.moment();
    let mut found: Vec<u8> = Vec::new();
    for moment in (begin..=end).step_by(one_in((end - begin) / 60 + 1)) {
        for image in simulation.crash(moment).images(2, moment as u64) {
            let cut = Simulation::of(&image, Persistency::Pages);
            let map: BlobsOf<D> = cut.open(&options).unwrap();
            let values: Vec<Vec<u8>> = map.iter().map(|(_, value)| value).collect();
            let is_one = values.windows(2).all(|two| two[0] == two[1]);
            assert!(is_one && values[0] == vec![values[0][0]; 60], "at {moment}");
            assert_eq!(map.verify(), Ok(KEYS as usize), "at {moment}");
            found.push(values[0][0]);
        }
    }
    found.dedup();
    assert!(found.len() > 2, "the batches made no sync: {found:?}");
}

#[test]
fn nor_does_it_lose_byte_strings() {
    for_both([
        are_byte_strings_whole_after_syncs::<InFile<Pea>>,
        are_byte_strings_whole_after_syncs::<InFile<Turbo>>,
    ]);
}
