//! [`DlhtMap`]: keys and values in the slots themselves.

use super::Compute;
#[cfg(doc)]
use super::ConcurrentMap;
use crate::entry::{Inline, InlineKey};
use crate::error::Error;
use crate::hash::{Hashing, RandomState};
use crate::mode::{Mode, Shared, SingleThread};
use crate::table::dlht::{ByWord, Change, Config, Table};
use core::marker::PhantomData;

/// The fastest map in RAM for keys and values of at most 8 bytes.
///
/// A get touches one cache line if its bin has no links, which holds for nine
/// of ten, and writes nothing that other threads use; an insert or a remove
/// does two atomic read-modify-writes on that line, an update one. It grows in
/// parallel with all operations. Source: DLHT (HPDC '24), sections 3.1–3.4.
///
/// Operations are linearizable and lock-free but for two rare waits: for the
/// few instructions in which another thread moves a key's own bin, and for the
/// moment in which a snapshot is cut (changes only).
///
/// `S` is a `BuildHasher` or [`Modulo`](crate::Modulo); `M` says whether
/// threads share the map ([`DlhtLocalMap`](crate::DlhtLocalMap) is for one).
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
pub struct DlhtMap<K, V, S: Hashing = RandomState, M: Mode = Shared> {
    pub(super) table: Table<S::Placement, M>,
    entries: PhantomData<(K, V)>,
}

/// A [`DlhtMap`] of one thread: the same algorithms without synchronization
/// (section 3.4.5). It can be sent to another thread, but not shared.
///
/// ```
/// use nunatak::DlhtLocalMap;
/// let map: DlhtLocalMap<u64, u64> = DlhtLocalMap::new();
/// map.insert(1, 10);
/// assert_eq!(map.remove(&1), Some(10));
/// ```
pub type DlhtLocalMap<K, V, S = RandomState> = DlhtMap<K, V, S, SingleThread>;

/// How to build a [`DlhtMap`], [`DlhtSet`](crate::DlhtSet) or
/// [`DlhtBoxedMap`](crate::DlhtBoxedMap): capacity, hasher, and every constant
/// that the paper varies.
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

    /// The bins of an empty map (64 bytes each): an even number, 16 by default.
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

    /// One link bucket for so many bins: 8 by default, 4 to 64. Fewer bins a
    /// link fill the map further before it grows: to 65 % of its slots with 8,
    /// 71 % with 5.
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

    /// By how much the bins are multiplied when the map grows: 2 to 64. By
    /// default 8 below 4,096 bins, 4 below 64 Mi bins, 2 above.
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

    /// How many bins a thread that comes upon a growing map moves before it
    /// goes on with its own operation: at least 1.
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
        let Config { initial_bins, bins_per_link, growth_factor, chunk_bins } = self.config;
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
    /// An option out of its range, a capacity that does not fit the address
    /// space, memory that is refused, or a processor without a 16-byte
    /// compare-and-swap.
    ///
    /// ```
    /// # use nunatak::{DlhtMap, Error};
    /// let map: Result<DlhtMap<u64, u64>, Error> =
    ///     DlhtMap::<u64, u64>::builder().initial_bins(3).build();
    /// assert!(matches!(map, Err(Error::InvalidOption { option: "initial_bins", .. })));
    /// ```
    pub fn build<K: InlineKey, V: Inline, M: Mode>(self) -> Result<DlhtMap<K, V, S, M>, Error>
    where
        S: Hashing,
    {
        self.check()?;
        let placement = self.hasher.into_placement()?;
        let table = Table::new(placement, self.config, self.capacity)?;
        Ok(DlhtMap { table, entries: PhantomData })
    }
}

impl<K: InlineKey, V: Inline> DlhtMap<K, V> {
    /// How to build a map that differs from the default.
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

impl<K: InlineKey, V: Inline, S: Hashing + Default, M: Mode> DlhtMap<K, V, S, M> {
    /// An empty map of a few cache lines.
    ///
    /// # Panics
    /// If the memory for it is refused.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert!(map.is_empty());
    /// ```
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty map with room for `capacity` entries.
    ///
    /// # Panics
    /// If the memory is refused; see [`try_with_capacity`](Self::try_with_capacity).
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u32, f32> = DlhtMap::with_capacity(1000);
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_capacity(capacity: usize) -> Self {
        match Self::try_with_capacity(capacity) {
            Ok(map) => map,
            Err(error) => panic!("{error}"),
        }
    }

    /// An empty map with room for `capacity` entries.
    ///
    /// # Errors
    /// If the capacity or the memory for it is not to be had.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// assert!(DlhtMap::<u64, u64>::try_with_capacity(1 << 60).is_err());
    /// ```
    pub fn try_with_capacity(capacity: usize) -> Result<Self, Error> {
        DlhtBuilder::default().hasher(S::default()).capacity(capacity).build()
    }
}

impl<K: InlineKey, V: Inline, S: Hashing, M: Mode> DlhtMap<K, V, S, M> {
    /// An empty map that hashes with `hasher`.
    ///
    /// # Panics
    /// If the memory for it is refused.
    ///
    /// ```
    /// # use nunatak::{DlhtMap, Modulo};
    /// let map: DlhtMap<u64, u64, Modulo> = DlhtMap::with_hasher(Modulo);
    /// # assert!(map.is_empty());
    /// ```
    pub fn with_hasher(hasher: S) -> Self {
        match DlhtBuilder::default().hasher(hasher).build() {
            Ok(map) => map,
            Err(error) => panic!("{error}"),
        }
    }

    #[inline(always)]
    fn apply(&self, key: K, fresh: Option<V>, change: impl Fn(u64) -> Change) -> Option<V> {
        let fresh = fresh.map(V::to_word);
        self.table.apply(key.to_word(), &ByWord, fresh, change).map(V::from_word)
    }

    /// Replaces the word `current` by `new`; the word that is there instead, if not.
    fn replace_word(&self, key: K, current: u64, change: Change) -> Result<(), Option<u64>> {
        let exact = |word| if word == current { change } else { Change::Keep };
        match self.table.apply(key.to_word(), &ByWord, None, exact) {
            Some(before) if before == current => Ok(()),
            other => Err(other),
        }
    }

    /// [`ConcurrentMap::get`]: one cache line, mostly; writes nothing.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, char> = DlhtMap::new();
    /// map.insert(1, 'a');
    /// assert_eq!((map.get(&1), map.get(&2)), (Some('a'), None));
    /// ```
    // Always: a call and the registers it saves are a quarter of a get, and the
    // shorter it is the more gets the processor overlaps.
    #[inline(always)]
    pub fn get(&self, key: &K) -> Option<V> {
        self.table.find(key.to_word(), &ByWord).map(V::from_word)
    }

    /// [`ConcurrentMap::contains_key`]: as a get.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<bool, u8> = DlhtMap::new();
    /// map.insert(true, 1);
    /// assert!(map.contains_key(&true) && !map.contains_key(&false));
    /// ```
    #[inline]
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// [`ConcurrentMap::insert`]: stores the value and returns what it replaced.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.insert(1, 10), None);
    /// assert_eq!(map.insert(1, 11), Some(10));
    /// ```
    #[inline]
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        let word = value.to_word();
        self.apply(key, Some(value), |_| Change::To(word))
    }

    /// [`ConcurrentMap::try_insert`]: stores the value if the key is absent.
    ///
    /// # Errors
    /// The value that is present.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.try_insert(1, 10), Ok(()));
    /// assert_eq!(map.try_insert(1, 11), Err(10));
    /// ```
    #[inline]
    pub fn try_insert(&self, key: K, value: V) -> Result<(), V> {
        match self.apply(key, Some(value), |_| Change::Keep) {
            None => Ok(()),
            Some(present) => Err(present),
        }
    }

    /// [`ConcurrentMap::update`]: replaces the value if the key is present.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// assert_eq!((map.update(&1, 11), map.update(&2, 20)), (Some(10), None));
    /// ```
    #[inline]
    pub fn update(&self, key: &K, value: V) -> Option<V> {
        let word = value.to_word();
        self.apply(*key, None, |_| Change::To(word))
    }

    /// [`ConcurrentMap::compare_exchange`]: replaces a value that is `current`.
    ///
    /// # Errors
    /// The value that is present instead, `None` if the key is absent.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// assert_eq!(map.compare_exchange(&1, &10, 11), Ok(10));
    /// assert_eq!(map.compare_exchange(&1, &10, 12), Err(Some(11)));
    /// ```
    pub fn compare_exchange(&self, key: &K, current: &V, new: V) -> Result<V, Option<V>>
    where
        V: PartialEq,
    {
        // Equal values may have different words (zeros of a float).
        self.fetch_update(key, |present| (present == current).then_some(new))
    }

    /// [`ConcurrentMap::fetch_update`]: replaces a value by what `f` makes of it.
    ///
    /// # Errors
    /// The value that `f` declined, `None` if the key is absent.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// assert_eq!(map.fetch_update(&1, |value| Some(value + 1)), Ok(10));
    /// assert_eq!(map.get(&1), Some(11));
    /// ```
    pub fn fetch_update<F>(&self, key: &K, mut f: F) -> Result<V, Option<V>>
    where
        F: FnMut(&V) -> Option<V>,
    {
        let mut present = self.table.find(key.to_word(), &ByWord);
        loop {
            let Some(current) = present else { return Err(None) };
            let value = V::from_word(current);
            let Some(new) = f(&value) else { return Err(Some(value)) };
            match self.replace_word(*key, current, Change::To(new.to_word())) {
                Ok(()) => return Ok(value),
                Err(newer) => present = newer,
            }
        }
    }

    /// [`ConcurrentMap::compute`]: decides on a key by its present value.
    ///
    /// ```
    /// # use nunatak::{Compute, DlhtMap};
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// for _ in 0..3 {
    ///     map.compute(1, |count| Compute::Put(count.map_or(1, |count| count + 1)));
    /// }
    /// assert_eq!(map.get(&1), Some(3));
    /// ```
    pub fn compute<F>(&self, key: K, mut f: F) -> Option<V>
    where
        F: FnMut(Option<&V>) -> Compute<V>,
    {
        let mut present = self.table.find(key.to_word(), &ByWord);
        loop {
            let value = present.map(V::from_word);
            let attempt = match (f(value.as_ref()), present) {
                (Compute::Keep, _) | (Compute::Remove, None) => return value,
                (Compute::Put(new), Some(current)) => {
                    self.replace_word(key, current, Change::To(new.to_word()))
                }
                (Compute::Put(new), None) => match self.apply(key, Some(new), |_| Change::Keep) {
                    None => Ok(()),
                    Some(newer) => Err(Some(newer.to_word())),
                },
                (Compute::Remove, Some(current)) => self.replace_word(key, current, Change::Remove),
            };
            match attempt {
                Ok(()) => return value,
                Err(newer) => present = newer,
            }
        }
    }

    /// [`ConcurrentMap::get_or_insert_with`]: the value, made if it is absent.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = DlhtMap::new();
    /// assert_eq!(map.get_or_insert_with(1, || 10), 10);
    /// assert_eq!(map.get_or_insert_with(1, || 11), 10);
    /// ```
    pub fn get_or_insert_with<F: FnOnce() -> V>(&self, key: K, make: F) -> V {
        match self.get(&key) {
            Some(value) => value,
            None => {
                let value = make();
                self.apply(key, Some(value), |_| Change::Keep).unwrap_or(value)
            }
        }
    }

    /// [`ConcurrentMap::remove`]: takes the key out; its slot is free at once.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// assert_eq!((map.remove(&1), map.remove(&1)), (Some(10), None));
    /// ```
    #[inline]
    pub fn remove(&self, key: &K) -> Option<V> {
        self.apply(*key, None, |_| Change::Remove)
    }

    /// [`ConcurrentMap::remove_if`]: takes the key out if its value is right.
    ///
    /// ```
    /// # use nunatak::DlhtMap;
    /// let map: DlhtMap<u64, u64> = [(1, 10)].into_iter().collect();
    /// assert_eq!(map.remove_if(&1, |value| *value > 10), None);
    /// assert_eq!(map.remove_if(&1, |value| *value > 9), Some(10));
    /// ```
    pub fn remove_if<F: FnMut(&V) -> bool>(&self, key: &K, mut condition: F) -> Option<V> {
        let mut present = self.table.find(key.to_word(), &ByWord);
        loop {
            let current = present?;
            let value = V::from_word(current);
            if !condition(&value) {
                return None;
            }
            match self.replace_word(*key, current, Change::Remove) {
                Ok(()) => return Some(value),
                Err(newer) => present = newer,
            }
        }
    }
}
