//! IcebergHT in persistent memory under a model checker: the models of `loom_iceberg`, with the
//! order of stores that durability needs.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p nunatak --test loom_ordered
//! ```
#![cfg(loom)]

#[path = "models/iceberg.rs"]
mod iceberg;
mod models;

use iceberg::{Chosen, MODELS};
use nunatak::{Blocks, CheckedIceberg, InlineMap};

type Map = InlineMap<u64, u64, Chosen, CheckedIceberg<Blocks<8, 2>, true>>;

/// With this many preemptions the models end in a few minutes.
const MOST_PREEMPTIONS: usize = 1;

/// An empty map of two blocks.
fn small(hasher: Chosen) -> Map {
    Map::with_hasher(hasher)
}

#[test]
fn every_property_holds() {
    models::every_property_holds(MODELS);
}
