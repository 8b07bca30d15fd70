//! Databases in files: each has its own.

use crate::common::{Client, Local, Reply, encode};
use clap::Parser;
use nunatak_server::{Config, Server};
use std::path::Path;

/// The names in a folder, less the numbers of logs and backups.
fn names(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().expect("a folder");
    let name = |entry: std::fs::DirEntry| entry.file_name().into_string().expect("a text");
    let mut names: Vec<String> = entries.map(|entry| name(entry.expect("an entry"))).collect();
    names.sort();
    names
}

fn get(client: &mut Client, db: usize) -> String {
    assert_eq!(client.line(&format!("SELECT {db}")), "+OK");
    client.line("GET key")
}

#[test]
fn each_database_has_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("--file={}", folder.path().join("data.map").display());
    for durability in ["process", "always"] {
        let durability = format!("--durability={durability}");
        let flags = ["--threads=1", &file, &durability, "--databases=3"];
        let local = Local::start(&flags);
        let mut client = local.client();
        for db in [0, 2] {
            client.run(&format!("SELECT {db}"));
            assert_eq!(client.line(&format!("SET key {durability}{db}")), "+OK");
        }
        client.run("SET moved 1 EX 1000");
        assert_eq!([client.line("MOVE moved 1"), client.line("COPY key copy DB 1")], [":1", ":1"]);
        assert_eq!(client.line("SELECT 3"), "-ERR DB index is out of range");
        drop((client, local));
        assert_eq!(names(folder.path()), ["data.map", "data.map.db1", "data.map.db2"]);
        let local = Local::start(&flags[..3]);
        let mut client = local.client();
        assert_eq!(get(&mut client, 0), format!("{durability}0"));
        assert_eq!(get(&mut client, 2), format!("{durability}2"));
        assert_eq!(client.line("EXISTS moved"), ":0");
        assert_eq!(get(&mut client, 1), "$-1");
        assert_eq!(client.line("GET copy"), format!("{durability}2"));
        let ttl = client.line("TTL moved");
        assert!(ttl[1..].parse().is_ok_and(|ttl: i32| (900..=1000).contains(&ttl)), "{ttl}");
        // A database without keys has no file.
        assert_eq!(get(&mut client, 9), "$-1");
        assert_eq!([client.line("DEL key"), client.line("DBSIZE")], [":0", ":0"]);
        assert_eq!(client.line("SELECT 16"), "-ERR DB index is out of range");
        client.run("FLUSHALL");
        assert_eq!(client.line("SAVE"), "+OK");
        assert!(!names(folder.path()).contains(&"data.map.db9".to_string()));
    }
}

/// `COPY` holds the lock of the key that it makes in another database: of two that make the same key if it is not
/// there, one does, also in a transaction.
#[test]
fn copies_to_another_database_are_alone() {
    let local = Local::start(&["--threads=2"]);
    let (mut one, mut other) = (local.client(), local.client());
    one.run("SET source 1");
    other.run("SELECT 1");
    for round in 0..200 {
        let keys: Vec<String> = (0..200).map(|at| format!("key:{round}:{at}")).collect();
        let copies = keys.iter().flat_map(|key| encode(&["COPY", "source", key, "DB", "1"]));
        let stores = keys.iter().flat_map(|key| encode(&["SETNX", key, "2"]));
        let begins = [encode(&["MULTI"]), encode(&["EXEC"])];
        let (copies, stores): (Vec<u8>, Vec<u8>) = (copies.collect(), stores.collect());
        let in_transaction = round % 2 == 1;
        let made = std::thread::scope(|scope| {
            let one = scope.spawn(|| {
                if !in_transaction {
                    one.send(&copies);
                    return keys.iter().map(|_| one.read()).collect::<Vec<_>>();
                }
                one.send(&[&begins[0][..], &copies, &begins[1]].concat());
                (0..=keys.len()).for_each(|_| drop(one.read()));
                match one.read() {
                    Reply::Many(_, replies) => replies,
                    other => panic!("{other:?}"),
                }
            });
            other.send(&stores);
            let other: Vec<Reply> = keys.iter().map(|_| other.read()).collect();
            one.join().unwrap().into_iter().zip(other).collect::<Vec<_>>()
        });
        for (key, replies) in keys.iter().zip(made) {
            let (yes, no) = (Reply::Line(":1".into()), Reply::Line(":0".into()));
            let is_one = replies == (yes.clone(), no.clone()) || replies == (no, yes);
            assert!(is_one, "{key}: {replies:?}");
        }
    }
}

#[test]
fn fewer_databases_than_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("--file={}", folder.path().join("data.map").display());
    let local = Local::start(&["--threads=1", &file, "--databases=2"]);
    let mut client = local.client();
    client.run("SELECT 1");
    client.run("SET key 1");
    drop((client, local));
    let refused = Server::bind(Config::parse_from(["", "--port=0", &file, "--databases=1"]));
    let error = refused.expect_err("one of them would be hidden").to_string();
    assert!(error.contains("data.map has 2 databases"), "{error}");
}

/// A backup has a file of each.
#[test]
fn backups_have_all_databases() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("--file={}", folder.path().join("data.map").display());
    let local = Local::start(&["--threads=1", &file]);
    let mut client = local.client();
    for db in 0..2 {
        client.run(&format!("SELECT {db}"));
        client.run(&format!("SET key {db}"));
    }
    assert_eq!(client.line("BGSAVE"), "+Background saving started");
    let is_over = |client: &mut Client| client.line("INFO persistence").contains("in_progress:0");
    while !is_over(&mut client) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let copies: Vec<String> =
        names(folder.path()).into_iter().filter(|name| name.contains(".backup-")).collect();
    assert_eq!(copies.len(), 2);
    let restored = tempfile::tempdir().unwrap();
    for (from, to) in [(&copies[0], "data.map"), (&copies[1], "data.map.db1")] {
        std::fs::copy(folder.path().join(from), restored.path().join(to)).unwrap();
    }
    let file = format!("--file={}", restored.path().join("data.map").display());
    let local = Local::start(&["--threads=1", &file]);
    let mut client = local.client();
    assert_eq!([get(&mut client, 0), get(&mut client, 1)], ["0", "1"]);
}
