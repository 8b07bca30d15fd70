//! Memory that outlasts the process: files, persistent memory, and a simulation of both.
//!
//! A [`Pool`] is one mapped file: a page that says what the file is, and behind it parts that grow
//! by extents. The pool's [`Backing`] says where the file is and how stores become durable. In a
//! simulation it tells a [`Recorder`] of every store. All stores of a table go through its
//! [`Medium`](super::Medium), [`Durable`].
//!
//! | | page cache | persistent memory |
//! |---|---|---|
//! | flush, fence | nothing | CLWB (or CLFLUSHOPT, CLFLUSH), SFENCE |
//! | barrier | fdatasync | fdatasync |
//! | persist | a [`journal`] and msync, or a barrier | fdatasync |
//! | after the end of the process | every store | every store |
//! | after a power cut | stores before the last barrier | stores that were flushed and fenced |

mod backing;
mod beside;
mod byte_lock;
mod checked_pages;
mod damage;
mod earlier_pages;
mod extents;
mod flush;
mod header;
mod journal;
mod lost_pages;
#[cfg(test)]
mod lost_tests;
mod mapping;
mod owner;
mod page_sums;
#[cfg(test)]
mod page_tests;
mod page_versions;
mod paged;
mod paged_region;
mod parts;
mod pool;
mod readers;
mod recorder;
mod region;
mod request;
mod schema_block;
mod shadow_pages;
mod sync;
#[cfg(test)]
mod tests;

pub(crate) use backing::{Backing, Media, Unpublished, kind_of, schema_of};
pub(crate) use beside::{copy_beside, file_for_snapshot};
pub use damage::Forced;
pub(crate) use header::{Description, Kind};
pub(crate) use paged::Paged;
pub(crate) use pool::{Pool, Wanted};
pub(crate) use recorder::{Event, Recorder};
pub(crate) use region::{Durable, InPool};
pub(crate) use request::{Listener, Request, ask_for_snapshot};

/// The unit of mapping and of extents: the largest page of any system, so that every system can map
/// the file.
pub(crate) const PAGE: usize = 64 << 10;

/// The size of a copy of the header, and where each copy begins.
const HEADER: usize = 4096;
const COPIES: [usize; 2] = [0, HEADER];

/// Huge pages begin at multiples of this.
const ALIGNMENT: usize = 2 << 20;
