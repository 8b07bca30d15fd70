//! [`BlobMap`]: byte strings in the map's own memory.

use crate::entry::Blobs;
use crate::error::Error;
use crate::hash::{IdentityCodec, RandomState};
use crate::map::bytes::ByteMap;
use crate::memory::Heap;
use crate::table::{Design, Turbo};
use core::hash::BuildHasher;
use std::sync::Arc;

/// A concurrent map of byte strings by byte strings of 0 to 4 GiB each, which it keeps side by side
/// in its own memory.
///
/// A slot of the table holds a hash and an offset. A get touches what a get of the design's inline
/// map touches, and the blob. It copies nothing unless the caller asks for a copy. A change stores
/// a new blob and never touches the old one, whose memory is used again when no
/// [guard](BlobMap::pin) can see it any more. `D` is the table's [design](crate::Design), by
/// default TurboHash's. Source: TurboHash (SYSTOR '23), section 3.6.
///
/// A key and a value take their lengths and 8 bytes, rounded up to a multiple of 8 (from 128 bytes
/// on: by a quarter at most), and a slot of 16 bytes at the table's load factor.
///
/// ```
/// use nunatak::TurboBlobMap;
///
/// let map = TurboBlobMap::new();
/// map.put(b"nunatak", b"stands still")?;
/// assert_eq!(map.get(b"nunatak").as_deref(), Some(&b"stands still"[..]));
/// let guard = map.pin();
/// let value: &[u8] = guard.get(b"nunatak").unwrap();
/// map.delete(b"nunatak");
/// assert_eq!(value, b"stands still");
/// # Ok::<(), nunatak::Error>(())
/// ```
pub type BlobMap<S = RandomState, D = Turbo> = ByteMap<Blobs<S, <D as Design>::Medium>, D>;

impl<S, D> Default for ByteMap<Blobs<S, Heap>, D>
where
    S: BuildHasher + Default + Send + Sync + 'static,
    D: Design<Medium = Heap>,
{
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<D: Design<Medium = Heap>> ByteMap<Blobs<RandomState, Heap>, D> {
    /// Makes an empty map, which takes memory as it gets entries: with one entry 3 KiB of the
    /// allocator's memory and no mapping. The first 32 blobs, of 4 KiB together, are the allocator's;
    /// the others have an arena.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// assert!(TurboBlobMap::new().is_empty());
    /// ```
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Makes an empty map with room for `capacity` entries.
    ///
    /// # Panics
    /// If memory is refused; see [`try_with_capacity`](Self::try_with_capacity).
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// assert!(TurboBlobMap::with_capacity(1000).is_empty());
    /// ```
    pub fn with_capacity(capacity: usize) -> Self {
        match Self::try_with_capacity(capacity) {
            Ok(map) => map,
            Err(error) => panic!("{error}"),
        }
    }

    /// Makes an empty map with room for `capacity` entries.
    ///
    /// # Errors
    /// If the capacity does not fit the address space, or memory is refused.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// assert!(TurboBlobMap::try_with_capacity(1 << 60).is_err());
    /// ```
    pub fn try_with_capacity(capacity: usize) -> Result<Self, Error> {
        Self::build(capacity, RandomState::default())
    }
}

impl<S, D> ByteMap<Blobs<S, Heap>, D>
where
    S: BuildHasher + Send + Sync + 'static,
    D: Design<Medium = Heap>,
{
    /// Makes an empty map that hashes with `hasher`.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// use std::hash::RandomState;
    /// let map: TurboBlobMap<RandomState> = TurboBlobMap::with_hasher(RandomState::new());
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_hasher(hasher: S) -> Self {
        Self::with_capacity_and_hasher(0, hasher)
    }

    /// Makes an empty map with room for `capacity` entries that hashes with `hasher`.
    ///
    /// # Panics
    /// If memory is refused. [`TurboBuilder`](crate::TurboBuilder) returns an error instead.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// use std::hash::RandomState;
    /// let map: TurboBlobMap<RandomState> =
    ///     TurboBlobMap::with_capacity_and_hasher(1000, RandomState::new());
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        match Self::build(capacity, hasher) {
            Ok(map) => map,
            Err(error) => panic!("{error}"),
        }
    }

    pub(in crate::map) fn build(capacity: usize, hasher: S) -> Result<Self, Error> {
        let blobs = Blobs::new(&Heap, hasher)?;
        Ok(Self::of(D::table(IdentityCodec, capacity)?, Arc::new(blobs)))
    }

    /// Returns the map's hasher.
    ///
    /// ```
    /// # use nunatak::TurboBlobMap;
    /// use std::hash::{BuildHasher, RandomState};
    /// let map: TurboBlobMap<RandomState> = TurboBlobMap::with_hasher(RandomState::new());
    /// assert_eq!(map.hasher().hash_one("a"), map.hasher().hash_one("a"));
    /// ```
    pub fn hasher(&self) -> &S {
        self.entries.hasher()
    }
}
