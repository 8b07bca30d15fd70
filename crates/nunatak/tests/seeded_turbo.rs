//! The seeded bugs of TurboHash that need no interleaving to be found: each is switched on
//! in turn, and the check that belongs to it must fail.
//!
//! ```sh
//! RUSTFLAGS="--cfg nunatak_seeded_bugs" cargo test --release -p nunatak --test seeded_turbo
//! ```
#![cfg(all(nunatak_seeded_bugs, not(loom), not(shuttle)))]

mod identity;
mod seeds;

use identity::{Identity, colliding};
use nunatak::TurboMap;
use nunatak::seeded::Bug;

fn keys_behind_their_buckets_are_found() -> bool {
    let map: TurboMap<u64, u64> = (0..100_000).map(|key| (key, key)).collect();
    assert!(map.stats().distances.len() > 1);
    (0..100_000).all(|key| map.get(&key) == Some(key))
}

/// Keys that agree in all bits that could tell them apart go to chains. They are found there after
/// a shard was rehashed.
fn larger_shards_keep_keys_in_chains() -> bool {
    let builder = TurboMap::<u64, u64>::builder().shards(2).hasher(Identity(0));
    let map: TurboMap<u64, u64, Identity> = builder.build().unwrap();
    (0..2000).for_each(|n| assert_eq!(map.insert(colliding(n), n), None));
    assert!(map.stats().chained > 500);
    map.reserve(400_000).unwrap();
    (0..2000).all(|n| map.get(&colliding(n)) == Some(n))
}

#[test]
fn every_seeded_bug_is_found() {
    seeds::each_is_found(&[
        (Bug::ChainedNotInherited, larger_shards_keep_keys_in_chains),
        (Bug::WayUnmarked, keys_behind_their_buckets_are_found),
    ]);
}
