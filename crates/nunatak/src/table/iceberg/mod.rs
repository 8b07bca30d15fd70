//! IcebergHT: items that never move while the table keeps its size, in three
//! levels (Pandey et al., SIGMOD '23, sections 2–5).
//!
//! # The picture
//! The [front yard](front) has blocks of 64 slots, each with a line of
//! fingerprints; a key has one block there. The [back yard](back) has as many
//! blocks of 8 slots, and a key has two of them. What finds no room in either is
//! in [chains](crate::table::shared::chains). Blocks stand in rows, of which there are a power of two
//! (see [`geometry`]); all of them have addresses that never change.
//!
//! # The protocol
//! **A key is present exactly while a slot of one of its blocks holds its tag, or
//! its chain holds it.** Fingerprints are hints that never miss it.
//!
//! - *Get*: fingerprints of the front block; each slot that matches, by one load
//!   of both words; then the two back blocks, then, if both are marked, the chain.
//!   A miss counts only if the [state](geometry::State) is what it was. It writes
//!   nothing and waits for nobody.
//! - *Changes* hold the lock of the key's front block for their whole length (5.1),
//!   and of the back block that they write to. Each lock is followed by a look at
//!   the state: if that has changed, the block may not be the key's any more, and
//!   the change starts over.
//! - *Insert*: fingerprint, value, tag. *Replace*: the value. *Remove*: the tag,
//!   then the fingerprint.
//! - *Resize*: the memory is there before the state says so. From there on a block
//!   and its partner in the other half are *settled*, by whoever is the first to
//!   change something in either, or by those who pass by: both are locked, keys
//!   are stored where they belong before they are taken away where they were,
//!   and the block is marked. Readers look at the old place of a key before the
//!   new one. When the last block is marked the state says that all are.
//!
//! The paper takes a lock of the whole table for the moment in which it doubles,
//! since threads that knew different sizes would lock different blocks for one
//! key. Here nobody waits: whoever still holds the lock of the old block does so
//! rightly, since the block has not been settled, and nobody else may change a key
//! of that block before it is.
//!
//! # Invariants
//! 1. Those of [`front`] and [`back`] about locks and fingerprints.
//! 2. Under a state that moves keys, a key may be changed only after its front
//!    block and both of its back blocks were settled under that state. Blocks are
//!    settled before anything is locked, and under no lock but the pair's own.
//! 3. A front lock is good for changes to a key only if the state read after the
//!    locking is the one under which the block was computed. What follows may
//!    learn of a newer state only where it locks a back block.
//! 4. A state is left for the next one only by its own end: when its last block is
//!    settled, or by who holds the migration lock. So at most one resize or snapshot
//!    is under way, and a block is at most one state behind.
//! 5. Locks are taken in this order: front blocks (ascending), back blocks
//!    (ascending), one shard of chains. No code of the caller runs under any.
//! 6. A block beyond the size in use has no fingerprints, no tags and no mark, but
//!    may be locked for a moment by somebody who has not learned that.
//! 7. A pair is in at most one place, but while a settler holds the locks of both.

mod apply;
mod back;
mod batch;
mod design;
mod durable;
#[cfg(all(test, durable))]
mod durable_tests;
mod find;
mod front;
mod geometry;
mod growth;
mod handle;
mod iterate;
#[cfg(durable)]
mod recovery;
mod settle;
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
pub use stats::IcebergStats;

#[cfg(durable)]
pub use crate::table::shared::Recovery;

use crate::error::Error;
use crate::hash::{Decoder, HashCodec};
use crate::memory::Addresses;
use crate::memory::{Heap, Medium};
use crate::sync::{
    AtomicU64, AtomicUsize, Mutex, Ordering, Registry, Shared, double_word_cas_is_lock_free,
};
use crate::table::shared::chains::Chains;
use crate::table::shared::hashes::Hashes;
use crate::table::stages::Guards;
use back::Back;
use front::Front;
use geometry::{Geometry, State};

/// The constants that the paper varies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    /// The share of the slots that may be taken before the table doubles.
    pub(crate) max_load: f64,
    /// How many items the table can grow to; by the machine's memory if `None`.
    pub(crate) max_capacity: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self { max_load: 0.91, max_capacity: None }
    }
}

/// The table: pairs of words, found by the first.
#[derive(Debug)]
pub struct Table<P: HashCodec, B: BlockSizes, M: Medium = Heap> {
    state: AtomicU64,
    geometry: Geometry<B>,
    front: Front<B, M>,
    back: Back<B, M>,
    codec: P,
    registry: Registry,
    chains: Chains<M>,
    medium: M,
    decoder: Decoder,
    config: Config,
    /// The most rows that there are addresses for.
    most_rows: u64,
    _addresses: Addresses,
    migration: growth::Migration,
    /// Held by who starts a resize, and for all of it by who waits for its end.
    migrating: Mutex<()>,
    /// Those of keys that are to be moved, if the hasher is the caller's.
    hashes: Hashes,
    /// How many iterators hold the table from halving.
    iterators: AtomicUsize,
    copy: snapshot::Copy,
}

impl<P: HashCodec, B: BlockSizes> Table<P, B> {
    pub(crate) fn new(codec: P, config: Config, capacity: usize) -> Result<Self, Error> {
        let shape = Geometry::<B>::shape(growth::blocks_for::<B>(capacity, &config)?);
        Self::within(Heap, codec, config, shape)
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Table<P, B, M> {
    /// An empty table in a medium of a model checker.
    #[cfg(modelled)]
    pub(crate) fn checked(
        medium: M,
        codec: P,
        config: Config,
        capacity: usize,
    ) -> Result<Self, Error> {
        let shape = Geometry::<B>::shape(growth::blocks_for::<B>(capacity, &config)?);
        Self::within(medium, codec, config, shape)
    }

    /// A table of so many columns and rows, which the medium may hold pairs of.
    fn within(
        medium: M,
        codec: P,
        config: Config,
        (columns, rows): (usize, u64),
    ) -> Result<Self, Error> {
        if !double_word_cas_is_lock_free() {
            return Err(Error::NoDoubleWordCas);
        }
        let (front, back, most_rows, addresses) =
            growth::reserve_rows::<B, M>(&medium, (columns, rows), &config)?;
        Ok(Self {
            state: AtomicU64::new(State::new(rows, !front.is_fast()).0),
            geometry: Geometry::new(columns),
            front,
            back,
            decoder: codec.decoder(),
            codec,
            registry: Registry::new(),
            chains: Chains::new(&medium)?,
            medium,
            config,
            most_rows,
            _addresses: addresses,
            migration: growth::Migration::new(),
            migrating: Mutex::new(()),
            hashes: Hashes::default(),
            iterators: AtomicUsize::new(0),
            copy: snapshot::Copy::new(),
        })
    }

    #[inline(always)]
    fn state(&self) -> State {
        // Acquire: pairs with the release of a new state, whose memory is there.
        State(self.state.load(Ordering::Acquire))
    }

    /// Whether the state is what it was when it was loaded first. Loads before
    /// it must acquire.
    #[inline(always)]
    fn is_still(&self, state: State) -> bool {
        // Relaxed: whoever acts under a newer state releases what it does, and who
        // has read of that finds the newer state here.
        self.state.load(Ordering::Relaxed) == state.0
    }

    /// Counts pairs that this thread has added, and sees now and then to it that
    /// the table does not get too full.
    #[inline(always)]
    fn count(&self, added: i64) {
        let sum = self.registry.count::<Shared>(added);
        if added > 0 && sum.is_multiple_of(growth::CHECKED_EVERY) {
            self.clean_or_grow_if_full();
        }
    }
}

impl<P: HashCodec, B: BlockSizes, M: Medium> Guards for Table<P, B, M> {
    fn registry(&self) -> &Registry {
        &self.registry
    }
}
