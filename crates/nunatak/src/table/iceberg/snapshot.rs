//! A consistent cut of all pairs: each block is copied before it changes.
//!
//! First changes wait, because the state says so, and the thread waits for the running changes.
//! That moment is the cut. From there on every block is copied by the first change that comes to
//! it, or by the thread that takes the snapshot. Reads never wait.

use super::Table;
use super::geometry::{BlockSizes, Phase};
use super::migration::Pairs;
use crate::error::Error;
use crate::hash::{Decoder, HashCodec};
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, operations_ended, retire_tag};
use crate::table::stages::{Figures, Snapshots};

/// The pairs of a cut.
#[derive(Debug)]
pub struct PairSnapshot {
    halves: [Pairs; 2],
    decoder: Decoder,
}

impl Iterator for PairSnapshot {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        for half in [0, 1] {
            if let Some((tag, second)) = self.halves[half].pop() {
                return Some((self.decoder.word(tag, half), second));
            }
        }
        None
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Snapshots for Table<P, B, M> {
    type Snapshot = PairSnapshot;

    fn snapshot(&self) -> Result<PairSnapshot, Error> {
        let _exclusive = M::IS_PAGED.then(|| self.exclusive.lock());
        let _held = self.complete()?;
        // Half of the pairs belong to each half, as far as hashes are random. A sixteenth more
        // allows for chance, and for pairs that come before the cut.
        let room = self.len() / 2 + self.len() / 16 + 64;
        let mut halves = [Vec::new(), Vec::new()];
        for half in &mut halves {
            let bytes = room.saturating_mul(size_of::<(u64, u64)>());
            half.try_reserve(room).map_err(|_| Error::OutOfMemory { bytes })?;
        }
        let state = self.state();
        self.enter(state.next(Phase::Freezing, state.rows()));
        if !seeded(Bug::SnapshotWithoutGrace) {
            let tag = retire_tag();
            let mut backoff = Backoff::new();
            while !operations_ended(tag, false) {
                backoff.wait();
            }
        }
        for (hash, pair) in self.chains.all() {
            halves[(hash >> 63) as usize].push(pair);
        }
        *self.copy.halves.lock() = halves;
        self.start(self.state(), Phase::Copying, state.rows());
        // Copying needs no hashes.
        self.try_complete()?;
        let halves = core::mem::take(&mut *self.copy.halves.lock());
        Ok(PairSnapshot { halves, decoder: self.decoder })
    }
}
