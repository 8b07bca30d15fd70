//! How a key and a value become two words of a slot.
//!
//! - [`Inline`]: types of at most 8 bytes are stored in the slot itself.
//! - *Boxed*: of any other key the slot holds the hash, and a pointer to the
//!   entry, which is reclaimed when no guard can see it any more.
//! - *Blobs*: of a byte string the slot holds the hash, and the offset in the map's own
//!   memory of the key and its value.
//!
//! A table knows none of them: it stores words.

mod blob;
mod boxed;
mod inline;

pub(crate) use blob::{Blobs, Retired as RetiredBlob};
pub(crate) use boxed::{Entry, EntryPtr, Retired, Unpublished};
pub use inline::{Inline, InlineKey};
