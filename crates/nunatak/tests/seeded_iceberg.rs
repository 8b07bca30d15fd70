//! The seeded bugs of IcebergHT that need no interleaving to be found: each is
//! switched on in turn, and the check that belongs to it must fail.
//!
//! ```sh
//! RUSTFLAGS="--cfg nunatak_seeded_bugs" cargo test --release -p nunatak --test seeded_iceberg
//! ```
#![cfg(all(nunatak_seeded_bugs, not(loom), not(shuttle)))]

mod seeds;

use nunatak::seeded::Bug;
use nunatak::{Blocks, Iceberg, IcebergMap, InlineMap, RandomState};

/// Whether a map filled to 95 % has its keys in the levels of the paper's table 4.
fn levels_are_as_they_should_be() -> bool {
    let map: IcebergMap<u64, u64> =
        IcebergMap::<u64, u64>::builder().capacity(2_000_000).max_load(0.95).build().unwrap();
    let keys = (map.stats().slots as f64 * 0.9499) as u64;
    (0..keys).for_each(|key| assert_eq!(map.insert(key, key), None));
    let stats = map.stats();
    (stats.share(1) - 0.913).abs() < 0.003 && stats.levels[2] < 30
}

type Small = InlineMap<u64, u64, RandomState, Iceberg<Blocks<32, 4>>>;

/// A map of small blocks, with many keys in levels 2 and 3.
fn filled(keys: u64) -> Small {
    let builder = IcebergMap::<u64, u64>::builder().blocks().max_load(0.95);
    let map: Small = builder.capacity(100_000).build().unwrap();
    map.reserve(keys as usize).unwrap();
    (0..keys).for_each(|key| assert_eq!(map.insert(key, key), None));
    let levels = map.stats().levels;
    assert!(levels[1] > 5_000 && levels[2] > 100, "{levels:?}");
    map
}

/// Whether all keys are found, changed and removed.
fn are_found(map: &Small, keys: impl Iterator<Item = u64>) -> bool {
    let keys: Vec<u64> = keys.collect();
    let mut values = vec![None; keys.len()];
    map.get_many(&keys, &mut values).unwrap();
    keys.iter().zip(values).all(|(&key, value)| {
        value == Some(key)
            && map.get(&key) == Some(key)
            && map.insert(key, !key) == Some(key)
            && map.remove(&key) == Some(!key)
            && map.get(&key).is_none()
    })
}

fn keys_of_all_levels_are_found() -> bool {
    are_found(&filled(100_000), 0..100_000)
}

fn doublings_keep_all_keys() -> bool {
    let map = filled(100_000);
    map.reserve(300_000).unwrap();
    are_found(&map, 0..100_000)
}

fn halvings_keep_all_keys() -> bool {
    let map = filled(200_000);
    map.retain(|&key, _| key % 3 == 0);
    map.shrink_to_fit().unwrap();
    assert!(map.load_factor() > 0.5);
    are_found(&map, (0..200_000).filter(|key| key % 3 == 0))
}

#[test]
fn every_seeded_bug_is_found() {
    seeds::each_is_found(&[
        (Bug::FullerBlockChosen, levels_are_as_they_should_be),
        (Bug::FingerprintTakesLock, keys_of_all_levels_are_found),
        (Bug::ChainedWithoutMark, keys_of_all_levels_are_found),
        (Bug::FrontMarkForgotten, keys_of_all_levels_are_found),
        (Bug::MarkNotInherited, doublings_keep_all_keys),
        (Bug::FrontMarkNotInherited, doublings_keep_all_keys),
        (Bug::FrontMarkNotInherited, halvings_keep_all_keys),
    ]);
}
