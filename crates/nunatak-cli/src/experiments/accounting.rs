//! Costs of operations in the units that the papers argue in, which hold on any machine: cache
//! lines and blocks of 256 bytes read, written and flushed, and fences, by load factor.
//!
//! Each operation runs on a map in simulated persistent memory, which records every store, flush
//! and fence. The library counts lines that are read, if built with the feature `accounting`.

use super::options::AccountingOptions;
use crate::experiment::figure::Figure;
use crate::medium::DeviceLatency;
use crate::named::Named as _;
use crate::settings::Settings;
use crate::targets::MapName;
use crate::threads::{CheckFailed, check};
use nunatak::Error;
use nunatak::durable::{
    Counts, DurableDesign, IcebergMap, Map, Options, PeaMap, PeaMultiMap, Persistency, Simulation,
    TurboBlobMap, TurboMap,
};

/// Sums over several operations.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    operations: u64,
    lines: usize,
    durable_lines: usize,
    durable_blocks: usize,
    written: Counts,
}

/// Runs an operation and adds the lines and blocks that it reads.
#[cfg(feature = "accounting")]
fn touched<R>(sums: &mut Sums, operation: impl FnOnce() -> R) -> R {
    let mut result = None;
    let touched = nunatak::accounting::touched(|| result = Some(operation()));
    sums.lines += touched.lines;
    sums.durable_lines += touched.durable_lines;
    sums.durable_blocks += touched.durable_blocks;
    result.expect("the operation was done")
}

#[cfg(not(feature = "accounting"))]
fn touched<R>(_: &mut Sums, operation: impl FnOnce() -> R) -> R {
    operation()
}

impl Sums {
    fn count<R>(&mut self, simulation: &Simulation, operation: impl FnOnce() -> R) -> R {
        let before = simulation.moment();
        let result = touched(self, operation);
        let counts = simulation.count(before..simulation.moment());
        self.operations += 1;
        self.written.stores += counts.stores;
        self.written.lines_written += counts.lines_written;
        self.written.blocks_written += counts.blocks_written;
        self.written.lines_flushed += counts.lines_flushed;
        self.written.fences += counts.fences;
        result
    }

    /// Returns the means in the order of the first columns.
    fn means(&self) -> [Option<f64>; 7] {
        let mean = |sum: usize| Some(sum as f64 / self.operations as f64);
        let read = |sum: usize| mean(sum).filter(|_| cfg!(feature = "accounting"));
        [
            read(self.lines - self.durable_lines),
            read(self.durable_lines),
            read(self.durable_blocks),
            mean(self.written.lines_written),
            mean(self.written.blocks_written),
            mean(self.written.lines_flushed),
            mean(self.written.fences),
        ]
    }
}

const COLUMNS: [&str; 10] = [
    "lines of RAM",
    "durable lines",
    "blocks",
    "lines written",
    "blocks written",
    "lines flushed",
    "fences",
    "device ns",
    "bytes read",
    "bytes written",
];

/// The unit in which the papers' device reads and writes.
const BLOCK: f64 = 256.0;

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "What a mean operation of a durable map reads and writes (IcebergHT, section 6; \
                 TurboHash, figures 6 and 8)";
    let mut figure = Figure::new(title, &["map", "load %", "operation"], &COLUMNS);
    if !cfg!(feature = "accounting") {
        figure.note("Reads are counted if the command is built with --features accounting.");
    }
    let asked = |names: [&str; 2]| {
        settings.maps.iter().map(|map: &MapName| map.name()).any(|name| names.contains(&&*name))
    };
    let failed = |error: Error| CheckFailed(error.to_string());
    let options = &settings.options.accounting;
    let how = (options, settings.medium.device_latency);
    let part = |part: f64| (options.accounting_slots as f64 * part) as usize;
    let new = || Simulation::new(Persistency::Lines);
    if asked(["iceberg", "iceberg-file"]) {
        let (simulation, room) = (new(), Options::new().max_load(0.95).capacity(part(0.949)));
        let map: IcebergMap<u64, u64> = simulation.create(&room).map_err(failed)?;
        count(&mut figure, how, "iceberg", &simulation, &of_one_value(&map))?;
    }
    if asked(["pea", "pea-file"]) {
        // Single hashing finds room for this many pairs.
        let room = Options::new().capacity(part(0.36));
        let simulation = new();
        let map: PeaMap<u64, u64> = simulation.create(&room).map_err(failed)?;
        count(&mut figure, how, "pea", &simulation, &of_one_value(&map))?;
        let simulation = new();
        let map: PeaMultiMap<u64, u64> = simulation.create(&room).map_err(failed)?;
        for value in 0..MANY {
            (0..256).try_for_each(|key| map.insert(WITH_MANY + key, value)).map_err(failed)?;
        }
        count(&mut figure, how, "pea, many values", &simulation, &of_many_values(&map))?;
    }
    if asked(["turbo", "turbo-file"]) {
        // Two shards, one for each half of the hashes, reach the asked load factors.
        let (simulation, room) = (new(), Options::new().shards(2).capacity(part(0.7)));
        let map: TurboMap<u64, u64> = simulation.create(&room).map_err(failed)?;
        count(&mut figure, how, "turbo", &simulation, &of_one_value(&map))?;
        let simulation = new();
        let map: TurboBlobMap = simulation.create(&room).map_err(failed)?;
        count(&mut figure, how, OF_STRINGS, &simulation, &of_byte_strings(&map))?;
    }
    check(!figure.points.is_empty(), "this is for the maps iceberg, pea, turbo")?;
    figure.note(
        "Bytes: blocks of 256, the unit of the papers' device. A block that is written is not read \
         again by the device here; in the paper's figures it may be.",
    );
    Ok(figure)
}

/// The numbers that the keys and values of operations are made from.
#[derive(Debug, Clone, Copy)]
struct At {
    number: u64,
    present: u64,
    absent: u64,
}

/// An operation, which returns whether its result was right.
type Operation<'m> = Box<dyn Fn(At) -> Result<bool, Error> + 'm>;

/// A map whose operations are counted.
struct Counted<'m> {
    load: Box<dyn Fn() -> f64 + 'm>,
    /// Inserts one more key.
    fill: Box<dyn Fn(u64) -> Result<(), Error> + 'm>,
    /// Operations with their names, in the order in which they run. Together they leave the map as
    /// it was.
    operations: Vec<(&'static str, Operation<'m>)>,
}

/// The name of an operation that is not counted.
const UNCOUNTED: &str = "";

/// Adds a row for each operation, for each load factor that the map reaches.
fn count(
    figure: &mut Figure,
    (options, latency): (&AccountingOptions, Option<DeviceLatency>),
    name: &str,
    simulation: &Simulation,
    map: &Counted<'_>,
) -> Result<(), CheckFailed> {
    let failed = |error: Error| CheckFailed(format!("{name}: {error}"));
    let mut filled = 0;
    for &load in &options.accounting_loads {
        let (mut fullest, mut is_fuller) = (0.0_f64, true);
        while is_fuller && (map.load)() * 100.0 < load as f64 {
            // In steps, since some maps scan all their slots to compute the load factor.
            let step = (options.accounting_slots / 1000).max(filled / 256);
            for _ in 0..step {
                (map.fill)(filled).map_err(failed)?;
                filled += 1;
            }
            let now = (map.load)();
            fullest = fullest.max(now);
            is_fuller = now > fullest / 1.5;
        }
        if !is_fuller {
            figure.note(format!("{name} has grown before it was {load} % full."));
            break;
        }
        let mut sums = vec![Sums::default(); map.operations.len()];
        for number in 0..options.accounting_operations {
            // Spreads the operations over all present keys.
            let step = (filled / options.accounting_operations).max(1);
            let at = At { number, present: number * step % filled, absent: 1 << 40 | number };
            for ((name, operation), sums) in map.operations.iter().zip(&mut sums) {
                let is_right = match *name {
                    UNCOUNTED => operation(at),
                    _ => sums.count(simulation, || operation(at)),
                };
                check(is_right.map_err(failed)?, &format!("{name}: the map has lost its way"))?;
            }
        }
        for ((operation, _), sums) in map.operations.iter().zip(&sums) {
            if *operation != UNCOUNTED {
                let means = sums.means();
                let device = latency.map(|latency| device_ns(latency, &means));
                let bytes = [means[2], means[4]].map(|blocks| blocks.map(|blocks| blocks * BLOCK));
                let values = means.into_iter().chain([device]).chain(bytes).collect();
                figure.add(&[&name, &load, operation], values);
            }
        }
    }
    Ok(())
}

/// Returns the least time that an operation waits for a device that reads blocks and writes lines.
fn device_ns(latency: DeviceLatency, means: &[Option<f64>; 7]) -> f64 {
    means[2].unwrap_or(0.0) * latency.read + means[5].unwrap_or(0.0) * latency.write
}

/// Makes an operation with its name.
fn operation<'m>(
    name: &'static str,
    run: impl Fn(At) -> Result<bool, Error> + 'm,
) -> (&'static str, Operation<'m>) {
    (name, Box::new(run))
}

fn of_one_value<D: DurableDesign>(map: &Map<u64, u64, D>) -> Counted<'_> {
    Counted {
        load: Box::new(|| map.load_factor()),
        fill: Box::new(|key| map.insert(key, key).map(drop)),
        operations: vec![
            operation("get-hit", |at| Ok(map.get(&at.present).is_some())),
            operation("get-miss", |at| Ok(map.get(&at.absent).is_none())),
            operation("update", |at| Ok(map.update(&at.present, at.number)?.is_some())),
            operation("insert", |at| Ok(map.insert(at.absent, at.number)?.is_none())),
            operation("delete", |at| Ok(map.remove(&at.absent)?.is_some())),
        ],
    }
}

/// The rows of items of 30 bytes, as in the paper: 15 of a key and 15 of a value.
const OF_STRINGS: &str = "turbo, 15 + 15 bytes";

/// Returns the byte string of a number.
fn string(number: u64) -> [u8; 15] {
    let mut bytes = [b'.'; 15];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn of_byte_strings(map: &TurboBlobMap) -> Counted<'_> {
    let is_there = |key, value| map.get_with(&string(key), |found| *found == string(value));
    Counted {
        load: Box::new(|| map.load_factor()),
        fill: Box::new(|key| map.put(&string(key), &string(key)).map(drop)),
        operations: vec![
            operation("get-hit", move |at| Ok(map.get_with(&string(at.present), |_| ()).is_some())),
            operation("get-miss", move |at| Ok(is_there(at.absent, 0).is_none())),
            operation("update", move |at| map.put(&string(at.present), &string(at.number))),
            operation(UNCOUNTED, move |at| Ok(is_there(at.present, at.number) == Some(true))),
            operation("insert", |at| Ok(!map.put(&string(at.absent), &string(at.number))?)),
            operation("delete", |at| map.delete(&string(at.absent))),
        ],
    }
}

/// The first of the keys with many values, and how many values each of them has.
const WITH_MANY: u64 = 1 << 50;
const MANY: u64 = 20;

fn of_many_values(map: &PeaMultiMap<u64, u64>) -> Counted<'_> {
    let copy = |key| map.copy_all(&key, &mut Vec::new());
    let many = |at: At| WITH_MANY + at.number % 256;
    let other = |at: At| at.number % (MANY - 1);
    Counted {
        load: Box::new(|| map.stats().table.load_factor),
        fill: Box::new(|key| map.insert(key, key)),
        operations: vec![
            operation("get of one", move |at| Ok(copy(at.present) == 1)),
            operation("get of many", move |at| Ok(copy(many(at)) > 1)),
            operation("get-miss", |at| Ok(!map.contains_key(&at.absent))),
            operation("insert", |at| map.insert(at.absent, at.number).map(|()| true)),
            operation("delete", |at| Ok(map.remove_all(&at.absent)? == 1)),
            operation("append", move |at| map.insert(many(at), MANY).map(|()| true)),
            operation("remove last", move |at| map.remove_one(&many(at), &MANY)),
            operation("remove other", move |at| map.remove_one(&many(at), &other(at))),
            operation(UNCOUNTED, move |at| map.insert(many(at), other(at)).map(|()| true)),
        ],
    }
}
