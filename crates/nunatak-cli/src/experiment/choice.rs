//! The experiments that a user chooses from.

use crate::named::Named as _;
use clap::ValueEnum;

/// An experiment that the user can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Experiment {
    /// Gets, gets that read, and inserts with deletes, by the size of values.
    ValueSize,
    /// The same by the size of keys.
    KeySize,
    /// Gets and inserts with deletes, by the size of the index.
    IndexSize,
    /// The same by the size of batches.
    BatchSize,
    /// The same by the share of accesses that go to a thousand hot keys.
    Skew,
    /// The cost of each feature, one at a time and stacked.
    Features,
    /// Gets and inserts over time, while the index grows.
    Timeline,
    /// Latency by load.
    Load,
    /// A map of one thread against a shared map.
    SingleThread,
    /// Locks and unlocks of records, without and with contention; refused locks do not count.
    LockManager,
    /// Telecom transactions, which mostly read.
    Tatp,
    /// Bank transactions, which mostly write.
    Smallbank,
    /// A hash join of two relations in memory; the second has 16 tuples for each item.
    HashJoin,
    /// Gets from memory that is farther away.
    RemoteMemory,
    /// Gets for each joule.
    Power,
    /// How full the index is when it grows.
    Occupancy,
    /// How far the processor runs ahead of a read: the limit of unbatched operations.
    Window,
    /// Random and sequential accesses to memory, in groups of 64 bytes to 4 KiB.
    Access,
    /// Single operations while a map grows, its slow inserts, and the resizes that it counts.
    Growth,
    /// How many buckets of TurboHash a search looks at, by scope and by load, and how long it takes.
    Probes,
    /// Inserts, lookups, updates and deletes of byte strings.
    Blobs,
    /// YCSB with byte strings as keys and values, of the sizes that blobs has.
    YcsbBlobs,
    /// Inserts, searches and removals of keys with many values.
    Duplicates,
    /// Cache lines and blocks that operations of durable maps read, write and flush.
    #[cfg(durable)]
    Accounting,
    /// Opening a map whose process was killed while it inserted.
    #[cfg(durable)]
    AfterKill,
}

impl Experiment {
    /// Returns an error that says what the build needs, if experiments are not in this one.
    pub(crate) fn in_this_build() -> Result<(), String> {
        if cfg!(feature = "experiments") {
            return Ok(());
        }
        Err("experiments are not in this build: build with --features experiments".to_owned())
    }

    /// Whether an option of the command line is one of this experiment's: all of them begin with its name.
    pub(crate) fn has_option(self, option: &str) -> bool {
        let behind = option.strip_prefix("--").and_then(|name| name.strip_prefix(&*self.name()));
        behind.is_some_and(|behind| behind.starts_with('-'))
    }
}
