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
    fn reservable(&self, map: &Self::Map) -> usize {
        map.memory_usage().mapped
    }
}

/// How to build maps of one type. The checks run on this, so that they are compiled once for each type of map, and not
/// for each subject.
pub struct Of<'s, K: Data, V: Data, M>(&'s dyn Builds<K, V, M>);

/// [`Subject`], as the methods of an object.
trait Builds<K: Data, V: Data, M>: Sync {
    fn build(&self, capacity: usize) -> M;
    fn adversarial(&self) -> M;
    fn reservable(&self, map: &M) -> usize;
}

impl<K: Data, V: Data, S: Subject<K, V>> Builds<K, V, S::Map> for S {
    fn build(&self, capacity: usize) -> S::Map {
        Subject::build(self, capacity)
    }

    fn adversarial(&self) -> S::Map {
        Subject::adversarial(self)
    }

    fn reservable(&self, map: &S::Map) -> usize {
        Subject::reservable(self, map)
    }
}

impl<'s, K: Data, V: Data, M: ConcurrentMap<K, V>> Of<'s, K, V, M> {
    /// Returns a subject as one of its map's type.
    pub fn subject<S: Subject<K, V, Map = M>>(subject: &'s S) -> Self {
        Self(subject)
    }
}

impl<K: Data, V: Data, M: ConcurrentMap<K, V>> Subject<K, V> for Of<'_, K, V, M> {
    type Map = M;

    fn build(&self, capacity: usize) -> M {
        self.0.build(capacity)
    }

    fn adversarial(&self) -> M {
        self.0.adversarial()
    }

    fn reservable(&self, map: &M) -> usize {
        self.0.reservable(map)
    }
}

impl<K: Data, V: Data, M> std::fmt::Debug for Of<'_, K, V, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Of")
    }
}

/// A map under test with the caller's hasher.
pub trait HashedSubject<K: Data, V: Data>: Sync {
    /// The type of the map.
    type Map: ConcurrentMap<K, V>;

    /// Builds an empty, small map that hashes with `hasher`.
    fn build_hashed(&self, hasher: TestHasher) -> Self::Map;
}
