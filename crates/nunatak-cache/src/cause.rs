//! [`Cause`]: why an entry left the cache.

/// Why an entry left the cache.
///
/// ```
/// use nunatak_cache::{Builder, Cache, Cause};
/// use std::sync::{Arc, Mutex};
///
/// let log = Arc::new(Mutex::new(Vec::new()));
/// let listener = {
///     let log = log.clone();
///     move |key: &u64, value: &u64, cause| log.lock().unwrap().push((*key, *value, cause))
/// };
/// let cache: Cache<u64, u64> = Builder::new(10).listener(listener).build();
/// cache.insert(1, 10);
/// cache.insert(1, 11);
/// cache.remove(&1);
/// assert_eq!(*log.lock().unwrap(), [(1, 10, Cause::Replaced), (1, 11, Cause::Removed)]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    /// Its time to live or its time to idle had ended.
    Expired,
    /// An insert gave its key another value.
    Replaced,
    /// The cache was full, or the entry alone is heavier than the capacity.
    Size,
    /// A caller removed it.
    Removed,
}
