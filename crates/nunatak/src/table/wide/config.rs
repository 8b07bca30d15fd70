//! The constants of a table.

use super::bins::Bins;
use super::blocks;
use super::layout::Entry;
use crate::error::Error;
use crate::table::dlht::sizes::{bins_for, growth_factor};
use crate::table::shared::room::Room;
use crate::table::{dlht, iceberg};
use std::sync::LazyLock;

/// The share of the slots that IcebergHT's entries take by default before a table grows.
const MAX_LOAD: f64 = 0.91;

/// The constants of a table.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Bins of the first index; a larger capacity overrides it.
    pub(super) initial_bins: usize,
    /// The entries that are planned for a bin when the caller names a capacity.
    pub(super) planned: f64,
    /// By how many times its square root the number of bins for a capacity is rounded up.
    slack: f64,
    /// With so many entries a bin the table grows: at once, or when it has no more bins for links. An index that is out
    /// of these with fewer has lost them to removed keys, or to keys that collide.
    pub(super) full: f64,
    /// The bins for links, for each bin, with which an index begins.
    pub(super) links: f64,
    /// The factor by which growth multiplies the bins; `None` chooses it by size.
    growth_factor: Option<usize>,
    /// How many bins a thread moves before it continues its own work.
    pub(super) chunk_bins: usize,
    /// Whether the table grows by itself.
    pub(super) room: Room,
}

impl Config {
    /// The constants of a table with DLHT's bins.
    pub(crate) fn of_bins<E: Entry>(config: &dlht::Config) -> Self {
        let planned = Bins::<E>::PLANNED;
        Self {
            initial_bins: config.initial_bins,
            planned,
            // As in DLHT.
            slack: 2.0,
            // Random hashes use all links at 1.2 entries a bin of two slots.
            full: 1.1 * planned,
            links: 1.0 / config.bins_per_link as f64,
            growth_factor: config.growth_factor,
            chunk_bins: config.chunk_bins,
            room: config.room,
        }
    }

    /// The constants of a table with IcebergHT's blocks that grows when this share of its slots is taken.
    pub(crate) fn of_blocks(config: &iceberg::Config) -> Self {
        let iceberg::Config { max_load, room, .. } = *config;
        static USUAL: LazyLock<blocks::Fill> = LazyLock::new(|| blocks::Fill::at(MAX_LOAD));
        let fill = if max_load == MAX_LOAD { *USUAL } else { blocks::Fill::at(max_load) };
        Self {
            initial_bins: 2,
            planned: fill.entries,
            slack: 0.0,
            full: fill.entries,
            // The number varies: by a tenth in an index of a hundred blocks.
            links: 1.1 * fill.links,
            growth_factor: Some(2),
            // Some 3,000 entries.
            chunk_bins: 64,
            room,
        }
    }

    /// Returns how many bins an index for so many entries has.
    pub(super) fn bins_for(&self, entries: usize) -> Result<usize, Error> {
        bins_for(entries, self.planned, self.slack)
    }

    pub(super) fn growth_factor_of(&self, bins: usize) -> usize {
        self.growth_factor.unwrap_or(growth_factor(bins))
    }
}
