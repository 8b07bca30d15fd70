//! A hidden insert that is not ended borrows its map.

use nunatak::{DlhtShadowMap, DlhtShadowRecordMap};

fn main() {
    let map: DlhtShadowMap<u64, u64> = DlhtShadowMap::new();
    let shadow = map.shadow_insert(1).unwrap();
    drop(map);
    shadow.commit(2);

    let map: DlhtShadowRecordMap = DlhtShadowRecordMap::new();
    let shadow = map.shadow_insert(b"a", b"1").unwrap();
    drop(map);
    shadow.commit();
}
