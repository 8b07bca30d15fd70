//! Ownership of memory: guards across removals and growth, values with destructors, removed
//! entries, maps that are dropped with their contents.

use super::small;
use nunatak::{BoxedMap, Compute, Design, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

type Counted = Arc<u32>;
type Map<D> = BoxedMap<String, Counted, RandomState, D>;

const COUNT: u32 = 40;

fn name(n: u32) -> String {
    format!("a key of some length: {n}")
}

/// Runs all checks. No value is left after the map.
pub(crate) fn all<D: Design>(map: Map<D>) {
    let value = Arc::new(7);
    guards(&map, &value);
    map.clear();
    taken_out(&map, &value);
    map.clear();
    panics(&map, &value);
    assert!(!map.is_empty());
    drop(map);
    assert_eq!(Arc::strong_count(&value), 1);
}

fn guards<D: Design>(map: &Map<D>, value: &Counted) {
    (0..10).for_each(|n| drop(map.insert(name(n), value.clone())));
    let guard = map.pin();
    let seen: Vec<_> = (0..10).map(|n| guard.get(&name(n)).expect("present")).collect();
    let (key, _) = guard.get_key_value(&name(3)).expect("present");
    let mut entries = guard.iter();
    let first = entries.next().expect("an entry");
    (0..5).for_each(|n| drop(map.remove(&name(n))));
    (5..10).for_each(|n| drop(map.insert(name(n), Arc::new(n))));
    (10..COUNT).for_each(|n| drop(map.insert(name(n), value.clone())));
    map.reserve(200).expect("room for more");
    map.retain(|key, _| key.len() % 2 == 0);
    assert!(map.unreclaimed() > 0);
    assert!(seen.iter().all(|value| ***value == 7) && **first.1 == 7 && *key == name(3));
    assert!(entries.by_ref().all(|(key, _)| key.starts_with('a')));
    drop(entries);
    let second = map.pin();
    drop(guard);
    map.reclaim();
    assert!(second.get(&name(12)).is_none_or(|value| **value == 7));
    drop(second);
    map.reclaim();
    assert_eq!(map.unreclaimed(), 0);
    assert_eq!(map.get_with(&name(999), |_| ()), None);
    map.shrink_to_fit().expect("room for a smaller table");
}

fn taken_out<D: Design>(map: &Map<D>, value: &Counted) {
    for n in 0..6 {
        map.insert(name(n), value.clone());
    }
    let removed = map.remove_entry(&name(0)).expect("present");
    assert_eq!((removed.key(), **removed.value()), (&name(0), 7));
    let (key, own) = removed.into_owned().expect("no guard");
    assert_eq!((key, *own), (name(0), 7));
    let guard = map.pin();
    let seen = guard.get(&name(1)).expect("present");
    let removed = map.remove_entry_if(&name(1), |_, value| **value == 7).expect("present");
    let removed = removed.into_owned().expect_err("a guard");
    assert_eq!(**seen, 7);
    drop(guard);
    assert_eq!(removed.into_owned().expect("no guard").0, name(1));
    // An entry that is removed and not used.
    drop(map.remove_entry(&name(2)));
    let replaced = map.put(name(3), Arc::new(8)).expect("present");
    assert_eq!(*replaced.into_owned().expect("no guard").1, 7);
    assert_eq!(map.try_put(name(3), value.clone()).map_err(|(_, own)| *own), Err(7));
    assert_eq!(map.fetch_update(&name(3), |value| Some(Arc::new(**value + 1))), Ok(Arc::new(8)));
    assert_eq!(map.update(&name(3), value.clone()).as_deref(), Some(&9));
    map.compute(name(3), |_| Compute::Remove);
    let found = map.get_with_or_insert(name(3), || value.clone(), |value| **value);
    assert_eq!(found, 7);
    assert_eq!(map.iter().count(), 3);
}

/// Panics of closures leave the map usable.
fn panics<D: Design>(map: &Map<D>, value: &Counted) {
    for n in 0..6 {
        map.insert(name(n), value.clone());
    }
    let panics = |f: &mut dyn FnMut()| {
        assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
    };
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    panics(&mut || drop(map.compute(name(1), |_| panic!("on purpose"))));
    panics(&mut || drop(map.remove_entry_if(&name(1), |_, _| panic!("on purpose"))));
    panics(&mut || map.retain(|_, _| panic!("on purpose")));
    std::panic::set_hook(hook);
    assert_eq!((map.len(), map.get(&name(1)).as_deref()), (6, Some(&7)));
}

#[test]
fn in_dlht() {
    all(small::dlht().build_boxed().expect("valid options"));
}

#[test]
fn in_iceberg() {
    all(small::iceberg().build_boxed().expect("valid options"));
}

#[test]
fn in_pea() {
    all(small::pea().build_boxed().expect("valid options"));
}

#[test]
fn in_turbo() {
    all(small::turbo().build_boxed().expect("valid options"));
}
