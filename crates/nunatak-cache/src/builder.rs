//! [`Builder`]: the options of a cache.

use crate::cache::{Cache, Listener, Settings, Weigher};
use crate::cause::Cause;
use crate::clock::{AnyClock, Clock, NEVER, SystemClock, nanos};
use core::fmt;
use core::time::Duration;
use nunatak::RandomState;

/// Builds a [`Cache`].
///
/// ```
/// use nunatak_cache::{Builder, Cache};
/// use std::time::Duration;
///
/// let pages: Cache<String, Vec<u8>> = Builder::new(64 << 20)
///     .weigher(|url: &String, page: &Vec<u8>| (url.len() + page.len()) as u64)
///     .time_to_live(Duration::from_secs(300))
///     .build();
/// pages.insert("/".into(), vec![0; 1000]);
/// assert_eq!(pages.weight(), 1001);
/// ```
pub struct Builder<K, V, S = RandomState> {
    settings: Settings<K, V>,
    hasher: S,
    shards: Option<usize>,
    counts: bool,
}

impl<K, V> Builder<K, V> {
    /// Begins a cache of this capacity: in entries, or in the unit of the
    /// [`weigher`](Self::weigher).
    ///
    /// A cache of capacity 0 stores nothing.
    ///
    /// ```
    /// # use nunatak_cache::{Builder, Cache};
    /// let cache: Cache<u64, u64> = Builder::new(1000).build();
    /// assert_eq!(cache.capacity(), 1000);
    /// ```
    pub fn new(capacity: u64) -> Self {
        let clock = AnyClock::System(SystemClock::new());
        let (live, idle, weigher, listener) = (NEVER, NEVER, None, None);
        let settings = Settings { capacity, live, idle, weigher, listener, clock };
        Self { settings, hasher: RandomState::default(), shards: None, counts: true }
    }
}

impl<K, V, S> Builder<K, V, S> {
    /// Counts the capacity in the weights that `weigher` returns, such as bytes. Without a weigher
    /// each entry weighs 1.
    ///
    /// `weigher` runs once for each insert, before it, while the cache holds nothing. The weight of
    /// an entry does not change afterwards. A weight of 0 counts as 1, so that the number of entries
    /// is bounded. An entry that is heavier than the capacity is not stored. A panic reaches the
    /// caller of the insert, and the cache is as it was.
    ///
    /// ```
    /// # use nunatak_cache::{Builder, Cache};
    /// let cache: Cache<u64, String> = Builder::new(10).weigher(|_, v: &String| v.len() as u64).build();
    /// cache.insert(1, "a text of 25 characters".into());
    /// assert!(cache.is_empty());
    /// ```
    pub fn weigher(mut self, weigher: impl Fn(&K, &V) -> u64 + Send + Sync + 'static) -> Self {
        self.settings.weigher = Some(Box::new(weigher) as Weigher<K, V>);
        self
    }

    /// Lets each entry expire when this time has passed since its insert.
    /// [`Cache::insert_with_ttl`] gives an entry a time of its own.
    ///
    /// With a time of zero nothing is stored. A time of more than 584 years never ends.
    ///
    /// ```
    /// # use nunatak_cache::{Builder, Cache};
    /// # use std::time::Duration;
    /// let cache: Cache<u64, u64> = Builder::new(10).time_to_live(Duration::ZERO).build();
    /// cache.insert(1, 1);
    /// assert_eq!(cache.get(&1), None);
    /// ```
    pub fn time_to_live(mut self, time: Duration) -> Self {
        self.settings.live = nanos(time);
        self
    }

    /// Lets each entry expire when this time has passed since its last use: its insert, or a get
    /// that found it. Such a get also reads the clock, and may store the time in the entry.
    ///
    /// A use is noted with a precision of a 1024th of the time, so that threads that use the same
    /// entry seldom write. An entry may expire earlier by that much.
    ///
    /// ```
    /// # use nunatak_cache::{Builder, Cache, ManualClock};
    /// # use std::{sync::Arc, time::Duration};
    /// let clock = Arc::new(ManualClock::new());
    /// let cache: Cache<u64, u64> =
    ///     Builder::new(10).time_to_idle(Duration::from_secs(3)).clock(clock.clone()).build();
    /// cache.insert(1, 1);
    /// clock.advance(Duration::from_secs(2));
    /// assert_eq!(cache.get(&1), Some(1));
    /// clock.advance(Duration::from_secs(2));
    /// assert_eq!(cache.get(&1), Some(1));
    /// clock.advance(Duration::from_secs(3));
    /// assert_eq!(cache.get(&1), None);
    /// ```
    pub fn time_to_idle(mut self, time: Duration) -> Self {
        self.settings.idle = nanos(time);
        self
    }

    /// Calls `listener` with each entry that leaves the cache, and why.
    ///
    /// It runs on the thread whose operation took the entry out, after the operation took effect,
    /// while the cache holds nothing. So it may use the cache. If it panics, the panic is caught and
    /// [counted](crate::Stats::listener_panics); the process's panic hook runs as usual. Threads call it
    /// at the same time, and so the calls for one key may come in another order than the changes.
    /// It is not called when the cache itself is dropped.
    ///
    /// ```
    /// # use nunatak_cache::{Builder, Cache};
    /// let cache: Cache<u64, u64> =
    ///     Builder::new(10).listener(|key, value, cause| println!("{key} {value} {cause:?}")).build();
    /// ```
    pub fn listener(mut self, listener: impl Fn(&K, &V, Cause) + Send + Sync + 'static) -> Self {
        self.settings.listener = Some(Box::new(listener) as Listener<K, V>);
        self
    }

    /// Reads the time from another clock; see [`Clock`].
    ///
    /// ```
    /// # use nunatak_cache::{Builder, Cache, ManualClock};
    /// let cache: Cache<u64, u64> = Builder::new(10).clock(ManualClock::new()).build();
    /// ```
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.settings.clock = AnyClock::Other(Box::new(clock));
        self
    }

    /// Uses another hasher. The default one is seeded at random, so that nobody can choose keys that
    /// collide.
    ///
    /// ```
    /// # use nunatak_cache::{Builder, Cache};
    /// use std::hash::RandomState;
    /// let cache: Cache<u64, u64, RandomState> = Builder::new(10).hasher(RandomState::new()).build();
    /// ```
    pub fn hasher<T>(self, hasher: T) -> Builder<K, V, T> {
        let Self { settings, hasher: _, shards, counts } = self;
        Builder { settings, hasher, shards, counts }
    }

    /// Splits the queues of eviction into so many shards, each with a lock that inserts and removals
    /// take. Rounded up to a power of two, and at least 1.
    ///
    /// The default is four for each processor, but no more than one for each 1,024 units of
    /// capacity. With a weigher of large units, such as bytes, a small number of heavy entries may
    /// be spread over many shards, and eviction sees one shard at a time: give a number here if the
    /// cache holds fewer than some thousand entries. Every shard may take the whole capacity.
    ///
    /// ```
    /// # use nunatak_cache::{Builder, Cache};
    /// let cache: Cache<u64, u64> = Builder::new(100_000).shards(1).build();
    /// ```
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Whether the cache counts what [`Cache::stats`] returns. It does by default; each thread counts
    /// in memory of its own.
    ///
    /// ```
    /// # use nunatak_cache::{Builder, Cache};
    /// let cache: Cache<u64, u64> = Builder::new(10).count(false).build();
    /// cache.get(&1);
    /// assert_eq!(cache.stats().misses, 0);
    /// ```
    pub fn count(mut self, counts: bool) -> Self {
        self.counts = counts;
        self
    }

    /// Makes the cache, empty. Memory is allocated as entries come.
    ///
    /// ```
    /// # use nunatak_cache::{Builder, Cache};
    /// let cache: Cache<u64, u64> = Builder::new(10).build();
    /// assert!(cache.is_empty());
    /// ```
    pub fn build(self) -> Cache<K, V, S> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let enough = (self.settings.capacity / 1024).clamp(1, 4 * processors as u64) as usize;
        let shards = match self.shards {
            Some(shards) => shards.clamp(1, 1 << 16).next_power_of_two(),
            // Rounded down: a shard of the default has at least 1,024 units.
            None => 1 << enough.ilog2(),
        };
        Cache::of(self.settings, self.hasher, shards, self.counts)
    }
}

impl<K, V, S> fmt::Debug for Builder<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capacity = self.settings.capacity;
        f.debug_struct("Builder").field("capacity", &capacity).finish_non_exhaustive()
    }
}
