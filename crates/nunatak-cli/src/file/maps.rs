//! The maps that the command can keep in a file.

use super::datum::Datum;
use clap::ValueEnum;
use nunatak::durable::{
    BlobDesign, BlobsInFile, DurableDesign, FileKind, FileMap, InFile, InPages, Map, Options,
    PageChecksums, PeaMultiMap, Recovery, Salvaged,
};
use nunatak::{Design, Error, Iceberg, IcebergStats, Pea, PeaStats, Turbo, TurboStats};
use std::path::Path;
use std::time::Duration;

/// The names of the maps on the command line.
///
/// The numbers are written to dumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// `nunatak::durable::IcebergMap`.
    Iceberg = 1,
    /// `nunatak::durable::PeaMap`.
    Pea,
    /// `nunatak::durable::PeaMultiMap`: a key has any number of values.
    PeaMulti,
    /// `nunatak::durable::TurboMap`.
    Turbo,
    /// `nunatak::durable::TurboBlobMap`: keys and values are byte strings.
    TurboBlobs,
    /// `nunatak::durable::PeaBlobMap`: keys and values are byte strings.
    PeaBlobs,
    /// `nunatak::durable::IcebergBlobMap`: keys and values are byte strings.
    IcebergBlobs,
}

impl Kind {
    /// Returns the kind of a number in a dump.
    pub(super) fn of_number(number: u32) -> Option<Self> {
        Self::value_variants().iter().copied().find(|&kind| kind as u32 == number)
    }

    /// Returns the kind of map in an existing file.
    pub(super) fn of(path: &Path) -> Result<Self, Error> {
        Ok(match FileKind::of(path)? {
            FileKind::Pea => Self::Pea,
            FileKind::PeaMulti => Self::PeaMulti,
            FileKind::Turbo => Self::Turbo,
            FileKind::TurboBlobs => Self::TurboBlobs,
            FileKind::PeaBlobs => Self::PeaBlobs,
            FileKind::IcebergBlobs => Self::IcebergBlobs,
            // Opening as a map of IcebergHT refuses any unknown kind.
            _ => Self::Iceberg,
        })
    }
}

/// Keys and their values.
pub(super) type Pairs<'m, D> = Box<dyn Iterator<Item = (D, D)> + 'm>;

/// A map in a file.
pub(super) trait MapFile: Sized {
    /// The type of keys and values.
    type Datum: Datum;
    const NAME: &'static str;
    /// What `store` counts as new: a key or a pair.
    const COUNTED: &'static str;
    /// Whether a key may have several values.
    const HAS_MANY: bool;

    fn create(path: &Path, options: &Options) -> Result<Self, Error>;
    fn open(path: &Path, options: &Options) -> Result<Self, Error>;
    /// Opens a file that another process has open: its last sync, or a snapshot by that process.
    fn open_beside(path: &Path) -> Result<Self, Error>;
    fn open_or_create(path: &Path, options: &Options) -> Result<Self, Error>;
    fn close(self) -> Result<(), Error>;
    /// Makes a new file of what can be read of a damaged one.
    fn salvage(path: &Path, new: &Path) -> Result<Salvaged, Error>;
    /// Copies the map to a new file and returns how many pairs it has.
    fn back_up(&self, path: &Path) -> Result<usize, Error>;
    /// Stores pairs and returns how many were new.
    fn store(&self, pairs: &[(Self::Datum, Self::Datum)]) -> Result<usize, Error>;
    /// Returns the values of a key, or an error if one is damaged.
    fn values(&self, key: &Self::Datum) -> Result<Vec<Self::Datum>, Error>;
    /// Replaces the value of a present key. Does nothing in a map of many values.
    fn update(&self, key: &Self::Datum, value: Self::Datum) -> Result<(), Error> {
        let _ = (key, value);
        Ok(())
    }
    /// Removes a key and returns whether it was present.
    fn remove(&self, key: &Self::Datum) -> Result<bool, Error>;
    fn pairs(&self) -> Pairs<'_, Self::Datum>;
    fn cut(&self) -> Result<Pairs<'_, Self::Datum>, Error>;
    fn len(&self) -> usize;
    fn file_bytes(&self) -> u64;
    fn load_factor(&self) -> f64;
    fn verify(&self) -> Result<usize, Error>;
    /// Returns how many pages have checksums, if the file has any.
    fn checksums(&self) -> Option<PageChecksums>;
    fn shrink(&self) -> Result<(), Error>;
    fn recovery(&self) -> Recovery;
    /// Returns the statistics that only this kind of map has.
    fn describe(&self) -> Vec<(&'static str, String)>;
}

/// Implements the methods that have the same names in all maps.
macro_rules! all_have {
    () => {
        fn create(path: &Path, options: &Options) -> Result<Self, Error> {
            Self::create_with(path, options)
        }

        fn open(path: &Path, options: &Options) -> Result<Self, Error> {
            Self::open_with(path, options)
        }

        fn open_beside(path: &Path) -> Result<Self, Error> {
            Self::open_beside(path)
        }

        fn open_or_create(path: &Path, options: &Options) -> Result<Self, Error> {
            Self::open_or_create_with(path, options)
        }

        fn close(self) -> Result<(), Error> {
            self.close()
        }

        fn salvage(path: &Path, new: &Path) -> Result<Salvaged, Error> {
            Self::salvage(path, new)
        }

        fn back_up(&self, path: &Path) -> Result<usize, Error> {
            self.backup(path)
        }

        fn pairs(&self) -> Pairs<'_, Self::Datum> {
            Box::new(self.iter())
        }

        fn cut(&self) -> Result<Pairs<'_, Self::Datum>, Error> {
            Ok(Box::new(self.snapshot()?))
        }

        fn len(&self) -> usize {
            self.len()
        }

        fn file_bytes(&self) -> u64 {
            self.file_bytes()
        }

        fn verify(&self) -> Result<usize, Error> {
            self.verify()
        }

        fn checksums(&self) -> Option<PageChecksums> {
            self.page_checksums()
        }

        fn shrink(&self) -> Result<(), Error> {
            self.shrink_to_fit()
        }

        fn recovery(&self) -> Recovery {
            self.recovery()
        }
    };
}

impl<D: Described> MapFile for Map<u64, u64, D> {
    type Datum = u64;
    const NAME: &'static str = D::NAME;
    const COUNTED: &'static str = "keys";
    const HAS_MANY: bool = false;

    all_have!();

    fn store(&self, pairs: &[(u64, u64)]) -> Result<usize, Error> {
        self.insert_many(pairs, &mut vec![None; pairs.len()])
    }

    fn values(&self, key: &u64) -> Result<Vec<u64>, Error> {
        Ok(self.get(key).into_iter().collect())
    }

    fn update(&self, key: &u64, value: u64) -> Result<(), Error> {
        self.update(key, value).map(drop)
    }

    fn remove(&self, key: &u64) -> Result<bool, Error> {
        self.remove(key).map(|value| value.is_some())
    }

    fn load_factor(&self) -> f64 {
        self.load_factor()
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        D::describe(self)
    }
}

impl MapFile for PeaMultiMap<u64, u64> {
    type Datum = u64;
    const NAME: &'static str = "Pea Hash of many values";
    const COUNTED: &'static str = "values";
    const HAS_MANY: bool = true;

    all_have!();

    fn store(&self, pairs: &[(u64, u64)]) -> Result<usize, Error> {
        self.insert_many(pairs).map(|()| pairs.len())
    }

    fn values(&self, key: &u64) -> Result<Vec<u64>, Error> {
        Ok(self.get_all(key).collect())
    }

    fn remove(&self, key: &u64) -> Result<bool, Error> {
        self.remove_all(key).map(|values| values > 0)
    }

    fn load_factor(&self) -> f64 {
        self.stats().table.load_factor
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let stats = self.stats();
        let mut all = of_segments(&stats.table);
        all.extend([
            ("keys with buffers", stats.pointers.to_string()),
            ("values in buffers", stats.buffered.to_string()),
            ("buffers by type", format!("{:?}", stats.buffers)),
            ("value segments", stats.value_segments.to_string()),
        ]);
        all
    }
}

impl<D: BlobDesign + DescribedBlobs> MapFile for FileMap<BlobsInFile<D>> {
    type Datum = Vec<u8>;
    const NAME: &'static str = D::NAME;
    const COUNTED: &'static str = "keys";
    const HAS_MANY: bool = false;

    all_have!();

    fn store(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<usize, Error> {
        self.put_many(pairs)
    }

    fn values(&self, key: &Vec<u8>) -> Result<Vec<Vec<u8>>, Error> {
        Ok(self.get_verified(key)?.into_iter().collect())
    }

    fn update(&self, key: &Vec<u8>, value: Vec<u8>) -> Result<(), Error> {
        self.update(key, &value).map(drop)
    }

    fn remove(&self, key: &Vec<u8>) -> Result<bool, Error> {
        self.delete(key)
    }

    fn load_factor(&self) -> f64 {
        self.load_factor()
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let mut all = <D as DescribedBlobs>::describe(&self.stats());
        let blobs = self.blob_stats();
        all.extend([
            ("bytes of pairs", blobs.live_bytes.to_string()),
            ("bytes they take", blobs.placed_bytes.to_string()),
            ("pieces of 64 KiB", blobs.spans.to_string()),
        ]);
        all
    }
}

/// Statistics that only maps of byte strings of one design have.
pub(super) trait DescribedBlobs: Design {
    const NAME: &'static str;

    fn describe(stats: &Self::Stats) -> Vec<(&'static str, String)>;
}

impl DescribedBlobs for InPages<Iceberg> {
    const NAME: &'static str = "IcebergHT of byte strings";

    fn describe(stats: &IcebergStats) -> Vec<(&'static str, String)> {
        of_levels(stats)
    }
}

impl DescribedBlobs for InFile<Pea> {
    const NAME: &'static str = "Pea Hash of byte strings";

    fn describe(stats: &PeaStats) -> Vec<(&'static str, String)> {
        of_segments(stats)
    }
}

impl DescribedBlobs for InFile<Turbo> {
    const NAME: &'static str = "TurboHash of byte strings";

    fn describe(stats: &TurboStats) -> Vec<(&'static str, String)> {
        of_shards(stats)
    }
}

/// Statistics that only maps of one design have.
pub(super) trait Described: DurableDesign {
    const NAME: &'static str;

    fn describe(map: &Map<u64, u64, Self>) -> Vec<(&'static str, String)>;
}

impl Described for InFile<Iceberg> {
    const NAME: &'static str = "IcebergHT";

    fn describe(map: &Map<u64, u64, Self>) -> Vec<(&'static str, String)> {
        of_levels(&map.stats())
    }
}

impl Described for InFile<Pea> {
    const NAME: &'static str = "Pea Hash";

    fn describe(map: &Map<u64, u64, Self>) -> Vec<(&'static str, String)> {
        of_segments(&map.stats())
    }
}

impl Described for InFile<Turbo> {
    const NAME: &'static str = "TurboHash";

    fn describe(map: &Map<u64, u64, Self>) -> Vec<(&'static str, String)> {
        of_shards(&map.stats())
    }
}

fn of_levels(stats: &IcebergStats) -> Vec<(&'static str, String)> {
    vec![
        ("slots", stats.slots.to_string()),
        ("levels", format!("{:?}", stats.levels)),
        ("longest chain", stats.longest_chain.to_string()),
    ]
}

fn of_shards(stats: &TurboStats) -> Vec<(&'static str, String)> {
    vec![
        ("slots", stats.slots.to_string()),
        ("shards", stats.shards.to_string()),
        ("tombstones", stats.tombstones.to_string()),
        ("distances", format!("{:?}", stats.distances)),
        ("mean probes", format!("{:.2}", stats.mean_probes)),
        ("rehashes", moves(stats.rehashes, stats.moved, stats.rehash_time)),
        ("chained", stats.chained.to_string()),
    ]
}

fn of_segments(stats: &PeaStats) -> Vec<(&'static str, String)> {
    let [single, two_choice, stash] = stats.strategies;
    vec![
        ("slots", stats.slots.to_string()),
        ("segments", stats.segments.to_string()),
        ("depth", stats.depth.to_string()),
        ("strategies", format!("{single} single, {two_choice} two-choice, {stash} stash")),
        ("stashed", stats.stashed.to_string()),
        ("chained", stats.chained.to_string()),
        ("splits", moves(stats.splits, stats.moved, stats.split_time)),
    ]
}

/// Describes splits or rehashes. The file does not keep their number.
fn moves(count: usize, moved: usize, time: Duration) -> String {
    format!("{count} since it was opened, of {moved} entries, in {time:.1?}")
}
