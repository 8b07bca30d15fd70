//! Random commands, to this server and to a Redis: their replies are the same, byte by byte.
//!
//! Replies whose order means nothing are sorted first, and times may differ by a minute.
//! `NUNATAK_EFFORT=100` sends a hundred times as many.

use crate::common::{Local, Redis, Reply, encode};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

type Command = Vec<Vec<u8>>;

/// What an argument of a command is.
const WORDS: [(&str, &[&str]); 10] = [
    ("KEY", &["a", "b", "c", "d", "e", "f", "key:7", "", "a longer key, of more than a few bytes"]),
    (
        "VALUE",
        &[
            "",
            "1",
            "-5",
            "hello",
            "3.25",
            "1e3",
            "9223372036854775807",
            " 1",
            "01",
            "x\r\ny",
            "0.1",
        ],
    ),
    ("MEMBER", &["1", "2", "3", "x", "y", "zed", "", "-7"]),
    (
        "NUMBER",
        &[
            "0",
            "1",
            "-1",
            "5",
            "-3",
            "100",
            "9223372036854775807",
            "-9223372036854775808",
            "x",
            "1.5",
        ],
    ),
    ("FLOAT", &["1", "0.5", "-0.25", "3.125", "1e2", "x", "10.1", "-7"]),
    // (As milliseconds, too, they are longer than the test takes: no key expires at one server first.)
    ("TIME", &["20000000", "50000000", "0", "-1", "x", "99999999999999999"]),
    ("MOMENT", &["4102444800", "4102444900", "1", "0", "x"]),
    ("MOMENTS", &["4102444800000", "4102444900123", "1", "x"]),
    ("PATTERN", &["*", "?", "[ab]", "k*", "a*bytes", "\\a", "[^a]"]),
    ("OFFSET", &["0", "1", "5", "-1", "20", "x"]),
];

/// The commands, with how often each comes.
const TEMPLATES: &[(u32, &str)] = &[
    (20, "GET KEY"),
    (20, "SET KEY VALUE"),
    (2, "SET KEY VALUE NX"),
    (2, "SET KEY VALUE XX"),
    (2, "SET KEY VALUE GET"),
    (2, "SET KEY VALUE NX GET"),
    (2, "SET KEY VALUE EX TIME"),
    (2, "SET KEY VALUE PX TIME XX"),
    (2, "SET KEY VALUE EXAT MOMENT"),
    (2, "SET KEY VALUE PXAT MOMENTS"),
    (2, "SET KEY VALUE KEEPTTL"),
    (1, "SET KEY VALUE EX TIME KEEPTTL"),
    (1, "SET KEY VALUE NX XX"),
    (1, "SET KEY"),
    (3, "GETSET KEY VALUE"),
    (3, "GETDEL KEY"),
    (2, "GETEX KEY"),
    (2, "GETEX KEY EX TIME"),
    (2, "GETEX KEY PXAT MOMENTS"),
    (2, "GETEX KEY PERSIST"),
    (1, "GETEX KEY PERSIST EX TIME"),
    (3, "SETNX KEY VALUE"),
    (2, "SETEX KEY TIME VALUE"),
    (2, "PSETEX KEY TIME VALUE"),
    (8, "MGET KEY KEY KEY"),
    (3, "MSET KEY VALUE KEY VALUE"),
    (1, "MSET KEY VALUE KEY"),
    (2, "MSETNX KEY VALUE KEY VALUE"),
    (6, "INCR KEY"),
    (3, "DECR KEY"),
    (4, "INCRBY KEY NUMBER"),
    (4, "DECRBY KEY NUMBER"),
    (4, "INCRBYFLOAT KEY FLOAT"),
    (3, "APPEND KEY VALUE"),
    (3, "STRLEN KEY"),
    (4, "GETRANGE KEY OFFSET OFFSET"),
    (3, "SETRANGE KEY OFFSET VALUE"),
    (5, "DEL KEY"),
    (2, "DEL KEY KEY KEY"),
    (1, "UNLINK KEY KEY"),
    (4, "EXISTS KEY KEY"),
    (1, "TOUCH KEY KEY"),
    (4, "TYPE KEY"),
    (3, "RENAME KEY KEY"),
    (3, "RENAMENX KEY KEY"),
    (2, "COPY KEY KEY"),
    (2, "COPY KEY KEY REPLACE"),
    (2, "COPY KEY KEY DB 1"),
    (1, "COPY KEY KEY REPLACE DB 1"),
    (1, "COPY KEY KEY DB 1 DB 0"),
    (1, "COPY KEY KEY DB 99"),
    (1, "COPY KEY KEY DB"),
    (1, "COPY KEY KEY DB x"),
    (2, "MOVE KEY 1"),
    (1, "MOVE KEY 0"),
    (1, "MOVE KEY 99"),
    (1, "MOVE KEY x"),
    (3, "EXPIRE KEY TIME"),
    (1, "EXPIRE KEY TIME NX"),
    (1, "EXPIREAT KEY MOMENT GT"),
    (1, "EXPIREAT KEY MOMENT LT XX"),
    (1, "EXPIRE KEY TIME NX GT"),
    (1, "EXPIRE KEY TIME GT LT"),
    (1, "EXPIRE KEY TIME FOO"),
    (2, "PEXPIRE KEY TIME"),
    (2, "EXPIREAT KEY MOMENT"),
    (2, "PEXPIREAT KEY MOMENTS XX"),
    (3, "TTL KEY"),
    (3, "PTTL KEY"),
    (3, "EXPIRETIME KEY"),
    (3, "PEXPIRETIME KEY"),
    (3, "PERSIST KEY"),
    (2, "KEYS PATTERN"),
    (1, "SCAN 0 COUNT 100000"),
    (1, "SCAN 0 MATCH PATTERN COUNT 100000 TYPE string"),
    (1, "SCAN x"),
    (1, "SCAN 0 COUNT 0"),
    (1, "SCAN 0 COUNT x"),
    (1, "SCAN 0 COUNT"),
    (1, "SPOP KEY x"),
    (1, "SPOP KEY -1"),
    (1, "SRANDMEMBER KEY 0"),
    (2, "SRANDMEMBER KEY 100"),
    (2, "OBJECT ENCODING KEY"),
    (1, "DBSIZE"),
    (1, "FLUSHDB"),
    (8, "SADD KEY MEMBER MEMBER"),
    (4, "SADD KEY MEMBER"),
    (5, "SREM KEY MEMBER MEMBER"),
    (5, "SISMEMBER KEY MEMBER"),
    (3, "SMISMEMBER KEY MEMBER MEMBER"),
    (4, "SCARD KEY"),
    (4, "SMEMBERS KEY"),
    (3, "SMOVE KEY KEY MEMBER"),
    (3, "SINTER KEY KEY"),
    (3, "SUNION KEY KEY"),
    (3, "SDIFF KEY KEY"),
    (2, "SINTERCARD 2 KEY KEY"),
    (1, "SINTERCARD 2 KEY KEY LIMIT 1"),
    (1, "SINTERCARD 1 KEY LIMIT 0 LIMIT 2"),
    (1, "SINTERCARD 1 KEY LIMIT -1"),
    (1, "SINTERCARD 1 KEY LIMIT"),
    (1, "SINTERCARD 1 KEY KEY"),
    (1, "SINTERCARD 0 KEY"),
    (1, "SINTERCARD 2 KEY"),
    (1, "SINTERCARD x KEY"),
    (2, "SINTERSTORE KEY KEY KEY"),
    (2, "SUNIONSTORE KEY KEY KEY"),
    (2, "SDIFFSTORE KEY KEY KEY"),
    (2, "SSCAN KEY 0 COUNT 1000"),
    (8, "HSET KEY MEMBER VALUE MEMBER VALUE"),
    (4, "HSET KEY MEMBER VALUE"),
    (1, "HSET KEY MEMBER VALUE MEMBER"),
    (2, "HMSET KEY MEMBER VALUE"),
    (3, "HSETNX KEY MEMBER VALUE"),
    (5, "HGET KEY MEMBER"),
    (3, "HMGET KEY MEMBER MEMBER"),
    (4, "HGETALL KEY"),
    (4, "HDEL KEY MEMBER MEMBER"),
    (2, "HLEN KEY"),
    (2, "HEXISTS KEY MEMBER"),
    (2, "HKEYS KEY"),
    (2, "HVALS KEY"),
    (2, "HSTRLEN KEY MEMBER"),
    (3, "HINCRBY KEY MEMBER NUMBER"),
    (3, "HINCRBYFLOAT KEY MEMBER FLOAT"),
    (2, "HRANDFIELD KEY 100"),
    (2, "HRANDFIELD KEY 100 WITHVALUES"),
    (1, "HRANDFIELD KEY 0 WITHVALUES"),
    (1, "HRANDFIELD KEY x"),
    (1, "HRANDFIELD KEY 1 VALUE"),
    (1, "HRANDFIELD KEY 1 WITHVALUES VALUE"),
    (1, "HRANDFIELD KEY 9223372036854775807"),
    (1, "HRANDFIELD KEY 9223372036854775807 WITHVALUES"),
    (2, "HSCAN KEY 0 COUNT 1000"),
    (3, "MULTI"),
    (4, "EXEC"),
    (1, "DISCARD"),
    (2, "WATCH KEY KEY"),
    (1, "UNWATCH"),
    (1, "PING"),
    (1, "PING VALUE"),
    (1, "ECHO VALUE"),
    (1, "NOSUCHCOMMAND KEY VALUE"),
    (1, "get KEY KEY"),
    (2, "SELECT 0"),
    (1, "SELECT 1"),
    (1, "SELECT x"),
    (1, "SELECT 99"),
    (1, "CLIENT GETNAME"),
    (1, "COMMAND GETKEYS MSET a b c d"),
];

/// Commands about sets and hashes that become large and small again. `MEMBERS` and `PAIRS` are several arguments.
const LARGE_TEMPLATES: &[(u32, &str)] = &[
    (10, "SADD KEY MEMBERS"),
    (7, "SREM KEY MEMBERS"),
    (4, "SADD KEY ONE"),
    (4, "SREM KEY ONE"),
    (5, "SISMEMBER KEY ONE"),
    (4, "SMISMEMBER KEY MEMBERS"),
    (3, "SMOVE KEY KEY ONE"),
    (4, "SCARD KEY"),
    (3, "SMEMBERS KEY"),
    (2, "SINTER KEY KEY"),
    (2, "SUNION KEY KEY KEY"),
    (2, "SDIFF KEY KEY"),
    (2, "SINTERCARD 2 KEY KEY"),
    (2, "SINTERSTORE KEY KEY KEY"),
    (3, "SUNIONSTORE KEY KEY KEY"),
    (2, "SDIFFSTORE KEY KEY KEY"),
    (2, "SSCAN KEY 0 COUNT 100000"),
    (1, "SSCAN KEY 0 MATCH *7 COUNT 100000"),
    (2, "SRANDMEMBER KEY 100000"),
    (10, "HSET KEY PAIRS"),
    (7, "HDEL KEY MEMBERS"),
    (4, "HSET KEY ONE VALUE"),
    (3, "HSETNX KEY ONE VALUE"),
    (4, "HINCRBY KEY ONE NUMBER"),
    (3, "HINCRBYFLOAT KEY ONE FLOAT"),
    (4, "HGET KEY ONE"),
    (3, "HMGET KEY MEMBERS"),
    (3, "HGETALL KEY"),
    (2, "HKEYS KEY"),
    (2, "HVALS KEY"),
    (3, "HLEN KEY"),
    (3, "HEXISTS KEY ONE"),
    (2, "HSTRLEN KEY ONE"),
    (2, "HSCAN KEY 0 COUNT 100000"),
    (2, "HRANDFIELD KEY 100000"),
    (2, "SET KEY VALUE"),
    (3, "DEL KEY"),
    (2, "GET KEY"),
    (1, "GETSET KEY VALUE"),
    (1, "MSET KEY VALUE KEY VALUE"),
    (2, "TYPE KEY"),
    (2, "EXISTS KEY KEY"),
    (2, "RENAME KEY KEY"),
    (1, "RENAMENX KEY KEY"),
    (2, "COPY KEY KEY"),
    (2, "COPY KEY KEY REPLACE"),
    (1, "COPY KEY KEY DB 1"),
    (1, "MOVE KEY 1"),
    (2, "EXPIRE KEY TIME"),
    (1, "PEXPIREAT KEY MOMENTS"),
    (1, "PERSIST KEY"),
    (2, "TTL KEY"),
    (2, "KEYS PATTERN"),
    (1, "SCAN 0 COUNT 100000"),
    (2, "DBSIZE"),
    (1, "FLUSHDB"),
    (2, "MULTI"),
    (3, "EXEC"),
    (1, "SELECT 0"),
    (1, "SELECT 1"),
];

fn large_command(random: &mut SmallRng) -> Command {
    let template = LARGE_TEMPLATES.choose_weighted(random, |(weight, _)| *weight);
    let one = |random: &mut SmallRng| match random.random_range(0..900) {
        number @ 0..600 => number.to_string().into_bytes(),
        // Longer than what is short for a Redis.
        number => format!("member {number} {}", "m".repeat(number / 7)).into_bytes(),
    };
    let mut command = Command::new();
    for part in template.expect("a template").1.split(' ') {
        let count = if random.random_bool(0.2) { 300 } else { 20 };
        let count = random.random_range(1..count);
        match part {
            "KEY" => command.push(vec![*b"abcd".choose(random).expect("a key")]),
            "ONE" => command.push(one(random)),
            "MEMBERS" => command.extend((0..count).map(|_| one(random))),
            "PAIRS" => command.extend((0..2 * count).map(|_| one(random))),
            part => command.push(word(part, random)),
        }
    }
    command
}

fn word(word: &str, random: &mut SmallRng) -> Vec<u8> {
    let choices = WORDS.iter().find(|(name, _)| *name == word).map(|(_, choices)| *choices);
    choices.and_then(|choices| choices.choose(random)).unwrap_or(&word).as_bytes().to_vec()
}

fn command(random: &mut SmallRng) -> Command {
    let template = TEMPLATES.choose_weighted(random, |(weight, _)| *weight).expect("a template").1;
    template.split(' ').map(|part| word(part, random)).collect()
}

/// Sorts what has no order.
fn normal(name: &str, reply: &Reply) -> Reply {
    let mut reply = reply.clone();
    match (name, &mut reply) {
        // (Pairs have no order in a hash that was too large once.)
        (
            "SMEMBERS" | "SINTER" | "SUNION" | "SDIFF" | "KEYS" | "HGETALL" | "HKEYS" | "HVALS"
            | "SRANDMEMBER" | "HRANDFIELD",
            Reply::Many(_, items),
        ) => items.sort(),
        ("SCAN" | "SSCAN" | "HSCAN", Reply::Many(_, items)) => {
            if let Some(Reply::Many(_, keys)) = items.get_mut(1) {
                keys.sort();
            }
        }
        _ => {}
    }
    reply
}

/// Whether replies mean the same: times may differ by what passes between two commands.
fn are_same(name: &str, queued: &[String], ours: &Reply, theirs: &Reply) -> bool {
    let apart = match name {
        "TTL" | "EXPIRETIME" => 60,
        "PTTL" | "PEXPIRETIME" => 60_000,
        // Expired keys count as long as they are there.
        "DBSIZE" => return matches!((ours, theirs), (Reply::Line(_), Reply::Line(_))),
        "OBJECT" => return are_same_encodings(ours, theirs),
        _ => 0,
    };
    match (ours, theirs) {
        (Reply::Line(ours), Reply::Line(theirs)) if apart > 0 => {
            let times = (ours[1..].parse::<i64>(), theirs[1..].parse::<i64>());
            ours == theirs || matches!(times, (Ok(a), Ok(b)) if a > 0 && a.abs_diff(b) <= apart)
        }
        // Replies of a transaction, each as of its command.
        (Reply::Many(ours_line, ours), Reply::Many(theirs_line, theirs)) if name == "EXEC" => {
            let mut all = queued.iter().zip(ours).zip(theirs);
            ours_line == theirs_line
                && ours.len() == queued.len()
                && all.all(|((name, ours), theirs)| are_same(name, &[], ours, theirs))
        }
        _ => normal(name, ours) == normal(name, theirs),
    }
}

/// How collections are kept is each server's own, and a number that was appended to is no number there.
fn are_same_encodings(ours: &Reply, theirs: &Reply) -> bool {
    matches!(ours, Reply::Bulk(_)) == matches!(theirs, Reply::Bulk(_))
}

fn compare(flags: &[&str], seed: u64, is_resp3: bool) {
    compare_with(flags, seed, is_resp3, 40_000, command);
}

fn compare_with(
    flags: &[&str],
    seed: u64,
    is_resp3: bool,
    count: usize,
    mut command: impl FnMut(&mut SmallRng) -> Command,
) {
    let Some(redis) = Redis::start() else { return };
    let local = Local::start(flags);
    let (mut ours, mut theirs) = (local.client(), redis.client());
    if is_resp3 {
        ours.run("HELLO 3");
        theirs.run("HELLO 3");
    }
    let mut random = SmallRng::seed_from_u64(seed);
    let effort: f64 =
        std::env::var("NUNATAK_EFFORT").ok().and_then(|it| it.parse().ok()).unwrap_or(1.0);
    let (mut sent, mut history, mut queued): (usize, Vec<Command>, Vec<String>) =
        Default::default();
    while sent < (count as f64 * effort) as usize {
        let count = if random.random_bool(0.3) { 1 } else { random.random_range(1..60) };
        let commands: Vec<Command> = (0..count).map(|_| command(&mut random)).collect();
        let bytes: Vec<u8> = commands.iter().flat_map(|command| encode(command)).collect();
        // The pieces in which they arrive do not matter.
        let cut = random.random_range(0..=bytes.len());
        for piece in [&bytes[..cut], &bytes[cut..]] {
            ours.send(piece);
            theirs.send(piece);
        }
        for command in commands {
            history.push(command.clone());
            let name = String::from_utf8_lossy(&command[0]).to_ascii_uppercase();
            let (ours, theirs) = (ours.read(), theirs.read());
            let are_same = are_same(&name, &queued, &ours, &theirs);
            if ours == Reply::Line("+QUEUED".into()) {
                queued.push(name);
            } else if name == "EXEC" || name == "DISCARD" {
                queued.clear();
            }
            if !are_same {
                let last = &history[history.len().saturating_sub(60)..];
                let shown: Vec<String> = last
                    .iter()
                    .map(|it| {
                        it.iter()
                            .map(|arg| String::from_utf8_lossy(arg))
                            .collect::<Vec<_>>()
                            .join(" ")
                    })
                    .collect();
                if let (Reply::Many(_, ours), Reply::Many(_, theirs)) = (&ours, &theirs) {
                    let differ = ours.iter().zip(theirs).zip(&queued);
                    differ.filter(|((a, b), _)| a != b).for_each(|differ| println!("{differ:?}"));
                }
                panic!(
                    "seed {seed}, command {sent}:\n{shown:#?}\nours   {ours:?}\ntheirs {theirs:?}"
                );
            }
            sent += 1;
        }
    }
}

#[test]
fn replies_are_those_of_redis() {
    compare(&["--threads=1"], 1, false);
}

#[test]
fn replies_of_version_3_are_those_of_redis() {
    compare(&["--threads=2"], 2, true);
}

/// A file has the same replies.
#[cfg(target_os = "linux")]
#[test]
fn replies_from_a_file_are_those_of_redis() {
    let directory = tempfile::tempdir().unwrap();
    let flag = format!("--file={}", directory.path().join("data.map").display());
    compare(&["--threads=1", &flag], 3, false);
}

#[test]
fn large_values_are_those_of_redis() {
    compare_with(&["--threads=1"], 4, false, 10_000, large_command);
}

#[cfg(target_os = "linux")]
#[test]
fn large_values_from_a_file_are_those_of_redis() {
    let directory = tempfile::tempdir().unwrap();
    let flag = format!("--file={}", directory.path().join("data.map").display());
    compare_with(&["--threads=1", &flag], 5, true, 10_000, large_command);
}
