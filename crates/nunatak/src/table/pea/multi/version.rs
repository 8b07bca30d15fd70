//! Locks by which readers find out that somebody has written: a number that is odd
//! while the lock is held, and another one after that.
//!
//! Who only wants that nobody writes holds the lock still: for readers that is nothing.

use crate::memory::Zeroed;
use crate::sync::{AtomicU64, Backoff, Ordering, fence};

/// Whether the lock is held by somebody who does not write.
const STILL: u64 = 1 << 63;

#[derive(Debug, Default)]
pub(in crate::table::pea) struct Version(AtomicU64);

// SAFETY: zero bytes are zero words; there is nothing to drop.
unsafe impl Zeroed for Version {
    #[cfg(any(loom, shuttle))]
    fn zeroed() -> Self {
        Self::default()
    }
}

#[cfg(any(loom, shuttle))]
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
        // Acquire: pairs with the unlocking.
        let locked =
            self.0.compare_exchange(number, number + 1, Ordering::Acquire, Ordering::Relaxed);
        // Who reads something that is stored from here on, and then asks, finds the odd
        // number or a later one.
        fence(Ordering::Release);
        locked.is_ok()
    }

    #[inline(always)]
    pub(in crate::table::pea) fn unlock(&self) {
        // Relaxed: nobody else changes it meanwhile. Release: with all that was stored.
        let number = self.0.load(Ordering::Relaxed);
        debug_assert!(number & 1 != 0);
        self.0.store(number + 1, Ordering::Release);
    }

    /// Keeps everybody from writing, and reads on.
    pub(in crate::table::pea) fn hold_still(&self) {
        let mut backoff = Backoff::new();
        loop {
            // Relaxed: only a hint.
            let number = self.0.load(Ordering::Relaxed);
            // Acquire: pairs with the unlocking.
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
        // Relaxed: nobody else changes it meanwhile. Release: who locks it next sees what
        // was read before.
        self.0.store(self.0.load(Ordering::Relaxed) & !STILL, Ordering::Release);
    }

    /// The number, if nobody writes.
    #[inline(always)]
    pub(in crate::table::pea) fn begin(&self) -> Option<u64> {
        // Acquire: what was stored before the last unlocking is seen.
        let number = self.0.load(Ordering::Acquire) & !STILL;
        (number & 1 == 0).then_some(number)
    }

    /// Whether somebody writes. What the caller has read was read before, by acquiring.
    #[inline(always)]
    pub(in crate::table::pea) fn is_locked(&self) -> bool {
        // Acquire: what who has unlocked it made durable is.
        self.0.load(Ordering::Acquire) & 1 != 0
    }

    /// The number while the caller holds the lock.
    pub(in crate::table::pea) fn held(&self) -> u64 {
        // Relaxed: nobody else changes it.
        self.0.load(Ordering::Relaxed)
    }

    /// Whether nobody has written since. An acquire fence comes before.
    #[inline(always)]
    pub(in crate::table::pea) fn is_same(&self, number: u64) -> bool {
        // Relaxed: by the fence.
        self.0.load(Ordering::Relaxed) & !STILL == number
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
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
