//! Lookups.

use super::WideTable;
use super::index::{Index, Migrating};
use super::layout::{Bin, LOCKED, Layout, MOVED, Words};
use crate::memory::prefetch::prefetch;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, OpPin, Ordering, Shared, fence};

/// How many operations of a batch their lines are asked for ahead.
const AHEAD: usize = 32;

impl<L: Layout> Index<L> {
    /// Returns the bin of the chain in which the key has a slot, the bin's header, and the slot. What a thread
    /// finds that does not hold the bin counts only if the first bin's header is the same afterwards.
    #[inline(always)]
    pub(super) fn search<'i>(
        &'i self,
        first: Bin<'i, L>,
        header: u64,
        key: &Words,
    ) -> Option<(Bin<'i, L>, usize)> {
        if let Some(slot) = first.slot_of(header, key) {
            return Some((first, slot));
        }
        let mut bin = first;
        loop {
            bin = self.behind(bin)?;
            // Relaxed: the first bin's header orders it.
            if let Some(slot) = bin.slot_of(bin.header().load(Ordering::Relaxed), key) {
                return Some((bin, slot));
            }
        }
    }
}

impl<L: Layout> WideTable<L> {
    /// Returns the value of a key.
    #[inline(always)]
    pub(crate) fn find(&self, key: &Words) -> Option<Words> {
        let hash = self.hash(key);
        let pin = OpPin::<Shared>::new();
        self.find_from(self.root(&pin), hash, key)
    }

    #[inline(always)]
    fn find_from<'p>(&'p self, mut index: &'p Index<L>, hash: u64, key: &Words) -> Option<Words> {
        let mut backoff = Backoff::new();
        loop {
            let first = index.bin(index.place(hash));
            // Acquire: the words of the bin, and the next index, are at least as new as the header.
            let header = first.header().load(Ordering::Acquire);
            if header & MOVED != 0 {
                index = next(index);
                continue;
            }
            if header & LOCKED != 0 {
                backoff.wait();
                continue;
            }
            let found = index.search(first, header, key).map(|(bin, slot)| bin.value(slot));
            // Acquire: the header is loaded after the words (invariant 2).
            if !seeded(Bug::WideReadWithoutFence) {
                fence(Ordering::Acquire);
            }
            if first.header().load(Ordering::Relaxed) == header || seeded(Bug::WideReadNotValidated)
            {
                return found;
            }
        }
    }

    /// Prefetches the line that an operation on a key reads first.
    #[inline(always)]
    pub(crate) fn prefetch(&self, key: &Words) {
        let hash = self.hash(key);
        let pin = OpPin::<Shared>::new();
        let index = self.root(&pin);
        prefetch(index.bin(index.place(hash)).address());
    }

    /// Calls `each` for the places of a batch in order, and asks for the lines of the keys that are so far ahead.
    #[inline(always)]
    pub(crate) fn for_each_ahead(
        &self,
        count: usize,
        mut next_key: impl FnMut() -> Option<Words>,
        mut each: impl FnMut(usize),
    ) {
        let mut ask = || {
            if let Some(key) = next_key() {
                self.prefetch(&key);
            }
        };
        (0..AHEAD).for_each(|_| ask());
        for at in 0..count {
            ask();
            each(at);
        }
    }
}

/// Returns the index that has the entries of a bin that has moved.
pub(super) fn next<L: Layout>(index: &Index<L>) -> &Index<L> {
    match index.migration() {
        Migrating::To(migration) => &migration.target,
        // A bin moves while its index has a migration, and that stays.
        Migrating::No | Migrating::Starting => unreachable!("a bin has moved to no index"),
    }
}
