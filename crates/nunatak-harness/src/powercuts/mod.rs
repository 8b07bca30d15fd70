//! Power cuts of a whole machine: a guest changes maps in files on a disk whose writes and flushes
//! are recorded, and a host rebuilds what the disk may hold after a power cut at any moment.
//!
//! This does not share the model of [`Simulation`](nunatak::durable::Simulation). The kernel of the
//! guest decides what it writes and when, its file system has its own metadata and journal, and the
//! record is made below both. `.ci/powercut` runs it.
//!
//! An acknowledgement is a write to a sector of the same disk behind the file system, so the record
//! itself tells what was acknowledged before a cut. The sector is written directly and without a
//! flush: a flush would make other writes durable, too.

mod images;
mod log;
mod operate;
pub mod served;
mod workload;

pub use images::{Cuts, Found, check};
pub use log::{Entry, Log};
pub use operate::{fail, operate};
pub use workload::{Held, KINDS, Task, Workload, apply_until, next_sync, options, with_kind};

/// The sector of an acknowledgement begins with this.
pub const MAGIC: u64 = u64::from_le_bytes(*b"NUNATACK");

/// Sectors of this many bytes reach the disk as a whole.
pub const SECTOR: usize = 512;
