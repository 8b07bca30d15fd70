//! IcebergHT under a model checker: every interleaving, up to a number of preemptions, of a few
//! operations on a table of blocks of eight and of two slots, with the memory orders of the code.
//! One model for each property.
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
use nunatak::{Blocks, Iceberg, IcebergMap, InlineMap};

type Map = InlineMap<u64, u64, Chosen, Iceberg<Blocks<8, 2>>>;

/// With this many preemptions the models end in a few minutes.
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
        (Bug::FingerprintTakesLock, "a key is inserted once"),
        (Bug::TagBeforeFingerprint, "a key that was seen is seen again"),
        (Bug::TagBeforeValue, "a visible key stays visible"),
        (Bug::FingerprintClearedFirst, "a key that was missed is not in its slot"),
        (Bug::PairInTwoLoads, "a pair is never torn"),
        (Bug::MissWithoutStateRecheck, "a key is visible throughout a doubling"),
        (Bug::AbsentWithoutStateRecheck, "no put behind is lost in a doubling"),
        (Bug::LockWithoutStateRecheck, "no put is lost in a doubling"),
        (Bug::BackLockWithoutStateRecheck, "no put behind is lost in a doubling"),
        (Bug::PutBackAtOnceInAnyState, "no insert behind is lost in a doubling"),
        (Bug::ChangedBackAtOnceInAnyState, "no put behind is lost in a doubling"),
        (Bug::NewPlaceBeforeOld, "nothing is lost in a halving"),
        (Bug::MoveErasesFirst, "a key is visible throughout a doubling"),
        (Bug::SettleForgotten, "no removal is lost in a doubling"),
        (Bug::SettleWithoutLock, "no put is lost in a doubling"),
        (Bug::CountedBeforeMoved, "a key behind is visible throughout a doubling"),
        (Bug::ChainedWithoutMark, "all levels lose nothing"),
        (Bug::MarkNotInherited, "no chained key is lost in a doubling"),
        (Bug::ReleaseWithoutGrace, "nothing is lost in a halving"),
    ];
    models::every_seeded_bug_is_found(&bugs, MODELS);
}
