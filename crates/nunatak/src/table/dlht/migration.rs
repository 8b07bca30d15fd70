//! A migration: which bins go where, and how many have moved. It counts bins and looks at none, so
//! it knows no index.
//!
//! When an index grows, a unit is one old bin. When it shrinks, a unit is all old bins that become
//! one new bin. So every new bin has one writer.

use crate::hash::HashCodec;
use crate::sync::{AtomicUsize, Mutex, Ordering};
use core::cell::Cell;
use core::ops::Range;
use std::sync::Arc;

/// How many units lie between the one that is moved and the one whose lines are asked for.
pub(in crate::table) const UNITS_AHEAD: usize = 8;

/// So many new bins of a unit are asked for at once, at most.
const MAX_TARGETS: usize = 8;

/// With fewer keys than one for so many new bins, some pages of the new index stay untouched.
const BINS_OF_A_KEY: usize = 16;

/// How often a thread asks before it takes a migration for one that stands still: some milliseconds.
const PATIENCE: usize = 1 << 16;

thread_local! {
    /// How many units were taken when this thread asked last, and how often it has asked since it was
    /// another number. (Another migration may have the same number: then this thread helps that one
    /// too early. In a model, whose threads are one, nobody asks so often.)
    static STANDING: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

#[derive(Debug)]
pub(in crate::table) struct Migration<Index> {
    pub(in crate::table) target: Arc<Index>,
    /// The number of units. `feeders` is the number of old bins in each.
    pub(in crate::table) units: usize,
    feeders: usize,
    /// The number of new bins of each unit.
    targets: usize,
    /// Whether movers ask for memory before they need it.
    asks_ahead: bool,
    /// The first unit that no thread has taken.
    cursor: AtomicUsize,
    chunk: usize,
    /// The number of units that have not moved.
    remaining: AtomicUsize,
    /// The parts of chunks that threads have left unmoved: a hash was missing, or the thread
    /// panicked.
    leftovers: Mutex<Vec<Range<usize>>>,
    leftover_count: AtomicUsize,
    /// Whether old bins keep their pairs, for a snapshot to read.
    pub(in crate::table) keeps: bool,
    /// One if the snapshot has its cut: every earlier change has ended.
    cut: AtomicUsize,
}

impl<Index> Migration<Index> {
    /// Makes a migration of so many keys from an index of `old_bins` bins to `target`, which has `new_bins`. One
    /// number of bins must be a multiple of the other.
    pub(in crate::table) fn new(
        (old_bins, new_bins): (usize, usize),
        keys: usize,
        target: Arc<Index>,
        chunk_bins: usize,
        keeps: bool,
    ) -> Self {
        let targets = (new_bins / old_bins).max(1);
        // A model has no memory to ask for.
        let asks_ahead =
            !cfg!(modelled) && targets <= MAX_TARGETS && keys >= new_bins / BINS_OF_A_KEY;
        let feeders = (old_bins / new_bins).max(1);
        let units = old_bins / feeders;
        debug_assert!(new_bins.is_multiple_of(old_bins) || old_bins.is_multiple_of(new_bins));
        Self {
            target,
            units,
            feeders,
            targets,
            asks_ahead,
            cursor: AtomicUsize::new(0),
            chunk: (chunk_bins / feeders).max(1),
            remaining: AtomicUsize::new(units),
            leftovers: Mutex::new(Vec::new()),
            leftover_count: AtomicUsize::new(0),
            keeps,
            cut: AtomicUsize::new(usize::from(!keeps)),
        }
    }

    pub(in crate::table) fn bins_of<P: HashCodec>(
        &self,
        unit: usize,
    ) -> impl Iterator<Item = usize> {
        let feeders = self.feeders;
        let units = self.units;
        (0..feeders)
            .map(move |j| if feeders == 1 { unit } else { P::child(unit, units, feeders, j) })
    }

    /// Returns the new bins of a unit, if movers ask ahead.
    #[inline(always)]
    pub(in crate::table) fn targets_of<P: HashCodec>(
        &self,
        unit: usize,
    ) -> Option<impl Iterator<Item = usize>> {
        let (units, k) = (self.units, self.targets);
        let target = move |j| if k == 1 { unit } else { P::child(unit, units, k, j) };
        self.asks_ahead.then(|| (0..k).map(target))
    }

    /// Calls `populate` for the new bins of all units, as [`targets_of`](Self::targets_of). A page that is read before
    /// it is written takes two faults, and the second one interrupts all other processors.
    pub(in crate::table) fn populate<P: HashCodec>(
        &self,
        units: &Range<usize>,
        mut populate: impl FnMut(Range<usize>),
    ) {
        // One operation's bin is not worth a call of the system.
        if units.len() < 2 {
            return;
        }
        let ends = [units.start, units.end - 1].map(|unit| self.targets_of::<P>(unit));
        let [Some(first), Some(last)] = ends else { return };
        let ranges: Vec<Range<usize>> =
            first.zip(last).map(|(first, last)| first..last + 1).collect();
        // The children of all units lie together, or those of each number do.
        match ranges.iter().cloned().reduce(|one, other| one.start..other.end) {
            Some(all) if all.len() == units.len() * self.targets => populate(all),
            _ => ranges.into_iter().for_each(populate),
        }
    }

    pub(in crate::table) fn unit_of<P: HashCodec>(&self, bin: usize) -> usize {
        if self.feeders == 1 { bin } else { P::parent(bin, self.units, self.feeders) }
    }

    /// Takes the next chunk of units.
    pub(in crate::table) fn take_chunk(&self) -> Option<Range<usize>> {
        // Relaxed, here and below: these words only divide the units among threads.
        if self.leftover_count.load(Ordering::Relaxed) != 0
            && let Some(range) = self.leftovers.lock().pop()
        {
            self.leftover_count.fetch_sub(1, Ordering::Relaxed);
            return Some(range);
        }
        if self.cursor.load(Ordering::Relaxed) >= self.units {
            return None;
        }
        let start = self.cursor.fetch_add(self.chunk, Ordering::Relaxed);
        (start < self.units).then(|| start..(start + self.chunk).min(self.units))
    }

    /// Returns whether no thread has taken a chunk for a while, by the number of times that this
    /// thread has asked.
    pub(in crate::table) fn has_stood_still(&self) -> bool {
        // Relaxed: a hint.
        let taken = self.cursor.load(Ordering::Relaxed);
        STANDING.with(|standing| {
            let (last, asked) = standing.get();
            let is_still = last == taken && asked == PATIENCE;
            standing.set((taken, if last == taken && !is_still { asked + 1 } else { 0 }));
            is_still
        })
    }

    /// Gives back units that were not moved.
    pub(in crate::table) fn leave(&self, range: Range<usize>) {
        self.leftovers.lock().push(range);
        self.leftover_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports units as moved. Returns true to the thread that reports the last ones.
    pub(in crate::table) fn moved(&self, units: usize) -> bool {
        // Release and acquire: the thread that reports last has seen all moves, and publishes them
        // with the root.
        units != 0 && self.remaining.fetch_sub(units, Ordering::AcqRel) == units
    }

    pub(in crate::table) fn has_begun(&self) -> bool {
        // Acquire: pairs with the release in `cut`.
        self.cut.load(Ordering::Acquire) == 1
    }

    pub(in crate::table) fn begin_transfer(&self) {
        // Release: all changes before the cut have ended.
        self.cut.store(1, Ordering::Release);
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::hash::{IdentityCodec, ModuloCodec};

    fn migration(old: usize, new: usize, chunk_bins: usize) -> Migration<()> {
        Migration::new((old, new), 0, Arc::new(()), chunk_bins, false)
    }

    #[test]
    fn units_that_were_left_are_taken_again() {
        let migration = migration(20, 40, 8);
        assert_eq!(migration.take_chunk(), Some(0..8));
        assert_eq!(migration.take_chunk(), Some(8..16));
        migration.leave(3..8);
        assert_eq!(migration.take_chunk(), Some(3..8));
        assert_eq!(migration.take_chunk(), Some(16..20));
        assert_eq!(migration.take_chunk(), None);
        migration.leave(19..20);
        assert_eq!((migration.take_chunk(), migration.take_chunk()), (Some(19..20), None));
        assert!(!migration.moved(0) && !migration.moved(19) && migration.moved(1));
    }

    #[test]
    fn a_unit_is_all_bins_that_become_one() {
        fn check<P: HashCodec>() {
            for (old, new) in [(8, 16), (8, 8), (24, 6)] {
                let migration = migration(old, new, 8);
                let units = old.min(new);
                let mut bins: Vec<usize> = Vec::new();
                for unit in 0..units {
                    let of_unit: Vec<usize> = migration.bins_of::<P>(unit).collect();
                    assert!(of_unit.iter().all(|&bin| migration.unit_of::<P>(bin) == unit));
                    bins.extend(of_unit);
                }
                bins.sort_unstable();
                assert!(bins.into_iter().eq(0..old));
                // A chunk has as many bins, whether the index grows or shrinks.
                assert_eq!(migration.take_chunk(), Some(0..8 * units / old));
            }
        }
        check::<IdentityCodec>();
        check::<ModuloCodec>();
    }
}
