//! TurboHash (Zhao et al., SYSTOR '23), in RAM: many small tables. A key is in its bucket or in one
//! of the next ones, and a search ends at the first bucket that no key has passed.
//!
//! # The picture
//! The highest bits of a hash select its [shard](shards). The next bits select a bucket in the
//! shard's [extent](crate::memory::BuddyExtent) of buckets. A key is stored in the first free slot
//! from this bucket on, in its scope of sixteen buckets. If the scope is full, the shard is
//! [rehashed](rehash) into twice as many buckets. So an insert waits for one shard at most.
//!
//! # The protocol
//! **A key is present exactly while a slot of its scope, in the extent that its shard's
//! descriptor names, holds its tag, or its chain holds it.** Fingerprints are hints that
//! never miss it.
//!
//! - *Get*: load the header of the first bucket, and each slot that matches. Go on to the next
//!   bucket only if the header's flag says that some key has passed this bucket. The answer counts
//!   if the descriptor is unchanged. A get writes nothing and waits for no other thread, unless it
//!   must look into the chains, which are under locks.
//! - *Changes* hold the shard's lock, which is a bit of its descriptor: one locked instruction, on
//!   a line that is in the cache.
//! - *Rehash*: store all pairs in an extent that no other thread knows, then change the descriptor.
//!   Readers go on in the old extent, which stays as it is until no thread can know it.
//!
//! The paper ends a search at a bucket that has two never-used slots, so a full bucket extends a
//! search even if no key has passed it. It keeps one slot of each bucket free for updates. Here the
//! flag ends a search earlier, and a slot that becomes free in a bucket that no search passes is as
//! good as new. A value is one word, which is replaced in place, atomically for readers and for a
//! power cut. [`durable`] says what a table in a file does in addition.
//!
//! # Invariants
//! 1. The invariants of the [buckets](crate::table::shared::bucket), of [`shards`] and of
//!    [`memory::buddies`](crate::memory).
//! 2. All buckets between the bucket of a key's hash and the bucket that holds the key have the
//!    flag [`PASSED`](find). The flag is set before the key is stored, and stays as long as the
//!    extent is the shard's.
//! 3. Locks are taken in this order: the lock of one shard (never of two); the lock of the extents;
//!    the lock of a shard of chains; the lock of a snapshot's pairs. No code of the caller's runs
//!    under a lock.

mod apply;
mod batch;
mod design;
mod durable;
mod find;
mod geometry;
mod growing;
mod iterate;
#[cfg(durable)]
mod recovery;
mod rehash;
#[cfg(durable)]
mod salvage;
mod shards;
mod snapshot;
mod stats;
#[cfg(all(test, not(modelled)))]
mod tests;
#[cfg(durable)]
mod verify;

pub use design::Turbo;
#[cfg(modelled)]
pub use design::{CheckedTurbo, GrowingTurbo};
pub use stats::TurboStats;

use crate::error::Error;
use crate::hash::{Decoder, HashCodec};
use crate::memory::{Heap, Medium};
use crate::sync::{Mutex, MutexGuard, Registry, double_word_cas_is_lock_free, pairs_load_whole};
use crate::table::shared::bucket::{Bucket, Layout};
use crate::table::shared::chains::Chains;
use crate::table::shared::cut::Cut;
use crate::table::shared::recovery_progress::RecoveryProgress;
use crate::table::shared::rehashed::Rehashed;
use crate::table::shared::room::Room;
#[cfg(durable)]
use crate::table::shared::undo_log::UndoLog;
use crate::table::stages::Guards;
use geometry::{MOST_SHARDS, size_for};
use shards::{Happened, ShardGuard, Shards};
use std::sync::Arc;

/// The constants that the paper varies.
#[derive(Debug, Clone)]
pub struct Config {
    /// The number of shards: a power of two. Without it the capacity decides.
    pub(crate) shards: Option<usize>,
    /// The number of buckets that a key may be in.
    pub(crate) scope: usize,
    /// The share of a shard's slots that may be tombstones (free slots in passed buckets) before
    /// the shard is cleared of them.
    pub(crate) tombstones: f64,
    /// Whether the table grows by itself.
    pub(crate) room: Room,
    /// The logarithm of a shard's first number of buckets, which follows from the capacity.
    first_size: u32,
}

impl Default for Config {
    fn default() -> Self {
        let scope = if cfg!(modelled) { 2 } else { 16 };
        Self { shards: None, scope, tombstones: 0.1, room: Room::default(), first_size: 0 }
    }
}

/// The number of shards of a table without a capacity.
const SHARDS: usize = if cfg!(modelled) { 2 } else { 1024 };

/// The fewest and the most shards that a capacity suggests. All of these shards have buckets.
const FEW_SHARDS: usize = if cfg!(modelled) { 2 } else { 256 };
const MANY_SHARDS: usize = 1 << 14;

/// The pairs of capacity for each shard.
const PER_SHARD: usize = 4096;

impl Config {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let invalid = |option, expected| Err(Error::InvalidOption { option, expected });
        let Self { shards, scope, tombstones, .. } = self;
        if shards.is_some_and(|n| !(2..=MOST_SHARDS).contains(&n) || !n.is_power_of_two()) {
            return invalid("shards", "a power of two from 2 to 1,048,576");
        }
        if !(1..=1 << 12).contains(scope) {
            return invalid("scope", "from 1 to 4096");
        }
        // This also refuses NaN.
        if !(0.01..=1.0).contains(tombstones) {
            return invalid("tombstones", "a share from 0.01 to 1");
        }
        Ok(())
    }

    /// Completes the options for `capacity` pairs in buckets of `slots` slots. Also returns the
    /// number of shards.
    pub(crate) fn made_for(
        mut self,
        capacity: usize,
        slots: usize,
    ) -> Result<(Self, usize), Error> {
        self.check()?;
        let suggested = match capacity {
            0 => SHARDS,
            _ => (capacity / PER_SHARD + 1).next_power_of_two().clamp(FEW_SHARDS, MANY_SHARDS),
        };
        let shards = *self.shards.get_or_insert(suggested);
        if capacity > 0 {
            self.first_size = size_for(capacity, 1.0 / shards as f64, slots)?;
        }
        Ok((self, shards))
    }
}

/// The lock that keeps snapshots out. It is released while the caller's hasher runs.
type Exclusive<'t> = Option<MutexGuard<'t, ()>>;

/// The table: pairs of words, found by the first word.
#[derive(Debug)]
pub struct Table<P: HashCodec, M: Medium = Heap, L: Layout = Bucket> {
    medium: M,
    shards: Shards<M, L>,
    codec: P,
    registry: Arc<Registry>,
    chains: Chains<M>,
    decoder: Decoder,
    config: Config,
    /// [`Config::tombstones`] in parts of 2^24, rounded up, since a removal asks.
    tombstones_a_slot: u64,
    pairs_load_whole: bool,
    /// The requests that no thread changes anything, and the snapshot that is being taken.
    cut: Cut,
    /// The thread that takes a snapshot or shrinks the table holds this lock.
    exclusive: Mutex<()>,
    happened: Happened,
    restoring: RecoveryProgress,
    /// Learns what slots name, if the file did not say so when the table was opened.
    #[cfg(durable)]
    finder: Option<std::sync::Arc<dyn crate::memory::Finder>>,
    /// For batches that are atomic, in a file.
    #[cfg(durable)]
    undo: Option<UndoLog<M>>,
}

impl<P: HashCodec, L: Layout> Table<P, Heap, L> {
    pub(crate) fn new(codec: P, config: Config, capacity: usize) -> Result<Self, Error> {
        Self::new_in(Heap, codec, config, capacity)
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Creates a table in an empty medium.
    pub(crate) fn new_in(
        medium: M,
        codec: P,
        config: Config,
        capacity: usize,
    ) -> Result<Self, Error> {
        let (config, shards) = config.made_for(capacity, L::SLOTS)?;
        let mut table = Self::within(medium, codec, config, shards)?;
        table.shards.make_descriptors()?;
        if capacity > 0 {
            let share = |number| P::share(number, shards);
            table.shards.set_first_sizes(|number| size_for(capacity, share(number), L::SLOTS))?;
            table.reserve(capacity)?;
        }
        Ok(table)
    }

    /// Makes the parts of a table with `shards` shards. The medium may hold data already.
    fn within(medium: M, codec: P, config: Config, shards: usize) -> Result<Self, Error> {
        const { assert!(L::IS_DURABLE || !M::IS_DURABLE, "the layout is made for RAM") };
        if !double_word_cas_is_lock_free() {
            return Err(Error::NoDoubleWordCas);
        }
        Ok(Self {
            shards: Shards::new(&medium, shards, config.first_size)?,
            decoder: codec.decoder(),
            codec,
            registry: Arc::new(Registry::new()),
            chains: Chains::new(&medium)?,
            tombstones_a_slot: (config.tombstones * f64::from(1 << 24)).ceil() as u64,
            config,
            pairs_load_whole: pairs_load_whole(),
            cut: Cut::default(),
            exclusive: Mutex::new(()),
            happened: Happened::default(),
            restoring: RecoveryProgress::default(),
            #[cfg(durable)]
            finder: None,
            #[cfg(durable)]
            undo: M::IS_DURABLE.then(|| UndoLog::new(&medium)).transpose()?,
            medium,
        })
    }

    /// Locks the shard of a hash, and restores it first if no thread has since a crash.
    #[inline(always)]
    fn hold(&self, hash: u64) -> ShardGuard<'_> {
        let shard = self.shards.of(hash);
        let mut held = ShardGuard { shard, descriptor: shard.lock() };
        if M::IS_DURABLE && held.descriptor.is_unrestored() {
            self.restore(&mut held, hash);
        }
        held
    }

    /// Runs a change to a shard under its lock. The change gets the lowest hash of the shard.
    fn change_shard<R>(
        &self,
        number: usize,
        change: impl FnOnce(&mut ShardGuard<'_>, u64) -> R,
    ) -> R {
        let hash = (number as u64) << (64 - self.shards.bits);
        let _pin = self.cut.enter();
        let mut held = self.hold(hash);
        self.copy_before_change(&held, hash);
        change(&mut held, hash)
    }

    /// Runs a change to a shard under its lock, as [`change_shard`](Self::change_shard) does, with
    /// the hashes of its keys. The caller's hasher computes them while the thread holds no lock.
    /// This includes the lock that keeps snapshots out, since the hasher may take a snapshot.
    fn change_hashed<'t, R>(
        &'t self,
        number: usize,
        mut exclusive: Option<&mut Exclusive<'t>>,
        mut change: impl FnMut(&mut ShardGuard<'_>, u64, &Rehashed) -> R,
    ) -> R {
        let mut hashes = Rehashed::default();
        loop {
            let changed = self.change_shard(number, |held, hash| {
                let is_hashed = self.is_hashed(held, hash, &mut hashes);
                is_hashed.then(|| change(held, hash, &hashes))
            });
            match changed {
                Some(result) => return result,
                None => {
                    exclusive.iter_mut().for_each(|held| **held = None);
                    hashes.learn(&self.codec);
                    exclusive.iter_mut().for_each(|held| **held = Some(self.exclusive.lock()));
                }
            }
        }
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Guards for Table<P, M, L> {
    fn registry(&self) -> &Registry {
        &self.registry
    }
}
