//! [`TurboMap`] and its relatives: the maps of TurboHash's table, and their builder.

use crate::entry::{Blobs, Inline, InlineKey};
use crate::error::Error;
use crate::hash::{HashCodec, Hashing, IdentityCodec, RandomState, StaggeredCodec};
use crate::map::boxed::BoxedMap;
use crate::map::boxed::set::BoxedSet;
use crate::map::bytes::blob::BlobMap;
use crate::map::inline::InlineMap;
use crate::map::inline::set::InlineSet;
use crate::memory::Heap;
use crate::table::Room;
use crate::table::Turbo;
use crate::table::growing;
use crate::table::pea::EntrySize;
use crate::table::turbo::Config;
use core::hash::BuildHasher;
use std::sync::Arc;

/// The map of many small tables (shards): a resize stalls the changes to one of them.
///
/// A key's hash tells its shard, and its bucket in the shard: 256 bytes with a header and 15 slots.
/// A key that finds no room there goes to one of the next buckets; it may be in sixteen buckets at
/// most. A search goes on to the next bucket only where a key has done so. A get touches the line
/// of its shard's descriptor, which is in the cache, the line of a header, and the line of a slot
/// if it hits. It writes nothing and never waits. A change takes the lock of its shard; only
/// changes to the same shard wait for it. A shard without room is stored again in twice as many
/// buckets, and a shard that has lost most of its keys in fewer. Source: TurboHash (SYSTOR '23),
/// sections 3.1 to 3.5.
///
/// A key takes 22 to 38 bytes, depending on how long ago its shard was doubled. In maps of boxed
/// entries and of byte strings a slot takes 26 to 31 bytes, at any size of the map: some shards get
/// more keys than others, so they double one after the other. Up to 32 keys are in slots of 16 bytes,
/// in ordinary memory.
///
/// ```
/// use nunatak::TurboMap;
///
/// let map: TurboMap<u64, u64> = TurboMap::new();
/// map.insert(7, 49);
/// std::thread::scope(|scope| {
///     scope.spawn(|| assert_eq!(map.get(&7), Some(49)));
///     scope.spawn(|| map.insert(8, 64));
/// });
/// assert_eq!(map.len(), 2);
/// ```
pub type TurboMap<K, V, S = RandomState> = InlineMap<K, V, S, Turbo>;

/// A set of keys of at most 8 bytes: a [`TurboMap`] without values.
///
/// ```
/// use nunatak::TurboSet;
/// let seen: TurboSet<u64> = TurboSet::new();
/// assert!(seen.insert(7) && !seen.insert(7));
/// ```
pub type TurboSet<K, S = RandomState> = InlineSet<K, S, Turbo>;

/// A [`TurboMap`] of any keys and any values: a slot points to its entry.
///
/// ```
/// use nunatak::TurboBoxedMap;
/// let ages: TurboBoxedMap<String, u32> = TurboBoxedMap::new();
/// ages.insert("Ada".into(), 36);
/// assert_eq!(ages.get("Ada"), Some(36));
/// ```
pub type TurboBoxedMap<K, V, S = RandomState> = BoxedMap<K, V, S, Turbo>;

/// A [`TurboBoxedMap`] without values: a set of any keys.
///
/// ```
/// use nunatak::TurboBoxedSet;
/// let seen: TurboBoxedSet<String> = TurboBoxedSet::new();
/// assert!(seen.insert("ice".into()) && seen.contains("ice"));
/// ```
pub type TurboBoxedSet<K, S = RandomState> = BoxedSet<K, S, Turbo>;

/// A [`BlobMap`] of TurboHash's table: byte strings of any length.
///
/// ```
/// use nunatak::TurboBlobMap;
/// let map = TurboBlobMap::new();
/// map.put(b"Ada", &[36])?;
/// assert_eq!(map.get(b"Ada"), Some(vec![36]));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub type TurboBlobMap<S = RandomState> = BlobMap<S, Turbo>;

/// Builds a [`TurboMap`], [`TurboSet`] or [`TurboBoxedMap`] with a capacity, a hasher, and other
/// values for the constants that the paper varies.
///
/// ```
/// use nunatak::TurboMap;
/// let map: TurboMap<u32, u32> =
///     TurboMap::<u32, u32>::builder().capacity(1000).shards(64).scope(8).build()?;
/// assert_eq!(map.stats().shards, 64);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct TurboBuilder<S = RandomState> {
    hasher: S,
    capacity: usize,
    config: Config,
}

impl<S> TurboBuilder<S> {
    /// Makes room for so many entries from the start.
    ///
    /// ```
    /// # use nunatak::TurboMap;
    /// let map: TurboMap<u64, u64> = TurboMap::<u64, u64>::builder().capacity(100_000).build()?;
    /// assert!(map.stats().slots > 100_000);
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
    /// # use nunatak::{Error, TurboMap};
    /// let map: TurboMap<u64, u64> = TurboMap::<u64, u64>::builder().capacity(1000).grows(false).build()?;
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
    /// # use nunatak::TurboMap;
    /// use std::hash::RandomState;
    /// let map: TurboMap<u64, u64, RandomState> =
    ///     TurboMap::<u64, u64>::builder().hasher(RandomState::new()).build()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn hasher<T>(self, hasher: T) -> TurboBuilder<T> {
        let Self { capacity, config, .. } = self;
        TurboBuilder { hasher, capacity, config }
    }

    /// Sets how many shards there are: a power of two from 2 to 1,048,576, which never changes. By
    /// default 1024, or one for every 4096 entries of the capacity, from 256 to 16,384 (the paper:
    /// 65,536). A shard without entries takes 32 bytes, any other at least 256. An insert waits at
    /// most for the growth of its shard: 12 nanoseconds for each of the shard's entries (1.2
    /// milliseconds for 8192 buckets), where the system has memory at hand.
    ///
    /// ```
    /// # use nunatak::{Error, TurboMap};
    /// let map: Result<TurboMap<u64, u64>, Error> =
    ///     TurboMap::<u64, u64>::builder().shards(100).build();
    /// assert!(matches!(map, Err(Error::InvalidOption { option: "shards", .. })));
    /// ```
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.config.shards = Some(shards);
        self
    }

    /// Sets in how many neighbouring buckets an entry may be: 1 to 4096; by default 16, as in the
    /// paper. A larger scope makes shards fuller before they grow, and some searches longer.
    ///
    /// ```
    /// # use nunatak::{Error, TurboMap};
    /// let map: Result<TurboMap<u64, u64>, Error> =
    ///     TurboMap::<u64, u64>::builder().scope(0).build();
    /// assert!(matches!(map, Err(Error::InvalidOption { option: "scope", .. })));
    /// ```
    #[must_use]
    pub fn scope(mut self, buckets: usize) -> Self {
        self.config.scope = buckets;
        self
    }

    /// Sets the share of a shard's slots that may be tombstones (free slots in buckets that
    /// searches go on behind) before the shard is stored again: 0.01 to 1, by default 0.1. With 1
    /// tombstones never cause that.
    ///
    /// ```
    /// # use nunatak::{Error, TurboMap};
    /// let map: Result<TurboMap<u64, u64>, Error> =
    ///     TurboMap::<u64, u64>::builder().tombstones(f64::NAN).build();
    /// assert!(matches!(map, Err(Error::InvalidOption { option: "tombstones", .. })));
    /// ```
    #[must_use]
    pub fn tombstones(mut self, share: f64) -> Self {
        self.config.tombstones = share;
        self
    }

    /// Builds the map; its type says the size of entries.
    ///
    /// # Errors
    /// If an option is out of its range, the capacity does not fit the address space, memory is
    /// refused, or the processor has no 16-byte compare-and-swap.
    ///
    /// ```
    /// # use nunatak::{Error, TurboMap};
    /// let map: Result<TurboMap<u64, u64>, Error> =
    ///     TurboMap::<u64, u64>::builder().capacity(1 << 60).build();
    /// assert!(map.is_err());
    /// ```
    pub fn build<K, V, E>(self) -> Result<InlineMap<K, V, S, Turbo<E>>, Error>
    where
        K: InlineKey,
        V: Inline,
        E: EntrySize,
        S: BuildHasher + Send + Sync + 'static,
    {
        let codec = StaggeredCodec::new(E::codec(self.hasher.into_codec()?).into_shared());
        Ok(InlineMap::of(growing::build(codec, self.config, self.capacity)?))
    }

    /// Builds a set.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{TurboMap, TurboSet};
    /// let set: TurboSet<u64> = TurboMap::<u64, u64>::builder().capacity(100).build_set()?;
    /// # assert!(set.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_set<K, E>(self) -> Result<InlineSet<K, S, Turbo<E>>, Error>
    where
        K: InlineKey,
        E: EntrySize,
        S: BuildHasher + Send + Sync + 'static,
    {
        Ok(InlineSet::of(self.build()?))
    }

    /// Builds a map of boxed entries.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{TurboBoxedMap, TurboMap};
    /// let map: TurboBoxedMap<String, Vec<u8>> =
    ///     TurboMap::<u64, u64>::builder().capacity(1000).build_boxed()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_boxed<K, V>(self) -> Result<TurboBoxedMap<K, V, S>, Error> {
        let table = growing::build(StaggeredCodec::new(IdentityCodec), self.config, self.capacity)?;
        Ok(BoxedMap::of(table, self.hasher))
    }
}

impl<S> TurboBuilder<S> {
    /// Builds a map of byte strings.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{TurboBlobMap, TurboMap};
    /// let map: TurboBlobMap = TurboMap::<u64, u64>::builder().capacity(1000).build_blobs()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_blobs(self) -> Result<TurboBlobMap<S>, Error>
    where
        S: BuildHasher + Send + Sync + 'static,
    {
        let table = growing::build(StaggeredCodec::new(IdentityCodec), self.config, self.capacity)?;
        Ok(BlobMap::of(table, Arc::new(Blobs::new(&Heap, self.hasher)?)))
    }
}

impl<K: InlineKey, V: Inline> TurboMap<K, V> {
    /// Returns a builder for a map that differs from the default.
    ///
    /// ```
    /// # use nunatak::TurboMap;
    /// let map: TurboMap<u64, u64> = TurboMap::<u64, u64>::builder().capacity(10).build()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn builder() -> TurboBuilder {
        TurboBuilder::default()
    }
}

impl<K, V> TurboBoxedMap<K, V> {
    /// Returns a builder for a map that differs from the default;
    /// [`build_boxed`](TurboBuilder::build_boxed) ends it.
    ///
    /// ```
    /// # use nunatak::TurboBoxedMap;
    /// let map = TurboBoxedMap::<String, u64>::builder().capacity(10).build_boxed::<String, u64>()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn builder() -> TurboBuilder {
        TurboBuilder::default()
    }
}
