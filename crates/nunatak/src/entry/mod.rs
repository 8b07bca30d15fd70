//! How a key and a value become two words of a slot.
//!
//! - [`Inline`]: types of at most 8 bytes are stored in the slot itself.
//! - *Boxed*: of any other key the slot holds the hash, and a pointer to the
//!   entry, which is reclaimed when no guard can see it any more.
//! - *Blobs*: of a byte string the slot holds the hash, and the offset in the map's own
//!   memory of the key and its value.
//! - *Records*: the slot holds a short byte string itself, or the hash of a longer one, and the
//!   address of the value in memory of the caller's allocator.
//!
//! A table knows none of them: it stores words.

mod blob;
mod boxed;
mod entries;
mod format;
mod found_key;
mod hidden;
mod inline;
mod namespace;
mod record;

pub use blob::Blobs;
pub(crate) use boxed::{Entry, EntryPtr, Retired, Unpublished};
pub use entries::{Entries, KeyOf, Naming, Plain};
pub(crate) use entries::{KeyRef, OwnedKey, Retired as RetiredBytes};
pub use format::{Access, Format, Frozen, InPlace, RecordFormat, VARIABLE, Words};
pub use found_key::FoundKey;
pub(crate) use hidden::ListedKey;
pub use inline::{Inline, InlineKey};
pub use namespace::{Named, Namespace};
pub use record::Records;
