//! How a key and a value become two words of a slot.
//!
//! - [`Inline`]: types of at most 8 bytes are stored in the slot itself.
//! - *Boxed*: of any other key the slot holds the hash, and a pointer to the
//!   entry, which is reclaimed when no guard can see it any more.
//!
//! A table knows neither: it stores words.

mod boxed;
mod inline;

pub(crate) use boxed::{Entry, EntryPtr, Retired, Unpublished};
pub use inline::{Inline, InlineKey};
