//! Memory that outlasts the process: files, persistent memory, and a simulation of
//! both.
//!
//! A [`Pool`] is one file, mapped: a page that says what it is, and parts that grow
//! by extents behind it. Its [`Backing`] says where the file is and how stores become
//! durable, and tells a [`Recorder`] of them if it is simulated. All of a table's stores
//! go through its [`Medium`](super::Medium), [`Durable`].
//!
//! | | page cache | persistent memory |
//! |---|---|---|
//! | flush, fence | nothing | CLWB (or CLFLUSHOPT, CLFLUSH), SFENCE |
//! | barrier | fdatasync | fdatasync |
//! | persist | a [`journal`] and msync, or a barrier | fdatasync |
//! | survives the process | every store | every store |
//! | survives a power cut | what a barrier came after | what was flushed and fenced |

mod backing;
mod extents;
mod flush;
mod header;
mod journal;
mod paged;
mod pool;
mod recorder;
mod region;
mod shadow_pages;
mod sync;
#[cfg(test)]
mod tests;

pub(crate) use backing::{Backing, kind_of};
pub(crate) use header::{Description, Kind};
pub(crate) use paged::Paged;
pub(crate) use pool::{Pool, Wanted};
pub(crate) use recorder::{Event, Recorder};
pub(crate) use region::Durable;

/// The unit of mapping and of extents: the largest page of any system, so that a file
/// can be mapped on all of them.
pub(crate) const PAGE: usize = 64 << 10;
