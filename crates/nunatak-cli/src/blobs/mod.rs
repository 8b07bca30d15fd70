//! `nunatak blobs`: keys and values that are byte strings, as the 30-byte items of
//! TurboHash's figures 6 to 9.
//!
//! Each map is measured in a process of its own, so that none finds the memory as another
//! one has left it.

mod targets;

use crate::backing::back_free_memory;
use crate::keys::{KeySpace, Random};
use crate::machine::resident_bytes;
use crate::statistics::Summary;
use crate::threads::{CheckFailed, Worker, share, throughput};
use clap::{Args, ValueEnum as _};
use comfy_table::{Table, presets};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use targets::{Dashmap, Name, Papaya, Scc, Target, Turbo, TurboBatch};

/// How many keys are looked up between two looks at the clock.
const BLOCK: usize = 256;

#[derive(Debug, Clone, Args)]
pub(crate) struct BlobsArgs {
    /// How many keys.
    #[arg(long, default_value_t = 4 << 20)]
    items: u64,
    /// How long a key is: 8 bytes at least.
    #[arg(long, default_value_t = 15)]
    key_bytes: usize,
    /// How long a value is: 8 bytes at least.
    #[arg(long, default_value_t = 15)]
    value_bytes: usize,
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
    /// Measure the first of them in this process and print it as JSON.
    #[arg(long, hide = true)]
    measure: bool,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// Millions of operations a second, and what a key and its value take.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Measured {
    insert: f64,
    get_hit: f64,
    get_miss: f64,
    update: f64,
    delete: f64,
    bytes_per_item: f64,
}

/// Measures all maps, one after the other and over again.
pub(crate) fn run(args: &BlobsArgs) -> Result<ExitCode, Box<dyn Error>> {
    if args.items == 0 || args.threads == 0 || args.key_bytes < 8 || args.value_bytes < 8 {
        return Err("one item and one thread at least, and keys and values of 8 bytes".into());
    }
    if args.measure {
        let map = args.maps.first().ok_or("no map to measure")?;
        println!("{}", serde_json::to_string(&measure(*map, args)?)?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut measured = vec![Vec::new(); args.maps.len()];
    for _ in 0..args.repetitions.max(1) {
        for (map, measured) in args.maps.iter().zip(&mut measured) {
            measured.push(in_new_process(*map, args)?);
        }
    }
    println!("{}", table(args, &measured));
    Ok(ExitCode::SUCCESS)
}

fn in_new_process(map: Name, args: &BlobsArgs) -> Result<Measured, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["blobs", "--measure", "--maps", &map.to_string()]);
    for (name, value) in [
        ("--items", args.items),
        ("--key-bytes", args.key_bytes as u64),
        ("--value-bytes", args.value_bytes as u64),
        ("--threads", args.threads as u64),
        ("--milliseconds", args.milliseconds),
    ] {
        command.args([name, &value.to_string()]);
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn measure(map: Name, args: &BlobsArgs) -> Result<Measured, Box<dyn Error>> {
    let measured = match map {
        Name::Turbo => measure_target::<Turbo>(args),
        Name::TurboBatch => measure_target::<TurboBatch>(args),
        #[cfg(target_os = "linux")]
        Name::TurboFile => measure_target::<targets::TurboFile>(args),
        Name::Dashmap => measure_target::<Dashmap>(args),
        Name::Papaya => measure_target::<Papaya>(args),
        Name::Scc => measure_target::<Scc>(args),
    };
    measured.map_err(|error| error.0.into())
}

/// Byte strings by their numbers, in buffers that are used again.
#[derive(Debug, Clone)]
struct Block {
    space: KeySpace,
    keys: Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
}

impl Block {
    fn new(args: &BlobsArgs) -> Self {
        let of = |bytes| vec![vec![b'.'; bytes]; BLOCK];
        let space = KeySpace::new(7, false);
        Self { space, keys: of(args.key_bytes), values: of(args.value_bytes) }
    }

    /// The keys of these numbers, and the values that they have after some updates.
    fn fill(&mut self, numbers: impl Iterator<Item = u64>, version: u64) -> usize {
        let mut count = 0;
        for (at, number) in numbers.enumerate() {
            let key = self.space.key(number);
            self.keys[at][..8].copy_from_slice(&key.to_le_bytes());
            self.values[at][..8].copy_from_slice(&key.wrapping_add(version).to_le_bytes());
            count = at + 1;
        }
        count
    }
}

/// What runs on keys and the values beside them; whether it found what it should.
type Run<T> = fn(&T, &[Vec<u8>], &[Vec<u8>]) -> bool;

fn measure_target<T: Target>(args: &BlobsArgs) -> Result<Measured, CheckFailed> {
    back_free_memory(2 * args.items);
    let before = resident_bytes();
    let map = T::new();
    // Runs something on blocks of all numbers, each once.
    let each = |version: u64, run: Run<T>| {
        let is_wrong = AtomicBool::new(false);
        let rate = throughput(args.threads, |worker: &Worker<'_>| {
            let own = share(args.items, worker.number, args.threads);
            let mut block = Block::new(args);
            Ok(worker.once(|| {
                for from in own.clone().step_by(BLOCK) {
                    let to = (from + BLOCK as u64).min(own.end);
                    let count = block.fill(from..to, version);
                    if !run(&map, &block.keys[..count], &block.values[..count]) {
                        // Relaxed: looked at after the threads have ended.
                        is_wrong.store(true, Relaxed);
                    }
                }
                own.end - own.start
            }))
        })?;
        match is_wrong.into_inner() {
            true => Err(CheckFailed("a key was there, or was not, against what was done".into())),
            false => Ok(rate),
        }
    };
    let insert = each(0, |map, keys, values| map.put(keys, values) == keys.len())?;
    let resident =
        before.zip(resident_bytes()).map_or(0, |(before, after)| after.saturating_sub(before));
    let update = each(1, |map, keys, values| map.put(keys, values) == 0)?;

    let time = Duration::from_millis(args.milliseconds);
    let look_up = |from: u64, expected: fn(usize) -> usize| {
        let is_wrong = AtomicBool::new(false);
        let rate = throughput(args.threads, |worker: &Worker<'_>| {
            let mut random = Random::new(worker.number as u64);
            let mut block = Block::new(args);
            Ok(worker.repeat(time, || {
                let numbers = (0..BLOCK).map(|_| from + random.below(args.items));
                let count = block.fill(numbers, 1);
                let found = map.count_equal(&block.keys[..count], &block.values[..count]);
                if found != expected(count) {
                    // Relaxed: looked at after the threads have ended.
                    is_wrong.store(true, Relaxed);
                }
                count as u64
            }))
        })?;
        match is_wrong.into_inner() {
            true => Err(CheckFailed("a key has not the value that it should have".into())),
            false => Ok(rate),
        }
    };
    let get_hit = look_up(0, |count| count)?;
    let get_miss = look_up(args.items, |_| 0)?;
    let delete = each(1, |map, keys, _| map.delete(keys) == keys.len())?;
    Ok(Measured {
        insert,
        get_hit,
        get_miss,
        update,
        delete,
        bytes_per_item: resident as f64 / args.items as f64,
    })
}

fn table(args: &BlobsArgs, measured: &[Vec<Measured>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(["map", "insert", "get-hit", "get-miss", "update", "delete", "bytes an item"]);
    for (map, measured) in args.maps.iter().zip(measured) {
        let median = |of: fn(&Measured) -> f64| {
            let samples: Vec<f64> = measured.iter().map(of).collect();
            Summary::of(&samples).map_or_else(String::new, |of| format!("{:.2}", of.median))
        };
        table.add_row([
            map.to_string(),
            median(|m| m.insert),
            median(|m| m.get_hit),
            median(|m| m.get_miss),
            median(|m| m.update),
            median(|m| m.delete),
            median(|m| m.bytes_per_item),
        ]);
    }
    let BlobsArgs { items, key_bytes, value_bytes, threads, .. } = args;
    format!(
        "{items} keys of {key_bytes} bytes with values of {value_bytes}, {threads} threads; \
         millions a second\n{table}"
    )
}
