//! Wide entries under a model checker: every interleaving, up to a number of preemptions, of a few operations on an
//! index of two bins of two slots (DLHT), or two blocks of four (IcebergHT). One model for each property.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p nunatak --test loom_wide
//! ```
//!
//! With `--cfg nunatak_seeded_bugs` as well, each step that the protocol rests on is left
//! out in turn, and a model must find it.
#![cfg(loom)]

mod models;
#[path = "models/wide.rs"]
mod wide;

use nunatak::{Dlht, Iceberg};
use wide::models;

#[test]
fn every_property_holds_in_bins() {
    models::every_property_holds(&models::<Dlht>());
}

#[test]
fn every_property_holds_in_blocks() {
    models::every_property_holds(&models::<Iceberg>());
}

#[cfg(nunatak_seeded_bugs)]
#[test]
fn every_seeded_bug_is_found() {
    use nunatak::seeded::Bug;
    let bugs = [
        (Bug::WideVersionKept, "a get sees whole values"),
        (Bug::WideReadNotValidated, "a get sees whole values"),
        (Bug::WideReadWithoutFence, "a get sees whole values"),
        (Bug::WideLockWithoutFence, "a get sees whole values"),
        (Bug::WideNotMarkedMoved, "a transfer loses no change"),
        (Bug::WideLinksNotMoved, "a transfer moves what is behind links"),
        (Bug::WideCutWithoutFreezing, "a cut is of one moment"),
    ];
    models::every_seeded_bug_is_found(&bugs, &models::<Dlht>());
    models::every_seeded_bug_is_found(&bugs, &models::<Iceberg>());
}
