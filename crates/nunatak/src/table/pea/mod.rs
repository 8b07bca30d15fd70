//! Pea Hash: extendible hashing whose segments handle collisions the more thoroughly
//! the fuller they are (Liu and Chen, SIGMOD '23), in RAM.
//!
//! # The picture
//! The [directory](directory) names a segment for each value of a hash's highest bits.
//! A [segment](segments) is a table of [buckets](crate::table::shared::bucket) of 256 bytes. In a new one a
//! key has one bucket; when that is full, the segment's [strategy](geometry::Strategy)
//! becomes two choices, then a stash of two more buckets, and then the segment is split
//! into four. No pair is moved for that but by the split.
//!
//! # Where to look
//! | rooms | what they have |
//! |---|---|
//! | `find`, `apply`, `batch` | operations on unique keys; [`locks`]: the two buckets of a key |
//! | `directory`, `segments`, `geometry` | where a key belongs; the memory of it |
//! | `split` | splits and merges of segments |
//! | `iterate`, `snapshot`, `stats` | all pairs; figures |
//! | `durable`, `recovery`, `verify` | tables in files |
//! | [`multi`] | keys of many values: their operations, locks, value buffers, versions and log |
//!
//! # The protocol
//! **A key is present exactly while a slot of one of its buckets, in the segment that
//! the directory names, holds its tag, or its chain holds it.** Fingerprints are hints
//! that never miss it.
//!
//! - *Get*: the header of the first bucket; each slot that matches, by one load of both
//!   words; the second bucket, the stash and the chains only if a flag of the first
//!   bucket says that a key of it may be there. What was found counts if the directory's
//!   entry is what it was. It writes nothing and waits for nobody.
//! - *Changes* hold the lock of the key's first bucket for their whole length, and that
//!   of another bucket while they change it. Each lock is followed by a look at the
//!   entry: if that has changed, the segment may not be the key's any more.
//! - *Split*: all buckets are locked; all pairs are stored in four new segments; then
//!   the entries are changed. Readers go on in the old segment, which stays as it is
//!   until nobody can know it.
//!
//! The paper locks 256 buckets at once, validates readers by bitmaps and fingerprints
//! that are loaded one after the other, and asks the strategy for where to look. Flags
//! in the first bucket's header tell more with less: a miss of a key looks into its
//! second bucket only if one of its neighbours is there.
//!
//! # Invariants
//! 1. Those of [`bucket`](crate::table::shared::bucket), [`segments`] and [`directory`].
//! 2. A lock of a first bucket is good for changes to a key only if the entry read after
//!    the locking is the one by which the bucket was computed.
//! 3. Locks are taken in this order: buckets of a segment (ascending, stash last), or a
//!    bucket against the order if it is to be had at once; the structure's lock; a shard
//!    of chains. No code of the caller runs under any.
//! 4. Pairs are stored in a segment that the directory names, or in a new one that
//!    nobody else knows.

mod apply;
mod batch;
mod design;
mod directory;
mod durable;
mod find;
mod geometry;
mod iterate;
mod locks;
mod multi;
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
mod recovery;
mod segments;
mod snapshot;
mod split;
mod stats;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
mod verify;

#[cfg(any(loom, shuttle))]
pub use design::CheckedPea;
pub use design::Pea;
pub use geometry::Strategy;
pub use multi::PeaMultiStats;
pub use stats::PeaStats;

pub use crate::table::shared::bucket::{Entry8, Entry12, Entry16, EntrySize};

use crate::error::Error;
use crate::hash::{Decoder, HashCodec};
use crate::memory::{Heap, Medium};
use crate::sync::{Mutex, Registry, double_word_cas_is_lock_free, pairs_load_whole};
use crate::table::shared::bucket::{Bucket, Layout, Marking};
use crate::table::shared::chains::Chains;
use crate::table::shared::cut::Cut;
use crate::table::shared::recovery_progress::RecoveryProgress;
use crate::table::stages::Guards;
use directory::{Directories, Found};
use geometry::Strategy as S;
use multi::Duplicates;
use segments::Segments;

/// The constants that the paper varies.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Buckets of a segment: a power of two. The paper: 2048, which are 512 KiB.
    pub(crate) buckets: usize,
    /// The strategies that a segment goes through, each containing the one before.
    pub(crate) strategies: Vec<Strategy>,
    /// Into how many segments one is split: two or four.
    pub(crate) split_into: usize,
    /// Whether a key may have more values than one.
    pub(crate) duplicates: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            buckets: if cfg!(any(loom, shuttle)) { 2 } else { 2048 },
            strategies: vec![S::Single, S::TwoChoice, S::Stash],
            split_into: 4,
            duplicates: false,
        }
    }
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Self { buckets, strategies, split_into, duplicates: _ } = self;
        let invalid = |option, expected| Err(Error::InvalidOption { option, expected });
        if !(2..=1 << 16).contains(buckets) || !buckets.is_power_of_two() {
            return invalid("segment_buckets", "a power of two from 2 to 65,536");
        }
        if strategies.is_empty() || !strategies.is_sorted_by(|a, b| a < b) {
            return invalid("strategies", "one or more, each once and in their order");
        }
        if ![2, 4].contains(split_into) {
            return invalid("split_into", "two or four");
        }
        Ok(())
    }
}

/// How full a table is that was made for so many pairs: single hashing holds them.
const FILLED: f64 = 0.36;

/// The table: pairs of words, found by the first.
#[derive(Debug)]
pub struct Table<P: HashCodec, M: Medium = Heap, L: Layout = Bucket> {
    medium: M,
    directories: Directories,
    segments: Segments<M, L>,
    codec: P,
    registry: Registry,
    chains: Chains<M>,
    decoder: Decoder,
    config: Config,
    /// Of a table in which keys may have many values.
    duplicates: Option<Duplicates<M>>,
    /// The depth that the table does not go below.
    least_depth: u32,
    pairs_load_whole: bool,
    /// Who wants that nobody changes anything, and the snapshot that is being taken.
    cut: Cut,
    /// Held by who takes a snapshot or merges.
    exclusive: Mutex<()>,
    splits: split::Counts,
    restoring: RecoveryProgress,
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
        let per_segment = (config.buckets * L::SLOTS) as f64;
        let segments = (capacity as f64 / (per_segment * FILLED)).ceil().max(2.0);
        if segments > (1_u64 << geometry::MOST_DEPTH) as f64 {
            return Err(Error::CapacityOverflow);
        }
        let depth = (segments as u64).next_power_of_two().ilog2();
        let table = Self::within(medium, codec, config, depth)?;
        let strategy = table.config.strategies[0];
        for place in 0..1_u64 << depth {
            let hash = place << (64 - depth);
            let fresh = table.segments.allocate()?;
            if M::IS_DURABLE {
                table.segments.make_descriptor_writable(fresh.number as usize)?;
                table.describe(fresh, hash, depth);
            }
            let structure = table.directories.change();
            structure.current().publish(hash, fresh.entry(depth, strategy));
        }
        table.medium.fence();
        Ok(table)
    }

    /// A table of what a medium holds, whose directory names nothing.
    fn within(medium: M, codec: P, config: Config, depth: u32) -> Result<Self, Error> {
        const { assert!(L::IS_DURABLE || !M::IS_DURABLE, "the layout is made for RAM") };
        if !double_word_cas_is_lock_free() {
            return Err(Error::NoDoubleWordCas);
        }
        let duplicates = || Duplicates::new(&medium, config.buckets);
        let duplicates = config.duplicates.then(duplicates).transpose()?;
        let segments = Segments::new(&medium, config.buckets, config.duplicates)?;
        segments.check_depth(depth)?;
        Ok(Self {
            directories: Directories::new(depth)?,
            segments,
            decoder: codec.decoder(),
            codec,
            registry: Registry::new(),
            chains: Chains::new(&medium)?,
            duplicates,
            config,
            least_depth: 1,
            pairs_load_whole: pairs_load_whole(),
            cut: Cut::default(),
            exclusive: Mutex::new(()),
            splits: split::Counts::default(),
            restoring: RecoveryProgress::default(),
            medium,
        })
    }

    #[inline(always)]
    fn locate(&self, hash: u64) -> Found<'_> {
        let mut found = self.directories.find(hash);
        while M::IS_DURABLE && found.entry.is_unrestored() {
            self.restore(found, hash);
            found = self.directories.find(hash);
        }
        found
    }

    /// The last bucket of a segment.
    #[inline(always)]
    fn mask(&self) -> usize {
        self.segments.per_segment - 1
    }

    /// How slots of the table say that they hold pointers, if any do.
    #[inline(always)]
    fn marking(&self) -> Marking {
        match M::IS_DURABLE && self.duplicates.is_some() {
            true => Marking::Tag,
            false => Marking::Place,
        }
    }

    /// The segments that the directory names, each once, with the highest bits of its
    /// keys.
    fn each_segment(&self, visit: impl FnMut(u64, geometry::Entry)) {
        if M::IS_DURABLE {
            self.restore_all();
        }
        self.each_entry(visit);
    }

    /// As [`each_segment`](Self::each_segment), looked at since a crash or not.
    fn each_entry(&self, mut visit: impl FnMut(u64, geometry::Entry)) {
        let mut hash = 0_u64;
        loop {
            let entry = self.directories.find(hash).entry;
            visit(hash, entry);
            let Some(next) = hash.checked_add(1 << (64 - entry.depth())) else { return };
            hash = next;
        }
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Guards for Table<P, M, L> {
    fn registry(&self) -> &Registry {
        &self.registry
    }
}
