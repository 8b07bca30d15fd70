//! How to build the map under test.

use crate::hashers::TestHasher;
use crate::sample::Data;
use nunatak::ConcurrentMap;

/// A map under test.
pub trait Subject<K: Data, V: Data>: Sync {
    /// Its type.
    type Map: ConcurrentMap<K, V>;

    /// An empty map with room for `capacity` entries, otherwise as users get it.
    fn build(&self, capacity: usize) -> Self::Map;

    /// An empty map whose configuration makes rare events frequent: the
    /// smallest table, growth by the smallest factor, a transfer in the
    /// smallest pieces.
    fn adversarial(&self) -> Self::Map {
        self.build(0)
    }

    /// How many bytes the map has for what can be reserved: all, unless it says otherwise.
    fn reservable(map: &Self::Map) -> usize {
        map.memory_usage().mapped
    }
}

/// A map under test to which the caller can give a hasher.
pub trait HashedSubject<K: Data, V: Data>: Sync {
    /// Its type.
    type Map: ConcurrentMap<K, V>;

    /// An empty, small map that hashes with `hasher`.
    fn build_hashed(&self, hasher: TestHasher) -> Self::Map;
}
