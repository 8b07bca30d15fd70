//! Every map of Pea Hash passes the suite that fits it.

use nunatak::{PeaBoxedMap, PeaBuilder, PeaMap, RandomState, Strategy};
use nunatak_harness::hashers::TestHasher;
use nunatak_harness::{Data, HashedSubject, Subject};

/// Segments of two buckets, so that all strategies are in use and segments are split
/// again and again.
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

/// Segments as users get them.
struct Default;

impl Subject<u64, u64> for Default {
    type Map = PeaMap<u64, u64>;

    fn build(&self, capacity: usize) -> Self::Map {
        PeaMap::with_capacity(capacity)
    }
}

/// One strategy, and splits into two.
struct Pure(Strategy);

impl Subject<u64, u64> for Pure {
    type Map = PeaMap<u64, u64>;

    fn build(&self, capacity: usize) -> Self::Map {
        let builder = PeaBuilder::<RandomState>::default().segment_buckets(4);
        let builder = builder.strategies(&[self.0]).split_into(2);
        builder.capacity(capacity).build().expect("valid options")
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
nunatak_harness::suite_boxed!(boxed, Boxed);
nunatak_harness::suite_hashers!(inline_hashed, u64, u64, Inline);
nunatak_harness::suite_hashers!(boxed_hashed, String, String, Boxed);
