//! Duplicate keys of Pea Hash under a model checker: every interleaving, up to a number
//! of preemptions, of a few operations on segments of two buckets of three slots, and
//! value buffers of four values. One model for each property.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p nunatak --test loom_multi
//! ```
//!
//! With `--cfg nunatak_seeded_bugs` as well, each step that the protocol rests on is left
//! out in turn, and a model must find it.
#![cfg(loom)]

#[path = "models/chosen.rs"]
mod chosen;
mod models;
#[path = "models/multi.rs"]
mod multi;

use chosen::Chosen;
use multi::MODELS;
use nunatak::{PeaMap, PeaMultiMap, Strategy};
use std::sync::Arc;

/// Returns the `n`th key of the first segment with this first bucket; `child` are the bits by which
/// a split tells keys apart.
fn key(child: u64, bucket: u64, n: u64) -> u64 {
    assert!(child < 2 && bucket < 2 && n < 1 << 8);
    let hash: u64 = child << 62 | bucket << 18 | (5 + n) << 10;
    hash.rotate_left(1)
}

type Map = PeaMultiMap<u64, u64, Chosen>;

fn map_of(buckets: usize, strategy: Strategy, entries: &[(u64, u64)]) -> Arc<Map> {
    let builder = PeaMap::<u64, u64>::builder().hasher(Chosen).segment_buckets(buckets);
    let map: Map = builder.strategies(&[strategy]).split_into(2).build_multi().unwrap();
    for &(key, value) in entries {
        map.insert(key, value);
    }
    Arc::new(map)
}

#[test]
fn every_property_holds() {
    models::every_property_holds(MODELS);
}

#[cfg(nunatak_seeded_bugs)]
#[test]
fn every_seeded_bug_is_found() {
    use nunatak::seeded::Bug;
    let bugs = [
        (Bug::VersionNotAskedAgain, "values are of one moment"),
        (Bug::SecondVersionNotAsked, "compaction for another key hides nothing"),
        (Bug::LockedWithoutEntry, "a split loses no value"),
    ];
    models::every_seeded_bug_is_found(&bugs, MODELS);
}
