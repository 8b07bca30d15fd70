//! DLHT under a randomised scheduler: whole operations of several threads, through growth,
//! shrinking, snapshots and delegated bins, on schedules that a real machine seldom takes. The
//! models of `loom_dlht` try every interleaving of a few steps; this tries many thousands of a few
//! hundred. (The scheduler runs all memory orders as sequentially consistent; loom checks the
//! orders.)
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" cargo test --release -p nunatak --test shuttle_dlht
//! ```
//!
//! With `--cfg nunatak_seeded_bugs` as well, it must find the bugs that need neither a weak memory
//! order nor two threads within one step of each other.
#![cfg(shuttle)]

mod schedules;

use nunatak::{BoxedMap, Dlht, DlhtMap, Modulo};
use schedules::{Constant, Counted, Map, Subject, scenarios};
use std::sync::Arc;

/// Two bins; even keys share one.
struct TwoBins;

impl Subject for TwoBins {
    type Hash = Modulo;
    type Design = Dlht;

    fn small() -> Arc<Map<Self>> {
        let builder = DlhtMap::<u64, u64>::builder().hasher(Modulo).initial_bins(2);
        Arc::new(builder.growth_factor(2).transfer_chunk(1).build().unwrap())
    }

    /// Keys in the bin of the even keys.
    fn fillers() -> Vec<u64> {
        (1000..1022).step_by(2).collect()
    }

    fn colliding() -> Arc<BoxedMap<u64, Counted, Constant, Self::Design>> {
        let builder = DlhtMap::<u64, u64>::builder().hasher(Constant).initial_bins(2);
        Arc::new(builder.build_boxed().unwrap())
    }
}

#[test]
fn every_scenario_holds() {
    schedules::every_scenario_holds(&scenarios::<TwoBins>());
}

#[cfg(nunatak_seeded_bugs)]
#[test]
fn seeded_bugs_are_found() {
    use nunatak::seeded::Bug;
    let bugs = [
        (Bug::MissWithoutHeaderRecheck, "growth loses nothing"),
        (Bug::PublishWithoutCas, "growth loses nothing"),
        (Bug::ScanIgnoresPending, "no increment is lost"),
        (Bug::MissDuringTransfer, "growth loses nothing"),
        (Bug::TransferSkipsLinks, "growth loses nothing"),
        (Bug::TransferDoneBeforeCopy, "growth loses nothing"),
        (Bug::RemoveByStaleValue, "growth loses nothing"),
        (Bug::SnapshotWithoutGrace, "snapshots are cuts"),
        (Bug::SnapshotWithoutMarking, "snapshots are cuts"),
        (Bug::ShadowedResidue, "growth loses nothing"),
        (Bug::IterFollowsLastOnly, "an iterator yields a key once"),
        (Bug::DelegateLosesPairs, "colliding boxed entries are kept"),
    ];
    schedules::seeded_bugs_are_found(&bugs, &scenarios::<TwoBins>());
}
