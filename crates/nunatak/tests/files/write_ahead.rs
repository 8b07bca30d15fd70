//! What runs before a sync: the state of the sync is fixed then, and not durable.

use crate::temporary::{Temporary, error};
use nunatak::durable::{
    DurableDesign, IcebergMap, InFile, Map, Options, Persistency, Simulation, TurboBlobMap,
};
use nunatak::{Error, FileError, Pea, Turbo};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Words<D> = Map<u64, u64, D>;

/// A change that comes while the function runs is not in the state, and a power cut then leaves the
/// state of the sync before.
fn the_state_is_fixed_and_not_durable<D: DurableDesign>() {
    let simulation = Simulation::new(Persistency::Pages);
    let map: Arc<Words<D>> = Arc::new(simulation.create(&Options::new()).unwrap());
    (0..100).for_each(|key| assert_eq!(map.insert(key, 1), Ok(None)));
    map.sync().unwrap();
    let (before, moment) = (map.last_sync(), Arc::new(AtomicUsize::new(0)));
    let (told, of, noted) = (Arc::downgrade(&map), simulation.clone(), Arc::clone(&moment));
    map.before_sync(move || {
        // Nobody has it any more when it is closed.
        let Some(map) = told.upgrade() else { return Ok(()) };
        assert_eq!(map.insert(1000, 1000), Ok(None));
        assert_eq!((map.last_sync(), map.remove(&1000)), (before, Ok(Some(1000))));
        map.insert(1001, 1001).unwrap();
        noted.store(of.moment(), Ordering::Relaxed);
        Ok(())
    })
    .unwrap();
    (0..100).for_each(|key| assert_eq!(map.insert(key, 2), Ok(Some(1))));
    map.sync().unwrap();
    assert!(map.last_sync() > before);
    let open = |image: &[u8]| -> Words<D> {
        let map: Words<D> =
            Simulation::of(image, Persistency::Pages).open(&Options::new()).unwrap();
        assert!(map.recovery().was_cut && !map.recovery().was_closed);
        assert_eq!(map.get(&1001), None, "it came after the moment of the sync");
        map
    };
    let during = simulation.crash(moment.load(Ordering::Relaxed));
    for image in [during.earliest(), during.latest()] {
        let map = open(&image);
        assert_eq!((map.last_sync(), map.len()), (before, 100));
        assert!((0..100).all(|key| map.get(&key) == Some(1)));
    }
    let after = open(&simulation.crash(simulation.moment()).earliest());
    assert_eq!((after.last_sync(), after.len()), (map.last_sync(), 100));
    assert!((0..100).all(|key| after.get(&key) == Some(2)));
}

#[test]
fn the_state_of_a_sync_is_fixed_and_not_durable() {
    the_state_is_fixed_and_not_durable::<InFile<Pea>>();
    the_state_is_fixed_and_not_durable::<InFile<Turbo>>();
}

/// If the function fails, the sync is not made, nor any later one.
#[test]
fn an_error_poisons_the_map() {
    let failed = Error::File(FileError::Io { action: "write the log", code: 5 });
    let directory = Temporary::new();
    let map = TurboBlobMap::create(directory.path()).unwrap();
    assert_eq!(map.put(b"a", b"1"), Ok(false));
    map.sync().unwrap();
    let (before, fails) = (map.last_sync(), Arc::new(AtomicBool::new(true)));
    let asked = Arc::clone(&fails);
    map.before_sync(move || if asked.load(Ordering::Relaxed) { Err(failed) } else { Ok(()) })
        .unwrap();
    assert!(matches!(map.before_sync(|| Ok(())), Err(Error::InvalidOption { .. })));
    assert_eq!(map.put(b"a", b"2"), Ok(true));
    assert_eq!(map.sync(), Err(failed));
    fails.store(false, Ordering::Relaxed);
    assert_eq!(
        (map.sync(), map.put(b"a", b"3")),
        (Err(error(FileError::Poisoned)), Err(error(FileError::Poisoned)))
    );
    assert_eq!(map.last_sync(), before);
    drop(map);
    let map = TurboBlobMap::open(directory.path()).unwrap();
    assert!(map.recovery().was_cut);
    assert_eq!((map.get(b"a").as_deref(), map.last_sync()), (Some(&b"1"[..]), before));
}

/// Syncs that the map makes by itself run the function, too: those of a shrink and of a close.
#[test]
fn every_sync_runs_the_function() {
    let directory = Temporary::new();
    let map = TurboBlobMap::create(directory.path()).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let count = || count.load(Ordering::Relaxed);
    map.before_sync(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
    .unwrap();
    let mut last = 0;
    let mut is_more = |what: &str| {
        assert!(count() > last, "{what}");
        last = count();
    };
    (0..1000_u32).for_each(|key| assert_eq!(map.put(&key.to_ne_bytes(), b"value"), Ok(false)));
    map.sync().unwrap();
    is_more("sync");
    map.clear().unwrap();
    map.shrink_to_fit().unwrap();
    is_more("shrink");
    map.close().unwrap();
    is_more("close");
    let map = TurboBlobMap::open(directory.path()).unwrap();
    assert!(map.recovery().was_closed && !map.recovery().was_cut);
}

/// A copy of an open file is as after a power cut, also for a reader.
#[test]
fn a_reader_is_told_of_the_cut_and_changes_nothing() {
    let directory = Temporary::new();
    let copied = Temporary::new();
    let map = TurboBlobMap::create(directory.path()).unwrap();
    map.put(b"a", b"1").unwrap();
    map.sync().unwrap();
    map.put(b"a", b"2").unwrap();
    fs::copy(directory.path(), copied.path()).unwrap();
    let before = fs::read(copied.path()).unwrap();
    for _ in 0..2 {
        let reader =
            TurboBlobMap::open_with(copied.path(), &Options::new().read_only(true)).unwrap();
        let recovery = reader.recovery();
        assert!(recovery.was_cut && !recovery.was_closed, "{recovery:?}");
        assert_eq!(
            (reader.get(b"a").as_deref(), reader.last_sync()),
            (Some(&b"1"[..]), map.last_sync())
        );
    }
    assert!(fs::read(copied.path()).unwrap() == before);
}

/// A map whose changes may be durable before a sync has no such function.
#[test]
fn maps_that_are_not_of_one_instant_refuse_it() {
    let directory = Temporary::new();
    let map: IcebergMap<u64, u64> = IcebergMap::create(directory.path()).unwrap();
    let refused = map.before_sync(|| Ok(()));
    assert!(matches!(refused, Err(Error::File(FileError::OtherKind { .. }))), "{refused:?}");
    map.insert(1, 1).unwrap();
    map.sync().unwrap();
    assert_eq!(map.last_sync(), 0);
}
