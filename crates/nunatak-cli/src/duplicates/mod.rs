//! `nunatak duplicates`: keys with many values, as in figures 8 to 10 of Pea Hash.
//!
//! Each measurement runs in a process of its own, as that of [space](crate::workloads::space)
//! does, and so that no map finds the memory as another one has left it.

mod pairs;
mod targets;

use crate::backing::back_free_memory;
use crate::keys::Random;
use crate::machine::resident_bytes;
use crate::statistics::Summary;
use crate::threads::{CheckFailed, Worker, share, throughput};
use clap::{Args, ValueEnum as _};
use comfy_table::{Table, presets};
use pairs::Source;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::error::Error;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use targets::{Dashmap, Name, Pea, PeaBatch, Scc, Sharded, Target};

/// The subcommand that starts such a process.
pub(crate) const SUBCOMMAND: &str = "measure-duplicates";

/// How many keys are looked up between two looks at the clock.
const BLOCK: usize = 1024;

#[derive(Debug, Args)]
pub(crate) struct DuplicatesArgs {
    /// Graphs (wiki-talk, cit-patents, livejournal, orkut: generated with their nodes and
    /// edges), distributions (zipf-0.8), or files of edges as SNAP has them.
    #[arg(value_name = "SOURCE", default_values = ["wiki-talk", "cit-patents", "zipf-0", "zipf-0.8"])]
    sources: Vec<String>,
    /// Which part of a graph's nodes and edges.
    #[arg(long, default_value_t = 0.2)]
    scale: f64,
    /// How many pairs of a distribution.
    #[arg(long, default_value_t = 4 << 20)]
    pairs: u64,
    /// How many threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// How often each is measured; the median counts.
    #[arg(long, default_value_t = 1)]
    repetitions: usize,
    /// For how long keys are looked up.
    #[arg(long, default_value_t = 500)]
    milliseconds: u64,
    /// Which maps.
    #[arg(long, value_delimiter = ',', default_values_t = Name::value_variants().to_vec())]
    maps: Vec<Name>,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    source: Source,
    #[arg(long)]
    map: Name,
    #[arg(long)]
    scale: f64,
    #[arg(long)]
    pairs: u64,
    #[arg(long)]
    threads: usize,
    #[arg(long)]
    milliseconds: u64,
}

/// Millions of pairs a second, and what they take.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Measured {
    pairs: u64,
    keys: u64,
    insert: f64,
    /// Lookups of keys that come as they came when they were inserted: keys, and values.
    skewed: [f64; 2],
    /// Lookups of all keys alike.
    unique: [f64; 2],
    /// Removals of all values of a key: keys, and values.
    remove: [f64; 2],
    bytes_per_pair: f64,
    /// How many milliseconds it takes to open its file, if it has one.
    open_ms: Option<f64>,
}

/// Measures all maps, one after the other and over again.
pub(crate) fn run(args: &DuplicatesArgs) -> Result<ExitCode, Box<dyn Error>> {
    for source in &args.sources {
        source.parse::<Source>()?;
        let mut measured = vec![Vec::new(); args.maps.len()];
        for _ in 0..args.repetitions {
            for (map, measured) in args.maps.iter().zip(&mut measured) {
                measured.push(in_new_process(source, *map, args)?);
            }
        }
        println!("{}\n", table(source, &args.maps, &measured));
    }
    Ok(ExitCode::SUCCESS)
}

fn in_new_process(
    source: &str,
    map: Name,
    args: &DuplicatesArgs,
) -> Result<Measured, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(SUBCOMMAND).arg(source).args(["--map", &map.to_string()]);
    command.args(["--scale", &args.scale.to_string(), "--pairs", &args.pairs.to_string()]);
    command.args(["--threads", &args.threads.to_string()]);
    command.args(["--milliseconds", &args.milliseconds.to_string()]);
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Measures one map in this process, which should have done nothing else.
pub(crate) fn measure(args: &MeasureArgs) -> Result<ExitCode, Box<dyn Error>> {
    let measured = match args.map {
        Name::Pea => measure_target::<Pea>(args),
        Name::PeaBatch => measure_target::<PeaBatch>(args),
        #[cfg(target_os = "linux")]
        Name::PeaFile => measure_target::<targets::PeaFile>(args),
        #[cfg(target_os = "linux")]
        Name::PeaFileBatch => measure_target::<targets::PeaFileBatch>(args),
        Name::Dashmap => measure_target::<Dashmap>(args),
        Name::Scc => measure_target::<Scc>(args),
        Name::Sharded => measure_target::<Sharded>(args),
    }?;
    println!("{}", serde_json::to_string(&measured)?);
    Ok(ExitCode::SUCCESS)
}

fn measure_target<T: Target>(args: &MeasureArgs) -> Result<Measured, Box<dyn Error>> {
    let pairs = args.source.pairs(args.scale, args.pairs)?;
    let threads = args.threads;
    let (skewed, unique) = keys_of(&pairs);
    back_free_memory(pairs.len() as u64);

    let before = resident_bytes();
    let mut map = T::new();
    let insert = throughput(threads, |worker| {
        let own = own(&pairs, worker, threads);
        Ok(worker.once(|| {
            map.insert(own);
            own.len() as u64
        }))
    });
    let insert = insert.map_err(failed)?;
    let resident =
        before.zip(resident_bytes()).map_or(0, |(before, after)| after.saturating_sub(before));

    let open_ms = map.reopen().map(|seconds| seconds * 1000.0);
    let time = Duration::from_millis(args.milliseconds);
    let look_up = |keys: &[u64]| -> Result<[f64; 2], Box<dyn Error>> {
        let values = AtomicU64::new(0);
        let done = AtomicU64::new(0);
        let mops = throughput(threads, |worker| {
            let own = own(keys, worker, threads);
            let (mut buffer, next) = (Vec::new(), Cell::new(0));
            Ok(worker.repeat(time, || {
                let from = next.get();
                let to = (from + BLOCK).min(own.len());
                next.set(if to == own.len() { 0 } else { to });
                let found = map.copy(&own[from..to], &mut buffer);
                // Relaxed: looked at after the threads have ended.
                values.fetch_add(found as u64, Relaxed);
                done.fetch_add((to - from) as u64, Relaxed);
                (to - from) as u64
            }))
        });
        let mops = mops.map_err(failed)?;
        let each = values.into_inner() as f64 / done.into_inner().max(1) as f64;
        if each < 1.0 {
            return Err("a key has no value".into());
        }
        Ok([mops, mops * each])
    };
    let (skewed, of_unique) = (look_up(&skewed)?, look_up(&unique)?);

    let removed = AtomicU64::new(0);
    let remove = throughput(threads, |worker| {
        let own = own(&unique, worker, threads);
        Ok(worker.once(|| {
            let count = map.remove(own) as u64;
            removed.fetch_add(count, Relaxed);
            own.len() as u64
        }))
    });
    let remove = remove.map_err(failed)?;
    if removed.into_inner() != pairs.len() as u64 {
        return Err("not as many values were removed as were inserted".into());
    }
    let each = pairs.len() as f64 / unique.len() as f64;
    Ok(Measured {
        pairs: pairs.len() as u64,
        keys: unique.len() as u64,
        insert,
        skewed,
        unique: of_unique,
        remove: [remove, remove * each],
        bytes_per_pair: resident as f64 / pairs.len() as f64,
        open_ms,
    })
}

fn failed(error: CheckFailed) -> Box<dyn Error> {
    error.0.into()
}

fn own<'a, I>(items: &'a [I], worker: &Worker<'_>, threads: usize) -> &'a [I] {
    let range = share(items.len() as u64, worker.number, threads);
    &items[range.start as usize..range.end as usize]
}

/// Keys to look up: as often as they have values, and each once; in no order.
fn keys_of(pairs: &[(u64, u64)]) -> (Vec<u64>, Vec<u64>) {
    let mut skewed: Vec<u64> = pairs.iter().map(|(key, _)| *key).collect();
    let mut unique = skewed.clone();
    unique.sort_unstable();
    unique.dedup();
    let mut random = Random::new(7);
    for keys in [&mut skewed, &mut unique] {
        for at in (1..keys.len()).rev() {
            keys.swap(at, random.below(at as u64 + 1) as usize);
        }
    }
    skewed.truncate(4 << 20);
    (skewed, unique)
}

fn table(source: &str, maps: &[Name], measured: &[Vec<Measured>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "map",
        "insert",
        "skewed search",
        "values",
        "unique search",
        "values",
        "remove all",
        "values",
        "bytes a pair",
        "open, ms",
    ]);
    for (map, measured) in maps.iter().zip(measured) {
        let median = |of: fn(&Measured) -> Option<f64>| {
            let samples: Vec<f64> = measured.iter().filter_map(of).collect();
            Summary::of(&samples).map_or_else(String::new, |of| format!("{:.3}", of.median))
        };
        table.add_row([
            map.to_string(),
            median(|m| Some(m.insert)),
            median(|m| Some(m.skewed[0])),
            median(|m| Some(m.skewed[1])),
            median(|m| Some(m.unique[0])),
            median(|m| Some(m.unique[1])),
            median(|m| Some(m.remove[0])),
            median(|m| Some(m.remove[1])),
            median(|m| Some(m.bytes_per_pair)),
            median(|m| m.open_ms),
        ]);
    }
    let about = measured.first().and_then(|measured| measured.first());
    let about = about.map_or_else(String::new, |m| format!("{} pairs of {} keys", m.pairs, m.keys));
    format!("{source}: {about}; millions a second\n{table}")
}
