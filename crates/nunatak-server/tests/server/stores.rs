//! Pipelines of `SET`s without options are stored together, and nobody can tell.

use crate::common::{Ends, Local, Reply};
use std::sync::atomic::{AtomicBool, Ordering};

fn ok() -> Reply {
    Reply::Line("+OK".into())
}

#[test]
fn the_last_value_of_a_pipeline_counts() {
    let local = Local::start(&["--threads=1"]);
    let mut client = local.client();
    client.run("SET key:3 old EX 1000");
    client.run("SADD key:4 member");
    let pairs: Vec<(String, String)> =
        (0..600).map(|at| (format!("key:{}", at % 7), format!("value {at}"))).collect();
    let requests: Vec<_> =
        pairs.iter().map(|(key, value)| vec!["sEt", key.as_str(), value]).collect();
    assert!(client.pipeline(&requests).iter().all(|reply| *reply == ok()));
    for (key, value) in &pairs[593..] {
        assert_eq!(client.run(&format!("GET {key}")), Reply::Bulk(value.clone().into_bytes()));
    }
    assert_eq!((client.line("TTL key:3"), client.line("DBSIZE")), (":-1".into(), ":7".into()));
    let Reply::Bulk(text) = client.run("INFO commandstats") else { panic!("a text") };
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("cmdstat_set:calls=601,"), "{text}");
}

/// Requests without arguments have no reply, and no command.
#[test]
fn empty_requests_are_in_nobodys_way() {
    let local = Local::start(&["--threads=1"]);
    let mut client = local.client();
    client.send(b"*0\r\n*0\r\nSET a 1\r\n\r\nSET a 2\r\n*0\r\nGET a\r\n");
    assert_eq!([client.read(), client.read()], [ok(), ok()]);
    assert_eq!(client.read(), Reply::Bulk(b"2".to_vec()));
}

/// Commands among them that are none, that fail, or that are long, have their places.
#[test]
fn other_commands_have_their_places() {
    let local = Local::start(&["--threads=1"]);
    let mut client = local.client();
    let long = "x".repeat(400_000);
    let replies = client.pipeline(&[
        vec!["SET", "a", "1"],
        vec!["SET", "b", "1"],
        vec!["SET", "c", &long],
        vec!["SET", "c2", "1"],
        vec!["SET", "a", "2"],
        vec!["INCR", "a"],
        vec!["SET", "a", "7", "NX"],
        vec!["SET", "a"],
        vec!["SET", "d", "1"],
        vec!["SET", "e", "1"],
        vec!["SET", "a", ""],
        vec!["SET", "", "1"],
        vec!["STRLEN", "c"],
        vec!["GET", "a"],
        vec!["GET", ""],
    ]);
    let error = "-ERR wrong number of arguments for 'set' command";
    let texts = [
        "+OK", "+OK", "+OK", "+OK", "+OK", ":3", "$-1", error, "+OK", "+OK", "+OK", "+OK",
        ":400000",
    ];
    assert_eq!(replies[..13], texts.map(|text| Reply::Line(text.into())));
    assert_eq!(replies[13..], [Reply::Bulk(vec![]), Reply::Bulk(b"1".to_vec())]);
}

#[test]
fn watched_keys_see_pipelines() {
    let local = Local::start(&["--threads=2"]);
    let (mut one, mut other) = (local.client(), local.client());
    let sets: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|key| vec!["SET", key, "1"]).into();
    for (watched, fails) in [("c", true), ("a", true), ("f", true), ("g", false)] {
        one.run(&format!("WATCH {watched}"));
        other.pipeline(&sets);
        one.run("MULTI");
        one.run("PING");
        assert_eq!(one.run("EXEC") == Reply::Line("*-1".into()), fails, "{watched}");
    }
}

/// A transaction that reads a key twice sees one value, however many pipelines go on; so does one that
/// changes it; and no increment is lost.
#[test]
fn pipelines_stay_out_of_transactions() {
    let local = Local::start(&["--threads=3"]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (is_over, local) = (&is_over, &local);
        let _ends = Ends(is_over);
        for writer in 0..2 {
            scope.spawn(move || {
                let mut client = local.client();
                let keys: Vec<String> = (0..8).map(|at| format!("key:{}", at % 4)).collect();
                for number in 0.. {
                    let value = format!("{}", 2 * number + writer);
                    let sets: Vec<_> =
                        keys.iter().map(|key| vec!["SET", key.as_str(), &value]).collect();
                    assert!(client.pipeline(&sets).iter().all(|reply| *reply == ok()));
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let counter = scope.spawn(move || {
            let mut client = local.client();
            for _ in 0..1000 {
                assert_eq!(client.line("INCR key:count").as_bytes()[0], b':');
            }
        });
        let mut client = local.client();
        for _ in 0..1000 {
            let requests =
                ["MULTI", "GET key:1", "INCR key:1", "GET key:1", "GET key:2", "GET key:2", "EXEC"];
            let requests: Vec<_> = requests.map(|it| it.split(' ').collect()).into();
            let replies = client.pipeline(&requests);
            let Reply::Many(_, items) = &replies[6] else { panic!("{replies:?}") };
            let numbers: Vec<i64> = items
                .iter()
                .map(|item| match item {
                    Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).parse().expect("a number"),
                    Reply::Line(line) => line.trim_start_matches(':').parse().unwrap_or(0),
                    other => panic!("{other:?}"),
                })
                .collect();
            let [before, more, after, first, second] = numbers[..] else { panic!("{numbers:?}") };
            assert_eq!((before + 1, more, first), (more, after, second), "{numbers:?}");
        }
        counter.join().expect("the counter ends");
    });
    assert_eq!(local.client().run("GET key:count"), Reply::Bulk(b"1000".to_vec()));
}

/// The values of a pipeline appear in its order, also to a reader of several keys.
#[test]
fn pipelines_are_seen_in_order() {
    let local = Local::start(&["--threads=2"]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (is_over, local) = (&is_over, &local);
        let _ends = Ends(is_over);
        scope.spawn(move || {
            let mut client = local.client();
            for number in 0.. {
                let value = format!("{number}");
                let sets: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h"]
                    .map(|key| vec!["SET", key, value.as_str()])
                    .into();
                client.pipeline(&sets);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut client = local.client();
        for _ in 0..20_000 {
            let Reply::Many(_, items) = client.run("MGET a b c d e f g h") else { panic!() };
            let number = |item: &Reply| match item {
                Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).parse::<i64>().unwrap_or(-1),
                _ => -1,
            };
            let numbers: Vec<i64> = items.iter().map(number).collect();
            assert!(numbers.iter().rev().is_sorted(), "{numbers:?}");
        }
    });
}

#[test]
fn full_memory_refuses_pipelines() {
    let local = Local::start(&["--threads=1", "--maxmemory=1mb", "--maxmemory-policy=noeviction"]);
    let mut client = local.client();
    let value = "x".repeat(1000);
    let mut refused = 0;
    for round in 0..40 {
        let keys: Vec<String> = (0..100).map(|at| format!("key:{round}:{at}")).collect();
        let sets: Vec<_> = keys.iter().map(|key| vec!["SET", key.as_str(), &value]).collect();
        let replies = client.pipeline(&sets);
        for (key, reply) in keys.iter().zip(replies) {
            let is_there = client.line(&format!("EXISTS {key}"));
            match reply {
                Reply::Line(line) if line.starts_with("-OOM") => {
                    refused += 1;
                    assert_eq!(is_there, ":0");
                }
                reply => assert_eq!((reply, is_there), (ok(), ":1".into())),
            }
        }
    }
    assert!((1000..4000).contains(&refused), "{refused}");
}

/// With a file, pipelines are durable when they are answered, and are there after a restart.
#[test]
#[cfg(target_os = "linux")]
fn pipelines_reach_the_file() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = format!("--file={}", folder.path().join("data.map").display());
    for durability in ["process", "everysec", "always"] {
        let flags = ["--threads=1", &file, "--durability", durability];
        let local = Local::start(&flags);
        let mut client = local.client();
        let keys: Vec<String> = (0..300).map(|at| format!("key:{at}")).collect();
        let sets: Vec<_> = keys.iter().map(|key| vec!["SET", key.as_str(), durability]).collect();
        assert!(client.pipeline(&sets).iter().all(|reply| *reply == ok()));
        drop(local);
        let local = Local::start(&flags);
        let mut client = local.client();
        for key in &keys {
            let value = client.run(&format!("GET {key}"));
            assert_eq!(value, Reply::Bulk(durability.as_bytes().to_vec()));
        }
    }
}
