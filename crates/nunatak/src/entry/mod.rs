//! How a key and a value become the two words of a slot.
//!
//! - *Inline* ([`Inline`]): the slot stores types of at most 8 bytes itself.
//! - *Boxed*: the slot stores the hash of any other key, and a pointer to the entry. The entry is
//!   freed when no guard can see it any more.
//! - *Blobs*: the slot stores the hash of a byte string, and the offset of the key and its value in
//!   the map's own memory.
//! - *Records*: the slot stores a short byte string itself, or the hash of a longer one, and the
//!   address of the value in memory of the caller's allocator.
//!
//! A table knows none of these kinds: it stores words.

mod blob;
mod boxed;
mod entries;
mod format;
mod found_key;
mod hidden;
mod inline;
mod integer;
mod namespace;
mod record;
mod size;

pub use blob::Blobs;
pub(crate) use boxed::{Entry, EntryPtr, Retired, Unpublished};
pub use entries::{Entries, KeyOf, Naming, Plain};
pub(crate) use entries::{KeyRef, OwnedKey, Retired as RetiredBytes};
pub use format::{Access, Format, Frozen, InPlace, RecordFormat, VARIABLE, Words};
pub use found_key::FoundKey;
pub(crate) use hidden::ListedKey;
pub use inline::{Inline, InlineKey};
pub use integer::Integer;
pub use namespace::{Named, Namespace};
#[cfg(feature = "derive")]
pub use nunatak_derive::{Inline, InlineKey};
pub use record::Records;
pub use size::{BesideInSlot, Bytes, Size};
