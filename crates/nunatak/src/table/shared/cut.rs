//! Consistent cuts of tables whose pairs are in pieces, each of which is locked as a whole.
//!
//! Changes that are under way end, which is the cut; from there on whoever comes to a piece
//! first copies it before he changes it. So nobody waits for more than one piece's copy, and
//! reads never notice.
//!
//! Invariants
//! 1. Who changes anything is in an operation, in which he has found that he may.
//! 2. A piece is changed only after it was found, or made, copied for the cut that is under
//!    way: before its lock was taken for the change, or under it.
//! 3. Pieces that are made of copied ones are copied.

use crate::error::Error;
use crate::seeded::{Bug, seeded};
use crate::sync::{
    AtomicU64, Backoff, Mutex, OpPin, Ordering, Shared, operations_ended, retire_tag,
};

/// The pairs of a cut, by their words.
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
    /// How many want that nobody changes anything.
    freezing: AtomicU64,
    /// The number of the cut that is being copied, or zero.
    number: AtomicU64,
    /// That of the last one, and its pairs so far.
    copied: Mutex<Copied>,
}

#[derive(Debug, Default)]
struct Copied {
    number: u64,
    pairs: Vec<(u64, u64)>,
    /// Whether memory was refused.
    is_refused: bool,
}

/// Lets changes go on, whatever happens.
struct Frozen<'t>(&'t AtomicU64);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        // Release: after what was done meanwhile.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Ends a cut, whatever happens.
struct Ended<'t>(&'t AtomicU64);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        // Relaxed: who finds the number still finds that all is copied, or copies for
        // nobody.
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Cut {
    /// Whether changes are to wait.
    #[inline(always)]
    pub(in crate::table) fn is_frozen(&self) -> bool {
        // Acquire: pairs with the release of who has let them go on.
        self.freezing.load(Ordering::Acquire) != 0
    }

    /// Announces an operation that changes something, if it may now.
    #[inline(always)]
    pub(in crate::table) fn try_enter(&self) -> Option<OpPin<Shared>> {
        let pin = OpPin::new();
        (!self.is_frozen()).then_some(pin)
    }

    /// Announces an operation that changes something, when it may. The thread is in no
    /// other.
    pub(in crate::table) fn enter(&self) -> OpPin<Shared> {
        let mut backoff = Backoff::new();
        loop {
            if let Some(pin) = self.try_enter() {
                return pin;
            }
            backoff.wait();
        }
    }

    /// Runs something while nobody changes anything. The caller is in no operation.
    pub(in crate::table) fn frozen<R>(&self, run: impl FnOnce() -> R) -> R {
        // Release: before the barrier that `retire_tag` is.
        self.freezing.fetch_add(1, Ordering::Release);
        let frozen = Frozen(&self.freezing);
        if !seeded(Bug::SnapshotWithoutGrace) {
            let tag = retire_tag();
            let mut backoff = Backoff::new();
            while !operations_ended(tag, false) {
                backoff.wait();
            }
        }
        let result = run();
        drop(frozen);
        result
    }

    /// The number of the cut that is being copied, or zero. The caller is in an operation.
    #[inline(always)]
    pub(in crate::table) fn number(&self) -> u64 {
        // Relaxed: who has entered after the cut has seen that he may.
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

    /// Takes a cut of about so many pairs; `copy` goes to all pieces and copies those that
    /// nobody has. One at a time; the caller is in no operation.
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
        // Relaxed: who may change something has seen that nobody is kept from it any more.
        self.frozen(|| self.number.store(number, Ordering::Relaxed));
        let ended = Ended(&self.number);
        copy();
        drop(ended);
        let mut copied = self.copied.lock();
        let pairs = core::mem::take(&mut copied.pairs);
        if copied.is_refused { Err(Error::OutOfMemory { bytes }) } else { Ok(PairSnapshot(pairs)) }
    }
}
