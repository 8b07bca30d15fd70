//! Every wide map passes the suite for maps of words.

use nunatak::entry::{Wide, WideKey};
use nunatak::{DlhtBuilder, DlhtWideMap, IcebergBuilder, IcebergWideMap};
use nunatak_harness::{Data, Subject};

struct InBins;

impl<K: WideKey + Data, V: Wide + Data> Subject<K, V> for InBins {
    type Map = DlhtWideMap<K, V>;

    fn build(&self, capacity: usize) -> Self::Map {
        DlhtWideMap::with_capacity(capacity)
    }

    /// Two bins; the index doubles, moves one bin at a time, and has as few links as possible.
    fn adversarial(&self) -> Self::Map {
        let builder = DlhtBuilder::default().initial_bins(2).growth_factor(2).transfer_chunk(1);
        builder.link_ratio(64).build_wide().expect("valid options")
    }
}

struct InBlocks;

impl<K: WideKey + Data, V: Wide + Data> Subject<K, V> for InBlocks {
    type Map = IcebergWideMap<K, V>;

    fn build(&self, capacity: usize) -> Self::Map {
        IcebergWideMap::with_capacity(capacity)
    }

    /// The blocks double while a tenth of their slots is taken.
    fn adversarial(&self) -> Self::Map {
        IcebergBuilder::default().max_load(0.1).build_wide().expect("valid options")
    }
}

nunatak_harness::suite_inline!(of_wide_values, u64, (u64, u64), InBins);
nunatak_harness::suite_inline!(of_wide_keys, u128, u64, InBins);
nunatak_harness::suite_inline!(of_both, u128, (u64, u64), InBins);
nunatak_harness::suite_inline!(of_wide_values_in_blocks, u64, (u64, u64), InBlocks);
nunatak_harness::suite_inline!(of_both_in_blocks, u128, (u64, u64), InBlocks);
