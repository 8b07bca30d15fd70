//! `nunatak accounting`: what operations cost in the units that the papers argue in,
//! which hold on any machine: cache lines and blocks of 256 bytes read, written and
//! flushed, and fences, by how full a map is.
//!
//! Each operation is done on a map in simulated persistent memory, which is told of
//! every store, flush and fence; lines that are read are counted by the library itself,
//! if it is built to.

use clap::{Args, ValueEnum};
use comfy_table::{Cell, CellAlignment, Table, presets};
use nunatak::durable::{Counts, DurableDesign, InFile, Map, Options, Persistency, Simulation};
use nunatak::{Iceberg, Pea};
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
            count::<InFile<Iceberg>>(args, &Options::new().max_load(0.95).capacity(capacity))
        }
        Counted::Pea => {
            // Single hashing finds room for so many.
            let capacity = (args.items as f64 * 0.36) as usize;
            count::<InFile<Pea>>(args, &Options::new().capacity(capacity))
        }
    }
}

fn count<D: DurableDesign>(args: &AccountingArgs, options: &Options) -> Result<(), Box<dyn Error>> {
    if !cfg!(feature = "accounting") {
        eprintln!("(reads are counted if the command is built with --features accounting)");
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    let has_device = args.read_ns.is_some() || args.write_ns.is_some();
    table.set_header(COLUMNS.into_iter().chain(has_device.then_some("device, ns")));
    let simulation = Simulation::new(Persistency::Lines);
    let map: Map<u64, u64, D> = simulation.create(options)?;
    let mut filled = 0;
    for &load in &args.loads {
        let (mut fullest, mut is_fuller) = (0.0_f64, true);
        while is_fuller && map.load_factor() * 100.0 < load as f64 {
            map.insert(filled, filled)?;
            filled += 1;
            fullest = fullest.max(map.load_factor());
            is_fuller = map.load_factor() > fullest / 1.5;
        }
        if !is_fuller {
            eprintln!("(it has grown before it was {load} % full)");
            break;
        }
        for (name, sums) in operations(&simulation, &map, filled, args.operations)? {
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

/// Counts operations of each kind on a map that has the keys up to `filled`, and leaves
/// it as it was.
fn operations<D: DurableDesign>(
    simulation: &Simulation,
    map: &Map<u64, u64, D>,
    filled: u64,
    operations: u64,
) -> Result<[(&'static str, Sums); 5], Box<dyn Error>> {
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
        hit.count(simulation, || done(Ok(map.get(&present)), true));
        miss.count(simulation, || done(Ok(map.get(&absent)), false));
        update.count(simulation, || done(map.update(&present, number), true));
        insert.count(simulation, || done(map.insert(absent, number), false));
        remove.count(simulation, || done(map.remove(&absent), true));
    }
    failure?;
    Ok([
        ("get-hit", hit),
        ("get-miss", miss),
        ("insert", insert),
        ("update", update),
        ("delete", remove),
    ])
}
