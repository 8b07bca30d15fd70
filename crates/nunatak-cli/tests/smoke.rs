//! The command, as its users start it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

fn nunatak(directory: &Path, arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_nunatak"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("the command starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    output
}

/// Creates an empty directory for the test of this name.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if directory.exists() {
        fs::remove_dir_all(&directory).expect("an old directory can be removed");
    }
    fs::create_dir_all(&directory).expect("a directory can be made");
    directory
}

#[cfg(not(feature = "server"))]
#[test]
fn a_command_without_the_server_says_where_it_is() {
    for arguments in [
        &["serve", "--port", "0"][..],
        &["serve", "--help"],
        &["cluster", "check", "--map", "slots"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_nunatak"))
            .args(arguments)
            .output()
            .expect("the command starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && error.contains("nunatak-server"),
            "{arguments:?}: {error}"
        );
    }
}

/// A whole run takes minutes: each number of threads has a table as soon as all maps ran once.
#[test]
fn first_repetition_is_shown_at_once() {
    let directory = directory("early");
    let run = "bench get-hit --maps dlht,dashmap --threads 1,2 --items 20000 --repetitions 2 --milliseconds 2";
    let output = nunatak(&directory, &run.split(' ').collect::<Vec<_>>());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let place = |what: &str| told.find(what).unwrap_or_else(|| panic!("no {what} in {told}"));
    assert!(place("step 3 of 12") < place("1 thread "), "{told}");
    assert!(place("1 thread ") < place("step 4 of 12"), "{told}");
    assert!(place("step 6 of 12") < place("2 threads "), "{told}");
    assert!(place("2 threads ") < place("step 7 of 12"), "{told}");
    assert_eq!(told.matches("After the first of 2 repetitions").count(), 2, "{told}");
}

#[test]
fn everything_is_measured_and_reported() {
    let directory = directory("everything");
    fs::write(directory.join("README.md"), "ice and rock, rock and ice\n").expect("a text");
    let output = nunatak(
        &directory,
        &[
            "bench",
            "--quick",
            "--items",
            "20000",
            "--repetitions",
            "1",
            "--milliseconds",
            "2",
            "--json",
            "run.json",
            "--html",
            "run.html",
        ],
    );
    // There is no terminal for a bar.
    let steps = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(steps.contains(": limit of memory, threads 1\n"), "{steps}");
    assert!(steps.contains(": dashmap, threads 1\n"), "{steps}");
    let tables = String::from_utf8(output.stdout).expect("the tables are text");
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(directory.join("run.json")).expect("the run"))
            .expect("the run is JSON");
    let rows = json["rows"].as_array().expect("there are rows");
    let operation = |row: &serde_json::Value| row["operation"].as_str().map(str::to_owned);
    for workload in [
        "insert",
        "insert/batch",
        "grow",
        "grow/batch",
        "get-hit",
        "get-hit/batch",
        "get-miss",
        "insdel",
        "insdel/batch",
        "delete",
        "delete/batch",
        "delete-half",
        "delete-half/batch",
        "mixed-inserts/20",
        "mixed-inserts/50",
        "ycsb-d",
        "ycsb-d/batch",
        "put-heavy",
        "update-only",
        "ycsb-load",
        "ycsb-load/a",
        "ycsb-a/uniform",
        "ycsb-b/zipf",
        "ycsb-c/zipf",
        "ycsb-f/uniform",
        "latency/insert",
        "latency/get",
        "latency-a/insert",
        "latency-a/get",
        "latency-a/miss",
        "grown/insert",
        "grown/get",
        "grown/miss",
        "grown/delete",
        "space/pre-sized",
        "space/grown",
        "levels",
        "words",
    ] {
        assert!(rows.iter().any(|row| operation(row).as_deref() == Some(workload)), "{workload}");
        assert!(tables.contains(workload), "{workload}");
    }
    let step = rows.iter().find(|row| operation(row).as_deref() == Some("fill/95"));
    assert!(step.is_some_and(|row| row["bytes_per_item"].as_f64().is_some()));
    assert!(tables.contains("95 %"));
    let has_limit = |row: &serde_json::Value| row["share"].as_f64().is_some_and(|s| s > 0.0);
    assert!(rows.iter().any(has_limit));
    assert!(json["limit"]["1"]["reads_mops"].as_f64().is_some_and(|mops| mops > 0.0));

    nunatak(&directory, &["report", "run.json", "--html", "again.html", "--chart", "chart.svg"]);
    let chart = fs::read_to_string(directory.join("chart.svg")).expect("the chart");
    assert!(chart.starts_with("<svg ") && chart.ends_with("</svg>\n"));
    let page = |name: &str| fs::read_to_string(directory.join(name)).expect("the page");
    assert_eq!(page("run.html"), page("again.html"));

    let same = nunatak(&directory, &["bench", "compare", "run.json", "run.json"]);
    assert!(String::from_utf8_lossy(&same.stdout).contains("0 measures are worse, 0 are better"));
    let mut slower = json;
    let rows = slower["rows"].as_array_mut().expect("rows");
    let row = rows.iter_mut().find(|row| row["operation"] == "get-hit").expect("a row");
    for mops in ["mops", "mops_min", "mops_max"] {
        row[mops] = (row[mops].as_f64().expect("a throughput") / 2.0).into();
    }
    fs::write(directory.join("slower.json"), slower.to_string()).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_nunatak"))
        .args(["bench", "compare", "run.json", "slower.json"])
        .current_dir(&directory)
        .output()
        .expect("the command starts");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("1 measures are worse") && text.contains("get-hit"), "{text}");
}

/// Experiments with other kinds of maps and with options of their own write the same files.
#[test]
#[cfg(feature = "experiments")]
fn experiments_are_measured_and_reported() {
    let directory = directory("experiments");
    fs::write(directory.join("edges"), "1 2\n1 3\n2 1\n").expect("edges");
    let command = "bench growth probes blobs ycsb-blobs duplicates access --items 3000 --milliseconds 1 --repetitions 2 \
                   --threads 1,2 --maps turbo,pea,dashmap,papaya,scc,sharded --growth-steps 2 \
                   --growth-operations 50 --blobs-key-bytes 9 --duplicates-scale 0.001 \
                   --duplicates-sources zipf-0.8,wiki-talk,edges --json run.json --html run.html";
    nunatak(&directory, &command.split_whitespace().collect::<Vec<_>>());
    let json = fs::read_to_string(directory.join("run.json")).expect("the run");
    let json: serde_json::Value = serde_json::from_str(&json).expect("the run is JSON");
    let page = fs::read_to_string(directory.join("run.html")).expect("the page");
    let figures = json["figures"].as_array().expect("there are figures");
    let points = |name: &str| -> Vec<usize> {
        let of_it = figures.iter().filter(|figure| figure["experiment"] == name);
        of_it.map(|figure| figure["points"].as_array().map_or(0, Vec::len)).collect()
    };
    // Two repetitions of two steps of six maps, their slow inserts, the resizes that two of the maps
    // count, and their space. Seven scopes, and three states of four loads. Two numbers of threads with
    // five rows each (four maps, of which ours also runs in batches), and the same from three sources.
    assert_eq!(points("growth"), [24, 12, 4, 12]);
    assert_eq!(points("probes"), [7, 12, 12 * 16]);
    assert_eq!(points("blobs"), [10]);
    // Four maps without batches; seven sizes of groups; the memory of one map, from three sources.
    assert_eq!(points("ycsb-blobs"), [8]);
    assert_eq!(points("access"), [14]);
    assert_eq!(points("duplicates"), [30, 3]);
    assert!(["growth", "probes", "blobs", "duplicates"].iter().all(|name| page.contains(name)));
}

/// Runs `nunatak bench` in a new directory and returns the JSON of the run.
#[cfg(all(durable, feature = "experiments"))]
fn run_of(name: &str, command: &str) -> serde_json::Value {
    let directory = directory(name);
    let command = format!("bench {command} --json run.json");
    nunatak(&directory, &command.split_whitespace().collect::<Vec<_>>());
    let json = fs::read_to_string(directory.join("run.json")).expect("the run");
    serde_json::from_str(&json).expect("the run is JSON")
}

/// A file of a killed process is opened as one, and gets restore it part by part. One that was
/// closed needs no restoring. (The experiment itself checks that no item is lost.)
#[test]
#[cfg(all(durable, feature = "experiments"))]
fn maps_of_killed_processes_are_opened() {
    let items = "--repetitions 1 --after-kill-items 3000,40000";
    let json = run_of("after-kill", &format!("after-kill {items}"));
    let points = json["figures"][0]["points"].as_array().expect("there are points");
    // Three maps of two sizes, each killed and closed.
    assert_eq!(points.len(), 12);
    for point in points {
        let at = |parameter: usize| point["at"][parameter].as_str().expect("a parameter");
        let value = |measure: usize| point["values"][measure].as_f64();
        let (touches, keys) = (value(2).expect("a count"), value(7).expect("a count"));
        let items: f64 = at(1).parse().expect("a number");
        let restores_later = at(0) != "iceberg-file" && at(2) == "killed";
        assert_eq!(touches > 0.0, restores_later, "{point}");
        assert_eq!((value(3).is_some(), value(4).is_some()), (restores_later, restores_later));
        assert!(if at(2) == "closed" { keys == items } else { keys >= items }, "{point}");
        assert!(value(6) > Some(0.0) && value(0) > Some(0.0) && value(1) > Some(0.0), "{point}");
    }
}

/// Everything that the papers measure runs, agrees with them where the machine does not matter, and makes
/// a folder of pages.
#[test]
#[cfg(all(durable, feature = "experiments"))]
fn the_papers_are_run_and_compared() {
    let directory = directory("papers");
    let command =
        "bench papers --items 20000 --milliseconds 1 --check --json run.json --html run.html";
    let output = nunatak(&directory, &command.split_whitespace().collect::<Vec<_>>());
    let text = String::from_utf8(output.stdout).expect("the tables are text");
    for paper in ["HPDC '24", "SIGMOD '23", "SYSTOR '23"] {
        assert!(text.contains(&format!("({paper})")), "{paper}");
    }
    let json = fs::read_to_string(directory.join("run.json")).expect("the run");
    let json: serde_json::Value = serde_json::from_str(&json).expect("the run is JSON");
    assert!(json["failures"].is_null(), "{}", json["failures"]);
    let figures = json["figures"].as_array().expect("there are figures");
    let is_empty =
        |figure: &serde_json::Value| figure["points"].as_array().is_none_or(Vec::is_empty);
    assert_eq!(figures.iter().find(|figure| is_empty(figure)), None);

    nunatak(&directory, &["report", "pages", "--from", "run.json"]);
    let pages = directory.join("pages");
    let read = |name: &str| fs::read_to_string(pages.join(name)).expect("a page");
    let front = read("index.html");
    assert!(front.contains("Lookups of numbers in RAM shall be fast") && front.contains("<svg"));
    for name in ["map-dlht.html", "paper-pea.html", "method.html", "data/rows.csv"] {
        assert!(read(name).len() > 1000, "{name}");
    }
    // The folder has its run, and can be drawn again.
    nunatak(&directory, &["report", "pages"]);
    assert_eq!(read("index.html"), front);
}

/// The level for persistent memory runs on any file system, says on which, and flushes: an insert can't be
/// faster than the line that it writes back. Nor is a get faster than the line that it reads.
#[test]
#[cfg(durable)]
fn maps_in_files_flush_at_the_level_for_persistent_memory() {
    let size = "--items 200 --threads 1 --repetitions 1 --milliseconds 1";
    let level = "--durability persistent-memory --dir . --device-latency 10000,10000";
    let maps = "iceberg-file,pea-file,turbo-file";
    let directory = directory("durability");
    let command = format!("bench insert get-hit --maps {maps} {size} {level} --json run.json");
    let output = nunatak(&directory, &command.split_whitespace().collect::<Vec<_>>());
    let text = String::from_utf8(output.stdout).expect("the tables are text");
    assert!(text.contains("persistent-memory: ") && text.contains("by waits"), "{text}");
    let json = fs::read_to_string(directory.join("run.json")).expect("the run");
    let json: serde_json::Value = serde_json::from_str(&json).expect("the run is JSON");
    assert!(json["failures"].is_null(), "{}", json["failures"]);
    let said = json["params"]["files"][0].as_str().expect("on what the files are");
    assert!(said.contains("an emulation") && said.contains("10000 ns longer"), "{said}");
    let rows = json["rows"].as_array().expect("rows");
    for map in maps.split(',') {
        let name = format!("{map}@persistent-memory, 10000+10000 ns");
        let of_map: Vec<_> = rows.iter().filter(|row| row["map"] == name.as_str()).collect();
        let insert = of_map.iter().find(|row| row["operation"] == "insert").expect("inserts");
        assert!(insert["mops"].as_f64() <= Some(0.05), "{insert}");
        let get = of_map.iter().find(|row| row["operation"] == "get-hit").expect("gets");
        assert!(get["mops"].as_f64() <= Some(0.1), "{get}");
        assert!(
            of_map.iter().all(|row| !row["operation"].to_string().contains("batch")),
            "{rows:?}"
        );
    }
    // Nothing is left in the folder but what was asked for.
    assert_eq!(fs::read_dir(&directory).expect("the folder").count(), 1);
}

/// Of 32 gets that are under way at a time each waits for its line, and so does one alone.
#[cfg(feature = "experiments")]
#[test]
fn gets_wait_for_memory_that_is_farther_away() {
    let directory = directory("remote");
    let command = "bench remote-memory --maps dlht,dashmap --items 1000 --milliseconds 1 \
                   --device-latency 20000 --json run.json";
    nunatak(&directory, &command.split_whitespace().collect::<Vec<_>>());
    let json = fs::read_to_string(directory.join("run.json")).expect("the run");
    let json: serde_json::Value = serde_json::from_str(&json).expect("the run is JSON");
    let points = json["figures"][0]["points"].as_array().expect("there are points");
    let at: Vec<_> = points.iter().map(|point| point["at"].to_string()).collect();
    assert_eq!(at, [r#"["dlht","0"]"#, r#"["dlht","20000"]"#], "maps of others have no prefetch");
    let value = |measure: usize| points[1]["values"][measure].as_f64();
    // The first of a group of 32 may have waited before the clock is looked at.
    assert!(value(0) <= Some(1.7) && value(1) <= Some(0.051), "{}", points[1]);
}

/// The writes of a map of each kind do not depend on the machine.
#[test]
#[cfg(all(durable, feature = "experiments"))]
fn writes_are_counted() {
    let directory = directory("accounting");
    let command = "bench accounting --items 1000 --milliseconds 1 --repetitions 1 --threads 1 \
                   --maps iceberg,pea,turbo --accounting-slots 2000 --accounting-loads 25 \
                   --accounting-operations 50 --device-latency 305,94 --json run.json";
    nunatak(&directory, &command.split_whitespace().collect::<Vec<_>>());
    let json = fs::read_to_string(directory.join("run.json")).expect("the run");
    let json: serde_json::Value = serde_json::from_str(&json).expect("the run is JSON");
    let points = json["figures"][0]["points"].as_array().expect("there are points");
    let strings = "turbo, 15 + 15 bytes";
    for (map, operations) in
        [("iceberg", 5), ("pea", 5), ("pea, many values", 8), ("turbo", 5), (strings, 5)]
    {
        assert_eq!(points.iter().filter(|point| point["at"][0] == map).count(), operations);
    }
    let insert = points.iter().find(|point| point["at"][2] == "insert").expect("inserts");
    let fences = insert["values"][6].as_f64().expect("a mean");
    assert!((1.0..4.0).contains(&fences) && insert["values"][7].as_f64() > Some(90.0));
    // A byte string is written beside its bucket, in a block of its own.
    let updates = |map: &str| {
        let is_it =
            |point: &&serde_json::Value| point["at"][0] == map && point["at"][2] == "update";
        points.iter().find(is_it).and_then(|point| point["values"][9].as_f64())
    };
    assert_eq!(updates("turbo"), Some(256.0));
    assert!(updates(strings) >= Some(512.0), "{:?}", updates(strings));
}

#[test]
fn keys_can_be_sequential_or_zipf() {
    let directory = directory("keys");
    for keys in ["sequential", "zipf"] {
        let arguments = ["--items", "5000", "--repetitions", "1", "--milliseconds", "1"];
        let workloads = ["bench", "get-hit", "get-miss", "insdel", "--keys", keys];
        let report = ["--json", "run.json"];
        nunatak(&directory, &[&workloads[..], &arguments[..], &report[..]].concat());
        let json = fs::read_to_string(directory.join("run.json")).expect("the run");
        let json: serde_json::Value = serde_json::from_str(&json).expect("the run is JSON");
        assert_eq!(json["params"]["keys"], keys);
        assert!(json["failures"].is_null(), "{}", json["failures"]);
        let rows = json["rows"].as_array().expect("rows");
        for workload in ["get-hit", "get-miss", "insdel"] {
            let of_it = |row: &&serde_json::Value| {
                row["operation"].as_str().is_some_and(|operation| operation.starts_with(workload))
            };
            let mut of_it = rows.iter().filter(of_it).peekable();
            assert!(of_it.peek().is_some(), "no row of {workload} with keys that are {keys}");
            assert!(
                of_it.all(|row| row["mops"].as_f64().is_some_and(|mops| mops > 0.0)),
                "{rows:?}"
            );
        }
    }
}

#[cfg(feature = "experiments")]
#[test]
fn blocks_of_every_size_can_be_compared() {
    let maps = "iceberg-95,iceberg-64x6,iceberg-64x4,iceberg-32x8,iceberg-32x6,iceberg-32x4";
    let arguments = ["--items", "20000", "--repetitions", "1", "--milliseconds", "1"];
    let workloads = ["bench", "insert", "get-hit", "delete", "levels", "--maps", maps];
    let output = nunatak(&directory("blocks"), &[&workloads[..], &arguments[..]].concat());
    let tables = String::from_utf8(output.stdout).expect("the tables are text");
    assert!(maps.split(',').all(|map| tables.matches(map).count() > 1), "{tables}");
}

#[test]
fn workloads_and_maps_are_listed() {
    let output = nunatak(&directory("list"), &["bench", "--list"]);
    let list = String::from_utf8(output.stdout).expect("the list is text");
    assert!(["ycsb-f", "latency", "dlht", "sharded"].iter().all(|name| list.contains(name)));
}

/// Maps of C++ are measured if they are in the build; the message about others says what to install.
#[test]
fn maps_of_cpp_are_measured_or_named() {
    let directory = directory("cpp");
    let list = String::from_utf8(nunatak(&directory, &["bench", "--list"]).stdout).expect("text");
    let mut built = Vec::new();
    for map in ["tbb", "libcuckoo", "boost", "absl-sharded"] {
        let mut lines = list.lines();
        let line = lines.find(|line| line.trim_start().starts_with(map)).expect("it is listed");
        if !line.ends_with("(not in this build)") {
            built.push(map);
            continue;
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_nunatak"));
        let output = command.args(["bench", "get-hit", "--maps", map]).output().expect("it starts");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains("scripts/peers.sh"), "{message}");
    }
    if built.is_empty() {
        return;
    }
    let options = "--items 20000 --repetitions 1 --milliseconds 2 --threads 1,2 --json run.json --html run.html";
    let command = format!("bench --maps dlht,{} {options}", built.join(","));
    let output = nunatak(&directory, &command.split_whitespace().collect::<Vec<_>>());
    assert!(String::from_utf8_lossy(&output.stderr).contains("latency, latency-a, words"));
    let json = fs::read_to_string(directory.join("run.json")).expect("the run");
    let json: serde_json::Value = serde_json::from_str(&json).expect("the run is JSON");
    assert!(json["failures"].is_null(), "{}", json["failures"]);
    let rows = json["rows"].as_array().expect("there are rows");
    let operations = |map: &str, threads: u64| -> Vec<&str> {
        let of_it = rows.iter().filter(|row| row["map"] == map && row["threads"] == threads);
        of_it.filter_map(|row| row["operation"].as_str()).collect()
    };
    // As many unbatched operations as our map has, but for those that are refused, and the memory with one
    // thread.
    let refused = ["latency", "words", "levels"];
    for threads in [1, 2] {
        let is_expected = |operation: &&str| {
            !operation.ends_with("/batch")
                && !refused.iter().any(|name| operation.starts_with(name))
        };
        let expected: Vec<&str> =
            operations("dlht", threads).into_iter().filter(is_expected).collect();
        assert!(expected.len() > 20, "{expected:?}");
        for map in &built {
            let mut measured = operations(map, threads);
            measured.retain(|operation| !operation.ends_with("/batch"));
            assert_eq!(measured, expected, "{map}");
        }
    }
    let has_batches = operations("boost", 2).contains(&"get-hit/batch");
    println!("measured: {built:?}; batches of boost: {has_batches}");
    let page = fs::read_to_string(directory.join("run.html")).expect("the page");
    assert!(built.iter().all(|map| page.contains(map)));
}

#[test]
fn wrong_arguments_are_refused() {
    let refused = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nunatak"));
        let output = command.args(arguments).output().expect("the command starts");
        !output.status.success() && !output.stderr.is_empty()
    };
    assert!(refused(&["bench", "--threads", "0"]));
    assert!(refused(&["bench", "nothing"]));
    assert!(refused(&["bench", "duplicates", "--duplicates-sources", "zipf-2"]));
    assert!(refused(&["bench", "blobs", "--blobs-key-bytes", "7"]));
    assert!(refused(&["bench", "blobs", "--maps", "flurry", "--items", "9"]));
    assert!(refused(&["bench", "words", "--text", "absent.txt"]));
    assert!(refused(&["bench", "skew", "--durability", "persistent-memory"]));
    assert!(refused(&["bench", "insert", "--dir", "absent", "--items", "9"]));
    assert!(refused(&["bench", "insert", "--durability", "interval:0"]));
    assert!(refused(&["report", "absent.json"]));
}
