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
