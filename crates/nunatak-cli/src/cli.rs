//! The command line, and the settings that it gives.

use crate::experiment::choice::Experiment;
#[cfg(feature = "experiments")]
use crate::experiments::options::Options;
use crate::measurement::Measurement;
use crate::medium::{Level, Medium};
use crate::named::Named as _;
use crate::process::SUBCOMMAND;
use crate::refused::{has_no_latency, syncs_by_itself};
use crate::settings::{KeyOrder, Settings};
use crate::targets::MapName;
use crate::workloads::Workload;
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser as _};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

/// Compares concurrent hash maps, and handles map files.
///
/// Without a subcommand, it compares the core operations in about a minute and writes a page with
/// the result.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) quick: QuickArgs,
}

#[derive(Debug, Args)]
pub(crate) struct QuickArgs {
    /// Count the words of these files instead of the text files found here.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub(crate) text: Vec<PathBuf>,
    /// Write the page to this file.
    #[arg(long, value_name = "FILE", default_value = "nunatak-report.html")]
    pub(crate) html: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure chosen workloads.
    Bench(Box<BenchArgs>),
    /// Draw the page of a saved run, or a folder of pages.
    Report(ReportArgs),
    /// Create, fill, read, check and crash map files.
    #[cfg(durable)]
    File(crate::file::FileArgs),
    /// Serve maps by Redis's protocol.
    #[cfg(served)]
    Serve(Box<nunatak_server::Config>),
    /// Serve maps by Redis's protocol. (Not in this build.)
    #[cfg(not(served))]
    Serve(AnyArgs),
    /// Look after a cluster of servers. (Not in this build.)
    #[cfg(not(served))]
    Cluster(AnyArgs),
    /// Look after a cluster of servers.
    #[cfg(served)]
    Cluster {
        #[command(subcommand)]
        command: nunatak_server::ClusterCommand,
    },
    /// Measure one map in this process, as the JSON request says, and print the answer as JSON.
    #[command(name = SUBCOMMAND, hide = true)]
    Measure {
        request: Measurement,
        /// Where that process has its files.
        #[arg(long)]
        medium: Option<Medium>,
    },
}

/// The arguments of a command that is not in this build.
#[cfg(not(served))]
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct AnyArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _all: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The file that `bench --json` wrote; or a folder, which gets pages about its `data/run.json`. If
    /// it has none, the compared maps are measured first, and what the papers measure.
    #[arg(value_name = "FILE.json|DIR")]
    pub(crate) json: PathBuf,
    /// Write the pages of this saved run to the folder.
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["html", "chart"])]
    pub(crate) from: Option<PathBuf>,
    /// How many items a map has in the run of a folder that has none yet.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..1 << 36))]
    pub(crate) items: u64,
    /// Write the page to this file; by default next to the JSON file.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Also write a chart of the throughputs, for a document, to this file.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) chart: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Name what is slower or larger in a saved run than in an earlier one, beyond the noise of
    /// both. Exits with 1 if anything is.
    Compare(CompareArgs),
    /// Run everything that the papers of the tables measure, at a small size, and show the papers'
    /// numbers beside.
    Papers(PapersArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PapersArgs {
    /// How many items a map holds. The papers have 100 million.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1000..1 << 36))]
    pub(crate) items: u64,
    /// Numbers of threads.
    #[arg(long, value_delimiter = ',', default_values_t = [1], value_parser = positive)]
    pub(crate) threads: Vec<usize>,
    /// How often to repeat each measurement.
    #[arg(long, default_value_t = 1, value_parser = positive)]
    pub(crate) repetitions: usize,
    /// How long to measure a workload that has no natural end, in milliseconds.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) milliseconds: u64,
    /// Exit with 1 if a quantity that does not depend on the machine deviates from its paper beyond its
    /// tolerance. These hold for maps of 20,000 items or more.
    #[arg(long)]
    pub(crate) check: bool,
    /// Keep the files of maps in this folder [default: the system's folder of temporary files].
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Write the result to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the page to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The file that `bench --json` wrote before.
    #[arg(value_name = "OLD.json")]
    pub(crate) old: PathBuf,
    /// The file that it wrote after.
    #[arg(value_name = "NEW.json")]
    pub(crate) new: PathBuf,
    /// Changes of so many percent do not count.
    #[arg(long, default_value_t = 5.0, value_parser = percent)]
    pub(crate) tolerance: f64,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if (0.0..100.0).contains(&percent) => Ok(percent),
        _ => Err("must be a number from 0 to less than 100".to_owned()),
    }
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: Option<BenchCommand>,
    /// Workloads and experiments to measure; by default all workloads.
    #[arg(value_name = "WORKLOAD")]
    pub(crate) chosen: Vec<Chosen>,
    /// List the workloads and the maps.
    #[arg(long)]
    pub(crate) list: bool,
    /// Use small maps and short measurements; the default.
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Use maps far larger than the caches, and measure for longer.
    #[arg(long)]
    pub(crate) full: bool,
    /// How many items a map holds [default: 2,000,000, or 30,000,000 with --full].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..1 << 36))]
    pub(crate) items: Option<u64>,
    /// Numbers of threads [default: 1 and every core].
    #[arg(long, value_delimiter = ',', value_parser = positive)]
    pub(crate) threads: Vec<usize>,
    /// How often to repeat each measurement [default: 3, or 5 with --full].
    #[arg(long, value_parser = positive)]
    pub(crate) repetitions: Option<usize>,
    /// The maps to compare; by default those in RAM, without the variants of iceberg, pea and
    /// turbo, and without the maps of C++ (tbb, libcuckoo, boost, absl-sharded).
    #[arg(long, value_delimiter = ',',
          value_parser = EnumValueParser::<MapName>::new().try_map(MapName::in_this_build))]
    pub(crate) maps: Vec<MapName>,
    /// How many operations a batch holds [default: 256].
    #[arg(long, value_parser = positive)]
    pub(crate) batch: Option<usize>,
    /// Seed of the random numbers [default: 42].
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Which keys exist, and how often each is looked up [default: uniform].
    #[arg(long)]
    pub(crate) keys: Option<KeyOrder>,
    /// How long to measure a workload that has no natural end, in milliseconds [default: 100, or
    /// 1000 with --full].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) milliseconds: Option<u64>,
    /// Count the words of these files instead of the text files found here.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub(crate) text: Vec<PathBuf>,
    /// Write the result to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the page to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) medium: Medium,
    #[cfg(feature = "experiments")]
    #[command(flatten)]
    pub(crate) options: Options,
}

/// A workload or an experiment that the user can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chosen {
    Workload(Workload),
    Experiment(Experiment),
}

impl ValueEnum for Chosen {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Chosen>> = LazyLock::new(|| {
            let workloads = Workload::value_variants().iter().copied().map(Chosen::Workload);
            let experiments = Experiment::value_variants().iter().copied().map(Chosen::Experiment);
            workloads.chain(experiments).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Workload(workload) => workload.to_possible_value(),
            Self::Experiment(experiment) => experiment.to_possible_value(),
        }
    }
}

/// Parses a number of at least one.
fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}

impl BenchArgs {
    fn workloads(&self) -> Vec<Workload> {
        let workload = |chosen: &Chosen| match chosen {
            Chosen::Workload(workload) => Some(*workload),
            Chosen::Experiment(_) => None,
        };
        self.chosen.iter().filter_map(workload).collect()
    }

    fn experiments(&self) -> Vec<Experiment> {
        let experiment = |chosen: &Chosen| match chosen {
            Chosen::Workload(_) => None,
            Chosen::Experiment(experiment) => Some(*experiment),
        };
        self.chosen.iter().filter_map(experiment).collect()
    }

    /// Returns an error if a workload or an experiment that was named can't measure a map of C++ that was named.
    /// If all workloads are run, returns a note about those that leave these maps out.
    pub(crate) fn check_maps_of_cpp(&self) -> Result<Option<String>, String> {
        let Some(map) = self.maps.iter().find(|map| map.library().is_some()) else {
            return Ok(None);
        };
        for workload in self.workloads() {
            if let Some(why) = workload.refusal_of_cpp() {
                return Err(format!("{workload} can't measure {map}: {why}"));
            }
        }
        if let Some(growth) = self.experiments().into_iter().find(|it| *it == Experiment::Growth) {
            return Err(format!("{} can't measure {map}: it times each operation", growth.name()));
        }
        let is_refused = |workload: &&Workload| workload.refusal_of_cpp().is_some();
        let refused: Vec<String> =
            Workload::value_variants().iter().filter(is_refused).map(Workload::name).collect();
        let note = format!("not measured for maps of C++: {}", refused.join(", "));
        Ok(self.chosen.is_empty().then_some(note))
    }

    /// Returns all workloads that say something about the durability and the latency asked for.
    fn all_workloads(&self) -> Vec<Workload> {
        let has_level = self.medium.durability != Level::Process;
        let waits = self.medium.device_latency.is_some();
        let is_one =
            |it: &Workload| !(has_level && syncs_by_itself(*it) || waits && has_no_latency(*it));
        Workload::value_variants().iter().copied().filter(is_one).collect()
    }

    /// Returns the arguments, with defaults for options that are not given.
    pub(crate) fn settings(&self) -> Settings {
        let size = |quick, full| if self.full { full } else { quick };
        let milliseconds = self.milliseconds.unwrap_or(size(100, 1000));
        Settings {
            workloads: if self.chosen.is_empty() {
                self.all_workloads()
            } else {
                chosen(&self.workloads(), &[])
            },
            experiments: chosen(&self.experiments(), &[]),
            #[cfg(feature = "experiments")]
            options: self.options.clone(),
            medium: self.medium.clone(),
            maps: chosen(&self.maps, &MapName::COMPARED),
            items: self.items.unwrap_or(size(2_000_000, 30_000_000)),
            threads: chosen(&self.threads, &default_threads()),
            repetitions: self.repetitions.unwrap_or(if self.full { 5 } else { 3 }),
            batch: self.batch.unwrap_or(256),
            seed: self.seed.unwrap_or(42),
            keys: self.keys.unwrap_or(KeyOrder::Uniform),
            time: Duration::from_millis(milliseconds),
            probe_bytes: if self.full { 1 << 30 } else { 16 << 20 },
            text: self.text.clone(),
        }
    }
}

impl QuickArgs {
    /// Returns the settings of the bare command.
    pub(crate) fn settings(&self) -> Settings {
        let Some(Command::Bench(args)) = Cli::parse_from(["nunatak", "bench"]).command else {
            unreachable!("it is the subcommand that is named");
        };
        let text = self.text.clone();
        Settings { workloads: Workload::CORE.to_vec(), text, ..args.settings() }
    }
}

/// Returns one, and the number of cores.
fn default_threads() -> Vec<usize> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores > 1 { vec![1, cores] } else { vec![1] }
}

/// Returns the elements of `asked` without repetitions, or `all` if none was asked for.
fn chosen<T: Copy + PartialEq>(asked: &[T], all: &[T]) -> Vec<T> {
    let mut chosen = Vec::new();
    for &one in if asked.is_empty() { all } else { asked } {
        if !chosen.contains(&one) {
            chosen.push(one);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn arguments_become_settings() {
        let cli = Cli::parse_from(
            "nunatak bench get-hit skew space --items 5 --threads 2,1,2 --maps scc --full"
                .split(' '),
        );
        let Some(Command::Bench(args)) = cli.command else { panic!("not a bench") };
        let settings = args.settings();
        assert_eq!(settings.workloads, [Workload::GetHit, Workload::Space]);
        assert_eq!(settings.experiments, [Experiment::Skew]);
        assert_eq!(settings.threads, [2, 1]);
        assert_eq!(settings.maps, [MapName::Scc]);
        assert_eq!((settings.items, settings.repetitions), (5, 5));
        assert_eq!(Cli::parse_from(["nunatak"]).quick.settings().workloads, Workload::CORE);
    }

    #[test]
    fn what_would_be_unfair_to_maps_of_cpp_is_refused() {
        let check = |chosen: &str| {
            let Some(Command::Bench(args)) = Cli::parse_from(["nunatak", "bench"]).command else {
                panic!("not a bench");
            };
            let parsed = |name| Chosen::from_str(name, false).expect("a name");
            let chosen = chosen.split_whitespace().map(parsed).collect();
            BenchArgs { chosen, maps: vec![MapName::Dlht, MapName::Boost], ..*args }
                .check_maps_of_cpp()
        };
        assert_eq!(check("insert grow get-hit delete insdel ycsb-d fill"), Ok(None));
        let refused = check("get-hit latency").unwrap_err();
        assert!(refused.starts_with("latency can't measure boost: each operation"), "{refused}");
        assert!(check("words").is_err() && check("growth").is_err());
        let note = check("").unwrap().expect("some workloads leave them out");
        assert!(note.contains("latency, latency-a, words"), "{note}");
        if let Err(message) = MapName::Boost.in_this_build() {
            assert!(message.contains("scripts/peers.sh"), "{message}");
        }
    }

    /// The order of keys changes which keys there are, or which of them are looked up.
    #[test]
    fn the_order_of_keys_is_that_of_the_run() {
        let settings = |keys: &str| {
            let line = format!("nunatak bench get-hit --items 1000 --keys {keys}");
            let Some(Command::Bench(args)) = Cli::parse_from(line.split(' ')).command else {
                panic!("not a bench");
            };
            args.settings()
        };
        let draw = |keys| {
            let settings = settings(keys);
            let bench = crate::settings::Bench::new(&settings);
            let keys: Vec<u64> = (0..1000).map(|index| bench.keys.key(index)).collect();
            let mut indices = bench.indices(0, settings.popularity());
            let of_first = (0..100_000).filter(|_| indices.next() == 0).count();
            (keys, of_first)
        };
        let numbers: Vec<u64> = (0..1000).collect();
        let (sequential, seldom) = draw("sequential");
        assert!(sequential == numbers && seldom < 500, "{seldom}");
        let (random, often) = draw("zipf");
        assert!(random != numbers && often > 5000, "{often}");
        let (uniform, seldom) = draw("uniform");
        assert!(uniform == random && seldom < 500, "{seldom}");
    }
}
