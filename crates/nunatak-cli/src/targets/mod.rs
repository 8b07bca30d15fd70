//! The maps that are compared, one adapter a file.
//!
//! An adapter is what a user of the map would write: the shortest documented call for each
//! operation. If the map needs a guard, an adapter takes one for each operation. All code is
//! generic, so that the compiler can inline the adapters.

mod dashmap;
#[cfg(durable)]
mod file;
mod flurry;
mod nunatak;
mod papaya;
mod scc;
mod sharded;
mod stores;

pub(crate) use self::dashmap::{Dashmap, DashmapWords};
#[cfg(durable)]
pub(crate) use self::file::Filed;
pub(crate) use self::flurry::{Flurry, FlurryWords};
pub(crate) use self::nunatak::{Full, Numbers, OfShards, Strategies, Words};
pub(crate) use self::papaya::{Papaya, PapayaWords};
pub(crate) use self::scc::{Scc, SccWords};
pub(crate) use self::sharded::{Sharded, ShardedWords, Shards};
pub(crate) use self::stores::Stored;

use crate::named::Named as _;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The hasher of every map.
pub(crate) type Hasher = foldhash::fast::RandomState;

/// A map of `u64` to `u64`.
pub(crate) trait Target: Sync + Sized {
    /// Whether the map has operations on many keys at once. If not, the methods on many keys call
    /// the single operations in turn.
    const BATCHED: bool = false;

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

    /// Calls [`update`](Self::update) for every entry; returns how many keys are present.
    fn update_many(&self, entries: &[(u64, u64)], _: &mut [Option<u64>]) -> usize {
        let present = |&&(key, value): &&(u64, u64)| self.update(key, value);
        entries.iter().filter(present).count()
    }

    /// Calls [`remove`](Self::remove) for every key.
    fn remove_many(&self, keys: &[u64], removed: &mut [Option<u64>]) {
        for (key, removed) in keys.iter().zip(removed) {
            *removed = self.remove(*key);
        }
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
    Nunatak,
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
        Self::Nunatak,
        Self::Iceberg,
        Self::Pea,
        Self::Turbo,
        Self::Dashmap,
        Self::Papaya,
        Self::Scc,
        Self::Flurry,
        Self::Sharded,
    ];

    /// Returns whether the map keeps its items in files.
    pub(crate) fn is_durable(self) -> bool {
        let name = self.name();
        name.contains("-file")
            || ["iceberg-journal", "lmdb", "redb", "fjall", "sled", "rocksdb"].contains(&&*name)
    }

    /// Returns whether it is a map of this project.
    pub(crate) fn is_own(self) -> bool {
        ["nunatak", "iceberg", "pea", "turbo"].iter().any(|own| self.name().starts_with(own))
    }
}

impl fmt::Display for MapName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Evaluates an expression with `$Map` standing for the adapter of `$name`, and `$Words` for its
/// adapter of words. For durable maps, which have no adapter of words, `$Words` is a stand-in that
/// the caller must not use.
macro_rules! with_target {
    ($name:expr, $Map:ident, $Words:ident => $body:expr) => {{
        #[cfg(durable)]
        use ::nunatak::durable::InFile;
        use ::nunatak::{Blocks, Dlht, Iceberg, Pea, Turbo};
        use $crate::targets::{self, MapName};
        macro_rules! of_blocks {
            ($front:literal, $back:literal) => {
                body!(
                    targets::Numbers<targets::Full<Blocks<$front, $back>>>,
                    targets::Words<Iceberg>
                )
            };
        }
        macro_rules! of_strategies {
            ($from:literal, $to:literal) => {
                body!(targets::Numbers<targets::Strategies<$from, $to>>, targets::Words<Pea>)
            };
        }
        macro_rules! body {
            ($map:ty, $words:ty) => {{
                #[allow(dead_code, reason = "most users need one of the two")]
                type $Map = $map;
                #[allow(dead_code, reason = "most users need one of the two")]
                type $Words = $words;
                $body
            }};
        }
        match $name {
            MapName::Nunatak => body!(targets::Numbers<Dlht>, targets::Words<Dlht>),
            MapName::Iceberg => body!(targets::Numbers<Iceberg>, targets::Words<Iceberg>),
            MapName::Pea => body!(targets::Numbers<Pea>, targets::Words<Pea>),
            MapName::Turbo => body!(targets::Numbers<Turbo>, targets::Words<Turbo>),
            MapName::Turbo64k => {
                body!(targets::Numbers<targets::OfShards<{ 1 << 16 }>>, targets::Words<Turbo>)
            }
            MapName::Dashmap => body!(targets::Dashmap, targets::DashmapWords),
            MapName::Papaya => body!(targets::Papaya, targets::PapayaWords),
            MapName::Scc => body!(targets::Scc, targets::SccWords),
            MapName::Flurry => body!(targets::Flurry, targets::FlurryWords),
            MapName::Sharded => body!(targets::Sharded, targets::ShardedWords),
            MapName::Iceberg95 => of_blocks!(64, 8),
            MapName::Iceberg64x6 => of_blocks!(64, 6),
            MapName::Iceberg64x4 => of_blocks!(64, 4),
            MapName::Iceberg32x8 => of_blocks!(32, 8),
            MapName::Iceberg32x6 => of_blocks!(32, 6),
            MapName::Iceberg32x4 => of_blocks!(32, 4),
            MapName::PeaSingle => of_strategies!(0, 0),
            MapName::PeaTwoChoice => of_strategies!(1, 1),
            MapName::PeaStash => of_strategies!(2, 2),
            MapName::PeaNoStash => of_strategies!(0, 1),
            #[cfg(durable)]
            MapName::IcebergFile | MapName::IcebergJournal | MapName::IcebergHugePages => {
                body!(targets::Filed<InFile<Iceberg>>, targets::ShardedWords)
            }
            #[cfg(durable)]
            MapName::PeaFile | MapName::PeaFileAtomic => {
                body!(targets::Filed<InFile<Pea>>, targets::ShardedWords)
            }
            #[cfg(durable)]
            MapName::TurboFile | MapName::TurboFileAtomic => {
                body!(targets::Filed<InFile<Turbo>>, targets::ShardedWords)
            }
            // The stores of others.
            _ => body!(targets::Stored, targets::ShardedWords),
        }
    }};
}
pub(crate) use with_target;

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that all adapters do the same, so that the workloads measure the same.
    fn behaves<T: Target>(map: &T, tells_what_was_replaced: bool) {
        assert_eq!(map.insert(1, 10), None);
        assert_eq!(map.insert(1, 11), tells_what_was_replaced.then_some(10));
        assert_eq!((map.get(1), map.get(2)), (Some(11), None));
        assert_eq!((map.update(1, 12), map.update(2, 20)), (true, false));
        assert_eq!(map.get(2), None);
        assert!(map.modify(1, |value| value + 1) && !map.modify(2, |value| value + 1));
        assert_eq!((map.remove(1), map.remove(1)), (Some(13), None));
        let entries = [(5, 50), (6, 60), (5, 51)];
        let mut results = [None; 3];
        let new = map.insert_many(&entries, &mut results);
        assert_eq!(new, 2 + usize::from(!tells_what_was_replaced));
        assert_eq!(map.update_many(&[(5, 52), (7, 70)], &mut results), 1);
        map.get_many(&[7, 6, 5], &mut results);
        assert_eq!(results, [None, Some(60), Some(52)]);
        map.remove_many(&[5, 6, 6], &mut results);
        assert_eq!(results, [Some(52), Some(60), None]);
    }

    fn stays<T: Target>(name: MapName) {
        let mut map = T::empty(name);
        map.insert_synced(&[(1, 10), (2, 20), (1, 11)]);
        map.insert(3, 30);
        map.reopen(2);
        assert_eq!([1, 2, 3, 4].map(|key| map.get(key)), [Some(11), Some(20), Some(30), None]);
        assert!(map.bytes().is_some_and(|bytes| bytes > 0));
    }

    fn counts<W: WordTarget>() {
        let map = W::empty();
        ["a", "b", "a"].into_iter().for_each(|word| map.count(word));
        let mut found = Vec::new();
        map.for_each(|word, count| found.push((word.to_owned(), count)));
        found.sort();
        assert_eq!(found, [("a".to_owned(), 2), ("b".to_owned(), 1)]);
    }

    #[test]
    fn every_adapter_behaves() {
        for &name in MapName::value_variants() {
            with_target!(name, Map, Words => {
                let tells = !matches!(&*name.name(), "lmdb" | "fjall" | "rocksdb");
                behaves(&Map::empty(name), tells);
                behaves(&Map::with_capacity(name, 1000), tells);
                if name.is_durable() {
                    stays::<Map>(name);
                } else {
                    counts::<Words>();
                }
            });
        }
    }
}
