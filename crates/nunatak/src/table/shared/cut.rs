//! Consistent cuts of tables whose pairs are in pieces; each piece has one lock.
//!
//! The thread that takes the cut waits until the running changes have ended. That moment is the
//! cut. From there on the first thread that comes to a piece copies it before changing it. So a
//! change waits for at most one piece's copy, and reads never wait.
//!
//! Invariants
//! 1. A change runs in an announced operation that has found changes allowed.
//! 2. A piece is changed only after a thread has found it, or made it, copied for the current cut.
//!    This happens before the piece's lock is taken for the change, or under the lock.
//! 3. Pieces that are made of copied pieces count as copied.
//! 4. While a thread is alone with the table, the changes of other threads wait. A cut may still be
//!    taken between two of its changes.

use crate::error::Error;
use crate::seeded::{Bug, seeded};
use crate::sync::{
    AtomicU64, Backoff, Mutex, OpPin, Ordering, Shared, operations_ended, retire_tag,
};

/// The pairs of a cut, as words.
#[derive(Debug)]
pub struct PairSnapshot(Vec<(u64, u64)>);

impl Iterator for PairSnapshot {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        self.0.pop()
    }
}

#[derive(Debug, Default)]
pub(in crate::table) struct Cut {
    /// How many threads keep changes out; and [`ALONE`], if one keeps out those of other threads.
    freezing: AtomicU64,
    /// The thread that is alone with the table.
    #[cfg(durable)]
    alone: AtomicU64,
    /// The number of the cut that is being copied, or zero.
    number: AtomicU64,
    /// The number of the last cut, and its pairs so far.
    copied: Mutex<Copied>,
}

#[derive(Debug, Default)]
struct Copied {
    number: u64,
    pairs: Vec<(u64, u64)>,
    /// Whether memory for the pairs was refused.
    is_refused: bool,
}

/// Allows changes again when it is dropped, also after a panic.
struct Frozen<'t>(&'t AtomicU64);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        // Release: after everything that was done while changes were kept out.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Waits until every operation has ended that may have found changes allowed.
fn wait_for_operations() {
    let tag = retire_tag();
    let mut backoff = Backoff::new();
    while !operations_ended(tag, false) {
        backoff.wait();
    }
}

/// Set in the number of threads that keep changes out, if one of them keeps out other threads only.
#[cfg(durable)]
const ALONE: u64 = 1 << 32;

/// Returns a number that no other living thread has.
#[cfg(durable)]
fn this_thread() -> u64 {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| core::ptr::from_ref(place).addr() as u64)
}

/// Allows the changes of other threads again when it is dropped, also after a panic.
#[cfg(durable)]
struct Alone<'t>(&'t AtomicU64);

#[cfg(durable)]
impl Drop for Alone<'_> {
    fn drop(&mut self) {
        // Release: after everything that the thread did alone.
        self.0.fetch_sub(ALONE, Ordering::Release);
    }
}

/// Ends a cut when it is dropped, also after a panic.
struct Ended<'t>(&'t AtomicU64);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        // Relaxed: a thread that still finds the number finds every piece copied, or makes copies
        // that no thread reads.
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Cut {
    /// Returns whether changes must wait.
    #[inline(always)]
    pub(in crate::table) fn is_frozen(&self) -> bool {
        // Acquire: pairs with the release that allows changes again.
        self.freezing.load(Ordering::Acquire) != 0 && self.must_wait()
    }

    #[cfg(not(durable))]
    #[inline(always)]
    fn must_wait(&self) -> bool {
        true
    }

    /// Returns whether this thread must wait. Asked only if some thread must.
    #[cfg(durable)]
    #[cold]
    fn must_wait(&self) -> bool {
        // Acquire: as in `is_frozen`.
        let freezing = self.freezing.load(Ordering::Acquire);
        // Relaxed: only the thread itself stores its number, before it sets the bit.
        let is_alone = || self.alone.load(Ordering::Relaxed) == this_thread();
        !freezing.is_multiple_of(ALONE) || freezing >= ALONE && !is_alone()
    }

    /// Runs a function while no other thread changes anything. The function's own operations are
    /// the usual ones. The caller must have announced no operation; no other thread calls this
    /// meanwhile.
    #[cfg(durable)]
    pub(in crate::table) fn alone<R>(&self, run: impl FnOnce() -> R) -> R {
        // Relaxed: published by the bit.
        self.alone.store(this_thread(), Ordering::Relaxed);
        // Release: before the barrier in `retire_tag`.
        self.freezing.fetch_add(ALONE, Ordering::Release);
        let alone = Alone(&self.freezing);
        wait_for_operations();
        let result = run();
        drop(alone);
        result
    }

    /// Announces an operation that changes something, if changes are allowed now.
    #[inline(always)]
    pub(in crate::table) fn try_enter(&self) -> Option<OpPin<Shared>> {
        let pin = OpPin::new();
        (!self.is_frozen()).then_some(pin)
    }

    /// Announces an operation that changes something, as soon as changes are allowed. The thread
    /// must have announced no other operation.
    pub(in crate::table) fn enter(&self) -> OpPin<Shared> {
        let mut backoff = Backoff::new();
        loop {
            if let Some(pin) = self.try_enter() {
                return pin;
            }
            backoff.wait();
        }
    }

    /// Runs a function while no thread changes anything. The caller must have announced no
    /// operation.
    pub(in crate::table) fn frozen<R>(&self, run: impl FnOnce() -> R) -> R {
        // Release: before the barrier in `retire_tag`.
        self.freezing.fetch_add(1, Ordering::Release);
        let frozen = Frozen(&self.freezing);
        if !seeded(Bug::SnapshotWithoutGrace) {
            wait_for_operations();
        }
        let result = run();
        drop(frozen);
        result
    }

    /// Returns the number of the cut that is being copied, or zero. The caller has announced an
    /// operation.
    #[inline(always)]
    pub(in crate::table) fn number(&self) -> u64 {
        // Relaxed: an operation that began after the cut has found changes allowed (acquire).
        self.number.load(Ordering::Relaxed)
    }

    /// Adds the pairs of a piece.
    pub(in crate::table) fn add(&self, pairs: &[(u64, u64)]) {
        let mut copied = self.copied.lock();
        copied.is_refused |= copied.pairs.try_reserve(pairs.len()).is_err();
        if !copied.is_refused {
            copied.pairs.extend_from_slice(pairs);
        }
    }

    /// Takes a cut of about `pairs` pairs. `copy` copies all pieces that no other thread has
    /// copied. Takes one cut at a time; the caller must have announced no operation.
    pub(in crate::table) fn take(
        &self,
        pairs: usize,
        copy: impl FnOnce(),
    ) -> Result<PairSnapshot, Error> {
        let room = pairs + pairs / 16 + 64;
        let bytes = room.saturating_mul(size_of::<(u64, u64)>());
        let number = {
            let mut copied = self.copied.lock();
            let number = copied.number + 1;
            *copied = Copied { number, ..Copied::default() };
            copied.pairs.try_reserve(room).map_err(|_| Error::OutOfMemory { bytes })?;
            number
        };
        // Relaxed: an operation that changes something has found changes allowed, after this store.
        self.frozen(|| self.number.store(number, Ordering::Relaxed));
        let ended = Ended(&self.number);
        copy();
        drop(ended);
        let mut copied = self.copied.lock();
        let pairs = core::mem::take(&mut copied.pairs);
        if copied.is_refused { Err(Error::OutOfMemory { bytes }) } else { Ok(PairSnapshot(pairs)) }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    /// Whether this thread and another one find changes allowed.
    fn may_change(cut: &Cut) -> [bool; 2] {
        let other = || cut.try_enter().is_some();
        let may_other = thread::scope(|scope| scope.spawn(other).join().unwrap());
        [cut.try_enter().is_some(), may_other]
    }

    #[test]
    fn no_thread_changes_a_frozen_table() {
        let cut = Cut::default();
        assert_eq!(cut.frozen(|| may_change(&cut)), [false, false]);
        assert_eq!(may_change(&cut), [true, true]);
    }

    #[cfg(durable)]
    #[test]
    fn only_the_thread_that_is_alone_changes_a_table() {
        let cut = Cut::default();
        let (alone, frozen) = cut.alone(|| (may_change(&cut), cut.frozen(|| may_change(&cut))));
        assert_eq!((alone, frozen), ([true, false], [false, false]));
        assert_eq!(may_change(&cut), [true, true]);
    }

    #[test]
    fn a_table_is_frozen_after_the_changes_under_way() {
        let (cut, is_frozen) = (Cut::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            let change = cut.enter();
            scope.spawn(|| cut.frozen(|| is_frozen.store(true, Ordering::Release)));
            let has_frozen = || is_frozen.load(Ordering::Acquire);
            while cut.freezing.load(Ordering::Acquire) == 0 && !has_frozen() {
                thread::yield_now();
            }
            // A thread that does not wait needs less than that.
            (0..1000).for_each(|_| thread::yield_now());
            assert!(!has_frozen());
            drop(change);
        });
        assert!(is_frozen.into_inner());
    }
}
