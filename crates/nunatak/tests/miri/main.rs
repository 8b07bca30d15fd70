//! Every operation of every kind of map, on tables so small that an interpreter runs all of it in
//! minutes and ordinary tests in a second.
//!
//! Miri looks for undefined behaviour, data races and leaks in the whole library, except for inline
//! assembly, system calls and files, which have other code under Miri. `.ci/sanitizers` runs all of
//! it; `.ci/run` runs the module `short`:
//!
//! ```text
//! MIRIFLAGS=-Zmiri-permissive-provenance cargo +nightly miri test -p nunatak --test miri short
//! ```
//!
//! Slots hold addresses as integers with exposed provenance, so provenance must be permissive.
#![cfg(not(modelled))]

mod bytes;
#[cfg(any(miri, target_os = "linux"))]
#[path = "../encodings/mod.rs"]
mod encodings;
mod operations;
mod owned;
mod short;
mod threads;
#[cfg(any(miri, target_os = "linux"))]
mod typed;
mod whole;

/// Builders of small tables, which grow several times for the entries of these tests.
mod small {
    use nunatak::{
        Blocks, DlhtBuilder, DlhtMap, IcebergBuilder, IcebergMap, PeaBuilder, PeaMap, RandomState,
        TurboBuilder, TurboMap,
    };

    pub(crate) fn dlht() -> DlhtBuilder {
        DlhtMap::<u64, u64>::builder().initial_bins(2).growth_factor(2).transfer_chunk(2)
    }

    pub(crate) fn iceberg() -> IcebergBuilder<RandomState, Blocks<8, 2>> {
        IcebergMap::<u64, u64>::builder().blocks::<Blocks<8, 2>>().max_load(0.9)
    }

    pub(crate) fn pea() -> PeaBuilder {
        PeaMap::<u64, u64>::builder().segment_buckets(2)
    }

    pub(crate) fn turbo() -> TurboBuilder {
        TurboMap::<u64, u64>::builder().shards(2)
    }
}
