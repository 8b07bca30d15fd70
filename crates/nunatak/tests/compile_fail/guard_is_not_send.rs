//! A guard is its thread's: it can't be sent, also not within an iterator or a snapshot.

use nunatak::{DlhtBoxedMap, DlhtRecordMap, TurboBlobMap};

fn is_send<T: Send>(_: T) {}

fn main() {
    let map: DlhtBoxedMap<u64, u64> = DlhtBoxedMap::new();
    is_send(map.pin());
    is_send(map.iter());
    is_send(map.snapshot());
    let records: DlhtRecordMap = DlhtRecordMap::new();
    is_send(records.pin());
    is_send(records.snapshot());
    is_send(TurboBlobMap::new().pin());
}
