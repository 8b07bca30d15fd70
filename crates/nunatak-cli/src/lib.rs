//! The `nunatak` command. It compares concurrent hash maps with each other and with the limit that
//! memory sets, reports the measurements, handles the files of durable maps, and serves maps by Redis's
//! protocol.

#![cfg_attr(
    not(feature = "experiments"),
    allow(dead_code, unused_imports, reason = "experiments use it; with them nothing is allowed")
)]

mod all_papers;
mod backing;
mod cli;
mod clock;
mod experiment;
#[cfg(feature = "experiments")]
mod experiments;
#[cfg(durable)]
mod file;
mod keys;
mod machine;
mod measurement;
mod medium;
mod named;
mod papers;
mod probe;
mod process;
mod refused;
mod report;
mod results;
mod run;
mod settings;
mod statistics;
mod targets;
mod text;
mod threads;
mod workloads;

use clap::error::{ContextKind, ContextValue};
use clap::{Parser as _, ValueEnum as _};
use cli::{BenchArgs, BenchCommand, Cli, Command, CompareArgs, PapersArgs, ReportArgs};
use experiment::choice::Experiment;
use measurement::Measurement;
use medium::Medium;
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

/// Runs the command with the arguments of the process.
///
/// A program of its own would be compiled when all crates below it are; a library is compiled beside them.
pub fn main() -> ExitCode {
    let cli = parsed();
    let done = match &cli.command {
        None => bench(&cli.quick.settings(), None, Some(&cli.quick.html)),
        Some(Command::Bench(args)) => bench_with(args),
        Some(Command::Report(args)) => draw(args),
        #[cfg(durable)]
        Some(Command::File(args)) => return file::run(args),
        // The server reads the options again, with those of its file.
        #[cfg(served)]
        Some(Command::Serve(_)) => return nunatak_server::main(env::args_os().skip(1)),
        #[cfg(not(served))]
        Some(Command::Serve(_) | Command::Cluster(_)) => Err(NO_SERVER.into()),
        #[cfg(served)]
        Some(Command::Cluster { command }) => command.run().map(|()| ExitCode::SUCCESS),
        Some(Command::Measure { request, medium }) => measure(request, medium.as_ref()),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("nunatak: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Parses the arguments of the process. If they are wrong, says why and ends it.
fn parsed() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        let option = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(option)) => option.as_str(),
            _ => "",
        };
        let is_of_experiment = Experiment::value_variants().iter().any(|it| it.has_option(option));
        if let (true, Err(why)) = (is_of_experiment, Experiment::in_this_build()) {
            eprintln!("nunatak: {option} belongs to an experiment, and {why}");
            std::process::exit(2);
        }
        error.exit()
    })
}

#[cfg(not(served))]
const NO_SERVER: &str = "the server is not in this build: take `nunatak-server` (cargo build --release -p nunatak-server), \
                         or build with --features server";

type Done = Result<ExitCode, Box<dyn Error>>;

fn bench_with(args: &BenchArgs) -> Done {
    match &args.command {
        Some(BenchCommand::Compare(args)) => compare(args),
        Some(BenchCommand::Papers(args)) => papers(args),
        None if args.list => list(),
        None => {
            if let Some(note) = args.check_maps_of_cpp()? {
                eprintln!("{note}");
            }
            bench(&args.settings(), args.json.as_deref(), args.html.as_deref())
        }
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
    let mut report: Report = serde_json::from_str(&json)
        .map_err(|error| format!("{} is no saved run: {error}", path.display()))?;
    report.rename_maps();
    Ok(report)
}

fn bench(settings: &Settings, json: Option<&Path>, html: Option<&Path>) -> Done {
    let command: Vec<String> = env::args().skip(1).collect();
    show(&measured(settings, &format!("nunatak {}", command.join(" ")))?, json, html)
}

/// Runs all that the papers measure.
fn papers(args: &PapersArgs) -> Done {
    let report = of_papers(args)?;
    let code = show(&report, args.json.as_deref(), args.html.as_deref())?;
    let beyond = papers::beyond(&report);
    beyond.iter().for_each(|deviation| println!("{deviation}"));
    Ok(if args.check && !beyond.is_empty() { ExitCode::FAILURE } else { code })
}

fn of_papers(args: &PapersArgs) -> Result<Report, Box<dyn Error>> {
    Experiment::in_this_build()?;
    let mut all: Option<Report> = None;
    for (command, settings) in all_papers::runs(args) {
        eprintln!("{command}");
        let report = measured(&settings, &command)?;
        match &mut all {
            None => all = Some(report),
            Some(all) => all.add(report),
        }
    }
    Ok(all.expect("there are runs"))
}

/// Measures what the settings ask for.
fn measured(settings: &Settings, command: &str) -> Result<Report, Box<dyn Error>> {
    refused::refuse(settings)?;
    if !settings.experiments.is_empty() {
        Experiment::in_this_build()?;
    }
    settings.medium.use_for_maps()?;
    let text = read_text(settings)?;
    let mut report = run::run(settings, text.as_ref())?;
    report.commands.push(command.to_owned());
    report.rows.iter_mut().for_each(|row| row.command = Some(0));
    #[cfg(feature = "experiments")]
    run_experiments(settings, command, &mut report);
    report.say_medium(settings);
    Ok(report)
}

/// Runs the experiments that the settings ask for.
#[cfg(feature = "experiments")]
fn run_experiments(settings: &Settings, command: &str, report: &mut Report) {
    for experiment in &settings.experiments {
        eprintln!("{}", experiment.name());
        match experiment.run(settings) {
            Ok(mut figures) => {
                figures.iter_mut().for_each(|figure| command.clone_into(&mut figure.command));
                if settings.medium.label().is_some() {
                    let said = format!("Maps in files: {}.", Medium::used().said());
                    figures.iter_mut().for_each(|figure| figure.note(said.clone()));
                }
                report.figures.extend(figures);
            }
            Err(error) => report.failures.push(format!("{}: {error}", experiment.name())),
        }
    }
}

/// Prints a run, and writes the files that were asked for.
fn show(report: &Report, json: Option<&Path>, html: Option<&Path>) -> Done {
    print!("{}{}", report::terminal::tables(report), papers::text(report));
    if let Some(path) = json {
        write(path, serde_json::to_string_pretty(report)? + "\n")?;
    }
    if let Some(path) = html {
        write(path, report::html::page(report))?;
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
    let is_file = args.json.extension().is_some_and(|extension| extension == "json");
    if args.from.is_some() || !is_file {
        return draw_folder(&args.json, args.from.as_deref(), args.items);
    }
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

/// Writes the pages of a run to a folder: of the saved one, else of the folder's own, else of a new one.
fn draw_folder(folder: &Path, from: Option<&Path>, items: u64) -> Done {
    let run = folder.join("data").join("run.json");
    let report = match from {
        Some(path) => saved(path)?,
        None if run.exists() => saved(&run)?,
        None => new_run(items)?,
    };
    let make = |path: &Path| {
        fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    make(&folder.join("data"))?;
    for (name, content) in report::folder::files(&report) {
        let path = folder.join(name);
        fs::write(&path, content).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    fs::write(&run, serde_json::to_string_pretty(&report)? + "\n")
        .map_err(|error| format!("{}: {error}", run.display()))?;
    println!("wrote {}", std::path::absolute(folder.join("index.html"))?.display());
    Ok(if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures the core operations of the compared maps, in RAM and in files, then what the papers measure.
fn new_run(items: u64) -> Result<Report, Box<dyn Error>> {
    let parsed = |line: &str| match Cli::parse_from(line.split_whitespace()).command {
        Some(Command::Bench(args)) => args,
        _ => unreachable!("it is the subcommand that is named"),
    };
    let core = "insert grow get-hit get-miss insdel latency space words";
    let files = match MapName::Lmdb.in_this_build() {
        Ok(_) => "insert get-hit --maps iceberg-file,pea-file,turbo-file,lmdb,redb",
        Err(_) => "insert get-hit --maps iceberg-file,pea-file,turbo-file",
    };
    let mut all: Option<Report> = None;
    // Maps in files are for Linux.
    let runs: &[&str] = if cfg!(durable) { &[core, files] } else { &[core] };
    for run in runs {
        let line = format!("nunatak bench {run} --items {items}");
        eprintln!("{line}");
        let report = measured(&parsed(&line).settings(), &line)?;
        match &mut all {
            None => all = Some(report),
            Some(all) => all.add(report),
        }
    }
    let mut all = all.expect("there are runs");
    if let Err(why) = Experiment::in_this_build() {
        eprintln!("what the papers measure is left out: {why}");
        return Ok(all);
    }
    let line = format!("nunatak bench papers --items {items}");
    let Some(BenchCommand::Papers(args)) = parsed(&line).command else {
        unreachable!("it is the subcommand that is named");
    };
    all.add(of_papers(&args)?);
    Ok(all)
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
    let absent = if Experiment::in_this_build().is_ok() { "" } else { " (not in this build)" };
    println!("\nExperiments{absent}");
    for experiment in Experiment::value_variants() {
        println!("  {:<12} {}", experiment.name(), experiment.description());
    }
    println!("\nMaps");
    for map in MapName::value_variants() {
        let absent = if map.in_this_build().is_ok() { "" } else { " (not in this build)" };
        println!("  {:<12} {}{absent}", map.name(), map.description());
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(request: &Measurement, medium: Option<&Medium>) -> Done {
    medium.map_or(Ok(()), Medium::use_for_maps)?;
    println!("{}", request.in_this_process().map_err(|error| error.to_string())?);
    Ok(ExitCode::SUCCESS)
}
