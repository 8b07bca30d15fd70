//! Moving bins to the next index.

use super::WideTable;
use super::apply::{Held, Locking, set_behind};
use super::index::{Index, Migrating};
use super::layout::{Bin, MOVED, Shape, Words, next_version};
use crate::error::Error;
use crate::hash::IdentityCodec;
use crate::memory::prefetch::{prefetch, prefetch_to_write};
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, OpPin, Ordering, Shared};
use crate::table::dlht::migration::{Migration, UNITS_AHEAD};
use core::ops::Range;
use std::sync::Arc;

impl<S: Shape> WideTable<S> {
    /// Moves one chunk of a migration. Returns false if no chunk is left.
    ///
    /// # Errors
    /// If memory for links is refused. What was not moved is left to the next thread that helps.
    pub(super) fn help(&self, _pin: &OpPin<Shared>, old: &Index<S>) -> Result<bool, Error> {
        let Migrating::To(migration) = old.migration() else { return Ok(false) };
        let Some(chunk) = migration.take_chunk() else { return Ok(false) };
        self.move_units(old, migration, chunk)?;
        Ok(true)
    }

    /// Moves units, unless other threads do.
    ///
    /// # Errors
    /// As [`help`](Self::help).
    pub(super) fn move_units(
        &self,
        old: &Index<S>,
        migration: &Migration<Index<S>>,
        units: Range<usize>,
    ) -> Result<(), Error> {
        let mut moved = 0;
        let mut feeders = Vec::new();
        let mut result = Ok(());
        migration.populate::<IdentityCodec>(&units, |bins| migration.target.populate(bins));
        for unit in units.clone() {
            prefetch_ahead(old, migration, unit + UNITS_AHEAD, units.end);
            match self.move_unit(old, migration, unit, &mut feeders) {
                Ok(by_this_thread) => moved += usize::from(by_this_thread),
                Err(error) => {
                    migration.leave(unit..units.end);
                    result = Err(error);
                    break;
                }
            }
        }
        if migration.moved(moved) {
            self.finish(old, migration);
        }
        result
    }

    /// Moves a unit: one old bin that becomes several, or several that become one. Returns whether this thread
    /// has moved it.
    fn move_unit<'i>(
        &self,
        old: &'i Index<S>,
        migration: &Migration<Index<S>>,
        unit: usize,
        feeders: &mut Vec<Held<'i, S>>,
    ) -> Result<bool, Error> {
        for at in migration.bins_of::<IdentityCodec>(unit) {
            let mut backoff = Backoff::new();
            loop {
                match old.bin(at).lock() {
                    Locking::Held(held) => {
                        feeders.push(held);
                        break;
                    }
                    // The first bin of a unit is locked first: if it has moved, the unit has.
                    Locking::Moved => return Ok(false),
                    Locking::Wait => backoff.wait(),
                }
            }
        }
        let target = &*migration.target;
        if let Err(error) = feeders.iter().try_for_each(|held| self.copy(old, held, target)) {
            // No other thread can reach the unit's bins (invariant 3).
            let factor = target.bins() / old.bins();
            let news =
                if factor == 0 { unit..unit + 1 } else { unit * factor..(unit + 1) * factor };
            news.for_each(|at| empty(target, target.bin(at)));
            feeders.drain(..).for_each(Held::unlock);
            return Err(error);
        }
        for held in feeders.drain(..) {
            let header = held.header | if seeded(Bug::WideNotMarkedMoved) { 0 } else { MOVED };
            held.publish(header);
        }
        Ok(true)
    }

    /// Stores the entries of an old bin in bins that no other thread can reach.
    fn copy(&self, old: &Index<S>, held: &Held<'_, S>, target: &Index<S>) -> Result<(), Error> {
        let mut bin = held.bin;
        let mut state = held.header;
        loop {
            for (key, value) in bin.entries(state, old.matcher) {
                let hash = self.hash(&key);
                let bin = target.bin(target.place(hash));
                store_unshared(target, bin, hash, &key, &value)?;
            }
            if seeded(Bug::WideLinksNotMoved) {
                return Ok(());
            }
            let Some(behind) = old.behind(bin) else { return Ok(()) };
            bin = behind;
            state = bin.state();
        }
    }

    /// Makes the next index the root, after the last bin has moved.
    fn finish(&self, old: &Index<S>, migration: &Migration<Index<S>>) {
        migration.target.note_birth();
        let target = Arc::into_raw(Arc::clone(&migration.target)).cast_mut();
        // Release: a thread that reads the root finds every bin moved. The swap returns the pointer that `Arc`
        // made; one made from the reference may not touch the counts of the `Arc`.
        let root = self.root.swap(target, Ordering::Release);
        debug_assert!(core::ptr::eq(root, old));
        // SAFETY: invariant 4: the root changes once for each index, by the thread that moved the last bin. That
        // thread takes over the root's share of the old index.
        let index = unsafe { Arc::from_raw(root.cast_const()) };
        // No guard: nobody holds one of a wide map.
        self.retired.retire(index, 0);
    }
}

/// Asks for the lines of a unit that comes soon, but for its bins: they lie one after the other, so the processor asks for
/// them.
#[inline(always)]
fn prefetch_ahead<S: Shape>(
    old: &Index<S>,
    migration: &Migration<Index<S>>,
    unit: usize,
    end: usize,
) {
    if unit >= end {
        return;
    }
    let Some(targets) = migration.targets_of::<IdentityCodec>(unit) else { return };
    for target in targets {
        prefetch_to_write(migration.target.bin(target).address());
    }
    for bin in migration.bins_of::<IdentityCodec>(unit) {
        if let Some(behind) = old.behind(old.bin(bin)) {
            prefetch(behind.address());
        }
    }
}

/// Stores an entry in a bin that no other thread can reach.
fn store_unshared<S: Shape>(
    index: &Index<S>,
    bin: Bin<'_, S>,
    hash: u64,
    key: &Words,
    value: &Words,
) -> Result<(), Error> {
    // Relaxed, here and below: the header of the old bin publishes the words.
    let header = bin.header().load(Ordering::Relaxed);
    if let Some(slot) = S::free_slot(bin, header, hash, index.matcher) {
        let header = bin.fill(header, slot, hash, key, value);
        bin.header().store(next_version(header), Ordering::Relaxed);
        return Ok(());
    }
    while !set_behind(index, bin, hash, key, value) {
        index.add_links()?;
    }
    Ok(())
}

/// Empties a chain that no other thread can reach.
fn empty<S: Shape>(index: &Index<S>, first: Bin<'_, S>) {
    for bin in core::iter::successors(Some(first), |bin| index.behind(*bin)) {
        S::empty(bin);
    }
}
