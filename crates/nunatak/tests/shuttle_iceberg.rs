//! IcebergHT under a randomised scheduler: whole operations of several threads, in all levels,
//! through doublings, halvings and snapshots, on schedules that a real machine seldom takes. (The
//! scheduler runs all memory orders as sequentially consistent; the models of `loom_iceberg` check
//! the orders.)
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
    /// Without a random seed, so that a schedule can be run again.
    type Hash = BuildHasherDefault<DefaultHasher>;
    type Design = Iceberg<Blocks<8, 2>>;

    fn small() -> Arc<Map<Self>> {
        let builder = IcebergMap::<u64, u64>::builder().hasher(Self::Hash::default());
        Arc::new(builder.blocks().max_load(0.95).build().unwrap())
    }

    /// Keys with which all levels are in use.
    fn fillers() -> Vec<u64> {
        (1000..1016).collect()
    }

    fn colliding() -> Arc<BoxedMap<u64, Counted, Constant, Self::Design>> {
        let builder = IcebergMap::<u64, u64>::builder().hasher(Constant);
        Arc::new(builder.blocks().build_boxed().unwrap())
    }
}

/// The same in a durable medium, ordered or not.
struct Durable<const ORDERED: bool>;

impl<const ORDERED: bool> Subject for Durable<ORDERED> {
    type Hash = <Tiny as Subject>::Hash;
    type Design = nunatak::CheckedIceberg<Blocks<8, 2>, ORDERED>;

    fn small() -> Arc<Map<Self>> {
        Arc::new(Map::<Self>::with_hasher(Self::Hash::default()))
    }

    fn fillers() -> Vec<u64> {
        Tiny::fillers()
    }

    fn colliding() -> Arc<BoxedMap<u64, Counted, Constant, Self::Design>> {
        unreachable!("what is boxed is not durable")
    }
}

#[test]
fn every_scenario_holds() {
    schedules::every_scenario_holds(&scenarios::<Tiny>());
}

#[test]
fn every_scenario_holds_in_durable_media() {
    // All but the last scenario, which is about boxed entries.
    schedules::every_scenario_holds(&scenarios::<Durable<true>>()[..8]);
    schedules::every_scenario_holds(&scenarios::<Durable<false>>()[..8]);
}

#[cfg(nunatak_seeded_bugs)]
#[test]
fn seeded_bugs_are_found() {
    use nunatak::seeded::Bug;
    let bugs = [
        (Bug::MissWithoutStateRecheck, "a stable key is never missed"),
        (Bug::LockWithoutStateRecheck, "resizing loses nothing"),
        (Bug::SettleForgotten, "growth loses nothing"),
        (Bug::SettleWithoutLock, "no increment is lost"),
        (Bug::CountedBeforeMoved, "growth loses nothing"),
        (Bug::ChainedWithoutMark, "growth loses nothing"),
        (Bug::MarkNotInherited, "growth loses nothing"),
        (Bug::SnapshotWithoutGrace, "snapshots are cuts of several writers"),
    ];
    schedules::seeded_bugs_are_found(&bugs, &scenarios::<Tiny>());
}
