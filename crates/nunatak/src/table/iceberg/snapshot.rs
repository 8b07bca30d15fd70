//! A consistent cut of all pairs: each block is copied before it changes.
//!
//! First changes wait, because the state says so, and the thread waits for the running changes.
//! That moment is the cut. From there on every block is copied by the first change that comes to
//! it, or by the thread that takes the snapshot. Reads never wait.

use super::Table;
use super::geometry::{BlockSizes, Phase};
use crate::error::Error;
use crate::hash::{Decoder, HashCodec};
use crate::memory::{Medium, MemoryUsage};
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicPair, Backoff, Mutex, Ordering, operations_ended, retire_tag};
use crate::table::stages::{Figures, Snapshots};

/// Tags and values.
type Pairs = Vec<(u64, u64)>;

/// The copies of a cut so far, for each half that the tags belong to.
#[derive(Debug)]
pub(super) struct Copy {
    halves: Mutex<[Pairs; 2]>,
}

impl Copy {
    pub(super) fn new() -> Self {
        Self { halves: Mutex::new([const { Vec::new() }; 2]) }
    }

    /// Copies the slots of a block that is locked.
    pub(super) fn push<'s>(&self, half: usize, slots: impl Iterator<Item = &'s AtomicPair>) {
        // Relaxed: under the block's lock.
        let pairs = slots
            .map(|slot| (slot.load_first(Ordering::Relaxed), slot.load_second(Ordering::Relaxed)))
            .filter(|pair| pair.0 != 0);
        self.halves.lock()[half].extend(pairs);
    }

    pub(super) fn usage(&self) -> MemoryUsage {
        let halves = self.halves.lock();
        let bytes = halves.iter().map(|pairs| pairs.capacity() * size_of::<(u64, u64)>()).sum();
        MemoryUsage { mapped: bytes, resident: bytes }
    }
}

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
