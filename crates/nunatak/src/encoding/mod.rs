//! Encodings of the keys and values of typed maps in files: how they become bytes.
//!
//! They need no file, so Miri runs them (`tests/miri/typed.rs`) where there are no maps in files.
#![cfg_attr(not(durable), allow(rustdoc::broken_intra_doc_links, reason = "of maps in files"))]

mod of_types;
#[cfg(feature = "serde")]
mod postcard;
mod traits;

#[cfg(feature = "serde")]
pub use postcard::Postcard;
pub use traits::{Encoding, KeyEncoding};
