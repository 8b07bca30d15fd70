//! IcebergHT: items that never move while the table keeps its size, in three levels (Pandey et al.,
//! SIGMOD '23, sections 2–5).
//!
//! # The picture
//! The [front yard](front) has blocks of 64 slots, each with a line of fingerprints. A key has one
//! block there. The [back yard](back) has as many blocks of 8 slots, and a key has two of them. A
//! key that finds no room in either is in [chains](crate::table::shared::chains). Blocks stand in
//! rows, a power of two of them (see [`geometry`]). All blocks have addresses that never change.
//!
//! # The protocol
//! **A key is present exactly while a slot of one of its blocks holds its tag, or its chain holds
//! it.** Fingerprints are hints that never miss a key.
//!
//! - *Get*: load the fingerprints of the front block; load each matching slot by one load of both
//!   words. If the front block is marked, read the two back blocks; if both are marked, the chain.
//!   A miss counts only if the [state](geometry::State) is unchanged. A get writes nothing and
//!   waits for no thread.
//! - *Changes* hold the lock of the key's front block for their whole length (5.1), and the lock of
//!   the back block that they write to. After each locking, the change loads the state. If the
//!   state has changed, the block may not be the key's any more, and the change starts over.
//! - *Insert*: store fingerprint, value, tag. *Replace*: store the value. *Remove*: clear the tag,
//!   then the fingerprint.
//! - *Resize*: the memory is there before the state says so. From there on a block and its partner
//!   in the other half are *settled*, by the first change to either, or by threads that pass by.
//!   Both are locked; keys are stored where they belong before they are cleared where they were;
//!   the block is marked as settled. Readers look at the old place of a key before the new one.
//!   When the last block is settled, the state says so.
//!
//! The paper locks the whole table at the moment of a doubling. Here no thread waits: a holder of
//! the old block's lock may change the key, since no other thread may before the block is settled.
//!
//! # Invariants
//! 1. The invariants of [`front`] and [`back`] about locks and fingerprints.
//! 2. In a state that moves keys, a key is changed only after its front block and both of its back
//!    blocks were settled in that state. Blocks are settled before anything is locked, and under no
//!    locks but the pair's own.
//! 3. A front lock is good for changes to a key only if the state read after the locking is the
//!    state that gave the block. Later the change learns of a newer state only where it locks a
//!    back block.
//! 4. A state is left only by its own end: when its last block is settled, or by the holder of the
//!    migration lock. So at most one resize or snapshot is under way, and a block is at most one
//!    state behind.
//! 5. Locks are taken in this order: front blocks (ascending), back blocks (ascending), one shard
//!    of chains. The caller's code runs under no lock.
//! 6. A block beyond the size in use has no fingerprints, no tags and no mark. A thread that has
//!    not learned of the size may lock it for a moment.
//! 7. A pair is in at most one place, except while a settler holds the locks of both places. Pairs
//!    that a resize has left in a durable table do not count: lookups do not find them.

mod apply;
mod at_once;
mod back;
mod batch;
mod behind;
mod design;
mod durable;
#[cfg(all(test, durable))]
mod durable_tests;
mod find;
mod front;
mod geometry;
mod growing;
mod growth;
mod handle;
mod iterate;
mod migration;
mod paged;
#[cfg(durable)]
mod paged_recovery;
#[cfg(all(test, durable))]
mod paged_tests;
#[cfg(durable)]
mod recovery;
mod settle;
mod sizes;
mod snapshot;
mod stats;
#[cfg(all(test, not(modelled)))]
mod tests;
#[cfg(durable)]
mod verify;
mod yard;

#[cfg(modelled)]
pub use design::CheckedIceberg;
pub use design::Iceberg;
pub use geometry::{BlockSizes, Blocks};
pub use handle::SlotHandle;
pub(crate) use sizes::Config;
pub use stats::IcebergStats;

#[cfg(durable)]
pub use crate::table::shared::Recovery;

use crate::error::Error;
use crate::hash::{Decoder, HashCodec};
use crate::memory::Addresses;
use crate::memory::{Heap, Medium, Part, ReservedArray};
use crate::sync::{
    AtomicPair, AtomicU64, AtomicUsize, Looks, Mutex, Ordering, Registry,
    double_word_cas_is_lock_free,
};
use crate::table::shared::chains::Chains;
use crate::table::shared::cut::Cut;
use crate::table::shared::hashes::Hashes;
#[cfg(durable)]
use crate::table::shared::recovery_progress::RecoveryProgress;
#[cfg(durable)]
use crate::table::shared::undo_log::UndoLog;
use crate::table::stages::Guards;
use back::Back;
use front::Front;
use geometry::{Geometry, State};
use migration::{Copy, Migration};
use sizes::{blocks_for, reserve_rows};
use std::sync::Arc;

/// A table of pairs of words, found by the first word.
#[derive(Debug)]
pub struct Table<P: HashCodec, B: BlockSizes, M: Medium = Heap> {
    state: AtomicU64,
    /// How often threads look whether the table is full.
    looks: Looks,
    geometry: Geometry<B>,
    front: Front<B, M>,
    back: Back<B, M>,
    codec: P,
    registry: Arc<Registry>,
    chains: Chains<M>,
    medium: M,
    decoder: Decoder,
    config: Config,
    /// The number of rows for which addresses are reserved.
    most_rows: u64,
    _addresses: Addresses,
    migration: Migration,
    /// Held at the start of a resize, and for all of it by a thread that waits for its end.
    migrating: Mutex<()>,
    /// The hashes of keys that are to be moved, if the hasher is the caller's.
    hashes: Hashes,
    /// The number of iterators. They keep the table from halving.
    iterators: AtomicUsize,
    copy: Copy,
    /// In a medium that copies pages: the moments without changes.
    cut: Cut,
    /// In such a medium the thread that takes a snapshot, or is alone with the table, holds this
    /// lock.
    exclusive: Mutex<()>,
    /// In such a medium: the root word, and how many pairs a closed table has, plus one.
    root: Option<ReservedArray<AtomicPair, M>>,
    #[cfg(durable)]
    restoring: RecoveryProgress,
    /// For batches that are atomic, in a file whose pages are copied.
    #[cfg(durable)]
    undo: Option<UndoLog<M>>,
}

impl<P: HashCodec, B: BlockSizes> Table<P, B> {
    pub(crate) fn new(codec: P, config: Config, capacity: usize) -> Result<Self, Error> {
        let shape = Geometry::<B>::shape(blocks_for::<B>(capacity, &config)?);
        Self::within(Heap, codec, config, shape)
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Table<P, B, M> {
    /// Makes an empty table in a medium of a model checker.
    #[cfg(modelled)]
    pub(crate) fn checked(
        medium: M,
        codec: P,
        config: Config,
        capacity: usize,
    ) -> Result<Self, Error> {
        let shape = Geometry::<B>::shape(blocks_for::<B>(capacity, &config)?);
        Self::within(medium, codec, config, shape)
    }

    /// Makes a table of so many columns and rows, whose pairs the medium may hold already.
    fn within(medium: M, codec: P, config: Config, shape: (usize, u64)) -> Result<Self, Error> {
        let root = || ReservedArray::within(&medium, Part::Segments, 1, 1);
        let root = M::IS_PAGED.then(root).transpose()?;
        Self::within_root(medium, root, codec, config, shape)
    }

    /// Makes the same around a root word, which a medium that copies pages has.
    fn within_root(
        medium: M,
        root: Option<ReservedArray<AtomicPair, M>>,
        codec: P,
        config: Config,
        (columns, rows): (usize, u64),
    ) -> Result<Self, Error> {
        if !double_word_cas_is_lock_free() {
            return Err(Error::NoDoubleWordCas);
        }
        let (front, back, most_rows, addresses) =
            reserve_rows::<B, M>(&medium, (columns, rows), &config)?;
        Ok(Self {
            state: AtomicU64::new(State::new(rows, !front.is_fast()).0),
            looks: Looks::new(1),
            geometry: Geometry::new(columns),
            front,
            back,
            decoder: codec.decoder(),
            codec,
            registry: Arc::new(Registry::new()),
            chains: Chains::new(&medium)?,
            #[cfg(durable)]
            undo: M::IS_PAGED.then(|| UndoLog::new(&medium)).transpose()?,
            cut: Cut::default(),
            exclusive: Mutex::new(()),
            root,
            #[cfg(durable)]
            restoring: RecoveryProgress::default(),
            medium,
            config,
            most_rows,
            _addresses: addresses,
            migration: Migration::new(),
            migrating: Mutex::new(()),
            hashes: Hashes::default(),
            iterators: AtomicUsize::new(0),
            copy: Copy::new(),
        })
    }

    #[inline(always)]
    fn state(&self) -> State {
        // Acquire: pairs with the release of a new state, whose memory is committed before.
        State(self.state.load(Ordering::Acquire))
    }

    /// Returns whether the state is unchanged since it was loaded. Earlier loads must acquire.
    #[inline(always)]
    fn is_still(&self, state: State) -> bool {
        // Relaxed: stores under a newer state are releases, so a thread that has read one of them
        // finds the newer state here.
        self.state.load(Ordering::Relaxed) == state.0
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Guards for Table<P, B, M> {
    fn registry(&self) -> &Registry {
        &self.registry
    }
}
