//! What a run measures, after defaults are filled in.

use crate::experiments::{Experiment, Options};
use crate::keys::{Indices, KeySpace, Random, ZipfSamples};
use crate::targets::MapName;
use crate::workloads::Workload;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Which keys there are and which of them are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum KeyOrder {
    /// Keys are random 64-bit numbers, all asked for equally often.
    Uniform,
    /// Keys are 0, 1, 2, …, all asked for equally often.
    Sequential,
    /// Keys are random 64-bit numbers; a few are asked for most of the time.
    Zipf,
}

/// How popular the keys of a workload are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Popularity {
    Uniform,
    Zipf,
}

/// All parameters of a run.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) workloads: Vec<Workload>,
    pub(crate) experiments: Vec<Experiment>,
    pub(crate) options: Options,
    pub(crate) maps: Vec<MapName>,
    pub(crate) items: u64,
    pub(crate) threads: Vec<usize>,
    pub(crate) repetitions: usize,
    pub(crate) batch: usize,
    pub(crate) seed: u64,
    pub(crate) keys: KeyOrder,
    /// How long a measurement that has no natural end takes.
    pub(crate) time: Duration,
    /// How large the probe's mapping is at least.
    pub(crate) probe_bytes: usize,
    pub(crate) text: Vec<PathBuf>,
}

impl Settings {
    pub(crate) fn popularity(&self) -> Popularity {
        match self.keys {
            KeyOrder::Zipf => Popularity::Zipf,
            KeyOrder::Uniform | KeyOrder::Sequential => Popularity::Uniform,
        }
    }

    /// How large the probe's mapping is: about what a map of these items takes.
    pub(crate) fn probe_size(&self) -> usize {
        const BYTES_PER_ITEM: usize = 32;
        (self.items as usize * BYTES_PER_ITEM).max(self.probe_bytes).next_power_of_two()
    }
}

/// What the workloads on numbers need: the settings, and what is derived from
/// them once.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) keys: KeySpace,
    zipf: ZipfSamples,
    repetition: u64,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(settings: &'a Settings) -> Self {
        Self {
            settings,
            keys: KeySpace::new(settings.seed, settings.keys == KeyOrder::Sequential),
            zipf: ZipfSamples::new(settings.items, settings.seed),
            repetition: 0,
        }
    }

    /// Lets the following measurements draw other random numbers. All maps see
    /// the same numbers in one repetition.
    pub(crate) fn start_repetition(&mut self, repetition: usize) {
        self.repetition = repetition as u64;
    }

    fn seed(&self, thread: usize) -> u64 {
        self.settings.seed ^ (self.repetition << 32) ^ ((thread as u64 + 1) << 16)
    }

    pub(crate) fn random(&self, thread: usize) -> Random {
        Random::new(!self.seed(thread))
    }

    pub(crate) fn indices(&self, thread: usize, popularity: Popularity) -> Indices<'_> {
        self.indices_of(self.settings.items, thread, popularity)
    }

    /// Indices below a number of items of its own, unless some are popular.
    pub(crate) fn indices_of(
        &self,
        items: u64,
        thread: usize,
        popularity: Popularity,
    ) -> Indices<'_> {
        match popularity {
            Popularity::Uniform => Indices::uniform(items, self.seed(thread)),
            Popularity::Zipf => Indices::zipf(&self.zipf, self.seed(thread)),
        }
    }
}
