//! Everything that `docs/papers.md` names, in one run of a small size.

use crate::cli::{Cli, Command, PapersArgs};
use crate::settings::Settings;
use clap::Parser as _;

/// The runs, as they would be written on the command line after `nunatak bench`.
const RUNS: &[&str] = &[
    "get-hit get-miss insdel put-heavy grow update-only ycsb-a ycsb-b ycsb-c \
     --maps dlht,dashmap,papaya",
    "value-size key-size index-size batch-size skew features timeline load single-thread lock-manager \
     tatp smallbank hash-join remote-memory power occupancy window",
    "insert get-hit get-miss delete-half levels ycsb-load fill latency-a \
     --maps iceberg-95,iceberg-85,dashmap",
    "space --maps iceberg-95,iceberg-85,pea,turbo,dlht,dashmap",
    "insert get-hit get-miss delete-half levels \
     --maps iceberg-64x6,iceberg-64x4,iceberg-32x8,iceberg-32x6,iceberg-32x4",
    "insert get-hit get-miss delete grown mixed-inserts latency --maps pea",
    "insert get-hit get-miss update-only delete ycsb-load ycsb-a ycsb-b ycsb-c ycsb-d ycsb-f latency \
     latency-a --maps turbo,turbo-64k",
    "growth --maps pea,pea-single,pea-two-choice,pea-stash,pea-no-stash,turbo,turbo-64k",
    "duplicates --maps pea,dashmap --duplicates-sources zipf-0,zipf-0.8,cit-patents",
    "blobs ycsb-blobs --maps turbo,dashmap",
    "probes access",
];

/// The same of maps in files.
#[cfg(durable)]
const RUNS_OF_FILES: &[&str] = &[
    "space --maps iceberg-file",
    "insert get-hit get-miss update-only delete delete-half grown mixed-inserts ycsb-load ycsb-a ycsb-b \
     ycsb-c ycsb-d ycsb-f latency-a recovery --maps iceberg-file,pea-file,turbo-file \
     --durability persistent-memory",
    "growth --maps \
     pea-file,pea-file-single,pea-file-two-choice,pea-file-stash,pea-file-no-stash,turbo-file \
     --durability persistent-memory",
    "duplicates --maps pea-file --duplicates-sources zipf-0.8 --durability persistent-memory",
    "blobs ycsb-blobs --maps turbo-file --durability persistent-memory",
    "accounting --maps iceberg,pea,turbo --accounting-slots 4000 --accounting-operations 50 \
     --accounting-loads 50,85",
    "after-kill --maps iceberg-file,pea-file,turbo-file --durability persistent-memory",
];
#[cfg(not(durable))]
const RUNS_OF_FILES: &[&str] = &[];

/// What says nothing about a map of fewer items: how it grows, and its space.
const OF_MANY: [&str; 3] = ["growth ", "space ", "duplicates "];
const MANY: u64 = 100_000;

/// The pairs of the largest graph of the papers that is generated here, by which `--items` scales.
const EDGES: f64 = 17e6;

/// Returns each run's command and settings.
pub(crate) fn runs(args: &PapersArgs) -> Vec<(String, Settings)> {
    let threads: Vec<String> = args.threads.iter().map(usize::to_string).collect();
    let run = |run: &&str| {
        let is_of = |experiment: &&str| run.starts_with(experiment);
        let least = if OF_MANY.iter().any(is_of) { MANY } else { 0 };
        let items = args.items.max(least);
        let scale = (items as f64 / EDGES).min(1.0);
        let mut line = format!(
            "nunatak bench {run} --items {items} --threads {} --repetitions {} --milliseconds {}",
            threads.join(","),
            args.repetitions,
            args.milliseconds
        );
        // The options of an experiment, so that all sizes follow from `--items`.
        for (experiment, options) in [
            ("growth ", "--growth-steps 8 --growth-operations 500".to_owned()),
            ("duplicates ", format!("--duplicates-scale {scale:.6}")),
            ("after-kill ", format!("--after-kill-items {items}")),
        ] {
            if run.starts_with(experiment) {
                line = format!("{line} {options}");
            }
        }
        let Some(Command::Bench(parsed)) = Cli::parse_from(line.split_whitespace()).command else {
            unreachable!("it is the subcommand that is named");
        };
        let mut settings = parsed.settings();
        settings.medium.dir.clone_from(&args.dir);
        let dir = args.dir.as_ref().map(|dir| format!(" --dir {}", dir.display()));
        (line + &dir.unwrap_or_default(), settings)
    };
    RUNS.iter().chain(RUNS_OF_FILES).map(run).collect()
}

#[cfg(all(test, feature = "experiments"))]
mod tests {
    use super::*;
    use crate::cli::BenchCommand;
    use crate::experiment::choice::Experiment;
    use clap::ValueEnum as _;

    fn args(items: &str) -> PapersArgs {
        let line = ["nunatak", "bench", "papers", "--items", items, "--threads", "1,2"];
        match Cli::parse_from(line).command {
            Some(Command::Bench(args)) => match args.command {
                Some(BenchCommand::Papers(args)) => args,
                other => unreachable!("{other:?}"),
            },
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn every_experiment_runs_and_every_size_follows_from_the_items() {
        let runs = runs(&args("1234"));
        let chosen: Vec<Experiment> =
            runs.iter().flat_map(|(_, settings)| settings.experiments.clone()).collect();
        let missing =
            Experiment::value_variants().iter().find(|experiment| !chosen.contains(experiment));
        assert_eq!(missing, None);
        let few = runs.iter().filter(|(_, settings)| settings.items == 1234).count();
        let many = runs.iter().filter(|(_, settings)| settings.items == MANY).count();
        assert!(few + many == runs.len() && many >= 3, "{few} and {many}");
        assert!(runs.iter().all(|(_, settings)| settings.threads == [1, 2]));
        let after_kill = runs.iter().find(|(line, _)| line.contains("after-kill"));
        assert!(after_kill.is_none_or(|(line, _)| line.contains("--after-kill-items 1234")));
    }

    /// The commands of `docs/papers.md` name what is run here.
    #[test]
    fn the_page_of_the_papers_names_no_other_experiment() {
        let page = include_str!("../../../docs/papers.md");
        let runs: String = runs(&args("1000")).into_iter().map(|(line, _)| line + " ").collect();
        let row = |line: &&str| line.starts_with("| ") && !line.contains("not here");
        for line in page.lines().filter(row) {
            let Some(command) = line.split('|').nth(2) else { continue };
            for word in command.split('`').skip(1).step_by(2).flat_map(str::split_whitespace) {
                let is_name = !word.starts_with("--") && !word.contains(['/', ',', '…', '=']);
                assert!(!is_name || runs.contains(word), "{word} of {line}");
            }
        }
    }
}
