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
mod wide;

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
/// Derives [`Inline`](trait@Inline) for a structure whose fields are inline and take at most 8 bytes
/// in sum, or for an enumeration without fields. The type must be `Copy`.
///
/// ```
/// use nunatak::{DlhtMap, entry::{Inline, InlineKey}};
///
/// #[derive(Debug, Clone, Copy, PartialEq, Eq, Inline, InlineKey)]
/// struct Cell { x: i16, y: i16, layer: u8 }
///
/// #[derive(Debug, Clone, Copy, PartialEq, Inline)]
/// enum Ground { Ice, Rock, Snow }
///
/// let map: DlhtMap<Cell, Ground> = DlhtMap::new();
/// map.insert(Cell { x: 1, y: -1, layer: 0 }, Ground::Rock);
/// assert_eq!(map.get(&Cell { x: 1, y: -1, layer: 0 }), Some(Ground::Rock));
/// ```
///
/// What does not fit is an error where it is declared:
///
/// ```compile_fail
/// # use nunatak::entry::Inline;
/// #[derive(Clone, Copy, Inline)]
/// struct TooLarge { a: u64, b: u8 }
/// ```
#[cfg(feature = "derive")]
pub use nunatak_derive::Inline;
/// Derives [`InlineKey`](trait@InlineKey) for a type that derives `Inline`, and whose fields can be
/// keys. `PartialEq` and `Eq` should be derived, too: two keys must be equal exactly if all their
/// fields are.
///
/// ```
/// use nunatak::{DlhtSet, entry::{Inline, InlineKey}};
///
/// #[derive(Clone, Copy, PartialEq, Eq, Inline, InlineKey)]
/// struct UserId(u64);
///
/// let seen: DlhtSet<UserId> = DlhtSet::new();
/// assert!(seen.insert(UserId(7)) && !seen.insert(UserId(7)));
/// ```
///
/// Floats can't be keys, since zero has two words:
///
/// ```compile_fail
/// # use nunatak::entry::{Inline, InlineKey};
/// #[derive(Clone, Copy, PartialEq, Inline, InlineKey)]
/// struct Point { x: f32, y: f32 }
/// impl Eq for Point {}
/// ```
#[cfg(feature = "derive")]
pub use nunatak_derive::InlineKey;
pub use record::Records;
pub use size::{BesideInSlot, Bytes, Size};
pub use wide::{Count, NoWords, OneWord, TwoWords, Wide, WideKey};
