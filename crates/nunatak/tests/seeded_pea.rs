//! The seeded bugs of Pea Hash that need no interleaving to be found: each is
//! switched on in turn, and the check that belongs to it must fail.
//!
//! ```sh
//! RUSTFLAGS="--cfg nunatak_seeded_bugs" cargo test --release -p nunatak --test seeded_pea
//! ```
#![cfg(all(nunatak_seeded_bugs, not(loom), not(shuttle)))]

mod identity;
mod seeds;

use identity::{Identity, colliding};
use nunatak::seeded::Bug;
use nunatak::{PeaMap, PeaMultiMap};

/// A map of small segments: ten values for each of a thousand keys, most of them in buffers.
fn filled() -> PeaMultiMap<u64, u64> {
    let builder = PeaMap::<u64, u64>::builder().segment_buckets(16);
    let map: PeaMultiMap<u64, u64> = builder.build_multi().unwrap();
    (0..10_000).for_each(|n| map.insert(n % 1000, n));
    assert!(map.stats().pointers > 500);
    map
}

fn splits_keep_all_values() -> bool {
    let map = filled();
    map.reserve(50_000).unwrap();
    (0..1000).all(|key| {
        let mut values: Vec<u64> = map.get_all(&key).collect();
        values.sort_unstable();
        values.into_iter().eq((0..10).map(|n| 1000 * n + key))
    })
}

fn removals_give_memory_back() -> bool {
    let map = filled();
    (0..1000).for_each(|key| assert_eq!(map.remove_all(&key), 10));
    map.shrink_to_fit().unwrap();
    map.stats().value_segments == 0
}

fn the_last_value_stays() -> bool {
    let map = filled();
    (1000..10_000).for_each(|n| assert!(map.remove_one(&(n % 1000), &n)));
    (0..1000).all(|key| map.get_all(&key).eq([key]))
}

/// Keys that agree in all bits that could tell them apart go to chains. They are found there after
/// segments were split again.
fn splits_keep_keys_in_chains() -> bool {
    let builder = PeaMap::<u64, u64>::builder().segment_buckets(2).hasher(Identity(0));
    let map: PeaMap<u64, u64, Identity> = builder.build().unwrap();
    (0..1000).for_each(|n| assert_eq!(map.insert(colliding(n), n), None));
    let stats = map.stats();
    assert!(stats.chained > 500);
    map.reserve(400_000).unwrap();
    assert!(map.stats().splits > stats.splits);
    (0..1000).all(|n| map.get(&colliding(n)) == Some(n))
}

#[test]
fn every_seeded_bug_is_found() {
    seeds::each_is_found(&[
        (Bug::ChainedNotInherited, splits_keep_keys_in_chains),
        (Bug::PointersMovedAsValues, splits_keep_all_values),
        (Bug::BuffersNotFreed, removals_give_memory_back),
        (Bug::LastValueLost, the_last_value_stays),
    ]);
}
