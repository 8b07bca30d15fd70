//! The options of experiments on the command line.

use super::duplicates::pairs::checked;
use clap::{Args, value_parser};

/// The options that belong to one experiment each.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) growth: GrowthOptions,
    #[command(flatten)]
    pub(crate) blobs: BlobsOptions,
    #[command(flatten)]
    pub(crate) duplicates: DuplicatesOptions,
    #[cfg(durable)]
    #[command(flatten)]
    pub(crate) accounting: AccountingOptions,
    #[cfg(durable)]
    #[command(flatten)]
    pub(crate) after_kill: AfterKillOptions,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of growth")]
pub(crate) struct GrowthOptions {
    /// How many times the map stops growing to be measured.
    #[arg(long, value_name = "STEPS", default_value_t = 16, value_parser = value_parser!(u64).range(1..))]
    pub(super) growth_steps: u64,
    /// Operations of each kind to measure at each step.
    #[arg(long, value_name = "OPERATIONS", default_value_t = 10_000,
          value_parser = value_parser!(u64).range(1..))]
    pub(super) growth_operations: u64,
    /// Shortest insert that counts as slow, in microseconds.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 200)]
    pub(super) growth_slow_us: u64,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of blobs")]
pub(crate) struct BlobsOptions {
    /// Length of a key in bytes, at least 8.
    #[arg(long, value_name = "BYTES", default_value_t = 15, value_parser = at_least_a_word)]
    pub(super) blobs_key_bytes: usize,
    /// Length of a value in bytes, at least 8.
    #[arg(long, value_name = "BYTES", default_value_t = 15, value_parser = at_least_a_word)]
    pub(super) blobs_value_bytes: usize,
}

/// Parses a length. Byte strings begin with a number, so they have at least its length.
fn at_least_a_word(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes) if bytes >= size_of::<u64>() => Ok(bytes),
        Ok(_) => Err("must be at least 8".to_owned()),
        Err(error) => Err(format!("{error}")),
    }
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of duplicates")]
pub(crate) struct DuplicatesOptions {
    /// Graphs (wiki-talk, cit-patents, livejournal, orkut: generated with their nodes and edges),
    /// distributions (zipf-0.8, with one pair for each item), or edge lists in the format of SNAP.
    #[arg(long, value_name = "SOURCE", value_delimiter = ',', value_parser = checked,
          default_values = ["wiki-talk", "cit-patents", "zipf-0", "zipf-0.8"])]
    pub(super) duplicates_sources: Vec<String>,
    /// Share of a graph's nodes and edges to generate.
    #[arg(long, value_name = "PART", default_value_t = 0.2)]
    pub(super) duplicates_scale: f64,
    /// Keys are byte strings of this length, at least 8, instead of numbers (maps in RAM only).
    #[arg(long, value_name = "BYTES", value_parser = at_least_a_word)]
    pub(super) duplicates_key_bytes: Option<usize>,
}

#[cfg(durable)]
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of accounting")]
pub(crate) struct AccountingOptions {
    /// Approximate number of slots of the map. (The simulator keeps every store in memory.)
    #[arg(long, value_name = "SLOTS", default_value_t = 100_000,
          value_parser = value_parser!(u64).range(1000..1 << 24))]
    pub(super) accounting_slots: u64,
    /// Load factors to count at, in percent. A map of Pea Hash seldom exceeds 85 before a
    /// segment splits.
    #[arg(long, value_name = "PERCENTS", value_delimiter = ',',
          default_values_t = [25, 50, 75, 85, 90, 95], value_parser = value_parser!(u64).range(1..=95))]
    pub(super) accounting_loads: Vec<u64>,
    /// Operations of each kind to count.
    #[arg(long, value_name = "OPERATIONS", default_value_t = 2000,
          value_parser = value_parser!(u64).range(1..))]
    pub(super) accounting_operations: u64,
}

#[cfg(durable)]
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of after-kill")]
pub(crate) struct AfterKillOptions {
    /// Numbers of items that the killed process has inserted.
    #[arg(long, value_name = "ITEMS", value_delimiter = ',', default_values_t = [1 << 16, 1 << 19],
          value_parser = value_parser!(u64).range(1..1 << 36))]
    pub(super) after_kill_items: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::choice::Experiment;
    use clap::ValueEnum as _;

    #[test]
    fn options_begin_with_the_name_of_their_experiment() {
        let command = Options::augment_args(clap::Command::new("bench"));
        for option in command.get_arguments().filter_map(clap::Arg::get_long) {
            let option = format!("--{option}");
            let experiments = Experiment::value_variants().iter();
            assert_eq!(experiments.filter(|it| it.has_option(&option)).count(), 1, "{option}");
        }
    }
}
