//! An entry is removed once, and its memory is free when `clear` and `retain` return.

use nunatak::alloc::Global;
use nunatak::entry::{Entries, Format, InPlace, Plain, VARIABLE};
use nunatak::{
    BlobMap, ByteMap, Compute, Design, Dlht, DlhtBoxedMap, DlhtShadowRecordMap, HashesWith,
    Iceberg, Pea, PeaMultiMap, RandomState, RecordMap, Turbo, Unshadowed,
};
use std::sync::Arc;

type InPlaceFormat = Format<VARIABLE, VARIABLE, Plain, InPlace>;

fn frees_bytes<E: Entries<Naming = Plain>, D: Design>(map: &ByteMap<E, D>) {
    let fill = || {
        for n in 0..1000_u32 {
            for len in 0..2 {
                map.put(&n.to_le_bytes(), &vec![n as u8; 100 + len]).unwrap();
            }
        }
    };
    fill();
    map.delete(&1_u32.to_le_bytes());
    map.clear();
    assert_eq!((map.len(), map.unreclaimed()), (0, 0));
    fill();
    map.retain(|key, _| key[0].is_multiple_of(2));
    assert_eq!((map.len(), map.unreclaimed()), (500, 0));

    // An entry that a guard may see waits for the guard.
    let guard = map.pin();
    map.clear();
    assert!(map.is_empty() && map.unreclaimed() >= 500 * 100);
    drop(guard);
    map.clear();
    assert_eq!(map.unreclaimed(), 0);
}

fn frees_bytes_of<D: HashesWith<RandomState> + Unshadowed>(blobs: &BlobMap<RandomState, D>) {
    frees_bytes(blobs);
    frees_bytes(&RecordMap::<Format, Global, RandomState, D>::new());
    frees_bytes(&RecordMap::<InPlaceFormat, Global, RandomState, D>::new());
}

#[test]
fn bytes_are_free_when_clear_and_retain_return() {
    frees_bytes_of(&BlobMap::<RandomState, Dlht>::new());
    frees_bytes_of(&BlobMap::<RandomState, Iceberg>::new());
    frees_bytes_of(&BlobMap::<RandomState, Pea>::new());
    frees_bytes_of(&BlobMap::<RandomState, Turbo>::new());
    frees_bytes(&DlhtShadowRecordMap::<Format>::new());
}

/// Only a guard keeps entries from being dropped.
#[test]
fn boxed_entries_wait_for_guards_alone() {
    let (map, value) = (DlhtBoxedMap::<u64, Arc<()>>::new(), Arc::new(()));
    let fill = || (0..300).for_each(|key| drop(map.put(key, value.clone())));
    fill();
    let guard = map.pin();
    let seen = guard.get(&7).unwrap();
    map.clear();
    assert_eq!((map.len(), Arc::strong_count(&value), Arc::strong_count(seen)), (0, 301, 301));
    drop(guard);
    assert_eq!((map.reclaim(), Arc::strong_count(&value)), (0, 1));

    // Also after a panic, at the next collection.
    fill();
    let mut asked = 0;
    let panics = || {
        map.retain(|_, _| {
            asked += 1;
            assert!(asked < 100, "in a closure");
            false
        });
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    assert_eq!((map.len(), map.reclaim(), Arc::strong_count(&value)), (201, 0, 202));
}

/// `Drop` may use the map that held its value.
#[test]
fn values_may_use_their_map_when_they_are_dropped() {
    struct Counted(Arc<DlhtBoxedMap<u64, u64>>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.compute(0, |n| Compute::Put(n.map_or(1, |n| n + 1)));
            self.0.clear();
            self.0.insert(0, 1);
        }
    }
    let counts = Arc::new(DlhtBoxedMap::new());
    let map: DlhtBoxedMap<u64, Counted> = DlhtBoxedMap::new();
    (0..500).for_each(|key| drop(map.put(key, Counted(counts.clone()))));
    map.clear();
    assert_eq!((map.unreclaimed(), counts.get(&0)), (0, Some(1)));
}

/// A map of words compares words, so values that are not equal to themselves go, too.
#[test]
fn values_that_are_not_equal_to_themselves_are_removed() {
    let map: nunatak::DlhtMap<u64, f64> = (0..10).map(|key| (key, f64::NAN)).collect();
    let mut asked = 0;
    map.retain(|key, _| {
        asked += 1;
        *key > 4
    });
    assert_eq!((map.len(), asked), (5, 10));
}

/// One of several equal values of a key, and all values.
#[test]
fn a_map_of_many_values_asks_once_about_each() {
    let map: PeaMultiMap<u64, u64> = (0..1000).map(|n| (n % 10, n % 2)).collect();
    let mut asked = 0;
    map.retain(|_, _| {
        asked += 1;
        asked != 1
    });
    assert_eq!((asked, map.len()), (1000, 999));
    map.retain(|key, _| *key != 3);
    assert_eq!(map.count(&3), 0);
}
