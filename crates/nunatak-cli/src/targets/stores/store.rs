//! What a store does.

/// An error is a failure of the disk, and ends the measurement.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A store of `u64` to `u64`.
pub(crate) trait Store: Send + Sync {
    fn get(&self, key: u64) -> Outcome<Option<u64>>;

    /// Stores a value. Returns the value that it replaced, if the store returns it without an extra
    /// lookup.
    fn put(&self, key: u64, value: u64) -> Outcome<Option<u64>>;

    /// Replaces a value atomically if the key is present, and returns whether it is.
    fn modify(&self, key: u64, change: &dyn Fn(u64) -> u64) -> Outcome<bool>;

    fn remove(&self, key: u64) -> Outcome<Option<u64>>;

    /// Stores values in one transaction that survives a power cut after the return.
    fn put_synced(&self, entries: &[(u64, u64)]) -> Outcome<()>;
}
