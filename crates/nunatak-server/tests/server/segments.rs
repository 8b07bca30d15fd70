//! Sets and hashes that are too large for one record.

use crate::common::{Client, Ends, Local, Reply, encode};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Sends a command with many members, some at a time.
fn fill(client: &mut Client, head: &[&str], members: impl Iterator<Item = String>) {
    let members: Vec<String> = members.collect();
    for some in members.chunks(300) {
        let words: Vec<&str> =
            head.iter().copied().chain(some.iter().map(String::as_str)).collect();
        client.send(&encode(&words));
        client.read();
    }
}

fn names(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.map(|at| format!("member:{at}"))
}

fn pairs(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.flat_map(|at| [format!("member:{at}"), format!("value:{at}")])
}

fn items(reply: Reply) -> Vec<String> {
    let Reply::Many(_, items) = reply else { panic!("{reply:?}") };
    let text = |item| match item {
        Reply::Bulk(bytes) => String::from_utf8(bytes).expect("a text"),
        other => panic!("{other:?}"),
    };
    items.into_iter().map(text).collect()
}

fn set(client: &mut Client, command: &str) -> BTreeSet<String> {
    let all = items(client.run(command));
    let set: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(set.len(), all.len(), "{command}: each once");
    set
}

/// Walks over all members, and runs `between` after each step.
fn scan(client: &mut Client, command: &str, mut between: impl FnMut(&mut Client)) -> Vec<String> {
    let (mut cursor, mut all) = ("0".to_string(), Vec::new());
    loop {
        let Reply::Many(_, parts) = client.run(&command.replace("CURSOR", &cursor)) else {
            panic!("{command}")
        };
        let [Reply::Bulk(next), members] = &parts[..] else { panic!("{parts:?}") };
        cursor = String::from_utf8(next.clone()).expect("a number");
        all.extend(items(members.clone()));
        if cursor == "0" {
            return all;
        }
        between(client);
    }
}

/// Whether a set is in segments: then a scan by ones has several steps.
fn is_in_segments(client: &mut Client, key: &str) -> bool {
    let Reply::Many(_, parts) = client.run(&format!("SSCAN {key} 0 COUNT 1")) else { panic!() };
    parts[0] != Reply::Bulk(b"0".to_vec())
}

/// Waits until the database may have segments, which a file has soon after it wants them.
fn with_segments(local: &Local) -> Client {
    let mut client = local.client();
    for _ in 0..500 {
        fill(&mut client, &["SADD", "first"], names(0..200));
        let is_done = is_in_segments(&mut client, "first");
        client.run("DEL first");
        if is_done {
            return client;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the value stays one record");
}

/// Removes all keys, one by one.
fn remove_all(client: &mut Client) {
    for db in 0..2 {
        client.run(&format!("SELECT {db}"));
        for key in set(client, "KEYS *") {
            assert_eq!(client.line(&format!("DEL {key}")), ":1");
        }
        assert_eq!(client.line("DBSIZE"), ":0");
    }
}

/// In RAM, and in files with and without a log.
fn everywhere(test: impl Fn(&Local, &mut Client)) {
    let local = Local::start(&["--threads=2"]);
    test(&local, &mut with_segments(&local));
    #[cfg(target_os = "linux")]
    for durability in ["process", "everysec"] {
        use nunatak::durable::{Options, TurboBlobMap};
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data.map");
        let flags = [format!("--file={}", path.display()), format!("--durability={durability}")];
        let local = Local::start(&flags.each_ref().map(String::as_str));
        let mut client = with_segments(&local);
        test(&local, &mut client);
        remove_all(&mut client);
        drop((client, local));
        // Whatever was done, no segment is left: only the mark.
        for path in [path.clone(), directory.path().join("data.map.db1")] {
            if path.exists() {
                let map = TurboBlobMap::open_with(&path, &Options::new().read_only(true)).unwrap();
                assert!(map.len() <= 1, "{}: {}", path.display(), map.len());
            }
        }
    }
}

#[test]
fn large_values_are_as_small_ones() {
    everywhere(|_, client| {
        fill(client, &["SADD", "s"], names(0..5000));
        fill(client, &["HSET", "h"], pairs(0..5000));
        assert!(is_in_segments(client, "s"));
        assert_eq!([client.line("SCARD s"), client.line("HLEN h")], [":5000", ":5000"]);
        assert_eq!(client.line("DBSIZE"), ":2");
        assert_eq!(set(client, "KEYS *"), ["h", "s"].map(String::from).into());
        assert_eq!(set(client, "SMEMBERS s"), names(0..5000).collect());
        assert_eq!(set(client, "HKEYS h"), names(0..5000).collect());
        let all: Vec<String> = items(client.run("HGETALL h"));
        let all: BTreeMap<&str, &str> = all.chunks(2).map(|it| (&*it[0], &*it[1])).collect();
        assert_eq!((all.len(), all["member:77"]), (5000, "value:77"));
        assert_eq!(client.line("HGET h member:4999"), "value:4999");
        assert_eq!(client.line("HGET h member:5000"), "$-1");
        assert_eq!(client.line("HSTRLEN h member:4999"), ":10");
        assert_eq!(
            [client.line("SISMEMBER s member:3"), client.line("SISMEMBER s x")],
            [":1", ":0"]
        );
        let Reply::Many(_, found) = client.run("HMGET h member:1 x member:2") else { panic!() };
        assert_eq!(found[1], Reply::Line("$-1".into()));
        assert_eq!(found[2], Reply::Bulk(b"value:2".to_vec()));
        assert_eq!(
            [client.line("HSET h member:7 new"), client.line("HGET h member:7")],
            [":0", "new"]
        );
        assert_eq!([client.line("HSETNX h member:7 x"), client.line("HSETNX h y 5")], [":0", ":1"]);
        assert_eq!(
            [client.line("HINCRBY h y 3"), client.line("HINCRBYFLOAT h y 0.5")],
            [":8", "8.5"]
        );
        assert_eq!([client.line("HDEL h y member:7 z"), client.line("HLEN h")], [":2", ":4999"]);
        assert_eq!([client.line("SREM s member:0 x"), client.line("SCARD s")], [":1", ":4999"]);
        assert_eq!(client.line("OBJECT ENCODING s"), "hashtable");
        let bytes = client.line("MEMORY USAGE s");
        assert!(bytes[1..].parse::<usize>().is_ok_and(|it| it > 60_000), "{bytes}");
        assert_eq!(
            client.line("GET s"),
            "-WRONGTYPE Operation against a key holding the wrong kind of value"
        );
        // They shrink to one record, and end.
        for at in (0..5000).step_by(10) {
            fill(client, &["SREM", "s"], names(at..at + 10));
        }
        assert_eq!([client.line("EXISTS s"), client.line("DBSIZE")], [":0", ":1"]);
    });
}

#[test]
fn sets_are_combined_whatever_their_size() {
    everywhere(|_, client| {
        fill(client, &["SADD", "a"], names(0..3000));
        fill(client, &["SADD", "b"], names(2000..4000));
        fill(client, &["SADD", "c"], names(2990..3010));
        assert_eq!(set(client, "SINTER a b"), names(2000..3000).collect());
        assert_eq!(set(client, "SINTER a b c"), names(2990..3000).collect());
        assert_eq!(set(client, "SINTER c a"), names(2990..3000).collect());
        assert_eq!(client.line("SINTERCARD 2 a b"), ":1000");
        assert_eq!(set(client, "SDIFF a b"), names(0..2000).collect());
        assert_eq!(set(client, "SDIFF c a"), names(3000..3010).collect());
        assert_eq!(set(client, "SUNION c b a"), names(0..4000).collect());
        assert_eq!(client.line("SUNIONSTORE a a b"), ":4000");
        assert_eq!(set(client, "SMEMBERS a"), names(0..4000).collect());
        assert_eq!([client.line("SDIFFSTORE b b a"), client.line("EXISTS b")], [":0", ":0"]);
        assert_eq!(client.line("SINTERSTORE a a c"), ":20");
        assert_eq!(client.line("SMOVE a c member:2990"), ":1");
        assert_eq!([client.line("SCARD a"), client.line("DBSIZE")], [":19", ":2"]);
    });
}

#[test]
fn random_members_are_members() {
    everywhere(|_, client| {
        fill(client, &["SADD", "s"], names(0..1000));
        fill(client, &["HSET", "h"], pairs(0..1000));
        let all: BTreeSet<String> = names(0..1000).collect();
        assert!(
            all.contains(&client.line("SRANDMEMBER s"))
                && all.contains(&client.line("HRANDFIELD h"))
        );
        for (count, len) in [(10, 10), (499, 499), (700, 700), (5000, 1000)] {
            let chosen = set(client, &format!("SRANDMEMBER s {count}"));
            assert!(chosen.len() == len && chosen.is_subset(&all));
            let chosen = items(client.run(&format!("HRANDFIELD h {count} WITHVALUES")));
            let fields: BTreeSet<String> = chosen.chunks(2).map(|it| it[0].clone()).collect();
            assert!(fields.len() == len && fields.is_subset(&all));
            assert!(chosen.chunks(2).all(|it| it[1] == it[0].replace("member", "value")));
        }
        assert_eq!(items(client.run("SRANDMEMBER s -2500")).len(), 2500);
        let mut popped: BTreeSet<String> = [client.line("SPOP s")].into();
        for count in [0, 1, 300, 500, 1000] {
            popped.append(&mut set(client, &format!("SPOP s {count}")));
        }
        assert_eq!(popped, all);
        assert_eq!([client.line("EXISTS s"), client.line("DBSIZE")], [":0", ":1"]);
    });
}

/// A walk returns who is there from its begin to its end, also if the value grows and shrinks meanwhile.
#[test]
fn a_scan_misses_nobody() {
    everywhere(|_, client| {
        fill(client, &["SADD", "s"], names(0..2000));
        let mut step = 0;
        let found = scan(client, "SSCAN s CURSOR", |client| {
            step += 1;
            match step % 20 {
                1 => fill(client, &["SADD", "s"], names(10_000..13_000)),
                // As far as it becomes smaller than it was at first.
                11 => {
                    fill(client, &["SREM", "s"], names(10_000..13_000));
                    fill(client, &["SREM", "s"], names(300..2000));
                }
                _ => {}
            }
        });
        let found: BTreeSet<String> = found.into_iter().collect();
        assert!(step > 20 && names(0..300).all(|name| found.contains(&name)));
        fill(client, &["HSET", "h"], pairs(0..2000));
        let found = scan(client, "HSCAN h CURSOR MATCH *7 COUNT 100", |_| ());
        assert_eq!(found.len(), 400);
        assert!(found.chunks(2).all(|it| it[0].ends_with('7') && it[1].starts_with("value:")));
    });
}

#[test]
fn a_key_takes_its_segments_along() {
    everywhere(|_, client| {
        fill(client, &["SADD", "s"], names(0..1000));
        let whole = set(client, "SMEMBERS s");
        let check = |client: &mut Client, key: &str, size: &str| {
            assert_eq!(set(client, &format!("SMEMBERS {key}")), whole);
            assert_eq!(client.line("DBSIZE"), size);
        };
        assert_eq!(client.line("RENAME s t"), "+OK");
        check(client, "t", ":1");
        assert_eq!([client.line("COPY t s"), client.line("SADD s one-more")], [":1", ":1"]);
        check(client, "t", ":2");
        // One in place of another one.
        assert_eq!(client.line("RENAME t s"), "+OK");
        check(client, "s", ":1");
        assert_eq!([client.line("COPY s s2"), client.line("COPY s s2 REPLACE")], [":1", ":1"]);
        assert_eq!(client.line("EXPIRE s 1000"), ":1");
        check(client, "s", ":2");
        assert_eq!([client.line("PERSIST s"), client.line("MOVE s 1")], [":1", ":1"]);
        assert_eq!(client.line("DBSIZE"), ":1");
        client.run("SELECT 1");
        check(client, "s", ":1");
        let Reply::Bulk(dump) = client.run("DUMP s") else { panic!() };
        client.run("SELECT 0");
        for _ in 0..2 {
            client.send(&encode(&[&b"RESTORE"[..], b"s", b"0", &dump, b"REPLACE"]));
            assert_eq!(client.read(), Reply::Line("+OK".into()));
            check(client, "s", ":2");
        }
        // Other values in their place, by commands alone, in a pipeline and together.
        assert_eq!([client.line("SET s x"), client.line("GET s")], ["+OK", "x"]);
        assert_eq!(client.line("DBSIZE"), ":2");
        client.run("RENAME s2 s");
        let sets =
            (0..50).flat_map(|at| encode(&["SET", if at == 25 { "s" } else { "x" }, "value"]));
        client.send(&sets.collect::<Vec<u8>>());
        (0..50).for_each(|_| assert_eq!(client.read(), Reply::Line("+OK".into())));
        assert_eq!([client.line("GET s"), client.line("DBSIZE")], ["value", ":2"]);
        client.run("SELECT 1");
        assert_eq!(client.line("MSET s 1 y 2"), "+OK");
        assert_eq!([client.line("GET s"), client.line("DBSIZE")], ["1", ":2"]);
        fill(client, &["HSET", "h"], pairs(0..1000));
        assert_eq!(client.line("PEXPIRE h 30"), ":1");
        std::thread::sleep(Duration::from_millis(40));
        assert_eq!(
            [client.line("HLEN h"), client.line("HSET h a b"), client.line("HLEN h")],
            [":0", ":1", ":1"]
        );
        assert_eq!(client.line("DBSIZE"), ":3");
        fill(client, &["HSET", "h"], pairs(0..1000));
        assert_eq!(client.line("PEXPIRE h 1"), ":1");
        // Removed by the thread that looks for expired keys.
        while client.line("DBSIZE") != ":2" {
            std::thread::sleep(Duration::from_millis(10));
        }
        client.run("SELECT 0");
    });
}

#[test]
fn transactions_change_large_values() {
    everywhere(|_, client| {
        let mut run = |commands: &[&str]| {
            if commands != ["FLUSHDB"] {
                fill(client, &["SADD", "old"], names(0..1000));
            }
            assert_eq!(client.line("MULTI"), "+OK");
            fill(client, &["SADD", "s"], names(0..1000));
            commands.iter().for_each(|it| assert_eq!(client.line(it), "+QUEUED"));
            let Reply::Many(_, replies) = client.run("EXEC") else { panic!() };
            let size = client.line("DBSIZE");
            (replies[replies.len() - commands.len()..].to_vec(), size)
        };
        let line = |text: &str| Reply::Line(text.into());
        // Before the others, whose segments it would remove.
        assert_eq!(run(&["FLUSHDB"]).1, ":0");
        let (replies, size) = run(&["SCARD s", "SREM s member:5", "SISMEMBER s member:6"]);
        assert_eq!((replies, &*size), (vec![line(":1000"), line(":1"), line(":1")], ":2"));
        let (replies, size) = run(&["DEL s", "EXISTS s", "SADD s 1", "SCARD s"]);
        assert_eq!(replies[1..], [line(":0"), line(":1"), line(":1")]);
        assert_eq!(size, ":2");
        let (replies, size) = run(&["SUNIONSTORE old s old", "SCARD old", "HSET s x y"]);
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        assert_eq!(replies, [line(":1001"), line(":1001"), line(wrong)]);
        assert_eq!(size, ":2");
        let (replies, size) = run(&["RENAME s old", "SCARD old", "SET old x", "DBSIZE"]);
        assert_eq!(replies, [line("+OK"), line(":1001"), line("+OK"), line(":1")]);
        assert_eq!(size, ":1");
    });
}

/// Readers see each change as a whole: fields that change together are equal, and there are as many as counted.
#[test]
fn readers_see_whole_changes() {
    everywhere(|local, client| {
        fill(client, &["HSET", "h"], (0..400).flat_map(|at| [format!("f{at}"), "0".into()]));
        fill(client, &["SADD", "s"], names(0..400));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let ends = Ends(&is_over);
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let (mut client, mut seen) = (local.client(), BTreeSet::new());
                        while !is_over.load(Ordering::Relaxed) {
                            let all = items(client.run("HMGET h f1 f77 f200 f399"));
                            assert!(all.iter().all(|it| *it == all[0]), "{all:?}");
                            seen.insert(all[0].clone());
                            let all = items(client.run("HVALS h"));
                            assert!(
                                all.len() == 400 && all.iter().all(|it| *it == all[0]),
                                "{all:?}"
                            );
                            assert!(set(&mut client, "SRANDMEMBER s 190").len() <= 190);
                            let len = set(&mut client, "SMEMBERS s").len();
                            assert!(len == 0 || (400..=1400).contains(&len), "{len}");
                        }
                        seen.len()
                    })
                })
                .collect();
            for round in 1..150_u32 {
                let fields = (0..400).flat_map(|at| [format!("f{at}"), "x".repeat(round as usize)]);
                let words: Vec<String> =
                    ["HSET", "h"].map(String::from).into_iter().chain(fields).collect();
                client.send(&encode(&words));
                assert_eq!(client.read(), Reply::Line(":0".into()));
                // It grows and shrinks, and is removed and made again.
                let words: Vec<String> =
                    ["SADD", "s"].map(String::from).into_iter().chain(names(400..1400)).collect();
                client.send(&encode(&words));
                client.read();
                let words: Vec<String> =
                    ["SREM", "s"].map(String::from).into_iter().chain(names(400..1400)).collect();
                client.send(&encode(&words));
                client.read();
                if round % 10 == 0 {
                    client.run("COPY s other REPLACE");
                    client.run("DEL s");
                    client.run("RENAME other s");
                }
            }
            drop(ends);
            for reader in readers {
                assert!(reader.join().expect("no panic") > 2);
            }
        });
    });
}

/// The server's own keys are no keys for clients.
#[cfg(target_os = "linux")]
#[test]
fn the_mark_of_a_file_is_hidden() {
    let directory = tempfile::tempdir().unwrap();
    let file = format!("--file={}", directory.path().join("data.map").display());
    let local = Local::start(&[&file, "--threads=1"]);
    let mut client = with_segments(&local);
    let mark = "\0nunatak: sets and hashes are in segments";
    let mut run = |command: &str| {
        let words: Vec<&str> =
            command.split('|').map(|it| if it == "MARK" { mark } else { it }).collect();
        client.send(&encode(&words));
        match client.read() {
            Reply::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
            Reply::Line(line) => line,
            Reply::Many(line, _) => line,
        }
    };
    let refused = "-ERR the server keeps this key for itself";
    for (command, reply) in [
        ("GET|MARK", "$-1"),
        ("EXISTS|MARK", ":0"),
        ("TYPE|MARK", "+none"),
        ("DEL|MARK", ":0"),
        ("DBSIZE", ":0"),
        ("KEYS|*", "*0"),
        ("RANDOMKEY", "$-1"),
        ("MEMORY|USAGE|MARK", "$-1"),
        ("SET|MARK|x", refused),
        ("MSET|a|1|MARK|x", refused),
        ("SADD|MARK|x", refused),
        ("APPEND|MARK|x", refused),
        ("SET|b|2", "+OK"),
        ("RENAME|b|MARK", refused),
        ("COPY|b|MARK", refused),
        ("GETDEL|MARK", "$-1"),
        ("DBSIZE", ":1"),
    ] {
        assert_eq!(run(command), reply, "{command}");
    }
    let sets = (0..20).flat_map(|at| encode(&["SET", if at == 7 { mark } else { "b" }, "x"]));
    client.send(&sets.collect::<Vec<u8>>());
    for at in 0..20 {
        let reply = if at == 7 { refused } else { "+OK" };
        assert_eq!(client.read(), Reply::Line(reply.into()), "{at}");
    }
    for command in [vec!["MULTI"], vec!["SET", mark, "x"], vec!["DEL", mark]] {
        client.send(&encode(&command));
        client.read();
    }
    let Reply::Many(_, replies) = client.run("EXEC") else { panic!() };
    assert_eq!(replies, [Reply::Line(refused.into()), Reply::Line(":0".into())]);
    assert!({
        fill(&mut client, &["SADD", "s"], names(0..200));
        is_in_segments(&mut client, "s")
    });
}

/// In a damaged file members may be missing that are counted. Commands end, and tell those that are there.
#[cfg(target_os = "linux")]
#[test]
fn missing_segments_are_survived() {
    use nunatak::durable::TurboBlobMap;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.map");
    let file = format!("--file={}", path.display());
    let local = Local::start(&[&file, "--threads=1"]);
    let mut client = with_segments(&local);
    fill(&mut client, &["SADD", "s"], names(0..1000));
    drop((client, local));
    let map = TurboBlobMap::open(&path).unwrap();
    let mut keys = Vec::new();
    let mut part = 0;
    while map.pin().for_each_of_part(part, |_, key, _| keys.push(key.to_vec())) {
        part += 1;
    }
    // Nine of ten segments.
    let segments = keys.iter().filter(|key| key.len() == 20);
    segments.enumerate().filter(|(at, _)| at % 10 != 0).for_each(|(_, key)| {
        assert!(map.delete(key).unwrap());
    });
    map.close().unwrap();
    let local = Local::start(&[&file, "--threads=1"]);
    let mut client = local.client();
    let left = set(&mut client, "SMEMBERS s");
    assert!((20..400).contains(&left.len()), "{}", left.len());
    assert_eq!(set(&mut client, "SRANDMEMBER s 450"), left);
    assert_eq!(scan(&mut client, "SSCAN s CURSOR", |_| ()).len(), left.len());
    assert_eq!(client.line("SADD s more"), ":1");
    assert!(set(&mut client, "SPOP s 500").len() == left.len() + 1);
    assert_eq!([client.line("DEL s"), client.line("EXISTS s")], [":1", ":0"]);
}
