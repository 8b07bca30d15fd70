//! Experiments beside the workloads. They vary a parameter, use a map that only this project has or
//! other keys and values, or run an application.

#[cfg(durable)]
pub(crate) mod accounting;
pub(crate) mod blobs;
pub(crate) mod duplicates;
mod features;
pub(crate) mod figure;
pub(crate) mod growth;
mod join;
mod load;
mod local;
mod locks;
mod measure;
mod occupancy;
mod oltp;
mod phases;
mod power;
mod remote;
mod sizes;
mod subjects;
mod sweeps;
mod timeline;
mod turns;
mod window;

use crate::named::Named as _;
use crate::settings::Settings;
use crate::threads::CheckFailed;
use clap::{Args, ValueEnum};
use figure::Figure;

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
    /// Locks and unlocks of records.
    LockManager,
    /// Telecom transactions, which mostly read.
    Tatp,
    /// Bank transactions, which mostly write.
    Smallbank,
    /// A hash join of two relations.
    HashJoin,
    /// Gets from memory that is farther away.
    RemoteMemory,
    /// Gets for each joule.
    Power,
    /// How full the index is when it grows.
    Occupancy,
    /// How far the processor runs ahead of a read: the limit of unbatched operations.
    Window,
    /// Single operations while a map grows, and its resizes.
    Growth,
    /// Inserts, lookups, updates and deletes of byte strings.
    Blobs,
    /// Inserts, searches and removals of keys with many values.
    Duplicates,
    /// Cache lines and blocks that operations of durable maps read, write and flush.
    #[cfg(durable)]
    Accounting,
}

/// The options that belong to one experiment each.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) growth: growth::GrowthOptions,
    #[command(flatten)]
    pub(crate) blobs: blobs::BlobsOptions,
    #[command(flatten)]
    pub(crate) duplicates: duplicates::DuplicatesOptions,
    #[cfg(durable)]
    #[command(flatten)]
    pub(crate) accounting: accounting::AccountingOptions,
}

impl Experiment {
    /// Runs the experiment.
    pub(crate) fn run(self, settings: &Settings) -> Result<Vec<Figure>, CheckFailed> {
        let run = match self {
            Self::ValueSize => sizes::by_value,
            Self::KeySize => sizes::by_key,
            Self::IndexSize => sweeps::by_index,
            Self::BatchSize => sweeps::by_batch,
            Self::Skew => sweeps::by_skew,
            Self::Features => features::run,
            Self::Timeline => timeline::run,
            Self::Load => load::run,
            Self::SingleThread => local::run,
            Self::LockManager => locks::run,
            Self::Tatp => oltp::tatp,
            Self::Smallbank => oltp::smallbank,
            Self::HashJoin => join::run,
            Self::RemoteMemory => remote::run,
            Self::Power => power::run,
            Self::Occupancy => occupancy::run,
            Self::Window => window::run,
            Self::Blobs => blobs::run,
            Self::Duplicates => duplicates::run,
            #[cfg(durable)]
            Self::Accounting => accounting::run,
            Self::Growth => return Ok(self.named(growth::run(settings)?)),
        };
        Ok(self.named(vec![run(settings)?]))
    }

    fn named(self, mut figures: Vec<Figure>) -> Vec<Figure> {
        figures.iter_mut().for_each(|figure| figure.experiment = self.name());
        figures
    }
}
