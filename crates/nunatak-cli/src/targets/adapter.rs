//! What an adapter does, and the names of the maps that have one.

use super::Resizes;
use crate::named::Named as _;
use clap::ValueEnum;
use nunatak::Op;
use nunatak_cpp_peers::{Library, Step, Unavailable};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The hasher of every map.
pub(crate) type Hasher = foldhash::fast::RandomState;

/// A map of `u64` to `u64`.
pub(crate) trait Target: Sync + Sized {
    /// Whether the map has operations on many keys at once. If not, the methods on many keys call
    /// the single operations in turn.
    const BATCHED: bool = false;

    /// Whether the map is behind a language boundary. The unbatched loops of the workloads are then the map's
    /// own ([`run`](Self::run), [`run_each`](Self::run_each)): a call for each operation would be a part of what
    /// is measured. The loops of all other maps are in the workloads, where operations are inlined.
    const WHOLE_LOOPS: bool = false;

    /// Creates an empty map with room for `items` items. If an adapter is for several maps, `name`
    /// selects one of them.
    fn with_capacity(name: MapName, items: usize) -> Self;

    /// Creates a map with its default constructor.
    fn empty(name: MapName) -> Self;

    /// Returns a copy of the key's value.
    fn get(&self, key: u64) -> Option<u64>;

    /// Stores the value and returns the replaced value, if the map reports it.
    fn insert(&self, key: u64, value: u64) -> Option<u64>;

    /// Replaces the value if the key is present, and returns whether it is.
    fn update(&self, key: u64, value: u64) -> bool;

    /// Replaces the value by the result of `change`, atomically, and returns whether the key is
    /// present.
    fn modify(&self, key: u64, change: impl Fn(u64) -> u64) -> bool;

    /// Removes the key and returns its value.
    fn remove(&self, key: u64) -> Option<u64>;

    /// Prefetches the lines that an operation on the key reads first. Called only for maps of this
    /// [project](MapName::is_own).
    fn prefetch(&self, _key: u64) {
        unreachable!("the map has no prefetch");
    }

    /// Calls [`get`](Self::get) for every key.
    fn get_many(&self, keys: &[u64], values: &mut [Option<u64>]) {
        for (key, value) in keys.iter().zip(values) {
            *value = self.get(*key);
        }
    }

    /// Calls [`insert`](Self::insert) for every entry; returns how many calls returned `None`.
    fn insert_many(&self, entries: &[(u64, u64)], _: &mut [Option<u64>]) -> usize {
        let new = |&&(key, value): &&(u64, u64)| self.insert(key, value).is_none();
        entries.iter().filter(new).count()
    }

    /// Calls [`remove`](Self::remove) for every key.
    fn remove_many(&self, keys: &[u64], removed: &mut [Option<u64>]) {
        for (key, removed) in keys.iter().zip(removed) {
            *removed = self.remove(*key);
        }
    }

    /// Executes mixed operations in their order, and stores their outcomes. Called only for maps
    /// with [batches](Self::BATCHED).
    fn execute(&self, _: &mut [Op<u64, u64>]) {
        unreachable!("the map has no batches");
    }

    /// Does one thing with every key, checks the outcomes, and returns how many were wrong. Called only for
    /// maps with [loops of their own](Self::WHOLE_LOOPS), as are the two methods below.
    fn run(&self, _: Step, _keys: &[u64]) -> usize {
        unreachable!("the loops are in the workloads");
    }

    /// The same with a step for each key. Updates store values of this version.
    fn run_each(&self, _: &[Step], _keys: &[u64], _version: u64) -> usize {
        unreachable!("the loops are in the workloads");
    }

    /// The same as [`run`](Self::run), by the map's operation on many keys.
    fn run_batch(&self, _: Step, _keys: &[u64]) -> usize {
        unreachable!("the loops are in the workloads");
    }

    /// Returns whether the map gets many keys at once.
    fn gets_batches(&self) -> bool {
        Self::BATCHED
    }

    /// Inserts entries and returns when all of them survive a power cut. Called only for
    /// [durable](MapName::is_durable) maps.
    fn insert_synced(&self, _: &[(u64, u64)]) {
        unreachable!("the map is not durable");
    }

    /// Closes the map and opens it again, with `threads` threads if the map can use them. Called
    /// only for [durable](MapName::is_durable) maps.
    fn reopen(&mut self, _threads: usize) {
        unreachable!("the map is not durable");
    }

    /// Returns how many bytes the map occupies in memory or in its files, if it knows.
    fn bytes(&self) -> Option<usize> {
        None
    }

    /// Returns the share of the slots that hold an item, if the map knows.
    fn load_factor(&self) -> Option<f64> {
        None
    }

    /// Returns the shares of the items in levels 1, 2 and 3, if the map has levels.
    fn levels(&self) -> Option<[f64; 3]> {
        None
    }

    /// Returns the splits or rehashes so far, if the map counts them.
    fn resizes(&self) -> Option<Resizes> {
        None
    }
}

/// A map of words to counters.
pub(crate) trait WordTarget: Sync + Sized {
    /// Creates a map with its default constructor.
    fn empty() -> Self;

    /// Increments the word's counter, which begins at zero.
    fn count(&self, word: &str);

    /// Calls `visit` with every word and its count.
    fn for_each(&self, visit: impl FnMut(&str, u64));
}

/// A map that the user can choose.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize,
)]
pub(crate) enum MapName {
    /// nunatak::DlhtMap, and nunatak::DlhtBoxedMap for words.
    #[value(alias = "nunatak")]
    Dlht,
    /// nunatak::IcebergMap, and nunatak::IcebergBoxedMap for words.
    Iceberg,
    /// nunatak::PeaMap, and nunatak::PeaBoxedMap for words.
    Pea,
    /// nunatak::TurboMap, and nunatak::TurboBoxedMap for words.
    Turbo,
    /// dashmap::DashMap.
    Dashmap,
    /// papaya::HashMap, with a guard for each operation.
    Papaya,
    /// scc::HashMap.
    Scc,
    /// flurry::HashMap, with a guard for each operation.
    Flurry,
    /// 256 shards of `parking_lot::RwLock<hashbrown::HashMap>`.
    Sharded,
    /// oneTBB's concurrent_hash_map. This map and the three below are C++: build with --features cpp-peers.
    Tbb,
    /// libcuckoo's cuckoohash_map.
    Libcuckoo,
    /// Boost's concurrent_flat_map.
    Boost,
    /// 256 shards of Abseil's flat_hash_map, each behind a std::mutex.
    AbslSharded,
    /// nunatak::IcebergMap that doubles when 85 % of its slots are taken, as the paper's.
    #[value(name = "iceberg-85")]
    Iceberg85,
    /// nunatak::IcebergMap that fills 95 % of its slots.
    #[value(name = "iceberg-95")]
    Iceberg95,
    /// The same with blocks of 64 and 6 slots instead of 64 and 8.
    #[value(name = "iceberg-64x6")]
    Iceberg64x6,
    /// The same with blocks of 64 and 4 slots.
    #[value(name = "iceberg-64x4")]
    Iceberg64x4,
    /// The same with blocks of 32 and 8 slots.
    #[value(name = "iceberg-32x8")]
    Iceberg32x8,
    /// The same with blocks of 32 and 6 slots.
    #[value(name = "iceberg-32x6")]
    Iceberg32x6,
    /// The same with blocks of 32 and 4 slots.
    #[value(name = "iceberg-32x4")]
    Iceberg32x4,
    /// nunatak::PeaMap with single hashing alone.
    PeaSingle,
    /// The same with two choices alone.
    PeaTwoChoice,
    /// The same with two choices and a stash.
    PeaStash,
    /// The same with single hashing, then two choices.
    PeaNoStash,
    /// nunatak::TurboMap with 65,536 shards.
    #[value(name = "turbo-64k")]
    Turbo64k,
    /// nunatak::durable::IcebergMap; operations survive the end of the process.
    #[cfg(durable)]
    #[value(name = "iceberg-file")]
    IcebergFile,
    /// The same with a journal of 64 MiB.
    #[cfg(durable)]
    #[value(name = "iceberg-journal")]
    IcebergJournal,
    /// The same with huge pages, if the file system has them.
    #[cfg(durable)]
    #[value(name = "iceberg-file-huge")]
    IcebergHugePages,
    /// nunatak::durable::PeaMap; operations survive the end of the process.
    #[cfg(durable)]
    PeaFile,
    /// The same; what is synced at once is an atomic batch.
    #[cfg(durable)]
    PeaFileAtomic,
    /// nunatak::durable::PeaMap with single hashing alone.
    #[cfg(durable)]
    PeaFileSingle,
    /// The same with two choices alone.
    #[cfg(durable)]
    PeaFileTwoChoice,
    /// The same with two choices and a stash.
    #[cfg(durable)]
    PeaFileStash,
    /// The same with single hashing, then two choices.
    #[cfg(durable)]
    PeaFileNoStash,
    /// nunatak::durable::TurboMap; operations survive the end of the process.
    #[cfg(durable)]
    TurboFile,
    /// The same; what is synced at once is an atomic batch.
    #[cfg(durable)]
    TurboFileAtomic,
    /// LMDB by heed, with a transaction for each operation, not synced, in a writable mapping;
    /// operations survive the end of the process.
    Lmdb,
    /// redb, with a transaction of durability None for each operation; operations are lost at the
    /// end of the process.
    Redb,
    /// fjall, with blind puts; operations survive the end of the process.
    Fjall,
    /// sled 0.34; operations of the last half second may be lost.
    Sled,
    /// RocksDB, with blind puts; operations survive the end of the process.
    #[cfg(feature = "rocksdb")]
    Rocksdb,
}

impl MapName {
    /// The maps that are compared by default.
    pub(crate) const COMPARED: [Self; 9] = [
        Self::Dlht,
        Self::Iceberg,
        Self::Pea,
        Self::Turbo,
        Self::Dashmap,
        Self::Papaya,
        Self::Scc,
        Self::Flurry,
        Self::Sharded,
    ];

    /// Returns the map of a row. The row's name may have a level of durability behind the map's.
    pub(crate) fn of_row(row: &str) -> Option<Self> {
        let name = row.split_once('@').map_or(row, |(name, _)| name);
        Self::value_variants().iter().copied().find(|map| map.name() == name)
    }

    /// Returns whether the map keeps its items in files.
    pub(crate) fn is_durable(self) -> bool {
        let name = self.name();
        name.contains("-file")
            || ["iceberg-journal", "lmdb", "redb", "fjall", "sled", "rocksdb"].contains(&&*name)
    }

    /// Returns the library of a map of C++.
    pub(crate) fn library(self) -> Option<Library> {
        match self {
            Self::Tbb => Some(Library::Tbb),
            Self::Libcuckoo => Some(Library::Libcuckoo),
            Self::Boost => Some(Library::Boost),
            Self::AbslSharded => Some(Library::AbslSharded),
            _ => None,
        }
    }

    /// Returns the map if it is in this build, else an error that says what the build needs.
    pub(crate) fn in_this_build(self) -> Result<Self, String> {
        let is_database = [Self::Lmdb, Self::Redb, Self::Fjall, Self::Sled].contains(&self);
        if is_database && !cfg!(feature = "databases") {
            return Err("it is not in this build: build with --features databases".to_owned());
        }
        // Each shape is a type of its own, for which all workloads are compiled again.
        let is_other_shape = [
            Self::Iceberg64x6,
            Self::Iceberg64x4,
            Self::Iceberg32x8,
            Self::Iceberg32x6,
            Self::Iceberg32x4,
        ]
        .contains(&self);
        if is_other_shape && !cfg!(feature = "experiments") {
            return Err("it is not in this build: build with --features experiments".to_owned());
        }
        let Some(Err(unavailable)) = self.library().map(Library::check) else { return Ok(self) };
        Err(match unavailable {
            Unavailable::NotCompiled => format!(
                "{unavailable}: install their libraries by scripts/peers.sh, and build with --features cpp-peers"
            ),
            _ => format!("{unavailable}: install it (scripts/peers.sh), and build again"),
        })
    }

    /// Returns whether it is a map of this project.
    pub(crate) fn is_own(self) -> bool {
        ["dlht", "iceberg", "pea", "turbo"].iter().any(|own| self.name().starts_with(own))
    }
}

impl fmt::Display for MapName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}
