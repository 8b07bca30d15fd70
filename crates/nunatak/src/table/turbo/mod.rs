//! TurboHash: many small tables, in each of which a key is in its bucket or in one of the
//! next ones, and a search ends where no key has gone on (Zhao et al., SYSTOR '23), in RAM.
//!
//! # The picture
//! The highest bits of a hash tell its [shard](shards), the next ones its bucket in the
//! shard's [extent](crate::memory::BuddyExtent) of buckets. A key is stored in the first free slot from there on, in
//! its scope of sixteen buckets. When there is none, the shard's pairs are [stored
//! anew](rehash) in twice as many buckets; so who inserts waits for one shard at most.
//!
//! # The protocol
//! **A key is present exactly while a slot of its scope, in the extent that its shard's
//! descriptor names, holds its tag, or its chain holds it.** Fingerprints are hints that
//! never miss it.
//!
//! - *Get*: the header of the first bucket; each slot that matches; the next bucket only
//!   if the header's flag says that some key has gone on behind it. What was found counts
//!   if the descriptor is what it was. It writes nothing and waits for nobody.
//! - *Changes* hold the shard's lock, which is a bit of its descriptor: one locked
//!   instruction, on a line that is in the cache.
//! - *Rehash*: all pairs are stored in an extent that nobody else knows; then the descriptor
//!   is changed. Readers go on in the extent before, which stays as it is until nobody can
//!   know it.
//!
//! The paper ends a search at a bucket two slots of which were never used, whether or not
//! any key has gone on behind a full one, and keeps one slot of each bucket free for
//! updates. Here the flag ends it earlier, a slot that was freed where no search goes on is
//! as new, and a value is one word, which is replaced where it is, atomically for readers
//! and for a power cut. What a table in a file does besides says [`durable`].
//!
//! # Invariants
//! 1. Those of the [buckets](crate::table::shared::bucket), [`shards`] and [`memory::runs`](crate::memory).
//! 2. Between the bucket of a key's hash and the one that it is in, all buckets have the
//!    flag [`PASSED`](find), which is set before the key is stored and stays as long as
//!    the extent is the shard's.
//! 3. Locks are taken in this order: one shard's (of a shard, never two); that of the runs;
//!    a shard of chains; that of a snapshot's pairs. No code of the caller runs under any.

mod apply;
mod batch;
mod design;
mod durable;
mod find;
mod geometry;
mod iterate;
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
mod recovery;
mod rehash;
mod shards;
mod snapshot;
mod stats;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
mod verify;

#[cfg(any(loom, shuttle))]
pub use design::CheckedTurbo;
pub use design::Turbo;
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
use crate::table::stages::Guards;
use apply::ShardGuard;
use geometry::MOST_SHARDS;
use shards::Shards;

/// The constants that the paper varies.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// How many shards: a power of two, or as many as the capacity suggests.
    pub(crate) shards: Option<usize>,
    /// In how many buckets a key may be.
    pub(crate) scope: usize,
    /// Which share of a shard's slots may be free in buckets that searches go on behind,
    /// before the shard is cleared of them.
    pub(crate) tombstones: f64,
    /// The logarithm of the buckets that a shard has first, which follows from the
    /// capacity.
    first_size: u32,
}

impl Default for Config {
    fn default() -> Self {
        let scope = if cfg!(any(loom, shuttle)) { 2 } else { 16 };
        Self { shards: None, scope, tombstones: 0.1, first_size: 0 }
    }
}

/// How many shards a table has of which nobody says anything.
const SHARDS: usize = if cfg!(any(loom, shuttle)) { 2 } else { 1024 };

/// How many one for a small or a large capacity has, all of which have buckets.
const FEW_SHARDS: usize = if cfg!(any(loom, shuttle)) { 2 } else { 256 };
const MANY_SHARDS: usize = 1 << 14;

/// For how many pairs of its capacity a table has a shard.
const PER_SHARD: usize = 4096;

impl Config {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let invalid = |option, expected| Err(Error::InvalidOption { option, expected });
        let Self { shards, scope, tombstones, first_size: _ } = self;
        if shards.is_some_and(|n| !(2..=MOST_SHARDS).contains(&n) || !n.is_power_of_two()) {
            return invalid("shards", "a power of two from 2 to 1,048,576");
        }
        if !(1..=1 << 12).contains(scope) {
            return invalid("scope", "from 1 to 4096");
        }
        // Also of what is not a number.
        if !(0.01..=1.0).contains(tombstones) {
            return invalid("tombstones", "a share from 0.01 to 1");
        }
        Ok(())
    }

    /// What a table for so many pairs has, in buckets of so many slots; and how many shards.
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
            self.first_size = rehash::size_for(capacity, shards, slots)?;
        }
        Ok((self, shards))
    }
}

/// The lock that keeps snapshots out, which is let go while the caller's hasher is asked.
type Exclusive<'t> = Option<MutexGuard<'t, ()>>;

/// The table: pairs of words, found by the first.
#[derive(Debug)]
pub struct Table<P: HashCodec, M: Medium = Heap, L: Layout = Bucket> {
    medium: M,
    shards: Shards<M, L>,
    codec: P,
    registry: Registry,
    chains: Chains<M>,
    decoder: Decoder,
    config: Config,
    pairs_load_whole: bool,
    /// Who wants that nobody changes anything, and the snapshot that is being taken.
    cut: Cut,
    /// Held by who takes a snapshot or makes the table smaller.
    exclusive: Mutex<()>,
    happened: rehash::Happened,
    restoring: RecoveryProgress,
    /// Who is to know what slots name, if that was not known when the table was opened.
    #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
    finder: Option<std::sync::Arc<dyn crate::memory::Finder>>,
}

impl<P: HashCodec, L: Layout> Table<P, Heap, L> {
    pub(crate) fn new(codec: P, config: Config, capacity: usize) -> Result<Self, Error> {
        Self::new_in(Heap, codec, config, capacity)
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// A table in a medium that holds nothing.
    pub(crate) fn new_in(
        medium: M,
        codec: P,
        config: Config,
        capacity: usize,
    ) -> Result<Self, Error> {
        let (config, shards) = config.made_for(capacity, L::SLOTS)?;
        let table = Self::within(medium, codec, config, shards)?;
        table.shards.make_descriptors()?;
        if capacity > 0 {
            table.reserve(capacity)?;
        }
        Ok(table)
    }

    /// A table of so many shards of which a medium may hold something.
    fn within(medium: M, codec: P, config: Config, shards: usize) -> Result<Self, Error> {
        const { assert!(L::IS_DURABLE || !M::IS_DURABLE, "the layout is made for RAM") };
        if !double_word_cas_is_lock_free() {
            return Err(Error::NoDoubleWordCas);
        }
        Ok(Self {
            shards: Shards::new(&medium, shards)?,
            decoder: codec.decoder(),
            codec,
            registry: Registry::new(),
            chains: Chains::new(&medium)?,
            config,
            pairs_load_whole: pairs_load_whole(),
            cut: Cut::default(),
            exclusive: Mutex::new(()),
            happened: rehash::Happened::default(),
            restoring: RecoveryProgress::default(),
            #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
            finder: None,
            medium,
        })
    }

    /// Keeps everybody from changing the shard of a hash, all of which is known then.
    #[inline(always)]
    fn hold(&self, hash: u64) -> ShardGuard<'_> {
        let shard = self.shards.of(hash);
        let mut held = ShardGuard { shard, descriptor: shard.lock() };
        if M::IS_DURABLE && held.descriptor.is_unrestored() {
            self.restore(&mut held, hash);
        }
        held
    }

    /// Runs a change to a shard, of which it is told some hash, under its lock.
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

    /// The same with the hashes of its keys, which are asked for while nothing is held, nor
    /// the lock that keeps snapshots out: the caller's hasher may take one.
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
