//! The settings of a run, after defaults are filled in.

use crate::experiment::choice::Experiment;
#[cfg(feature = "experiments")]
use crate::experiments::options::Options;
use crate::keys::{Indices, KeySpace, Popularity, Random, ZipfSamples};
use crate::medium::Medium;
use crate::targets::MapName;
use crate::workloads::Workload;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Which keys exist, and how often each is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum KeyOrder {
    /// Keys are random 64-bit numbers, all looked up equally often.
    Uniform,
    /// Keys are 0, 1, 2, …, all looked up equally often.
    Sequential,
    /// Keys are random 64-bit numbers; a few are looked up most of the time.
    Zipf,
}

/// All parameters of a run.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) workloads: Vec<Workload>,
    pub(crate) experiments: Vec<Experiment>,
    #[cfg(feature = "experiments")]
    pub(crate) options: Options,
    pub(crate) medium: Medium,
    pub(crate) maps: Vec<MapName>,
    pub(crate) items: u64,
    pub(crate) threads: Vec<usize>,
    pub(crate) repetitions: usize,
    pub(crate) batch: usize,
    pub(crate) seed: u64,
    pub(crate) keys: KeyOrder,
    /// How long to measure a workload that has no natural end.
    pub(crate) time: Duration,
    /// The least size of the probe's mapping.
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

    /// Returns the size of the probe's mapping: about that of a map of these items.
    pub(crate) fn probe_size(&self) -> usize {
        const BYTES_PER_ITEM: usize = 32;
        (self.items as usize * BYTES_PER_ITEM).max(self.probe_bytes).next_power_of_two()
    }
}

/// The settings, and the values that the workloads on numbers derive from them once.
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

    /// Makes the following measurements draw other random numbers. In one repetition all maps see
    /// the same numbers.
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

    /// Returns indices below `items`, or below the number of all items if their popularity is
    /// Zipf's.
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
