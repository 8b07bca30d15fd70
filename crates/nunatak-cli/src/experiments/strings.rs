//! What is measured of maps of byte strings: the maps, and the request to the process of each row.

use super::phases::{Phases, Rows};
use crate::process;
use crate::settings::Settings;
use crate::threads::CheckFailed;
use serde::{Deserialize, Serialize};

/// The request to a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(super) phases: Phases,
    pub(super) items: u64,
    pub(super) seed: u64,
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
    /// Measure YCSB instead of the phases.
    pub(super) is_ycsb: bool,
}

impl process::Request for Request {
    const KIND: &str = "Blobs";
    type Answer = Vec<Option<f64>>;
}

/// Returns the rows of all maps.
pub(super) fn rows(settings: &Settings, is_ycsb: bool) -> Result<Rows<Request>, CheckFailed> {
    let options = &settings.options.blobs;
    let request = |phases| Request {
        phases,
        items: settings.items,
        seed: settings.seed,
        key_bytes: options.blobs_key_bytes,
        value_bytes: options.blobs_value_bytes,
        is_ycsb,
    };
    let phases = Phases::of_maps(settings, &MAPS)?;
    Ok(phases.into_iter().map(|phases| (phases.at(), request(phases))).collect())
}

/// The maps of byte strings.
const MAPS: [&str; 5] = ["turbo", "turbo-file", "dashmap", "papaya", "scc"];
