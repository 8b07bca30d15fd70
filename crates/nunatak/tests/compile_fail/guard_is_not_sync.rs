//! A guard can't be shared, neither can a reference to one be sent.

use nunatak::{DlhtBoxedMap, DlhtRecordMap};

fn is_sync<T: Sync>(_: &T) {}

fn main() {
    let map: DlhtBoxedMap<u64, u64> = DlhtBoxedMap::new();
    is_sync(&map.pin());
    let records: DlhtRecordMap = DlhtRecordMap::new();
    is_sync(&records.pin());
}
