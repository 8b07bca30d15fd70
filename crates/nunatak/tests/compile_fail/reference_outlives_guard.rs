//! What a guard has found does not outlive the guard.

use nunatak::{DlhtBoxedMap, TurboBlobMap};

fn main() {
    let map: DlhtBoxedMap<String, String> = DlhtBoxedMap::new();
    let found = {
        let guard = map.pin();
        guard.get("a")
    };
    let entries: Vec<(&String, &String)> = map.pin().iter().collect();
    println!("{found:?} {entries:?}");

    let blobs = TurboBlobMap::new();
    let bytes = blobs.pin().get(b"a");
    println!("{bytes:?}");
}
