//! Experiments beside the workloads. They vary a parameter, use a map that only this project has or
//! other keys and values, or run an application.

mod access;
#[cfg(durable)]
pub(crate) mod accounting;
#[cfg(durable)]
pub(crate) mod after_kill;
pub(crate) mod blobs;
pub(crate) mod duplicates;
mod features;
pub(crate) mod growth;
mod join;
mod load;
mod local;
mod locks;
mod measure;
mod occupancy;
mod oltp;
pub(crate) mod options;
mod phases;
mod power;
mod probes;
mod remote;
mod sizes;
pub(crate) mod strings;
mod subjects;
mod sweeps;
mod timeline;
mod turns;
mod window;
mod ycsb_blobs;

use crate::experiment::choice::Experiment;
use crate::experiment::figure::Figure;
use crate::named::Named as _;
use crate::settings::Settings;
use crate::threads::CheckFailed;

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
            Self::Tatp => oltp::tatp::run,
            Self::Smallbank => oltp::smallbank::run,
            Self::HashJoin => join::run,
            Self::RemoteMemory => remote::run,
            Self::Power => power::run,
            Self::Occupancy => occupancy::run,
            Self::Window => window::run,
            Self::Access => access::run,
            Self::Blobs => blobs::run,
            Self::YcsbBlobs => ycsb_blobs::run,
            #[cfg(durable)]
            Self::Accounting => accounting::run,
            #[cfg(durable)]
            Self::AfterKill => after_kill::run,
            Self::Duplicates => return Ok(self.named(duplicates::run(settings)?)),
            Self::Growth => return Ok(self.named(growth::run(settings)?)),
            Self::Probes => return Ok(self.named(probes::run(settings)?)),
        };
        Ok(self.named(vec![run(settings)?]))
    }

    fn named(self, mut figures: Vec<Figure>) -> Vec<Figure> {
        figures.iter_mut().for_each(|figure| figure.experiment = self.name());
        figures
    }
}
