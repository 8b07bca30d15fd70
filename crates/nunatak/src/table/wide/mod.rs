//! Entries of three or four words in DLHT's bins or IcebergHT's blocks, changed under the lock of a bin.
//!
//! A slot of two words changes by one compare-and-swap; three words do not. So here a change locks the bin, as
//! CLHT does (David, Guerraoui, Trigonakis, "Asynchronized Concurrency", ASPLOS '15), and a lookup reads the
//! bin between two looks at its version (a sequence lock). Placement, growth, transfers, and the reclamation
//! of indexes are DLHT's (HPDC '24, section 3.2). What a bin looks like is a *shape*: a cache line or two of DLHT's
//! (`bins.rs`), or a block of IcebergHT's (`blocks.rs`). Below, a block is a bin.
//!
//! # The protocol
//! - *Get*: load the header (acquire). If it is locked, wait; if the bin has moved, go on in the next index.
//!   Compare the keys of the taken slots, in the bin and behind its links; load the value of the match;
//!   acquire fence; load the header again. An unchanged header makes the answer true. A get writes nothing.
//! - *Change*: lock the header by a compare-and-swap; release fence; look for the key; store words; store the
//!   header of the next version without the lock (release).
//! - *Transfer*: lock the bins of a unit; store their entries in bins that no other thread can reach; store
//!   the headers with the mark `MOVED` (release).
//! - *Cut* (a snapshot): mark every bin frozen. Changes wait for a frozen bin, lookups do not. When all bins
//!   are frozen, copy and release them, one after the other.
//!
//! # Invariants
//! 1. Words of a bin, and of the bins behind its links, are changed by the thread that has locked its header.
//!    A header that is locked, frozen or moved is not locked again.
//! 2. A header without a lock changes its version with each change of an entry. So a reader that sees one header
//!    twice saw one state of the bin.
//! 3. A bin of the next index is reachable only when all bins that feed it are moved (release). Until then it has
//!    one writer.
//! 4. Only the index at the root may start a migration or a cut. The root changes when the last bin has moved.
//!    An index is freed only when no operation that may have read the root before is running, and no iterator
//!    or cut holds the index.
//! 5. No code of the caller's runs in this module: keys are compared as words, and hashed by the map.
//! 6. A thread that holds a bin waits for nothing but another transfer's allocation of bins for links, and a transfer of
//!    several bins locks them in order.

mod apply;
mod bins;
mod blocks;
mod config;
mod design;
mod find;
mod growth;
mod index;
mod iterate;
mod layout;
#[cfg(all(test, not(modelled)))]
mod tests;
mod transfer;

pub(crate) use config::Config;
pub use design::WideDesign;
pub(crate) use iterate::WideIter;
pub(crate) use layout::{Entry, Shape, Words};

use crate::error::Error;
use crate::hash::{RandomState, post_mix};
use crate::memory::MemoryUsage;
use crate::sync::{AtomicPtr, OpPin, Ordering, Registry, Shared, is_seldom};
use crate::table::shared::retired::RetiredIndexes;
use core::hash::{BuildHasher, Hasher};
use index::Index;
use std::sync::Arc;

/// The change of a present key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WideChange {
    Keep,
    To(Words),
    Remove,
}

/// A table of entries of a few words, found by the words of their keys.
#[derive(Debug)]
pub(crate) struct WideTable<S: Shape> {
    root: AtomicPtr<Index<S>>,
    hasher: RandomState,
    /// Counts entries.
    registry: Registry,
    retired: RetiredIndexes<Index<S>>,
    config: Config,
}

impl<S: Shape> WideTable<S> {
    pub(crate) fn new(hasher: RandomState, config: Config, capacity: usize) -> Result<Self, Error> {
        let bins = config.initial_bins.max(config.bins_for(capacity)?);
        let index = Arc::new(Index::new(bins, &config)?);
        Ok(Self {
            root: AtomicPtr::new(Arc::into_raw(index).cast_mut()),
            hasher,
            registry: Registry::new(),
            retired: RetiredIndexes::new(),
            config,
        })
    }

    /// Returns the hash of a key. In a model the keys choose their bins themselves; a schedule can be run again.
    #[inline(always)]
    fn hash(&self, key: &Words) -> u64 {
        if cfg!(loom) {
            return key[0];
        }
        if cfg!(shuttle) {
            return post_mix(key[0]);
        }
        let mut hasher = self.hasher.build_hasher();
        (0..S::Entry::KEY).for_each(|word| hasher.write_u64(key[word]));
        // The hasher promises no good high bits, which choose the bin.
        post_mix(hasher.finish())
    }

    #[inline(always)]
    fn root<'p>(&'p self, _pin: &'p OpPin<Shared>) -> &'p Index<S> {
        // Acquire: pairs with the release that publishes an index.
        // SAFETY: invariant 4: the root is never null, and an index that was at the root while an operation
        // was announced outlives that operation.
        unsafe { &*self.root.load(Ordering::Acquire) }
    }

    /// Returns a share of the current index, which keeps that index and its successors.
    fn hold_root(&self) -> Arc<Index<S>> {
        let _pin = OpPin::<Shared>::new();
        // Acquire: as in `root`. A reference from `root` may not touch the counts of the `Arc`.
        let index = self.root.load(Ordering::Acquire).cast_const();
        // SAFETY: the root came from an `Arc`. By invariant 4 the table's own share is given up only after
        // this operation has ended.
        unsafe {
            Arc::increment_strong_count(index);
            Arc::from_raw(index)
        }
    }

    /// Yields the current index, and the indexes that are being filled.
    fn generations(&self) -> impl Iterator<Item = Arc<Index<S>>> {
        core::iter::successors(Some(self.hold_root()), |index| index.target().cloned())
    }

    pub(crate) fn len(&self) -> usize {
        // The counts are concurrent: a removal may be visible before its insert.
        self.registry.added().cast_signed().max(0) as usize
    }

    /// Returns the share of the slots that hold an entry.
    pub(crate) fn load_factor(&self) -> f64 {
        // While the entries are in two indexes, of the larger one.
        let slots = self.generations().map(|index| index.slots()).max().unwrap_or(1);
        (self.len() as f64 / slots as f64).min(1.0)
    }

    pub(crate) fn memory_usage(&self) -> MemoryUsage {
        let registry = MemoryUsage::allocated(self.registry.bytes());
        self.free_retired();
        let usages = self.generations().map(|index| index.usage());
        usages.chain(self.retired.map(Index::usage)).fold(registry, |sum, usage| sum + usage)
    }

    /// Returns the bins, and the bins behind links, of the current index.
    pub(crate) fn bins(&self) -> (usize, usize) {
        let root = self.hold_root();
        (root.bins(), root.linked())
    }

    #[inline(always)]
    fn free_retired_if_any(&self) {
        // Not at each call, since each attempt costs a barrier on all processors.
        if self.retired.count() != 0 && is_seldom::<Shared>(&self.registry) {
            self.free_retired();
        }
    }

    /// Frees old indexes, and waits a moment for operations that may read them.
    fn free_retired_soon(&self) {
        // Nobody holds a guard of a wide map, here and below.
        self.retired.free_soon(|_| true, |_| false);
    }

    /// Frees the old indexes that no thread can reach any more.
    #[cold]
    fn free_retired(&self) {
        self.retired.free(|_| true);
    }
}

impl<S: Shape> Drop for WideTable<S> {
    fn drop(&mut self) {
        // Relaxed: `&mut self`.
        let root = self.root.load(Ordering::Relaxed);
        // SAFETY: the root came from `Arc::into_raw`, and this is the table's share. `&mut self` proves that no
        // operation is running.
        drop(unsafe { Arc::from_raw(root.cast_const()) });
    }
}
