//! Mutants of the library: small changes of its code, one on at a time, each of which a test should
//! notice. A build of the crate takes longer than all tests of a mutant, so all mutants are compiled
//! into one copy of the project, and the environment switches one on.
//!
//! ```text
//! cargo run --release -- build          copies the project, mutates it, builds the tests
//! cargo run --release -- build --lib    builds only the tests beside the code; `--test NAME` another
//! cargo run --release -- cover          runs each test alone; notes its time and what it reaches
//! cargo run --release -- run memory/ 3  runs the tests of every third mutant of a room; a number
//!                                       behind that is a budget in seconds of processor time
//! cargo run --release -- again memory/  runs the tests of survivors that nobody has judged again,
//!                                       without a budget; a number behind the room is a budget
//! cargo run --release -- survivors      prints the mutants that no test noticed
//! cargo run --release -- unexplained    prints survivors that are not in `survivors.tsv`, and its
//!                                       lines that are killed now, or gone
//! cargo run --release -- counts         counts each room's results
//! ```
//!
//! `NUNATAK_ROOMS=memory/,entry/` before `build` compiles the mutants of these rooms only: everything
//! is faster. Such a copy needs a folder of its own.
//!
//! Files of the work are in `target/mutants`, or in the folder `NUNATAK_MUTANTS`. Every step goes on
//! where it was stopped. After a change of the tests: `build`, `cover`, `again`. After a change of
//! other code the numbers of the mutants differ: remove `cover.txt` and `results.txt`.

mod child;
mod judged;
mod rewrite;

use child::End;
use rewrite::{File, Mutant};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// In the order in which they matter.
const ROOMS: [&str; 12] = [
    "memory/",
    "durable/",
    "entry/",
    "sync/",
    "table/shared/",
    "table/mod.rs",
    "table/stages.rs",
    "table/growing/",
    "table/iceberg/",
    "table/pea/",
    "table/turbo/",
    "table/dlht/",
];
const MODULES: [&str; 5] = ["memory", "durable", "entry", "sync", "table"];
const SOURCES: &str = "crates/nunatak/src";
/// Their programs call the compiler, or read the sources that are changed here.
const LEFT_OUT: [&str; 4] = ["compile_fail", "imports", "methods", "documents"];
/// How much processor time the tests of a mutant may take together, before it is left to `again`.
const BUDGET: Duration = Duration::from_secs(2);
/// How much longer than without a mutant a test may take, in processor time.
const PATIENCE: Duration = Duration::from_secs(2);
/// What it costs to start a test, in part in this process.
const START: Duration = Duration::from_millis(2);
/// Tests up to here are tried first if they killed a mutant nearby.
const CHEAP: Duration = Duration::from_millis(300);
/// How long a test may take without a mutant. Slower ones are left out.
const LONGEST: Duration = Duration::from_secs(8);

struct Work {
    project: PathBuf,
    folder: PathBuf,
    mutants: Vec<Mutant>,
    files: Vec<File>,
}

/// A test, its time, and the mutants that it reaches.
struct Test {
    program: String,
    name: String,
    time: Duration,
    reached: BTreeSet<u32>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let work = Work::new();
    match arguments[..] {
        ["build"] => work.build(&["--lib", "--tests"]),
        ["build", ref only @ ..] => work.build(only),
        ["cover"] => work.cover(),
        ["run", room] => work.run(room, 1, BUDGET),
        ["run", room, step] => work.run(room, step.parse().unwrap(), BUDGET),
        ["run", room, step, budget] => work.run(room, step.parse().unwrap(), seconds(budget)),
        ["again", room] => work.again(room, seconds("3600")),
        ["again", room, budget] => work.again(room, seconds(budget)),
        ["survivors"] => work.survivors(),
        ["unexplained"] => work.unexplained(),
        ["counts"] => work.counts(),
        _ => panic!("see the opening comment of main.rs"),
    }
}

impl Work {
    fn new() -> Self {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        let folder = std::env::var_os("NUNATAK_MUTANTS").map(PathBuf::from);
        let folder = folder.unwrap_or_else(|| project.join("target/mutants"));
        fs::create_dir_all(&folder).unwrap();
        let (mut files, mut mutants) = (Vec::new(), Vec::new());
        for module in MODULES {
            let module = Path::new(module).join("mod.rs");
            rewrite::read(&project.join(SOURCES), &module, &mut files, &mut mutants);
        }
        Self { project, folder, mutants, files }
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn append(&self, file: &str, line: &str) {
        let path = self.folder.join(file);
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "{line}").unwrap();
    }

    /// Returns the mutants that don't compile.
    fn dropped(&self) -> BTreeSet<u32> {
        self.lines("dropped.txt").iter().map(|line| line.parse().unwrap()).collect()
    }

    /// Returns the rooms whose mutants are in the copy.
    fn rooms(&self) -> Vec<String> {
        let rooms = self.lines("rooms.txt");
        if rooms.is_empty() { ROOMS.map(str::to_owned).to_vec() } else { rooms }
    }

    fn is_in_copy(&self, mutant: &Mutant, rooms: &[String]) -> bool {
        rooms.iter().any(|room| mutant.file.to_str().unwrap().starts_with(room))
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.args(arguments).args(["--locked", "--message-format=json"]);
        cargo.args(["-p", "nunatak", "--features", "serde,rayon"]);
        cargo.current_dir(self.folder.join("copy"));
        cargo
            .env("CARGO_TARGET_DIR", self.folder.join("target"))
            .env("RUSTFLAGS", "--cap-lints=allow");
        cargo.env("CARGO_PROFILE_TEST_DEBUG", "false").env("CARGO_PROFILE_TEST_OPT_LEVEL", "1");
        cargo.env("CARGO_INCREMENTAL", "0").stderr(Stdio::null());
        cargo
    }

    fn build(&self, only: &[&str]) {
        let listed = Command::new("git").arg("ls-files").current_dir(&self.project).output();
        for file in String::from_utf8(listed.unwrap().stdout).unwrap().lines() {
            let source = self.project.join(file);
            let own = Path::new(file).strip_prefix(SOURCES).unwrap_or(Path::new(""));
            let is_changed =
                own == Path::new("lib.rs") || self.files.iter().any(|file| file.path == own);
            if !file.starts_with(".ci/") && source.is_file() && !is_changed {
                write(&self.folder.join("copy").join(file), &fs::read(source).unwrap());
            }
        }
        let sources = self.folder.join("copy").join(SOURCES);
        write(&sources.join("mutant.rs"), include_bytes!("switch.rs"));
        let root = fs::read_to_string(self.project.join(SOURCES).join("lib.rs")).unwrap()
            + "mod mutant;\n";
        write(&sources.join("lib.rs"), root.as_bytes());
        if let Some(rooms) = std::env::var_os("NUNATAK_ROOMS") {
            let rooms = rooms.into_string().unwrap().replace(',', "\n");
            fs::write(self.folder.join("rooms.txt"), rooms).unwrap();
        }
        let rooms = self.rooms();
        let others = self.mutants.iter().filter(|it| !self.is_in_copy(it, &rooms));
        let others: BTreeSet<u32> = others.map(|it| it.id).collect();
        println!("{} mutants", self.mutants.len() - others.len());
        loop {
            let mut dropped = self.dropped();
            dropped.extend(&others);
            let mut places = HashMap::new();
            for file in &self.files {
                let (text, of_file) = file.rewritten(|id| dropped.contains(&id));
                write(&sources.join(&file.path), text.as_bytes());
                places.insert(file.path.clone(), of_file);
            }
            let wrong = self.wrong(&places);
            if wrong.is_empty() {
                break;
            }
            println!("{} do not compile", wrong.len());
            wrong.iter().for_each(|id| self.append("dropped.txt", &id.to_string()));
        }
        println!("building the tests");
        let known = self.lines("programs.txt");
        for message in self.messages(&[&["test", "--no-run"], only].concat()) {
            let name = message["target"]["name"].as_str().unwrap_or_default();
            if let Some(program) = message["executable"]
                .as_str()
                .filter(|_| !LEFT_OUT.contains(&name))
                .filter(|program| !known.iter().any(|it| it == program))
            {
                self.append("programs.txt", program);
            }
        }
    }

    fn messages(&self, arguments: &[&str]) -> Vec<serde_json::Value> {
        let output = self.cargo(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let messages: Vec<serde_json::Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let is_error = |it: &&serde_json::Value| it["message"]["level"] == "error";
        if !output.status.success() && arguments[0] == "test" {
            messages
                .iter()
                .filter(is_error)
                .for_each(|it| println!("{}", it["message"]["rendered"]));
            panic!("the tests don't compile");
        }
        messages
    }

    /// Returns the innermost mutant at each error of the compiler.
    fn wrong(&self, places: &HashMap<PathBuf, Vec<(u32, Range<usize>)>>) -> BTreeSet<u32> {
        let mut wrong = BTreeSet::new();
        for message in self.messages(&["check", "--lib"]) {
            let message = &message["message"];
            for span in message["spans"].as_array().into_iter().flatten() {
                if message["level"] != "error" || span["is_primary"] != true {
                    continue;
                }
                let file = Path::new(span["file_name"].as_str().unwrap());
                let at = span["byte_start"].as_u64().unwrap() as usize;
                let of_file = file.strip_prefix(SOURCES).ok().and_then(|file| places.get(file));
                let around = of_file.into_iter().flatten().filter(|(_, place)| place.contains(&at));
                match around.min_by_key(|(_, place)| place.len()) {
                    Some(&(id, _)) => wrong.insert(id),
                    None => panic!("{}", message["rendered"].as_str().unwrap()),
                };
            }
        }
        wrong
    }

    fn cover(&self) {
        let known: BTreeSet<(String, String)> =
            self.tests().into_iter().map(|test| (stem(&test.program), test.name)).collect();
        let map = self.folder.join("reached");
        for program in self.lines("programs.txt") {
            let listed = Command::new(&program).args(["--list", "--format", "terse"]).output();
            let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
            for name in listed.lines().filter_map(|line| line.strip_suffix(": test")) {
                if known.contains(&(stem(&program), name.to_owned())) {
                    continue;
                }
                fs::write(&map, vec![0; self.mutants.len() + 1]).unwrap();
                let recorder = ("NUNATAK_MUTANTS_REACHED", map.to_str().unwrap());
                let (end, time) = self.test(&program, name, recorder, LONGEST);
                println!("{name}: {time:?} {}", if end == End::Passed { "" } else { "fails" });
                let bytes = fs::read(&map).unwrap();
                let passed = end == End::Passed;
                let reached = (1..bytes.len()).filter(|&id| bytes[id] != 0 && passed);
                let reached: Vec<String> = reached.map(|id| id.to_string()).collect();
                let time = time.as_micros();
                let line = format!("{program}\t{name}\t{time}\t{}", reached.join(","));
                self.append("cover.txt", &line);
            }
        }
    }

    /// Returns the tests that were run. Those that fail without a mutant reach none.
    fn tests(&self) -> Vec<Test> {
        let mut tests = Vec::new();
        let programs = self.lines("programs.txt");
        for line in self.lines("cover.txt") {
            let [program, name, time, reached] = line.split('\t').collect::<Vec<_>>()[..] else {
                continue;
            };
            // A new build may have another name.
            let now = programs.iter().find(|it| stem(it) == stem(program));
            let reached = reached.split(',').filter_map(|id| id.parse().ok()).collect();
            let time = Duration::from_micros(time.parse().unwrap());
            let program = now.map_or(program, |it| it).to_owned();
            tests.push(Test { program, name: name.to_owned(), time, reached });
        }
        tests.sort_by_key(|test| test.time);
        tests
    }

    fn test(
        &self,
        program: &str,
        test: &str,
        variable: (&str, &str),
        limit: Duration,
    ) -> (End, Duration) {
        let mut command = Command::new(program);
        command.args(["--exact", test, "--test-threads=1"]).env(variable.0, variable.1);
        command.env("NUNATAK_EFFORT", "0.3").env("RUST_BACKTRACE", "0");
        command.current_dir(self.folder.join("copy/crates/nunatak"));
        child::run(&mut command, limit)
    }

    /// Returns the last result of each mutant.
    fn results(&self) -> BTreeMap<u32, String> {
        let split = |line: &String| {
            let (id, rest) = line.split_once('\t').unwrap();
            (id.parse().unwrap(), rest.rsplit('\t').next().unwrap().to_owned())
        };
        self.lines("results.txt").iter().map(split).collect()
    }

    fn run(&self, room: &str, step: u32, budget: Duration) {
        let (results, dropped) = (self.results(), self.dropped());
        let is_new = |id| id % step == 0 && !results.contains_key(&id) && !dropped.contains(&id);
        self.try_all(room, is_new, budget);
    }

    fn again(&self, room: &str, budget: Duration) {
        let results = self.results();
        let judged = judged::columns();
        let survived = |id: u32| {
            results.get(&id).is_some_and(|it| !it.starts_with("killed"))
                && !judged.contains_key(&self.key(id))
        };
        self.try_all(room, survived, budget);
    }

    fn try_all(&self, room: &str, chosen: impl Fn(u32) -> bool, budget: Duration) {
        let tests = self.tests();
        let mut killers = Killers::default();
        let rooms = self.rooms();
        let of_room = |it: &&Mutant| it.file.to_str().unwrap().starts_with(room);
        for mutant in self.mutants.iter().filter(|it| of_room(it) && chosen(it.id)) {
            assert!(
                self.is_in_copy(mutant, &rooms),
                "the mutants of this room are not in the copy"
            );
            let result = self.try_one(mutant, &tests, budget, &mut killers);
            let (file, line) = (mutant.file.display(), mutant.line);
            let description = &mutant.description;
            let line = format!("{}\t{file}:{line}\t{description}\t{result}", mutant.id);
            println!("{line}");
            self.append("results.txt", &line);
        }
    }

    fn try_one(
        &self,
        mutant: &Mutant,
        tests: &[Test],
        budget: Duration,
        killers: &mut Killers,
    ) -> String {
        let id = mutant.id;
        let mut reaching: Vec<usize> =
            (0..tests.len()).filter(|&test| tests[test].reached.contains(&id)).collect();
        killers.first(mutant, &mut reaching);
        let mut used = Duration::ZERO;
        for (done, &number) in reaching.iter().enumerate() {
            if used > budget {
                return format!("survived {done} of {} tests", reaching.len());
            }
            let test = &tests[number];
            let variable = ("NUNATAK_MUTANT", &*id.to_string());
            let limit = PATIENCE + 5 * test.time;
            let (end, time) = self.test(&test.program, &test.name, variable, limit);
            let how = match end {
                End::Passed => {
                    used += time + START;
                    continue;
                }
                End::Failed => "",
                End::Late => " (late)",
                End::Blocked => " (blocked)",
            };
            if test.time < CHEAP {
                killers.killed(mutant, number);
            }
            return format!("killed by {}{how}", test.name);
        }
        match reaching.len() {
            0 => "not reached".to_owned(),
            all => format!("survived all {all} tests"),
        }
    }

    fn survivors(&self) {
        for (id, result) in self.results() {
            if !result.starts_with("killed") {
                let Mutant { file, line, description, .. } = &self.mutants[id as usize - 1];
                println!("{id}\t{}:{line}\t{description}\t{result}", file.display());
            }
        }
    }

    fn counts(&self) {
        let (results, dropped, judged) = (self.results(), self.dropped(), judged::columns());
        let columns = judged::COLUMNS.join(" | ");
        println!("| room | mutants | tried | killed | {columns} | not judged | cut short |");
        println!("|{}", "---|".repeat(12));
        for room in ROOMS {
            let of_room = self.mutants.iter().filter(|it| it.file.starts_with(room));
            let ids: Vec<u32> =
                of_room.map(|it| it.id).filter(|id| !dropped.contains(id)).collect();
            let (mut tried, mut killed, mut columns, mut left, mut cut) = (0, 0, [0; 6], 0, 0);
            for (&id, result) in results.iter().filter(|(id, _)| ids.contains(id)) {
                tried += 1;
                if result.starts_with("killed") {
                    killed += 1;
                    continue;
                }
                let column = judged.get(&self.key(id));
                match column.and_then(|it| judged::COLUMNS.iter().position(|name| name == it)) {
                    Some(column) => columns[column] += 1,
                    // Its tests took longer than the budget.
                    None if result.contains(" of ") => cut += 1,
                    None => left += 1,
                }
            }
            let columns = columns.map(|it| it.to_string()).join(" | ");
            let mutants = ids.len();
            println!("| `{room}` | {mutants} | {tried} | {killed} | {columns} | {left} | {cut} |");
        }
    }
}

/// The tests that killed a mutant, the last one first: likely to kill the next mutants beside it.
#[derive(Default)]
struct Killers {
    of_functions: HashMap<(PathBuf, String), Vec<usize>>,
    of_files: HashMap<PathBuf, Vec<usize>>,
}

impl Killers {
    fn killed(&mut self, mutant: &Mutant, test: usize) {
        let function = (mutant.file.clone(), mutant.function.clone());
        let lists = [
            self.of_functions.entry(function).or_default(),
            self.of_files.entry(mutant.file.clone()).or_default(),
        ];
        for list in lists {
            list.retain(|&other| other != test);
            list.insert(0, test);
        }
    }

    /// Moves the likely tests to the front. The others stay in their order, by time.
    fn first(&self, mutant: &Mutant, tests: &mut [usize]) {
        let of_function = self.of_functions.get(&(mutant.file.clone(), mutant.function.clone()));
        let of_file = self.of_files.get(&mutant.file);
        let rank = |list: Option<&Vec<usize>>, test: usize| {
            let place = list.and_then(|list| list.iter().take(4).position(|&it| it == test));
            place.unwrap_or(usize::MAX)
        };
        tests.sort_by_key(|&test| (rank(of_function, test), rank(of_file, test)));
    }
}

/// Writes a file if it differs, so that nothing is compiled without need.
fn write(path: &Path, bytes: &[u8]) {
    if !fs::read(path).is_ok_and(|present| present == bytes) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs_f64(text.parse().unwrap())
}

fn file_name(program: &str) -> String {
    Path::new(program).file_name().unwrap().to_str().unwrap().to_owned()
}

/// Returns the name of a test program without the hash behind it.
fn stem(program: &str) -> String {
    file_name(program).rsplit_once('-').unwrap().0.to_owned()
}
