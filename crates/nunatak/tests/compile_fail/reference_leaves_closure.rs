//! References that closures are given don't leave them.

use nunatak::{Compute, ConcurrentMap, DlhtBoxedMap, TurboBlobMap};

fn main() {
    let map: DlhtBoxedMap<u64, String> = DlhtBoxedMap::new();
    let _ = map.get_with(&1, |value| value.as_str());
    let _ = map.get_with_or_insert(1, String::new, |value| value);
    let mut kept: Option<&String> = None;
    map.compute(1, |value| {
        kept = value;
        Compute::Keep
    });
    let _ = map.remove_entry_if(&1, |_, value| {
        kept = Some(value);
        true
    });
    map.retain(|_, value| {
        kept = Some(value);
        true
    });
    println!("{kept:?}");

    let blobs = TurboBlobMap::new();
    let _ = blobs.get_with(b"a", |value| value);
    let mut slice: &[u8] = &[];
    blobs.retain(|key, _| {
        slice = key;
        true
    });
    println!("{slice:?}");

    fn generic<M: ConcurrentMap<u64, String>>(map: &M) {
        let mut kept = None;
        let _ = map.remove_if(&1, |value| {
            kept = Some(value);
            true
        });
        println!("{kept:?}");
    }
    generic(&map);
}
