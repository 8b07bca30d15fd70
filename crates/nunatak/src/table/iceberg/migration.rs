//! What a resize or a snapshot has left to do, and the pairs that a snapshot has copied.

use crate::memory::MemoryUsage;
use crate::sync::{AtomicPair, AtomicUsize, Mutex, Ordering};

/// The work that is left in a resize or a snapshot. Threads that move blocks store to it; what all threads load is in other
/// lines.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Migration {
    /// The next block that no thread has taken.
    pub(super) cursor: AtomicUsize,
    /// The blocks of both yards that are not settled.
    pub(super) remaining: AtomicUsize,
    /// The pieces of the memory for the next doubling that are resident.
    pub(super) populated: AtomicUsize,
}

impl Migration {
    pub(super) fn new() -> Self {
        Self {
            cursor: AtomicUsize::new(0),
            remaining: AtomicUsize::new(0),
            populated: AtomicUsize::new(0),
        }
    }

    /// Counts one more piece of the memory for the next doubling.
    pub(super) fn count_piece(&self) {
        // Relaxed: under the migration lock.
        self.populated.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remaining(&self) -> usize {
        // Relaxed: a statistic.
        self.remaining.load(Ordering::Relaxed)
    }
}

/// Tags and values.
pub(super) type Pairs = Vec<(u64, u64)>;

/// The copies of a cut so far, for each half that the tags belong to.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) halves: Mutex<[Pairs; 2]>,
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
