//! Snapshots of boxed entries and of byte strings borrow their map.

use nunatak::{DlhtBoxedMap, DlhtRecordMap};

fn main() {
    let map: DlhtBoxedMap<u64, String> = DlhtBoxedMap::new();
    let boxed = map.snapshot().unwrap();
    drop(map);
    boxed.count();

    let map: DlhtRecordMap = DlhtRecordMap::new();
    let records = map.snapshot().unwrap();
    drop(map);
    records.count();
}
