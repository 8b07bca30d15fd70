//! Servers that are killed keep every change that they have acknowledged.

use crate::common::{Client, Process, Reply, encode};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

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
    stderr.read_line(&mut line).expect("a line");
    let address = line.trim().rsplit(' ').next().and_then(|address| address.parse().ok());
    (Process(child), address.unwrap_or_else(|| panic!("the server does not start: {line}")))
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
        entries.map(|entry| entry.unwrap().path()).find(|path| *path != file)
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
