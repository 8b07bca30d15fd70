//! The parts that several tables share. They know no table.
//!
//! - [`bucket`]: buckets of 256 bytes, with a fingerprint for each slot.
//! - [`chains`]: the place of keys that find no room elsewhere.
//! - [`prefetch_groups`]: the stages of a batch, in groups of operations.
//! - [`cut`]: consistent cuts of tables whose pieces have one lock each.
//! - [`descendants`]: the entries of a bin that may have moved, for iterators.
//! - [`attempts`]: a change to one key, and the loop of its attempts.
//! - [`memoised_key_test`]: answers of the caller's `Eq` that an operation remembers.
//! - [`hashes`] and [`rehashed`]: answers of the caller's hasher, for moves of keys.
//! - [`moves`]: how many pairs were moved, and in which time.
//! - [`retired`]: indexes that were replaced, until they can be freed.
//! - [`room`]: tables that do not grow.
//! - [`slot_branch`]: stores whose address does not wait for a line.
//! - [`files`], [`paged`], [`undo_log`] and [`recovery_progress`]: tables in files.

pub(in crate::table) mod attempts;
pub(in crate::table) mod bucket;
pub(in crate::table) mod chains;
pub(in crate::table) mod cut;
pub(in crate::table) mod descendants;
#[cfg(durable)]
pub(in crate::table) mod files;
pub(crate) mod full_disk;
pub(in crate::table) mod hashes;
pub(in crate::table) mod memoised_key_test;
pub(in crate::table) mod moves;
#[cfg(durable)]
pub(crate) mod paged;
pub(in crate::table) mod prefetch_groups;
pub(in crate::table) mod recovery_progress;
pub(in crate::table) mod rehashed;
pub(in crate::table) mod retired;
pub(crate) mod room;
pub(in crate::table) mod slot_branch;
#[cfg(durable)]
pub(crate) mod undo_log;

#[cfg(durable)]
pub use files::Recovery;
