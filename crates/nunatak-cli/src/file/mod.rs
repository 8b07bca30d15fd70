//! `nunatak file`: map files from the shell.

mod crash;
mod datum;
mod dump;
mod failure;
mod maps;
mod opening;
mod pairs;
mod salvage;

use clap::{Args, Subcommand, ValueEnum};
use datum::Datum as _;
use failure::{Done, Failure, at, directory_of, sync_directory};
use maps::{Kind, MapFile};
use nunatak::Schema;
use nunatak::durable::{
    Durability, IcebergBlobMap, IcebergMap, Options, PeaBlobMap, PeaMap, PeaMultiMap, TurboBlobMap,
    TurboMap,
};
use opening::{AFTER_POWER_CUT, FORCED, open, open_or_create, open_to_read, options, refuse_log};
use pairs::{Format, Pairs};
use salvage::salvage as salvage_file;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The exit code if a key is absent.
const ABSENT: u8 = 1;
/// The exit code if the command line is wrong; clap uses the same.
const USAGE: u8 = 2;
/// The exit code if the file can't be used as asked.
const UNUSABLE: u8 = 3;

/// Handle map files: keys and values are numbers from 0 to 2^64 - 1, in decimal or, after 0x, in
/// hexadecimal. In `iceberg-blobs`, `pea-blobs` and `turbo-blobs` they are byte strings: text, with
/// \\t, \\n, \\\\ and \\x00 to \\xff for bytes that can't be typed.
///
/// The file of a typed map is read as byte strings, the encoded keys and values; only a program that
/// knows its types changes it.
///
/// What only reads works while another process changes the file, too: it shows the last sync of that
/// process. Of an `iceberg` map, and on persistent memory, it shows a snapshot. That process makes it
/// if it has opened the file with the option `answer_readers`, as `load` does.
///
/// The exit code is 0 if all went well, 1 if a key is absent, 2 if the command line is
/// wrong, and 3 if the file can't be used.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// Take a file that was not closed for one that a power cut has left, whatever it says: for an
    /// image of a disk or of a virtual machine that was made while the file was open.
    #[arg(long, global = true)]
    after_power_cut: bool,
    /// Read a damaged file, and leave out what is wrong. Only for what reads: get, scan, stats, dump
    /// and backup.
    #[arg(long, global = true)]
    forced: bool,
    #[command(subcommand)]
    command: FileCommand,
}

#[derive(Debug, Subcommand)]
enum FileCommand {
    /// Create a file with an empty map.
    Create(CreateArgs),
    /// Store pairs from a file or from standard input.
    Load(LoadArgs),
    /// Print the values of keys.
    Get(KeyArgs),
    /// Store a value for a key.
    Put(PutArgs),
    /// Remove keys.
    Del(KeyArgs),
    /// Print all pairs in arbitrary order, as lines of a key, a tab and a value.
    Scan(ScanArgs),
    /// Print statistics of the file and its map.
    Stats(PathArgs),
    /// Check every slot.
    Verify(PathArgs),
    /// Make the file as small as its pairs allow.
    Compact(PathArgs),
    /// Copy the map to a new file.
    Backup(BackupArgs),
    /// Make a new file of all that can still be read from a damaged one, and print what is wrong.
    Salvage(salvage::SalvageArgs),
    /// Write all pairs as of one moment.
    Dump(DumpArgs),
    /// Create a file from what `dump` wrote.
    Restore(RestoreArgs),
    /// Kill processes that change a map, again and again, and check that nothing is lost. The map
    /// is in a new file, which is removed at the end.
    CrashTest(crash::CrashArgs),
    /// The process that crash-test kills.
    #[command(hide = true)]
    CrashChild(crash::ChildArgs),
}

#[derive(Debug, Args)]
struct PathArgs {
    /// The file.
    path: PathBuf,
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// The file, which must not exist.
    path: PathBuf,
    /// Make room for this many pairs.
    #[arg(long, default_value_t = 0)]
    capacity: usize,
    /// The share of the slots that pairs may take before an iceberg map doubles.
    #[arg(long, default_value_t = 0.91)]
    max_load: f64,
    /// The kind of map to create.
    #[arg(long, value_enum, default_value_t = Kind::Iceberg)]
    map: Kind,
}

/// Calls a function with the map type of a kind.
macro_rules! of_kind {
    ($kind:expr, $run:ident($($argument:expr),*)) => {
        match $kind {
            Kind::Iceberg => $run::<IcebergMap<u64, u64>>($($argument),*),
            Kind::Pea => $run::<PeaMap<u64, u64>>($($argument),*),
            Kind::PeaMulti => $run::<PeaMultiMap<u64, u64>>($($argument),*),
            Kind::Turbo => $run::<TurboMap<u64, u64>>($($argument),*),
            Kind::TurboBlobs => $run::<TurboBlobMap>($($argument),*),
            Kind::IcebergBlobs => $run::<IcebergBlobMap>($($argument),*),
            Kind::PeaBlobs => $run::<PeaBlobMap>($($argument),*),
        }
    };
}

/// Returns the kind of map in an existing file.
fn kind_of(path: &Path) -> Result<Kind, Failure> {
    at(path, Kind::of(path))
}

/// Returns the kind of map in a file, or `kind` if there is no file.
fn kind_of_or(path: &Path, kind: Kind) -> Result<Kind, Failure> {
    if path.symlink_metadata().is_ok() { kind_of(path) } else { Ok(kind) }
}

/// Returns the kind of map to store in. A mistyped path makes no file.
fn kind_to_put(args: &PutArgs) -> Result<Kind, Failure> {
    match args.map {
        Some(kind) => kind_of_or(&args.path, kind),
        None if args
            .path
            .symlink_metadata()
            .is_err_and(|it| it.kind() == io::ErrorKind::NotFound) =>
        {
            Err(Failure::Missing(args.path.clone()))
        }
        None => kind_of(&args.path),
    }
}

#[derive(Debug, Args)]
struct KeyArgs {
    /// The file.
    path: PathBuf,
    /// The keys.
    #[arg(required = true)]
    keys: Vec<String>,
}

#[derive(Debug, Args)]
struct PutArgs {
    /// The file, which must exist unless `--map` is given.
    path: PathBuf,
    key: String,
    value: String,
    /// Create a map of this kind if the file does not exist.
    #[arg(long, value_enum)]
    map: Option<Kind>,
}

#[derive(Debug, Args)]
struct ScanArgs {
    /// The file.
    path: PathBuf,
    /// Print no more than this many pairs.
    #[arg(long)]
    limit: Option<usize>,
}

#[derive(Debug, Args)]
struct LoadArgs {
    /// The file; it is created if it does not exist.
    path: PathBuf,
    /// The file to read pairs from; standard input if omitted or `-`.
    input: Option<PathBuf>,
    /// The format of the input.
    #[arg(long, value_enum, default_value_t = Format::Tsv)]
    format: Format,
    /// The level of durability: see the documentation of the library.
    #[arg(long, value_enum, default_value_t = Level::Process)]
    durability: Level,
    /// Store all pairs or none, also if the power is cut meanwhile: in a copy of the file, which
    /// takes its place at the end.
    #[arg(long)]
    atomic: bool,
    /// The kind of map to create if the file does not exist.
    #[arg(long, value_enum, default_value_t = Kind::Iceberg)]
    map: Kind,
}

#[derive(Debug, Args)]
struct BackupArgs {
    /// The file.
    path: PathBuf,
    /// The new file, which must not exist.
    copy: PathBuf,
}

#[derive(Debug, Args)]
struct DumpArgs {
    /// The file.
    path: PathBuf,
    /// The file to write pairs to; standard output if omitted or `-`.
    output: Option<PathBuf>,
    /// The format of the output.
    #[arg(long, value_enum, default_value_t = Format::Binary)]
    format: Format,
}

#[derive(Debug, Args)]
struct RestoreArgs {
    /// The file, which must not exist.
    path: PathBuf,
    /// The file that `dump` wrote; standard input if omitted or `-`.
    input: Option<PathBuf>,
    /// The format of the input.
    #[arg(long, value_enum, default_value_t = Format::Binary)]
    format: Format,
    /// The kind of map to create: by default that of the dump, or `iceberg` if the format is tsv.
    #[arg(long, value_enum)]
    map: Option<Kind>,
}

/// The levels of durability that make sense for a process that syncs at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Level {
    /// Everything is durable when the command ends.
    Process,
    /// Every thousand pairs are durable before the next.
    Synced,
    /// Every pair is durable, in persistent memory.
    PersistentMemory,
}

impl Level {
    fn durability(self) -> Durability {
        match self {
            Self::Process => Durability::Process,
            Self::Synced => Durability::Synced,
            Self::PersistentMemory => Durability::PersistentMemory,
        }
    }
}

/// Parses a key or a value from the command line.
fn parse<M: MapFile>(text: &str) -> Result<M::Datum, Failure> {
    let wrong = || Failure::Usage(format!("{text}: {}", M::Datum::EXPECTED));
    M::Datum::parse(text).ok_or_else(wrong)
}

/// Runs a command and returns its exit code.
pub(crate) fn run(args: &FileArgs) -> ExitCode {
    // Before any file is opened, and once.
    let _ = AFTER_POWER_CUT.set(args.after_power_cut);
    let _ = FORCED.set(args.forced);
    let done = run_command(&args.command);
    match done {
        Ok(code) => code,
        // The reader of the output has closed it and needs no more.
        Err(Failure::Io(_, error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("nunatak: {failure}");
            ExitCode::from(if let Failure::Usage(_) = failure { USAGE } else { UNUSABLE })
        }
    }
}

fn run_command(command: &FileCommand) -> Done {
    match command {
        FileCommand::Create(args) => of_kind!(args.map, create(args)),
        FileCommand::Load(args) => of_kind!(kind_of_or(&args.path, args.map)?, load(args)),
        FileCommand::Get(args) => of_kind!(kind_of(&args.path)?, get(args)),
        FileCommand::Put(args) => of_kind!(kind_to_put(args)?, put(args)),
        FileCommand::Del(args) => of_kind!(kind_of(&args.path)?, del(args)),
        FileCommand::Scan(args) => of_kind!(kind_of(&args.path)?, scan(args)),
        FileCommand::Stats(args) => of_kind!(kind_of(&args.path)?, stats(args)),
        FileCommand::Verify(args) => of_kind!(kind_of(&args.path)?, verify(args)),
        FileCommand::Compact(args) => of_kind!(kind_of(&args.path)?, compact(args)),
        FileCommand::Backup(args) => of_kind!(kind_of(&args.path)?, backup(args)),
        FileCommand::Salvage(args) => of_kind!(kind_of(&args.path)?, salvage_file(args)),
        FileCommand::Dump(args) => {
            let kind = kind_of(&args.path)?;
            of_kind!(kind, dump(args, kind))
        }
        FileCommand::Restore(args) => {
            let input = Pairs::open(args.input.as_deref(), args.format)?;
            let of_dump = input.header().map_or(Kind::Iceberg, |header| header.kind);
            of_kind!(args.map.unwrap_or(of_dump), restore(args, input))
        }
        FileCommand::CrashTest(args) => of_kind!(args.map, crash_test(args)),
        FileCommand::CrashChild(args) => of_kind!(args.map, crash_child(args)),
    }
}

fn crash_test<M: MapFile>(args: &crash::CrashArgs) -> Done {
    crash::test::<M>(args)
}

fn crash_child<M: MapFile>(args: &crash::ChildArgs) -> Done {
    crash::child::<M>(&args.path)
}

fn create<M: MapFile>(args: &CreateArgs) -> Done {
    let options = Options::new().capacity(args.capacity).max_load(args.max_load);
    let map = at(&args.path, M::create(&args.path, &options))?;
    at(&args.path, map.close())?;
    Ok(ExitCode::SUCCESS)
}

fn load<M: MapFile>(args: &LoadArgs) -> Done {
    let options = options().durability(args.durability.durability());
    // First: without an input no map is created.
    let mut input = Pairs::open(args.input.as_deref(), args.format)?;
    input.check::<M::Datum>()?;
    let (new, pairs) = if args.atomic {
        load_atomically::<M>(&args.path, &options, &mut input)?
    } else {
        // It may take hours.
        let options = options.answer_readers(true);
        let map = open_or_create::<M>(&args.path, &options)?;
        let new = store(&map, &args.path, &mut input)?;
        let pairs = map.len();
        at(&args.path, map.close())?;
        (new, pairs)
    };
    eprintln!("{new} {} were new; the map has {pairs}", M::COUNTED);
    Ok(ExitCode::SUCCESS)
}

/// Stores all pairs of an input, or none. Returns how many were new, and how many there are.
fn load_atomically<M: MapFile>(
    path: &Path,
    options: &Options,
    input: &mut Pairs,
) -> Result<(usize, usize), Failure> {
    let failed = |error| Failure::Io(path.to_owned(), error);
    // Not a link's own place.
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    // Open, so that nobody changes it until the copy has its place.
    let exists = path.symlink_metadata().is_ok();
    refuse_log(path)?;
    let before = exists.then(|| at(path, M::open(path, options))).transpose()?;
    let hidden = Hidden::beside(path)?;
    let map = match &before {
        Some(before) => {
            at(path, before.back_up(&hidden.path))?;
            at(path, M::open(&hidden.path, options))?
        }
        None => at(path, M::create(&hidden.path, options))?,
    };
    let new = store(&map, path, input).map_err(Failure::of_nothing)?;
    let pairs = map.len();
    at(path, map.close())?;
    if before.is_some() {
        let mode = path.metadata().map_err(failed)?.permissions();
        std::fs::set_permissions(&hidden.path, mode).map_err(failed)?;
        std::fs::rename(&hidden.path, path).and_then(|()| sync_directory(path)).map_err(failed)?;
    } else {
        hidden.publish(path)?;
    }
    Ok((new, pairs))
}

/// How many pairs one call stores.
const BATCH: usize = 1000;

/// Stores all pairs of an input and returns how many were new.
fn store<M: MapFile>(map: &M, path: &Path, pairs: &mut Pairs) -> Result<usize, Failure> {
    let mut batch = Vec::with_capacity(BATCH);
    let (mut stored, mut new) = (0, 0);
    loop {
        batch.clear();
        let read = loop {
            match pairs.next() {
                Ok(Some(pair)) if batch.len() < BATCH - 1 => batch.push(pair),
                Ok(Some(pair)) => {
                    batch.push(pair);
                    break Ok(());
                }
                Ok(None) => break Ok(()),
                Err(failure) => break Err(failure),
            }
        };
        let after = |failure| Failure::After { stored, failure: Box::new(failure) };
        read.map_err(after)?;
        if batch.is_empty() {
            pairs.finish();
            return Ok(new);
        }
        new += at(path, map.store(&batch)).map_err(after)?;
        stored += batch.len();
    }
}

fn get<M: MapFile>(args: &KeyArgs) -> Done {
    let map = open_to_read::<M>(&args.path)?;
    let mut code = ExitCode::SUCCESS;
    let mut out = io::stdout().lock();
    for key in &args.keys {
        let values = at(&args.path, map.values(&parse::<M>(key)?))?;
        if values.is_empty() {
            eprintln!("nunatak: {key} is absent");
            code = ExitCode::from(ABSENT);
        }
        for value in values {
            writeln!(out, "{}", value.text()).map_err(pairs::to_stdout)?;
        }
    }
    Ok(code)
}

fn put<M: MapFile>(args: &PutArgs) -> Done {
    let pair = (parse::<M>(&args.key)?, parse::<M>(&args.value)?);
    let map = open_or_create::<M>(&args.path, &options())?;
    at(&args.path, map.store(&[pair]))?;
    at(&args.path, map.close())?;
    Ok(ExitCode::SUCCESS)
}

fn del<M: MapFile>(args: &KeyArgs) -> Done {
    let map = open::<M>(&args.path)?;
    let mut code = ExitCode::SUCCESS;
    for key in &args.keys {
        if !at(&args.path, map.remove(&parse::<M>(key)?))? {
            eprintln!("nunatak: {key} is absent");
            code = ExitCode::from(ABSENT);
        }
    }
    at(&args.path, map.close())?;
    Ok(code)
}

fn scan<M: MapFile>(args: &ScanArgs) -> Done {
    let map = open_to_read::<M>(&args.path)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    for (key, value) in map.pairs().take(args.limit.unwrap_or(usize::MAX)) {
        writeln!(out, "{}\t{}", key.text(), value.text()).map_err(pairs::to_stdout)?;
    }
    out.flush().map_err(pairs::to_stdout)?;
    Ok(ExitCode::SUCCESS)
}

fn stats<M: MapFile>(args: &PathArgs) -> Done {
    let map = open_to_read::<M>(&args.path)?;
    let bytes = map.file_bytes();
    let mut out = io::stdout().lock();
    let mut line =
        |name: &str, value: String| writeln!(out, "{name:<20} {value}").map_err(pairs::to_stdout);
    line("map", format!("{}, {} keys and values", M::NAME, M::Datum::NAME))?;
    if let Some(schema) = at(&args.path, Schema::of(&args.path))? {
        line("schema", schema.to_string())?;
    }
    line("pairs", map.len().to_string())?;
    line("file bytes", bytes.to_string())?;
    if map.len() > 0 {
        line("bytes per pair", format!("{:.2}", bytes as f64 / map.len() as f64))?;
    }
    line("load factor", format!("{:.4}", map.load_factor()))?;
    map.describe().into_iter().try_for_each(|(name, value)| line(name, value))?;
    let recovery = map.recovery();
    line("was closed", recovery.was_closed.to_string())?;
    line("is as of its last sync", recovery.was_cut.to_string())?;
    line("moved by recovery", recovery.moved.to_string())?;
    line("dropped by recovery", recovery.dropped.to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn verify<M: MapFile>(args: &PathArgs) -> Done {
    let map = open_to_read::<M>(&args.path)?;
    let pairs = at(&args.path, map.verify())?;
    println!("{pairs} pairs, all where they belong");
    if let Some(pages) = map.checksums() {
        println!("{} pages as their checksums say", pages.compared);
        if pages.changed > 0 {
            println!("{} pages changed since the last sync: without checksums", pages.changed);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn compact<M: MapFile>(args: &PathArgs) -> Done {
    let map = open::<M>(&args.path)?;
    let before = map.file_bytes();
    at(&args.path, map.shrink())?;
    println!("{before} bytes before, {} now", map.file_bytes());
    at(&args.path, map.close())?;
    Ok(ExitCode::SUCCESS)
}

fn backup<M: MapFile>(args: &BackupArgs) -> Done {
    let map = open_to_read::<M>(&args.path)?;
    let pairs = at(&args.copy, map.back_up(&args.copy))?;
    println!("{pairs} pairs");
    Ok(ExitCode::SUCCESS)
}

fn dump<M: MapFile>(args: &DumpArgs, kind: Kind) -> Done {
    let map = open_to_read::<M>(&args.path)?;
    let all = at(&args.path, map.cut())?;
    pairs::write(args.output.as_deref(), (args.format, kind), map.len() as u64, all)?;
    Ok(ExitCode::SUCCESS)
}

/// A place for a file that is not complete yet, and has no name that looks like a map's.
struct Hidden {
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Hidden {
    /// Finds a place on the same file system as a file.
    fn beside(path: &Path) -> Result<Self, Failure> {
        let made = tempfile::Builder::new().prefix(".nunatak-").tempdir_in(directory_of(path));
        let directory = made.map_err(|error| Failure::Io(path.to_owned(), error))?;
        Ok(Self { path: directory.path().join("map"), _directory: directory })
    }

    /// Gives the file its name, durably. It takes no other file's place.
    fn publish(self, path: &Path) -> Result<(), Failure> {
        let failed = |error| Failure::Io(path.to_owned(), error);
        let whole = tempfile::TempPath::try_from_path(&self.path).map_err(failed)?;
        whole.persist_noclobber(path).map_err(|error| failed(error.error))?;
        sync_directory(path).map_err(failed)
    }
}

fn restore<M: MapFile>(args: &RestoreArgs, mut input: Pairs) -> Done {
    let failed = |error| Failure::Io(args.path.clone(), error);
    input.check::<M::Datum>()?;
    if args.path.symlink_metadata().is_ok() {
        return Err(failed(io::ErrorKind::AlreadyExists.into()));
    }
    let hidden = Hidden::beside(&args.path)?;
    let map = at(&args.path, M::create(&hidden.path, &Options::new()))?;
    let stored = store(&map, &args.path, &mut input);
    let pairs = input.count();
    stored.map_err(Failure::of_nothing)?;
    if map.len() as u64 != pairs {
        return Err(Failure::Test(format!(
            "{}: {pairs} pairs do not fit a map of {} keys: use another --map",
            args.path.display(),
            map.len()
        )));
    }
    at(&args.path, map.close())?;
    hidden.publish(&args.path)?;
    eprintln!("{pairs} pairs");
    Ok(ExitCode::SUCCESS)
}
