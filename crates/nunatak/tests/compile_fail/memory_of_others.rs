//! Giving memory back at once, and pointers into it, are unsafe.

use nunatak::{DlhtRecordMap, TurboBlobMap, entry::Format};

fn main() {
    let map = TurboBlobMap::new();
    map.detach(b"a").unwrap().free();
    let records: DlhtRecordMap<Format<8, 16>> = DlhtRecordMap::new();
    let guard = records.pin();
    guard.pointer(b"some key").unwrap().as_mut()[0] = 1;
}
