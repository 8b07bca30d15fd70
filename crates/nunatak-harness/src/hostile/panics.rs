//! Panics of the caller's code, at each of its calls.

use super::hooks::{self, Hook, hooked};
use super::victim::{Shared, Victim, works};
use super::watch;
use crate::effort::scaled;
use crate::failures::{Fuse, catch};
use crate::random::Random;
use std::collections::BTreeSet;
use std::rc::Rc;

const KEYS: u64 = 70;

/// An operation.
#[derive(Debug, Clone, Copy)]
struct Operation {
    kind: u64,
    key: u64,
}

impl Operation {
    fn random(random: &mut Random) -> Self {
        Self { kind: random.below(24), key: random.below(KEYS) }
    }

    fn run(self, map: &dyn Victim) {
        let key = self.key;
        match self.kind {
            0..9 => map.put(key),
            9 => map.try_put(key),
            10 => map.decide(key),
            11 => map.batch(&self.batch()),
            12..16 => map.remove(key),
            16 => assert!(map.get(key).is_none_or(|value| value == key)),
            17 => drop(map.iterate()),
            18 => drop(map.cut()),
            19 => map.retain(&mut |other| !self.takes_out(other)),
            20 => map.shrink(),
            21 => map.reserve(100),
            22 => map.reclaim(key),
            _ => map.look(),
        }
    }

    fn batch(self) -> [u64; 3] {
        [self.key, self.key / 2, self.key + 1]
    }

    fn takes_out(self, other: u64) -> bool {
        other % 16 == self.key % 16
    }

    /// Whether it may change the key.
    fn touches(self, key: u64) -> bool {
        match self.kind {
            11 => self.batch().contains(&key),
            19 => self.takes_out(key),
            _ => self.key == key,
        }
    }
}

/// Returns the keys that are present.
fn present(map: &dyn Victim) -> BTreeSet<u64> {
    let is_present = |&key: &u64| map.get(key).inspect(|&value| assert_eq!(value, key)).is_some();
    (0..=KEYS).filter(is_present).collect()
}

/// Makes a hook that calls the fuse.
fn burning(fuse: &Fuse) -> Hook {
    let fuse = fuse.clone();
    Rc::new(move |_| fuse.call())
}

/// The caller's code panics, at any of its calls. Keys that the operation does not touch stay as
/// they are, and the map stays usable. At most one key and one value are leaked.
///
/// # Panics
/// If the map fails the check.
pub fn panics_are_harmless(build: fn() -> Shared) {
    let calls = scaled(240) as u64;
    for number in 0..calls {
        // Most operations call the caller's code a few times; one that grows the table, often.
        let at = if number < calls / 2 { number } else { number * number / 60 };
        let leaked_before = hooks::alive();
        let map = build();
        let fuse = Fuse::default();
        let mut random = Random::new(at);
        let mut panics = 0;
        (0..KEYS / 2).for_each(|key| map.put(key));
        watch::step(|| format!("a panic at call {at}"));
        hooked(burning(&fuse), || {
            for _ in 0..40 {
                let operation = Operation::random(&mut random);
                let before = present(&*map);
                fuse.arm(at as usize);
                let burnt = catch(|| operation.run(&*map)).is_none();
                fuse.disarm();
                if burnt {
                    panics += 1;
                    watch::step(|| format!("after a panic at call {at} of {operation:?}"));
                    let untouched = |keys: &BTreeSet<u64>| -> Vec<u64> {
                        keys.iter().copied().filter(|&key| !operation.touches(key)).collect()
                    };
                    let after = present(&*map);
                    assert_eq!(untouched(&after), untouched(&before), "call {at}, {operation:?}");
                    // The operation can be repeated.
                    operation.run(&*map);
                }
            }
        });
        check_after(&*map, at);
        drop(map);
        hooks::nothing_is_used_after_its_end();
        let leaked = hooks::alive() - leaked_before;
        assert!(leaked <= 2 * panics, "{leaked} are leaked by {panics} panics at call {at}");
    }
}

fn check_after(map: &dyn Victim, at: u64) {
    let keys = present(map);
    let mut found = map.iterate();
    found.sort_unstable();
    assert_eq!(found, keys.iter().copied().collect::<Vec<_>>(), "call {at}");
    assert_eq!(map.len(), keys.len(), "call {at}");
    works(map, at);
    assert_eq!(present(map), keys, "call {at}");
    map.clear();
    assert_eq!((map.len(), map.iterate().len()), (0, 0), "call {at}, after it was cleared");
}

/// The same during the growth of a map of many keys, many times.
///
/// # Panics
/// If the map fails the check.
pub fn panics_amid_growth_are_harmless(build: fn() -> Shared) {
    let map = build();
    let mut random = Random::new(1);
    let (fuse, mut keys) = (Fuse::default(), BTreeSet::new());
    hooked(burning(&fuse), || {
        let many = scaled(30_000) as u64;
        for round in 0.. {
            if keys.len() as u64 >= many {
                break;
            }
            watch::step(|| format!("round {round}, {} keys", keys.len()));
            fuse.arm(random.below(4000) as usize);
            let first = round * 300;
            let mut in_doubt = Vec::new();
            for key in first..first + 300 {
                match catch(|| map.put(key)) {
                    Some(()) => drop(keys.insert(key)),
                    None => in_doubt.push(key),
                }
            }
            if round % 16 == 15 {
                in_doubt.clear();
                let shrunk = catch(|| map.shrink()).is_some();
                let cut = catch(|| map.cut());
                assert!(!shrunk || cut.is_none_or(|cut| cut.len() >= keys.len()));
            }
            fuse.disarm();
            let doubted = in_doubt.into_iter().filter(|&key| map.get(key).is_some());
            keys.extend(doubted.collect::<Vec<_>>());
            map.put(first);
        }
    });
    watch::step(|| "after all rounds".into());
    keys.iter().for_each(|&key| assert_eq!(map.get(key), Some(key), "lost by a panic"));
    map.shrink();
    keys.iter().for_each(|&key| assert_eq!(map.get(key), Some(key), "lost when it shrank"));
    map.clear();
    assert_eq!((map.len(), map.iterate().len()), (0, 0));
    works(&*map, 0);
    drop(map);
    hooks::nothing_is_used_after_its_end();
}
