//! Mistakes of a caller, and refusals of the system: each is an error, and nothing is lost.

use nunatak::{
    Dlht, DlhtBoxedMap, DlhtMap, DlhtSet, Error, HashesWith, Iceberg, IcebergBoxedMap, IcebergMap,
    InlineMap, Modulo, Op, Pea, RandomState, Request, Stop, Turbo, TurboMap, Unshadowed,
};

#[test]
fn capacities_that_do_not_fit_are_refused() {
    for capacity in [usize::MAX, usize::MAX / 2, isize::MAX as usize / 16] {
        let refused = DlhtMap::<u64, u64>::try_with_capacity(capacity).map(drop);
        assert_eq!(refused, Err(Error::CapacityOverflow), "{capacity}");
        let map: DlhtMap<u64, u64> = DlhtMap::new();
        map.insert(1, 2);
        assert_eq!(map.reserve(capacity), Err(Error::CapacityOverflow), "{capacity}");
        assert_eq!(map.get(&1), Some(2));
    }
    // A hundred TiB: the system may refuse, but nothing may be lost.
    let map: DlhtBoxedMap<String, String> = DlhtBoxedMap::new();
    map.insert("key".into(), "value".into());
    let _ = map.reserve(1 << 42);
    assert_eq!(map.get("key").as_deref(), Some("value"));
}

#[test]
fn capacities_that_do_not_fit_in_place_are_refused() {
    for capacity in [usize::MAX, usize::MAX / 2, isize::MAX as usize / 16] {
        let refused = IcebergMap::<u64, u64>::try_with_capacity(capacity).map(drop);
        assert_eq!(refused, Err(Error::CapacityOverflow), "{capacity}");
        let refused = IcebergMap::<u64, u64>::builder().max_capacity(capacity);
        assert_eq!(refused.build::<u64, u64>().map(drop), Err(Error::CapacityOverflow));
        let map: IcebergMap<u64, u64> = IcebergMap::new();
        map.insert(1, 2);
        assert_eq!(map.reserve(capacity), Err(Error::CapacityOverflow), "{capacity}");
        assert_eq!(map.get(&1), Some(2));
    }
    let map: IcebergBoxedMap<String, String> = IcebergBoxedMap::new();
    map.insert("key".into(), "value".into());
    assert!(map.reserve(1 << 42).is_err(), "a hundred TiB");
    assert_eq!(map.get("key").as_deref(), Some("value"));
    for load in [f64::NAN, -1.0, 0.0, 0.96, f64::INFINITY] {
        let refused = IcebergMap::<u64, u64>::builder().max_load(load).build::<u64, u64>();
        assert!(matches!(refused.map(drop), Err(Error::InvalidOption { option: "max_load", .. })));
    }
}

#[test]
fn capacities_that_no_shards_have_are_refused() {
    for capacity in [usize::MAX, usize::MAX / 2, isize::MAX as usize / 16] {
        let refused = TurboMap::<u64, u64>::try_with_capacity(capacity).map(drop);
        assert_eq!(refused, Err(Error::CapacityOverflow), "{capacity}");
        let map: TurboMap<u64, u64> = TurboMap::new();
        map.insert(1, 2);
        assert_eq!(map.reserve(capacity), Err(Error::CapacityOverflow), "{capacity}");
        assert_eq!(map.get(&1), Some(2));
    }
}

/// Thousands of maps find addresses, each for all that it may ever need.
#[test]
fn many_maps_live_side_by_side() {
    let maps: Vec<IcebergMap<u64, u64>> = (0..5000).map(|_| IcebergMap::new()).collect();
    maps.iter().for_each(|map| (0..200).for_each(|key| assert_eq!(map.insert(key, key), None)));
    assert!(maps.iter().all(|map| map.get(&199) == Some(199)));
    let mapped: usize = maps.iter().map(|map| map.memory_usage().mapped).sum();
    assert!(mapped < 5000 * 64 * 1024, "{mapped}");
}

#[test]
fn a_capacity_of_zero_is_a_map_that_grows() {
    grows_from_zero::<Dlht>();
    grows_from_zero::<Iceberg>();
    grows_from_zero::<Pea>();
    grows_from_zero::<Turbo>();
}

fn grows_from_zero<D: HashesWith<RandomState> + Unshadowed>() {
    let map: InlineMap<u64, u64, RandomState, D> = InlineMap::with_capacity(0);
    (0..10_000).for_each(|key| assert_eq!(map.insert(key, key), None));
    assert!((0..10_000).all(|key| map.get(&key) == Some(key)));
    map.clear();
    assert_eq!(map.shrink_to_fit(), Ok(()));
    assert!(map.is_empty() && map.get(&1).is_none());
}

#[test]
fn batches_of_any_size_are_executed() {
    executes_batches::<Dlht>();
    executes_batches::<Iceberg>();
    executes_batches::<Pea>();
    executes_batches::<Turbo>();
}

fn executes_batches<D: HashesWith<RandomState> + Unshadowed>() {
    let map: InlineMap<u64, u64, RandomState, D> = InlineMap::new();
    assert_eq!(map.get_many(&[], &mut []), Ok(0));
    assert_eq!(map.insert_many(&[], &mut []), Ok(0));
    assert_eq!(map.remove_many(&[], &mut []), Ok(0));
    assert_eq!(map.execute(&mut [], Stop::AtFirstFailure), 0);

    let entries: Vec<(u64, u64)> = (0..1_000_000).map(|key| (key, !key)).collect();
    let keys: Vec<u64> = entries.iter().map(|&(key, _)| key).collect();
    let mut values = vec![None; entries.len()];
    assert_eq!(map.insert_many(&entries, &mut values), Ok(entries.len()));
    assert_eq!(map.get_many(&keys, &mut values), Ok(entries.len()));
    assert!(keys.iter().zip(&values).all(|(key, &value)| value == Some(!key)));
    let mut operations: Vec<_> = keys.iter().map(|&key| Op::new(Request::Remove(key))).collect();
    assert_eq!(map.execute(&mut operations, Stop::AtFirstFailure), keys.len());
    assert!(map.is_empty());
}

#[test]
fn an_output_that_is_too_short_is_refused_before_anything_is_done() {
    let map: DlhtMap<u64, u64> = DlhtMap::new();
    map.insert(1, 1);
    let mut one = [None];
    assert!(map.get_many(&[1, 2], &mut one).is_err());
    assert!(map.insert_many(&[(2, 2), (3, 3)], &mut one).is_err());
    assert!(map.update_many(&[(1, 5), (1, 6)], &mut one).is_err());
    assert!(map.remove_many(&[1, 2], &mut one).is_err());
    assert_eq!((map.len(), map.get(&1), one), (1, Some(1), [None]));
}

#[test]
fn every_word_is_a_key() {
    // The tags of empty and dead slots, and words near them, under every kind of codec. The
    // property tests of placements check words in general.
    let words = (0..300).chain((0..300).map(|i| !i)).chain((0..64).map(|bit| 1 << bit));
    let words: std::collections::BTreeSet<u64> = words.collect();
    fn check<S, D: HashesWith<S> + Unshadowed>(words: &std::collections::BTreeSet<u64>)
    where
        S: nunatak::hash::Hashing + Default,
    {
        let map: InlineMap<u64, u64, S, D> = InlineMap::default();
        words.iter().for_each(|&word| assert_eq!(map.insert(word, !word), None));
        assert!(words.iter().all(|&word| map.get(&word) == Some(!word)));
        assert!(
            map.iter().map(|(word, _)| word).collect::<std::collections::BTreeSet<_>>() == *words
        );
        assert!(words.iter().all(|&word| map.remove(&word) == Some(!word)));
        assert!(map.is_empty());
    }
    check::<RandomState, Dlht>(&words);
    check::<std::hash::RandomState, Dlht>(&words);
    check::<Modulo, Dlht>(&words);
    check::<RandomState, Iceberg>(&words);
    check::<std::hash::RandomState, Iceberg>(&words);
}

#[test]
fn more_threads_than_the_machine_has() {
    let set: DlhtSet<u64> = DlhtSet::new();
    let threads = 100;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let set = &set;
            scope.spawn(move || {
                for i in 0..500 {
                    assert!(set.insert(i * threads + thread));
                }
            });
        }
    });
    assert_eq!(set.len() as u64, 500 * threads);
}

#[test]
fn a_thread_that_panics_in_a_callback_leaves_the_map_usable() {
    survives_panics::<Dlht>();
    survives_panics::<Iceberg>();
}

fn survives_panics<D: HashesWith<RandomState> + Unshadowed>()
where
    InlineMap<u64, u64, RandomState, D>: Sync,
{
    let map: InlineMap<u64, u64, RandomState, D> = (0..100).map(|key| (key, key)).collect();
    std::thread::scope(|scope| {
        let update = || map.fetch_update(&7, |_| panic!("in a callback")).is_ok();
        assert!(scope.spawn(update).join().is_err());
        let retain =
            || map.retain(|&key, _| if key == 50 { panic!("in a callback") } else { true });
        assert!(scope.spawn(retain).join().is_err());
        let make = || map.get_or_insert_with(1000, || panic!("in a callback"));
        assert!(scope.spawn(make).join().is_err());
    });
    assert!((0..100).all(|key| map.get(&key) == Some(key)));
    assert_eq!((map.len(), map.get(&1000)), (100, None));
    map.reserve(1_000_000).unwrap();
    assert!((0..100).all(|key| map.remove(&key) == Some(key)));
}
