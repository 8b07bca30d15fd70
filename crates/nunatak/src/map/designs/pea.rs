//! [`PeaMap`] and its relatives: the maps of Pea Hash's table, and their builder.

use crate::entry::{Blobs, Inline, InlineKey};
use crate::error::Error;
use crate::hash::{HashCodec, Hashing, IdentityCodec, RandomState};
use crate::map::blob_multi::PeaBlobMultiMap;
use crate::map::boxed::BoxedMap;
use crate::map::boxed::set::BoxedSet;
use crate::map::bytes::ByteMap;
use crate::map::inline::InlineMap;
use crate::map::inline::set::InlineSet;
use crate::map::multi::PeaMultiMap;
use crate::memory::Heap;
use crate::table::Pea;
use crate::table::Room;
use crate::table::growing;
#[cfg(modelled)]
use crate::table::pea::Table;
use crate::table::pea::{Config, Entry8, Entry12, EntrySize, Strategy, build_multi};
use core::hash::BuildHasher;
use std::sync::Arc;

/// The map that grows by one segment at a time, and is faster the emptier it is.
///
/// A directory names segments of 2048 buckets; a bucket has 256 bytes: a header and 15 slots. A get
/// touches the line of a header, the line of a slot if it hits, and up to three more headers if its
/// segment is full. It writes nothing and never waits. A change takes the locks of one or two
/// buckets. A segment without room is split into four; changes to its keys wait for that, reads do
/// not. Source: Pea Hash (SIGMOD '23), sections 3.1 and 3.2.
///
/// Up to 32 entries are in slots of 16 bytes, in ordinary memory. Of more entries
/// half of the memory is used on average: a segment is 23 % full after a split and 92 % full
/// before.
///
/// ```
/// use nunatak::PeaMap;
///
/// let map: PeaMap<u64, u64> = PeaMap::new();
/// map.insert(7, 49);
/// std::thread::scope(|scope| {
///     scope.spawn(|| assert_eq!(map.get(&7), Some(49)));
///     scope.spawn(|| map.insert(8, 64));
/// });
/// assert_eq!(map.len(), 2);
/// ```
pub type PeaMap<K, V, S = RandomState> = InlineMap<K, V, S, Pea>;

/// A [`PeaMap`] of keys of at most 4 bytes, in entries of 12 bytes: a bucket has 19 instead of 15.
/// A hit may touch one line more, for the key.
///
/// ```
/// use nunatak::PeaMap12;
/// let degrees: PeaMap12<u32, u64> = PeaMap12::new();
/// degrees.insert(u32::MAX, u64::MAX);
/// assert_eq!(degrees.get(&u32::MAX), Some(u64::MAX));
/// ```
pub type PeaMap12<K, V, S = RandomState> = InlineMap<K, V, S, Pea<Entry12>>;

/// A [`PeaMap`] of keys and values of at most 4 bytes, in entries of 8 bytes: a bucket has 28
/// instead of 15.
///
/// Larger keys or values are an error when the program is compiled:
///
/// ```compile_fail
/// use nunatak::PeaMap8;
/// let map: PeaMap8<u32, u64> = PeaMap8::new();
/// ```
///
/// ```
/// use nunatak::PeaMap8;
/// let rows: PeaMap8<u32, u32> = PeaMap8::new();
/// rows.insert(7, 49);
/// assert_eq!(rows.get(&7), Some(49));
/// ```
pub type PeaMap8<K, V, S = RandomState> = InlineMap<K, V, S, Pea<Entry8>>;

/// A set of keys of at most 8 bytes: a [`PeaMap`] without values.
///
/// ```
/// use nunatak::PeaSet;
/// let seen: PeaSet<u64> = PeaSet::new();
/// assert!(seen.insert(7) && !seen.insert(7));
/// ```
pub type PeaSet<K, S = RandomState> = InlineSet<K, S, Pea>;

/// A [`PeaMap`] of any keys and any values: a slot points to its entry.
///
/// ```
/// use nunatak::PeaBoxedMap;
/// let ages: PeaBoxedMap<String, u32> = PeaBoxedMap::new();
/// ages.insert("Ada".into(), 36);
/// assert_eq!(ages.get("Ada"), Some(36));
/// ```
pub type PeaBoxedMap<K, V, S = RandomState> = BoxedMap<K, V, S, Pea>;

/// A [`PeaBoxedMap`] without values: a set of any keys.
///
/// ```
/// use nunatak::PeaBoxedSet;
/// let seen: PeaBoxedSet<String> = PeaBoxedSet::new();
/// assert!(seen.insert("ice".into()) && seen.contains("ice"));
/// ```
pub type PeaBoxedSet<K, S = RandomState> = BoxedSet<K, S, Pea>;

/// Builds a [`PeaMap`], [`PeaSet`], [`PeaBoxedMap`], [`PeaMultiMap`] or
/// [`PeaBlobMultiMap`] with a capacity, a hasher,
/// and other values for the constants that the paper varies.
///
/// ```
/// use nunatak::{PeaMap, Strategy};
/// let map: PeaMap<u32, u32> = PeaMap::<u32, u32>::builder()
///     .capacity(1000)
///     .segment_buckets(64)
///     .strategies(&[Strategy::Single, Strategy::TwoChoice])
///     .build()?;
/// assert!(map.is_empty());
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct PeaBuilder<S = RandomState> {
    hasher: S,
    capacity: usize,
    config: Config,
}

impl<S> PeaBuilder<S> {
    /// Makes room for so many entries from the start: as few segments as the last of the
    /// [strategies](Self::strategies) fills, 20 to 40 bytes an entry. (For the fastest lookups, by
    /// single hashing, ask for 2.5 times as many entries.)
    ///
    /// ```
    /// # use nunatak::PeaMap;
    /// let map: PeaMap<u64, u64> = PeaMap::<u64, u64>::builder().capacity(100_000).build()?;
    /// assert_eq!(map.stats().segments, 4);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn capacity(mut self, entries: usize) -> Self {
        self.capacity = entries;
        self.config.room = self.config.room.made_for(entries);
        self
    }

    /// Sets whether the map grows by itself; by default it does. One that does not has room for its
    /// [`capacity`](Self::capacity). When it has so many entries and no slot for a key,
    /// [`insert_within_capacity`](crate::InlineMap::insert_within_capacity) returns
    /// [`Error::Full`](crate::Error::Full). The inserts that can't fail put such a key where keys are that
    /// find no room, under locks: nothing is lost, and such keys are slow. Only
    /// [`reserve`](crate::ConcurrentMap::reserve) makes the map larger.
    ///
    /// ```
    /// # use nunatak::{Error, PeaMap};
    /// let map: PeaMap<u64, u64> = PeaMap::<u64, u64>::builder().capacity(1000).grows(false).build()?;
    /// let is_full = |key: &u64| map.insert_within_capacity(*key, 0) == Err(Error::Full);
    /// let first = (0..).find(is_full);
    /// assert!(first.is_some_and(|key| key >= 1000));
    /// assert_eq!(map.len() as u64, first.unwrap());
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn grows(mut self, grows: bool) -> Self {
        self.config.room = if grows { Room::default() } else { Room::of(self.capacity) };
        self
    }

    /// Hashes with `hasher`.
    ///
    /// ```
    /// # use nunatak::PeaMap;
    /// use std::hash::RandomState;
    /// let map: PeaMap<u64, u64, RandomState> =
    ///     PeaMap::<u64, u64>::builder().hasher(RandomState::new()).build()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn hasher<T>(self, hasher: T) -> PeaBuilder<T> {
        let Self { capacity, config, .. } = self;
        PeaBuilder { hasher, capacity, config }
    }

    /// Sets how many buckets of 256 bytes a segment has: a power of two from 2 to 65,536; by
    /// default 2048 (512 KiB), as in the paper. Smaller segments are split faster and make the
    /// directory larger.
    ///
    /// ```
    /// # use nunatak::{Error, PeaMap};
    /// let builder = PeaMap::<u64, u64>::builder().segment_buckets(100);
    /// let map: Result<PeaMap<u64, u64>, Error> = builder.build();
    /// assert!(matches!(map, Err(Error::InvalidOption { option: "segment_buckets", .. })));
    /// ```
    #[must_use]
    pub fn segment_buckets(mut self, buckets: usize) -> Self {
        self.config.buckets = buckets;
        self
    }

    /// Sets the strategies that a segment goes through before it is split: by default all, in their
    /// order. A single one is one of the pure strategies of figure 7 of the paper.
    ///
    /// ```
    /// # use nunatak::{PeaMap, Strategy};
    /// let builder = PeaMap::<u64, u64>::builder().capacity(1000);
    /// let map: PeaMap<u64, u64> = builder.strategies(&[Strategy::TwoChoice]).build()?;
    /// assert_eq!(map.stats().strategies, [0, 2, 0]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn strategies(mut self, strategies: &[Strategy]) -> Self {
        self.config.strategies = strategies.to_vec();
        self
    }

    /// Sets how many segments a split makes of one: two or, by default, four.
    ///
    /// ```
    /// # use nunatak::PeaMap;
    /// let map: PeaMap<u64, u64> = PeaMap::<u64, u64>::builder().split_into(2).build()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn split_into(mut self, segments: usize) -> Self {
        self.config.split_into = segments;
        self
    }

    /// Builds the map; its type says the size of entries.
    ///
    /// # Errors
    /// If an option is out of its range, the capacity does not fit the address space, memory is
    /// refused, or the processor has no 16-byte compare-and-swap.
    ///
    /// ```
    /// # use nunatak::{Error, PeaMap};
    /// let map: Result<PeaMap<u64, u64>, Error> =
    ///     PeaMap::<u64, u64>::builder().split_into(3).build();
    /// assert!(matches!(map, Err(Error::InvalidOption { option: "split_into", .. })));
    /// ```
    pub fn build<K, V, E>(self) -> Result<InlineMap<K, V, S, Pea<E>>, Error>
    where
        K: InlineKey,
        V: Inline,
        E: EntrySize,
        S: BuildHasher + Send + Sync + 'static,
    {
        self.config.check()?;
        let codec = E::codec(self.hasher.into_codec()?);
        Ok(InlineMap::of(growing::build(codec.into_shared(), self.config, self.capacity)?))
    }

    /// Builds a map in a durable medium of a model checker.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    #[cfg(modelled)]
    pub fn build_checked<K: InlineKey, V: Inline>(
        self,
    ) -> Result<InlineMap<K, V, S, crate::table::CheckedPea>, Error>
    where
        S: BuildHasher + Send + Sync + 'static,
    {
        let codec = self.hasher.into_codec()?;
        Ok(InlineMap::of(Table::new_in(crate::memory::Checked, codec, self.config, 0)?))
    }

    /// As [`build_checked`](Self::build_checked), with duplicate keys.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    #[cfg(modelled)]
    pub fn build_checked_multi<K: InlineKey, V: Inline>(
        self,
    ) -> Result<PeaMultiMap<K, V, S, crate::CheckedMedium>, Error>
    where
        S: Hashing,
    {
        let config = Config { duplicates: true, ..self.config };
        let codec = self.hasher.into_codec()?;
        Ok(PeaMultiMap::of(Table::new_in(crate::memory::Checked, codec, config, 0)?))
    }

    /// Builds a set.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{PeaMap, PeaSet};
    /// let set: PeaSet<u64> = PeaMap::<u64, u64>::builder().capacity(100).build_set()?;
    /// # assert!(set.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_set<K, E>(self) -> Result<InlineSet<K, S, Pea<E>>, Error>
    where
        K: InlineKey,
        E: EntrySize,
        S: BuildHasher + Send + Sync + 'static,
    {
        Ok(InlineSet::of(self.build()?))
    }

    /// Builds a map in which a key may have many values. A value buffer is at most as large as a
    /// segment, so smaller segments make smaller buffers.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{PeaMap, PeaMultiMap};
    /// let map: PeaMultiMap<u64, u64> = PeaMap::<u64, u64>::builder().build_multi()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_multi<K: InlineKey, V: Inline>(self) -> Result<PeaMultiMap<K, V, S>, Error>
    where
        S: Hashing,
    {
        self.config.check()?;
        let config = Config { duplicates: true, ..self.config };
        let codec = self.hasher.into_codec()?;
        Ok(PeaMultiMap::of(build_multi(codec, config, self.capacity)?))
    }

    /// Builds a map of byte strings that may have many values each. The capacity is of values, and
    /// the options are those of both of its tables.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{PeaBlobMultiMap, PeaMap};
    /// let map: PeaBlobMultiMap<u64> = PeaMap::<u64, u64>::builder().build_blob_multi()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_blob_multi<V: Inline>(self) -> Result<PeaBlobMultiMap<V, S>, Error>
    where
        S: BuildHasher + Send + Sync + 'static,
    {
        let Self { hasher, capacity, config } = self;
        config.check()?;
        let keys = growing::build(IdentityCodec, config.clone(), 0)?;
        let keys = ByteMap::of(keys, Arc::new(Blobs::new(&Heap, hasher)?));
        let values = PeaBuilder { hasher: RandomState::default(), capacity, config };
        Ok(PeaBlobMultiMap::of(keys, values.build_multi()?))
    }

    /// Builds a map of boxed entries.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{PeaBoxedMap, PeaMap};
    /// let map: PeaBoxedMap<String, Vec<u8>> =
    ///     PeaMap::<u64, u64>::builder().capacity(1000).build_boxed()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_boxed<K, V>(self) -> Result<PeaBoxedMap<K, V, S>, Error> {
        self.config.check()?;
        let table = growing::build(IdentityCodec, self.config, self.capacity)?;
        Ok(BoxedMap::of(table, self.hasher))
    }
}

impl<K: InlineKey, V: Inline> PeaMap<K, V> {
    /// Returns a builder for a map that differs from the default.
    ///
    /// ```
    /// # use nunatak::PeaMap;
    /// let map: PeaMap<u64, u64> = PeaMap::<u64, u64>::builder().capacity(10).build()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn builder() -> PeaBuilder {
        PeaBuilder::default()
    }
}

impl<K: InlineKey, V: Inline> PeaMultiMap<K, V> {
    /// Returns a builder for a map that differs from the default.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> =
    ///     PeaMultiMap::<u64, u64>::builder().capacity(10).build_multi()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn builder() -> PeaBuilder {
        PeaBuilder::default()
    }
}

impl<K: InlineKey, V: Inline, S: Hashing + Default> PeaMultiMap<K, V, S> {
    /// Makes an empty map, which takes memory as it gets entries: with one value 2 KiB of the
    /// allocator's memory and no mapping. Up to 32 values stay there.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// assert!(PeaMultiMap::<u64, u64>::new().is_empty());
    /// ```
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Makes an empty map with room for `capacity` values.
    ///
    /// # Panics
    /// If memory is refused; see [`PeaBuilder::build_multi`].
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// let map: PeaMultiMap<u64, u64> = PeaMultiMap::with_capacity(100_000);
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_capacity_and_hasher(capacity, S::default())
    }
}

impl<K: InlineKey, V: Inline, S: Hashing> PeaMultiMap<K, V, S> {
    /// Makes an empty map that hashes with `hasher`.
    ///
    /// # Panics
    /// If memory for it is refused.
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// use std::hash::RandomState;
    /// let map: PeaMultiMap<u64, u64, RandomState> = PeaMultiMap::with_hasher(RandomState::new());
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_hasher(hasher: S) -> Self {
        Self::with_capacity_and_hasher(0, hasher)
    }

    /// Makes an empty map with room for `capacity` values that hashes with `hasher`.
    ///
    /// # Panics
    /// If memory is refused; see [`PeaBuilder::build_multi`].
    ///
    /// ```
    /// # use nunatak::PeaMultiMap;
    /// use std::hash::RandomState;
    /// let map: PeaMultiMap<u64, u64, RandomState> =
    ///     PeaMultiMap::with_capacity_and_hasher(100_000, RandomState::new());
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> Self {
        match PeaBuilder::<RandomState>::default().hasher(hasher).capacity(capacity).build_multi() {
            Ok(map) => map,
            Err(error) => panic!("{error}"),
        }
    }
}

impl<K, V> PeaBoxedMap<K, V> {
    /// Returns a builder for a map that differs from the default;
    /// [`build_boxed`](PeaBuilder::build_boxed) ends it.
    ///
    /// ```
    /// # use nunatak::PeaBoxedMap;
    /// let map = PeaBoxedMap::<String, u64>::builder().capacity(10).build_boxed::<String, u64>()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn builder() -> PeaBuilder {
        PeaBuilder::default()
    }
}
