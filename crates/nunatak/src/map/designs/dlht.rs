//! [`DlhtMap`] and its relatives: the maps of DLHT's table, and their builder.

use crate::alloc::Allocator;
use crate::entry::{Inline, InlineKey, RecordFormat, Records, Wide, WideKey};
use crate::error::Error;
use crate::hash::{Hashing, IdentityCodec, RandomState, RecordCodec};
use crate::map::boxed::BoxedMap;
use crate::map::boxed::set::BoxedSet;
use crate::map::bytes::ByteMap;
use crate::map::bytes::record::DlhtRecordMap;
use crate::map::bytes::shadow::DlhtShadowRecordMap;
use crate::map::inline::InlineMap;
use crate::map::inline::set::InlineSet;
use crate::map::inline::shadow::DlhtShadowMap;
use crate::map::wide::set::WideSet;
use crate::map::wide::{Of, WideMap};
use crate::mode::{Mode, SingleThread};
use crate::table::dlht::{Config, Table};
use crate::table::wide;
use crate::table::{Dlht, Room};
use std::sync::Arc;

/// The fastest map in RAM for keys and values of at most 8 bytes.
///
/// A get touches one cache line if its bin has no links, which holds for nine of ten bins, and
/// writes nothing that other threads use. An insert or a remove makes two atomic read-modify-writes
/// on that line, an update one. The map grows in parallel with all operations. Source: DLHT (HPDC
/// '24), sections 3.1–3.4.
///
/// Operations are linearizable, and lock-free except for two rare waits: for the few instructions
/// in which another thread moves the key's own bin, and (changes only) for the moment in which a
/// snapshot is cut.
///
/// `S` is a `BuildHasher` or [`Modulo`](crate::Modulo). [`DlhtLocalMap`](crate::DlhtLocalMap) is for
/// one thread.
///
/// ```
/// use nunatak::DlhtMap;
///
/// let map: DlhtMap<u64, u64> = DlhtMap::new();
/// map.insert(7, 49);
/// std::thread::scope(|scope| {
///     scope.spawn(|| assert_eq!(map.get(&7), Some(49)));
///     scope.spawn(|| map.insert(8, 64));
/// });
/// assert_eq!(map.len(), 2);
/// ```
pub type DlhtMap<K, V, S = RandomState> = InlineMap<K, V, S, Dlht>;

/// A [`DlhtMap`] of one thread: the same algorithms without synchronization
/// (section 3.4.5). It can be sent to another thread, but not shared.
///
/// ```
/// use nunatak::DlhtLocalMap;
/// let map: DlhtLocalMap<u64, u64> = DlhtLocalMap::new();
/// map.insert(1, 10);
/// assert_eq!(map.remove(&1), Some(10));
/// ```
pub type DlhtLocalMap<K, V, S = RandomState> = InlineMap<K, V, S, Dlht<SingleThread>>;

/// A set of keys of at most 8 bytes: a [`DlhtMap`] without values (DLHT's
/// HashSet mode, section 3.1).
///
/// ```
/// use nunatak::DlhtSet;
/// let locked: DlhtSet<u64> = DlhtSet::new();
/// assert!(locked.insert(7));
/// assert!(!locked.insert(7));
/// assert!(locked.remove(&7));
/// ```
pub type DlhtSet<K, S = RandomState> = InlineSet<K, S, Dlht>;

/// A [`DlhtMap`] of any keys and any values: a slot points to its entry.
///
/// Very many keys whose `Hash` collides in all 64 bits share a lock (see
/// `stats().delegated_bins`).
///
/// ```
/// use nunatak::DlhtBoxedMap;
/// let ages: DlhtBoxedMap<String, u32> = DlhtBoxedMap::new();
/// ages.insert("Ada".into(), 36);
/// assert_eq!(ages.get("Ada"), Some(36));
/// ```
pub type DlhtBoxedMap<K, V, S = RandomState> = BoxedMap<K, V, S, Dlht>;

/// A [`DlhtBoxedMap`] without values: a set of any keys.
///
/// ```
/// use nunatak::DlhtBoxedSet;
/// let seen: DlhtBoxedSet<String> = DlhtBoxedSet::new();
/// assert!(seen.insert("ice".into()) && seen.contains("ice"));
/// ```
pub type DlhtBoxedSet<K, S = RandomState> = BoxedSet<K, S, Dlht>;

/// A map of keys and values of up to 16 bytes each, stored in the bins themselves: (u64, u64), `u128`,
/// a UUID, a pointer with a tag.
///
/// A bin is one cache line with two entries of 24 bytes, or three of 16; entries of 32 bytes are three to two
/// lines. A get touches one bin in nine of ten cases. Placement and growth are those of DLHT (HPDC '24, section 3.2),
/// the lock of a bin is CLHT's (ASPLOS '15). See [`WideMap`] for what happens under concurrency.
///
/// ```
/// use nunatak::DlhtWideMap;
/// let spans: DlhtWideMap<u64, (u64, u64)> = DlhtWideMap::new();
/// spans.insert(7, (100, 200));
/// assert_eq!(spans.get(&7), Some((100, 200)));
/// ```
pub type DlhtWideMap<K, V> = WideMap<K, V, Dlht>;

/// A set of keys of up to 16 bytes each, three in a bin of a cache line: a [`DlhtWideMap`] without values.
///
/// ```
/// use nunatak::DlhtWideSet;
/// let seen: DlhtWideSet<[u8; 16]> = DlhtWideSet::new();
/// assert!(seen.insert([7; 16]) && seen.contains(&[7; 16]));
/// ```
pub type DlhtWideSet<K> = WideSet<K, Dlht>;

/// Builds a [`DlhtMap`], [`DlhtSet`](crate::DlhtSet) or [`DlhtBoxedMap`](crate::DlhtBoxedMap) with
/// a capacity, a hasher, and other values for the constants that the paper varies.
///
/// ```
/// use nunatak::{DlhtMap, Modulo};
/// let map: DlhtMap<u32, u32, Modulo> =
///     DlhtMap::<u32, u32>::builder().capacity(1000).hasher(Modulo).link_ratio(5).build()?;
/// assert!(map.is_empty());
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct DlhtBuilder<S = RandomState> {
    pub(super) hasher: S,
    pub(super) capacity: usize,
    pub(super) config: Config,
}

impl Default for DlhtBuilder {
    fn default() -> Self {
        Self { hasher: RandomState::default(), capacity: 0, config: Config::default() }
    }
}

impl<S> DlhtBuilder<S> {
    /// Makes room for so many entries from the start.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::<u64, u64>::builder().capacity(100_000).build()?;
    /// let bins = map.stats().bins;
    /// (0..100_000).for_each(|key| drop(map.insert(key, key)));
    /// assert_eq!(map.stats().bins, bins);
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
    /// # use nunatak::{Error, DlhtMap};
    /// let map: DlhtMap<u64, u64> = DlhtMap::<u64, u64>::builder().capacity(1000).grows(false).build()?;
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

    /// Hashes with `hasher`: a `BuildHasher`, or [`Modulo`](crate::Modulo).
    ///
    /// ```
    /// # use nunatak::{DlhtMap, Modulo};
    /// let map: DlhtMap<u64, u64, Modulo> = DlhtMap::<u64, u64>::builder().hasher(Modulo).build()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn hasher<T>(self, hasher: T) -> DlhtBuilder<T> {
        DlhtBuilder { hasher, capacity: self.capacity, config: self.config }
    }

    /// Sets the number of bins (64 bytes each) of an empty map: an even number, 4 by default.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::<u64, u64>::builder().initial_bins(2).build()?;
    /// assert_eq!(map.stats().bins, 2);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn initial_bins(mut self, bins: usize) -> Self {
        self.config.initial_bins = bins;
        self
    }

    /// Sets how many bins share one link bucket: 4 to 64, 8 by default. With fewer bins a link the
    /// map gets fuller before it grows: 65 % of its slots with 8, 71 % with 5.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> =
    ///     DlhtMap::<u64, u64>::builder().initial_bins(1024).link_ratio(4).build()?;
    /// assert_eq!(map.stats().link_buckets, 256);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn link_ratio(mut self, bins_per_link: usize) -> Self {
        self.config.bins_per_link = bins_per_link;
        self
    }

    /// Sets the factor by which a resize multiplies the bins: 2 to 64. By default 8 below 4,096
    /// bins, 4 below 4 Mi bins, 2 above. A map that only churn has filled doubles.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::<u64, u64>::builder().growth_factor(2).build()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn growth_factor(mut self, factor: usize) -> Self {
        self.config.growth_factor = Some(factor);
        self
    }

    /// Sets how many bins an insert that meets a resize moves before it goes on with its own work: at
    /// least 1.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::<u64, u64>::builder().transfer_chunk(1).build()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn transfer_chunk(mut self, bins: usize) -> Self {
        self.config.chunk_bins = bins;
        self
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let Config { initial_bins, bins_per_link, growth_factor, chunk_bins, room: _ } =
            self.config;
        let invalid = |option, expected| Err(Error::InvalidOption { option, expected });
        if initial_bins < 2 || !initial_bins.is_multiple_of(2) {
            return invalid("initial_bins", "an even number of at least 2");
        }
        if initial_bins > isize::MAX as usize / 128 {
            return Err(Error::CapacityOverflow);
        }
        if !(4..=64).contains(&bins_per_link) {
            return invalid("link_ratio", "from 4 to 64");
        }
        if !growth_factor.is_none_or(|factor| (2..=64).contains(&factor)) {
            return invalid("growth_factor", "from 2 to 64");
        }
        if chunk_bins == 0 {
            return invalid("transfer_chunk", "at least 1");
        }
        Ok(())
    }

    /// Builds the map.
    ///
    /// # Errors
    /// If an option is out of its range, the capacity does not fit the address space, memory is
    /// refused, or the processor has no 16-byte compare-and-swap.
    ///
    /// ```
    /// # use nunatak::{DlhtMap, Error};
    /// let map: Result<DlhtMap<u64, u64>, Error> =
    ///     DlhtMap::<u64, u64>::builder().initial_bins(3).build();
    /// assert!(matches!(map, Err(Error::InvalidOption { option: "initial_bins", .. })));
    /// ```
    pub fn build<K: InlineKey, V: Inline, M: Mode>(
        self,
    ) -> Result<InlineMap<K, V, S, Dlht<M>>, Error>
    where
        S: Hashing,
    {
        self.check()?;
        let codec = self.hasher.into_codec()?;
        Ok(InlineMap::of(Table::new(codec, self.config, self.capacity)?))
    }

    /// Builds a set.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{DlhtMap, DlhtSet};
    /// let set: DlhtSet<u64> = DlhtMap::<u64, u64>::builder().capacity(100).build_set()?;
    /// # assert!(set.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_set<K: InlineKey>(self) -> Result<DlhtSet<K, S>, Error>
    where
        S: Hashing,
    {
        Ok(InlineSet::of(self.build()?))
    }

    /// Builds a map whose inserts may be hidden.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{DlhtMap, DlhtShadowMap};
    /// let map: DlhtShadowMap<u64, u64> =
    ///     DlhtMap::<u64, u64>::builder().capacity(1000).build_shadow()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_shadow<K: InlineKey, V: Inline>(self) -> Result<DlhtShadowMap<K, V, S>, Error>
    where
        S: Hashing,
    {
        self.check()?;
        let codec = self.hasher.into_codec()?;
        Ok(InlineMap::of(Table::new(codec, self.config, self.capacity)?))
    }

    /// Builds a map of records in memory of `allocator`.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{DlhtMap, DlhtRecordMap, alloc::Global, entry::Format};
    /// let map: DlhtRecordMap<Format<8, 32>> =
    ///     DlhtMap::<u64, u64>::builder().link_ratio(5).build_records(Global)?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_records<F, A>(self, allocator: A) -> Result<DlhtRecordMap<F, A, S>, Error>
    where
        F: RecordFormat,
        A: Allocator + Send + Sync + 'static,
        S: Hashing,
    {
        Ok(ByteMap::of(self.record_table()?, Arc::new(Records::new(allocator))))
    }

    /// Builds a map of records, which may be hidden, in memory of `allocator`.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{DlhtMap, DlhtShadowRecordMap, alloc::Global};
    /// let map: DlhtShadowRecordMap =
    ///     DlhtMap::<u64, u64>::builder().capacity(1000).build_shadow_records(Global)?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_shadow_records<F, A>(
        self,
        allocator: A,
    ) -> Result<DlhtShadowRecordMap<F, A, S>, Error>
    where
        F: RecordFormat,
        A: Allocator + Send + Sync + 'static,
        S: Hashing,
    {
        Ok(ByteMap::of(self.record_table()?, Arc::new(Records::new(allocator))))
    }

    fn record_table<M: crate::sync::Mode>(
        self,
    ) -> Result<Table<RecordCodec<S::HashCodec>, M>, Error>
    where
        S: Hashing,
    {
        self.check()?;
        let codec = RecordCodec::new(self.hasher.into_codec()?);
        Table::new(codec, self.config, self.capacity)
    }

    /// Builds a map of boxed entries.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{DlhtBoxedMap, DlhtMap};
    /// let map: DlhtBoxedMap<String, Vec<u8>> =
    ///     DlhtMap::<u64, u64>::builder().capacity(1000).build_boxed()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_boxed<K, V>(self) -> Result<DlhtBoxedMap<K, V, S>, Error> {
        self.check()?;
        let table = Table::new(IdentityCodec, self.config, self.capacity)?;
        Ok(BoxedMap::of(table, self.hasher))
    }
}

impl DlhtBuilder {
    /// Builds a map of keys and values of up to 16 bytes each.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{DlhtMap, DlhtWideMap};
    /// let map: DlhtWideMap<u64, (u64, u64)> =
    ///     DlhtMap::<u64, u64>::builder().capacity(1000).build_wide()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_wide<K: WideKey, V: Wide>(self) -> Result<DlhtWideMap<K, V>, Error> {
        self.check()?;
        let config = wide::Config::of_bins::<Of<K, V>>(&self.config);
        WideMap::build(self.hasher, config, self.capacity)
    }

    /// Builds a set of keys of up to 16 bytes each.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{DlhtMap, DlhtWideSet};
    /// let set: DlhtWideSet<u128> =
    ///     DlhtMap::<u64, u64>::builder().capacity(1000).build_wide_set()?;
    /// # assert!(set.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_wide_set<K: WideKey>(self) -> Result<DlhtWideSet<K>, Error> {
        Ok(WideSet::of(self.build_wide()?))
    }
}

impl<K: InlineKey, V: Inline> DlhtMap<K, V> {
    /// Returns a builder for a map that differs from the default.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::<u64, u64>::builder().capacity(10).build()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn builder() -> DlhtBuilder {
        DlhtBuilder::default()
    }
}

impl<K, V> DlhtBoxedMap<K, V> {
    /// Returns a builder for a map that differs from the default;
    /// [`build_boxed`](DlhtBuilder::build_boxed) ends it.
    ///
    /// ```
    /// # use nunatak::DlhtBoxedMap;
    /// let map = DlhtBoxedMap::<String, u64>::builder().capacity(10).build_boxed::<String, u64>()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn builder() -> DlhtBuilder {
        DlhtBuilder::default()
    }
}
