//! The times of commands: `LATENCY`, `INFO latencystats`.

use crate::common::{Client, Local, Redis, Reply, encode};
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// Returns a number, or the number of an integer reply.
fn integer(reply: &Reply) -> u64 {
    match reply {
        Reply::Line(line) => line[1..].parse().expect("a number"),
        other => panic!("{other:?}"),
    }
}

/// Returns the calls of each command in a reply of `LATENCY HISTOGRAM`, after a look at its form.
fn calls(reply: Reply, kind: char) -> BTreeMap<String, u64> {
    let pairs = |reply: &Reply| match reply {
        Reply::Many(line, items) if line.starts_with(kind) => {
            items.chunks(2).map(|it| (it[0].clone(), it[1].clone())).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    // Whatever the times were, the bounds are among those that Redis has.
    let bounds: Vec<u64> = (10..30).map(|power| ((129_u64 << power) / 128 - 1) / 1000).collect();
    let of_command = |(name, fields): (Reply, Reply)| {
        let Reply::Bulk(name) = name else { panic!("{name:?}") };
        let [(calls, count), (usec, buckets)] = &pairs(&fields)[..] else { panic!("{fields:?}") };
        let words = [calls, usec].map(|it| it == &Reply::Bulk(b"calls".to_vec()));
        assert_eq!((words, usec), ([true, false], &Reply::Bulk(b"histogram_usec".to_vec())));
        let (mut last, calls) = ((0, 0), integer(count));
        for (bound, count) in pairs(buckets) {
            let next = (integer(&bound), integer(&count));
            assert!(bounds.contains(&next.0), "{next:?}");
            assert!(next.0 > last.0 && next.1 > last.1, "{last:?} {next:?}");
            last = next;
        }
        assert_eq!(last.1, calls);
        (String::from_utf8(name).expect("text"), calls)
    };
    pairs(&reply).into_iter().map(of_command).filter(|it| !is_odd(&it.0)).collect()
}

/// Whether Redis does not count some calls of the command: those of subcommands with too many arguments.
fn is_odd(name: &str) -> bool {
    name.starts_with("latency|")
}

/// Runs commands one by one, and in pipelines that are looked up and changed together.
fn run_all<S: Read + Write>(client: &mut Client<S>) {
    let mut lines = b"GET\r\nNOSUCH\r\nINCR a\r\nCONFIG GET nothing\r\nSADD a x\r\n".to_vec();
    lines.extend(b"MULTI\r\nSET b 1\r\nGET b\r\nEXEC\r\n");
    for command in ["GET a", "SET c 1", "MGET a b"] {
        lines.extend(format!("PING\r\n{}", format!("{command}\r\n").repeat(20)).bytes());
    }
    lines.extend(b"ECHO end\r\n");
    client.send(&lines);
    while client.read() != Reply::Bulk(b"end".to_vec()) {}
}

/// Returns the names of `INFO latencystats`, after a look at the percentiles.
fn percentiles<S: Read + Write>(client: &mut Client<S>, names: &[&str]) -> Vec<String> {
    let text = client.line("INFO latencystats");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("# Latencystats"));
    let name = |line: &str| {
        let (name, fields) = line.split_once(':').expect("fields");
        let fields: Vec<_> = fields.split(',').filter_map(|it| it.split_once('=')).collect();
        assert_eq!(fields.iter().map(|it| it.0).collect::<Vec<_>>(), names);
        let values: Vec<f64> = fields.iter().map(|it| it.1.parse().expect("a number")).collect();
        assert!(values.is_sorted(), "{line}");
        assert!(fields.iter().all(|it| it.1.split_once('.').is_some_and(|it| it.1.len() == 3)));
        name.strip_prefix("latency_percentiles_usec_").expect("a name").to_string()
    };
    let mut all: Vec<String> = lines.map(name).filter(|name| !is_odd(name)).collect();
    all.sort();
    all
}

#[test]
fn times_of_commands_are_told_as_redis_tells_them() {
    let Some(redis) = Redis::start() else { return };
    let local = Local::start(&["--threads=2"]);
    let (mut ours, mut theirs) = (local.client(), redis.client());
    run_all(&mut ours);
    run_all(&mut theirs);
    for (hello, kind) in [("HELLO 2", '*'), ("HELLO 3", '%')] {
        ours.run(hello);
        theirs.run(hello);
        for command in [
            "LATENCY HISTOGRAM",
            "LATENCY HISTOGRAM get nosuch mget",
            "latency histogram CONFIG",
            "LATENCY HISTOGRAM Config|Get config|set config|nosuch nosuch|get get|x",
            "LATENCY HISTOGRAM nosuch",
        ] {
            let [ours, theirs] = [ours.run(command), theirs.run(command)];
            assert_eq!(calls(ours, kind), calls(theirs, kind), "{command}");
        }
        for command in [
            "LATENCY LATEST",
            "LATENCY HISTORY command",
            "LATENCY RESET",
            "LATENCY RESET command fork",
            "LATENCY GRAPH command",
            "LATENCY HELP",
            "LATENCY HELP x",
            "LATENCY HISTORY",
            "LATENCY DOCTOR x",
            "LATENCY",
            "LATENCY nosuch",
            "CONFIG GET latency-tracking",
            "CONFIG GET latency-tracking-info-percentiles",
            "CONFIG GET latency-monitor-threshold",
            "CONFIG SET latency-monitor-threshold -1",
            "CONFIG SET latency-monitor-threshold x",
            "CONFIG SET latency-monitor-threshold 1000000",
            "LATENCY LATEST",
            "CONFIG GET latency-monitor-threshold",
            "CONFIG SET latency-monitor-threshold 0",
            "CONFIG SET latency-tracking maybe",
            "CONFIG SET latency-tracking-info-percentiles 101",
            "CONFIG SET latency-tracking-info-percentiles x",
        ] {
            assert_eq!(ours.run(command), theirs.run(command), "{command}");
        }
        let doctor = ours.run("LATENCY DOCTOR");
        assert!(matches!(doctor, Reply::Bulk(text) if text.starts_with(b"txt:") == (kind == '%')));
    }
    ours.run("HELLO 2");
    theirs.run("HELLO 2");
    let names = ["p50", "p99", "p99.9"];
    let seen = percentiles(&mut ours, &names);
    assert!(seen.len() > 10, "{seen:?}");
    assert_eq!(seen, percentiles(&mut theirs, &names));
    let set = encode(&["CONFIG", "SET", "latency-tracking-info-percentiles", "0 99.9999 100"]);
    for command in ["", "CONFIG SET latency-tracking no", "GET a", "LATENCY HISTOGRAM get"] {
        match command {
            "" => {
                ours.send(&set);
                theirs.send(&set);
                assert_eq!(ours.read(), theirs.read());
                let names = ["p0", "p99.9999", "p100"];
                assert_eq!(percentiles(&mut ours, &names), percentiles(&mut theirs, &names));
            }
            "LATENCY HISTOGRAM get" => {
                let [ours, theirs] = [ours.run(command), theirs.run(command)];
                assert_eq!(calls(ours, '*'), calls(theirs, '*'));
            }
            _ => assert_eq!(ours.run(command), theirs.run(command), "{command}"),
        }
    }
    assert_eq!(ours.line("INFO latencystats"), theirs.line("INFO latencystats"));
    for command in ["CONFIG SET latency-tracking yes", "CONFIG RESETSTAT", "GET a"] {
        assert_eq!(ours.run(command), theirs.run(command), "{command}");
    }
    for (section, is_there) in [("everything", true), ("all", true), ("default", false)] {
        for text in [ours.line(&format!("INFO {section}")), theirs.line(&format!("INFO {section}"))]
        {
            assert_eq!(text.contains("latency_percentiles_usec_get:p0="), is_there, "{section}");
        }
    }
    let [ours, theirs] = [ours.run("LATENCY HISTOGRAM"), theirs.run("LATENCY HISTOGRAM")];
    assert_eq!(calls(ours, '*'), calls(theirs, '*'));
}

/// Returns the events of `LATENCY LATEST`: the name, the last time, the last and the longest duration.
fn latest<S: Read + Write>(client: &mut Client<S>) -> Vec<(String, [u64; 3])> {
    let Reply::Many(_, events) = client.run("LATENCY LATEST") else { panic!("no events") };
    let event = |event: Reply| match event {
        Reply::Many(_, fields) if fields.len() == 4 => {
            let Reply::Bulk(name) = &fields[0] else { panic!("{fields:?}") };
            let name = String::from_utf8_lossy(name).into_owned();
            (name, [integer(&fields[1]), integer(&fields[2]), integer(&fields[3])])
        }
        other => panic!("{other:?}"),
    };
    let mut events: Vec<_> = events.into_iter().map(event).collect();
    events.sort();
    events
}

/// Slow commands: one alone, one in a transaction, and one of those that are fast as a rule.
fn run_slow<S: Read + Write>(client: &mut Client<S>) {
    let members: Vec<String> = (0..200_000).map(|it| format!("member{it}")).collect();
    let add: Vec<&str> =
        ["SADD", "set"].into_iter().chain(members.iter().map(String::as_str)).collect();
    client.run("CONFIG SET latency-monitor-threshold 1");
    client.send(&encode(&add));
    assert_eq!(client.read(), Reply::Line(":200000".into()));
    for command in ["MULTI", "SUNIONSTORE other set set", "EXEC"] {
        client.run(command);
    }
    client.run("CONFIG SET latency-monitor-threshold 0");
    client.run("SUNIONSTORE other set set");
}

#[test]
fn slow_commands_are_events() {
    let Some(redis) = Redis::start() else { return };
    let local = Local::start(&["--threads=1"]);
    let (mut ours, mut theirs) = (local.client(), redis.client());
    for (name, events) in [("ours", run_and_look(&mut ours)), ("theirs", run_and_look(&mut theirs))]
    {
        // `SADD` is fast, as the table of commands says, `SUNIONSTORE` is not.
        let names: Vec<&str> = events.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(names, ["command", "fast-command"], "{name}");
        for (event, [at, last, longest]) in events {
            assert!(at > 1_700_000_000 && (1..=longest).contains(&last), "{name}: {event}");
        }
    }
    for command in
        ["LATENCY RESET nosuch", "LATENCY RESET Command", "LATENCY RESET", "LATENCY LATEST"]
    {
        assert_eq!(ours.run(command), theirs.run(command), "{command}");
    }
}

/// Makes events, and compares the replies about them with each other.
fn run_and_look<S: Read + Write>(client: &mut Client<S>) -> Vec<(String, [u64; 3])> {
    run_slow(client);
    let events = latest(client);
    for (event, [at, last, longest]) in &events {
        let Reply::Many(_, samples) = client.run(&format!("LATENCY HISTORY {event}")) else {
            panic!("no samples")
        };
        let numbers = |it: &Reply| match it {
            Reply::Many(_, pair) => [integer(&pair[0]), integer(&pair[1])],
            other => panic!("{other:?}"),
        };
        let samples: Vec<_> = samples.iter().map(numbers).collect();
        assert_eq!(samples.last(), Some(&[*at, *last]));
        assert_eq!(samples.iter().map(|it| it[1]).max(), Some(*longest));
        let graph = client.line(&format!("LATENCY GRAPH {event}"));
        let head = format!("{event} - high {longest} ms, low ");
        assert!(graph.starts_with(&head) && graph.lines().count() > 6, "{graph}");
        assert!(
            client
                .line("LATENCY DOCTOR")
                .contains(&format!(". {event}: {} latency", samples.len()))
        );
    }
    events
}

/// Lookups that are made together are events, too.
#[test]
fn slow_lookups_of_pipelines_are_events() {
    let local = Local::start(&["--threads=1", "--latency-monitor-threshold=1"]);
    let mut client = local.client();
    let value = "x".repeat(60_000_000);
    client.send(&encode(&["SET", "long", &value]));
    assert_eq!(client.read(), Reply::Line("+OK".into()));
    client.run("LATENCY RESET");
    // The first of them is slow. Its reply makes the others wait: they run by themselves.
    let lookups = [encode(&["GET", "long"]), encode(&["GET", "nothing"]).repeat(9)].concat();
    client.send(&lookups);
    assert!(matches!(client.read(), Reply::Bulk(it) if it.len() == value.len()));
    (0..9).for_each(|_| assert_eq!(client.read(), Reply::Line("$-1".into())));
    let events: Vec<_> = latest(&mut client).into_iter().map(|it| it.0).collect();
    assert_eq!(events, ["fast-command"]);
}
