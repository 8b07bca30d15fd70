//! Every wide map passes the suite for maps of words.

use nunatak::entry::{Wide, WideKey};
use nunatak::{DlhtBuilder, DlhtWideMap};
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

nunatak_harness::suite_inline!(of_wide_values, u64, (u64, u64), InBins);
nunatak_harness::suite_inline!(of_wide_keys, u128, u64, InBins);
nunatak_harness::suite_inline!(of_both, u128, (u64, u64), InBins);
