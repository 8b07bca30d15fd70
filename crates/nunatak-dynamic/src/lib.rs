//! Nunatak's maps with the table chosen at run time: what other languages call.
//!
//! [`Words`] is a map of words of 8 bytes, [`Blobs`] a map of byte strings, and [`Multi`] has any number
//! of words for a key. These are in RAM or in a file. [`MultiBlobs`] has any number of words for a byte
//! string, in RAM only. A binding holds one behind a pointer and makes its own types into words or bytes.
//!
//! ```
//! use nunatak_dynamic::{Table, words_in_ram};
//!
//! let map = words_in_ram(Table::Dlht, 0)?;
//! map.insert(7, 49)?;
//! assert_eq!(map.get(7), Some(49));
//! # Ok::<(), nunatak::Error>(())
//! ```
//!
//! A call through this interface costs one indirect call, and a batch costs one for all its keys.

mod blobs;
#[cfg(target_os = "linux")]
mod files;
mod multi;
mod multi_blobs;
mod room;
mod shadows;
mod table;
mod words;

pub use blobs::{BlobChange, Blobs, Pinned, blobs_in_ram, records_in};
#[cfg(target_os = "linux")]
pub use files::{
    BlobFile, InFile, MultiFile, Opening, WordFile, open_blobs, open_multi, open_schema,
    open_words, salvage,
};
pub use multi::{Multi, multi_in_ram};
pub use multi_blobs::{MultiBlobs, multi_blobs_in_ram};
pub use room::Room;
pub use shadows::{ShadowBlobs, ShadowWords, shadow_blobs_in};
pub use table::Table;
pub use words::{Amounts, BLOCK, Words, words_in_ram};
