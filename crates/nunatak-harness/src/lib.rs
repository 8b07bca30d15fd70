//! The checks that every concurrent map must pass: models, stress, linearizability.
//!
//! A map needs a [`Subject`] of a few lines, which says how to build it, and one line for each
//! suite that fits it:
//!
//! ```
//! use nunatak_harness::{Data, ReferenceMap, Subject};
//!
//! struct Reference;
//!
//! impl<K: Data, V: Data> Subject<K, V> for Reference {
//!     type Map = ReferenceMap<K, V>;
//!     fn build(&self, capacity: usize) -> Self::Map {
//!         ReferenceMap::with_capacity(capacity)
//!     }
//! }
//!
//! nunatak_harness::suite_inline!(reference, Reference);
//! nunatak_harness::suite_boxed!(reference_boxed, Reference);
//! # fn main() {}
//! ```
//!
//! Every check is a function over a subject, which panics if the map is wrong; a suite is a list of
//! checks. Work is counted in operations, never in time. The environment variable `NUNATAK_EFFORT`
//! multiplies it.

pub mod blob_multi;
pub mod closures;
pub mod collisions;
#[cfg(target_os = "linux")]
pub mod crashable;
#[cfg(target_os = "linux")]
pub mod crashed_histories;
#[cfg(target_os = "linux")]
pub mod crashes;
pub mod drops;
pub mod effort;
pub mod failures;
pub mod fragile;
pub mod hashers;
pub mod history;
#[cfg(feature = "hostile")]
pub mod hostile;
#[cfg(target_os = "linux")]
pub mod infallible;
pub mod linearizability;
pub mod model;
pub mod multi;
#[cfg(all(target_os = "linux", feature = "instruments"))]
pub mod powercuts;
mod random;
pub mod record;
mod reference;
mod sample;
pub mod stress;
mod subject;
mod suite;

pub use random::Random;
pub use reference::ReferenceMap;
pub use sample::{Data, Sample};
pub use subject::{HashedSubject, Of, Subject};
