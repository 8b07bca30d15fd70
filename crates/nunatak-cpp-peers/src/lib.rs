//! Concurrent hash maps of C++, for comparisons with those of Nunatak: `nunatak bench --maps tbb,boost`.
//!
//! A comparison across languages is fair only if the call from one to the other is not in what is measured. So
//! [`Map::run`] takes an array of keys: the loop over it, with the check of every outcome, is code of C++. The
//! operations on one key are for tests, and for what is not measured.
//!
//! The large blocks of all maps are in huge pages, if the system grants them. Each map has the hasher that its
//! library gives it.
//!
//! The feature `compiled` compiles those maps whose headers are found. [`Library::map`] tells what the others
//! need.

mod library;
mod map;

pub use library::{Library, Unavailable};
pub use map::{Map, Step, value_of};
