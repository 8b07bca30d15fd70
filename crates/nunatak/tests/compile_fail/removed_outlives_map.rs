//! Entries that were taken out go back to their map, so that they can't outlive it, and what
//! they show does not outlive them.

use nunatak::{DlhtBoxedMap, TurboBlobMap};

fn main() {
    let map: DlhtBoxedMap<u64, String> = DlhtBoxedMap::new();
    let removed = map.remove_entry(&1);
    drop(map);
    drop(removed);

    let map: DlhtBoxedMap<u64, String> = DlhtBoxedMap::new();
    let value = map.put(1, String::new()).unwrap().value();
    println!("{value}");

    let removed = map.remove_entry(&1).unwrap();
    let key = removed.key();
    let _ = removed.into_owned();
    println!("{key}");

    let blobs = TurboBlobMap::new();
    let detached = blobs.detach(b"a").unwrap();
    let bytes = detached.value();
    drop(detached);
    println!("{bytes:?}");

    let detached = blobs.detach(b"a");
    drop(blobs);
    drop(detached);
}
