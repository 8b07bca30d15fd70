//! A transaction for which the file has no room is refused as a whole, and the server goes on.

use crate::common::{Client, Process, Reply, encode};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts a server whose files can't be longer than so many bytes.
fn start(file: &Path, durability: &str, most: usize) -> (Process, SocketAddr) {
    // Without the trap the signal would end the process.
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", most / 512);
    let mut child = Command::new("sh")
        .args([
            "-c",
            &script,
            "sh",
            env!("CARGO_BIN_EXE_nunatak-server"),
            "--port=0",
            "--threads=1",
        ])
        .args([format!("--file={}", file.display()), format!("--durability={durability}")])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    while line.is_empty() || line.contains("of the log") {
        line.clear();
        assert!(stderr.read_line(&mut line).expect("a line") > 0, "the server has ended");
    }
    // What it says later has to go somewhere.
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    let address = line.trim().rsplit(' ').next().and_then(|address| address.parse().ok());
    (Process(child), address.unwrap_or_else(|| panic!("the server does not start: {line}")))
}

/// Sends commands in a transaction, and returns the reply of `EXEC`.
fn transaction(client: &mut Client, commands: &[Vec<&str>]) -> Reply {
    assert_eq!(client.line("MULTI"), "+OK");
    for command in commands {
        client.send(&encode(command));
        assert_eq!(client.read(), Reply::Line("+QUEUED".into()));
    }
    client.run("EXEC")
}

/// What the transaction changes.
const KEYS: &str = "MGET first counter removed other last";

fn texts(reply: Reply) -> Vec<Option<String>> {
    let Reply::Many(_, items) = reply else { panic!("{reply:?}") };
    let text = |item| match item {
        Reply::Bulk(bytes) => Some(String::from_utf8(bytes).expect("a text")),
        _ => None,
    };
    items.into_iter().map(text).collect()
}

fn a_refused_transaction_changes_nothing(durability: &str, most: usize) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("data.map");
    let (mut process, address) = start(&file, durability, most);
    let mut client = Client::connect(address);
    client.run("MSET first old counter 7 removed there");
    client.run("SADD set a b");
    client.run("HSET hash field old");
    let before = texts(client.run(KEYS));
    let value = "x".repeat(30_000);
    let set = |client: &mut Client, key: String| {
        client.send(&encode(&["SET", &key, &value]));
        match client.read() {
            Reply::Line(line) => line,
            other => panic!("{other:?}"),
        }
    };
    let fills = |number: &usize| set(&mut client, format!("filler:{number}")) != "+OK";
    let count = (0..).find(fills).unwrap();
    assert!(count > 100, "{count}");
    let block = [
        vec!["SET", "first", "new"],
        vec!["INCR", "counter"],
        vec!["DEL", "removed"],
        vec!["SADD", "set", "c"],
        vec!["HSET", "hash", "field", "new"],
        vec!["SET", "other", &value],
        vec!["SET", "last", "new"],
    ];
    let mut other = Client::connect(address);
    let has_nothing_of_it = |client: &mut Client| {
        assert_eq!(texts(client.run(KEYS)), before);
        assert_eq!(client.line("SCARD set"), ":2");
        assert_eq!(client.line("HGET hash field"), "old");
        assert_eq!(client.line("EXISTS filler:0"), ":1");
    };
    for _ in 0..3 {
        let refused = transaction(&mut client, &block);
        let Reply::Line(refused) = refused else { panic!("{refused:?}") };
        assert!(refused.starts_with("-OOM the map refused the change"), "{refused}");
        has_nothing_of_it(&mut client);
        has_nothing_of_it(&mut other);
        // A transaction that needs no room.
        let removed = transaction(&mut client, &[vec!["DEL", "nothing"], vec!["GET", "first"]]);
        assert!(matches!(removed, Reply::Many(_, items) if items.len() == 2));
    }
    process.0.kill().expect("the process is killed");
    process.0.wait().expect("the process has ended");
    let (_process, address) = start(&file, durability, most);
    let mut client = Client::connect(address);
    has_nothing_of_it(&mut client);
    // With room for it, it is made as a whole.
    for number in 0..count / 2 {
        assert_eq!(client.line(&format!("DEL filler:{number}")), ":1");
    }
    assert_eq!(client.line("SAVE"), "+OK");
    let made = transaction(&mut client, &block);
    assert!(matches!(&made, Reply::Many(_, items) if items.len() == block.len()), "{made:?}");
    let after = ["new", "8", "", &value, "new"].map(|it| (!it.is_empty()).then(|| it.to_string()));
    assert_eq!(texts(client.run(KEYS)), after);
    assert_eq!(
        (client.line("SCARD set"), client.line("HGET hash field")),
        (":3".into(), "new".into())
    );
}

/// On a full disk a value in segments can be removed, and makes room.
#[test]
fn a_large_value_makes_room() {
    let directory = tempfile::tempdir().unwrap();
    let (_process, address) = start(&directory.path().join("data.map"), "process", 16 << 20);
    let mut client = Client::connect(address);
    let value = "x".repeat(3000);
    let fill = |client: &mut Client| {
        (0..)
            .find(|at| {
                client.send(&encode(&["HSET", "hash", &format!("field {at}"), &value]));
                matches!(client.read(), Reply::Line(line) if line.starts_with('-'))
            })
            .unwrap()
    };
    let count = fill(&mut client);
    assert!(count > 1000, "{count}");
    for _ in 0..3 {
        assert_eq!([client.line("DEL hash"), client.line("DBSIZE")], [":1", ":0"]);
        assert_eq!(client.line("SAVE"), "+OK");
        let again = fill(&mut client);
        assert!(again * 10 > count * 7, "{again} instead of {count}");
        assert_eq!(client.line("HLEN hash"), format!(":{again}"));
    }
}

/// `SET`s of a pipeline are stored together. Where there is no room for one, those before it count, and each
/// reply tells the truth.
fn pipelines_tell_what_is_stored(durability: &str, most: usize) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("data.map");
    let (mut process, address) = start(&file, durability, most);
    let (mut client, mut other) = (Client::connect(address), Client::connect(address));
    let value = "x".repeat(30_000);
    let (mut stored, mut refused, mut in_part) = (Vec::new(), Vec::new(), 0);
    // A file has room for an even number of such values, so that it ends amid a pipeline.
    for key in ["a", "b", "c"] {
        client.send(&encode(&["SET", key, &value]));
        assert_eq!(client.read(), Reply::Line("+OK".into()));
    }
    // Some pipelines after the first that is refused.
    for number in 0.. {
        if refused.len() > 40 {
            break;
        }
        let keys: Vec<String> = (0..8).map(|at| format!("key:{number}:{at}")).collect();
        let watched = &keys[number % 8];
        assert_eq!(other.line(&format!("WATCH {watched}")), "+OK");
        let bytes = keys.iter().flat_map(|key| encode(&["SET", key, &value]));
        client.send(&bytes.collect::<Vec<u8>>());
        let before = (stored.len(), refused.len());
        for key in &keys {
            match client.read() {
                Reply::Line(line) if line == "+OK" => stored.push(key.clone()),
                Reply::Line(line) => {
                    assert!(line.starts_with("-OOM the map refused the change"), "{line}");
                    refused.push(key.clone());
                }
                other => panic!("{other:?}"),
            }
        }
        in_part += usize::from(stored.len() > before.0 && refused.len() > before.1);
        // Who watches a key that was stored learns of it.
        let is_untouched = transaction(&mut other, &[vec!["PING"]]) != Reply::Line("*-1".into());
        assert!(!(is_untouched && stored.contains(watched)), "{watched} was stored");
    }
    assert!(stored.len() > 500 && in_part > 0, "{} {in_part}", stored.len());
    let agree = |client: &mut Client| {
        for (keys, length) in [(&stored, ":30000"), (&refused, ":0")] {
            for key in keys {
                assert_eq!(client.line(&format!("STRLEN {key}")), length, "{key}");
            }
        }
    };
    agree(&mut client);
    process.0.kill().expect("the process is killed");
    process.0.wait().expect("the process has ended");
    let (_process, address) = start(&file, durability, most);
    agree(&mut Client::connect(address));
}

#[test]
fn pipelines_tell_what_is_stored_without_a_log() {
    pipelines_tell_what_is_stored("process", 48 << 20);
}

#[test]
fn pipelines_tell_what_is_stored_with_a_log() {
    pipelines_tell_what_is_stored("always", 72 << 20);
}

#[test]
fn a_refused_transaction_changes_nothing_without_a_log() {
    a_refused_transaction_changes_nothing("process", 48 << 20);
}

#[test]
fn a_refused_transaction_changes_nothing_with_a_log() {
    a_refused_transaction_changes_nothing("always", 72 << 20);
}
