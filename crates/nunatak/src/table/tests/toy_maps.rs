//! The maps over the toy table: they need only its stages and its design.

use super::toy::Toy;
use crate::{BoxedMap, Compute, ConcurrentMap, InlineMap, Op, Outcome, RandomState, Request, Stop};
use std::collections::HashMap;

type Inline = InlineMap<u64, u64, RandomState, Toy>;
type Boxed<V> = BoxedMap<u64, V, RandomState, Toy>;

/// Compares every operation of a map with the standard map.
fn operations_agree<M: ConcurrentMap<u64, u64>>(map: M) {
    let mut model = HashMap::new();
    let mut random = 1_u64;
    for value in 0..4000 {
        random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        let key = random >> 40 & 63;
        let before = model.get(&key).copied();
        assert_eq!((map.get(&key), map.contains_key(&key)), (before, before.is_some()));
        match random >> 50 & 7 {
            0 => assert_eq!(map.insert(key, value), model.insert(key, value)),
            1 => {
                assert_eq!(map.try_insert(key, value), before.map_or(Ok(()), Err));
                model.entry(key).or_insert(value);
            }
            2 => {
                assert_eq!(map.update(&key, value), before);
                model.entry(key).and_modify(|held| *held = value);
            }
            3 => {
                let expected = before.unwrap_or(7);
                let exchanged = map.compare_exchange(&key, &expected, value);
                assert_eq!(exchanged, before.ok_or(None));
                model.entry(key).and_modify(|held| *held = value);
            }
            4 => {
                assert_eq!(map.fetch_update(&key, |held| Some(held + 1)), before.ok_or(None));
                model.entry(key).and_modify(|held| *held += 1);
            }
            5 => {
                let computed = |held: Option<&u64>| match held {
                    Some(_) => Compute::Remove,
                    None => Compute::Put(value),
                };
                map.compute(key, computed);
                if model.remove(&key).is_none() {
                    model.insert(key, value);
                }
            }
            6 => assert_eq!(map.remove(&key), model.remove(&key)),
            _ => {
                assert_eq!(
                    map.remove_if(&key, |held| held % 2 == 0),
                    before.filter(|v| v % 2 == 0)
                );
                model.retain(|other, held| *other != key || *held % 2 != 0);
            }
        }
        assert_eq!(map.len(), model.len());
    }
    batches_agree(&map, &mut model);
    assert_eq!(map.iter().collect::<HashMap<_, _>>(), model);
    assert_eq!(map.snapshot().unwrap().collect::<HashMap<_, _>>(), model);
    map.retain(|key, _| key % 2 == 0);
    model.retain(|key, _| key % 2 == 0);
    assert_eq!(map.iter().collect::<HashMap<_, _>>(), model);
    map.reserve(1000).unwrap();
    assert!(map.memory_usage().mapped >= 16_000 && map.load_factor() < 0.5);
    map.shrink_to_fit().unwrap();
    map.clear();
    assert!(map.is_empty());
}

fn batches_agree(map: &impl ConcurrentMap<u64, u64>, model: &mut HashMap<u64, u64>) {
    let entries: Vec<(u64, u64)> = (0..300).map(|key| (key, key + 1000)).collect();
    let keys: Vec<u64> = (0..400).collect();
    let mut out = vec![None; 400];
    map.insert_many(&entries, &mut out[..300]).unwrap();
    for (&(key, value), before) in entries.iter().zip(&out) {
        assert_eq!(*before, model.insert(key, value));
    }
    keys.iter().for_each(|key| map.prefetch(key));
    map.get_many(&keys, &mut out).unwrap();
    assert!(keys.iter().zip(&out).all(|(key, found)| model.get(key).copied() == *found));
    map.remove_many(&keys[..100], &mut out[..100]).unwrap();
    assert!(keys.iter().zip(&out[..100]).all(|(key, before)| model.remove(key) == *before));
    let requests = [Request::Insert(1, 2), Request::Get(1), Request::Remove(1), Request::Get(1)];
    let mut operations = requests.map(Op::new);
    assert_eq!(map.execute(&mut operations, Stop::Never), 4);
    let outcomes = [Outcome::Inserted, Outcome::Found(2), Outcome::Removed(2), Outcome::Missing];
    assert_eq!(operations.map(|operation| operation.outcome), outcomes);
}

/// Several threads count in a few keys.
fn threads_agree(map: &(impl ConcurrentMap<u64, u64> + Sync)) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for key in (0..10).cycle().take(1000) {
                    map.compute(key, |held| Compute::Put(held.map_or(1, |held| held + 1)));
                }
            });
        }
    });
    assert_eq!(map.iter().collect::<HashMap<_, _>>(), (0..10).map(|key| (key, 400)).collect());
}

#[test]
fn inline_maps_work_over_a_toy() {
    operations_agree(Inline::new());
    threads_agree(&Inline::new());
}

#[test]
fn boxed_maps_work_over_a_toy() {
    operations_agree(Boxed::<u64>::new());
    threads_agree(&Boxed::new());
}

#[test]
fn guards_of_a_toy_keep_entries() {
    let map = Boxed::<String>::new();
    map.insert(1, "one".into());
    let guard = map.pin();
    let held = guard.get(&1).unwrap();
    assert_eq!(map.remove(&1).as_deref(), Some("one"));
    assert_eq!((held.as_str(), map.len()), ("one", 0));
}
