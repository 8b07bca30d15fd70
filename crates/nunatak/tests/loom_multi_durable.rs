//! Duplicate keys of Pea Hash in durable memory under a model checker: the models of `loom_multi`.
//! Here pointers are recognised by their tags, and a log precedes changes of several words.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p nunatak --test loom_multi_durable
//! ```
#![cfg(loom)]

#[path = "models/chosen.rs"]
mod chosen;
mod models;
#[path = "models/multi.rs"]
mod multi;

use chosen::Chosen;
use multi::MODELS;
use nunatak::{CheckedMedium, PeaMap, PeaMultiMap, Strategy};
use std::sync::Arc;

/// Makes keys as in `loom_multi`, but with the highest bit, which every tag of a durable table has.
/// No split tells them apart.
fn key(_child: u64, bucket: u64, n: u64) -> u64 {
    assert!(bucket < 2 && n < 1 << 8);
    let hash: u64 = 1 << 62 | bucket << 18 | (5 + n) << 10;
    hash.rotate_left(1)
}

type Map = PeaMultiMap<u64, u64, Chosen, CheckedMedium>;

fn map_of(buckets: usize, strategy: Strategy, entries: &[(u64, u64)]) -> Arc<Map> {
    let builder = PeaMap::<u64, u64>::builder().hasher(Chosen).segment_buckets(buckets);
    let map: Map = builder.strategies(&[strategy]).split_into(2).build_checked_multi().unwrap();
    for &(key, value) in entries {
        map.insert(key, value);
    }
    Arc::new(map)
}

#[test]
fn every_property_holds() {
    let (splits, others) = MODELS.split_last().unwrap();
    assert_eq!(splits.0, "a split loses no value");
    models::every_property_holds(others);
}
