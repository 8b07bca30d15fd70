//! The public maps: typed, documented, thin. One file a map, and [`ConcurrentMap`], the interface
//! that they share.

mod batch;
mod blob_multi;
pub(crate) mod boxed;
mod bytes;
mod designs;
pub(crate) mod entry;
mod fallible;
pub(crate) mod inline;
mod interface;
mod multi;
mod owned_pairs;
mod set_algebra;
mod set_methods;
mod unwind;
pub(crate) mod wide;
#[cfg(feature = "rayon")]
mod with_rayon;
#[cfg(feature = "serde")]
mod with_serde;

pub use batch::{Op, Outcome, Request, Stop};
pub use blob_multi::PeaBlobMultiMap;
pub use boxed::BoxedMap;
pub use boxed::guard::{BoxedGuard, Removed};
pub use boxed::sealable::Sealable;
pub use boxed::set::BoxedSet;
pub use bytes::ByteMap;
pub use bytes::blob::BlobMap;
pub use bytes::detached::Detached;
pub use bytes::guard::ByteGuard;
pub use bytes::record::{DlhtRecordMap, RecordMap};
pub use bytes::shadow::{DlhtShadowRecordMap, RecordShadow};
pub use designs::dlht::{
    DlhtBoxedMap, DlhtBoxedSet, DlhtBuilder, DlhtLocalMap, DlhtMap, DlhtSet, DlhtWideMap,
    DlhtWideSet,
};
pub use designs::iceberg::{
    IcebergBoxedMap, IcebergBoxedSet, IcebergBuilder, IcebergMap, IcebergSet, IcebergWideMap,
    IcebergWideSet,
};
pub use designs::pea::{PeaBoxedMap, PeaBoxedSet, PeaBuilder, PeaMap, PeaMap8, PeaMap12, PeaSet};
pub use designs::turbo::{
    TurboBlobMap, TurboBoxedMap, TurboBoxedSet, TurboBuilder, TurboMap, TurboSet,
};
pub use fallible::TryConcurrentMap;
#[cfg(durable)]
pub(crate) use fallible::of_byte_strings;
pub use inline::InlineMap;
pub use inline::guard::InlineGuard;
pub use inline::set::InlineSet;
pub use inline::shadow::{DlhtShadowMap, Shadow};
pub use multi::PeaMultiMap;
pub use wide::WideMap;
pub use wide::collection::WideStats;
pub use wide::set::WideSet;

use crate::error::{BatchError, Error};
use crate::memory::MemoryUsage;

/// What [`ConcurrentMap::compute`] does with a key.
///
/// ```
/// use nunatak::{Compute, ConcurrentMap, DlhtMap};
/// let map: DlhtMap<u64, u64> = DlhtMap::new();
/// map.compute(7, |present| Compute::Put(present.copied().unwrap_or(0) + 1));
/// assert_eq!(map.get(&7), Some(1));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compute<V> {
    /// Leave the key as it is.
    Keep,
    /// Store this value, whether the key was present or not.
    Put(V),
    /// Take the key out, if it is present.
    Remove,
}

/// A map that any number of threads may use through a shared reference.
///
/// **Consistency.** Every operation on one key is linearizable: it takes effect at one instant
/// between its call and its return. A batch is equal to its operations, one after the other in the
/// caller's order. Iteration is weakly consistent: an iterator yields a key that is present from
/// its beginning to its end exactly once, and a key that is inserted or removed meanwhile at most
/// once. A snapshot is a consistent cut through all keys.
///
/// **Progress.** A read never writes memory that other threads use. No operation waits for the
/// length of a resize of the whole map. The map holds nothing that an operation on another key may
/// wait for while a closure of the caller runs, so closures may use the map itself.
///
/// **Panics.** A panic in the caller's `Hash`, `Eq`, `Clone`, `Drop` or closure leaves the map
/// usable. At most the entry that was being stored is leaked.
///
/// A map of one thread (such as [`DlhtLocalMap`]) implements the trait too, so that generic code
/// can use it; it is not `Sync`.
///
/// ```
/// use nunatak::{ConcurrentMap, DlhtMap};
/// fn total<M: ConcurrentMap<u64, u64>>(map: &M) -> u64 {
///     map.iter().map(|(_, value)| value).sum()
/// }
/// let map: DlhtMap<u64, u64> = [(1, 10), (2, 20)].into_iter().collect();
/// assert_eq!(total(&map), 30);
/// ```
pub trait ConcurrentMap<K: Clone, V: Clone>: Sized {
    /// The figures that the paper of the map's design reports.
    type Stats: core::fmt::Debug + Clone;

    /// Returns a copy of the key's value.
    fn get(&self, key: &K) -> Option<V>;

    /// Returns whether the key is present.
    fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Stores the value and returns the value that it replaced, if any.
    fn insert(&self, key: K, value: V) -> Option<V>;

    /// Stores the value if the key is absent, and changes nothing otherwise.
    ///
    /// # Errors
    /// The value that is present.
    fn try_insert(&self, key: K, value: V) -> Result<(), V>;

    /// Replaces the value if the key is present, and returns the value that it replaced.
    fn update(&self, key: &K, value: V) -> Option<V>;

    /// Replaces the value by `new` if the key is present with a value equal to `current`, and
    /// returns the value that it replaced.
    ///
    /// # Errors
    /// The value that is present instead, or `None` if the key is absent.
    fn compare_exchange(&self, key: &K, current: &V, new: V) -> Result<V, Option<V>>
    where
        V: PartialEq;

    /// Replaces the value by the result of `f`, and returns the value before. `f` may run more than
    /// once, each time on a newer value. If it returns `None` nothing changes.
    ///
    /// # Errors
    /// The present value if `f` returned `None` for it, `None` if the key is absent.
    fn fetch_update<F>(&self, key: &K, f: F) -> Result<V, Option<V>>
    where
        F: FnMut(&V) -> Option<V>;

    /// Keeps, replaces or removes the key's value as `f` decides, atomically, and returns the value
    /// before. `f` may run more than once; its last answer counts.
    fn compute<F>(&self, key: K, f: F) -> Option<V>
    where
        F: FnMut(Option<&V>) -> Compute<V>;

    /// Returns the key's value, or stores and returns the result of `make` if the key is absent.
    /// `make` runs at most once. Its value is dropped if another thread stored one meanwhile.
    fn get_or_insert_with<F>(&self, key: K, make: F) -> V
    where
        F: FnOnce() -> V,
    {
        if let Some(value) = self.get(&key) {
            return value;
        }
        let value = make();
        match self.try_insert(key, value.clone()) {
            Ok(()) => value,
            Err(present) => present,
        }
    }

    /// Removes the key and returns its value.
    fn remove(&self, key: &K) -> Option<V>;

    /// Removes the key if `condition` holds for its value at that instant, and returns the value.
    /// `condition` may run more than once, each time on a newer value. A value that is changed in
    /// place, such as an atomic, does not become a newer value.
    fn remove_if<F>(&self, key: &K, condition: F) -> Option<V>
    where
        F: FnMut(&V) -> bool;

    /// Looks up all keys, in order, with overlapped memory latencies, and returns how many were
    /// present.
    ///
    /// # Errors
    /// If `values` is shorter than `keys`; nothing was done.
    fn get_many(&self, keys: &[K], values: &mut [Option<V>]) -> Result<usize, BatchError>;

    /// Stores all entries, in order, and returns how many keys were new.
    ///
    /// # Errors
    /// If `previous` is shorter than `entries`; nothing was done.
    fn insert_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, BatchError>;

    /// Replaces the values of all keys that are present, in order, and returns how many were.
    ///
    /// # Errors
    /// If `previous` is shorter than `entries`; nothing was done.
    fn update_many(
        &self,
        entries: &[(K, V)],
        previous: &mut [Option<V>],
    ) -> Result<usize, BatchError>;

    /// Removes all keys, in order, and returns how many were present.
    ///
    /// # Errors
    /// If `removed` is shorter than `keys`; nothing was done.
    fn remove_many(&self, keys: &[K], removed: &mut [Option<V>]) -> Result<usize, BatchError>;

    /// Executes mixed operations in the caller's order and returns how many were executed. Each
    /// operation holds its outcome afterwards. With [`Stop::AtFirstFailure`] the first operation
    /// that fails (its key is missing, or present where it must not be) is the last one executed.
    fn execute(&self, operations: &mut [Op<K, V>], stop: Stop) -> usize;

    /// Prefetches the cache lines that an operation on the key touches first, and returns at once:
    /// call it, do other work, then operate.
    fn prefetch(&self, key: &K);

    /// Iterates over copies of all entries, weakly consistent.
    fn iter(&self) -> impl Iterator<Item = (K, V)>;

    /// Takes a consistent cut of all entries.
    ///
    /// # Errors
    /// If memory for the cut is refused.
    fn snapshot(&self) -> Result<impl Iterator<Item = (K, V)>, Error>;

    /// Removes every entry for which `keep` returns false. `keep` runs once for each entry that it
    /// is shown, and again only if the key's value was replaced meanwhile. (A value that is changed
    /// in place, such as an atomic, is not replaced.)
    fn retain<F>(&self, keep: F)
    where
        F: FnMut(&K, &V) -> bool;

    /// Removes every entry that is present when the walk reaches it.
    fn clear(&self) {
        self.retain(|_, _| false);
    }

    /// Returns how many entries there are: exact when no other thread changes the map.
    fn len(&self) -> usize;

    /// Returns whether there is no entry.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes room for `additional` more entries, so that inserting them does not start a resize.
    /// (If too many hashes collide by chance a resize starts nevertheless; inserts do not fail
    /// then.)
    ///
    /// # Errors
    /// If memory is refused; the map is as it was.
    fn reserve(&self, additional: usize) -> Result<(), Error>;

    /// Gives back memory that the entries do not need.
    ///
    /// # Errors
    /// If memory for the smaller table is refused; the map is as it was.
    fn shrink_to_fit(&self) -> Result<(), Error>;

    /// Returns the share of the mapped slots that hold an entry.
    fn load_factor(&self) -> f64;

    /// Returns how many bytes the map has mapped, and how many of them are resident.
    fn memory_usage(&self) -> MemoryUsage;

    /// Returns the figures that the paper of the map's design reports.
    fn stats(&self) -> Self::Stats;
}
