//! [`Sealable`]: a value that threads change in place until one of them seals it.
//!
//! One word beside the value counts its uses:
//!
//! ```text
//! | version (43 bits) | sealed (1 bit) | running uses (20 bits) |
//! ```
//!
//! A use adds one to the running uses. Its end subtracts one there and adds one to the version, by
//! one read-modify-write. Sealing reads the word, runs the condition, and sets the bit by a
//! compare-exchange of the very word that it read.
//!
//! Invariants
//! 1. A closure runs on the value only between a beginning that found the word unsealed and its
//!    end. A beginning that finds the word sealed undoes its addition and runs nothing.
//! 2. The word is sealed only from a word without running uses, and never unsealed.
//! 3. If the word is the same at two moments and has no running uses, then no use ran between them:
//!    a use would have increased the version. (43 bits wrap after a day of 100 million uses a
//!    second, all within one call of one condition.)
//!
//! From 2 and 3: whatever the condition saw is the value's last state.

use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicU64, Ordering};
use core::fmt;

const USERS: u64 = (1 << 20) - 1;
const SEALED: u64 = 1 << 20;
const VERSION: u64 = 1 << 21;

/// At most so many uses may run at once. The rest of the field is for threads that have begun one
/// more and not yet undone it.
const MOST_USERS: u64 = 1 << 19;

/// A value that threads change in place, through shared references, until one of them seals it.
///
/// It wraps a value of a [`BoxedMap`](crate::BoxedMap) so that removing an entry loses no change.
/// After [`seal_if`](Self::seal_if) has returned true no thread changes the value any more. A
/// thread that comes later finds it sealed, and changes the key's next entry. The map's methods
/// [`modify`](crate::BoxedMap::modify),
/// [`modify_or_insert_with`](crate::BoxedMap::modify_or_insert_with),
/// [`remove_sealed_if`](crate::BoxedMap::remove_sealed_if) and
/// [`retain_unsealed`](crate::BoxedMap::retain_unsealed) do all of that.
///
/// Uses do not exclude each other, so the value must be `Sync` to be shared (atomics, a mutex). It
/// takes 8 bytes more, and two atomic read-modify-writes for each use.
///
/// ```
/// use nunatak::Sealable;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// let count = Sealable::new(AtomicU64::new(0));
/// let add = |n| count.with(|count| count.fetch_add(n, Relaxed)).is_ok();
/// assert!(add(1) && add(2));
/// assert!(!count.seal_if(|count| count.load(Relaxed) > 3));
/// assert!(count.seal_if(|count| count.load(Relaxed) == 3));
/// assert!(!add(4));
/// assert_eq!(count.into_inner().into_inner(), 3);
/// ```
pub struct Sealable<V> {
    word: AtomicU64,
    value: V,
}

/// A running use, which ends when this is dropped, also by a panic.
pub(super) struct Use<'s>(&'s AtomicU64);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        let version = if seeded(Bug::UseLeavesVersion) { 0 } else { VERSION };
        let release =
            if seeded(Bug::UseEndsRelaxed) { Ordering::Relaxed } else { Ordering::Release };
        // Release: pairs with the loads of `seal_if` and `is_sealed`, which see what the use has
        // done. All changes of the word in between are read-modify-writes, which continue the
        // release.
        self.0.fetch_add(version.wrapping_sub(1), release);
    }
}

impl<V> Sealable<V> {
    /// Makes a value that is not sealed.
    ///
    /// ```
    /// # use nunatak::Sealable;
    /// assert!(!Sealable::new(7).is_sealed());
    /// ```
    pub fn new(value: V) -> Self {
        Self { word: AtomicU64::new(0), value }
    }

    /// Begins a use, unless the value is sealed.
    ///
    /// # Panics
    /// If too many uses run.
    pub(super) fn begin(&self) -> Option<Use<'_>> {
        // Relaxed: the order of this word's changes alone decides whether a use or the seal is
        // first. The value's own atomics order what uses do to the value.
        let before = self.word.fetch_add(1, Ordering::Relaxed);
        if before & SEALED != 0 {
            // Relaxed: nothing was done. The subtraction keeps the field from overflowing into the
            // bit.
            self.word.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        if before & USERS >= MOST_USERS {
            self.word.fetch_sub(1, Ordering::Relaxed);
            panic!("more than {MOST_USERS} uses of one value at once");
        }
        Some(Use(&self.word))
    }

    /// Runs `f` on the value, unless it is sealed. While `f` runs the value can't be sealed.
    ///
    /// Costs two atomic read-modify-writes of a word beside the value. Never waits. Other
    /// threads may use the value at the same time, and `f` may use it again. A panic of `f`
    /// ends the use.
    ///
    /// # Errors
    /// The closure, which did not run, if the value is sealed.
    ///
    /// # Panics
    /// If 524,288 uses of the value are running.
    ///
    /// ```
    /// # use nunatak::Sealable;
    /// let sealable = Sealable::new(7);
    /// assert_eq!(sealable.with(|value| value + 1).ok(), Some(8));
    /// sealable.seal_if(|_| true);
    /// assert!(sealable.with(|value| value + 1).is_err());
    /// ```
    pub fn with<R, F: FnOnce(&V) -> R>(&self, f: F) -> Result<R, F> {
        match self.begin() {
            Some(_use) => Ok(f(&self.value)),
            None => Err(f),
        }
    }

    /// Seals the value if no use is running and `condition` holds, and returns whether this call
    /// sealed it. After `condition` has run on the value no use ends and none begins, so
    /// `condition` saw the value's last state.
    ///
    /// Never waits: it returns false if a use is running, also one of this thread's. `condition`
    /// runs again if uses have begun and ended while it ran. Costs one atomic read-modify-write if
    /// `condition` holds.
    ///
    /// ```
    /// # use nunatak::Sealable;
    /// let sealable = Sealable::new(7);
    /// assert_eq!(sealable.with(|_| sealable.seal_if(|_| true)).ok(), Some(false));
    /// assert!(!sealable.seal_if(|value| *value > 7));
    /// assert!(sealable.seal_if(|value| *value == 7));
    /// assert!(!sealable.seal_if(|_| true)); // it is sealed already
    /// ```
    pub fn seal_if(&self, mut condition: impl FnMut(&V) -> bool) -> bool {
        let acquire =
            if seeded(Bug::SealLooksRelaxed) { Ordering::Relaxed } else { Ordering::Acquire };
        // Acquire: pairs with the ends of uses, so the condition sees what they have done.
        let mut word = self.word.load(acquire);
        loop {
            let in_use = word & USERS != 0 && !seeded(Bug::SealedInUse);
            if in_use || word & SEALED != 0 || !condition(&self.value) {
                return false;
            }
            // Relaxed on success: it reads the word that was acquired (invariant 3), and
            // publishes nothing. Acquire on failure: as above.
            let sealed = self.word.compare_exchange(
                word,
                word | SEALED,
                Ordering::Relaxed,
                Ordering::Acquire,
            );
            match sealed {
                Ok(_) => return true,
                Err(newer) => word = newer,
            }
        }
    }

    /// Returns whether the value is sealed. If it is, [`peek`](Self::peek) returns its last
    /// state.
    ///
    /// ```
    /// # use nunatak::Sealable;
    /// let sealable = Sealable::new(7);
    /// sealable.seal_if(|_| true);
    /// assert!(sealable.is_sealed());
    /// ```
    pub fn is_sealed(&self) -> bool {
        let acquire =
            if seeded(Bug::SealedSeenRelaxed) { Ordering::Relaxed } else { Ordering::Acquire };
        // Acquire: pairs with the ends of uses, all of which are before the seal.
        self.word.load(acquire) & SEALED != 0
    }

    /// Returns a reference to the value, for reading. Costs nothing.
    ///
    /// `peek` is no use of the value: [`seal_if`](Self::seal_if) does not notice changes that are
    /// made through it, so they may be lost. Call [`with`](Self::with) to change the value.
    ///
    /// ```
    /// # use nunatak::Sealable;
    /// assert_eq!(Sealable::new(7).peek(), &7);
    /// ```
    pub fn peek(&self) -> &V {
        &self.value
    }

    /// Unwraps the value.
    ///
    /// ```
    /// # use nunatak::Sealable;
    /// assert_eq!(Sealable::new(7).into_inner(), 7);
    /// ```
    pub fn into_inner(self) -> V {
        self.value
    }
}

impl<V: Default> Default for Sealable<V> {
    fn default() -> Self {
        Self::new(V::default())
    }
}

impl<V> From<V> for Sealable<V> {
    fn from(value: V) -> Self {
        Self::new(value)
    }
}

impl<V: fmt::Debug> fmt::Debug for Sealable<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sealed = self.is_sealed();
        f.debug_struct("Sealable").field("value", &self.value).field("sealed", &sealed).finish()
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Makes a value with so many running uses.
    fn used_by(users: u64) -> Sealable<()> {
        Sealable { word: AtomicU64::new(users), value: () }
    }

    #[test]
    fn uses_that_are_too_many_panic_and_change_nothing() {
        let full = used_by(MOST_USERS);
        assert!(catch_unwind(AssertUnwindSafe(|| full.with(|()| ()).is_ok())).is_err());
        assert_eq!(full.word.load(Ordering::Relaxed), MOST_USERS);
        let one_less = used_by(MOST_USERS - 1);
        assert!(one_less.with(|()| ()).is_ok() && !one_less.is_sealed());
    }

    #[test]
    fn refused_uses_leave_no_trace() {
        let sealable = Sealable::new(());
        assert!(sealable.seal_if(|()| true));
        let sealed = sealable.word.load(Ordering::Relaxed);
        (0..100).for_each(|_| assert!(sealable.with(|()| ()).is_err()));
        assert_eq!(sealable.word.load(Ordering::Relaxed), sealed);
    }

    #[test]
    fn the_version_wraps_without_a_trace() {
        let oldest = Sealable { word: AtomicU64::new(0_u64.wrapping_sub(VERSION)), value: () };
        assert!(oldest.with(|()| ()).is_ok());
        assert_eq!(oldest.word.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_panic_ends_the_use() {
        let sealable = Sealable::new(());
        let panics = || sealable.with(|()| panic!("in a use")).is_ok();
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        let panics = || sealable.seal_if(|()| panic!("in a condition"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert!(!sealable.is_sealed() && sealable.seal_if(|()| true));
    }

    #[test]
    fn uses_nest_and_keep_the_value_from_being_sealed() {
        let sealable = Sealable::new(());
        let nested = sealable.with(|()| {
            let inner = sealable.with(|()| sealable.seal_if(|()| true));
            (inner.ok(), sealable.seal_if(|()| true))
        });
        assert_eq!(nested.ok(), Some((Some(false), false)));
        assert!(sealable.seal_if(|()| true));
    }

    #[test]
    fn a_condition_that_is_overtaken_looks_again() {
        let sealable = Sealable::new(());
        let mut looks = 0;
        let sealed = sealable.seal_if(|()| {
            looks += 1;
            looks > 1 || sealable.with(|()| ()).is_ok()
        });
        assert!(sealed && looks == 2, "{looks}");
    }
}
