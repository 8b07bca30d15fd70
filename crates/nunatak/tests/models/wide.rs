//! The models of wide entries.

use super::models::{Model, check, spawn};
use nunatak::{DlhtBuilder, DlhtWideMap};
use std::sync::Arc;

type Map = DlhtWideMap<u64, (u64, u64)>;

// What only reads runs in the thread that is spawned, so after the other thread in the first interleaving. The checker
// remembers the last access to a word; a change loads a word before it stores it, and so would hide from the checker
// that another thread has read it before.

pub(crate) const MODELS: &[Model] = &[
    ("a get sees whole values", a_get_sees_whole_values),
    ("a slot's next key is not taken for the one before", a_slot_changes_hands),
    ("no increment is lost", no_increment_is_lost),
    ("one insert wins", one_insert_wins),
    ("a transfer loses no change", a_transfer_loses_no_change),
    ("a transfer moves what is behind links", a_transfer_moves_links),
    ("a key is found during a transfer", a_key_is_found_during_a_transfer),
    ("a cut is of one moment", a_cut_is_of_one_moment),
];

/// Returns the `n`th key of a bin of two. (In a model the key is its hash.)
fn key(bin: u64, n: u64) -> u64 {
    bin << 63 | n << 8
}

fn twice(n: u64) -> (u64, u64) {
    (n, n)
}

/// Two bins; one moves at a time.
fn map_of(keys: &[u64]) -> Arc<Map> {
    let builder = DlhtBuilder::default().initial_bins(2).growth_factor(2).transfer_chunk(1);
    let map: Map = builder.build_wide().unwrap();
    for &key in keys {
        map.insert(key, twice(1));
    }
    Arc::new(map)
}

fn a_get_sees_whole_values() {
    check(3, || {
        let map = map_of(&[key(0, 1)]);
        let reader = spawn(&map, |map: &Map| map.get(&key(0, 1)).unwrap());
        assert_eq!(map.update(&key(0, 1), twice(2)), Some(twice(1)));
        let value = reader.join().unwrap();
        assert!(value == twice(1) || value == twice(2), "{value:?}");
    });
}

fn a_slot_changes_hands() {
    check(3, || {
        let map = map_of(&[key(0, 1)]);
        let reader = spawn(&map, |map: &Map| (map.get(&key(0, 1)), map.get(&key(0, 2))));
        map.remove(&key(0, 1));
        map.insert(key(0, 2), twice(2));
        let (first, second) = reader.join().unwrap();
        assert!(first.is_none_or(|value| value == twice(1)), "{first:?}");
        assert!(second.is_none_or(|value| value == twice(2)), "{second:?}");
    });
}

fn no_increment_is_lost() {
    check(3, || {
        let map = map_of(&[key(0, 1)]);
        let add = |map: &Map| {
            map.fetch_update(&key(0, 1), |(one, two)| Some((one + 1, two + 1))).unwrap();
        };
        let other = spawn(&map, add);
        add(&map);
        other.join().unwrap();
        assert_eq!(map.get(&key(0, 1)), Some(twice(3)));
    });
}

fn one_insert_wins() {
    check(3, || {
        let map = map_of(&[]);
        let other = spawn(&map, |map: &Map| map.try_insert(key(0, 1), twice(2)).is_ok());
        let mine = map.try_insert(key(0, 1), twice(3)).is_ok();
        assert!(mine != other.join().unwrap());
        assert_eq!(map.get(&key(0, 1)), Some(twice(if mine { 3 } else { 2 })));
        assert_eq!(map.len(), 1);
    });
}

fn a_transfer_loses_no_change() {
    check(2, || {
        let map = map_of(&[key(0, 1)]);
        let other = spawn(&map, |map: &Map| map.update(&key(0, 1), twice(2)));
        map.reserve(4).unwrap();
        assert_eq!(other.join().unwrap(), Some(twice(1)));
        assert_eq!(map.get(&key(0, 1)), Some(twice(2)));
    });
}

fn a_transfer_moves_links() {
    check(1, || {
        let keys = [key(0, 1), key(0, 2), key(0, 3)];
        let map = map_of(&keys);
        let other = spawn(&map, move |map: &Map| map.remove(&keys[2]));
        map.reserve(4).unwrap();
        assert_eq!(other.join().unwrap(), Some(twice(1)));
        assert_eq!(keys.map(|key| map.get(&key)), [Some(twice(1)), Some(twice(1)), None]);
        assert_eq!(map.len(), 2);
    });
}

fn a_key_is_found_during_a_transfer() {
    check(2, || {
        let map = map_of(&[key(0, 1)]);
        let reader = spawn(&map, |map: &Map| map.get(&key(0, 1)));
        map.reserve(4).unwrap();
        assert_eq!(reader.join().unwrap(), Some(twice(1)));
        assert_eq!(map.iter().count(), 1);
    });
}

fn a_cut_is_of_one_moment() {
    check(2, || {
        let map = map_of(&[key(0, 1), key(1, 1)]);
        let cut = spawn(&map, |map: &Map| map.snapshot().unwrap().collect::<Vec<_>>());
        map.update(&key(0, 1), twice(2));
        map.update(&key(1, 1), twice(2));
        let cut = cut.join().unwrap();
        let value = |wanted| cut.iter().find(|(key, _)| *key == wanted).unwrap().1;
        assert!(value(key(0, 1)) >= value(key(1, 1)), "{cut:?}");
    });
}
