//! A few threads on each map, with growth, removals, guards and reclamation.

use super::operations::{ByteStrings, Content, Fixed, Numbers, Strings};
use super::small;
use nunatak::alloc::Global;
use nunatak::entry::{Entries, Format, Plain};
use nunatak::{
    BoxedMap, ByteMap, Compute, ConcurrentMap, Design, DlhtMap, DlhtShadowMap, Entry8, Entry12,
    Entry16, PeaBlobMultiMap, PeaMultiMap, RandomState,
};
use std::sync::Arc;
use std::thread;

const THREADS: u32 = 3;
const KEYS: u32 = 6;

/// Runs `step` by some threads, `rounds` times each, with different numbers.
fn run(rounds: u32, step: impl Fn(u32, u32) + Sync) {
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let step = &step;
            scope.spawn(move || {
                let mut random = thread * 7919 + 1;
                for round in 0..rounds {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    step(random >> 8, round + thread * rounds);
                }
            });
        }
    });
}

/// All operations of all maps on a few keys that all threads use, and on others that make the map
/// grow.
pub(crate) fn shared<C: Content, M: ConcurrentMap<C::Key, C::Value> + Sync>(map: &M, rounds: u32) {
    run(rounds, |random, round| {
        let number = random >> 8 & 0xFF;
        let (number, key) = (number % KEYS, C::key(number % KEYS));
        let value = |n| C::value(number, n);
        let is_its = |found: Option<C::Value>| {
            assert!(found.is_none_or(|found| C::is_value_of(&found, number)));
        };
        match random & 15 {
            0 | 1 => is_its(map.get(&key)),
            2 | 3 => is_its(map.insert(key, value(round))),
            4 => is_its(map.remove(&key)),
            5 => is_its(map.update(&key, value(round))),
            6 => is_its(map.try_insert(key, value(round)).err()),
            7 => is_its(map.remove_if(&key, |found| C::is_value_of(found, number))),
            8 => is_its(map.compute(key, |found| match found {
                Some(_) => Compute::Remove,
                None => Compute::Put(value(round)),
            })),
            9 => is_its(map.fetch_update(&key, |_| Some(value(round))).ok()),
            10 => {
                let mut values = [const { None }; 2];
                map.get_many(&[key, C::key(KEYS)], &mut values).expect("as many values");
                is_its(values[0].take());
            }
            11 if round % 8 == 0 => {
                let mut entries = map.iter();
                assert!(entries.all(|(key, value)| C::is_value_of(&value, C::number(&key))));
            }
            12 if round % 8 == 1 => {
                let cut = map.snapshot().expect("room for a cut");
                assert!(cut.count() < 1000);
            }
            13 if round % 8 == 2 => map.shrink_to_fit().expect("room for a smaller table"),
            14 if round % 8 == 3 => map.retain(|key, _| C::number(key) != 0),
            // A key that only this round uses.
            _ => is_none(map.insert(C::key(KEYS + round), C::value(KEYS + round, 0))),
        }
    });
    for number in 0..KEYS {
        assert!(map.get(&C::key(number)).is_none_or(|value| C::is_value_of(&value, number)));
    }
    assert_eq!(map.iter().count(), map.len());
}

fn is_none<T>(option: Option<T>) {
    assert!(option.is_none());
}

/// Guards read while other threads remove entries and take them.
pub(crate) fn guarded<D: Design>(map: BoxedMap<String, Arc<u32>, RandomState, D>, rounds: u32)
where
    BoxedMap<String, Arc<u32>, RandomState, D>: Sync,
{
    let value = Arc::new(1);
    let key = |n: u32| (n % KEYS).to_string();
    run(rounds, |random, round| {
        let key = key(random >> 8 & 0xFF);
        match random & 7 {
            0 | 1 => {
                let guard = map.pin();
                let found = guard.get(&key);
                drop(map.remove(&key));
                assert!(found.is_none_or(|value| **value == 1));
                assert!(guard.iter().all(|(_, value)| **value == 1));
            }
            2 => {
                let removed = map.remove_entry(&key);
                if let Some(Ok((removed, value))) = removed.map(|entry| entry.into_owned()) {
                    assert_eq!((removed, *value), (key, 1));
                }
            }
            3 => drop(map.put(key, value.clone())),
            4 if round % 4 == 0 => drop(map.reclaim()),
            5 => drop(map.remove_entry_if(&key, |_, value| **value == 1)),
            6 => drop(map.insert(format!("{round} of this round"), value.clone())),
            _ => drop(map.insert(key, value.clone())),
        }
    });
    drop(map);
    assert_eq!(Arc::strong_count(&value), 1);
}

/// The same with byte strings.
pub(crate) fn guarded_bytes<E, D>(map: &ByteMap<E, D>, rounds: u32)
where
    E: Entries<Naming = Plain>,
    for<'v> E::Value<'v>: AsRef<[u8]>,
    D: Design,
    ByteMap<E, D>: Sync,
{
    run(rounds, |random, round| {
        // None of the keys that all operations use.
        let key = [1 + (random >> 8 & 0xFF) as u8 % KEYS as u8; 8];
        let value = [key[0]; 12];
        match random & 7 {
            0 | 1 => {
                let guard = map.pin();
                let found = guard.get(&key);
                map.delete(&key);
                assert!(found.is_none_or(|found| found.as_ref() == value));
            }
            2 => drop(map.detach(&key)),
            3 => {
                let detached = map.detach(&key);
                assert!(detached.is_none_or(|entry| entry.value().as_ref() == value));
            }
            4 if round % 4 == 0 => drop(map.reclaim()),
            5 => assert!(map.put(&u64::from(round + 1000).to_le_bytes(), &[0; 12]).is_ok()),
            6 => assert!(map.get(&key).is_none_or(|found| found == value)),
            _ => assert!(map.put(&key, &value).is_ok()),
        }
    });
}

#[test]
fn on_dlht() {
    let map: DlhtMap<u32, u32> = small::dlht().build().expect("valid options");
    shared::<Numbers, _>(&map, 50);
    let map = small::dlht().build_boxed().expect("valid options");
    shared::<Strings, _>(&map, 30);
    guarded(small::dlht().build_boxed().expect("valid options"), 30);
}

#[test]
fn on_iceberg() {
    shared::<Numbers, _>(&small::iceberg().build().expect("valid options"), 50);
    shared::<Strings, _>(&small::iceberg().build_boxed().expect("valid options"), 30);
    guarded(small::iceberg().build_boxed().expect("valid options"), 30);
}

#[test]
fn on_pea() {
    shared::<Numbers, _>(&small::pea().build::<_, _, Entry16>().expect("valid options"), 50);
    shared::<Strings, _>(&small::pea().build_boxed().expect("valid options"), 30);
    guarded(small::pea().build_boxed().expect("valid options"), 30);
}

#[test]
fn on_narrow_entries() {
    shared::<Numbers, _>(&small::pea().build::<_, _, Entry12>().expect("valid options"), 40);
    shared::<Numbers, _>(&small::pea().build::<_, _, Entry8>().expect("valid options"), 40);
    shared::<Numbers, _>(&small::turbo().build::<_, _, Entry8>().expect("valid options"), 40);
}

#[test]
fn on_turbo() {
    shared::<Numbers, _>(&small::turbo().build::<_, _, Entry16>().expect("valid options"), 50);
    shared::<Strings, _>(&small::turbo().build_boxed().expect("valid options"), 30);
    guarded(small::turbo().build_boxed().expect("valid options"), 30);
}

#[test]
fn on_byte_strings() {
    let map = small::turbo().build_blobs().expect("valid options");
    shared::<ByteStrings, _>(&map, 40);
    guarded_bytes(&map, 30);
    let map = small::dlht().build_records::<Format<8, 12>, _>(Global).expect("valid options");
    shared::<Fixed, _>(&map, 40);
    guarded_bytes(&map, 30);
}

#[test]
fn on_sets() {
    let set = small::dlht().build_set::<u32>().expect("valid options");
    run(40, |random, round| {
        let key = random >> 8 & 7;
        match random & 3 {
            0 => drop(set.remove(&key)),
            1 => drop(set.contains(&key)),
            2 => drop(set.insert(key)),
            _ => drop(set.insert(round + 8)),
        }
    });
    assert_eq!(set.iter().count(), set.len());
}

#[test]
fn on_shadow_maps() {
    let map: DlhtShadowMap<u32, u32> = small::dlht().build_shadow().expect("valid options");
    run(40, |random, round| {
        let key = random >> 8 & 7;
        match random & 7 {
            0 | 1 => {
                if let Ok(shadow) = map.shadow_insert(key) {
                    if round % 2 == 0 { shadow.commit(key) } else { shadow.abort() }
                }
            }
            2 => assert!(map.remove(&key).is_none_or(|value| value == key)),
            3 => drop(map.insert(key, key)),
            4 => drop(map.insert(round + 8, round + 8)),
            _ => assert!(map.get(&key).is_none_or(|value| value == key)),
        }
    });
    assert!(map.iter().all(|(key, value)| key == value));
}

#[test]
fn on_multimaps() {
    multi(40);
}

#[test]
fn on_multimaps_of_byte_strings() {
    blob_multi(40);
}

/// Keys lose their last values, and are given back, while other threads add values and read keys.
pub(crate) fn blob_multi(rounds: u32) {
    let map: PeaBlobMultiMap<u32> = small::pea().build_blob_multi().expect("valid options");
    let text = |key: u32| vec![b'k'; key as usize + 1];
    run(rounds, |random, round| {
        let key = random >> 8 & 3;
        match random & 15 {
            0..=3 => map.insert(&text(key), key << 16 | round).expect("memory for a key"),
            4 => {
                let pairs = [(text(key), key << 16 | round), (text(4 + round), (4 + round) << 16)];
                map.insert_many(&pairs).expect("memory for keys");
            }
            5..=7 => drop(map.remove_all(&text(key))),
            8 => drop(map.reclaim()),
            9 if round % 4 == 0 => map.shrink_to_fit().expect("room for a merge"),
            10 | 11 => {
                let cut = map.snapshot().expect("room for a cut");
                cut.for_each(|(key, value)| assert_eq!(key, text(value >> 16)));
            }
            _ => assert!(map.get_all(&text(key)).all(|value| value >> 16 == key)),
        }
    });
    assert_eq!(map.iter().count(), map.len());
    map.clear();
    map.reclaim();
    assert_eq!(map.blob_stats().blobs, 0);
}

pub(crate) fn multi(rounds: u32) {
    let map: PeaMultiMap<u32, u32> = small::pea().build_multi().expect("valid options");
    run(rounds, |random, round| {
        let key = random >> 8 & 3;
        match random & 15 {
            0..=5 => map.insert(key, key << 16 | round),
            6 => drop(map.remove_one(&key, &(key << 16 | (round - round.min(1))))),
            7 => drop(map.remove_all(&key)),
            8 | 9 => map.insert(4 + round, (4 + round) << 16),
            10 if round % 4 == 0 => map.shrink_to_fit().expect("room for a merge"),
            11 if round % 4 == 0 => {
                let cut = map.snapshot().expect("room for a cut");
                cut.for_each(|(key, value)| assert_eq!(value >> 16, key));
            }
            _ => assert!(map.get_all(&key).all(|value| value >> 16 == key)),
        }
    });
    assert_eq!(map.iter().count(), map.len());
}
