//! Every IcebergHT map passes the suite that fits it.

use nunatak::{BlockSizes, Blocks, BoxedMap, Iceberg, IcebergBuilder, InlineMap, RandomState};
use nunatak_harness::hashers::TestHasher;
use nunatak_harness::{Data, HashedSubject, Subject};

/// Blocks of eight and of two slots, so that all levels are in use and the table doubles again and
/// again.
type Tiny = Blocks<8, 2>;

fn adversarial<S>(builder: IcebergBuilder<S>) -> IcebergBuilder<S, Tiny> {
    builder.blocks().max_load(0.95)
}

struct Inline;

impl Subject<u64, u64> for Inline {
    type Map = InlineMap<u64, u64, RandomState, Iceberg<Tiny>>;

    fn build(&self, capacity: usize) -> Self::Map {
        IcebergBuilder::default().blocks().capacity(capacity).build().expect("valid options")
    }

    fn adversarial(&self) -> Self::Map {
        adversarial(IcebergBuilder::default()).build().expect("valid options")
    }
}

impl HashedSubject<u64, u64> for Inline {
    type Map = InlineMap<u64, u64, TestHasher, Iceberg<Tiny>>;

    fn build_hashed(&self, hasher: TestHasher) -> Self::Map {
        adversarial(IcebergBuilder::default().hasher(hasher)).build().expect("valid options")
    }
}

/// Maps with the default blocks, or with blocks that users choose.
struct Sized<B>(B);

impl<B: BlockSizes> Subject<u64, u64> for Sized<B> {
    type Map = InlineMap<u64, u64, RandomState, Iceberg<B>>;

    fn build(&self, capacity: usize) -> Self::Map {
        IcebergBuilder::default().blocks().capacity(capacity).build().expect("valid options")
    }
}

struct Boxed;

impl<K: Data, V: Data> Subject<K, V> for Boxed {
    type Map = BoxedMap<K, V, RandomState, Iceberg<Tiny>>;

    fn build(&self, capacity: usize) -> Self::Map {
        let builder = IcebergBuilder::default().blocks().capacity(capacity);
        builder.build_boxed().expect("valid options")
    }

    fn adversarial(&self) -> Self::Map {
        adversarial(IcebergBuilder::default()).build_boxed().expect("valid options")
    }
}

impl<K: Data, V: Data> HashedSubject<K, V> for Boxed {
    type Map = BoxedMap<K, V, TestHasher, Iceberg<Tiny>>;

    fn build_hashed(&self, hasher: TestHasher) -> Self::Map {
        adversarial(IcebergBuilder::default().hasher(hasher)).build_boxed().expect("valid options")
    }
}

nunatak_harness::suite_inline!(inline, Inline);
nunatak_harness::suite_inline!(default_blocks, Sized(Blocks::<64, 8>));
nunatak_harness::suite_inline!(smallest_blocks, Sized(Blocks::<32, 4>));
nunatak_harness::suite_boxed!(boxed, Boxed);
nunatak_harness::suite_hashers!(inline_hashed, u64, u64, Inline);
nunatak_harness::suite_hashers!(boxed_hashed, String, String, Boxed);
