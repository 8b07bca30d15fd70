//! Pea Hash (Liu and Chen, SIGMOD '23), in RAM: extendible hashing. The fuller a segment is, the
//! more places its keys may be in.
//!
//! # The picture
//! The [directory](directory) names a segment for each value of a hash's highest bits. A
//! [segment](segments) is a table of [buckets](crate::table::shared::bucket) of 256 bytes. In a new
//! segment a key has one bucket. When this bucket is full, the segment's
//! [strategy](geometry::Strategy) becomes two choices, then a stash of two more buckets. After that
//! the segment is split into four. Of these steps only the split moves pairs.
//!
//! # Where to look
//! | modules | contents |
//! |---|---|
//! | `find`, `apply`, `batch` | operations on unique keys; [`locks`]: the two buckets of a key |
//! | `directory`, `segments`, `geometry` | where a key belongs; the memory of segments |
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
//! - *Get*: load the header of the first bucket, and each slot that matches, by one load of both
//!   words. Look into the second bucket, the stash and the chains only if a flag of the first
//!   bucket says so. The answer counts if the directory's entry is unchanged. A get writes nothing
//!   and waits for no other thread, unless it must look into the chains, which are under locks.
//! - *Changes* hold the lock of the key's first bucket all the time. After locking it they read the
//!   entry again: if it has changed, the segment may not be the key's any more. They lock another
//!   bucket while they store or remove a pair there.
//! - *Split*: lock all buckets, store all pairs in four new segments, then change the entries.
//!   Readers go on in the old segment, which stays as it is until no thread can know it.
//!
//! The paper locks 256 buckets at once, and validates readers by bitmaps and fingerprints, in
//! separate loads. Its readers look wherever the strategy allows. The flags here are more precise:
//! a miss looks into the second bucket only if a neighbour of the key is there.
//!
//! # Invariants
//! 1. The invariants of [`bucket`](crate::table::shared::bucket), [`segments`] and [`directory`].
//! 2. The lock of a first bucket is good for changes to a key only if the entry read after the
//!    locking is the entry that gave the bucket.
//! 3. Locks are taken in this order: buckets of a segment (ascending, stash last), or a bucket
//!    against the order if its lock is free; the structure's lock; a shard of chains. No code of
//!    the caller's runs under a lock.
//! 4. Pairs are stored in a segment that the directory names, or in a new segment that no other
//!    thread knows.

mod apply;
mod batch;
mod design;
mod directory;
mod durable;
mod find;
mod geometry;
mod growing;
mod iterate;
mod locks;
mod multi;
#[cfg(durable)]
mod recovery;
#[cfg(durable)]
mod salvage;
mod segments;
mod snapshot;
mod split;
mod stats;
#[cfg(all(test, not(modelled)))]
mod tests;
mod two_choice;
#[cfg(durable)]
mod verify;

#[cfg(modelled)]
pub use design::CheckedPea;
pub use design::Pea;
pub use geometry::Strategy;
pub use multi::PeaMultiStats;
pub(crate) use multi::build as build_multi;
pub(crate) use multi::{MultiMedium, MultiTable};
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
use crate::table::shared::room::Room;
#[cfg(durable)]
use crate::table::shared::undo_log::UndoLog;
use crate::table::stages::Guards;
use directory::{Directories, Found};
use geometry::Strategy as S;
use multi::Duplicates;
use segments::{Counts, Segments};
use std::sync::Arc;

/// The constants that the paper varies.
#[derive(Debug, Clone)]
pub struct Config {
    /// Buckets of a segment: a power of two. The paper has 2048, which are 512 KiB.
    pub(crate) buckets: usize,
    /// The strategies that a segment goes through. Each contains the one before.
    pub(crate) strategies: Vec<Strategy>,
    /// The number of segments that a split makes: two or four.
    pub(crate) split_into: usize,
    /// Whether the table grows by itself.
    pub(crate) room: Room,
    /// Whether a key may have several values.
    pub(crate) duplicates: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            buckets: if cfg!(modelled) { 2 } else { 2048 },
            strategies: vec![S::Single, S::TwoChoice, S::Stash],
            split_into: 4,
            room: Room::default(),
            duplicates: false,
        }
    }
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Self { buckets, strategies, split_into, .. } = self;
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

/// The loads that a capacity is planned for, by the last strategy. The strategies hold 0.389, 0.874
/// and 0.921 (`tests.rs`).
const FILLED: [f64; 3] = [0.36, 0.84, 0.89];

impl Config {
    /// Returns how many segments a capacity needs, of buckets of `slots` slots: as few as the last
    /// strategy fills. A table in a file has room for single hashing, since there each bucket more
    /// that a lookup looks at may be a page more.
    fn segments_for(&self, pairs: usize, slots: usize, is_in_file: bool) -> f64 {
        let all = (self.buckets * slots) as f64;
        let last = self.strategies.last().map_or(0, |&last| last as usize);
        let pairs_of_segment = match last {
            0 => all * FILLED[0],
            _ if is_in_file => all * FILLED[0],
            // Some segments get more than others: the mean and four deviations fit. In very small
            // segments single hashing may hold more than that.
            last => ((4.0 + all * FILLED[last]).sqrt() - 2.0).powi(2).max(all * FILLED[0]),
        };
        (pairs as f64 / pairs_of_segment).ceil()
    }
}

/// The table: pairs of words, found by the first word.
#[derive(Debug)]
pub struct Table<P: HashCodec, M: Medium = Heap, L: Layout = Bucket> {
    medium: M,
    directories: Directories,
    segments: Segments<M, L>,
    codec: P,
    registry: Arc<Registry>,
    chains: Chains<M>,
    decoder: Decoder,
    config: Config,
    /// For tables in which keys may have several values.
    duplicates: Option<Duplicates<M>>,
    /// The smallest depth of the directory.
    least_depth: u32,
    pairs_load_whole: bool,
    /// The requests that no thread changes anything, and the snapshot that is being taken.
    cut: Cut,
    /// The thread that takes a snapshot or merges holds this lock.
    exclusive: Mutex<()>,
    splits: Counts,
    restoring: RecoveryProgress,
    /// Learns what slots name, if the file did not say so when the table was opened.
    #[cfg(durable)]
    finder: Option<std::sync::Arc<dyn crate::memory::Finder>>,
    /// For batches that are atomic, of unique keys in a file.
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
        let segments = config.segments_for(capacity, L::SLOTS, M::IS_DURABLE).max(2.0);
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
                let segment = fresh.number as usize;
                table.segments.make_stash_writable(segment)?;
                table.note_half(segment, hash);
                table.medium.flush(table.segments.stash(segment)[0], 1);
                table.segments.make_descriptor_writable(segment)?;
                table.describe(fresh, hash, depth);
            }
            let structure = table.directories.change();
            structure.current().publish(hash, fresh.entry(depth, strategy));
        }
        table.medium.fence();
        Ok(table)
    }

    /// Makes the parts of a table. The medium may hold data; the directory names no segment yet.
    fn within(medium: M, codec: P, config: Config, depth: u32) -> Result<Self, Error> {
        const { assert!(L::IS_DURABLE || !M::IS_DURABLE, "the layout is made for RAM") };
        if !double_word_cas_is_lock_free() {
            return Err(Error::NoDoubleWordCas);
        }
        let duplicates = || Duplicates::new(&medium, config.buckets);
        let duplicates = config.duplicates.then(duplicates).transpose()?;
        let segments = Segments::new(&medium, config.buckets, config.duplicates)?;
        segments.check_depth(depth)?;
        #[cfg(durable)]
        let undo = M::IS_DURABLE && duplicates.is_none();
        #[cfg(durable)]
        let undo = undo.then(|| UndoLog::new(&medium)).transpose()?;
        Ok(Self {
            directories: Directories::new(depth)?,
            segments,
            decoder: codec.decoder(),
            codec,
            registry: Arc::new(Registry::new()),
            chains: Chains::new(&medium)?,
            duplicates,
            config,
            least_depth: 1,
            pairs_load_whole: pairs_load_whole(),
            cut: Cut::default(),
            exclusive: Mutex::new(()),
            splits: Counts::default(),
            restoring: RecoveryProgress::default(),
            #[cfg(durable)]
            finder: None,
            #[cfg(durable)]
            undo,
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

    /// Returns the number of a segment's last bucket.
    #[inline(always)]
    fn mask(&self) -> usize {
        self.segments.per_segment - 1
    }

    /// Returns how slots of the table mark pointers.
    #[inline(always)]
    fn marking(&self) -> Marking {
        match (M::IS_DURABLE, self.duplicates.is_some()) {
            (true, true) => Marking::Tag,
            (true, false) => Marking::Absent,
            (false, _) => Marking::Place,
        }
    }

    /// Visits each segment that the directory names once, with the lowest hash of its keys.
    /// Restores all segments first.
    fn each_segment(&self, visit: impl FnMut(u64, geometry::Entry)) {
        if M::IS_DURABLE {
            self.restore_all();
        }
        self.each_entry(visit);
    }

    /// Does the same as [`each_segment`](Self::each_segment), but restores nothing.
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
