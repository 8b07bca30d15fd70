//! A guard borrows its map: the map can't go first, nor be moved.

use nunatak::{DlhtBoxedMap, DlhtRecordMap, IcebergBoxedMap};

fn main() {
    let map: DlhtBoxedMap<u64, String> = DlhtBoxedMap::new();
    let guard = map.pin();
    drop(map);
    guard.get(&1);

    let guard = {
        let records: DlhtRecordMap = DlhtRecordMap::new();
        records.pin()
    };
    guard.get(b"a");

    let moved: IcebergBoxedMap<u64, u64> = IcebergBoxedMap::new();
    let guard = moved.pin();
    std::thread::spawn(move || moved.len());
    guard.get(&1);
}
