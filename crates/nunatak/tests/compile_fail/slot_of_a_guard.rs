//! What a slot of an IcebergHT map holds does not outlive the guard that was asked.

use nunatak::IcebergBoxedMap;

fn main() {
    let map: IcebergBoxedMap<String, u64> = IcebergBoxedMap::new();
    let found = {
        let guard = map.pin();
        let slot = guard.slot("a").unwrap();
        guard.get_at(&slot)
    };
    println!("{found:?}");
}
