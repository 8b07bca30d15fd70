//! TurboHash under a randomised scheduler: whole operations of several threads, through rehashed
//! shards and snapshots, on schedules that a real machine seldom takes.
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" cargo test --release -p nunatak --test shuttle_turbo
//! ```
//!
//! With `--cfg nunatak_seeded_bugs` as well it must find the bugs that need neither
//! a weak memory order nor two threads within one step of each other.
#![cfg(shuttle)]

mod schedules;

use nunatak::{BoxedMap, Turbo, TurboMap};
use schedules::{Constant, Counted, Map, Subject, scenarios};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

/// Two shards of buckets of three slots.
struct Tiny;

impl Subject for Tiny {
    /// Without a random seed, so that a schedule can be run again.
    type Hash = BuildHasherDefault<DefaultHasher>;
    type Design = Turbo;

    fn small() -> Arc<Map<Self>> {
        let builder = TurboMap::<u64, u64>::builder().hasher(Self::Hash::default());
        Arc::new(builder.build().unwrap())
    }

    fn fillers() -> Vec<u64> {
        (1000..1005).collect()
    }

    fn colliding() -> Arc<BoxedMap<u64, Counted, Constant, Self::Design>> {
        let builder = TurboMap::<u64, u64>::builder().hasher(Constant);
        Arc::new(builder.build_boxed().unwrap())
    }
}

/// The same in a durable medium.
struct Durable;

impl Subject for Durable {
    type Hash = <Tiny as Subject>::Hash;
    type Design = nunatak::CheckedTurbo;

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
fn every_scenario_holds_in_durable_media() {
    // The scenarios in which a durable medium takes other steps.
    schedules::every_scenario_holds(&scenarios::<Durable>()[..2]);
}

#[test]
fn every_scenario_holds() {
    schedules::every_scenario_holds(&scenarios::<Tiny>());
}

#[cfg(nunatak_seeded_bugs)]
#[test]
fn seeded_bugs_are_found() {
    use nunatak::seeded::Bug;
    // Each bug with the scenarios about it.
    let scenarios = scenarios::<Tiny>();
    schedules::seeded_bugs_are_found(
        &[
            (Bug::DescriptorNotAskedAgain, "growth loses nothing"),
            (Bug::BehindNotAskedAgain, "a stable key is never missed"),
            (Bug::LockedWithAnyDescriptor, "growth loses nothing"),
        ],
        &scenarios[..5],
    );
    let of_cuts = [
        (Bug::SnapshotWithoutGrace, "snapshots are cuts"),
        (Bug::ChangedUncopied, "snapshots are cuts"),
        (Bug::FrozenIgnored, "snapshots are cuts of several writers"),
    ];
    schedules::seeded_bugs_are_found(&of_cuts, &scenarios[5..7]);
}
