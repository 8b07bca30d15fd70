//! Lookups.

use super::WideTable;
use super::index::{Index, Migrating};
use super::layout::{Bin, Entry, LOCKED, MOVED, Shape, Sought, Words};
use crate::memory::prefetch::prefetch;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, OpPin, Ordering, Shared, fence};

/// How many operations of a batch their lines are asked for ahead.
const AHEAD: usize = 32;
/// How many operations ahead what the first line leads to is asked for: when that line has arrived.
const SECOND_AHEAD: usize = 16;

impl<S: Shape> Index<S> {
    /// Returns the bin of the chain in which the key has a slot, the bin's header, and the slot. What a thread
    /// finds that does not hold the bin counts only if the first bin's header is the same afterwards.
    #[inline(always)]
    pub(super) fn search<'i, const FETCHED: bool>(
        &'i self,
        first: Bin<'i, S>,
        header: u64,
        sought: &Sought<'_>,
    ) -> Option<(Bin<'i, S>, usize)> {
        if let Some(slot) = S::slot_of::<FETCHED>(first, header, sought) {
            return Some((first, slot));
        }
        let mut bin = first;
        loop {
            bin = self.behind(bin)?;
            if let Some(slot) = S::slot_of::<false>(bin, bin.state(), sought) {
                return Some((bin, slot));
            }
        }
    }
}

impl<S: Shape> WideTable<S> {
    /// Returns the value of a key.
    #[inline(always)]
    pub(crate) fn find(&self, key: &Words) -> Option<Words> {
        let hash = self.hash(key);
        let pin = OpPin::<Shared>::new();
        self.find_from::<false>(self.root(&pin), hash, key)
    }

    /// As [`find`](Self::find), of a key with this hash whose bin has been asked for.
    #[inline(always)]
    pub(crate) fn find_fetched(&self, hash: u64, key: &Words) -> Option<Words> {
        let pin = OpPin::<Shared>::new();
        self.find_from::<true>(self.root(&pin), hash, key)
    }

    #[inline(always)]
    fn find_from<'p, const FETCHED: bool>(
        &'p self,
        mut index: &'p Index<S>,
        hash: u64,
        key: &Words,
    ) -> Option<Words> {
        let mut backoff = Backoff::new();
        loop {
            let first = index.bin(index.place(hash));
            if !FETCHED {
                S::prefetch_entry(first, hash);
            }
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
            let sought = index.sought(hash, key);
            let found = index.search::<FETCHED>(first, header, &sought);
            let found = found.map(|(bin, slot)| bin.value(slot));
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
        self.prefetch_hashed(self.hash(key));
    }

    #[inline(always)]
    fn prefetch_hashed(&self, hash: u64) {
        let pin = OpPin::<Shared>::new();
        let index = self.root(&pin);
        prefetch(index.bin(index.place(hash)).address());
    }

    /// Prefetches what an operation reads after the first line: the entry of a slot, or the bin behind the link.
    #[inline(always)]
    fn prefetch_second(&self, hash: u64) {
        let pin = OpPin::<Shared>::new();
        let index = self.root(&pin);
        let bin = index.bin(index.place(hash));
        if let Some(slot) = S::likely_slot(bin, hash, index.matcher) {
            // An entry may lie in two lines.
            let address = bin.slot_address(slot);
            prefetch(address);
            prefetch(address.wrapping_add(S::Entry::WORDS - 1));
        } else if let Some(behind) = index.behind(bin) {
            prefetch(behind.address());
        }
    }

    /// Calls `each` for the keys of a batch in order, with their places, and asks for the lines of keys that are
    /// [`AHEAD`] behind. `key` and `each` convert the caller's types, so each step announces itself, and none lasts
    /// while they run.
    #[inline(always)]
    pub(crate) fn for_each_ahead(
        &self,
        count: usize,
        key: impl Fn(usize) -> Words,
        mut each: impl FnMut(usize, u64, &Words),
    ) {
        let mut ring = [(0, [0; 2]); AHEAD];
        let ask = |ring: &mut [(u64, Words); AHEAD], at: usize| {
            if at < count {
                let key = key(at);
                let hash = self.hash(&key);
                self.prefetch_hashed(hash);
                ring[at % AHEAD] = (hash, key);
            }
        };
        (0..AHEAD).for_each(|at| ask(&mut ring, at));
        for at in 0..count {
            if at + SECOND_AHEAD < count {
                self.prefetch_second(ring[(at + SECOND_AHEAD) % AHEAD].0);
            }
            let (hash, key) = ring[at % AHEAD];
            ask(&mut ring, at + AHEAD);
            each(at, hash, &key);
        }
    }
}

/// Returns the index that has the entries of a bin that has moved.
pub(super) fn next<S: Shape>(index: &Index<S>) -> &Index<S> {
    match index.migration() {
        Migrating::To(migration) => &migration.target,
        // A bin moves while its index has a migration, and that stays.
        Migrating::No | Migrating::Starting => unreachable!("a bin has moved to no index"),
    }
}
