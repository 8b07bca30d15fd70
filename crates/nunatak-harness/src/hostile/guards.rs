//! Guards that are forgotten, nested very deep, and dropped in any order.

use super::hooks::{self, Witness};
use super::watch;
use crate::effort::scaled;
use crate::random::Random;
use nunatak::alloc::Global;
use nunatak::entry::Format;
use nunatak::{BoxedMap, Design, HashesWith, RandomState, RecordMap, Unshadowed};
use std::mem::forget;

type Boxed<D> = BoxedMap<u64, Witness, RandomState, D>;
type Records<D> = RecordMap<Format, Global, RandomState, D>;

fn boxed<D: Design>() -> Boxed<D> {
    let map = Boxed::default();
    (0..100).for_each(|key| drop(map.put(key, Witness::new(key))));
    map
}

/// A forgotten guard holds the entries that it may see until the map is dropped, and nothing else.
/// The map works on.
///
/// # Panics
/// If the map fails the check.
pub fn forgotten_guards_hold_and_no_more<D: Design>() {
    let map = boxed::<D>();
    forget(map.pin());
    (0..100).for_each(|key| drop(map.remove_entry(&key)));
    assert_eq!(map.reclaim(), 100, "what a forgotten guard may see stays");
    for round in 0..20 {
        (100..1000).for_each(|key| drop(map.put(key, Witness::new(key))));
        (100..1000).for_each(|key| drop(map.remove_entry(&key)));
        map.shrink_to_fit().expect("memory");
        forget(map.pin());
        assert!(map.get_with(&round, |_| ()).is_none());
    }
    assert!(map.pin().get(&1).is_none() && map.is_empty());
    drop(map);
    hooks::nothing_is_used_after_its_end();
    assert_eq!(hooks::alive(), 0, "the map's own end frees all");
}

/// One thread holds forty thousand guards on one map, with operations beside them.
///
/// # Panics
/// If so many are impossible, or if they don't protect entries.
pub fn guards_nest_without_end<D: Design>() {
    let map = boxed::<D>();
    let mut guards = Vec::new();
    for number in 0..40_000_u64 {
        watch::tick();
        guards.push(map.pin());
        if number % 1000 == 0 || number.abs_diff(32_767) < 4 {
            let key = number % 100;
            assert_eq!(map.get(&key).map(|value| value.number()), Some(key));
            drop(map.put(key, Witness::new(key)));
            assert_eq!(map.iter().count(), 100);
        }
    }
    let last = guards.pop().expect("forty thousand");
    let found = last.get(&5).expect("present");
    drop(map.remove_entry(&5));
    drop(guards);
    map.reclaim();
    assert!(map.unreclaimed() > 0);
    drop(map.put(5, Witness::new(5)));
    assert_eq!(found.number(), 5);
    drop(last);
    assert_eq!(map.reclaim(), 0, "all guards are gone");
    drop(map);
    hooks::nothing_is_used_after_its_end();
    assert_eq!(hooks::alive(), 0);
}

/// The same for records.
///
/// # Panics
/// If the map fails the check.
pub fn guards_on_records_nest_without_end<D: HashesWith<RandomState> + Unshadowed>() {
    let map = Records::<D>::new();
    map.put(b"a", b"1").expect("memory");
    let guards: Vec<_> = (0..40_000).map(|_| (watch::tick(), map.pin()).1).collect();
    assert_eq!(map.get(b"a"), Some(b"1".to_vec()));
    assert_eq!(guards[39_999].get(b"a"), Some(&b"1"[..]));
    map.put(b"a", b"2").expect("memory");
    assert!(map.reclaim() > 0);
    drop(guards);
    assert_eq!(map.reclaim(), 0, "all guards are gone");
}

/// Beside 32,767 guards each operation can take one more.
///
/// # Panics
/// If the map fails the check.
pub fn operations_go_on_beside_many_guards<D: HashesWith<RandomState> + Unshadowed>() {
    let (map, records) = (boxed::<D>(), Records::<D>::new());
    records.put(b"a", b"1").expect("memory");
    let guards: Vec<_> = (0..32_767).map(|_| (map.pin(), records.pin())).collect();
    watch::tick();
    assert_eq!(map.get(&7).map(|value| value.number()), Some(7));
    assert!(map.contains_key(&8) && map.remove(&9).is_some());
    drop(map.put(9, Witness::new(9)));
    assert_eq!(map.snapshot().expect("memory").count(), 100);
    map.retain(|key, _| key % 2 == 0);
    map.shrink_to_fit().expect("memory");
    assert_eq!(map.len(), 50);
    assert_eq!(records.get(b"a"), Some(b"1".to_vec()));
    assert!(records.delete(b"a") && records.is_empty());
    drop(guards);
    assert_eq!((map.reclaim(), records.reclaim()), (0, 0), "all guards are gone");
}

/// Guards that are taken and dropped in any order, while the map grows, shrinks and frees entries,
/// keep seeing their entries.
///
/// # Panics
/// If the map fails the check.
pub fn guards_go_in_any_order<D: Design>() {
    for seed in 0..scaled(20) as u64 {
        watch::tick();
        let map = boxed::<D>();
        let mut random = Random::new(seed);
        let mut guards = Vec::new();
        for round in 0..300 {
            match random.below(8) {
                0..3 => guards.push(map.pin()),
                3 if !guards.is_empty() => {
                    drop(guards.swap_remove(random.below(guards.len() as u64) as usize));
                }
                4 => (1000..1300).for_each(|key| drop(map.put(key, Witness::new(key)))),
                5 => {
                    map.retain(|&key, _| key < 1000);
                    map.shrink_to_fit().expect("memory");
                }
                6 => assert!(map.reclaim() == 0 || !guards.is_empty()),
                _ => {
                    let key = random.below(100);
                    let guard = map.pin();
                    let found = guard.get(&key).expect("always present");
                    let cut = map.snapshot().expect("memory");
                    drop(map.put(key, Witness::new(key)));
                    map.reclaim();
                    assert_eq!(found.number(), key, "round {round}");
                    assert!(cut.count() >= 100);
                }
            }
        }
        drop(guards);
        assert_eq!(map.reclaim(), 0);
        drop(map);
        hooks::nothing_is_used_after_its_end();
        assert_eq!(hooks::alive(), 0);
    }
}
