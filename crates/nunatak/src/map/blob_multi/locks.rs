//! Locks that keep keys in the map while values are added to them.
//!
//! Invariant
//! 1. A key is taken out of the table of keys only by a thread that alone has the key's lock and
//!    has seen, under it, that the key has no value. A value is added only to the number of a key
//!    that was found under a lock of the key which the thread still holds. So no value is added to
//!    a number whose key is gone.

use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use core::fmt;

/// The number of locks; one bit each in [`KeyLocks::keep_all`].
const LOCKS: usize = if cfg!(modelled) { 2 } else { 32 };

/// A lock alone in its line.
#[derive(Default)]
#[repr(align(64))]
struct Aligned(RwLock<()>);

/// One of 32 locks for each key, chosen by its hash.
pub(super) struct KeyLocks(Box<[Aligned; LOCKS]>);

impl fmt::Debug for KeyLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLocks").finish_non_exhaustive()
    }
}

/// Keys that stay in the map for as long as this lives.
pub(super) struct Kept<'l>([Option<RwLockReadGuard<'l, ()>>; LOCKS]);

impl KeyLocks {
    pub(super) const BYTES: usize = size_of::<[Aligned; LOCKS]>();

    pub(super) fn new() -> Self {
        Self(Box::new(core::array::from_fn(|_| Aligned::default())))
    }

    fn index(hash: u64) -> usize {
        hash as usize % LOCKS
    }

    /// Keeps the keys with this hash in the map.
    #[inline]
    pub(super) fn keep(&self, hash: u64) -> RwLockReadGuard<'_, ()> {
        self.0[Self::index(hash)].0.read()
    }

    /// Keeps the keys with any of these hashes in the map. A thread that has several locks took
    /// them in their order, so threads do not wait for each other in a circle.
    pub(super) fn keep_all(&self, hashes: &[u64]) -> Kept<'_> {
        let chosen = hashes.iter().fold(0_u64, |chosen, &hash| chosen | 1 << Self::index(hash));
        let keep = |at: usize| (chosen >> at & 1 == 1).then(|| self.0[at].0.read());
        Kept(core::array::from_fn(keep))
    }

    /// Waits until nobody keeps a key with this hash, and keeps others out.
    pub(super) fn alone(&self, hash: u64) -> RwLockWriteGuard<'_, ()> {
        self.0[Self::index(hash)].0.write()
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|lock| *lock = None);
    }
}
