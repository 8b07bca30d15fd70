//! [`IcebergMap`] and its relatives: the maps of IcebergHT's table, and their builder.

use crate::entry::{Inline, InlineKey, Wide, WideKey};
use crate::error::Error;
use crate::hash::{HashCodec, Hashing, IdentityCodec, RandomState};
use crate::map::boxed::BoxedMap;
use crate::map::boxed::guard::BoxedGuard;
use crate::map::boxed::set::BoxedSet;
use crate::map::inline::InlineMap;
use crate::map::inline::set::InlineSet;
use crate::map::wide::WideMap;
use crate::map::wide::set::WideSet;
use crate::table::Room;
use crate::table::growing;
use crate::table::iceberg::{BlockSizes, Blocks, Config, SlotHandle};
use crate::table::{ByWord, Iceberg, wide};
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;

/// The map whose items do not move between resizes, and which fills up to 95 % of its slots.
///
/// An item stays in its slot until it is removed or the map changes its size;
/// [`slot`](InlineMap::slot) returns a handle of the slot. A get that hits touches two cache lines
/// for nine keys of ten. A get that misses touches the line of the block's fingerprints, the line
/// of the slots where its key would be (not in a batch), and two more if a key of the block has
/// found no room in it. Neither writes anything. A change holds a lock of 64 slots; only changes to
/// keys of the same block wait for it. The map grows in place: the first change to a block copies
/// the items that belong to the other half, and no others. No operation waits for the length of a
/// resize, nor for more than one page of new memory. Source: IcebergHT (SIGMOD '23), sections 2–5.
///
/// Up to 32 items are in slots of ordinary memory; then the map makes its blocks, which counts as a
/// resize. A slot of 16 bytes takes 17 bytes of memory. By default the map doubles at 91 % of all slots,
/// where 85 % of all bytes are items. The [builder](IcebergBuilder) takes other loads, up to 95 %.
/// Items of level 2 stay there when room becomes free in level 1. So where keys come and go, more
/// items are in levels 2 and 3 than in a map that was only filled: at a load of 0.91 one of 10 in
/// level 2 and one of 150 in level 3, at 0.85 one of 14 and none.
///
/// `S` is a `BuildHasher`; `B` says how large the blocks are.
///
/// ```
/// use nunatak::IcebergMap;
///
/// let map: IcebergMap<u64, u64> = IcebergMap::new();
/// map.insert(7, 49);
/// let slot = map.slot(&7).unwrap();
/// std::thread::scope(|scope| {
///     scope.spawn(|| assert_eq!(map.get(&7), Some(49)));
///     scope.spawn(|| map.insert(8, 64));
/// });
/// assert_eq!(map.get_at(&slot), Some((7, 49)));
/// ```
pub type IcebergMap<K, V, S = RandomState> = InlineMap<K, V, S, Iceberg>;

/// A set of keys of at most 8 bytes: an [`IcebergMap`] without values.
///
/// ```
/// use nunatak::IcebergSet;
/// let seen: IcebergSet<u64> = IcebergSet::new();
/// assert!(seen.insert(7) && !seen.insert(7));
/// ```
pub type IcebergSet<K, S = RandomState> = InlineSet<K, S, Iceberg>;

/// An [`IcebergMap`] of any keys and any values: a slot points to its entry.
///
/// ```
/// use nunatak::IcebergBoxedMap;
/// let ages: IcebergBoxedMap<String, u32> = IcebergBoxedMap::new();
/// ages.insert("Ada".into(), 36);
/// assert_eq!(ages.get("Ada"), Some(36));
/// ```
pub type IcebergBoxedMap<K, V, S = RandomState> = BoxedMap<K, V, S, Iceberg>;

/// A [`IcebergBoxedMap`] without values: a set of any keys.
///
/// ```
/// use nunatak::IcebergBoxedSet;
/// let seen: IcebergBoxedSet<String> = IcebergBoxedSet::new();
/// assert!(seen.insert("ice".into()) && seen.contains("ice"));
/// ```
pub type IcebergBoxedSet<K, S = RandomState> = BoxedSet<K, S, Iceberg>;

/// A map of keys and values of up to 16 bytes each, stored in the blocks themselves, which are more than 90 % full
/// before the map grows: some 28 bytes an entry of 24.
///
/// A block has 52 slots with fingerprints, as the first level of IcebergHT (SIGMOD '23, section 3). A key that finds no
/// room is in a small block behind a link, not in a second level that all blocks share: then one lock covers every
/// place of a key. A get that hits touches two to three lines: fingerprints and entry. One that misses touches one, or
/// two if the block has a link. An entry stays where it is until it is removed or the map changes its size, which it
/// does as [`DlhtWideMap`](crate::DlhtWideMap) does: into a new table, which needs the memory of both for a time. See
/// [`WideMap`] for what happens under concurrency.
///
/// ```
/// use nunatak::IcebergWideMap;
/// let spans: IcebergWideMap<u64, (u64, u64)> = IcebergWideMap::new();
/// spans.insert(7, (100, 200));
/// assert_eq!(spans.get(&7), Some((100, 200)));
/// ```
pub type IcebergWideMap<K, V> = WideMap<K, V, Iceberg>;

/// A set of keys of up to 16 bytes each, more than 90 % of its memory full of keys: an [`IcebergWideMap`] without values.
///
/// ```
/// use nunatak::IcebergWideSet;
/// let seen: IcebergWideSet<[u8; 16]> = IcebergWideSet::new();
/// assert!(seen.insert([7; 16]) && seen.contains(&[7; 16]));
/// ```
pub type IcebergWideSet<K> = WideSet<K, Iceberg>;

/// Builds an [`IcebergMap`], [`IcebergSet`] or [`IcebergBoxedMap`] with a capacity, a hasher, and
/// other values for the constants that the paper varies.
///
/// ```
/// use nunatak::IcebergMap;
/// let map: IcebergMap<u32, u32> =
///     IcebergMap::<u32, u32>::builder().capacity(1000).max_load(0.95).build()?;
/// assert!(map.is_empty());
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct IcebergBuilder<S = RandomState, B: BlockSizes = Blocks> {
    hasher: S,
    capacity: usize,
    config: Config,
    sizes: PhantomData<fn() -> B>,
}

impl Default for IcebergBuilder {
    fn default() -> Self {
        Self {
            hasher: RandomState::default(),
            capacity: 0,
            config: Config::default(),
            sizes: PhantomData,
        }
    }
}

impl<S, B: BlockSizes> IcebergBuilder<S, B> {
    /// Makes room for so many entries from the start. The map takes no more memory than they need
    /// at the load at which it grows, since its size need not be a power of two.
    ///
    /// ```
    /// # use nunatak::IcebergMap;
    /// let map: IcebergMap<u64, u64> =
    ///     IcebergMap::<u64, u64>::builder().capacity(100_000).build()?;
    /// let blocks = map.stats().blocks;
    /// (0..100_000).for_each(|key| drop(map.insert(key, key)));
    /// assert_eq!(map.stats().blocks, blocks);
    /// assert!(map.load_factor() > 0.88);
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
    /// # use nunatak::{Error, IcebergMap};
    /// let map: IcebergMap<u64, u64> = IcebergMap::<u64, u64>::builder().capacity(1000).grows(false).build()?;
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
    /// # use nunatak::IcebergMap;
    /// use std::hash::RandomState;
    /// let map: IcebergMap<u64, u64, RandomState> =
    ///     IcebergMap::<u64, u64>::builder().hasher(RandomState::new()).build()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn hasher<T>(self, hasher: T) -> IcebergBuilder<T, B> {
        let Self { capacity, config, .. } = self;
        IcebergBuilder { hasher, capacity, config, sizes: PhantomData }
    }

    /// Sets the sizes of the blocks, in slots: 64 or 32 in level 1, and 8, 6 or 4 in level 2 (table
    /// 6 of the paper). Smaller blocks of level 1 send more keys to level 2, smaller blocks of
    /// level 2 more to level 3.
    ///
    /// ```
    /// # use nunatak::{Blocks, Iceberg, IcebergMap, InlineMap, RandomState};
    /// let map: InlineMap<u64, u64, RandomState, Iceberg<Blocks<32, 4>>> =
    ///     IcebergMap::<u64, u64>::builder().blocks().build()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn blocks<T: BlockSizes>(self) -> IcebergBuilder<S, T> {
        let Self { hasher, capacity, config, .. } = self;
        IcebergBuilder { hasher, capacity, config, sizes: PhantomData }
    }

    /// Sets the share of the slots that entries may take before the map doubles: 0.1 to 0.95, by
    /// default 0.91, where 85 % of all bytes are entries. (The paper doubles at 0.85 of the slots,
    /// which is 80 % of all bytes.)
    ///
    /// ```
    /// # use nunatak::IcebergMap;
    /// let map: IcebergMap<u64, u64> =
    ///     IcebergMap::<u64, u64>::builder().max_load(0.85).build()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    #[must_use]
    pub fn max_load(mut self, share: f64) -> Self {
        self.config.max_load = share;
        self
    }

    /// Reserves addresses for so many entries, which costs no memory. By default more than the
    /// machine has memory for. A map that has as many entries does not grow, and chains keys that
    /// find no room.
    ///
    /// ```
    /// # use nunatak::{Error, IcebergMap};
    /// let map: IcebergMap<u64, u64> =
    ///     IcebergMap::<u64, u64>::builder().max_capacity(10_000).build()?;
    /// assert_eq!(map.reserve(1_000_000), Err(Error::CapacityOverflow));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn max_capacity(mut self, entries: usize) -> Self {
        self.config.max_capacity = Some(entries);
        self
    }

    fn check(&self) -> Result<(), Error> {
        if (0.1..=0.95).contains(&self.config.max_load) {
            return Ok(());
        }
        Err(Error::InvalidOption { option: "max_load", expected: "from 0.1 to 0.95" })
    }

    /// Builds the map.
    ///
    /// # Errors
    /// If an option is out of its range, the capacity does not fit the address space, memory is
    /// refused, or the processor has no 16-byte compare-and-swap.
    ///
    /// ```
    /// # use nunatak::{Error, IcebergMap};
    /// let map: Result<IcebergMap<u64, u64>, Error> =
    ///     IcebergMap::<u64, u64>::builder().max_load(1.5).build();
    /// assert!(matches!(map, Err(Error::InvalidOption { option: "max_load", .. })));
    /// ```
    pub fn build<K: InlineKey, V: Inline>(self) -> Result<InlineMap<K, V, S, Iceberg<B>>, Error>
    where
        S: BuildHasher + Send + Sync + 'static,
    {
        self.check()?;
        let codec = self.hasher.into_codec()?;
        Ok(InlineMap::of(growing::build(codec.into_shared(), self.config, self.capacity)?))
    }

    /// Builds a set.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{IcebergMap, IcebergSet};
    /// let set: IcebergSet<u64> = IcebergMap::<u64, u64>::builder().capacity(100).build_set()?;
    /// # assert!(set.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_set<K: InlineKey>(self) -> Result<InlineSet<K, S, Iceberg<B>>, Error>
    where
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
    /// # use nunatak::{IcebergBoxedMap, IcebergMap};
    /// let map: IcebergBoxedMap<String, Vec<u8>> =
    ///     IcebergMap::<u64, u64>::builder().capacity(1000).build_boxed()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_boxed<K, V>(self) -> Result<BoxedMap<K, V, S, Iceberg<B>>, Error> {
        self.check()?;
        let table = growing::build(IdentityCodec, self.config, self.capacity)?;
        Ok(BoxedMap::of(table, self.hasher))
    }
}

impl IcebergBuilder {
    /// Builds a map of keys and values of up to 16 bytes each. Of the options it knows the capacity, whether it grows, and
    /// the load at which it does.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{IcebergMap, IcebergWideMap};
    /// let map: IcebergWideMap<u64, (u64, u64)> =
    ///     IcebergMap::<u64, u64>::builder().capacity(100_000).max_load(0.95).build_wide()?;
    /// (0..100_000).for_each(|key| _ = map.insert(key, (key, key)));
    /// assert!(map.memory_usage().mapped < 28 * 100_000);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_wide<K: WideKey, V: Wide>(self) -> Result<IcebergWideMap<K, V>, Error> {
        self.check()?;
        let config = wide::Config::of_blocks(&self.config);
        WideMap::build(self.hasher, config, self.capacity)
    }

    /// Builds a set of keys of up to 16 bytes each, with the options that [`build_wide`](Self::build_wide) knows.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// # use nunatak::{IcebergMap, IcebergWideSet};
    /// let set: IcebergWideSet<u128> =
    ///     IcebergMap::<u64, u64>::builder().capacity(100_000).max_load(0.95).build_wide_set()?;
    /// (0..100_000).for_each(|key| _ = set.insert(key << 64));
    /// assert!(set.memory_usage().mapped < 20 * 100_000);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn build_wide_set<K: WideKey>(self) -> Result<IcebergWideSet<K>, Error> {
        Ok(WideSet::of(self.build_wide()?))
    }
}

impl<K: InlineKey, V: Inline> IcebergMap<K, V> {
    /// Returns a builder for a map that differs from the default.
    ///
    /// ```
    /// # use nunatak::IcebergMap;
    /// let map: IcebergMap<u64, u64> = IcebergMap::<u64, u64>::builder().capacity(10).build()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn builder() -> IcebergBuilder {
        IcebergBuilder::default()
    }
}

impl<K, V, S, B> InlineMap<K, V, S, Iceberg<B>>
where
    K: InlineKey,
    V: Inline,
    S: BuildHasher + Send + Sync + 'static,
    B: BlockSizes,
{
    /// Returns a handle of the slot of the key's item. The item stays there until it is removed, or
    /// the map grows or shrinks. Touches what a get touches.
    ///
    /// ```
    /// # use nunatak::IcebergMap;
    /// let map: IcebergMap<u64, u64> = IcebergMap::with_capacity(1000);
    /// map.insert(1, 10);
    /// let slot = map.slot(&1).unwrap();
    /// (2..1000).for_each(|key| drop(map.insert(key, key)));
    /// assert_eq!(map.slot(&1), Some(slot));
    /// ```
    pub fn slot(&self, key: &K) -> Option<SlotHandle> {
        self.table.slot_of(key.to_word(), &ByWord)
    }

    /// Returns the key and the value in a slot, or `None` if the item was removed, or moved by a
    /// resize. A key that was removed and inserted again into the same slot is found. Touches one
    /// cache line.
    ///
    /// ```
    /// # use nunatak::IcebergMap;
    /// let map: IcebergMap<u64, u64> = IcebergMap::new();
    /// map.insert(1, 10);
    /// let slot = map.slot(&1).unwrap();
    /// map.insert(1, 11);
    /// assert_eq!(map.get_at(&slot), Some((1, 11)));
    /// map.remove(&1);
    /// assert_eq!(map.get_at(&slot), None);
    /// ```
    #[inline]
    pub fn get_at(&self, slot: &SlotHandle) -> Option<(K, V)> {
        let (key, value) = self.table.read_slot(slot)?;
        Some((K::from_word(key), V::from_word(value)))
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, B: BlockSizes> BoxedGuard<'_, K, V, S, Iceberg<B>> {
    /// Returns a handle of the slot of the key's item. The item stays there until it is removed, or
    /// the map grows or shrinks.
    ///
    /// ```
    /// # use nunatak::IcebergBoxedMap;
    /// let map: IcebergBoxedMap<String, u64> = IcebergBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// assert_eq!(map.pin().slot("a").unwrap().level(), 1);
    /// ```
    pub fn slot<Q>(&self, key: &Q) -> Option<SlotHandle>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let map = self.map();
        map.table.slot_of(map.word(key), &crate::map::boxed::is::<K, V, Q>(key))
    }

    /// Returns the key and the value in a slot, or `None` if the item was removed, or moved by a
    /// resize. Another key with the same hash may be in the slot by then: compare the key.
    ///
    /// ```
    /// # use nunatak::IcebergBoxedMap;
    /// let map: IcebergBoxedMap<String, u64> = IcebergBoxedMap::new();
    /// map.insert("a".into(), 1);
    /// let guard = map.pin();
    /// let slot = guard.slot("a").unwrap();
    /// assert_eq!(guard.get_at(&slot), Some((&"a".into(), &1)));
    /// ```
    pub fn get_at(&self, slot: &SlotHandle) -> Option<(&K, &V)> {
        let (_, word) = self.map().table.read_slot(slot)?;
        Some(self.entry(word))
    }
}

#[cfg(modelled)]
impl<K, V, S, B, const ORDERED: bool> InlineMap<K, V, S, crate::table::CheckedIceberg<B, ORDERED>>
where
    K: InlineKey,
    V: Inline,
    S: BuildHasher + Send + Sync + 'static,
    B: BlockSizes,
{
    /// As of a map in RAM.
    pub fn slot(&self, key: &K) -> Option<SlotHandle> {
        self.table.slot_of(key.to_word(), &ByWord)
    }

    /// As of a map in RAM.
    pub fn get_at(&self, slot: &SlotHandle) -> Option<(K, V)> {
        let (key, value) = self.table.read_slot(slot)?;
        Some((K::from_word(key), V::from_word(value)))
    }
}

impl<K, V> IcebergBoxedMap<K, V> {
    /// Returns a builder for a map that differs from the default;
    /// [`build_boxed`](IcebergBuilder::build_boxed) ends it.
    ///
    /// ```
    /// # use nunatak::IcebergBoxedMap;
    /// let map = IcebergBoxedMap::<String, u64>::builder().capacity(10).build_boxed::<String, u64>()?;
    /// # assert!(map.is_empty());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn builder() -> IcebergBuilder {
        IcebergBuilder::default()
    }
}
