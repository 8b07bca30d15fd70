//! The command as its users start it.

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

/// An empty directory for the test of that name.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if directory.exists() {
        fs::remove_dir_all(&directory).expect("an old directory can be removed");
    }
    fs::create_dir_all(&directory).expect("a directory can be made");
    directory
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
        "put-heavy",
        "ycsb-load",
        "ycsb-load/a",
        "ycsb-a/uniform",
        "ycsb-b/zipf",
        "ycsb-c/zipf",
        "ycsb-f/uniform",
        "latency/insert",
        "latency/get",
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

    nunatak(&directory, &["report", "run.json", "--html", "again.html"]);
    let page = |name: &str| fs::read_to_string(directory.join(name)).expect("the page");
    assert_eq!(page("run.html"), page("again.html"));
}

#[test]
fn keys_can_be_sequential_or_zipf() {
    let directory = directory("keys");
    for keys in ["sequential", "zipf"] {
        let arguments = ["--items", "5000", "--repetitions", "1", "--milliseconds", "1"];
        let workloads = ["bench", "get-hit", "get-miss", "insdel", "--keys", keys];
        nunatak(&directory, &[&workloads[..], &arguments[..]].concat());
    }
}

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
    assert!(["ycsb-f", "latency", "nunatak", "sharded"].iter().all(|name| list.contains(name)));
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
    assert!(refused(&["bench", "words", "--text", "absent.txt"]));
    assert!(refused(&["report", "absent.json"]));
}
