//! Maps in files: the same maps, which survive their process.
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
//! Where there is no persistent memory, that level is refused. To measure what it costs there,
//! [`emulate_persistent_memory`](Options::emulate_persistent_memory) makes it flush and fence on any
//! file system; then a power cut may leave anything.
//!
//! A sync of an [`IcebergMap`] writes every page in which something was changed, or with a
//! [journal](Options::journal) only the changed slots. Opening a file with a journal tells a power
//! failure from a killed process by the machine's boot id: changes after the last sync survive a
//! kill, and may be lost in a power failure. A device that is unplugged and comes back to a running
//! machine is neither; close the map first.
//!
//! Whatever is lost, the map is whole. Every key has a value that it had at the last sync or since,
//! or was absent then or since. A structural change (a doubling, a halving, recovery itself) is
//! never seen half done. An operation that was not acknowledged took effect as a whole or not at
//! all.
//!
//! A map of another kind than [`IcebergMap`] in the page cache guarantees more: after a power cut it
//! is in the state of one instant, that of the last sync, since a page is copied before it is changed. It has no journal, and its file may be twice as
//! large after a sync. (Where the system does not tell its boot id, every end without a close counts
//! as a power cut.)
//!
//! A program that keeps a write-ahead log beside such a map makes a change durable by a write to the log
//! instead of a sync: [`before_sync`](FileMap::before_sync) and [`last_sync`](FileMap::last_sync).
//!
//! Of a batch a crash may keep a part: it is one sync, and not one change. `write_batch` of a
//! [`PeaMap`], [`TurboMap`], [`TypedMap`] or a map of byte strings is one change of several keys: a
//! crash leaves all of it or nothing.
//!
//! A handle whose sync has failed is *poisoned*: the content of the disk is unknown, and a second
//! sync that succeeds would prove nothing. Reads go on; changes and syncs fail until the file is
//! opened again.
//!
//! # Files
//! A file holds one map, of any size. It grows by itself, and its blocks are allocated beforehand,
//! so that a full disk is an error and not a signal. It is locked (`flock`) while it is open: by
//! one map that writes, or by any number of maps that [only read](Options::read_only).
//!
//! Do not truncate a file from outside while it is open. The next growth or sync notices that, but
//! a read or a store before that ends the process (`SIGBUS`).
//!
//! A file gets its name when it is whole. A process that is killed while it creates a file may
//! leave another one, whose name begins with a dot and ends with `.new`.
//!
//! A file that can't be opened is left as it was. The header and the list of extents are there
//! twice, and damage to one copy is mended. [`verify`](FileMap::verify) looks at every slot, and
//! [`salvage`](FileMap::salvage) makes a new file of what can still be read from a damaged one.
//!
//! [`backup`](FileMap::backup) copies a map while it is changed; [`open_beside`](FileMap::open_beside)
//! reads a file that another process changes: its last sync, or a snapshot that the process
//! [makes](Options::answer_readers). A copy or a snapshot of an open
//! file counts as a file after a power cut: [`Options::after_power_cut`] says when it can't be told.
//!
//! Only the process that has opened a file changes it. In a fork changes, syncs and `close` return
//! [`FileError::Forked`](crate::FileError::Forked), and dropping a handle does nothing. A fork must
//! not read either: what the map has in RAM does not change with the file.
//!
//! # Types
//! A [`TypedMap`] stores keys and values of any type, and its file says which: strings, numbers,
//! tuples, and with the feature `serde` any type that serde can store.
//!
//! # The format
//! The format has a version; a file of another version is refused. A file can be used only on
//! machines of the endianness that wrote it.

mod answering;
mod atomic;
mod backup;
mod blob_designs;
mod blob_operations;
mod blobs;
mod content;
mod crash;
mod damage;
mod designs;
mod fallible;
mod handle;
mod iceberg;
mod kind;
mod maintenance;
mod multi;
mod options;
mod pairs;
mod pea;
mod persistency;
mod session;
mod simulation;
mod table;
#[cfg(test)]
mod tests;
mod turbo;
mod typed;
mod write_ahead;

#[cfg(feature = "serde")]
pub use crate::encoding::Postcard;
pub use crate::encoding::{Encoding, KeyEncoding};
pub use crate::memory::durable::Forced;
pub use crate::table::iceberg::Recovery;
pub use atomic::AtomicBatches;
pub use blob_designs::BlobDesign;
pub use blobs::{BlobsInFile, IcebergBlobMap, PeaBlobMap, TurboBlobMap};
pub use content::MapInFile;
pub use crash::Crash;
pub use damage::{PageChecksums, Salvaged};
pub use designs::{DurableDesign, InFile, InPages};
pub use handle::FileMap;
pub use iceberg::IcebergMap;
pub use kind::FileKind;
pub use multi::PeaMultiMap;
pub use options::{Durability, Options};
pub use pairs::Map;
pub use pea::PeaMap;
pub use persistency::Persistency;
pub use simulation::{Counts, Simulation};
pub use turbo::TurboMap;
pub use typed::{TypedGuard, TypedMap};
