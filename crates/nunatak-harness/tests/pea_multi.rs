//! Maps of duplicate keys pass their checks.

use nunatak::{PeaBuilder, PeaMultiMap, RandomState, Strategy};
use nunatak_harness::Random;
use nunatak_harness::hashers::{Distribution, TestHasher};
use nunatak_harness::model::behaves_like_vectors;
use nunatak_harness::multi::{
    an_emptied_map_is_small, cuts_are_consistent, histories_are_linearizable,
    pairs_are_unique_and_keys_come_once as unique_pairs_and_keys, values_stay_visible,
};

type Map = PeaMultiMap<u64, u64>;

/// Makes a map with segments of `buckets` buckets, which also limits value buffers.
fn of_buckets(buckets: usize) -> Map {
    PeaBuilder::<RandomState>::default().segment_buckets(buckets).build_multi().expect("a map")
}

fn pure(strategy: Strategy) -> Map {
    let builder = PeaBuilder::<RandomState>::default().segment_buckets(4).strategies(&[strategy]);
    builder.split_into(2).build_multi().expect("a map")
}

#[test]
fn maps_behave_like_vectors() {
    for buckets in [2, 16, 64, 2048] {
        behaves_like_vectors(|| of_buckets(buckets));
    }
    for strategy in [Strategy::Single, Strategy::TwoChoice, Strategy::Stash] {
        behaves_like_vectors(|| pure(strategy));
    }
}

/// Keys whose hashes agree in all bits that select buckets and segments go to chains, with all
/// their values.
#[test]
fn keys_that_collide_keep_their_values() {
    let hasher = TestHasher::new(Distribution::Identity);
    let builder = PeaBuilder::<RandomState>::default().segment_buckets(2).hasher(hasher);
    let map: PeaMultiMap<u64, u64, TestHasher> = builder.build_multi().expect("a map");
    // The inverse of the golden ratio, since the map multiplies hashes by the golden ratio.
    let key = |n: u64| n.wrapping_mul(0xF1DE_83E1_9937_733D);
    let values = |n: u64| n % 7;
    for n in 0..3000 {
        (0..values(n)).for_each(|value| map.insert(key(n), value));
    }
    let stats = map.stats().table;
    // A chain has one entry for each key: a value, or a pointer to its values.
    assert!((2400..2600).contains(&stats.chained) && stats.segments < 100, "{stats:?}");
    for n in 0..3000 {
        assert_eq!(map.count(&key(n)), values(n) as usize);
        assert_eq!(map.get_all(&key(n)).sum::<u64>(), (0..values(n)).sum());
        assert_eq!(map.remove_one(&key(n), &0), values(n) > 0);
        assert_eq!(map.remove_all(&key(n)), values(n).saturating_sub(1) as usize);
        assert!(!map.contains_key(&key(n)));
    }
    assert_eq!((map.len(), map.iter().count()), (0, 0));
}

#[test]
fn pairs_are_unique_and_keys_come_once() {
    unique_pairs_and_keys(|| of_buckets(2));
    unique_pairs_and_keys(Map::new);
    unique_pairs_and_keys(|| pure(Strategy::Stash));
}

#[test]
fn histories_of_threads_are_linearizable() {
    histories_are_linearizable(|| of_buckets(2));
    histories_are_linearizable(|| of_buckets(64));
    histories_are_linearizable(|| pure(Strategy::Stash));
}

#[test]
fn values_that_stay_are_visible() {
    for buckets in [2, 64, 2048] {
        values_stay_visible(|| of_buckets(buckets));
    }
    values_stay_visible(|| pure(Strategy::Stash));
}

#[test]
fn snapshots_are_consistent() {
    cuts_are_consistent(|| of_buckets(2));
    cuts_are_consistent(|| of_buckets(2048));
}

#[test]
fn memory_comes_back() {
    let size = |map: &Map| {
        let stats = map.stats();
        stats.table.segments + stats.value_segments
    };
    // A map of few values has no segments, and one that had more keeps two: so the new map has
    // room for more.
    let large = |buckets| {
        let builder = PeaBuilder::<RandomState>::default().segment_buckets(buckets);
        builder.capacity(100).build_multi().expect("a map")
    };
    an_emptied_map_is_small(|| large(16), size);
    an_emptied_map_is_small(|| large(2048), |map| map.memory_usage().mapped);
}

/// Figure 9(a): the mean utility of zipfian pairs depends little on their skew. Here 12.5 million
/// pairs, from 8 segments; a pair counts 16 bytes, wherever it is.
#[test]
fn utility_is_flat_over_skew() {
    let utilities = [0.0, 0.4, 0.8].map(|skew| {
        let builder = PeaBuilder::<RandomState>::default().capacity(8 * 2048 * 15 * 60 / 100);
        let map: Map = builder.build_multi().expect("a map");
        let pairs = 12_500_000_u32;
        // The continuous distribution.
        let key_of = |uniform: f64| (uniform.powf(1.0 / (1.0 - skew)) * f64::from(pairs)) as u64;
        let mut random = Random::new(1);
        let (mut held, mut used) = (0.0, 0.0);
        for n in 0..pairs {
            let uniform = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
            map.insert(key_of(uniform), n.into());
            if n % 125_000 == 124_999 {
                held += f64::from(n) * 16.0;
                used += map.memory_usage().mapped as f64;
            }
        }
        held / used
    });
    println!("{utilities:.3?}");
    for utility in utilities {
        // They are 0.478, 0.473 and 0.466, and vary by 0.001.
        assert!((utility - 0.485).abs() < 0.025, "{utilities:?}");
    }
}
