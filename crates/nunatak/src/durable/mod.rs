//! Maps in files: the same maps, and they are still there when the process is not.
//!
//! ```
//! use nunatak::durable::IcebergMap;
//!
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("map");
//! let map: IcebergMap<u64, u64> = IcebergMap::create(&path)?;
//! map.insert(7, 49)?;
//! map.close()?;
//!
//! let map: IcebergMap<u64, u64> = IcebergMap::open(&path)?;
//! assert_eq!(map.get(&7), Some(49));
//! # Ok::<(), nunatak::Error>(())
//! ```
//!
//! # What an acknowledged operation is worth
//! An operation is acknowledged when it returns. [`Durability`] says what that means:
//!
//! | | `Process` | `Interval` | `Synced` | `PersistentMemory` |
//! |---|---|---|---|---|
//! | the process is killed, at any instruction | kept | kept | kept | kept |
//! | the kernel panics, the power fails | kept up to the last [`sync`](FileMap::sync) | kept up to the last interval | kept | kept |
//! | the system can't write (a failed sync) | the sync fails, and all that follow | the next change fails | the change fails, and all that follow | the change fails, and all that follow |
//! | the disk is full | a change that finds no room fails, and changes nothing | the same | the same | the same |
//! | what is read may be taken back by a power cut | yes | yes | yes, until its change is acknowledged | no: durably linearizable |
//! | costs, beyond the map in RAM | the page cache | that, and a sync at times | a sync for a change, or for a batch | a write-back of one cache line, and a fence |
//!
//! A sync of an [`IcebergMap`] writes every page that has something changed, or with a
//! [journal](Options::journal) just what was changed. With one, "the power fails" is
//! told from "the process is killed" by the boot id of the machine: what was changed
//! after the last sync is there after the latter, and may be gone after the former. A
//! device that is unplugged and comes back to a running machine is neither; close the
//! map first.
//!
//! Whatever is lost, the map is whole: every key has a value that it had at the last
//! sync or since, or was absent then or since; a structural change (a doubling, a
//! halving, recovery itself) is never seen half done. An operation that was not
//! acknowledged took effect as a whole or not at all.
//!
//! A [`PeaMap`], [`PeaMultiMap`], [`TurboMap`] or [`TurboBlobMap`] in the page cache is more
//! than that after a power cut: it is as it was at one instant, that of the last sync, since
//! pages are copied before they are changed. It has no journal, and its file may be twice as
//! large after a sync. (Where the system does not tell its boot id, every end without a close
//! counts as a power cut.)
//!
//! A handle whose sync has failed is *poisoned*: it is not known what the disk holds,
//! and a second attempt would succeed without meaning anything. Reads go on; changes
//! and syncs fail until the file is opened again.
//!
//! # Files
//! A file is of one map, of any size; it grows by itself, and its blocks are allocated
//! beforehand, so that a full disk is an error and not a signal. It is locked
//! (`flock`) while it is open: one map that writes, or any that
//! [only read](Options::read_only). Do not make it shorter from outside while it is
//! open: that is noticed at the next growth or sync, but a read or a store before that
//! ends the process (`SIGBUS`). A file has its name from the moment on when it is whole;
//! a process that is killed while it creates one may leave another, whose name begins
//! with a dot and ends with `.new`. (A process that forks holds the lock in its child,
//! too, until that runs another program. The child must not use the map, nor drop it: both processes
//! would write one file, and locks that other threads held stay locked in the child.) The format has a version; a file of a later one is
//! refused. Files are of one endianness.

mod blobs;
mod crash;
mod designs;
mod handle;
mod iceberg;
mod kind;
mod maintenance;
mod multi;
mod options;
mod pairs;
mod pea;
mod session;
mod simulation;
mod table;
#[cfg(test)]
mod tests;
mod turbo;

pub use crate::table::iceberg::Recovery;
pub use blobs::{BlobsInFile, TurboBlobMap};
pub use crash::Crash;
pub use designs::{DurableDesign, InFile};
pub use handle::{FileMap, MapInFile};
pub use iceberg::IcebergMap;
pub use kind::FileKind;
pub use multi::PeaMultiMap;
pub use options::{Durability, Options};
pub use pairs::Map;
pub use pea::PeaMap;
pub use simulation::{Counts, Persistency, Simulation};
pub use turbo::TurboMap;
