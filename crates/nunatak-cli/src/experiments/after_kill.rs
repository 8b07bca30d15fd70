//! Opening a map whose process was killed while it inserted, beside one that was closed: table 4 of
//! Pea Hash.
//!
//! A process of its own inserts into a file. It says so once all items are in, and inserts more
//! keys until it is killed. Another process then opens the file, for single gets. That restores a
//! part of it, so a second file of the same kind is opened to be restored as a whole. (A copy of the
//! first would not do: it counts as one of a power cut, which loses what was not synced.)

use crate::experiment::figure::Figure;
use crate::keys::{KeySpace, Random, value_of};
use crate::medium::Medium;
use crate::process::{self, Request as _};
use crate::settings::Settings;
use crate::statistics::Summary;
use crate::targets::MapName;
use crate::threads::{CheckFailed, check};
use nunatak::durable::{DurableDesign, InFile, Map};
use nunatak::{Iceberg, Pea, Turbo};
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::{ExitStatusExt as _, parent_id};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How many random present keys are looked up after a file was opened.
const GETS: u64 = 20_000;

/// How many inserts a process does between two looks at its parent.
const BLOCK: u64 = 1024;

const MAPS: [MapName; 3] = [MapName::IcebergFile, MapName::PeaFile, MapName::TurboFile];

const MEASURES: [&str; 8] = [
    "open ms",
    "first get µs",
    "first touches",
    "mean touch µs",
    "longest touch µs",
    "mean other get µs",
    "all restored ms",
    "keys",
];

/// What happens to the process that inserts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum End {
    Killed,
    Closed,
}

/// The request to a process that inserts, and answers only if it closes the map.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Fill {
    map: MapName,
    path: PathBuf,
    items: u64,
    seed: u64,
    end: End,
}

impl process::Request for Fill {
    const KIND: &str = "Fill";
    type Answer = ();
}

/// What is done with the opened file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Use {
    Touch,
    Restore,
}

/// The request to a process that opens the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Open {
    left: Fill,
    used: Use,
}

impl process::Request for Open {
    const KIND: &str = "Open";
    type Answer = Vec<Option<f64>>;
}

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "Opening a map whose process was killed or closed it (Pea Hash, table 4)";
    let mut figure = Figure::new(title, &["map", "items", "process"], &MEASURES);
    let mut maps: Vec<_> = settings.maps.iter().copied().filter(|map| MAPS.contains(map)).collect();
    if maps.is_empty() {
        maps.extend(MAPS);
    }
    for map in maps {
        for &items in &settings.options.after_kill.after_kill_items {
            for end in [End::Killed, End::Closed] {
                let process = if end == End::Killed { "killed" } else { "closed" };
                let mut samples = vec![Vec::new(); MEASURES.len()];
                for repetition in 0..settings.repetitions as u64 {
                    let seed = settings.seed ^ repetition << 32;
                    let found = once(&Fill { map, path: PathBuf::new(), items, seed, end })?;
                    for (samples, value) in samples.iter_mut().zip(found) {
                        samples.extend(value);
                    }
                }
                let medians = samples.iter().map(|s| Summary::of(s).map(|s| s.median));
                figure.add(&[&map, &items, &process], medians.collect());
            }
        }
    }
    figure.note(format!(
        "One thread. The killed process was inserting, and had inserted all items before. A touch is one of {GETS} random gets that had to restore a part of \
         the map first; the others found it restored. A closed map, and a map that restores \
         everything while it is opened, have none. All restored: from the start of opening \
         until every segment or shard is, by len()."
    ));
    Ok(figure)
}

/// Fills two files, ends their processes, and opens them.
fn once(left: &Fill) -> Result<Vec<Option<f64>>, CheckFailed> {
    let mut values = Vec::new();
    for used in [Use::Touch, Use::Restore] {
        let directory = Medium::used().folder();
        let directory = directory.map_err(|error| CheckFailed(format!("{}: {error}", left.map)))?;
        let left = Fill { path: directory.path().join("map"), ..left.clone() };
        match left.end {
            End::Closed => left.in_new_process()?,
            End::Killed => kill(&left)?,
        }
        values.extend(Open { left, used }.in_new_process()?);
    }
    Ok(values)
}

/// Starts a process that inserts, and kills it as soon as all items are in.
fn kill(left: &Fill) -> Result<(), CheckFailed> {
    let failed = |error: std::io::Error| CheckFailed(format!("{}: {error}", left.map));
    let mut child = left.command()?.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut line = String::new();
    let told = child.stdout.take().map(|stdout| BufReader::new(stdout).read_line(&mut line));
    let killed = child.kill();
    // Waits in any case, so that no process is left.
    let status = child.wait().map_err(failed)?;
    told.transpose().map_err(failed)?;
    killed.map_err(failed)?;
    let is_killed = status.signal() == Some(KILLED) && !line.is_empty();
    check(is_killed, &format!("{}: the process has ended before it was killed", left.map))
}

/// The number of the signal that a process cannot handle.
const KILLED: i32 = 9;

/// Runs `body` with the design of a map in a file.
macro_rules! with_design {
    ($map:expr, $design:ident => $body:expr) => {
        match $map {
            MapName::PeaFile => {
                type $design = InFile<Pea>;
                $body
            }
            MapName::TurboFile => {
                type $design = InFile<Turbo>;
                $body
            }
            _ => {
                type $design = InFile<Iceberg>;
                $body
            }
        }
    };
}

/// Inserts in this process. Returns only if it closes the map, or if its parent is gone.
pub(crate) fn fill(request: &Fill) -> Result<(), CheckFailed> {
    with_design!(request.map, Design => fill_design::<Design>(request))
}

fn fill_design<D: DurableDesign>(request: &Fill) -> Result<(), CheckFailed> {
    let parent = parent_id();
    let failed = |error: nunatak::Error| CheckFailed(format!("{}: {error}", request.map));
    let map: Result<Map<u64, u64, D>, _> =
        Map::create_with(&request.path, &Medium::used().options());
    let map = map.map_err(failed)?;
    let keys = KeySpace::new(request.seed, false);
    let insert = |index| map.insert(keys.key(index), value_of(keys.key(index))).map_err(failed);
    for index in 0..request.items {
        insert(index)?;
    }
    if request.end == End::Closed {
        return map.close().map_err(failed);
    }
    println!("all items are in");
    // Without a parent there is nobody to kill it.
    for from in (request.items..).step_by(BLOCK as usize).take_while(|_| parent_id() == parent) {
        for index in from..from + BLOCK {
            insert(index)?;
        }
    }
    Ok(())
}

/// Opens the file in this process, and returns the first six or the last two of [`MEASURES`].
pub(crate) fn open(request: &Open) -> Result<Vec<Option<f64>>, CheckFailed> {
    let left = &request.left;
    with_design!(left.map, Design => match request.used {
        Use::Touch => touch::<Design>(left),
        Use::Restore => Ok(restore::<Design>(left)?.map(Some).to_vec()),
    })
}

type Opened<D> = (Map<u64, u64, D>, Instant);

/// Opens the file. Returns the map, and when opening began.
fn open_left<D: DurableDesign>(left: &Fill) -> Result<Opened<D>, CheckFailed> {
    let options = Medium::used().options().threads(1);
    let start = Instant::now();
    let map = Map::open_with(&left.path, &options);
    let map: Map<u64, u64, D> =
        map.map_err(|error| CheckFailed(format!("{}: {error}", left.map)))?;
    let is_as_left = map.recovery().was_closed == (left.end == End::Closed);
    check(is_as_left, &format!("{}: the file does not know how its process ended", left.map))?;
    Ok((map, start))
}

/// Opens the file and gets random keys. A get that finds more pairs recovered than before was the
/// first to touch a part of the map.
fn touch<D: DurableDesign>(left: &Fill) -> Result<Vec<Option<f64>>, CheckFailed> {
    let (map, start) = open_left::<D>(left)?;
    let open = start.elapsed();
    let (keys, mut random) = (KeySpace::new(left.seed, false), Random::new(!left.seed));
    let (mut first, mut touches, mut others) = (None, Vec::new(), Vec::new());
    let mut recovered = map.recovery().items;
    for _ in 0..GETS {
        let key = keys.key(random.below(left.items));
        let start = Instant::now();
        let found = map.get(&key);
        let time = micros(start.elapsed());
        check(found == Some(value_of(key)), "a key was lost, whose insert had been acknowledged")?;
        let now = map.recovery().items;
        if now > recovered { &mut touches } else { &mut others }.push(time);
        first.get_or_insert(time);
        recovered = now;
    }
    let mean =
        |times: &[f64]| (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64);
    Ok(vec![
        Some(micros(open) / 1e3),
        first,
        Some(touches.len() as f64),
        mean(&touches),
        touches.iter().copied().reduce(f64::max),
        mean(&others),
    ])
}

/// Opens the file and restores all of it. Returns the milliseconds, and how many keys there are.
fn restore<D: DurableDesign>(left: &Fill) -> Result<[f64; 2], CheckFailed> {
    let (map, start) = open_left::<D>(left)?;
    let len = map.len() as u64;
    let time = start.elapsed();
    let is_all = if left.end == End::Closed { len == left.items } else { len >= left.items };
    check(is_all, "the map has not as many keys as were inserted")?;
    Ok([micros(time) / 1e3, len as f64])
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
