//! `nunatak accounting`: what operations cost in the units that the papers argue in,
//! which hold on any machine: cache lines and blocks of 256 bytes read, written and
//! flushed, and fences, by how full a map is.
//!
//! Each operation is done on a map in simulated persistent memory, which is told of
//! every store, flush and fence; lines that are read are counted by the library itself,
//! if it is built to.

use clap::{Args, ValueEnum};
use comfy_table::{Cell, CellAlignment, Table, presets};
use nunatak::durable::{
    Counts, DurableDesign, IcebergMap, Map, Options, PeaMap, PeaMultiMap, Persistency, Simulation,
    TurboMap,
};
use std::error::Error;

#[derive(Debug, Args)]
pub(crate) struct AccountingArgs {
    /// How many slots the map has, about.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1000..1 << 24))]
    items: u64,
    /// Which map.
    #[arg(long, value_enum, default_value_t = Counted::Iceberg)]
    map: Counted,
    /// How full it is, in percents. A map of Pea Hash is seldom fuller than 85 before it
    /// splits.
    #[arg(long, value_delimiter = ',', default_values_t = [25, 50, 75, 85, 90, 95],
          value_parser = clap::value_parser!(u64).range(1..=95))]
    loads: Vec<u64>,
    /// How many operations of each kind are counted.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    operations: u64,
    /// Also says how long an operation waits for a device at least, that takes so many
    /// nanoseconds for a block of 256 bytes that is read. (Optane: 305.)
    #[arg(long)]
    read_ns: Option<f64>,
    /// And so many for a line that is written back. (Optane: 94.)
    #[arg(long)]
    write_ns: Option<f64>,
}

/// The maps that can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Counted {
    /// `nunatak::durable::IcebergMap`.
    Iceberg,
    /// `nunatak::durable::PeaMap`.
    Pea,
    /// `nunatak::durable::PeaMultiMap`: keys with one value, and some with many.
    PeaMulti,
    /// `nunatak::durable::TurboMap`.
    Turbo,
}

/// Sums over some operations.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    operations: u64,
    lines: usize,
    durable_lines: usize,
    durable_blocks: usize,
    written: Counts,
}

/// What one operation reads and touches.
#[cfg(feature = "accounting")]
fn touched(sums: &mut Sums, operation: impl FnOnce()) {
    let touched = nunatak::accounting::touched(operation);
    sums.lines += touched.lines;
    sums.durable_lines += touched.durable_lines;
    sums.durable_blocks += touched.durable_blocks;
}

#[cfg(not(feature = "accounting"))]
fn touched(_: &mut Sums, operation: impl FnOnce()) {
    operation();
}

impl Sums {
    fn count(&mut self, simulation: &Simulation, operation: impl FnOnce()) {
        let before = simulation.moment();
        touched(self, operation);
        let counts = simulation.count(before..simulation.moment());
        self.operations += 1;
        self.written.stores += counts.stores;
        self.written.lines_written += counts.lines_written;
        self.written.blocks_written += counts.blocks_written;
        self.written.lines_flushed += counts.lines_flushed;
        self.written.fences += counts.fences;
    }

    /// Means, in the order of the columns.
    fn means(&self) -> Vec<Option<f64>> {
        let mean = |sum: usize| Some(sum as f64 / self.operations as f64);
        let read = |sum: usize| mean(sum).filter(|_| cfg!(feature = "accounting"));
        vec![
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

const COLUMNS: [&str; 9] = [
    "load",
    "operation",
    "lines of RAM",
    "durable lines",
    "blocks",
    "lines written",
    "blocks written",
    "lines flushed",
    "fences",
];

pub(crate) fn run(args: &AccountingArgs) -> Result<(), Box<dyn Error>> {
    match args.map {
        Counted::Iceberg => {
            let capacity = (args.items as f64 * 0.949) as usize;
            let options = Options::new().max_load(0.95).capacity(capacity);
            count::<IcebergMap<u64, u64>>(args, &options)
        }
        Counted::Pea => count::<PeaMap<u64, u64>>(args, &for_single_hashing(args)),
        Counted::PeaMulti => count::<PeaMultiMap<u64, u64>>(args, &for_single_hashing(args)),
        Counted::Turbo => {
            // One shard of each half, so that they are as full as is asked for.
            let capacity = (args.items as f64 * 0.7) as usize;
            count::<TurboMap<u64, u64>>(args, &Options::new().shards(2).capacity(capacity))
        }
    }
}

fn for_single_hashing(args: &AccountingArgs) -> Options {
    // It finds room for so many.
    Options::new().capacity((args.items as f64 * 0.36) as usize)
}

/// A map whose operations are counted.
trait CountedMap: Sized {
    fn create(simulation: &Simulation, options: &Options) -> Result<Self, nunatak::Error>;

    fn load(&self) -> f64;

    /// Fills it with one key more.
    fn fill(&self, key: u64) -> Result<(), nunatak::Error>;

    /// Counts operations of each kind on a map that has the keys up to `filled`, and leaves
    /// it as it was.
    fn operations(
        &self,
        simulation: &Simulation,
        filled: u64,
        operations: u64,
    ) -> Result<Vec<(&'static str, Sums)>, Box<dyn Error>>;
}

fn count<M: CountedMap>(args: &AccountingArgs, options: &Options) -> Result<(), Box<dyn Error>> {
    if !cfg!(feature = "accounting") {
        eprintln!("(reads are counted if the command is built with --features accounting)");
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    let has_device = args.read_ns.is_some() || args.write_ns.is_some();
    table.set_header(COLUMNS.into_iter().chain(has_device.then_some("device, ns")));
    let simulation = Simulation::new(Persistency::Lines);
    let map = M::create(&simulation, options)?;
    let mut filled = 0;
    for &load in &args.loads {
        let (mut fullest, mut is_fuller) = (0.0_f64, true);
        while is_fuller && map.load() * 100.0 < load as f64 {
            // In steps, since some maps look at all of themselves to tell how full they are.
            for _ in 0..args.items / 1000 {
                map.fill(filled)?;
                filled += 1;
            }
            fullest = fullest.max(map.load());
            is_fuller = map.load() > fullest / 1.5;
        }
        if !is_fuller {
            eprintln!("(it has grown before it was {load} % full)");
            break;
        }
        for (name, sums) in map.operations(&simulation, filled, args.operations)? {
            let means = sums.means();
            let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
            let mut cells = vec![right(format!("{load} %")), Cell::new(name)];
            let text = |mean: &Option<f64>| mean.map_or("?".into(), |mean| format!("{mean:.2}"));
            cells.extend(means.iter().map(|mean| right(text(mean))));
            if has_device {
                let read = means[2].unwrap_or(0.0) * args.read_ns.unwrap_or(0.0);
                let written = means[5].unwrap_or(0.0) * args.write_ns.unwrap_or(0.0);
                cells.push(right(format!("{:.0}", read + written)));
            }
            table.add_row(cells);
        }
    }
    let name = args.map.to_possible_value().map(|name| name.get_name().to_owned());
    println!("{}: a durable map, a mean operation\n{table}", name.unwrap_or_default());
    Ok(())
}

impl<D: DurableDesign> CountedMap for Map<u64, u64, D> {
    fn create(simulation: &Simulation, options: &Options) -> Result<Self, nunatak::Error> {
        simulation.create(options)
    }

    fn load(&self) -> f64 {
        self.load_factor()
    }

    fn fill(&self, key: u64) -> Result<(), nunatak::Error> {
        self.insert(key, key).map(drop)
    }

    fn operations(
        &self,
        simulation: &Simulation,
        filled: u64,
        operations: u64,
    ) -> Result<Vec<(&'static str, Sums)>, Box<dyn Error>> {
        let [mut insert, mut hit, mut miss, mut update, mut remove] = [Sums::default(); 5];
        let mut failure = Ok(());
        let mut done = |result: Result<Option<u64>, nunatak::Error>, expected: bool| match result {
            Ok(found) => assert_eq!(found.is_some(), expected, "the map has lost its way"),
            Err(error) => failure = Err(error),
        };
        for number in 0..operations {
            // Spread over all that there are.
            let present = number * (filled / operations).max(1) % filled;
            let absent = 1 << 40 | number;
            hit.count(simulation, || done(Ok(self.get(&present)), true));
            miss.count(simulation, || done(Ok(self.get(&absent)), false));
            update.count(simulation, || done(self.update(&present, number), true));
            insert.count(simulation, || done(self.insert(absent, number), false));
            remove.count(simulation, || done(self.remove(&absent), true));
        }
        failure?;
        Ok(vec![
            ("get-hit", hit),
            ("get-miss", miss),
            ("insert", insert),
            ("update", update),
            ("delete", remove),
        ])
    }
}

/// The first of the keys that have many values, and how many each.
const WITH_MANY: u64 = 1 << 50;
const MANY: u64 = 20;

impl CountedMap for PeaMultiMap<u64, u64> {
    fn create(simulation: &Simulation, options: &Options) -> Result<Self, nunatak::Error> {
        let map: Self = simulation.create(options)?;
        for value in 0..MANY {
            (0..256).try_for_each(|key| map.insert(WITH_MANY + key, value))?;
        }
        Ok(map)
    }

    fn load(&self) -> f64 {
        self.stats().table.load_factor
    }

    fn fill(&self, key: u64) -> Result<(), nunatak::Error> {
        self.insert(key, key)
    }

    fn operations(
        &self,
        simulation: &Simulation,
        filled: u64,
        operations: u64,
    ) -> Result<Vec<(&'static str, Sums)>, Box<dyn Error>> {
        let [mut one, mut many, mut miss, mut first] = [Sums::default(); 4];
        let [mut append, mut last, mut other, mut remove] = [Sums::default(); 4];
        let mut failure = Ok(());
        let mut done = |result: Result<bool, nunatak::Error>| match result {
            Ok(is_done) => assert!(is_done, "the map has lost its way"),
            Err(error) => failure = Err(error),
        };
        let mut values = Vec::new();
        for number in 0..operations {
            let present = number * (filled / operations).max(1) % filled;
            let (absent, of_many) = (1 << 40 | number, WITH_MANY + number % 256);
            values.clear();
            one.count(simulation, || done(Ok(self.copy_all(&present, &mut values) == 1)));
            many.count(simulation, || done(Ok(self.copy_all(&of_many, &mut values) > 1)));
            miss.count(simulation, || done(Ok(!self.contains_key(&absent))));
            first.count(simulation, || done(self.insert(absent, number).map(|()| true)));
            remove.count(simulation, || done(self.remove_all(&absent).map(|count| count == 1)));
            append.count(simulation, || done(self.insert(of_many, MANY).map(|()| true)));
            last.count(simulation, || done(self.remove_one(&of_many, &MANY)));
            let value = number % (MANY - 1);
            other.count(simulation, || done(self.remove_one(&of_many, &value)));
            done(self.insert(of_many, value).map(|()| true));
        }
        failure?;
        Ok(vec![
            ("get of one", one),
            ("get of many", many),
            ("get-miss", miss),
            ("insert", first),
            ("append", append),
            ("remove last", last),
            ("remove other", other),
            ("delete", remove),
        ])
    }
}
