//! Which workloads and experiments a level of durability, or an emulated latency, says something about.

use crate::experiment::choice::Experiment;
use crate::medium::Level;
use crate::named::Named as _;
use crate::settings::Settings;
use crate::targets::MapName;
use crate::workloads::Workload;

/// The most items that are inserted if every insert waits for a disk.
const MOST_SYNCED: u64 = 100_000;

/// Returns why these settings can't be measured as they ask for.
pub(crate) fn refuse(settings: &Settings) -> Result<(), String> {
    let medium = &settings.medium;
    if medium.durability != Level::Process {
        refuse_level(settings)
            .map_err(|why| format!("--durability {}: {why}", medium.durability))?;
    }
    if medium.device_latency.is_some() {
        refuse_latency(settings).map_err(|why| format!("--device-latency: {why}"))?;
    }
    Ok(())
}

fn refuse_level(settings: &Settings) -> Result<(), String> {
    let level = settings.medium.durability;
    for experiment in &settings.experiments {
        match experiment.name().as_str() {
            "growth" | "blobs" | "ycsb-blobs" | "duplicates" => {}
            "after-kill" if level == Level::PersistentMemory => {}
            name => return Err(format!("{name} has no map whose durability can be chosen")),
        }
    }
    let own = |map: &&MapName| map.is_durable() && map.is_own();
    if let Some(other) = settings.maps.iter().find(|map| map.is_durable() && !map.is_own()) {
        return Err(format!("{other} is no map of this project, and has levels of its own"));
    }
    let needs_no_name = settings.workloads.is_empty()
        && settings.experiments.iter().all(|experiment| experiment.name() == "after-kill");
    if !needs_no_name && !settings.maps.iter().any(|map| own(&map)) {
        return Err(
            "none of the maps is in a file: name some by --maps, such as iceberg-file".into()
        );
    }
    if level == Level::PersistentMemory
        && settings.maps.iter().any(|map| map.name() == "iceberg-journal")
    {
        return Err("persistent memory needs no journal: use iceberg-file".into());
    }
    if let Some(workload) = settings.workloads.iter().find(|it| syncs_by_itself(**it)) {
        return Err(format!("{workload} calls sync itself: it is measured without a level"));
    }
    if level == Level::Synced && settings.items > MOST_SYNCED {
        return Err(format!("every insert waits for the disk: at most --items {MOST_SYNCED}"));
    }
    Ok(())
}

fn refuse_latency(settings: &Settings) -> Result<(), String> {
    let is_persistent = settings.medium.durability == Level::PersistentMemory;
    for experiment in &settings.experiments {
        let name = experiment.name();
        let has_waits = match *experiment {
            Experiment::RemoteMemory => true,
            #[cfg(durable)]
            Experiment::Accounting => true,
            Experiment::Growth => is_persistent,
            _ => false,
        };
        if !has_waits {
            return Err(format!(
                "the reads of {name} can't be made to wait as those of a device do"
            ));
        }
    }
    let runs_maps =
        !settings.workloads.is_empty() || settings.experiments.contains(&Experiment::Growth);
    if runs_maps && !is_persistent {
        return Err("workloads need --durability persistent-memory besides".into());
    }
    if runs_maps && let Some(map) = settings.maps.iter().find(|map| !map.is_durable()) {
        return Err(format!("{map} is in RAM; remote-memory has gets of maps in RAM"));
    }
    match settings.workloads.iter().find(|workload| has_no_latency(**workload)) {
        Some(workload) => Err(format!("{workload} measures no operations")),
        None => Ok(()),
    }
}

/// Whether the workload makes changes durable by calls of its own.
pub(crate) fn syncs_by_itself(workload: Workload) -> bool {
    matches!(workload, Workload::Synced | Workload::Commit)
}

/// Whether the workload measures something else than operations.
pub(crate) fn has_no_latency(workload: Workload) -> bool {
    matches!(workload, Workload::Space | Workload::Recovery | Workload::Words | Workload::Levels)
}

#[cfg(all(test, durable, feature = "databases", feature = "experiments"))]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser as _;

    fn refused(line: &str) -> Option<String> {
        let line = format!("nunatak bench {line}");
        match Cli::parse_from(line.split_whitespace()).command {
            Some(Command::Bench(args)) => refuse(&args.settings()).err(),
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn what_says_nothing_is_refused() {
        let memory = "--durability persistent-memory";
        let device = "--device-latency 305,94";
        for (line, word) in [
            (format!("insert {memory}"), "none of the maps is in a file"),
            (format!("insert --maps iceberg-file,lmdb {memory}"), "lmdb"),
            (format!("commit --maps iceberg-file {memory}"), "calls sync itself"),
            (format!("skew --maps iceberg-file {memory}"), "skew has no map"),
            (format!("insert --maps iceberg-journal {memory}"), "needs no journal"),
            ("insert --maps pea-file --durability synced".to_owned(), "--items 100000"),
            (format!("insert --maps pea-file {device}"), "--durability persistent-memory"),
            (format!("insert --maps pea,pea-file {memory} {device}"), "pea is in RAM"),
            (format!("space --maps pea-file {memory} {device}"), "measures no operations"),
            (format!("hash-join {device}"), "hash-join"),
            (format!("blobs --maps turbo-file {memory} {device}"), "blobs"),
        ] {
            let why = refused(&line);
            assert!(why.as_ref().is_some_and(|why| why.contains(word)), "{line}: {why:?}");
        }
        for line in [
            format!("--maps iceberg-file {memory}"),
            format!("--maps iceberg-file {memory} {device}"),
            format!("insert growth --maps pea,pea-file {memory}"),
            format!("after-kill {memory}"),
            format!("remote-memory accounting {device}"),
            "insert --maps pea-file --durability synced --items 1000".to_owned(),
            "insert --maps pea-file --durability interval:100".to_owned(),
        ] {
            assert_eq!(refused(&line), None, "{line}");
        }
    }
}
