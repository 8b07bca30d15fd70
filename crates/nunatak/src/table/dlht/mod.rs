//! DLHT: bounded cache-line chaining, lock-free operations, parallel
//! non-blocking growth (Katsarakis, Gavrielatos, Ntarmos, HPDC '24, section 3).
//!
//! # The picture
//! The root points to the current [`Index`](index::Index), an array of 64-byte
//! bins (see [`layout`]). A key belongs to one bin. A bin's header counts
//! changes and says which slots are claimed; a slot holds the key's tag, so made
//! so that zero and one other word are no key of that bin, and the value word.
//!
//! # The protocol
//! **A key is present exactly if a slot of its bin holds its tag.** All
//! operations take effect at an access to a slot; the header divides slots up
//! and tells readers that something may have changed.
//!
//! - *Get*: header (acquire); the key words; the value of the one that matches;
//!   acquire fence; header again. Unchanged: the answer, hit or miss, was true
//!   at one instant. It writes nothing.
//! - *Insert*: scan the claimed slots of header `h`. A key: done. A claimed slot
//!   that is empty is another insert between its two steps (or a removal between
//!   its two): wait a little, then kill it, by swapping the dead word in. No key:
//!   claim a free slot by a compare-and-swap of `h` (which fails if anything was
//!   claimed since), store the value, publish by a compare-and-swap of the key
//!   word from empty. If that fails the insert was killed: clear the slot, give
//!   it back, start again.
//! - *Put*: double-word compare-and-swap of (key, old) to (key, new).
//! - *Delete*: double-word compare-and-swap of (key, value) to (empty, value),
//!   then give the slot back by a compare-and-swap of the header.
//! - *Transfer* of a bin to the next index: header to `InTransfer`; every
//!   claimed slot is swapped to dead, which captures its final pair or kills a
//!   pending insert; the pairs are stored in bins that nobody else can reach
//!   yet; header to `Moved`.
//!
//! - *Shadow insert*: an insert of the pair (hidden word, tag); the hidden word is no tag
//!   either, so that nobody but inserts takes notice. To commit is a double-word
//!   compare-and-swap to (tag, value), to abort one to (empty, tag) as by a delete.
//!
//! The paper publishes by the header (TryInsert, then Valid). Publishing by the
//! slot costs as many atomic instructions, and removes what is fragile there: a
//! Put that succeeded on a slot not yet inserted, and the wait for that insert.
//! The transfer keys of the paper are the dead word here.
//!
//! # Invariants
//! 1. A claim succeeds only if nothing was claimed in the bin since the scan
//!    that found the key absent, and all earlier claims are published, dead or
//!    given back by the end of that scan: so a key is never in two slots.
//! 2. Only the claimant of a slot writes its value before it is published; while
//!    it is published, the pair changes by double-word compare-and-swap only.
//! 3. A free slot's key word is empty or dead. (Dead is left behind when a
//!    removal is taken for a pending insert; the next claimant clears it.)
//! 4. A slot is given to another key only after a change of the version, so
//!    a reader that saw one version saw one owner of each slot.
//! 5. While a bin is `InTransfer` its header belongs to one thread.
//! 6. A bin of the next index is reachable only once all bins that feed it are
//!    `Moved` (release); until then it has one writer.
//! 7. Only the index at the root may start a migration, and the root changes
//!    when its last bin has moved. An index is freed when no operation that may
//!    have read the root before is running, no guard of another thread that may
//!    have done so is held, and no iterator or snapshot holds it. (A thread's own
//!    guards are not in its way, nor is anything in the way of a table of one thread: no
//!    index that was read is touched after code of the caller's has run.)
//! 8. A bin whose keys outnumber its slots although the index is nearly empty
//!    (their hashes collide), or for which no memory is left, is *delegated*:
//!    its pairs live in the index's overflow, under a lock, until the next
//!    migration.
//! 9. Code of the caller's (a hasher, an `Eq`) runs while this thread holds no bin and no
//!    lock and has no operation announced, and before the operation has taken effect: so it
//!    may panic, wait, and use the map. Of one operation, a key has the hash that the hasher
//!    said once; of one transfer, too, and a key's new bin is one of those that its old bin
//!    becomes, whatever the hasher says.

mod apply;
mod batch;
mod design;
mod find;
mod first_bucket;
mod growth;
mod hashes;
mod index;
mod iterate;
mod layout;
mod migration;
mod overflow;
mod probe;
mod retired;
mod shadow;
mod snapshot;
mod stats;
#[cfg(all(test, not(modelled)))]
mod tests;
mod transfer;

pub use design::{Dlht, DlhtShadows};
pub use stats::DlhtStats;

use crate::error::Error;
use crate::hash::{Decoder, HashCodec};
use crate::sync::{
    AtomicPtr, AtomicUsize, Backoff, Counts, Mode, Mutex, OpPin, Ordering, Registry,
    double_word_cas_is_lock_free,
};
use crate::table::shared::hashes::Hashes;
use core::marker::PhantomData;
use index::Index;
use retired::Retired;
use std::sync::Arc;

/// The constants that the paper varies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    /// Bins of the first index; a larger capacity overrides it.
    pub(crate) initial_bins: usize,
    /// How many bins there are for each whole link bucket.
    pub(crate) bins_per_link: usize,
    /// By how much to multiply the bins when growing; by size if `None`.
    pub(crate) growth_factor: Option<usize>,
    /// How many bins a thread moves before it goes on with its own work.
    pub(crate) chunk_bins: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { initial_bins: 16, bins_per_link: 8, growth_factor: None, chunk_bins: 8 << 10 }
    }
}

/// An attempt of an operation.
#[derive(Debug)]
enum Step<T> {
    Done(T),
    /// Another thread must act first, and may need this one to be outside.
    Wait,
}

/// The table: pairs of words, found by the first.
#[derive(Debug)]
pub struct Table<P: HashCodec, Y: Mode> {
    root: AtomicPtr<Index>,
    decoder: Decoder,
    /// How many indexes wait to be freed.
    retired_count: AtomicUsize,
    codec: P,
    config: Config,
    registry: Registry,
    hidden_keys: Counts<1>,
    hashes: Hashes,
    retired: Mutex<Vec<Retired>>,
    mode: PhantomData<Y>,
}

// SAFETY: all shared state is atomic or locked; the marker type is no value.
unsafe impl<P: HashCodec> Sync for Table<P, crate::sync::Shared> {}
// SAFETY: as above.
unsafe impl<P: HashCodec> Sync for Table<P, crate::sync::Shadowing> {}
// SAFETY: the table owns everything that it points to, in either mode.
unsafe impl<P: HashCodec, Y: Mode> Send for Table<P, Y> {}

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    pub(crate) fn new(codec: P, config: Config, capacity: usize) -> Result<Self, Error> {
        if !double_word_cas_is_lock_free() {
            return Err(Error::NoDoubleWordCas);
        }
        let bins = config.initial_bins.max(growth::bins_for(capacity)?);
        let index = Arc::new(Index::new(bins, config.bins_per_link)?);
        Ok(Self {
            root: AtomicPtr::new(Arc::into_raw(index).cast_mut()),
            decoder: codec.decoder(),
            retired_count: AtomicUsize::new(0),
            codec,
            config,
            registry: Registry::new(),
            hidden_keys: Counts::new(),
            hashes: Hashes::default(),
            retired: Mutex::new(Vec::new()),
            mode: PhantomData,
        })
    }

    #[inline(always)]
    fn enter(&self) -> OpPin<Y> {
        OpPin::new()
    }

    #[inline(always)]
    fn root<'p>(&'p self, _pin: &'p OpPin<Y>) -> &'p Index {
        // Acquire: pairs with the release that publishes an index.
        // SAFETY: the root is never null, and an index that was at the root
        // while an operation is announced outlives it (invariant 7).
        unsafe { &*self.root.load(Ordering::Acquire) }
    }

    /// A share in the current index, which keeps it and its successors.
    fn hold_root(&self) -> Arc<Index> {
        let _pin = self.enter();
        // Acquire: as in `root`, whose reference may not touch the counts of the `Arc`.
        let index = self.root.load(Ordering::Acquire).cast_const();
        // SAFETY: the root came from an `Arc`, and the table's own share in it
        // is given up only after this operation has ended (invariant 7).
        unsafe {
            Arc::increment_strong_count(index);
            Arc::from_raw(index)
        }
    }

    #[inline(always)]
    fn place(&self, hash: u64, index: &Index) -> usize {
        P::place(hash, index.bins.len())
    }

    /// The tag that marks the dead slots of a bin.
    fn dead(&self, bin: usize, index: &Index) -> u64 {
        self.decoder.dead(P::half_of(bin, index.bins.len()))
    }

    /// The word that marks the hidden keys of a bin.
    fn hidden(&self, bin: usize, index: &Index) -> u64 {
        self.decoder.hidden(P::half_of(bin, index.bins.len()))
    }

    /// Repeats an attempt, leaving the table whenever it has to wait.
    #[inline(always)]
    fn repeat<T>(&self, mut attempt: impl FnMut(&OpPin<Y>) -> Step<T>) -> T {
        let mut backoff = Backoff::new();
        loop {
            let pin = self.enter();
            if let Step::Done(result) = attempt(&pin) {
                drop(pin);
                self.free_retired_if_any();
                return result;
            }
            drop(pin);
            // Not after an attempt that is done: if the caller's hasher panicked then, the
            // caller of the operation would take it for undone.
            if !self.hashes.ask(&self.codec) {
                backoff.wait();
            }
        }
    }

    /// How many keys have a slot, hidden ones among them.
    fn keys(&self) -> usize {
        // Concurrent counting may show a removal before its insert.
        self.registry.added().cast_signed().max(0) as usize
    }

    /// The current index, and those that are being filled.
    fn generations<'p>(&'p self, pin: &'p OpPin<Y>) -> impl Iterator<Item = &'p Index> {
        core::iter::successors(Some(self.root(pin)), |index| match index.migration() {
            index::Migrating::To(migration) => Some(&*migration.target),
            _ => None,
        })
    }
}

impl<P: HashCodec, Y: Mode> Drop for Table<P, Y> {
    fn drop(&mut self) {
        let root = self.root.load(Ordering::Relaxed);
        // SAFETY: the root came from `Arc::into_raw`, and with the table goes
        // its share; no operation is running.
        drop(unsafe { Arc::from_raw(root.cast_const()) });
    }
}
