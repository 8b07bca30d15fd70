//! Pea Hash in durable memory under a model checker: the models of `loom_pea`, with the locks and
//! the order of stores that durability needs.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p nunatak --test loom_pea_durable
//! ```
#![cfg(loom)]

#[path = "models/chosen.rs"]
mod chosen;
mod models;
#[path = "models/pea.rs"]
mod pea;

use nunatak::{CheckedPea, InlineMap, PeaMap, Strategy};
use pea::{Chosen, MODELS};
use std::sync::Arc;

/// With this many preemptions the models end in a few minutes.
const MOST_PREEMPTIONS: usize = 3;

type Map = InlineMap<u64, u64, Chosen, CheckedPea>;

fn map(strategies: &[Strategy], entries: &[(u64, u64)]) -> Arc<Map> {
    let builder = PeaMap::<u64, u64>::builder().hasher(Chosen).segment_buckets(2);
    let map: Map = builder.strategies(strategies).split_into(2).build_checked().unwrap();
    for &(key, value) in entries {
        map.insert(key, value);
    }
    Arc::new(map)
}

#[test]
fn every_property_holds() {
    // Of the model about the second bucket the checker runs only one interleaving, and says so;
    // `shuttle_pea` has that scenario.
    models::every_property_holds(&MODELS[..5]);
    models::every_property_holds(&MODELS[6..]);
}
