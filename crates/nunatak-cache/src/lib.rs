// Links that the compiler checks: the first definition of a link counts, and crates.io takes those of the README.
//! [nunatak]: nunatak
//! [dropped]: Cache#when-values-are-dropped
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod builder;
mod cache;
mod cause;
mod clock;
mod computing;
mod counters;
mod item;
mod key;
mod policy;
mod sync;

pub use builder::Builder;
pub use cache::{Cache, Guard};
pub use cause::Cause;
pub use clock::{Clock, ManualClock, SystemClock};
pub use counters::Stats;
