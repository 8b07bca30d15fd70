//! [`Cache`], and how its parts work together.
//!
//! The map holds the entries; a shard's queues say which goes next. An insert takes three steps:
//!
//! 1. It counts the entry's weight, if the capacity allows that, and gives the entry a place in the
//!    queues. Otherwise it evicts an entry first, under the lock of that entry's shard. Eviction
//!    that meets an entry which is not in the map yet passes by.
//! 2. It puts the entry into the map. The caller's `Eq` may run here, and nothing is held.
//! 3. If it has replaced an entry, it frees that entry's place.
//!
//! Removals take the entry out of the map and then free its place. The map gives every entry that is
//! taken out to exactly one thread, so a place is freed once. (Invariants: [`crate::policy`].)

mod computed;
mod eviction;
mod guard;
mod leaving;
mod reads;
mod removals;
mod whole;
mod writes;

pub use guard::Guard;

use crate::cause::Cause;
use crate::clock::{AnyClock, NEVER, Nanos};
use crate::computing::Flights;
use crate::counters::Counters;
use crate::item::Item;
use crate::key::{Key, PassOn, spread};
use crate::policy::Queues;
use crate::sync::{Mutex, MutexGuard, lock};
use core::hash::{BuildHasher, Hash};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crossbeam_utils::CachePadded;
use nunatak::{DlhtBoxedMap, RandomState};

pub(crate) use reads::Seen;
pub(crate) use writes::Stored;

pub(crate) type Weigher<K, V> = Box<dyn Fn(&K, &V) -> u64 + Send + Sync>;
pub(crate) type Listener<K, V> = Box<dyn Fn(&K, &V, Cause) + Send + Sync>;

/// What the builder decides.
pub(crate) struct Settings<K, V> {
    pub(crate) capacity: u64,
    /// Time to live.
    pub(crate) live: Nanos,
    /// Time to idle.
    pub(crate) idle: Nanos,
    pub(crate) weigher: Option<Weigher<K, V>>,
    pub(crate) listener: Option<Listener<K, V>>,
    pub(crate) clock: AnyClock,
}

/// A concurrent cache of bounded size. Threads share it by reference.
///
/// It evicts by S3-FIFO: an entry that is used once goes soon, so a scan does not displace the
/// entries that are used again. Keys are looked up by any borrowed form. [`Builder`](crate::Builder)
/// makes caches with other options.
///
/// # Cost and concurrency
///
/// - A get takes no lock. It costs a get of a [`DlhtBoxedMap`], a counter of this thread, and a store
///   of one byte in the entry, unless its counter is at its end already.
/// - An insert or a removal takes the lock of one shard of the queues, for some list operations. An
///   insert into a full cache also evicts there, which looks entries up in the map. It may take locks
///   of other shards, one after the other.
/// - Operations on one key are linearizable, except that eviction may remove any entry at any time.
/// - The weight of all entries [never exceeds the capacity](Self::weight).
/// - The cache holds nothing while it calls your code (hashers, `Eq`, `Clone`, `Drop`, closures):
///   it may use the cache, and it may panic.
///
/// # When values are dropped
///
/// An entry that left is dropped when no [guard](Guard) and no get that may see it lives, by a later
/// operation that takes entries out. Some 128 entries for each of eight groups of threads wait. With
/// a [weigher](crate::Builder::weigher) those that wait also weigh at most a 16th of the capacity,
/// plus what guards hold back. [`run_pending`](Self::run_pending) drops all of them.
///
/// ```
/// use nunatak_cache::Cache;
///
/// let cache: Cache<String, u64> = Cache::new(10_000);
/// cache.insert("a".into(), 1);
/// assert_eq!(cache.get("a"), Some(1));
/// let computed = cache.get_or_insert_with("b", || 2); // one computation for all threads
/// assert_eq!(computed, 2);
/// ```
pub struct Cache<K, V, S = RandomState> {
    map: DlhtBoxedMap<Key<K>, Item<V>, PassOn>,
    settings: Settings<K, V>,
    hasher: S,
    /// A power of two.
    shards: Box<[CachePadded<Mutex<Queues>>]>,
    /// Of all entries that have a place in the queues: never more than the capacity.
    weight: CachePadded<AtomicU64>,
    /// What has left since values were last reclaimed. Kept only with a weigher.
    unreclaimed: CachePadded<AtomicU64>,
    /// Whether any entry may expire, so that inserts read the clock.
    is_timed: AtomicBool,
    counters: Counters,
    flights: Flights<K, V>,
}

impl<K, V> Cache<K, V> {
    /// Makes a cache of so many entries, which never expire.
    ///
    /// ```
    /// # use nunatak_cache::Cache;
    /// let cache: Cache<u64, u64> = Cache::new(100);
    /// assert_eq!(cache.capacity(), 100);
    /// ```
    pub fn new(capacity: u64) -> Self {
        crate::Builder::new(capacity).build()
    }
}

impl<K, V, S> Cache<K, V, S> {
    pub(crate) fn of(settings: Settings<K, V>, hasher: S, shards: usize, counts: bool) -> Self {
        let share = settings.capacity / shards as u64;
        let queues = || CachePadded::new(Mutex::new(Queues::new(share)));
        let is_timed = (settings.live, settings.idle) != (NEVER, NEVER);
        Self {
            map: DlhtBoxedMap::default(),
            settings,
            hasher,
            shards: (0..shards).map(|_| queues()).collect(),
            weight: CachePadded::new(AtomicU64::new(0)),
            unreclaimed: CachePadded::new(AtomicU64::new(0)),
            is_timed: AtomicBool::new(is_timed),
            counters: Counters::new(counts),
            flights: Flights::new(),
        }
    }

    /// Locks a shard.
    fn queues(&self, shard: usize) -> MutexGuard<'_, Queues> {
        lock(&self.shards[shard])
    }

    fn shard_of(&self, hash: u64) -> usize {
        (spread(hash) >> 32) as usize & (self.shards.len() - 1)
    }

    /// Returns the time if it matters to any entry.
    fn time_if_any(&self) -> Nanos {
        // Relaxed: an entry that expires is inserted by a thread that set this before.
        if self.is_timed.load(Ordering::Relaxed) { self.settings.clock.now() } else { 0 }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    pub(crate) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
    }
}
