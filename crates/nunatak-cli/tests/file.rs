//! `nunatak file`, as a shell uses it.
#![cfg(durable)]

use nunatak::durable::{IcebergMap, Options, PeaMap};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn nunatak(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nunatak"));
    command.arg("file").args(arguments).current_dir(directory);
    command.output().expect("the command runs")
}

/// Runs a command that must end with this code, and returns its output.
fn ends_with(code: i32, arguments: &[&str], directory: &Path) -> (String, String) {
    let output = nunatak(arguments, directory);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let (out, error) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {out} {error}");
    (out, error)
}

const MAPS: [&str; 7] =
    ["iceberg", "pea", "pea-multi", "turbo", "turbo-blobs", "pea-blobs", "iceberg-blobs"];

#[test]
fn pairs_are_stored_and_found() {
    MAPS.into_iter().filter(|&map| !map.ends_with("-blobs")).for_each(store_and_find);
}

/// Bytes that can't be typed have escapes in the input and in the output.
#[test]
fn byte_strings_are_text() {
    MAPS.into_iter().filter(|map| map.ends_with("-blobs")).for_each(are_byte_strings_text);
}

fn are_byte_strings_text(map: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    ends_with(0, &["put", "a.map", "nunatak", "stands still", "--map", map], at);
    ends_with(0, &["put", "a.map", "", ""], at);
    ends_with(0, &["put", "a.map", r"tab\t\xff", "0x10"], at);
    assert_eq!(ends_with(0, &["get", "a.map", "nunatak", ""], at).0, "stands still\n\n");
    let scanned = ends_with(0, &["scan", "a.map"], at).0;
    assert!(scanned.lines().any(|line| line == "tab\\t\\xff\t0x10"), "{scanned}");
    for format in ["tsv", "binary"] {
        let copy = format!("{format}.map");
        ends_with(0, &["dump", "a.map", "dump", "--format", format], at);
        let restore = ["restore", &copy, "dump", "--format", format, "--map", map];
        ends_with(0, &restore, at);
        assert_eq!(ends_with(0, &["get", &copy, r"tab\t\xff"], at).0, "0x10\n");
    }
    assert!(ends_with(0, &["stats", "a.map"], at).0.contains("pieces of 64 KiB"));
    ends_with(0, &["del", "a.map", "nunatak"], at);
    assert!(ends_with(0, &["verify", "a.map"], at).0.starts_with("2 pairs"));
}

/// Beside a server's log a file is read, and not changed.
#[test]
fn a_file_with_a_log_is_not_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    ends_with(0, &["put", "a.map", "k", "v", "--map", "turbo-blobs"], at);
    std::fs::write(at.join("a.map.log"), "u").expect("a log");
    let before = std::fs::read(at.join("a.map")).expect("the map");
    for command in [&["put", "a.map", "k", "w"][..], &["del", "a.map", "k"], &["compact", "a.map"]]
    {
        let (_, error) = ends_with(3, command, at);
        assert!(error.contains("nunatak-server --file a.map"), "{command:?}: {error}");
    }
    assert!(std::fs::read(at.join("a.map")).expect("the map") == before);
    assert_eq!(ends_with(0, &["get", "a.map", "k"], at).0, "v\n");
    std::fs::remove_file(at.join("a.map.log")).expect("no log");
    ends_with(0, &["put", "a.map", "k", "w"], at);
}

fn store_and_find(map: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    ends_with(0, &["create", "a.map", "--capacity", "1000", "--map", map], at);
    ends_with(0, &["put", "a.map", "7", "49"], at);
    ends_with(0, &["put", "a.map", "0xff", "1"], at);
    assert_eq!(ends_with(0, &["get", "a.map", "7", "255"], at).0, "49\n1\n");
    assert!(ends_with(1, &["get", "a.map", "8"], at).1.contains("8 is absent"));
    ends_with(0, &["del", "a.map", "7"], at);
    ends_with(1, &["del", "a.map", "7"], at);
    assert_eq!(ends_with(0, &["scan", "a.map"], at).0, "255\t1\n");
    assert!(ends_with(0, &["verify", "a.map"], at).0.starts_with("1 pairs"));
    assert!(ends_with(0, &["stats", "a.map"], at).0.contains("pairs                1\n"));
}

#[test]
fn what_was_dumped_is_restored() {
    MAPS.into_iter().for_each(dump_and_restore);
}

fn dump_and_restore(map: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    let text: String = (0..5000_u64).map(|key| format!("{key}\t{}\n", key * key)).collect();
    std::fs::write(at.join("pairs.tsv"), text).expect("a file");
    let load = ["load", "a.map", "pairs.tsv", "--map", map];
    let (name, new) = match map {
        "pea" => ("Pea Hash,", "5000 keys were new"),
        "iceberg-blobs" => ("IcebergHT of byte strings, byte-string", "5000 keys were new"),
        "pea-blobs" => ("Pea Hash of byte strings, byte-string", "5000 keys were new"),
        "turbo-blobs" => ("TurboHash of byte strings, byte-string", "5000 keys were new"),
        "turbo" => ("TurboHash,", "5000 keys were new"),
        "pea-multi" => ("Pea Hash of many values", "5000 values were new"),
        _ => ("IcebergHT", "5000 keys were new"),
    };
    assert!(ends_with(0, &load, at).1.contains(new));
    assert!(ends_with(0, &["stats", "a.map"], at).0.contains(name));
    if map != "pea-multi" {
        ends_with(0, &["load", "a.map", "pairs.tsv", "--durability", "synced"], at);
    }
    for format in ["tsv", "binary"] {
        let dump = format!("dump.{format}");
        let copy = format!("{format}.map");
        ends_with(0, &["dump", "a.map", &dump, "--format", format], at);
        ends_with(0, &["restore", &copy, &dump, "--format", format, "--map", map], at);
        assert_eq!(ends_with(0, &["get", &copy, "70"], at).0, "4900\n");
        assert!(ends_with(0, &["verify", &copy], at).0.starts_with("5000 pairs"));
    }
    let keys: Vec<String> = (10..5000_u64).map(|key| key.to_string()).collect();
    let mut arguments = vec!["del", "a.map"];
    arguments.extend(keys.iter().map(String::as_str));
    ends_with(0, &arguments, at);
    ends_with(0, &["compact", "a.map"], at);
    assert_eq!(ends_with(0, &["scan", "a.map", "--limit", "3"], at).0.lines().count(), 3);
}

/// A bad line, and nothing of the input is there; a good input, and all of it is.
#[test]
fn an_atomic_load_stores_everything_or_nothing() {
    for map in MAPS {
        let directory = tempfile::tempdir().expect("a directory");
        let at = directory.path();
        let good: String = (0..3000_u64).map(|key| format!("{key}\t{}\n", key + 1)).collect();
        std::fs::write(at.join("good.tsv"), &good).expect("a file");
        std::fs::write(at.join("bad.tsv"), good + "3000 3001\n").expect("a file");
        let load = |code, input| {
            ends_with(code, &["load", "a.map", input, "--map", map, "--atomic"], at).1
        };
        let error = load(3, "bad.tsv");
        assert!(error.contains("bad.tsv:3001") && !error.contains("were stored"), "{error}");
        assert!(!at.join("a.map").exists());
        ends_with(0, &["put", "a.map", "5000", "1", "--map", map], at);
        let before = std::fs::read(at.join("a.map")).expect("a file");
        load(3, "bad.tsv");
        assert!(ends_with(0, &["verify", "a.map"], at).0.starts_with("1 pairs"));
        assert_eq!(std::fs::read(at.join("a.map")).expect("a file").len(), before.len());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(at.join("a.map"), mode).expect("its mode is set");
        std::os::unix::fs::symlink("a.map", at.join("link")).expect("a link");
        let loaded = ["load", "link", "good.tsv", "--map", map, "--atomic"];
        assert!(ends_with(0, &loaded, at).1.contains("3000"));
        assert!(ends_with(0, &["verify", "a.map"], at).0.starts_with("3001 pairs"));
        let mode = at.join("a.map").metadata().expect("a file").permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
        let names: Vec<_> = std::fs::read_dir(at).expect("a directory").flatten().collect();
        assert_eq!(names.len(), 4, "{names:?}");
    }
}

/// A process that may have few addresses reserves fewer, and still opens a file that takes more
/// than its share of them.
#[test]
fn few_addresses_are_enough() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    let text: String = (0..500_000_u64).map(|key| format!("{key}\t{key}\n")).collect();
    std::fs::write(at.join("pairs.tsv"), text).expect("a file");
    let limited = |arguments: &str| {
        let command = format!("ulimit -v 400000 && exec \"$0\" file {arguments}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &command, env!("CARGO_BIN_EXE_nunatak")]).current_dir(at);
        let output = shell.output().expect("the command runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments}: {error}");
        String::from_utf8(output.stdout).expect("text")
    };
    for map in MAPS {
        limited(&format!("put {map} 1 10 --map {map}"));
        assert_eq!(limited(&format!("get {map} 1")), "10\n");
        let large = format!("{map}.large");
        ends_with(0, &["load", &large, "pairs.tsv", "--map", map], at);
        limited(&format!("put {large} 500000 7"));
        assert_eq!(limited(&format!("get {large} 499999 500000")), "499999\n7\n");
        std::fs::remove_file(at.join(large)).expect("the file was there");
    }
}

/// In a map of many values a key has all values that were stored for it.
#[test]
fn a_key_has_many_values() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    let text: String = (0..300).map(|n| format!("{}\t{n}\n", n % 3)).collect();
    std::fs::write(at.join("pairs.tsv"), text).expect("a file");
    ends_with(0, &["load", "a.map", "pairs.tsv", "--map", "pea-multi"], at);
    ends_with(0, &["put", "a.map", "7", "1"], at);
    ends_with(0, &["put", "a.map", "7", "1"], at);
    assert_eq!(ends_with(0, &["get", "a.map", "7"], at).0, "1\n1\n");
    assert_eq!(ends_with(0, &["get", "a.map", "2"], at).0.lines().count(), 100);
    assert!(ends_with(0, &["stats", "a.map"], at).0.contains("values in buffers    300\n"));
    ends_with(0, &["del", "a.map", "2"], at);
    ends_with(1, &["get", "a.map", "2"], at);
    assert!(ends_with(0, &["verify", "a.map"], at).0.starts_with("202 pairs"));
}

/// A dump that is damaged, cut or of other types makes no map, and no dump takes a map's place.
#[test]
fn only_whole_dumps_are_restored() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    let refused = |arguments: &[&str], why: &str| {
        let (_, error) = ends_with(3, arguments, at);
        assert!(error.contains(why), "{error}");
    };
    let text: String = (0..10_000).map(|n| format!("{}\t{n}\n", n % 100)).collect();
    std::fs::write(at.join("pairs.tsv"), text).expect("a file");
    ends_with(0, &["load", "many.map", "pairs.tsv", "--map", "pea-multi"], at);
    ends_with(0, &["dump", "many.map", "dump"], at);
    let dump = std::fs::read(at.join("dump")).expect("the dump");
    for (name, contents) in [("cut", &dump[..dump.len() - 13]), ("none", &dump[..0])] {
        std::fs::write(at.join(name), contents).expect("a file");
        refused(&["restore", "new.map", name], name_of(name));
    }
    let mut damaged = dump.clone();
    damaged[100_000] ^= 1;
    std::fs::write(at.join("damaged"), &damaged).expect("a file");
    refused(&["restore", "new.map", "damaged"], "damaged");
    refused(&["restore", "new.map", "dump", "--map", "turbo-blobs"], "does not hold byte-string");
    refused(&["restore", "new.map", "dump", "--map", "iceberg"], "use another --map");
    refused(&["restore", "many.map", "dump"], "exists");
    assert!(!at.join("new.map").exists());
    let before = std::fs::read(at.join("many.map")).expect("the map");
    refused(&["dump", "many.map", "many.map"], "the output is a map");
    assert!(std::fs::read(at.join("many.map")).expect("the map") == before);
    // The kind is that of the dump.
    ends_with(0, &["restore", "new.map", "dump"], at);
    assert!(ends_with(0, &["verify", "new.map"], at).0.starts_with("10000 pairs"));
    assert_eq!(ends_with(0, &["get", "new.map", "7"], at).0.lines().count(), 100);
    let expected = ["cut", "damaged", "dump", "many.map", "new.map", "none", "pairs.tsv"];
    let entries = std::fs::read_dir(at).expect("the directory");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    assert_eq!(names, expected);
}

fn name_of(input: &str) -> &'static str {
    if input == "cut" { "the dump is not whole" } else { "this is no dump" }
}

#[test]
fn a_damaged_file_is_salvaged() {
    for map in MAPS {
        let directory = tempfile::tempdir().expect("a directory");
        let at = directory.path();
        ends_with(0, &["put", "a.map", "7", "49", "--map", map], at);
        let mut bytes = std::fs::read(at.join("a.map")).expect("the file");
        // The session, in both copies of the header.
        [128, 4096 + 128].into_iter().for_each(|byte| bytes[byte] ^= 1);
        std::fs::write(at.join("a.map"), bytes).expect("the file");
        assert!(ends_with(3, &["get", "a.map", "7"], at).1.contains("header"));
        assert_eq!(ends_with(0, &["get", "a.map", "7", "--forced"], at).0, "49\n", "{map}");
        let (out, error) = ends_with(0, &["salvage", "a.map", "new.map"], at);
        assert!(out.starts_with("1 pairs, and 0") && error.contains("header"), "{out}{error}");
        assert_eq!(ends_with(0, &["get", "new.map", "7"], at).0, "49\n", "{map}");
        assert!(ends_with(3, &["salvage", "a.map", "new.map"], at).1.contains("exists"));
    }
}

#[test]
fn a_backup_is_a_map() {
    for map in MAPS {
        let directory = tempfile::tempdir().expect("a directory");
        let at = directory.path();
        ends_with(0, &["put", "a.map", "7", "49", "--map", map], at);
        assert_eq!(ends_with(0, &["backup", "a.map", "copy.map"], at).0, "1 pairs\n");
        assert_eq!(ends_with(0, &["get", "copy.map", "7"], at).0, "49\n");
        let (_, error) = ends_with(3, &["backup", "a.map", "copy.map"], at);
        assert!(error.contains("exists already"), "{error}");
    }
}

/// While another map has the file open, what only reads sees the last sync.
#[test]
fn a_file_in_use_is_read_as_of_its_last_sync() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    let map: PeaMap<u64, u64> = PeaMap::create(at.join("a.map")).expect("a map");
    map.insert(7, 49).expect("an insert");
    map.sync().expect("a sync");
    map.insert(7, 50).expect("an insert");
    map.insert(8, 64).expect("an insert");
    let (found, note) = ends_with(0, &["get", "a.map", "7"], at);
    assert!(found == "49\n" && note.contains("a.map: in use"), "{found} {note}");
    assert_eq!(ends_with(0, &["scan", "a.map"], at).0, "7\t49\n");
    assert!(ends_with(0, &["verify", "a.map"], at).0.starts_with("1 pairs"));
    assert!(ends_with(0, &["stats", "a.map"], at).0.contains("pairs"));
    assert_eq!(ends_with(0, &["backup", "a.map", "copy.map"], at).0, "1 pairs\n");
    ends_with(0, &["dump", "a.map", "dump"], at);
    assert!(ends_with(3, &["put", "a.map", "7", "1"], at).1.contains("in use"));
    map.sync().expect("a sync");
    assert_eq!(ends_with(0, &["get", "a.map", "7", "8"], at).0, "50\n64\n");
    assert_eq!(ends_with(0, &["get", "copy.map", "7"], at).0, "49\n");
    assert_eq!((map.len(), map.verify()), (2, Ok(2)));
}

/// An `iceberg` map changes where it is. Its process makes snapshots if it was told to.
#[test]
fn a_file_in_use_is_read_as_a_snapshot_of_its_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    let options = Options::new().answer_readers(true);
    let path = at.join("a.map");
    let map: IcebergMap<u64, u64> = IcebergMap::create_with(&path, &options).expect("a map");
    map.insert(7, 49).expect("an insert");
    let (found, note) = ends_with(0, &["get", "a.map", "7"], at);
    assert!(found == "49\n" && note.contains("a.map: in use"), "{found} {note}");
    map.insert(7, 50).expect("an insert");
    assert_eq!(ends_with(0, &["get", "a.map", "7"], at).0, "50\n");
    assert_eq!(ends_with(0, &["scan", "a.map"], at).0, "7\t50\n");
    assert!(ends_with(0, &["verify", "a.map"], at).0.starts_with("1 pairs"));
    assert!(ends_with(0, &["stats", "a.map"], at).0.contains("pairs"));
    assert_eq!(ends_with(0, &["backup", "a.map", "copy.map"], at).0, "1 pairs\n");
    ends_with(0, &["dump", "a.map", "dump"], at);
    ends_with(0, &["restore", "b.map", "dump"], at);
    for copy in ["copy.map", "b.map"] {
        assert_eq!(ends_with(0, &["scan", copy], at).0, "7\t50\n");
    }
    assert!(ends_with(3, &["put", "a.map", "7", "1"], at).1.contains("in use"));
    map.close().expect("a close");
    let map: IcebergMap<u64, u64> = IcebergMap::open(&path).expect("a map");
    let (_, error) = ends_with(3, &["get", "a.map", "7"], at);
    assert!(error.contains("`answer_readers`") && error.contains("`backup`"), "{error}");
    assert_eq!((map.len(), map.verify()), (1, Ok(1)));
}

/// `load` answers readers while it waits for its input.
#[test]
fn a_file_that_is_loaded_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nunatak"));
    command.args(["file", "load", "a.map"]).current_dir(at);
    command.stdin(Stdio::piped()).stderr(Stdio::null());
    let mut load = command.spawn().expect("the command runs");
    let mut input = load.stdin.take().expect("its input");
    let pairs: String = (0..5000).map(|key| format!("{key}\t{}\n", key * 2)).collect();
    input.write_all(pairs.as_bytes()).expect("the command reads");
    let begin = Instant::now();
    let mut found = 0;
    while found < 2000 {
        assert!(begin.elapsed() < Duration::from_secs(60), "{found} pairs");
        let output = nunatak(&["scan", "a.map"], at);
        found = output.stdout.split(|&byte| byte == b'\n').count();
    }
    drop(input);
    assert!(load.wait().expect("the command ends").success());
    assert!(ends_with(0, &["verify", "a.map"], at).0.starts_with("5000 pairs"));
}

#[test]
fn errors_say_what_is_wrong_and_lose_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    let refused = |arguments: &[&str], why: &str| {
        let (_, error) = ends_with(3, arguments, at);
        assert!(error.contains(why), "{error}");
    };
    refused(&["get", "none.map", "1"], "No such file");
    refused(&["put", "none.map", "1", "2"], "`nunatak file create none.map` makes one");
    assert!(!at.join("none.map").exists(), "a mistyped path made a map");
    std::fs::write(at.join("other"), "something else").expect("a file");
    refused(&["verify", "other"], "not one of a durable map");
    refused(&["create", "other"], "exists already");
    std::fs::write(at.join("wrong.tsv"), "1\t2\n3 4\n").expect("a file");
    refused(&["load", "new.map", "none.tsv"], "No such file");
    assert!(!at.join("new.map").exists(), "a map was made of no input");
    refused(&["load", "a.map", "wrong.tsv"], "wrong.tsv:2: a line is");
    refused(&["load", "a.map", "wrong.tsv"], "the 0 pairs before were stored");
    refused(&["restore", "b.map", "wrong.tsv"], "this is no dump");
    assert!(!at.join("b.map").exists(), "half of a dump was kept");
    assert_eq!(std::fs::read(at.join("other")).expect("the file"), b"something else");
    assert_eq!(nunatak(&["get", "a.map"], at).status.code(), Some(2));
    assert_eq!(nunatak(&["put", "a.map", "x", "1"], at).status.code(), Some(2));
}

/// A process that ends by itself has found something that the test must not hide.
#[test]
fn a_crash_test_whose_processes_fail_fails() {
    let directory = tempfile::tempdir().expect("a directory");
    // In blocks of 512 or 1024 bytes, as the shell likes: the map does not fit.
    let script = "ulimit -f 1500; exec \"$0\" file crash-test . --rounds 20 --milliseconds 3000";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_nunatak")]).current_dir(directory.path());
    let output = command.output().expect("the command runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("a process has failed") && error.contains("disk is full"), "{error}");
}

#[test]
fn killed_processes_lose_nothing() {
    for map in MAPS {
        let directory = tempfile::tempdir().expect("a directory");
        let arguments = ["crash-test", ".", "--rounds", "20", "--milliseconds", "30", "--map", map];
        let (out, error) = ends_with(0, &arguments, directory.path());
        assert!(out.contains("20 processes were killed"), "{out}");
        assert!(error.contains("18 of 20 kills") && error.lines().count() == 10, "{error}");
        assert_eq!(std::fs::read_dir(directory.path()).expect("the directory").count(), 0);
    }
}

/// The command reads typed maps as byte strings, shows their schema, and changes nothing.
#[test]
fn a_typed_map_is_read_as_byte_strings() {
    use nunatak::durable::{Options, TypedMap};
    let directory = tempfile::tempdir().expect("a directory");
    let at = directory.path();
    let options = Options::new().schema("stock\u{1b}", 3);
    let map: TypedMap<String, u16> =
        TypedMap::create_with(at.join("a.map"), &options).expect("a map");
    map.insert_many(&[("nunatak", 0x4142), ("\t", 7)]).expect("room");
    let stats = ends_with(0, &["stats", "a.map"], at).0;
    assert!(stats.contains("`stock\\u{1b}` version 3 (str to u16)"), "{stats}");
    map.close().expect("a sync");
    assert_eq!(ends_with(0, &["get", "a.map", "nunatak"], at).0, "BA\n");
    let scanned = ends_with(0, &["scan", "a.map"], at).0;
    assert!(scanned.lines().any(|line| line == "\\t\t\\x07\\x00"), "{scanned}");
    ends_with(0, &["verify", "a.map"], at);
    ends_with(0, &["dump", "a.map", "dump", "--format", "tsv"], at);
    let before = std::fs::read(at.join("a.map")).expect("a file");
    for change in [
        &["put", "a.map", "a", "b"][..],
        &["del", "a.map", "nunatak"],
        &["compact", "a.map"],
        &["load", "a.map", "dump"],
    ] {
        let refused = ends_with(3, change, at).1;
        assert!(refused.contains("only a typed map changes it"), "{refused}");
    }
    assert!(std::fs::read(at.join("a.map")).expect("a file") == before);
    ends_with(0, &["backup", "a.map", "copy.map"], at);
    let copy = TypedMap::<String, u16>::open_with(at.join("copy.map"), &options).expect("a copy");
    assert_eq!(copy.get("\t"), Ok(Some(7)));
}
