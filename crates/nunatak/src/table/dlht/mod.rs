//! DLHT: bounded cache-line chaining, lock-free operations, parallel non-blocking growth
//! (Katsarakis, Gavrielatos, Ntarmos, HPDC '24, section 3).
//!
//! # The picture
//! The root points to the current [`Index`](index::Index), an array of 64-byte bins (see
//! [`layout`]). A key belongs to one bin. A bin's header counts changes and says which slots are
//! claimed. A slot holds the key's tag and the value word. Zero and two marker words (dead, hidden)
//! are no tag of the bin.
//!
//! # The protocol
//! **A key is present exactly if a slot of its bin holds its tag.** Every operation takes effect at
//! an access to a slot. The header only divides the slots among inserts, and tells readers that
//! something may have changed.
//!
//! - *Get*: load the header (acquire); compare the tags; load the value of the match; acquire
//!   fence; load the header again. An unchanged header makes the answer, hit or miss, true at one
//!   instant. A get writes nothing.
//! - *Insert*: scan the claimed slots of header `h`. If one holds the key, the scan ends. A claimed
//!   slot that is empty belongs to an insert between its two steps, or to a removal between its
//!   two: wait a little, then kill it by swapping the dead word in. If the key is absent, claim a
//!   free slot by a compare-and-swap of `h` (it fails if any slot was claimed since). Store the
//!   value; publish by a compare-and-swap of the tag from empty. If that fails, the insert was
//!   killed: clear the slot, give it back, start again.
//! - *Put*: double-word compare-and-swap of (tag, old) to (tag, new).
//! - *Delete*: compare-and-swap of the tag to empty; the value that stands beside it then is the
//!   removed one. If the delete depends on the value, a double-word compare-and-swap of (tag, value) to
//!   (empty, value). Then give the slot back by a compare-and-swap of the header.
//! - *Transfer* of a bin to the next index: set the state to `InTransfer`; swap every claimed slot
//!   to dead, which captures its final pair or kills a pending insert; store the pairs in bins that
//!   no other thread can reach yet; set the state to `Moved`.
//! - *Shadow insert*: an insert of the pair (hidden word, tag). The hidden word is no tag, so only
//!   inserts look at it. A commit is a double-word compare-and-swap to (tag, value); an abort is
//!   one to (empty, tag), as in a delete.
//!
//! # Invariants
//! 1. A claim succeeds only if no slot of the bin was claimed since the scan that found the key
//!    absent. At the end of that scan all earlier claims are published, dead or given back. So a
//!    key is never in two slots.
//! 2. Only the claimant of a slot writes its value before it is published. The value of a published
//!    pair changes by double-word compare-and-swap only; its tag so, or by one of the tag alone.
//! 3. The tag word of a free slot is empty or dead. (A removal that is taken for a pending insert
//!    leaves a dead word; the next claimant clears it.)
//! 4. A slot is given to another key only after a change of the version. So a reader that saw one
//!    version saw one owner of each slot.
//! 5. While a bin is `InTransfer`, its header belongs to one thread.
//! 6. A bin of the next index is reachable only when all bins that feed it are `Moved` (release).
//!    Until then it has one writer.
//! 7. Only the index at the root may start a migration. The root changes when the last bin has
//!    moved. An index is freed only when no operation that may have read the root before is
//!    running, no other thread holds a guard that may have, and no iterator or snapshot holds the
//!    index. (A thread's own guards delay nothing, and in a table of one thread nothing does: after
//!    the caller's code has run, no index that was read before is touched.)
//! 8. A bin is *delegated* if its keys outnumber its slots although the index is nearly empty
//!    (their hashes collide), or if no memory is left. Its pairs are then in the index's overflow,
//!    under a lock, until the next migration.
//! 9. The caller's code (a hasher, an `Eq`) runs while this thread holds no bin and no lock, has no
//!    operation announced, and before the operation has taken effect. So it may panic, wait, and
//!    use the map. One operation, and one transfer, uses the hash that the hasher returned first. A
//!    key's new bin is one of the bins that its old bin becomes, whatever the hasher returns.

mod ahead;
mod apply;
mod batch;
mod delegated;
mod design;
mod find;
mod first_bucket;
mod first_link;
mod growth;
mod hashes;
mod index;
mod iterate;
mod layout;
pub(super) mod migration;
mod overflow;
mod probe;
mod removal;
mod retired;
mod shadow;
pub(super) mod sizes;
mod snapshot;
mod stats;
mod tags;
#[cfg(all(test, not(modelled)))]
mod tests;
mod transfer;

pub use design::{Dlht, DlhtShadows};
pub use stats::DlhtStats;

use crate::error::Error;
use crate::hash::{Decoder, HashCodec};
use crate::sync::{
    AtomicPtr, Backoff, Mode, OpPin, Ordering, Registry, double_word_cas_is_lock_free,
};
use crate::table::shared::hashes::Hashes;
use crate::table::shared::retired::RetiredIndexes;
use crate::table::shared::room::Room;
use core::marker::PhantomData;
use index::Index;
use std::sync::Arc;

/// The constants that the paper varies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    /// Bins of the first index; a larger capacity overrides it.
    pub(crate) initial_bins: usize,
    /// How many bins there are for each whole link bucket.
    pub(crate) bins_per_link: usize,
    /// The factor by which growth multiplies the bins; `None` chooses it by size.
    pub(crate) growth_factor: Option<usize>,
    /// How many bins a thread moves before it continues its own work.
    pub(crate) chunk_bins: usize,
    /// Whether the table grows by itself.
    pub(crate) room: Room,
}

impl Default for Config {
    fn default() -> Self {
        let room = Room::default();
        Self { initial_bins: 4, bins_per_link: 8, growth_factor: None, chunk_bins: 8 << 10, room }
    }
}

/// The result of an attempt of an operation.
#[derive(Debug)]
enum Step<T> {
    Done(T),
    /// Another thread must act first, and may need this thread to end its announcement.
    Wait,
}

/// A table of pairs of words, found by the first word.
#[derive(Debug)]
pub struct Table<P: HashCodec, Y: Mode> {
    root: AtomicPtr<Index>,
    decoder: Decoder,
    codec: P,
    config: Config,
    registry: Registry,
    hashes: Hashes,
    retired: RetiredIndexes<Index>,
    mode: PhantomData<Y>,
}

// SAFETY: every shared field is atomic, locked or never changed; `PhantomData` holds no value.
unsafe impl<P: HashCodec> Sync for Table<P, crate::sync::Shared> {}
// SAFETY: as for `Shared`: every shared field is atomic, locked or never changed.
unsafe impl<P: HashCodec> Sync for Table<P, crate::sync::Shadowing> {}
// SAFETY: the table owns everything that it points to, in either mode.
unsafe impl<P: HashCodec, Y: Mode> Send for Table<P, Y> {}

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    pub(crate) fn new(codec: P, config: Config, capacity: usize) -> Result<Self, Error> {
        if !double_word_cas_is_lock_free() {
            return Err(Error::NoDoubleWordCas);
        }
        let bins = config.initial_bins.max(index::bins_for(capacity)?);
        let index = Arc::new(Index::new(bins, config.bins_per_link)?);
        Ok(Self {
            root: AtomicPtr::new(Arc::into_raw(index).cast_mut()),
            decoder: codec.decoder(),
            codec,
            config,
            registry: Registry::new(),
            hashes: Hashes::default(),
            retired: RetiredIndexes::new(),
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
        // SAFETY: invariant 7: the root is never null, and an index that was at the root while an
        // operation was announced outlives that operation.
        unsafe { &*self.root.load(Ordering::Acquire) }
    }

    /// Returns a share of the current index. The share keeps that index and its successors.
    fn hold_root(&self) -> Arc<Index> {
        let _pin = self.enter();
        // Acquire: as in `root`. A reference from `root` may not touch the counts of the `Arc`.
        let index = self.root.load(Ordering::Acquire).cast_const();
        // SAFETY: the root came from an `Arc`. By invariant 7 the table's own share is given up
        // only after this operation has ended.
        unsafe {
            Arc::increment_strong_count(index);
            Arc::from_raw(index)
        }
    }

    #[inline(always)]
    fn place(&self, hash: u64, index: &Index) -> usize {
        P::place(hash, index.bins.len())
    }

    /// Returns the word that marks the dead slots of a bin.
    fn dead(&self, bin: usize, index: &Index) -> u64 {
        self.decoder.dead(P::half_of(bin, index.bins.len()))
    }

    /// Returns the word that marks the hidden keys of a bin.
    fn hidden(&self, bin: usize, index: &Index) -> u64 {
        self.decoder.hidden(P::half_of(bin, index.bins.len()))
    }

    /// Repeats an attempt. Ends the announcement whenever the attempt must wait.
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
            // Not after an attempt that is done: if the caller's hasher panicked then, the caller
            // would take the operation for undone.
            if !self.hashes.ask(&self.codec) {
                backoff.wait();
            }
        }
    }

    /// Returns how many keys have a slot, including hidden keys.
    fn keys(&self) -> usize {
        // The counts are concurrent: a removal may be visible before its insert.
        self.registry.added().cast_signed().max(0) as usize
    }

    /// Yields the current index, and the indexes that are being filled.
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
        // SAFETY: the root came from `Arc::into_raw`, and this is the table's share. `&mut self`
        // proves that no operation is running.
        drop(unsafe { Arc::from_raw(root.cast_const()) });
    }
}
