//! Every DLHT map passes the suite that fits it.

use nunatak::mode::{Shared, SingleThread};
use nunatak::{DlhtBoxedMap, DlhtBuilder, DlhtLocalMap, DlhtMap, Modulo};
use nunatak_harness::hashers::TestHasher;
use nunatak_harness::{Data, HashedSubject, Subject};

/// Two bins; the index doubles, moves one bin at a time, and has as few links as possible.
fn adversarial<S>(builder: DlhtBuilder<S>) -> DlhtBuilder<S> {
    builder.initial_bins(2).growth_factor(2).transfer_chunk(1).link_ratio(64)
}

struct Inline;

impl Subject<u64, u64> for Inline {
    type Map = DlhtMap<u64, u64>;

    fn build(&self, capacity: usize) -> Self::Map {
        DlhtMap::with_capacity(capacity)
    }

    fn adversarial(&self) -> Self::Map {
        adversarial(DlhtBuilder::default()).build().expect("valid options")
    }
}

impl HashedSubject<u64, u64> for Inline {
    type Map = DlhtMap<u64, u64, TestHasher>;

    fn build_hashed(&self, hasher: TestHasher) -> Self::Map {
        let builder = adversarial(DlhtBuilder::default()).hasher(hasher);
        builder.build::<_, _, Shared>().expect("valid options")
    }
}

/// Hashes by modulo, as in the paper.
struct ByModulo;

impl Subject<u64, u64> for ByModulo {
    type Map = DlhtMap<u64, u64, Modulo>;

    fn build(&self, capacity: usize) -> Self::Map {
        let builder = DlhtBuilder::default().hasher(Modulo).capacity(capacity);
        builder.build().expect("valid options")
    }

    fn adversarial(&self) -> Self::Map {
        adversarial(DlhtBuilder::default().hasher(Modulo)).build().expect("valid options")
    }
}

/// A map of one thread, without synchronization.
struct Local;

impl Subject<u64, u64> for Local {
    type Map = DlhtLocalMap<u64, u64>;

    fn build(&self, capacity: usize) -> Self::Map {
        DlhtLocalMap::with_capacity(capacity)
    }

    fn adversarial(&self) -> Self::Map {
        let builder = adversarial(DlhtBuilder::default());
        builder.build::<_, _, SingleThread>().expect("valid options")
    }
}

struct Boxed;

impl<K: Data, V: Data> Subject<K, V> for Boxed {
    type Map = DlhtBoxedMap<K, V>;

    fn build(&self, capacity: usize) -> Self::Map {
        DlhtBuilder::default().capacity(capacity).build_boxed().expect("valid options")
    }

    fn adversarial(&self) -> Self::Map {
        adversarial(DlhtBuilder::default()).build_boxed().expect("valid options")
    }
}

impl<K: Data, V: Data> HashedSubject<K, V> for Boxed {
    type Map = DlhtBoxedMap<K, V, TestHasher>;

    fn build_hashed(&self, hasher: TestHasher) -> Self::Map {
        adversarial(DlhtBuilder::default()).hasher(hasher).build_boxed().expect("valid options")
    }
}

nunatak_harness::suite_inline!(inline, Inline);
nunatak_harness::suite_inline!(modulo, ByModulo);
nunatak_harness::suite_sequential!(local, u64, u64, Local);
nunatak_harness::suite_boxed!(boxed, Boxed);
nunatak_harness::suite_hashers!(inline_hashed, u64, u64, Inline);
nunatak_harness::suite_hashers!(boxed_hashed, String, String, Boxed);
