//! IcebergHT under a randomised scheduler: whole operations of several threads, of
//! all levels, through doublings, halvings and snapshots, on schedules that a real
//! machine seldom takes. (All memory orders are sequentially consistent to it; the
//! models of `loom_iceberg` are for those.)
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" cargo test --release -p nunatak --test shuttle_iceberg
//! ```
//!
//! With `--cfg nunatak_seeded_bugs` as well it must find the bugs that need neither
//! a weak memory order nor two threads within one step of each other.
#![cfg(shuttle)]

mod schedules;

use nunatak::{Blocks, BoxedMap, Iceberg, IcebergMap};
use schedules::{Constant, Counted, Map, Subject, scenarios};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

/// Two blocks of each yard, twenty slots.
struct Tiny;

impl Subject for Tiny {
    /// Always the same, so that a schedule can be run again.
    type Hash = BuildHasherDefault<DefaultHasher>;
    type Design = Iceberg<Blocks<8, 2>>;

    fn small() -> Arc<Map<Self>> {
        let builder = IcebergMap::<u64, u64>::builder().hasher(Self::Hash::default());
        Arc::new(builder.blocks().max_load(0.95).build().unwrap())
    }

    /// With these all levels are in use.
    fn fillers() -> Vec<u64> {
        (1000..1016).collect()
    }

    fn colliding() -> Arc<BoxedMap<u64, Counted, Constant, Self::Design>> {
        let builder = IcebergMap::<u64, u64>::builder().hasher(Constant);
        Arc::new(builder.blocks().build_boxed().unwrap())
    }
}

#[cfg(not(nunatak_seeded_bugs))]
#[test]
fn every_scenario_holds() {
    schedules::every_scenario_holds(&scenarios::<Tiny>());
}

#[cfg(nunatak_seeded_bugs)]
#[test]
fn seeded_bugs_are_found() {
    use nunatak::seeded::Bug;
    let bugs = [
        Bug::MissWithoutStateRecheck,
        Bug::LockWithoutStateRecheck,
        Bug::SettleForgotten,
        Bug::SettleWithoutLock,
        Bug::CountedBeforeMoved,
        Bug::ChainedWithoutMark,
        Bug::MarkNotInherited,
        Bug::SnapshotWithoutGrace,
    ];
    schedules::seeded_bugs_are_found(&bugs, &scenarios::<Tiny>());
}
