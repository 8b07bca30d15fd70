//! The models of wide entries, in DLHT's bins and in IcebergHT's blocks.

use super::models::{Model, check, spawn};
use nunatak::{Dlht, DlhtBuilder, Iceberg, IcebergBuilder, WideDesign, WideMap};
use std::sync::Arc;

type Map<D> = WideMap<u64, (u64, u64), D>;

/// A table of two bins that doubles.
pub(crate) trait Bins: WideDesign + Sized {
    /// The entries of a bin that has no link.
    const SLOTS: u64;

    fn map() -> Map<Self>;
}

impl Bins for Dlht {
    const SLOTS: u64 = 2;

    /// One bin moves at a time.
    fn map() -> Map<Self> {
        let builder = DlhtBuilder::default().initial_bins(2).growth_factor(2);
        builder.transfer_chunk(1).build_wide().unwrap()
    }
}

impl Bins for Iceberg {
    const SLOTS: u64 = 4;

    fn map() -> Map<Self> {
        IcebergBuilder::default().build_wide().unwrap()
    }
}

// What only reads runs in the thread that is spawned, so after the other thread in the first interleaving. The checker
// remembers the last access to a word; a change loads a word before it stores it, and so would hide from the checker
// that another thread has read it before.

pub(crate) const fn models<D: Bins>() -> [Model; 8] {
    [
        ("a get sees whole values", a_get_sees_whole_values::<D>),
        ("a slot's next key is not taken for the one before", a_slot_changes_hands::<D>),
        ("no increment is lost", no_increment_is_lost::<D>),
        ("one insert wins", one_insert_wins::<D>),
        ("a transfer loses no change", a_transfer_loses_no_change::<D>),
        ("a transfer moves what is behind links", a_transfer_moves_links::<D>),
        ("a key is found during a transfer", a_key_is_found_during_a_transfer::<D>),
        ("a cut is of one moment", a_cut_is_of_one_moment::<D>),
    ]
}

/// Returns the `n`th key of a bin of two. (In a model the key is its hash.)
fn key(bin: u64, n: u64) -> u64 {
    bin << 63 | n << 8
}

fn twice(n: u64) -> (u64, u64) {
    (n, n)
}

fn map_of<D: Bins>(keys: &[u64]) -> Arc<Map<D>> {
    let map = D::map();
    for &key in keys {
        map.insert(key, twice(1));
    }
    Arc::new(map)
}

/// Doubles the map.
fn double<D: Bins>(map: &Map<D>) {
    map.reserve(8 * D::SLOTS as usize).unwrap();
}

fn a_get_sees_whole_values<D: Bins>() {
    check(3, || {
        let map = map_of::<D>(&[key(0, 1)]);
        let reader = spawn(&map, |map: &Map<D>| map.get(&key(0, 1)).unwrap());
        assert_eq!(map.update(&key(0, 1), twice(2)), Some(twice(1)));
        let value = reader.join().unwrap();
        assert!(value == twice(1) || value == twice(2), "{value:?}");
    });
}

fn a_slot_changes_hands<D: Bins>() {
    check(3, || {
        let map = map_of::<D>(&[key(0, 1)]);
        let reader = spawn(&map, |map: &Map<D>| (map.get(&key(0, 1)), map.get(&key(0, 2))));
        map.remove(&key(0, 1));
        map.insert(key(0, 2), twice(2));
        let (first, second) = reader.join().unwrap();
        assert!(first.is_none_or(|value| value == twice(1)), "{first:?}");
        assert!(second.is_none_or(|value| value == twice(2)), "{second:?}");
    });
}

fn no_increment_is_lost<D: Bins>() {
    check(3, || {
        let map = map_of::<D>(&[key(0, 1)]);
        let add = |map: &Map<D>| {
            map.fetch_update(&key(0, 1), |(one, two)| Some((one + 1, two + 1))).unwrap();
        };
        let other = spawn(&map, add);
        add(&map);
        other.join().unwrap();
        assert_eq!(map.get(&key(0, 1)), Some(twice(3)));
    });
}

fn one_insert_wins<D: Bins>() {
    check(3, || {
        let map = map_of::<D>(&[]);
        let other = spawn(&map, |map: &Map<D>| map.try_insert(key(0, 1), twice(2)).is_ok());
        let mine = map.try_insert(key(0, 1), twice(3)).is_ok();
        assert!(mine != other.join().unwrap());
        assert_eq!(map.get(&key(0, 1)), Some(twice(if mine { 3 } else { 2 })));
        assert_eq!(map.len(), 1);
    });
}

fn a_transfer_loses_no_change<D: Bins>() {
    check(2, || {
        let map = map_of::<D>(&[key(0, 1)]);
        let other = spawn(&map, |map: &Map<D>| map.update(&key(0, 1), twice(2)));
        double(&map);
        assert_eq!(other.join().unwrap(), Some(twice(1)));
        assert_eq!(map.get(&key(0, 1)), Some(twice(2)));
    });
}

fn a_transfer_moves_links<D: Bins>() {
    check(1, || {
        let keys: Vec<u64> = (0..=D::SLOTS).map(|n| key(0, n + 1)).collect();
        let (last, others) = keys.split_last().unwrap();
        let (map, linked) = (map_of::<D>(&keys), *last);
        let other = spawn(&map, move |map: &Map<D>| map.remove(&linked));
        double(&map);
        assert_eq!(other.join().unwrap(), Some(twice(1)));
        assert!(others.iter().all(|key| map.get(key) == Some(twice(1))));
        assert_eq!((map.get(&linked), map.len()), (None, others.len()));
    });
}

fn a_key_is_found_during_a_transfer<D: Bins>() {
    check(2, || {
        let map = map_of::<D>(&[key(0, 1)]);
        let reader = spawn(&map, |map: &Map<D>| map.get(&key(0, 1)));
        double(&map);
        assert_eq!(reader.join().unwrap(), Some(twice(1)));
        assert_eq!(map.iter().count(), 1);
    });
}

fn a_cut_is_of_one_moment<D: Bins>() {
    check(2, || {
        let map = map_of::<D>(&[key(0, 1), key(1, 1)]);
        let cut = spawn(&map, |map: &Map<D>| map.snapshot().unwrap().collect::<Vec<_>>());
        map.update(&key(0, 1), twice(2));
        map.update(&key(1, 1), twice(2));
        let cut = cut.join().unwrap();
        let value = |wanted| cut.iter().find(|(key, _)| *key == wanted).unwrap().1;
        assert!(value(key(0, 1)) >= value(key(1, 1)), "{cut:?}");
    });
}
