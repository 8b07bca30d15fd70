//! IcebergHT under a model checker: every interleaving, up to a number of
//! preemptions, of a few operations on a table of blocks of eight and of two slots,
//! with the memory orders that the code asks for. One model for each property.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p nunatak --test loom_iceberg
//! ```
//!
//! With `--cfg nunatak_seeded_bugs` as well, each step that the protocol rests
//! on is left out in turn, and a model must find it.
#![cfg(loom)]

#[path = "models/iceberg.rs"]
mod iceberg;
mod models;

use iceberg::{Chosen, MODELS};
use nunatak::{Blocks, IcebergMap};

type Map = IcebergMap<u64, u64, Chosen, Blocks<8, 2>>;

/// As many as end in a few minutes.
const MOST_PREEMPTIONS: usize = 3;

/// An empty map of two blocks.
fn small(hasher: Chosen) -> Map {
    let builder = IcebergMap::<u64, u64>::builder().hasher(hasher).blocks::<Blocks<8, 2>>();
    builder.max_load(0.95).build().unwrap()
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
        Bug::FingerprintTakesLock,
        Bug::TagBeforeFingerprint,
        Bug::TagBeforeValue,
        Bug::FingerprintClearedFirst,
        Bug::PairInTwoLoads,
        Bug::MissWithoutStateRecheck,
        Bug::AbsentWithoutStateRecheck,
        Bug::LockWithoutStateRecheck,
        Bug::BackLockWithoutStateRecheck,
        Bug::NewPlaceBeforeOld,
        Bug::MoveErasesFirst,
        Bug::SettleForgotten,
        Bug::SettleWithoutLock,
        Bug::CountedBeforeMoved,
        Bug::ChainedWithoutMark,
        Bug::MarkNotInherited,
        Bug::ReleaseWithoutGrace,
    ];
    models::every_seeded_bug_is_found(&bugs, MODELS);
}
