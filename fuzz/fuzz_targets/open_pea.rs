//! Damaged files of Pea Hash: opening one returns an error, or a map that can be used, and whose
//! `verify` says whether it is sound.
#![no_main]

mod files;

use files::{damaged, killed_and_closed, open};
use libfuzzer_sys::fuzz_target;
use nunatak::durable::{Options, PeaMap, PeaMultiMap};
use std::sync::LazyLock;

fn small() -> Options {
    Options::new().segment_buckets(2)
}

/// Files of a map of unique keys, and of one with many values a key: each after a kill, and closed.
static WHOLE: LazyLock<[[Vec<u8>; 2]; 2]> = LazyLock::new(|| {
    let unique = killed_and_closed(&small(), |map: &PeaMap<u64, u64>| {
        (0..60).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    });
    let many = killed_and_closed(&small(), |map: &PeaMultiMap<u64, u64>| {
        (0..200).for_each(|n| map.insert(n % 7, n).expect("room"));
        (0..100).for_each(|n| map.insert(9, n).expect("room"));
    });
    [unique, many]
});

fuzz_target!(|data: &[u8]| {
    let Some((&first, patches)) = data.split_first() else { return };
    let is_multi = first & 8 != 0;
    let whole = &WHOLE[usize::from(is_multi)][usize::from(first & 1)];
    let simulation = damaged(whole, first & 4 != 0, patches);
    if is_multi {
        let Some(map): Option<PeaMultiMap<u64, u64>> = open(&simulation) else { return };
        let is_sound = map.verify().is_ok();
        (0..12).for_each(|key| (0..20).for_each(|n| assert!(map.insert(key, n).is_ok())));
        (0..12).for_each(|key| assert!(map.remove_one(&key, &7).is_ok()));
        assert!(!is_sound || map.verify() == Ok(map.len()));
        (0..12).for_each(|key| assert!(map.remove_all(&key).is_ok()));
    } else {
        let Some(map): Option<PeaMap<u64, u64>> = open(&simulation) else { return };
        let is_sound = map.verify().is_ok();
        (0..100).for_each(|key| assert!(map.insert(key, key).is_ok()));
        assert!(!is_sound || map.verify() == Ok(map.len()));
    }
});
