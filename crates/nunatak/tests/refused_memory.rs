//! Maps to which the system gives no memory to grow. A process of its own, since the limit holds
//! for the process.
#![cfg(all(target_os = "linux", not(modelled)))]

use nunatak::{
    Dlht, DlhtMap, Error, Iceberg, IcebergMap, PeaMap, PeaMultiMap, TurboBlobMap, TurboMap,
    WideDesign, WideMap,
};

/// Limits the address space to the present use and `more` bytes; removes the limit if `None`.
fn limit_address_space(more: Option<u64>) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().next().unwrap().parse().unwrap();
    let limit = more.map_or(libc::RLIM_INFINITY, |more| pages * 4096 + more);
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is a valid structure for the length of the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

#[test]
fn maps_that_may_not_grow_keep_everything_and_grow_later() {
    dlht();
    wide::<Dlht>();
    wide::<Iceberg>();
    iceberg();
    pea();
    pea_multi();
    turbo();
    blobs();
}

/// Shards may not grow: keys go to chains, also keys of shards without a bucket.
fn turbo() {
    let map: TurboMap<u64, u64> = TurboMap::new();
    (0..1000).for_each(|key| assert_eq!(map.insert(key, !key), None));
    limit_data(Some(2 << 20));
    let mut keys = 1000;
    while map.stats().chained < 1000 {
        for _ in 0..1000 {
            assert_eq!(map.insert(keys, !keys), None);
            keys += 1;
        }
        assert!(keys < 1 << 20, "the map has grown");
    }
    assert!(map.reserve(1 << 22).is_err());
    assert!((0..keys).all(|key| map.get(&key) == Some(!key)));
    assert_eq!((map.len() as u64, map.iter().count() as u64), (keys, keys));
    for key in (0..keys).step_by(7) {
        assert_eq!(map.remove(&key), Some(!key));
        assert_eq!(map.insert(key, key), None);
    }

    // Once there is memory, the next key takes it.
    limit_data(None);
    let grown = map.stats().grown;
    for key in keys..2 * keys {
        assert_eq!(map.insert(key, !key), None);
    }
    assert!(map.stats().grown > grown + 100);
    let expected = |key: u64| if key < keys && key.is_multiple_of(7) { key } else { !key };
    assert!((0..2 * keys).all(|key| map.get(&key) == Some(expected(key))));
    map.clear();
    map.shrink_to_fit().unwrap();
    let stats = map.stats();
    assert_eq!((map.len(), stats.chained, stats.buckets), (0, 0, 0));
}

/// No memory for byte strings: an error, and the map stays as it was.
fn blobs() {
    let map = TurboBlobMap::new();
    let value = |key: u32| vec![key as u8; 100_000];
    map.put(&0_u32.to_le_bytes(), &value(0)).unwrap();
    limit_data(Some(16 << 20));
    let mut keys = 1;
    while map.put(&u32::to_le_bytes(keys), &value(keys)).is_ok() {
        keys += 1;
        assert!(keys < 1000, "the map has grown");
    }
    assert!(keys > 20, "{keys}");
    assert!(map.insert(&u32::to_le_bytes(1), &value(2)).is_err());
    assert!(map.update(&u32::to_le_bytes(1), &value(2)).is_err());
    let is_whole = |keys: u32| {
        map.len() == keys as usize
            && (0..keys).all(|key| map.get(&key.to_le_bytes()) == Some(value(key)))
    };
    assert!(is_whole(keys));
    limit_data(None);
    for key in keys..2 * keys {
        assert_eq!(map.put(&key.to_le_bytes(), &value(key)), Ok(false));
    }
    assert!(is_whole(2 * keys));
}

/// Buffers may not grow: values stay in slots, and then in chains.
fn pea_multi() {
    let map: PeaMultiMap<u64, u64> = PeaMultiMap::new();
    (0..10_000).for_each(|value| map.insert(value % 10, value));
    limit_data(Some(4 << 20));
    let mut values = 10_000;
    // With memory for buffers a key has at most one entry in the chains.
    while map.stats().table.chained < 100 {
        for _ in 0..50 {
            map.insert(values % 10, values);
            values += 1;
        }
        assert!(values < 10_000_000, "the map has grown");
    }
    let is_whole = |values: u64| {
        (0..10).all(|key| {
            let mut found: Vec<u64> = map.get_all(&key).collect();
            found.sort_unstable();
            found.into_iter().eq((0..values).filter(|value| value % 10 == key))
        })
    };
    limit_data(None);
    assert!(is_whole(values));
    for _ in 0..100_000 {
        map.insert(values % 10, values);
        values += 1;
    }
    assert!(is_whole(values));
    assert_eq!(map.len() as u64, values);
    (0..10).for_each(|key| assert_eq!(map.remove_all(&key) as u64, values / 10));
}

/// Segments split one after the other; without memory for another segment, its keys go to chains.
fn pea() {
    let map: PeaMap<u64, u64> = PeaMap::new();
    (0..10_000).for_each(|key| assert_eq!(map.insert(key, !key), None));
    limit_data(Some(4 << 20));
    let mut keys = 10_000;
    while map.stats().chained < 1000 {
        assert_eq!(map.insert(keys, !keys), None);
        keys += 1;
        assert!(keys < 1 << 20, "the map has grown");
    }
    assert!(map.reserve(1 << 22).is_err());
    assert!((0..keys).all(|key| map.get(&key) == Some(!key)));
    assert_eq!(map.len() as u64, keys);
    for key in (0..keys).step_by(7) {
        assert_eq!(map.remove(&key), Some(!key));
        assert_eq!(map.insert(key, key), None);
    }

    // Once there is memory, the next key takes it.
    limit_data(None);
    let splits = map.stats().splits;
    for key in keys..2 * keys {
        assert_eq!(map.insert(key, !key), None);
    }
    assert!(map.stats().splits > splits + 1);
    let expected = |key: u64| if key < keys && key.is_multiple_of(7) { key } else { !key };
    assert!((0..2 * keys).all(|key| map.get(&key) == Some(expected(key))));
    assert_eq!(map.len() as u64, 2 * keys);
}

/// A map doubles in place, but its pages are refused.
fn iceberg() {
    const CAPACITY: u64 = 1 << 20;
    // Its addresses are reserved when it is made, so only the pages can be refused.
    let map: IcebergMap<u64, u64> = IcebergMap::<u64, u64>::builder()
        .capacity(CAPACITY as usize)
        .max_capacity(64 * CAPACITY as usize)
        .build()
        .unwrap();
    limit_data(Some(8 << 20));
    let mut keys = 0;
    while map.stats().levels[2] < 1000 {
        for _ in 0..1000 {
            assert_eq!(map.insert(keys, !keys), None);
            keys += 1;
        }
        assert!(keys < 4 * CAPACITY, "the map has grown");
    }
    assert!(keys > CAPACITY);
    assert!(map.reserve(10 * CAPACITY as usize).is_err());
    assert!((0..keys).all(|key| map.get(&key) == Some(!key)));
    assert_eq!(map.len() as u64, keys);
    for key in 0..1000 {
        assert_eq!(map.remove(&key), Some(!key));
        assert_eq!(map.insert(key, key), None);
    }

    limit_data(None);
    map.reserve(2 * keys as usize).unwrap();
    assert!((1000..keys).all(|key| map.get(&key) == Some(!key)));
    assert!((0..1000).all(|key| map.get(&key) == Some(key)));
}

/// Limits private writable memory to the present use and `more` bytes.
fn limit_data(more: Option<u64>) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    let limit = more.map_or(libc::RLIM_INFINITY, |more| kib * 1024 + more);
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is a valid structure for the length of the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) }, 0);
}

fn dlht() {
    const CAPACITY: u64 = 1 << 20;
    let map: DlhtMap<u64, u64> = DlhtMap::with_capacity(CAPACITY as usize);
    // Its next size is four times 45 MB.
    limit_address_space(Some(64 << 20));
    let mut keys = 0;
    while map.stats().delegated_bins < 100 {
        for _ in 0..1000 {
            assert_eq!(map.insert(keys, !keys), None);
            keys += 1;
        }
        assert!(keys < 4 * CAPACITY, "the map has grown");
    }
    assert!(keys > CAPACITY);
    assert!(map.reserve(100 * CAPACITY as usize).is_err());
    assert!((0..keys).all(|key| map.get(&key) == Some(!key)));
    assert_eq!(map.len() as u64, keys);
    for key in 0..1000 {
        assert_eq!(map.remove(&key), Some(!key));
        assert_eq!(map.insert(key, key), None);
    }

    limit_address_space(None);
    map.reserve(2 * keys as usize).unwrap();
    assert_eq!(map.stats().delegated_bins, 0);
    assert!((1000..keys).all(|key| map.get(&key) == Some(!key)));
    assert!((0..1000).all(|key| map.get(&key) == Some(key)));
}

/// More bins for links are made until these are refused, too. Then a new key is an error.
fn wide<D: WideDesign>() {
    const CAPACITY: u64 = 1 << 21;
    let map: WideMap<u64, (u64, u64), D> = WideMap::with_capacity(CAPACITY as usize);
    let bins = map.stats().bins;
    // Its next size is two times 60 MB, or four times 150.
    limit_address_space(Some(64 << 20));
    let first_refused = (0..100 * CAPACITY)
        .find(|&key| match map.insert_within_capacity(key, (key, !key)) {
            Ok(before) => {
                assert_eq!(before, None);
                false
            }
            Err(error) => {
                assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
                true
            }
        })
        .expect("the limit is reached");
    let keys = map.len() as u64;
    assert_eq!((keys, map.stats().bins), (first_refused, bins));
    assert!(keys > CAPACITY, "{keys}");
    assert!(map.reserve(100 * CAPACITY as usize).is_err());
    assert!((0..keys).all(|key| map.get(&key) == Some((key, !key))));
    for key in 0..1000 {
        assert_eq!(map.remove(&key), Some((key, !key)));
        assert_eq!(map.insert_within_capacity(key, (key, key)), Ok(None));
    }

    limit_address_space(None);
    map.reserve(2 * keys as usize).unwrap();
    assert!(map.stats().bins > bins);
    assert_eq!(map.insert(first_refused, (1, 2)), None);
    assert!((1000..keys).all(|key| map.get(&key) == Some((key, !key))));
    assert!((0..1000).all(|key| map.get(&key) == Some((key, key))));
}
