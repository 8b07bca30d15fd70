//! What the server tells of the commands that it has run.

use crate::common::{Client, Local, Redis, Reply, encode};
use std::io::{Read, Write};

/// Commands with errors, passwords, transactions and messages.
const COMMANDS: &[&str] = &[
    "PING",
    "GET a",
    "get A \"b c\"",
    "NOSUCH x",
    "GET",
    "SET a \"x\\r\\n\\t\\x00\\x07\\b\\xff\\\"\\\\ y\"",
    "SELECT 3",
    "GET b",
    "AUTH secret",
    "AUTH u secret",
    "HELLO 2",
    "HELLO 2 AUTH default secret",
    "CONFIG GET nothing",
    "CLIENT SETNAME foo",
    "DBSIZE",
    "MULTI",
    "SET x 1",
    "BADCMD",
    "EXEC",
    "MULTI",
    "SET x 1",
    "PING",
    "INCR a",
    "EXEC",
    "MULTI",
    "GET x",
    "DISCARD",
    "WATCH x",
    "UNWATCH",
    "SUBSCRIBE a",
    "GET x",
    "UNSUBSCRIBE a",
    "PUBLISH a b",
    "PUBSUB foo",
    "INCR a",
    "SMEMBERS s",
    "SLOWLOG NOSUCH",
    "ECHO \"\"",
    "MSET k0 0 k1 1 k2 2 k3 3 k4 4 k5 5 k6 6 k7 7 k8 8 k9 9 k10 10 k11 11 k12 12 k13 13 k14 14 k15 15",
    "DEL k0 k1 k2 k3 k4 k5 k6 k7 k8 k9 k10 k11 k12 k13 k14 k15 k16 k17 k18 k19 k20 k21 k22 k23 k24 k25 k26 k27 k28 k29 k30",
    "DEL k0 k1 k2 k3 k4 k5 k6 k7 k8 k9 k10 k11 k12 k13 k14 k15 k16 k17 k18 k19 k20 k21 k22 k23 k24 k25 k26 k27 k28 k29 k30 k31",
    "ECHO 12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678",
    "ECHO 123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    "RESET",
];

/// Runs all commands, and pipelines that are looked up and changed together.
fn run_all<S: Read + Write>(client: &mut Client<S>) {
    let mut lines = COMMANDS.join("\r\n").into_bytes();
    for command in ["GET p", "SET q 1", "GET s"] {
        // What is about no key separates the windows.
        lines.extend(format!("\r\nPING{}", format!("\r\n{command}").repeat(20)).bytes());
    }
    lines.extend(b"\r\nECHO end\r\n");
    client.send(&lines);
    while client.read() != Reply::Bulk(b"end".to_vec()) {}
}

/// Returns the lines of a monitor up to the last command, without times and addresses.
fn lines<S: Read + Write>(monitor: &mut Client<S>) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line: &String| !line.ends_with("\"ECHO\" \"end\"")) {
        let Reply::Line(line) = monitor.read() else { panic!("no line") };
        let (time, rest) = line.split_once(" [").expect("a time");
        assert!(time.starts_with('+') && time.split_once('.').is_some_and(|it| it.1.len() == 6));
        let (place, command) = rest.split_once("] ").expect("a place");
        let (db, address) = place.split_once(' ').expect("an address");
        assert!(address.contains(':'), "{line}");
        lines.push(format!("{db} {command}"));
    }
    lines
}

#[test]
fn monitors_see_what_those_of_redis_see() {
    let Some(redis) = Redis::start() else { return };
    let local = Local::start(&["--threads=2"]);
    let (mut ours, mut theirs) = (local.client(), redis.client());
    assert_eq!(ours.line("MONITOR"), "+OK");
    assert_eq!(theirs.line("MONITOR"), "+OK");
    // A second one has no reply.
    ours.send(b"MONITOR\r\n");
    theirs.send(b"MONITOR\r\n");
    run_all(&mut local.client());
    run_all(&mut redis.client());
    let seen = lines(&mut ours);
    assert!(seen.len() > 60 + 20, "{seen:#?}");
    assert_eq!(seen, lines(&mut theirs));
    for command in ["GET a", "PUBLISH a b", "PING"] {
        assert_eq!(ours.line(command), theirs.line(command), "{command}");
    }
}

/// Other threads' commands are seen, in order, as long as the monitor lasts.
#[test]
fn monitors_see_all_threads() {
    let local = Local::start(&["--threads=3"]);
    let (mut monitor, mut stays) = (local.client(), local.client());
    for client in [&mut monitor, &mut stays] {
        assert_eq!(client.line("MONITOR"), "+OK");
    }
    let mut clients: Vec<Client> = (0..3).map(|_| local.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let gets = (0..100).flat_map(|at| encode(&["GET", &format!("{number}:{at}")]));
        client.send(&gets.collect::<Vec<u8>>());
        (0..100).for_each(|_| assert_eq!(client.read(), Reply::Line("$-1".into())));
        client.send(&encode(&["ECHO", "end"]));
        client.read();
        let expected: Vec<String> = (0..100)
            .map(|at| format!("0 \"GET\" \"{number}:{at}\""))
            .chain(["0 \"ECHO\" \"end\"".into()])
            .collect();
        assert_eq!(lines(&mut monitor), expected);
        assert_eq!(lines(&mut stays), expected);
    }
    // After `RESET` there is no line in front of the replies.
    monitor.send(&encode(&["RESET"]));
    assert_eq!(monitor.read(), Reply::Line("+RESET".into()));
    assert_eq!(clients[0].line("ECHO end"), "end");
    assert_eq!(monitor.line("PING"), "+PONG");
}

/// Returns the arguments and the client's name of the slow commands, the oldest first.
fn slow<S: Read + Write>(client: &mut Client<S>, count: i64) -> Vec<(Reply, Reply)> {
    let Reply::Many(_, entries) = client.run(&format!("SLOWLOG GET {count}")) else { panic!() };
    let mut last = None;
    let read = |entry: Reply| {
        let Reply::Many(_, mut parts) = entry else { panic!("{entry:?}") };
        let (name, address, args) = (parts.pop(), parts.pop(), parts.pop());
        let numbers: Vec<u64> = parts
            .iter()
            .map(|part| match part {
                Reply::Line(line) => line[1..].parse().expect("a number"),
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(numbers.len() == 3 && numbers[1] > 1_700_000_000);
        assert!(last.replace(numbers[0]).is_none_or(|last| last == numbers[0] + 1));
        assert!(matches!(address, Some(Reply::Bulk(bytes)) if bytes.contains(&b':')));
        (args.expect("arguments"), name.expect("a name"))
    };
    let mut entries: Vec<_> = entries.into_iter().map(read).collect();
    entries.reverse();
    entries
}

#[test]
fn slow_commands_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let local = Local::start(&["--threads=1"]);
    let (mut ours, mut theirs) = (local.client(), redis.client());
    for command in
        ["CONFIG SET slowlog-max-len 1000", "CONFIG SET slowlog-log-slower-than 0", "SLOWLOG RESET"]
    {
        assert_eq!([ours.line(command), theirs.line(command)], ["+OK", "+OK"]);
    }
    run_all(&mut local.client());
    run_all(&mut redis.client());
    let seen = slow(&mut ours, -1);
    assert!(seen.len() > 60, "{seen:#?}");
    assert_eq!(seen, slow(&mut theirs, -1));
    assert_eq!(slow(&mut ours, 3), slow(&mut theirs, 3));
    assert_eq!(slow(&mut ours, 3).len(), 3);
    for command in [
        "SLOWLOG RESET",
        "SLOWLOG LEN",
        "CONFIG SET slowlog-max-len 2",
        "PING",
        "SLOWLOG LEN",
        "CONFIG SET slowlog-log-slower-than -1",
        "SLOWLOG LEN",
        "PING",
        "SLOWLOG RESET",
        "PING",
        "SLOWLOG LEN",
        "SLOWLOG LEN x",
        "SLOWLOG GET x",
        "SLOWLOG GET -2",
        "SLOWLOG GET 1 2",
        "SLOWLOG nosuch",
        "SLOWLOG",
        "SLOWLOG HELP",
        "CONFIG SET slowlog-log-slower-than x",
        "CONFIG SET slowlog-log-slower-than -2",
        "CONFIG SET slowlog-max-len -1",
        "CONFIG GET slowlog*",
    ] {
        let [mut ours, mut theirs] = [ours.run(command), theirs.run(command)];
        // Parameters have no order.
        for reply in [&mut ours, &mut theirs] {
            if let (true, Reply::Many(_, items)) = (command.starts_with("CONFIG"), reply) {
                items.sort();
            }
        }
        assert_eq!(ours, theirs, "{command}");
    }
}

/// Returns the lines of `INFO commandstats` in order, without times.
fn command_stats<S: Read + Write>(client: &mut Client<S>) -> Vec<String> {
    let text = client.line("INFO commandstats");
    let calls = |line: &str| {
        let fields = line.split(',').filter(|field| !field.starts_with("usec"));
        line.starts_with("cmdstat_").then(|| fields.collect::<Vec<_>>().join(","))
    };
    let mut lines: Vec<String> = text.lines().filter_map(calls).collect();
    lines.sort();
    lines
}

#[test]
fn counts_of_commands_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let local = Local::start(&["--threads=2"]);
    let (mut ours, mut theirs) = (local.client(), redis.client());
    for _ in 0..2 {
        run_all(&mut local.client());
        run_all(&mut redis.client());
        let seen = command_stats(&mut ours);
        assert!(seen.len() > 20, "{seen:#?}");
        assert_eq!(seen, command_stats(&mut theirs));
        let reset = "CONFIG RESETSTAT";
        assert_eq!([ours.line(reset), theirs.line(reset)], ["+OK", "+OK"]);
    }
    assert_eq!(ours.line("CONFIG RESETSTAT"), "+OK");
    assert!(ours.line("INFO stats").contains("total_error_replies:0\r\n"));
    ours.line("GET");
    assert!(ours.line("INFO stats").contains("total_error_replies:1\r\n"));
}
