//! Adapters of all designs: `nunatak::DlhtMap`, `nunatak::IcebergMap`, `nunatak::PeaMap` and
//! `nunatak::TurboMap` with batches, and their boxed maps for words.

use super::{Hasher, MapName, Resizes, Target, Told, WordTarget};
use nunatak::{
    BlockSizes, BoxedMap, Design, Dlht, Error, HashesWith, Iceberg, IcebergMap, InlineMap, Op, Pea,
    PeaBuilder, Stop, Strategy, Turbo, TurboBuilder, Unshadowed,
};
use std::sync::atomic::{AtomicU64, Ordering};

const LONG_ENOUGH: &str = "the results are as many as the requests";

/// The map of numbers that a name stands for.
type Made<D> = InlineMap<u64, u64, Hasher, D>;

/// A design whose maps differ by what their builder was told. (One type for all of these: each type is compiled with every
/// workload.)
pub(crate) trait Make: HashesWith<Hasher> + Unshadowed {
    /// Makes a map with other than the usual options, if the name stands for such a one.
    fn unusual(_name: MapName, _items: usize) -> Option<Result<Made<Self>, Error>> {
        None
    }
}

impl Make for Dlht {}

/// With some of its strategies: figure 7 of the paper.
impl Make for Pea {
    fn unusual(name: MapName, items: usize) -> Option<Result<Made<Self>, Error>> {
        let strategies: &[Strategy] = match name {
            MapName::PeaSingle => &[Strategy::Single],
            MapName::PeaTwoChoice => &[Strategy::TwoChoice],
            MapName::PeaStash => &[Strategy::Stash],
            MapName::PeaNoStash => &[Strategy::Single, Strategy::TwoChoice],
            _ => return None,
        };
        let builder = PeaBuilder::<Hasher>::default().strategies(strategies);
        Some(builder.capacity(items).build())
    }
}

impl Make for Turbo {
    fn unusual(name: MapName, items: usize) -> Option<Result<Made<Self>, Error>> {
        let builder = TurboBuilder::<Hasher>::default().shards(1 << 16);
        (name == MapName::Turbo64k).then(|| builder.capacity(items).build())
    }
}

/// Fills 95 of 100 slots in the paper's experiments without growth, 85 in those with it.
impl<B: BlockSizes> Make for Iceberg<B> {
    fn unusual(name: MapName, items: usize) -> Option<Result<Made<Self>, Error>> {
        let max_load = match name {
            MapName::Iceberg => return None,
            MapName::Iceberg85 => 0.85,
            _ => 0.95,
        };
        let builder = IcebergMap::<u64, u64>::builder().blocks().max_load(max_load);
        Some(builder.capacity(items).build())
    }
}

/// A map of numbers.
pub(crate) struct Numbers<D: Make>(Made<D>);

const MEMORY: &str = "memory for all items";

impl<D: Make> Target for Numbers<D>
where
    Made<D>: Sync,
    D::Stats: Told,
{
    const BATCHED: bool = true;

    fn with_capacity(name: MapName, items: usize) -> Self {
        let usual = || Made::with_capacity_and_hasher(items, Hasher::default());
        Self(D::unusual(name, items).map_or_else(usual, |map| map.expect(MEMORY)))
    }

    fn empty(name: MapName) -> Self {
        Self(D::unusual(name, 0).map_or_else(Made::default, |map| map.expect(MEMORY)))
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
