//! How to build the map under test.

use crate::hashers::TestHasher;
use crate::sample::Data;
use nunatak::ConcurrentMap;

/// A map under test.
pub trait Subject<K: Data, V: Data>: Sync {
    /// The type of the map.
    type Map: ConcurrentMap<K, V>;

    /// Builds an empty map with room for `capacity` entries, otherwise with the defaults.
    fn build(&self, capacity: usize) -> Self::Map;

    /// Builds an empty map whose configuration makes rare events frequent: the smallest table,
    /// growth by the smallest factor, transfers in the smallest pieces.
    fn adversarial(&self) -> Self::Map {
        self.build(0)
    }

    /// Returns the bytes of the map that `reserve` can provide in advance; by default all bytes.
    fn reservable(map: &Self::Map) -> usize {
        map.memory_usage().mapped
    }
}

/// A map under test with the caller's hasher.
pub trait HashedSubject<K: Data, V: Data>: Sync {
    /// The type of the map.
    type Map: ConcurrentMap<K, V>;

    /// Builds an empty, small map that hashes with `hasher`.
    fn build_hashed(&self, hasher: TestHasher) -> Self::Map;
}
