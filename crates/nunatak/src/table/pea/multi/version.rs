//! Locks by which readers notice changes: a number that is odd while the lock is held, and that is
//! different afterwards.
//!
//! A thread that only keeps writers out holds the lock still. Readers do not notice.

use crate::memory::Zeroed;
use crate::sync::{AtomicU64, Backoff, Ordering, fence};

/// The bit of a lock that is held still.
const STILL: u64 = 1 << 63;

#[derive(Debug, Default)]
pub(in crate::table::pea) struct Version(AtomicU64);

// SAFETY: zero bytes are a valid `AtomicU64`, and there is nothing to drop.
unsafe impl Zeroed for Version {
    #[cfg(modelled)]
    fn zeroed() -> Self {
        Self::default()
    }
}

#[cfg(modelled)]
impl crate::memory::Released for Version {
    fn release(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Version {
    pub(in crate::table::pea) fn lock(&self) {
        let mut backoff = Backoff::new();
        while !self.try_lock() {
            backoff.wait();
        }
    }

    #[inline(always)]
    pub(in crate::table::pea) fn try_lock(&self) -> bool {
        // Relaxed: only a hint.
        let number = self.0.load(Ordering::Relaxed);
        if number & (STILL | 1) != 0 {
            return false;
        }
        // Acquire: pairs with `unlock` and `let_go`.
        let locked =
            self.0.compare_exchange(number, number + 1, Ordering::Acquire, Ordering::Relaxed);
        // Pairs with the acquire fence of readers: a reader that sees a store from here on finds
        // the odd number or a later one.
        fence(Ordering::Release);
        locked.is_ok()
    }

    #[inline(always)]
    pub(in crate::table::pea) fn unlock(&self) {
        // Relaxed: only the holder changes the number. Release: publishes the holder's stores.
        let number = self.0.load(Ordering::Relaxed);
        debug_assert!(number & 1 != 0);
        self.0.store(number + 1, Ordering::Release);
    }

    /// Keeps writers out. Readers go on.
    pub(in crate::table::pea) fn hold_still(&self) {
        let mut backoff = Backoff::new();
        loop {
            // Relaxed: only a hint.
            let number = self.0.load(Ordering::Relaxed);
            // Acquire: pairs with `unlock` and `let_go`.
            if number & (STILL | 1) == 0
                && self
                    .0
                    .compare_exchange(number, number | STILL, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
            backoff.wait();
        }
    }

    pub(in crate::table::pea) fn let_go(&self) {
        // Relaxed: only the holder changes the number. Release: the next holder's stores come after
        // this thread's loads.
        self.0.store(self.0.load(Ordering::Relaxed) & !STILL, Ordering::Release);
    }

    /// Returns the number, unless a writer holds the lock.
    #[inline(always)]
    pub(in crate::table::pea) fn begin(&self) -> Option<u64> {
        // Acquire: sees all stores before the last `unlock`.
        let number = self.0.load(Ordering::Acquire) & !STILL;
        (number & 1 == 0).then_some(number)
    }

    /// Returns whether a writer holds the lock. The caller's loads came before, and acquire.
    #[inline(always)]
    pub(in crate::table::pea) fn is_locked(&self) -> bool {
        // Acquire: pairs with `unlock`, before which the writer made its stores durable.
        self.0.load(Ordering::Acquire) & 1 != 0
    }

    /// Returns the number. The caller holds the lock.
    pub(in crate::table::pea) fn held(&self) -> u64 {
        // Relaxed: no other thread changes it.
        self.0.load(Ordering::Relaxed)
    }

    /// Returns whether no thread has written since. The caller has an acquire fence before.
    #[inline(always)]
    pub(in crate::table::pea) fn is_same(&self, number: u64) -> bool {
        // Relaxed: the fence orders it.
        self.0.load(Ordering::Relaxed) & !STILL == number
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn readers_notice_who_writes_and_nobody_else() {
        let version = Version::default();
        let number = version.begin().unwrap();
        version.hold_still();
        assert!(version.is_same(number) && version.begin() == Some(number));
        assert!(!version.try_lock());
        version.let_go();
        assert!(version.is_same(number) && version.try_lock());
        assert!(!version.is_same(number) && version.begin().is_none() && !version.try_lock());
        version.unlock();
        assert!(!version.is_same(number) && version.begin().is_some_and(|now| now != number));
    }
}
