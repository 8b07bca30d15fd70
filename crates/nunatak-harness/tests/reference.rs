//! The reference map passes every suite.

use nunatak_harness::hashers::TestHasher;
use nunatak_harness::{Data, HashedSubject, ReferenceMap, Subject};

struct Reference;

impl<K: Data, V: Data> Subject<K, V> for Reference {
    type Map = ReferenceMap<K, V>;

    fn build(&self, capacity: usize) -> Self::Map {
        ReferenceMap::with_capacity(capacity)
    }
}

impl<K: Data, V: Data> HashedSubject<K, V> for Reference {
    type Map = ReferenceMap<K, V, TestHasher>;

    fn build_hashed(&self, hasher: TestHasher) -> Self::Map {
        ReferenceMap::with_capacity_and_hasher(0, hasher)
    }
}

nunatak_harness::suite_inline!(inline, Reference);
nunatak_harness::suite_boxed!(boxed, Reference);
nunatak_harness::suite_sequential!(sequential, u64, String, Reference);
nunatak_harness::suite_hashers!(hashed, u64, u64, Reference);
nunatak_harness::suite_hashers!(hashed_strings, String, String, Reference);
