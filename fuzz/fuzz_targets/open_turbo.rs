//! Damaged files of TurboHash: opening one returns an error, or a map that can be used, and whose
//! `verify` says whether it is sound.
#![no_main]

mod files;

use files::{damaged, killed_and_closed, open};
use libfuzzer_sys::fuzz_target;
use nunatak::durable::{Options, TurboMap};
use std::sync::LazyLock;

/// A file after a kill, and closed.
static WHOLE: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    killed_and_closed(&Options::new().shards(2), |map: &TurboMap<u64, u64>| {
        (0..60).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    })
});

fuzz_target!(|data: &[u8]| {
    let Some((&first, patches)) = data.split_first() else { return };
    let simulation = damaged(&WHOLE[usize::from(first & 1)], first & 4 != 0, patches);
    let Some(map): Option<TurboMap<u64, u64>> = open(&simulation) else { return };
    let is_sound = map.verify().is_ok();
    (0..100).for_each(|key| assert!(map.insert(key, key).is_ok()));
    (0..100).step_by(3).for_each(|key| assert!(map.remove(&key).is_ok()));
    assert!(!is_sound || map.verify() == Ok(map.len()));
});
