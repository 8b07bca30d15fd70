//! Clocks, so that tests of expiry need not sleep.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

/// A moment, in nanoseconds since the clock's beginning.
pub(crate) type Nanos = u64;

/// A moment that does not come (in 584 years).
pub(crate) const NEVER: Nanos = u64::MAX;

/// Returns the nanoseconds of a duration, or [`NEVER`] if they are too many.
pub(crate) fn nanos(duration: Duration) -> Nanos {
    duration.as_nanos().try_into().unwrap_or(NEVER)
}

/// Tells a cache the time.
///
/// The time must never go back: an entry that has expired could be returned. The cache reads the
/// clock only for entries that can expire, on the caller's thread, while it holds no lock.
///
/// ```
/// use nunatak_cache::{Builder, Cache, ManualClock};
/// use std::{sync::Arc, time::Duration};
///
/// let clock = Arc::new(ManualClock::new());
/// let cache: Cache<u64, u64> =
///     Builder::new(10).time_to_live(Duration::from_secs(60)).clock(clock.clone()).build();
/// cache.insert(1, 1);
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(cache.get(&1), None);
/// ```
pub trait Clock: Send + Sync {
    /// Returns the time since any fixed moment.
    fn now(&self) -> Duration;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Duration {
        (**self).now()
    }
}

/// The default clock: the operating system's monotonic one ([`Instant`]).
///
/// ```
/// use nunatak_cache::{Clock, SystemClock};
/// let clock = SystemClock::new();
/// assert!(clock.now() <= clock.now());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    began: Instant,
}

impl SystemClock {
    /// Makes a clock that begins now.
    ///
    /// ```
    /// let clock = nunatak_cache::SystemClock::new();
    /// ```
    pub fn new() -> Self {
        Self { began: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}

/// A clock for tests, which stands still until it is advanced.
///
/// ```
/// use nunatak_cache::{Clock, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_secs(2));
/// assert_eq!(clock.now(), Duration::from_secs(2));
/// ```
#[derive(Default)]
pub struct ManualClock {
    nanos: AtomicU64,
}

impl ManualClock {
    /// Makes a clock at zero.
    ///
    /// ```
    /// let clock = nunatak_cache::ManualClock::new();
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock forward. Its end, after 584 years, is where it stops.
    ///
    /// ```
    /// # use std::time::Duration;
    /// nunatak_cache::ManualClock::new().advance(Duration::from_millis(1));
    /// ```
    pub fn advance(&self, by: Duration) {
        let later = |now: u64| Some(now.saturating_add(nanos(by)));
        // AcqRel: who reads the new time sees what was done before the clock moved.
        self.nanos
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, later)
            .expect("the closure returns a time");
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        // Acquire: pairs with `advance`.
        Duration::from_nanos(self.nanos.load(Ordering::Acquire))
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.now()).finish()
    }
}

/// The clock of a cache. The default one is called directly.
pub(crate) enum AnyClock {
    System(SystemClock),
    Other(Box<dyn Clock>),
}

impl AnyClock {
    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        match self {
            Self::System(clock) => nanos(clock.now()),
            Self::Other(clock) => nanos(clock.now()),
        }
    }
}
