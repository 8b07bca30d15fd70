//! Crashes of atomic batches, at every instant: all changes are there, or none.
#![cfg(target_os = "linux")]

use nunatak::durable::{IcebergBlobMap, PeaBlobMap, PeaMap, Persistency, TurboBlobMap, TurboMap};
use nunatak_harness::crashes::{
    Batched, Batches, Thoroughness, batches, crash_history, short_batches,
};

const EVERY_IMAGE: Thoroughness = Thoroughness { images: 512, second: 19, moments: 1, journal: 0 };
const SOME_IMAGES: Thoroughness = Thoroughness { images: 3, second: 53, moments: 13, journal: 0 };

fn short_batches_in_persistent_memory<M: Batches>() {
    let images = crash_history::<Batched<M>>(&short_batches(), Persistency::Lines, EVERY_IMAGE);
    assert!(images > 100, "{images}");
}

fn short_batches_in_the_page_cache<M: Batches>() {
    let look = Thoroughness { images: 12, ..EVERY_IMAGE };
    let images = crash_history::<Batched<M>>(&short_batches(), Persistency::Pages, look);
    assert!(images > 100, "{images}");
}

fn histories<M: Batches>() {
    for seed in 1..3 {
        crash_history::<Batched<M>>(&batches(seed, 160), Persistency::Lines, SOME_IMAGES);
        crash_history::<Batched<M>>(&batches(seed, 160), Persistency::Pages, SOME_IMAGES);
    }
}

/// Makes tests of the named functions for a map.
macro_rules! crash_suite {
    ($name:ident, $map:ty, [$($test:ident)*]) => {
        mod $name {
            use super::*;
            $(
                #[test]
                fn $test() {
                    super::$test::<$map>();
                }
            )*
        }
    };
}

crash_suite!(pea, PeaMap<u64, u64>, [short_batches_in_persistent_memory short_batches_in_the_page_cache histories]);
crash_suite!(turbo, TurboMap<u64, u64>, [short_batches_in_persistent_memory short_batches_in_the_page_cache histories]);
crash_suite!(pea_blobs, PeaBlobMap, [short_batches_in_persistent_memory short_batches_in_the_page_cache histories]);
crash_suite!(iceberg_blobs, IcebergBlobMap, [short_batches_in_persistent_memory short_batches_in_the_page_cache histories]);
crash_suite!(turbo_blobs, TurboBlobMap, [short_batches_in_persistent_memory short_batches_in_the_page_cache histories]);
