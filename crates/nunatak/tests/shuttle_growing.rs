//! Tables that begin small, under a randomised scheduler: whole operations of several threads while a
//! table of one slot becomes a TurboHash. The hasher counts as the caller's, so several threads may
//! make the full table at once.
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" cargo test --release -p nunatak --test shuttle_growing
//! ```
#![cfg(shuttle)]

mod schedules;

use nunatak::{BoxedMap, GrowingTurbo};
use schedules::{Constant, Counted, Map, Subject, scenarios};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

struct Small;

impl Subject for Small {
    /// Without a random seed, so that a schedule can be run again.
    type Hash = BuildHasherDefault<DefaultHasher>;
    type Design = GrowingTurbo;

    fn small() -> Arc<Map<Self>> {
        Arc::new(Map::<Self>::with_hasher(Self::Hash::default()))
    }

    /// The first keys of a scenario make the full table.
    fn fillers() -> Vec<u64> {
        Vec::new()
    }

    fn colliding() -> Arc<BoxedMap<u64, Counted, Constant, Self::Design>> {
        Arc::new(BoxedMap::with_hasher(Constant))
    }
}

#[test]
fn every_scenario_holds() {
    schedules::every_scenario_holds(&scenarios::<Small>());
}

#[cfg(nunatak_seeded_bugs)]
#[test]
fn seeded_bugs_are_found() {
    use nunatak::seeded::Bug;
    schedules::seeded_bugs_are_found(
        &[(Bug::SmallChangedAfterGrowth, "no increment is lost")],
        &scenarios::<Small>()[..5],
    );
}
