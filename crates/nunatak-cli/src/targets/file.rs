//! `nunatak::durable::IcebergMap`, `PeaMap` and `TurboMap` in a temporary file.

use super::{MapName, Resizes, Target, Told};
use crate::clock::Clock;
use crate::medium::{Level, Medium, SlowMemory};
use nunatak::durable::{DurableDesign, InFile, Map, Options};
use nunatak::{Iceberg, Op, Stop, Strategy};
use tempfile::TempDir;

pub(crate) struct Filed<D: DurableDesign> {
    map: Option<Map<u64, u64, D>>,
    options: Options,
    directory: TempDir,
    /// Memory whose latency single operations wait for, if it is emulated.
    slow: Option<SlowMemory>,
    /// Whether what is synced at once is an atomic batch.
    is_atomic: bool,
}

/// Returns the options that create and open a map of this name, in addition to those of the run.
fn options_of(name: MapName, options: Options) -> Options {
    match name {
        MapName::IcebergJournal => options.journal(64 << 20),
        MapName::IcebergHugePages => options.huge_pages(true),
        MapName::PeaFileSingle => options.strategies(&[Strategy::Single]),
        MapName::PeaFileTwoChoice => options.strategies(&[Strategy::TwoChoice]),
        MapName::PeaFileStash => options.strategies(&[Strategy::Stash]),
        MapName::PeaFileNoStash => options.strategies(&[Strategy::Single, Strategy::TwoChoice]),
        _ => options,
    }
}

const WORKS: &str = "the disk has room for the file";
const LONG_ENOUGH: &str = "the results are as many as the requests";

impl<D: DurableDesign> Filed<D> {
    fn map(&self) -> &Map<u64, u64, D> {
        self.map.as_ref().expect("it is open but while it is opened again")
    }

    fn create(name: MapName, items: Option<usize>) -> Self {
        let medium = Medium::used();
        let options = options_of(name, medium.options());
        let options = match items {
            Some(items) => options.capacity(items),
            None => options,
        };
        let directory = medium.folder().expect(WORKS);
        let slow = |read| SlowMemory::new(Clock::calibrated(), read);
        let waits = medium.durability == Level::PersistentMemory;
        let slow = medium.device_latency.filter(|_| waits).map(|latency| slow(latency.read));
        let map = Map::create_with(directory.path().join("map"), &options);
        let is_atomic = [MapName::PeaFileAtomic, MapName::TurboFileAtomic].contains(&name);
        Self { map: Some(map.expect(WORKS)), options, directory, slow, is_atomic }
    }

    /// Returns the map when the first line of an operation on the key has arrived.
    #[inline(always)]
    fn map_at(&self, key: u64) -> &Map<u64, u64, D>
    where
        Map<u64, u64, D>: Sync,
    {
        let map = self.map();
        if let Some(slow) = &self.slow {
            let asked = slow.ask();
            map.prefetch(&key);
            slow.wait(asked);
        }
        map
    }
}

impl<D: Special> Target for Filed<D>
where
    Map<u64, u64, D>: Sync,
    D::Stats: Told,
{
    const BATCHED: bool = true;

    fn with_capacity(name: MapName, items: usize) -> Self {
        Self::create(name, Some(items))
    }

    fn empty(name: MapName) -> Self {
        Self::create(name, None)
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.map_at(key).get(&key)
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> Option<u64> {
        self.map_at(key).insert(key, value).expect(WORKS)
    }

    #[inline]
    fn update(&self, key: u64, value: u64) -> bool {
        self.map_at(key).update(&key, value).expect(WORKS).is_some()
    }

    #[inline]
    fn modify(&self, key: u64, change: impl Fn(u64) -> u64) -> bool {
        let change = |value: &u64| Some(change(*value));
        self.map_at(key).fetch_update(&key, change).expect(WORKS).is_ok()
    }

    #[inline]
    fn remove(&self, key: u64) -> Option<u64> {
        self.map_at(key).remove(&key).expect(WORKS)
    }

    #[inline]
    fn prefetch(&self, key: u64) {
        self.map().prefetch(&key);
    }

    #[inline]
    fn get_many(&self, keys: &[u64], values: &mut [Option<u64>]) {
        self.map().get_many(keys, values).expect(LONG_ENOUGH);
    }

    #[inline]
    fn insert_many(&self, entries: &[(u64, u64)], previous: &mut [Option<u64>]) -> usize {
        self.map().insert_many(entries, previous).expect(WORKS)
    }

    #[inline]
    fn remove_many(&self, keys: &[u64], removed: &mut [Option<u64>]) {
        self.map().remove_many(keys, removed).expect(WORKS);
    }

    #[inline]
    fn execute(&self, operations: &mut [Op<u64, u64>]) {
        self.map().execute(operations, Stop::Never).expect(WORKS);
    }

    fn insert_synced(&self, entries: &[(u64, u64)]) {
        if self.is_atomic {
            let changes = entries.iter().map(|&(key, value)| (key, Some(value)));
            D::write_batch(self.map(), &changes.collect::<Vec<_>>());
        } else {
            self.insert_many(entries, &mut vec![None; entries.len()]);
        }
        self.map().sync().expect(WORKS);
    }

    fn reopen(&mut self, threads: usize) {
        if let Some(map) = self.map.take() {
            map.close().expect(WORKS);
        }
        let options = self.options.clone().threads(threads);
        let map = Map::open_with(self.directory.path().join("map"), &options);
        self.map = Some(map.expect(WORKS));
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.map().file_bytes() as usize)
    }

    fn load_factor(&self) -> Option<f64> {
        Some(self.map().load_factor())
    }

    fn levels(&self) -> Option<[f64; 3]> {
        self.map().stats().levels()
    }

    fn resizes(&self) -> Option<Resizes> {
        self.map().stats().resizes()
    }
}

/// What only some designs have: atomic batches.
pub(crate) trait Special: DurableDesign {
    fn write_batch(map: &Map<u64, u64, Self>, changes: &[(u64, Option<u64>)]);
}

impl Special for InFile<Iceberg> {
    fn write_batch(_map: &Map<u64, u64, Self>, _changes: &[(u64, Option<u64>)]) {
        unreachable!("no name asks for it: this design has no atomic batches")
    }
}

impl Special for InFile<nunatak::Pea> {
    fn write_batch(map: &Map<u64, u64, Self>, changes: &[(u64, Option<u64>)]) {
        map.write_batch(changes).expect(WORKS);
    }
}

impl Special for InFile<nunatak::Turbo> {
    fn write_batch(map: &Map<u64, u64, Self>, changes: &[(u64, Option<u64>)]) {
        map.write_batch(changes).expect(WORKS);
    }
}
