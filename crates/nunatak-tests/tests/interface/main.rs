//! One program: each of several would contain the same maps.

mod bad_input;
#[cfg(target_pointer_width = "64")]
mod capacities;
mod entries;
#[cfg(target_os = "linux")]
mod fallible;
mod fixed;
mod mixed_batches;
mod sealable;
