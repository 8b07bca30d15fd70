//! The maps that are compared, one adapter a file.
//!
//! An adapter is what a user of the map would write: the shortest documented call for each
//! operation. If the map needs a guard, an adapter takes one for each operation. All code is
//! generic, so that the compiler can inline the adapters.

mod adapter;
mod cpp;
mod dashmap;
#[cfg(durable)]
mod file;
mod flurry;
mod nunatak;
mod papaya;
mod scc;
mod sharded;
mod stores;
mod told;

pub(crate) use self::adapter::{Hasher, MapName, Target, WordTarget};
pub(crate) use self::cpp::Cpp;
pub(crate) use self::dashmap::{Dashmap, DashmapWords};
#[cfg(durable)]
pub(crate) use self::file::Filed;
pub(crate) use self::flurry::{Flurry, FlurryWords};
pub(crate) use self::nunatak::{Numbers, Words};
pub(crate) use self::papaya::{Papaya, PapayaWords};
pub(crate) use self::scc::{Scc, SccWords};
pub(crate) use self::sharded::{Sharded, ShardedWords, Shards};
pub(crate) use self::stores::Stored;
pub(crate) use self::told::{Resizes, Told};
pub(crate) use nunatak_cpp_peers::Step;

/// Evaluates an expression with `$Map` standing for the adapter of `$name`, and `$Words` for its
/// adapter of words. For durable maps and those of C++, which have no adapter of words, `$Words` is a stand-in that
/// the caller must not use.
macro_rules! with_target {
    ($name:expr, $Map:ident, $Words:ident => $body:expr) => {{
        #[cfg(feature = "experiments")]
        use ::nunatak::Blocks;
        #[cfg(durable)]
        use ::nunatak::durable::InFile;
        use ::nunatak::{Dlht, Iceberg, Pea, Turbo};
        use $crate::targets::{self, MapName};
        #[cfg(feature = "experiments")]
        macro_rules! of_blocks {
            ($front:literal, $back:literal) => {
                body!(targets::Numbers<Iceberg<Blocks<$front, $back>>>, targets::Words<Iceberg>)
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
            MapName::Dlht => body!(targets::Numbers<Dlht>, targets::Words<Dlht>),
            MapName::Iceberg | MapName::Iceberg85 | MapName::Iceberg95 => {
                body!(targets::Numbers<Iceberg>, targets::Words<Iceberg>)
            }
            MapName::Pea
            | MapName::PeaSingle
            | MapName::PeaTwoChoice
            | MapName::PeaStash
            | MapName::PeaNoStash => body!(targets::Numbers<Pea>, targets::Words<Pea>),
            MapName::Turbo | MapName::Turbo64k => {
                body!(targets::Numbers<Turbo>, targets::Words<Turbo>)
            }
            MapName::Dashmap => body!(targets::Dashmap, targets::DashmapWords),
            MapName::Papaya => body!(targets::Papaya, targets::PapayaWords),
            MapName::Scc => body!(targets::Scc, targets::SccWords),
            MapName::Flurry => body!(targets::Flurry, targets::FlurryWords),
            MapName::Sharded => body!(targets::Sharded, targets::ShardedWords),
            MapName::Tbb | MapName::Libcuckoo | MapName::Boost | MapName::AbslSharded => {
                body!(targets::Cpp, targets::ShardedWords)
            }
            #[cfg(feature = "experiments")]
            MapName::Iceberg64x6 => of_blocks!(64, 6),
            #[cfg(feature = "experiments")]
            MapName::Iceberg64x4 => of_blocks!(64, 4),
            #[cfg(feature = "experiments")]
            MapName::Iceberg32x8 => of_blocks!(32, 8),
            #[cfg(feature = "experiments")]
            MapName::Iceberg32x6 => of_blocks!(32, 6),
            #[cfg(feature = "experiments")]
            MapName::Iceberg32x4 => of_blocks!(32, 4),
            #[cfg(durable)]
            MapName::IcebergFile | MapName::IcebergJournal | MapName::IcebergHugePages => {
                body!(targets::Filed<InFile<Iceberg>>, targets::ShardedWords)
            }
            #[cfg(durable)]
            MapName::PeaFile
            | MapName::PeaFileAtomic
            | MapName::PeaFileSingle
            | MapName::PeaFileTwoChoice
            | MapName::PeaFileStash
            | MapName::PeaFileNoStash => {
                body!(targets::Filed<InFile<Pea>>, targets::ShardedWords)
            }
            #[cfg(durable)]
            MapName::TurboFile | MapName::TurboFileAtomic => {
                body!(targets::Filed<InFile<Turbo>>, targets::ShardedWords)
            }
            // The stores of others, and maps that are not in this build.
            _ => body!(targets::Stored, targets::ShardedWords),
        }
    }};
}
pub(crate) use with_target;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named::Named as _;
    use ::nunatak::{Op, Outcome, Request};
    use clap::ValueEnum as _;

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
        map.get_many(&[7, 6, 5], &mut results);
        assert_eq!(results, [None, Some(60), Some(51)]);
        map.remove_many(&[5, 6, 6], &mut results);
        assert_eq!(results, [Some(51), Some(60), None]);
        if T::BATCHED {
            use Request as R;
            let requests = [R::Insert(8, 80), R::Update(8, 81), R::Get(8), R::Remove(8), R::Get(8)];
            let mut operations = requests.map(Op::new);
            map.execute(&mut operations);
            use Outcome as O;
            let outcomes = [O::Inserted, O::Replaced(80), O::Found(81), O::Removed(81), O::Missing];
            assert_eq!(operations.map(|operation| operation.outcome), outcomes);
        }
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
        let built = |name: &&MapName| name.in_this_build().is_ok();
        for &name in MapName::value_variants().iter().filter(built) {
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
