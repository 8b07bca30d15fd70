//! The `nunatak` command. It compares concurrent hash maps with each other and with the limit that
//! memory sets, reports the measurements, handles the files of durable maps, and serves maps by Redis's
//! protocol.

mod backing;
mod cli;
mod clock;
mod experiments;
#[cfg(durable)]
mod file;
mod keys;
mod machine;
mod measurement;
mod named;
mod probe;
mod process;
mod report;
mod results;
mod run;
mod settings;
mod statistics;
mod targets;
mod text;
mod threads;
mod workloads;

use clap::{Parser as _, ValueEnum as _};
use cli::{BenchArgs, BenchCommand, Cli, Command, CompareArgs, ReportArgs};
use experiments::choice::Experiment;
use measurement::Measurement;
use named::Named as _;
use report::Report;
use report::changes::Changes;
use settings::Settings;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};
use targets::MapName;
use text::Text;
use workloads::Workload;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        None => bench(&cli.quick.settings(), None, Some(&cli.quick.html)),
        Some(Command::Bench(args)) => bench_with(args),
        Some(Command::Report(args)) => draw(args),
        #[cfg(durable)]
        Some(Command::File(args)) => return file::run(args),
        // The server reads the options again, with those of its file.
        #[cfg(unix)]
        Some(Command::Serve(_)) => return nunatak_server::main(env::args_os().skip(1)),
        Some(Command::Measure { request }) => measure(request),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("nunatak: {error}");
            ExitCode::FAILURE
        }
    }
}

type Done = Result<ExitCode, Box<dyn Error>>;

fn bench_with(args: &BenchArgs) -> Done {
    match &args.command {
        Some(BenchCommand::Compare(args)) => compare(args),
        None if args.list => list(),
        None => bench(&args.settings(), args.json.as_deref(), args.html.as_deref()),
    }
}

/// Names what has become worse from one saved run to another.
fn compare(args: &CompareArgs) -> Done {
    let (old, new) = (saved(&args.old)?, saved(&args.new)?);
    if old.machine.cpu != new.machine.cpu {
        eprintln!("the runs are of two machines: {} and {}", old.machine.cpu, new.machine.cpu);
    }
    let changes = Changes::between(&old, &new, args.tolerance / 100.0)?;
    print!("{}", changes.text());
    Ok(if changes.worse() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads a saved run.
fn saved(path: &Path) -> Result<Report, String> {
    let json = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&json)
        .map_err(|error| format!("{} is no saved run: {error}", path.display()))
}

fn bench(settings: &Settings, json: Option<&Path>, html: Option<&Path>) -> Done {
    let text = read_text(settings)?;
    let mut report = run::run(settings, text.as_ref())?;
    for experiment in &settings.experiments {
        eprintln!("{}", experiment.name());
        match experiment.run(settings) {
            Ok(figures) => report.figures.extend(figures),
            Err(error) => report.failures.push(format!("{}: {error}", experiment.name())),
        }
    }
    print!("{}", report::terminal::tables(&report));
    if let Some(path) = json {
        write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    if let Some(path) = html {
        write(path, report::html::page(&report))?;
    }
    Ok(if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads the text whose words are counted; `None` if the workload was not chosen or no text is
/// found.
fn read_text(settings: &Settings) -> Result<Option<Text>, Box<dyn Error>> {
    if !settings.workloads.contains(&Workload::Words) {
        return Ok(None);
    }
    let files: Vec<PathBuf> = if settings.text.is_empty() {
        text::find_files(&env::current_dir()?)
    } else {
        settings.text.clone()
    };
    let text = Text::read(&files)?;
    if !text.words().is_empty() {
        return Ok(Some(text));
    }
    if settings.text.is_empty() {
        eprintln!("no text found here: words are not counted; name files with --text");
        Ok(None)
    } else {
        Err("there are no words in these files".into())
    }
}

fn draw(args: &ReportArgs) -> Done {
    let report = saved(&args.json)?;
    let html = args.html.clone().unwrap_or_else(|| args.json.with_extension("html"));
    if let Some(path) = &args.chart {
        let picture = report::picture::picture(&report);
        let picture =
            picture.ok_or("this run measured no throughput, so there is nothing to draw")?;
        write(path, picture)?;
    }
    write(&html, report::html::page(&report))?;
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, content: String) -> Result<(), Box<dyn Error>> {
    fs::write(path, content).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("wrote {}", std::path::absolute(path)?.display());
    Ok(())
}

fn list() -> Done {
    println!("Workloads");
    for workload in Workload::value_variants() {
        println!("  {:<12} {}", workload.name(), workload.description());
    }
    println!("\nExperiments");
    for experiment in Experiment::value_variants() {
        println!("  {:<12} {}", experiment.name(), experiment.description());
    }
    println!("\nMaps");
    for map in MapName::value_variants() {
        println!("  {:<12} {}", map.name(), map.description());
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(request: &Measurement) -> Done {
    println!("{}", request.in_this_process().map_err(|error| error.to_string())?);
    Ok(ExitCode::SUCCESS)
}
