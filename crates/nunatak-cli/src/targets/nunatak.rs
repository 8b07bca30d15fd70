//! Adapters of all designs: `nunatak::DlhtMap`, `nunatak::IcebergMap`, `nunatak::PeaMap` and
//! `nunatak::TurboMap` with batches, and their boxed maps for words.

use super::{Hasher, MapName, Resizes, Target, Told, WordTarget};
use nunatak::{
    BlockSizes, Blocks, BoxedMap, Design, Dlht, HashesWith, Iceberg, IcebergMap, InlineMap, Op,
    Pea, PeaBuilder, PeaMap, Stop, Strategy, Turbo, TurboBuilder, TurboMap, Unshadowed,
};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

const LONG_ENOUGH: &str = "the results are as many as the requests";

/// A way to make a map of numbers.
pub(crate) trait Make: 'static {
    type Design: HashesWith<Hasher> + Unshadowed;

    /// Makes a map with room for `items` items.
    fn with_capacity(items: usize) -> InlineMap<u64, u64, Hasher, Self::Design> {
        InlineMap::with_capacity_and_hasher(items, Hasher::default())
    }

    /// Makes a map with its default constructor.
    fn empty() -> InlineMap<u64, u64, Hasher, Self::Design> {
        InlineMap::default()
    }
}

impl Make for Dlht {
    type Design = Self;
}

impl Make for Pea {
    type Design = Self;
}

/// Pea Hash with its strategies `FROM` to `TO`: figure 7 of the paper.
pub(crate) struct Strategies<const FROM: usize, const TO: usize>;

impl<const FROM: usize, const TO: usize> Make for Strategies<FROM, TO> {
    type Design = Pea;

    fn with_capacity(items: usize) -> PeaMap<u64, u64, Hasher> {
        let all = [Strategy::Single, Strategy::TwoChoice, Strategy::Stash];
        let builder = PeaBuilder::<Hasher>::default().strategies(&all[FROM..=TO]);
        builder.capacity(items).build().expect("memory for all items")
    }

    fn empty() -> PeaMap<u64, u64, Hasher> {
        Self::with_capacity(0)
    }
}

impl Make for Turbo {
    type Design = Self;
}

/// TurboHash with `SHARDS` shards.
pub(crate) struct OfShards<const SHARDS: usize>;

impl<const SHARDS: usize> Make for OfShards<SHARDS> {
    type Design = Turbo;

    fn with_capacity(items: usize) -> TurboMap<u64, u64, Hasher> {
        let builder = TurboBuilder::<Hasher>::default().shards(SHARDS);
        builder.capacity(items).build().expect("memory for all items")
    }

    fn empty() -> TurboMap<u64, u64, Hasher> {
        Self::with_capacity(0)
    }
}

impl Make for Iceberg {
    type Design = Self;
}

/// IcebergHT with blocks of these sizes, which fills `PERCENT` of its slots: 95 in the paper's
/// experiments without growth, 85 in those with it.
pub(crate) struct Full<B: BlockSizes = Blocks, const PERCENT: u32 = 95>(PhantomData<B>);

impl<B: BlockSizes, const PERCENT: u32> Make for Full<B, PERCENT> {
    type Design = Iceberg<B>;

    fn with_capacity(items: usize) -> InlineMap<u64, u64, Hasher, Iceberg<B>> {
        let max_load = f64::from(PERCENT) / 100.0;
        let builder = IcebergMap::<u64, u64>::builder().blocks().max_load(max_load);
        builder.capacity(items).build().expect("memory for all items")
    }

    fn empty() -> InlineMap<u64, u64, Hasher, Iceberg<B>> {
        Self::with_capacity(0)
    }
}

/// A map of numbers that `M` makes.
pub(crate) struct Numbers<M: Make>(InlineMap<u64, u64, Hasher, M::Design>);

impl<M: Make> Target for Numbers<M>
where
    InlineMap<u64, u64, Hasher, M::Design>: Sync,
    <M::Design as Design>::Stats: Told,
{
    const BATCHED: bool = true;

    fn with_capacity(_: MapName, items: usize) -> Self {
        Self(M::with_capacity(items))
    }

    fn empty(_: MapName) -> Self {
        Self(M::empty())
    }

    #[inline]
    fn prefetch(&self, key: u64) {
        self.0.prefetch(&key);
    }

    fn levels(&self) -> Option<[f64; 3]> {
        self.0.stats().levels()
    }

    fn resizes(&self) -> Option<Resizes> {
        self.0.stats().resizes()
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key)
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> Option<u64> {
        self.0.insert(key, value)
    }

    #[inline]
    fn update(&self, key: u64, value: u64) -> bool {
        self.0.update(&key, value).is_some()
    }

    #[inline]
    fn modify(&self, key: u64, change: impl Fn(u64) -> u64) -> bool {
        let change = |value: &u64| Some(change(*value));
        self.0.fetch_update(&key, change).is_ok()
    }

    #[inline]
    fn remove(&self, key: u64) -> Option<u64> {
        self.0.remove(&key)
    }

    #[inline]
    fn get_many(&self, keys: &[u64], values: &mut [Option<u64>]) {
        self.0.get_many(keys, values).expect(LONG_ENOUGH);
    }

    #[inline]
    fn insert_many(&self, entries: &[(u64, u64)], previous: &mut [Option<u64>]) -> usize {
        self.0.insert_many(entries, previous).expect(LONG_ENOUGH)
    }

    #[inline]
    fn remove_many(&self, keys: &[u64], removed: &mut [Option<u64>]) {
        self.0.remove_many(keys, removed).expect(LONG_ENOUGH);
    }

    #[inline]
    fn execute(&self, operations: &mut [Op<u64, u64>]) {
        self.0.execute(operations, Stop::Never);
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.0.memory_usage().resident)
    }

    fn load_factor(&self) -> Option<f64> {
        Some(self.0.load_factor())
    }
}

/// A map of words to counters, of design `D`.
pub(crate) struct Words<D: Design>(BoxedMap<Box<str>, AtomicU64, Hasher, D>);

impl<D: Design> WordTarget for Words<D>
where
    BoxedMap<Box<str>, AtomicU64, Hasher, D>: Sync,
{
    fn empty() -> Self {
        Self(BoxedMap::default())
    }

    #[inline]
    fn count(&self, word: &str) {
        let increment = |count: &AtomicU64| count.fetch_add(1, Ordering::Relaxed);
        self.0.get_with_or_insert_by_ref(word, AtomicU64::default, increment);
    }

    fn for_each(&self, mut visit: impl FnMut(&str, u64)) {
        let entries = self.0.pin();
        for (word, count) in entries.iter() {
            visit(word, count.load(Ordering::Relaxed));
        }
    }
}
