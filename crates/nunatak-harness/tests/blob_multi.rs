//! Maps of byte strings with any number of values pass the checks of such maps.

use nunatak::{PeaBlobMultiMap, PeaBuilder, RandomState, Strategy};
use nunatak_harness::blob_multi::{number, text};
use nunatak_harness::hashers::{Distribution, TestHasher};
use nunatak_harness::model::behaves_like_vectors;
use nunatak_harness::multi::{
    an_emptied_map_is_small, cuts_are_consistent, histories_are_linearizable,
    pairs_are_unique_and_keys_come_once as unique_pairs_and_keys, values_stay_visible,
};
use nunatak_harness::stress::together;

type Map = PeaBlobMultiMap<u64>;

fn of_buckets(buckets: usize) -> Map {
    let builder = PeaBuilder::<RandomState>::default().segment_buckets(buckets);
    builder.build_blob_multi().expect("a map")
}

fn pure(strategy: Strategy) -> Map {
    let builder = PeaBuilder::<RandomState>::default().segment_buckets(4).strategies(&[strategy]);
    builder.split_into(2).build_blob_multi().expect("a map")
}

#[test]
fn maps_behave_like_vectors() {
    for buckets in [2, 64, 2048] {
        behaves_like_vectors(|| of_buckets(buckets));
    }
    behaves_like_vectors(|| pure(Strategy::Stash));
}

/// All keys have one hash, so only their bytes tell them apart.
#[test]
fn keys_of_one_hash_keep_their_values() {
    let hasher = TestHasher::new(Distribution::Constant);
    let map: PeaBlobMultiMap<u64, TestHasher> = PeaBlobMultiMap::with_hasher(hasher);
    let keys = 200;
    let pairs: Vec<_> = (0..3 * keys).map(|n| (text(n % keys), n)).collect();
    map.insert_many(&pairs).expect("memory for keys");
    for key in 0..keys {
        let mut values: Vec<u64> = map.get_all(&text(key)).collect();
        values.sort_unstable();
        assert_eq!(values, [key, keys + key, 2 * keys + key]);
        assert_eq!((map.remove_all(&text(key)), map.count(&text(key))), (3, 0));
    }
    assert_eq!((map.len(), map.reclaim(), map.blob_stats().blobs), (0, 0, 0));
}

#[test]
fn pairs_are_unique_and_keys_come_once() {
    unique_pairs_and_keys(|| of_buckets(2));
    unique_pairs_and_keys(Map::new);
}

#[test]
fn histories_of_threads_are_linearizable() {
    histories_are_linearizable(|| of_buckets(2));
    histories_are_linearizable(|| pure(Strategy::Stash));
}

#[test]
fn values_that_stay_are_visible() {
    values_stay_visible(|| of_buckets(2));
    values_stay_visible(Map::new);
}

#[test]
fn snapshots_are_consistent() {
    cuts_are_consistent(|| of_buckets(2));
}

#[test]
fn memory_comes_back() {
    // A map that had more than a few values keeps two segments of each table; so the new one has
    // room for more, too.
    let new = || {
        let map = of_buckets(16);
        map.reserve(100, 100).expect("room");
        (0..100).for_each(|n| map.insert(&text(n), n).expect("memory for a key"));
        map.clear();
        map.shrink_to_fit().expect("memory for a merge");
        map
    };
    an_emptied_map_is_small(new, |map| {
        let stats = map.stats();
        stats.table.segments + stats.value_segments
    });
    an_emptied_map_is_small(new, |map| map.blob_stats().blobs);
    // In spans: one more may be in use.
    an_emptied_map_is_small(new, |map| map.memory_usage().mapped >> 16);
}

/// A key comes and goes while threads add values to it: no value is added to a key that is gone,
/// and no reader sees the values of another key in the place of one that is gone.
#[test]
fn keys_that_come_and_go_keep_what_is_added() {
    let map = &of_buckets(2);
    let rounds = nunatak_harness::effort::scaled(20_000) as u64;
    let keys = 3;
    together(3, |thread| {
        let thread = thread as u64;
        for round in 0..rounds {
            let key = round % keys;
            let value = key << 32 | thread << 24 | round & 0xFF_FFFF;
            map.insert(&text(key), value).expect("memory for a key");
            let all: Vec<u64> = map.get_all(&text(key)).collect();
            assert!(all.contains(&value) && all.iter().all(|of| of >> 32 == key), "{all:?}");
            if round % 64 == 0 {
                let pairs = map.iter().chain(map.snapshot().expect("memory for a cut"));
                assert!(pairs.into_iter().all(|(of, value)| number(&of) == value >> 32));
            }
            assert!(map.remove_one(&text(key), &value), "round {round}");
        }
    });
    assert!(map.is_empty());
    map.reclaim();
    assert_eq!(map.blob_stats().blobs, 0);
}
