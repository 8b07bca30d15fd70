//! Damaged files of Pea Hash: opening one returns an error, or a map that can be used, and whose
//! `verify` says whether it is sound.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nunatak::Error;
use nunatak::durable::{Options, PeaBlobMap, PeaMap, PeaMultiMap, Persistency, Simulation};
use std::sync::LazyLock;

fn small() -> Options {
    Options::new().segment_buckets(2)
}

fn key(n: u8) -> Vec<u8> {
    vec![n; 1 + usize::from(n) % 20]
}

/// Files of a map of unique keys, of one with many values a key, and of byte strings: each after a
/// kill, and closed.
static WHOLE: LazyLock<[Vec<u8>; 6]> = LazyLock::new(|| {
    let unique = Simulation::new(Persistency::Pages);
    let map: PeaMap<u64, u64> = unique.create(&small()).expect("a map");
    (0..60).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    let killed = unique.crash(unique.moment()).latest();
    drop(map);
    let closed = unique.crash(unique.moment()).latest();
    let many = Simulation::new(Persistency::Pages);
    let map: PeaMultiMap<u64, u64> = many.create(&small()).expect("a map");
    (0..200).for_each(|n| map.insert(n % 7, n).expect("room"));
    (0..100).for_each(|n| map.insert(9, n).expect("room"));
    let killed_many = many.crash(many.moment()).latest();
    drop(map);
    let closed_many = many.crash(many.moment()).latest();
    let bytes = Simulation::new(Persistency::Pages);
    let map: PeaBlobMap = bytes.create(&small()).expect("a map");
    (0..60).for_each(|n| assert_eq!(map.put(&key(n), &[n; 300]), Ok(false)));
    assert_eq!(map.put(b"long", &[7; 100_000]), Ok(false));
    let killed_bytes = bytes.crash(bytes.moment()).latest();
    drop(map);
    let closed_bytes = bytes.crash(bytes.moment()).latest();
    [killed, closed, killed_many, closed_many, killed_bytes, closed_bytes]
});

fn expect_or_refusal<T>(opened: Result<T, Error>) -> Option<T> {
    match opened {
        Ok(map) => Some(map),
        Err(Error::File(_) | Error::CapacityOverflow | Error::OutOfMemory { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&first, patches)) = data.split_first() else { return };
    let which = usize::from(first >> 3) % 6;
    let mut image = WHOLE[which].clone();
    for patch in patches.chunks_exact(11) {
        let place = u32::from_le_bytes([patch[0], patch[1], patch[2], 0]) as usize * 8;
        let at = place % image.len();
        image[at..at + 8].copy_from_slice(&patch[3..11]);
    }
    // The file is one after a power cut, or one that a killed process has left.
    let cut = Simulation::of(&image, Persistency::Pages);
    let simulation = if first & 4 == 0 { cut } else { cut.of_killed() };
    if which < 2 {
        let opened: Result<PeaMap<u64, u64>, Error> = simulation.open(&Options::new());
        let Some(map) = expect_or_refusal(opened) else { return };
        let is_sound = map.verify().is_ok();
        (0..100).for_each(|key| assert!(map.insert(key, key).is_ok()));
        assert!(!is_sound || map.verify() == Ok(map.len()));
    } else if which < 4 {
        let opened: Result<PeaMultiMap<u64, u64>, Error> = simulation.open(&Options::new());
        let Some(map) = expect_or_refusal(opened) else { return };
        let is_sound = map.verify().is_ok();
        (0..12).for_each(|key| (0..20).for_each(|n| assert!(map.insert(key, n).is_ok())));
        (0..12).for_each(|key| assert!(map.remove_one(&key, &7).is_ok()));
        assert!(!is_sound || map.verify() == Ok(map.len()));
        (0..12).for_each(|key| assert!(map.remove_all(&key).is_ok()));
    } else {
        let opened: Result<PeaBlobMap, Error> = simulation.open(&Options::new());
        let Some(map) = expect_or_refusal(opened) else { return };
        let is_sound = map.verify().is_ok();
        // A damaged file may claim more data than there is room for. Then the map refuses changes.
        for n in 0..100 {
            let _ = map.put(&key(n), &[n; 70]);
        }
        for n in (0..100).step_by(3) {
            let _ = map.delete(&key(n));
        }
        let _ = map.shrink_to_fit();
        assert!(!is_sound || map.verify() == Ok(map.len()));
    }
});
