//! Pea Hash under a model checker: every interleaving, up to a number of preemptions, of a few
//! operations on segments of two buckets of three slots, with the memory orders of the code. One
//! model for each property.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p nunatak --test loom_pea
//! ```
//!
//! With `--cfg nunatak_seeded_bugs` as well, the step that rests on an interleaving is left out,
//! and a model must find it. (The scenarios of `shuttle_pea` find the others.)
#![cfg(loom)]

#[path = "models/chosen.rs"]
mod chosen;
mod models;
#[path = "models/narrow.rs"]
mod narrow;
#[path = "models/pea.rs"]
mod pea;

use nunatak::{PeaMap, Strategy};
use pea::{Chosen, MODELS};
use std::sync::Arc;

/// With this many preemptions the models end in a few minutes.
const MOST_PREEMPTIONS: usize = 3;

type Map = PeaMap<u64, u64, Chosen>;

fn map(strategies: &[Strategy], entries: &[(u64, u64)]) -> Arc<Map> {
    let builder = PeaMap::<u64, u64>::builder().hasher(Chosen).segment_buckets(2);
    let map: Map = builder.strategies(strategies).split_into(2).build().unwrap();
    for &(key, value) in entries {
        map.insert(key, value);
    }
    Arc::new(map)
}

#[test]
fn every_property_holds() {
    models::every_property_holds(MODELS);
    models::every_property_holds(narrow::MODELS);
}

#[cfg(nunatak_seeded_bugs)]
#[test]
fn every_seeded_bug_is_found() {
    use nunatak::seeded::Bug;
    models::every_seeded_bug_is_found(
        &[(Bug::LockedWithoutEntry, "a split loses nothing")],
        MODELS,
    );
    models::every_seeded_bug_is_found(
        &[
            (Bug::TornPairReturned, "of 12 bytes, a value is its key's"),
            (Bug::UnpublishedPairReturned, "of 8 bytes, a visible key stays visible"),
        ],
        narrow::MODELS,
    );
}
