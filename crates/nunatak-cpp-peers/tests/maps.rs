//! Each map that was compiled does what a model does, alone and with two threads.

#![cfg(feature = "compiled")]

use nunatak_cpp_peers::{Library, Map, Step, Unavailable, value_of};
use std::collections::HashMap;
use std::sync::Barrier;
use std::thread;

/// Calls `test` with each library that was found.
fn for_each(test: impl Fn(Library)) {
    for library in Library::ALL {
        match library.check() {
            Ok(()) => test(library),
            Err(unavailable) => println!("{library:?} is left out: {unavailable}"),
        }
    }
}

fn map(library: Library, capacity: usize) -> Map {
    library.map(capacity).expect("it was found")
}

/// Random numbers of splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ (x >> 31)) % bound
    }
}

#[test]
fn single_operations_follow_a_model() {
    for_each(|library| {
        for capacity in [0, 500] {
            let (map, mut model) = (map(library, capacity), HashMap::new());
            let mut random = Random(7);
            for at in 0..20_000_u64 {
                let key = random.below(1000);
                match random.below(4) {
                    0 => assert_eq!(map.insert(key, at), model.insert(key, at), "{library:?}"),
                    1 => assert_eq!(map.remove(key), model.remove(&key), "{library:?}"),
                    2 => {
                        let value = model.get_mut(&key);
                        let is_there = value.map(|value| *value = *value * 3 + at).is_some();
                        assert_eq!(
                            map.modify(key, |value| value * 3 + at),
                            is_there,
                            "{library:?}"
                        );
                    }
                    _ => assert_eq!(map.get(key), model.get(&key).copied(), "{library:?}"),
                }
                model.values_mut().for_each(|value| *value &= u64::from(u32::MAX));
                map.modify(key, |value| value & u64::from(u32::MAX));
                if at % 1000 == 0 {
                    assert_eq!(map.len(), model.len(), "{library:?}");
                }
            }
        }
    });
}

/// A loop does what its step says, and counts exactly those operations that went wrong.
#[test]
fn loops_count_what_goes_wrong() {
    for_each(|library| {
        let map = map(library, 0);
        let keys: Vec<u64> = (0..10_000).map(|key| key * 0x9E37_79B9).collect();
        let absent: Vec<u64> = keys.iter().map(|key| key + 1).collect();
        let both: Vec<u64> = keys[..100].iter().chain(&absent[..100]).copied().collect();
        let run = |step, keys: &[u64]| map.run(step, keys, 5);

        assert_eq!((run(Step::Insert, &keys), map.len()), (0, 10_000), "{library:?}");
        assert_eq!((run(Step::Insert, &keys[..7]), map.len()), (7, 10_000), "{library:?}");
        assert_eq!((run(Step::Get, &keys), run(Step::Get, &absent)), (0, 10_000), "{library:?}");
        assert_eq!((run(Step::Miss, &absent), run(Step::Miss, &both)), (0, 100), "{library:?}");
        assert!(keys.iter().all(|&key| map.get(key) == Some(value_of(key))), "{library:?}");

        assert_eq!((run(Step::Update, &keys), run(Step::Update, &absent)), (0, 10_000));
        assert!(keys.iter().all(|&key| map.get(key) == Some(value_of(key) | 5)), "{library:?}");
        assert_eq!((run(Step::Modify, &keys), run(Step::Modify, &absent)), (0, 10_000));
        assert!(keys.iter().all(|&key| map.get(key) == Some(value_of(key) | 6)), "{library:?}");
        // A version is not a part of what is checked; all other bits are.
        assert_eq!(run(Step::Get, &keys), 0, "{library:?}");
        map.insert(keys[3], value_of(keys[3]) ^ 0x100);
        assert_eq!(run(Step::Get, &keys), 1, "{library:?}");

        assert_eq!((run(Step::Remove, &keys[..10]), map.len()), (1, 9_990), "{library:?}");
        assert_eq!((run(Step::Remove, &both), map.len()), (110, 9_900), "{library:?}");
        assert_eq!((run(Step::InsertAndRemove, &absent), map.len()), (0, 9_900), "{library:?}");
        assert_eq!(
            (run(Step::InsertAndRemove, &keys[..101]), map.len()),
            (1, 9_899),
            "{library:?}"
        );

        // In order: each step finds what the one before has left.
        use Step as S;
        let steps = [S::Miss, S::Insert, S::Get, S::Update, S::Modify, S::Remove, S::Miss, S::Get];
        assert_eq!(map.run_each(&steps, &[1; 8], 9), 1, "{library:?}");
        assert_eq!(map.len(), 9_899, "{library:?}");
    });
}

#[test]
fn batches_find_all_keys_or_none() {
    for_each(|library| {
        let map = map(library, 1000);
        assert!(library == Library::Boost || !map.has_batches());
        if !map.has_batches() {
            return;
        }
        let keys: Vec<u64> = (0..1000).collect();
        let absent: Vec<u64> = (1000..2000).collect();
        assert_eq!(map.run(Step::Insert, &keys, 0), 0);
        assert_eq!((map.get_many(&keys, true), map.get_many(&absent, false)), (0, 0));
        assert_ne!(map.get_many(&absent, true), 0);
        assert_eq!(map.get_many(&keys, false), 1000);
        // A key may be there twice, and one absent key is noticed.
        assert_eq!(map.get_many(&[3, 4, 3], true), 0);
        assert_ne!(map.get_many(&[3, 4, 1000], true), 0);
        map.insert(4, 4);
        assert_eq!(map.get_many(&keys, true), 1);
    });
}

/// Each of two threads inserts keys of its own, looks up, changes and removes them, while both count in the same
/// few keys.
#[test]
fn two_threads_share_a_map() {
    const OWN: u64 = 40_000;
    const COMMON: u64 = 8;
    for_each(|library| {
        for capacity in [0, 2 * OWN as usize] {
            let map = map(library, capacity);
            (0..COMMON).for_each(|key| assert_eq!(map.insert(key, 0), None));
            let together = Barrier::new(2);
            let work = |thread: u64| {
                together.wait();
                let first = (thread + 1) << 32;
                let keys: Vec<u64> = (first..first + OWN).collect();
                for block in keys.chunks(1000) {
                    assert_eq!(map.run(Step::Insert, block, 0), 0, "{library:?}");
                    for at in 0..1000 {
                        let increment = |value| {
                            // The other thread runs before the value is stored, unless it must not.
                            if at == 0 {
                                thread::yield_now();
                            }
                            value + 1
                        };
                        assert!(map.modify(at % COMMON, increment), "{library:?}");
                    }
                    assert_eq!(map.run(Step::Get, block, 0), 0, "{library:?}");
                }
                for step in [Step::Get, Step::Update, Step::Modify, Step::Get] {
                    assert_eq!(map.run(step, &keys, thread), 0, "{library:?}, {step:?}");
                }
                let half = OWN as usize / 2;
                assert_eq!(map.run(Step::Remove, &keys[..half], 0), 0, "{library:?}");
                assert_eq!(map.run(Step::Miss, &keys[..half], 0), 0, "{library:?}");
                assert_eq!(map.run(Step::Get, &keys[half..], 0), 0, "{library:?}");
            };
            thread::scope(|scope| {
                scope.spawn(|| work(0));
                scope.spawn(|| work(1));
            });
            assert_eq!(map.len() as u64, COMMON + OWN, "{library:?}");
            let counted: u64 = (0..COMMON).filter_map(|key| map.get(key)).sum();
            assert_eq!(counted, 2 * OWN, "{library:?}");
        }
    });
}

/// Memory of a map that is dropped goes back to the system, and memory of its neighbours does not.
#[test]
fn a_map_keeps_its_memory_when_others_are_dropped() {
    for_each(|library| {
        let keys: Vec<u64> = (0..100_000).collect();
        let made = || {
            let map = map(library, 1_500_000);
            assert_eq!(map.run(Step::Insert, &keys, 0), 0, "{library:?}");
            map
        };
        let (before, dropped, after) = (made(), made(), made());
        drop(dropped);
        let again = made();
        for map in [before, after, again] {
            assert_eq!(map.run(Step::Get, &keys, 0), 0, "{library:?}");
        }
    });
}

/// Blocks of all sizes come from three places, and are freed there.
#[test]
fn maps_of_all_sizes_are_made_and_freed() {
    for_each(|library| {
        for capacity in [1, 100, 5_000, 100_000, 1_500_000] {
            let map = map(library, capacity);
            let keys: Vec<u64> = (0..capacity.min(5000) as u64).collect();
            assert_eq!(map.run(Step::Insert, &keys, 0), 0, "{library:?}");
            assert_eq!(map.len(), keys.len(), "{library:?}");
        }
    });
}

#[test]
fn what_is_missing_is_named() {
    let names = ["libtbb-dev", "libcuckoo-dev", "NUNATAK_BOOST", "libabsl-dev"];
    for (library, name) in Library::ALL.into_iter().zip(names) {
        let message = Unavailable::NotFound(library).to_string();
        assert!(message.contains(name), "{message}");
    }
}
