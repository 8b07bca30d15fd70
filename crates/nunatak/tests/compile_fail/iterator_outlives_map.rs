//! Iterators borrow their map; those of a guard borrow the guard.

use nunatak::{DlhtBoxedMap, DlhtMap, PeaMultiMap, TurboBlobMap, TurboSet};

fn main() {
    let map: DlhtMap<u64, u64> = DlhtMap::new();
    let inline = map.iter();
    drop(map);
    inline.count();

    let map: DlhtBoxedMap<u64, u64> = DlhtBoxedMap::new();
    let boxed = map.iter();
    drop(map);
    boxed.count();

    let map: DlhtBoxedMap<u64, u64> = DlhtBoxedMap::new();
    let guard = map.pin();
    let of_guard = guard.iter();
    drop(guard);
    of_guard.count();

    let map = TurboBlobMap::new();
    let blobs = map.iter();
    drop(map);
    blobs.count();

    let map: PeaMultiMap<u64, u64> = PeaMultiMap::new();
    let pairs = map.iter();
    drop(map);
    pairs.count();

    let set: TurboSet<u64> = TurboSet::new();
    let keys = set.iter();
    drop(set);
    keys.count();
}
