//! Servers that are killed keep every change that they have acknowledged.

use crate::common::{Client, Process, Reply, encode};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Starts a server at any free port, which it tells.
fn start(file: &Path, durability: &str) -> (Process, SocketAddr) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nunatak-server"))
        .arg(format!("--file={}", file.display()))
        .args(["--port=0", "--threads=2", &format!("--durability={durability}")])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server");
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    while line.is_empty() || line.contains("of the log") {
        line.clear();
        assert!(stderr.read_line(&mut line).expect("a line") > 0, "the server has ended");
    }
    let address = line.trim().rsplit(' ').next().and_then(|address| address.parse().ok());
    (Process(child), address.unwrap_or_else(|| panic!("the server does not start: {line}")))
}

/// Copies the files of a killed server. The copies count as what a power cut leaves.
fn copy_of(directory: &TempDir) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

/// Clients count what was acknowledged; the process is killed meanwhile, again and again.
fn acknowledged_changes_survive(durability: &str, rounds: usize) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("data.map");
    let acknowledged: [AtomicUsize; 4] = Default::default();
    for round in 0..rounds {
        let (mut process, address) = start(&file, durability);
        std::thread::scope(|scope| {
            for (number, acknowledged) in acknowledged.iter().enumerate() {
                scope.spawn(move || {
                    let mut client = Client::connect(address);
                    loop {
                        let first = acknowledged.load(Ordering::Relaxed);
                        let set = |at: usize| {
                            let value = format!("{at}{}", "x".repeat(at % 100));
                            encode(&["SET", &format!("{number}:{at}"), &value])
                        };
                        let pipeline: Vec<u8> = (first..first + 8).flat_map(set).collect();
                        if std::io::Write::write_all(client.stream(), &pipeline).is_err() {
                            return;
                        }
                        for _ in 0..8 {
                            match client.try_read() {
                                Some(reply) => assert_eq!(reply, Reply::Line("+OK".into())),
                                None => return,
                            }
                            acknowledged.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(150 + 70 * round as u64));
            process.0.kill().expect("the process is killed");
            // Its connections may be closed before its file: the next server would find it in use.
            process.0.wait().expect("the process has ended");
        });
        let (_process, address) = start(&file, durability);
        let mut client = Client::connect(address);
        for (number, acknowledged) in acknowledged.iter().enumerate() {
            let count = acknowledged.load(Ordering::Relaxed);
            assert!(count > 0, "client {number} has done nothing");
            let keys = (0..count).flat_map(|at| encode(&["GET", &format!("{number}:{at}")]));
            client.send(&keys.collect::<Vec<u8>>());
            for at in 0..count {
                let value = format!("{at}{}", "x".repeat(at % 100));
                assert_eq!(client.read(), Reply::Bulk(value.into_bytes()), "{number}:{at}");
            }
        }
    }
}

#[test]
fn killed_servers_that_sync_lose_nothing() {
    acknowledged_changes_survive("always", 2);
}

#[test]
fn killed_servers_that_do_not_sync_lose_nothing() {
    acknowledged_changes_survive("process", 2);
}

/// Only a power cut makes the map older than its log: after a kill the map has later values than the log,
/// which is written every second.
#[test]
fn a_killed_server_keeps_what_its_log_lacks() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("data.map");
    let mut last = 0;
    for _ in 0..3 {
        let (mut process, address) = start(&file, "everysec");
        let mut client = Client::connect(address);
        let begin = std::time::Instant::now();
        // Beyond the first write of the log.
        while begin.elapsed() < Duration::from_millis(1200) {
            last += 1;
            assert_eq!(client.line("INCR counter"), format!(":{last}"));
        }
        process.0.kill().expect("the process is killed");
        process.0.wait().expect("the process has ended");
    }
    let (_process, address) = start(&file, "everysec");
    assert_eq!(Client::connect(address).line("GET counter"), last.to_string());
}

/// A copy of the files of a killed server counts as what a power cut leaves: the map is in the state of its
/// last sync, and the log has what was acknowledged since. The next server is killed, too, and so on.
#[test]
fn what_a_cut_server_has_acknowledged_is_in_its_log() {
    let mut directory = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for round in 0..4 {
        let (mut process, address) = start(&directory.path().join("data.map"), "always");
        let mut client = Client::connect(address);
        // More than a segment of the log in the first round.
        let (count, length) = if round == 0 { (700, 150_000) } else { (500, 10) };
        for at in acknowledged..acknowledged + count {
            let value = format!("{at} {}", "x".repeat(length));
            client.send(&encode(&["SET", &format!("key:{}", at % 900), &value]));
        }
        for _ in 0..count {
            assert_eq!(client.read(), Reply::Line("+OK".into()));
        }
        acknowledged += count;
        process.0.kill().expect("the process is killed");
        process.0.wait().expect("the process has ended");
        directory = copy_of(&directory);
        let (mut process, address) = start(&directory.path().join("data.map"), "always");
        let mut client = Client::connect(address);
        for key in 0..acknowledged.min(900) {
            let last = (0..acknowledged).rev().find(|at| at % 900 == key).unwrap();
            let Reply::Bulk(value) = client.run(&format!("GET key:{key}")) else { panic!("{key}") };
            assert!(value.starts_with(format!("{last} ").as_bytes()), "{key}: {last}");
        }
        process.0.kill().expect("the process is killed");
        process.0.wait().expect("the process has ended");
    }
}

/// The log is written every second, also if nothing happens any more.
#[test]
fn a_cut_server_has_lost_a_second_at_most() {
    let directory = tempfile::tempdir().unwrap();
    let (mut process, address) = start(&directory.path().join("data.map"), "everysec");
    let mut client = Client::connect(address);
    assert_eq!(client.line("SET key value"), "+OK");
    std::thread::sleep(Duration::from_millis(2500));
    process.0.kill().expect("the process is killed");
    process.0.wait().expect("the process has ended");
    let copy = copy_of(&directory);
    let (_process, address) = start(&copy.path().join("data.map"), "everysec");
    assert_eq!(Client::connect(address).line("GET key"), "value");
}

/// Times to live, sets and hashes are in the file, too; a backup has them; `SHUTDOWN` ends well.
#[test]
fn everything_is_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("data.map");
    let (mut process, address) = start(&file, "everysec");
    let mut client = Client::connect(address);
    client.run("SADD s a b");
    client.run("HSET h f v");
    client.run("SET expires 1 PXAT 4102444800000");
    client.run("SET is-gone 1 PX 1");
    assert_eq!(client.line("BGSAVE"), "+Background saving started");
    let backup = || {
        let entries = std::fs::read_dir(directory.path()).unwrap();
        let mut paths = entries.map(|entry| entry.unwrap().path());
        paths.find(|path| path.to_string_lossy().contains(".backup-"))
    };
    for _ in 0..100 {
        if client.line("INFO persistence").contains("rdb_bgsave_in_progress:0") {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    client.send(&encode(&["SHUTDOWN"]));
    assert_eq!(client.try_read(), None);
    assert!(process.0.wait().unwrap().success());
    let mut others =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    assert!(
        others.all(|path| !path.to_string_lossy().contains(".log")),
        "the log of a closed file"
    );
    for path in [file.clone(), backup().expect("a backup")] {
        let (_process, address) = start(&path, "process");
        let mut client = Client::connect(address);
        assert_eq!(
            client.run("SMISMEMBER s a b c"),
            Reply::Many(
                "*3".into(),
                [":1", ":1", ":0"].map(|line| Reply::Line(line.into())).into(),
            )
        );
        assert_eq!(client.line("HGET h f"), "v");
        assert_eq!(client.line("PEXPIRETIME expires"), ":4102444800000");
        assert_eq!(client.line("GET is-gone"), "$-1");
    }
}

/// The process is killed in the middle of `MSET`s of many keys, of transactions, and of `RENAME`s.
#[test]
fn a_kill_leaves_no_part_of_a_command() {
    const KEYS: usize = 2000;
    const PARTS: usize = 20;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("data.map");
    let names: Vec<String> = (0..KEYS).map(|key| format!("key {key}")).collect();
    let get_all = |client: &mut Client| {
        client.send(&names.iter().flat_map(|name| encode(&["GET", name])).collect::<Vec<u8>>());
        names.iter().map(|_| client.read()).collect::<Vec<Reply>>()
    };
    for round in 0..6 {
        let (mut process, address) = start(&file, "process");
        let mut client = Client::connect(address);
        client.send(&encode(&["SET", if round % 2 == 0 { "here" } else { "there" }, "1"]));
        assert_eq!(client.read(), Reply::Line("+OK".into()));
        client.send(&encode(&["DEL", if round % 2 == 0 { "there" } else { "here" }]));
        client.read();
        let done = std::thread::scope(|scope| {
            let names = &names;
            let writer = scope.spawn(move || {
                for done in 0.. {
                    let value = format!("{round} {done} {}", "x".repeat(done % 50));
                    let sets = |names: &[String]| {
                        let pairs = names.iter().flat_map(|name| [name.as_str(), &value]);
                        encode(&std::iter::once("MSET").chain(pairs).collect::<Vec<_>>())
                    };
                    let mut requests = if round % 2 == 0 {
                        sets(names)
                    } else {
                        let queued = names.chunks(KEYS / PARTS).flat_map(sets).collect();
                        [encode(&["MULTI"]), queued, encode(&["EXEC"])].concat()
                    };
                    let is_here = (round + done) % 2 == 0;
                    let (from, to) = if is_here { ("here", "there") } else { ("there", "here") };
                    requests.extend(encode(&["RENAME", from, to]));
                    if std::io::Write::write_all(client.stream(), &requests).is_err() {
                        return done;
                    }
                    let lines = if round % 2 == 0 { 2 } else { PARTS + 3 };
                    for _ in 0..lines {
                        match client.try_read() {
                            Some(Reply::Line(line)) => {
                                assert!(["+OK", "+QUEUED"].contains(&line.as_str()), "{line}");
                            }
                            Some(Reply::Many(_, all)) => assert_eq!(all.len(), PARTS),
                            other => {
                                assert_eq!(other, None);
                                return done;
                            }
                        }
                    }
                }
                unreachable!("the server is killed")
            });
            std::thread::sleep(Duration::from_millis(200 + 30 * round as u64));
            process.0.kill().expect("the process is killed");
            process.0.wait().expect("the process has ended");
            writer.join().unwrap()
        });
        assert!(done > 0, "nothing was done");
        let (_process, address) = start(&file, "process");
        let mut client = Client::connect(address);
        let all = get_all(&mut client);
        assert!(all.iter().all(|value| *value == all[0]), "a part of an MSET or a transaction");
        let exist = client.line("EXISTS here there");
        assert_eq!(exist, ":1", "a part of a RENAME");
    }
}

/// A hash in segments is changed by two clients, removed and made again, and the process is killed meanwhile. Then
/// all acknowledged fields are there, as many as counted, and no segments that nobody names. `copies`: the next server
/// gets a copy of the files, as after a power cut.
fn large_values_survive(durability: &str, copies: bool) {
    let mut directory = tempfile::tempdir().unwrap();
    // The fields of two clients, less those that were removed.
    let mut fields = [0..0_usize, 0..0];
    for round in 0..4_u64 {
        let (mut process, address) = start(&directory.path().join("data.map"), durability);
        std::thread::scope(|scope| {
            for (number, fields) in fields.iter_mut().enumerate() {
                scope.spawn(move || {
                    let mut client = Client::connect(address);
                    loop {
                        let first = fields.end;
                        let names: Vec<String> =
                            (first..first + 20).map(|at| format!("{number}:{at}")).collect();
                        let mut words = vec!["HSET", "hash"];
                        words.extend(names.iter().flat_map(|name| [name.as_str(), "value"]));
                        let gone = format!("{number}:{}", fields.start);
                        let removes = encode(&["HDEL", "hash", &gone]);
                        // Values that come and go as a whole.
                        let copies = [vec!["COPY", "hash", "copy", "REPLACE"], vec!["DEL", "copy"]];
                        let mut pipeline = encode(&words);
                        pipeline.extend(removes);
                        if first % 400 == 0 {
                            copies.iter().for_each(|words| pipeline.extend(encode(words)));
                        }
                        if std::io::Write::write_all(client.stream(), &pipeline).is_err() {
                            return;
                        }
                        match client.try_read() {
                            Some(reply) => {
                                assert!(matches!(reply, Reply::Line(line) if line.starts_with(':')))
                            }
                            None => return,
                        }
                        fields.end += 20;
                        // From here on it may be gone.
                        fields.start += 1;
                        for _ in 0..if first % 400 == 0 { 3 } else { 1 } {
                            if client.try_read().is_none() {
                                return;
                            }
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(400 + 170 * round));
            process.0.kill().expect("the process is killed");
            process.0.wait().expect("the process has ended");
        });
        if copies {
            directory = copy_of(&directory);
        }
        let (mut process, address) = start(&directory.path().join("data.map"), durability);
        let mut client = Client::connect(address);
        let Reply::Many(_, found) = client.run("HKEYS hash") else { panic!() };
        assert_eq!(client.line("HLEN hash"), format!(":{}", found.len()), "round {round}");
        let found: std::collections::BTreeSet<_> = found.into_iter().collect();
        for (number, fields) in fields.iter().enumerate() {
            assert!(fields.end > 200, "client {number} has done nothing");
            // The first one may be gone, although nobody was told.
            for at in fields.start + 1..fields.end {
                let name = format!("{number}:{at}");
                assert!(found.contains(&Reply::Bulk(name.clone().into_bytes())), "{name}");
                client.send(&encode(&["HGET", "hash", &name]));
                assert_eq!(client.read(), Reply::Bulk(b"value".to_vec()));
            }
        }
        client.run("DEL copy");
        assert_eq!(client.line("DBSIZE"), ":1");
        // The next clients begin where a field that was not acknowledged may be.
        for fields in &mut fields {
            fields.end += 20;
            fields.start += 1;
        }
        for (number, fields) in fields.iter().enumerate() {
            for at in fields.end - 20..fields.end {
                client.run(&format!("HSET hash {number}:{at} value"));
            }
        }
        client.send(&encode(&["SHUTDOWN"]));
        assert_eq!(client.try_read(), None);
        assert!(process.0.wait().unwrap().success());
        // Closed, so its segments are known.
        let (mut process, address) = start(&directory.path().join("data.map"), durability);
        let mut client = Client::connect(address);
        assert_eq!(client.line("DBSIZE"), ":1");
        process.0.kill().expect("the process is killed");
        process.0.wait().expect("the process has ended");
    }
}

#[test]
fn large_values_survive_kills() {
    large_values_survive("process", false);
}

#[test]
fn large_values_survive_power_cuts() {
    large_values_survive("always", true);
}
