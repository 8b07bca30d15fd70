//! Every map of Pea Hash passes the suite that fits it.

use nunatak::entry;
use nunatak::{
    Entry8, Entry12, EntrySize, InlineMap, Pea, PeaBoxedMap, PeaBuilder, PeaMap, RandomState,
    Strategy,
};
use nunatak_harness::hashers::{Distribution, TestHasher};
use nunatak_harness::{Data, HashedSubject, Subject};
use std::marker::PhantomData;

/// Segments of two buckets, so that all strategies are in use and segments are split again and
/// again.
fn adversarial<S>(builder: PeaBuilder<S>) -> PeaBuilder<S> {
    builder.segment_buckets(2)
}

struct Inline;

impl Subject<u64, u64> for Inline {
    type Map = PeaMap<u64, u64>;

    fn build(&self, capacity: usize) -> Self::Map {
        let builder = PeaBuilder::<RandomState>::default().segment_buckets(16);
        builder.capacity(capacity).build().expect("valid options")
    }

    fn adversarial(&self) -> Self::Map {
        adversarial(PeaBuilder::<RandomState>::default()).build().expect("valid options")
    }
}

impl HashedSubject<u64, u64> for Inline {
    type Map = PeaMap<u64, u64, TestHasher>;

    fn build_hashed(&self, hasher: TestHasher) -> Self::Map {
        let builder = PeaBuilder::<RandomState>::default().hasher(hasher);
        adversarial(builder).build().expect("valid options")
    }
}

/// Maps with the default segments.
struct Default;

impl Subject<u64, u64> for Default {
    type Map = PeaMap<u64, u64>;

    fn build(&self, capacity: usize) -> Self::Map {
        PeaMap::with_capacity(capacity)
    }
}

/// Maps with one strategy, and splits into two.
struct Pure(Strategy);

impl Subject<u64, u64> for Pure {
    type Map = PeaMap<u64, u64>;

    fn build(&self, capacity: usize) -> Self::Map {
        let builder = PeaBuilder::<RandomState>::default().segment_buckets(4);
        let builder = builder.strategies(&[self.0]).split_into(2);
        builder.capacity(capacity).build().expect("valid options")
    }
}

/// Maps of smaller entries.
struct Narrow<E>(PhantomData<E>);

impl<E: EntrySize, V: entry::Inline + Data> Subject<u32, V> for Narrow<E> {
    type Map = InlineMap<u32, V, RandomState, Pea<E>>;

    fn build(&self, capacity: usize) -> Self::Map {
        let builder = PeaBuilder::<RandomState>::default().segment_buckets(16);
        builder.capacity(capacity).build().expect("valid options")
    }

    fn adversarial(&self) -> Self::Map {
        adversarial(PeaBuilder::<RandomState>::default()).build().expect("valid options")
    }
}

impl<E: EntrySize, V: entry::Inline + Data> HashedSubject<u32, V> for Narrow<E> {
    type Map = InlineMap<u32, V, TestHasher, Pea<E>>;

    fn build_hashed(&self, hasher: TestHasher) -> Self::Map {
        let builder = PeaBuilder::<RandomState>::default().hasher(hasher);
        adversarial(builder).build().expect("valid options")
    }
}

struct Boxed;

impl<K: Data, V: Data> Subject<K, V> for Boxed {
    type Map = PeaBoxedMap<K, V>;

    fn build(&self, capacity: usize) -> Self::Map {
        let builder = PeaBuilder::<RandomState>::default().segment_buckets(16);
        builder.capacity(capacity).build_boxed().expect("valid options")
    }

    fn adversarial(&self) -> Self::Map {
        adversarial(PeaBuilder::<RandomState>::default()).build_boxed().expect("valid options")
    }
}

impl<K: Data, V: Data> HashedSubject<K, V> for Boxed {
    type Map = PeaBoxedMap<K, V, TestHasher>;

    fn build_hashed(&self, hasher: TestHasher) -> Self::Map {
        let builder = PeaBuilder::<RandomState>::default().hasher(hasher);
        adversarial(builder).build_boxed().expect("valid options")
    }
}

nunatak_harness::suite_inline!(inline, Inline);
nunatak_harness::suite_inline!(default_segments, Default);
nunatak_harness::suite_inline!(stash, Pure(Strategy::Stash));
nunatak_harness::suite_inline!(entries_of_12, u32, u64, Narrow::<Entry12>(PhantomData));
nunatak_harness::suite_sequential!(entries_of_8, u32, u32, Narrow::<Entry8>(PhantomData));
nunatak_harness::suite_boxed!(boxed, Boxed);
nunatak_harness::suite_hashers!(inline_hashed, u64, u64, Inline);
nunatak_harness::suite_hashers!(hashed_of_12, u32, u64, Narrow::<Entry12>(PhantomData));
nunatak_harness::suite_hashers!(boxed_hashed, String, String, Boxed);

/// Keys whose hashes agree in all bits that select buckets and segments go to chains. Neither the
/// directory nor the segments grow without end.
#[test]
fn keys_that_collide_take_no_more_memory_than_others() {
    /// Multiplies by the inverse of the golden ratio, since the map multiplies hashes by the golden
    /// ratio.
    fn key(n: u64) -> u64 {
        n.wrapping_mul(0xF1DE_83E1_9937_733D)
    }
    // Larger segments hold many colliding keys in their second buckets.
    for (buckets, count) in [(2, 20_000), (2048, 60_000)] {
        let hasher = TestHasher::new(Distribution::Identity);
        let builder = PeaBuilder::<RandomState>::default().hasher(hasher);
        let map: PeaMap<u64, u64, TestHasher> =
            builder.segment_buckets(buckets).build().expect("valid options");
        for n in 0..count {
            assert_eq!(map.insert(key(n), n), None);
        }
        let stats = map.stats();
        // The bound allows 64 directory entries for a segment that is a quarter full, and a split
        // into four.
        let needed = count as usize / (buckets * 15 / 4) + 1;
        assert!(1 << stats.depth <= 64 * 4 * needed.next_power_of_two(), "{stats:?}");
        let in_one = (buckets + 2) * 15;
        assert!(stats.chained + 2 * in_one >= count as usize, "{stats:?}");
        assert!(stats.segments < 100, "{stats:?}");
        assert!((0..count).all(|n| map.get(&key(n)) == Some(n)));
        (0..count).for_each(|n| assert_eq!(map.remove(&key(n)), Some(n)));
        map.shrink_to_fit().expect("memory for a merge");
        let stats = map.stats();
        assert_eq!((stats.segments, stats.chained, stats.len), (2, 0, 0));
    }
}
