//! A consistent cut of all pairs.
//!
//! Changes wait: a word says so, and those that were under way are waited for. Then all
//! segments are copied. Reads never notice.

use super::Table;
use crate::error::Error;
use crate::hash::Placement;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, Ordering, operations_ended, retire_tag};

/// The pairs of a cut, by their words.
#[derive(Debug)]
pub struct PairSnapshot(Vec<(u64, u64)>);

impl Iterator for PairSnapshot {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        self.0.pop()
    }
}

/// Lets changes go on, whatever happens.
struct Frozen<'t, P: Placement>(&'t Table<P>);

impl<P: Placement> Drop for Frozen<'_, P> {
    fn drop(&mut self) {
        // Release: after the copying.
        self.0.freezing.store(0, Ordering::Release);
    }
}

impl<P: Placement> Table<P> {
    pub(super) fn snapshot(&self) -> Result<PairSnapshot, Error> {
        let _held = self.exclusive.lock();
        let room = self.len() + self.len() / 16 + 64;
        let mut pairs = Vec::new();
        let bytes = room.saturating_mul(size_of::<(u64, u64)>());
        pairs.try_reserve(room).map_err(|_| Error::OutOfMemory { bytes })?;
        // Release: before the barrier that `retire_tag` is.
        self.freezing.store(1, Ordering::Release);
        let frozen = Frozen(self);
        if !seeded(Bug::SnapshotWithoutGrace) {
            let tag = retire_tag();
            let mut backoff = Backoff::new();
            while !operations_ended(tag, false) {
                backoff.wait();
            }
        }
        let mut from = Some(0);
        while let Some(hash) = from {
            from = self.read_segment(hash, &mut pairs);
        }
        drop(frozen);
        Ok(PairSnapshot(pairs))
    }
}
