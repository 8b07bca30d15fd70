//! Pipelines that change one set or hash are one change of it, and nobody can tell.

use crate::common::{Client, Local, Reply, encode};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// Runs of commands about one key, with others between them. Some fail.
fn requests(random: &mut SmallRng, count: usize) -> Vec<Vec<String>> {
    const COMMANDS: [&str; 10] = [
        "SADD s", "SADD s", "SREM s", "HSET h", "HSET h", "HDEL h", "SADD t", "HSET s", "SREM t",
        "hset h",
    ];
    let mut requests: Vec<Vec<String>> = Vec::new();
    while requests.len() < count {
        let head = COMMANDS.choose(random).expect("some");
        // Few members, so that values are removed whole, or so many that they are in segments.
        let names = if random.random_bool(0.5) { 3 } else { 700 };
        for _ in 0..random.random_range(1..90) {
            let mut words: Vec<String> = head.split(' ').map(Into::into).collect();
            for _ in 0..random.random_range(1..4) {
                words.push(format!("member:{}", random.random_range(0..names)));
                if words[0].eq_ignore_ascii_case("hset") {
                    words.push(format!("{}", random.random_range(0..50)));
                }
            }
            match random.random_range(0..60) {
                0 => words.truncate(2),
                1 => words.push("odd".into()),
                2 => words = vec!["SCARD".into(), "s".into()],
                3 => words = vec!["HLEN".into(), "h".into()],
                4 => words = vec!["DEL".into(), words[1].clone()],
                5 => words = vec!["EXPIRE".into(), words[1].clone(), "10000".into()],
                _ => {}
            }
            requests.push(words);
        }
    }
    requests
}

fn sorted(client: &mut Client, command: &str) -> Vec<String> {
    let items = match client.run(command) {
        Reply::Many(_, items) => items,
        // Of another type.
        other => vec![other],
    };
    let mut texts: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
    texts.sort();
    texts
}

fn replies_are_those_of_single_commands(flags: &[&str], rounds: usize) {
    let (together, alone) = (Local::start(flags), Local::start(&["--threads=1"]));
    let (mut together, mut alone) = (together.client(), alone.client());
    let mut random = SmallRng::seed_from_u64(7);
    for round in 0..rounds {
        let requests = requests(&mut random, 300);
        let replies = together.pipeline(&requests);
        for (request, reply) in requests.iter().zip(replies) {
            alone.send(&encode(request));
            assert_eq!(reply, alone.read(), "round {round}: {request:?}");
        }
        for command in ["SMEMBERS s", "SMEMBERS t", "HGETALL h"] {
            let expected = sorted(&mut alone, command);
            assert_eq!(sorted(&mut together, command), expected, "round {round}: {command}");
        }
        for command in ["SCARD s", "SCARD t", "HLEN h", "DBSIZE", "TYPE s", "TYPE h"] {
            assert_eq!(together.run(command), alone.run(command), "round {round}: {command}");
        }
    }
}

#[test]
fn replies_in_ram_are_those_of_single_commands() {
    replies_are_those_of_single_commands(&["--threads=1"], 60);
}

#[cfg(target_os = "linux")]
#[test]
fn replies_in_a_file_are_those_of_single_commands() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("data.map");
    let flags = ["--threads=1", "--durability=everysec", "--file", file.to_str().expect("a text")];
    replies_are_those_of_single_commands(&flags, 40);
}

#[test]
fn each_command_counts() {
    let local = Local::start(&["--threads=1"]);
    let mut client = local.client();
    let adds: Vec<_> =
        (0..600).map(|at| vec!["SADD".into(), "s".into(), format!("{at}")]).collect();
    assert!(client.pipeline(&adds).iter().all(|reply| *reply == Reply::Line(":1".into())));
    let Reply::Bulk(text) = client.run("INFO commandstats") else { panic!("a text") };
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("cmdstat_sadd:calls=600,"), "{text}");
}

#[test]
fn watched_keys_see_changes_of_members() {
    let local = Local::start(&["--threads=2"]);
    let (mut one, mut other) = (local.client(), local.client());
    let request = |words: &str| words.split(' ').map(Into::into).collect::<Vec<String>>();
    for (of_other, fails) in [("SADD s", true), ("SREM s", true), ("SADD t", false)] {
        one.run("WATCH s");
        let requests = ["a", "b", "c", "d", "e"].map(|name| request(&format!("{of_other} {name}")));
        other.pipeline(&requests);
        one.run("MULTI");
        one.run("PING");
        assert_eq!(one.run("EXEC") == Reply::Line("*-1".into()), fails, "{of_other}");
    }
    // What changes nothing is seen by nobody.
    one.run("WATCH t");
    other.pipeline(&["a", "b", "c", "d", "e"].map(|name| request(&format!("SADD t {name}"))));
    one.run("MULTI");
    assert_ne!(one.run("EXEC"), Reply::Line("*-1".into()));
}

/// Each member that was added, and not removed since, is there: what the replies say adds up to what is there.
#[test]
fn members_are_added_and_removed_once() {
    let local = Local::start(&["--threads=3"]);
    let sum: i64 = std::thread::scope(|scope| {
        let clients = [("SADD", 1_i64), ("SADD", 1), ("SREM", -1)].map(|(command, sign)| {
            let local = &local;
            scope.spawn(move || {
                let mut client = local.client();
                let mut random = SmallRng::seed_from_u64(sign.unsigned_abs());
                let mut sum = 0;
                for _ in 0..150 {
                    let number = |_| format!("{}", random.random_range(0..1500));
                    let of = |name| vec![command.to_string(), "s".into(), name];
                    let requests: Vec<_> = (0..40).map(number).map(of).collect();
                    for reply in client.pipeline(&requests) {
                        let Reply::Line(line) = reply else { panic!("{reply:?}") };
                        sum += sign * line[1..].parse::<i64>().expect("a number");
                    }
                }
                sum
            })
        });
        clients.into_iter().map(|client| client.join().expect("it ends")).sum()
    });
    let mut client = local.client();
    assert_eq!(client.line("SCARD s"), format!(":{sum}"));
    assert_eq!(sorted(&mut client, "SMEMBERS s").len() as i64, sum);
}
