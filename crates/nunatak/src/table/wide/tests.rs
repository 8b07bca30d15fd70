//! Tests of the table of wide entries. (The suites of all maps are in `nunatak-harness/tests/wide.rs`.)

use crate::{ConcurrentMap, DlhtWideMap};

/// Keys come and go at a constant number. Chains keep their bins, so in time every bin would have one.
#[test]
fn churn_does_not_grow_the_index() {
    fn check<V: Clone, M: ConcurrentMap<u64, V>>(
        map: &M,
        keys: u64,
        value: V,
        bins: impl Fn(&M) -> usize,
    ) {
        (0..keys).for_each(|key| _ = map.insert(key, value.clone()));
        let (before, bytes) = (bins(map), map.memory_usage().mapped);
        for key in 0..30 * keys {
            map.remove(&key);
            map.insert(key + keys, value.clone());
        }
        assert_eq!((map.len() as u64, bins(map)), (keys, before));
        let after = map.memory_usage().mapped;
        assert!(after < 2 * bytes, "{bytes} bytes became {after}");
    }
    // At the planned number of entries, and at half of it.
    for capacity in [10_000, 20_000] {
        let wide = DlhtWideMap::with_capacity(capacity);
        check(&wide, 10_000, (1_u64, 2_u64), |map| map.stats().bins);
        let narrow = DlhtWideMap::with_capacity(capacity);
        check(&narrow, 10_000, 1_u64, |map| map.stats().bins);
    }
}
