//! Every map of TurboHash passes the suite that fits it.

use nunatak::entry;
use nunatak::{
    Entry8, Entry12, EntrySize, InlineMap, RandomState, Turbo, TurboBoxedMap, TurboBuilder,
    TurboMap,
};
use nunatak_harness::hashers::{Distribution, TestHasher};
use nunatak_harness::{Data, HashedSubject, Subject};
use std::marker::PhantomData;

/// Two shards, which are rehashed again and again, and keys in chains.
fn adversarial<S>(builder: TurboBuilder<S>) -> TurboBuilder<S> {
    builder.shards(2).scope(2).tombstones(0.05)
}

struct Inline;

impl Subject<u64, u64> for Inline {
    type Map = TurboMap<u64, u64>;

    fn build(&self, capacity: usize) -> Self::Map {
        let builder = TurboBuilder::<RandomState>::default().shards(16);
        builder.capacity(capacity).build().expect("valid options")
    }

    fn adversarial(&self) -> Self::Map {
        adversarial(TurboBuilder::<RandomState>::default()).build().expect("valid options")
    }
}

impl HashedSubject<u64, u64> for Inline {
    type Map = TurboMap<u64, u64, TestHasher>;

    fn build_hashed(&self, hasher: TestHasher) -> Self::Map {
        let builder = TurboBuilder::<RandomState>::default().hasher(hasher);
        adversarial(builder).build().expect("valid options")
    }
}

/// Maps with the default shards.
struct Default;

impl Subject<u64, u64> for Default {
    type Map = TurboMap<u64, u64>;

    fn build(&self, capacity: usize) -> Self::Map {
        TurboMap::with_capacity(capacity)
    }
}

/// Maps of smaller entries.
struct Narrow<E>(PhantomData<E>);

impl<E: EntrySize, V: entry::Inline + Data> Subject<u32, V> for Narrow<E> {
    type Map = InlineMap<u32, V, RandomState, Turbo<E>>;

    fn build(&self, capacity: usize) -> Self::Map {
        let builder = TurboBuilder::<RandomState>::default().shards(16);
        builder.capacity(capacity).build().expect("valid options")
    }

    fn adversarial(&self) -> Self::Map {
        adversarial(TurboBuilder::<RandomState>::default()).build().expect("valid options")
    }
}

struct Boxed;

impl<K: Data, V: Data> Subject<K, V> for Boxed {
    type Map = TurboBoxedMap<K, V>;

    fn build(&self, capacity: usize) -> Self::Map {
        let builder = TurboBuilder::<RandomState>::default().shards(16);
        builder.capacity(capacity).build_boxed().expect("valid options")
    }

    fn adversarial(&self) -> Self::Map {
        adversarial(TurboBuilder::<RandomState>::default()).build_boxed().expect("valid options")
    }
}

impl<K: Data, V: Data> HashedSubject<K, V> for Boxed {
    type Map = TurboBoxedMap<K, V, TestHasher>;

    fn build_hashed(&self, hasher: TestHasher) -> Self::Map {
        let builder = TurboBuilder::<RandomState>::default().hasher(hasher);
        adversarial(builder).build_boxed().expect("valid options")
    }
}

nunatak_harness::suite_inline!(inline, Inline);
nunatak_harness::suite_inline!(default_shards, Default);
nunatak_harness::suite_sequential!(entries_of_12, u32, u64, Narrow::<Entry12>(PhantomData));
nunatak_harness::suite_sequential!(entries_of_8, u32, u32, Narrow::<Entry8>(PhantomData));
nunatak_harness::suite_boxed!(boxed, Boxed);
nunatak_harness::suite_hashers!(inline_hashed, u64, u64, Inline);
nunatak_harness::suite_hashers!(boxed_hashed, String, String, Boxed);

/// Keys whose hashes agree in all bits that select shards and buckets go to chains. Their shard
/// does not grow without end, and is as small as before after they are removed.
#[test]
fn keys_that_collide_take_no_more_memory_than_others() {
    /// Multiplies by the inverse of the golden ratio, since the map multiplies hashes by the golden
    /// ratio.
    fn key(n: u64) -> u64 {
        n.wrapping_mul(0xF1DE_83E1_9937_733D)
    }
    for scope in [2, 16] {
        let hasher = TestHasher::new(Distribution::Identity);
        let builder = TurboBuilder::<RandomState>::default().hasher(hasher).scope(scope);
        let map: TurboMap<u64, u64, TestHasher> = builder.build().expect("valid options");
        let count = 20_000_u64;
        for n in 0..count {
            assert_eq!(map.insert(key(n), n), None);
        }
        let stats = map.stats();
        assert!(stats.chained + 15 * scope >= count as usize, "{stats:?}");
        assert!(stats.buckets <= 64 * scope, "{stats:?}");
        assert!((0..count).all(|n| map.get(&key(n)) == Some(n)));
        (0..count).for_each(|n| assert_eq!(map.remove(&key(n)), Some(n)));
        map.shrink_to_fit().expect("memory");
        let stats = map.stats();
        assert_eq!((stats.buckets, stats.chained, stats.len), (0, 0, 0));
    }
}
