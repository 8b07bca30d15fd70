//! Messages: who gets them, in which order, and who gets no more of them.

use crate::common::{Client, Local, Redis, Reply, encode, read_to_end};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Requests of one connection whose replies have only one order.
const SCRIPTS: [&[&str]; 6] = [
    &[
        "SUBSCRIBE a b a",
        "SUBSCRIBE",
        "PUBLISH a x",
        "GET a",
        "PING",
        "PING hello",
        "PING a b",
        "NOSUCH",
        "AUTH x y",
        "HELLO 3",
        "SSUBSCRIBE sh",
        "MULTI",
        "EXEC",
        "DISCARD",
        "WATCH a",
        "CLIENT INFO",
        "CONFIG",
        "CLIENT nosuch",
        "OBJECT ENCODING a",
        "COMMAND",
        "UNSUBSCRIBE nothere",
        "UNSUBSCRIBE b",
        "UNSUBSCRIBE",
        "SUNSUBSCRIBE",
        "UNSUBSCRIBE",
        "PUNSUBSCRIBE",
        "GET a",
        "PSUBSCRIBE p*",
        "PSUBSCRIBE p* q",
        "PUNSUBSCRIBE p* p* q",
        "PING",
        "SUBSCRIBE a",
        "RESET",
        "PING",
        "PUBSUB NUMSUB a",
        "SUBSCRIBE a",
    ],
    &[
        "HELLO 3",
        "SUBSCRIBE a b a",
        "PSUBSCRIBE a*",
        "PUBLISH a x",
        "PUBLISH b \"\"",
        "GET a",
        "PING",
        "PING hello",
        "PUBSUB",
        "PUBSUB NUMPAT",
        "PUBSUB NUMPAT x",
        "PUBSUB CHANNELS a b",
        "PUBSUB CHANNELS [a]",
        "PUBSUB CHANNELS z*",
        "PUBSUB NUMSUB",
        "PUBSUB NUMSUB a z a",
        "PUBSUB SHARDCHANNELS",
        "PUBSUB SHARDNUMSUB a",
        "PUBSUB HELP",
        "PUBSUB HELP x",
        "PUBSUB foo",
        "PUBSUB foo a b",
        "PUBLISH a",
        "UNSUBSCRIBE b a",
        "PUBLISH a x",
        "PUNSUBSCRIBE",
        "PUBLISH a x",
        "UNSUBSCRIBE",
        "RESET",
    ],
    &[
        "HELLO 3",
        "SSUBSCRIBE a",
        "SUBSCRIBE a",
        "SPUBLISH a 1",
        "PUBLISH a 2",
        "SPUBLISH b 1",
        "PUBSUB SHARDCHANNELS",
        "PUBSUB CHANNELS",
        "PUBSUB SHARDNUMSUB a b",
        "SUNSUBSCRIBE",
        "SUNSUBSCRIBE b",
        "SPUBLISH a 1",
        "PUBLISH a 3",
        "HELLO 2",
        "PUBLISH a 4",
        "PING",
    ],
    &[
        "MULTI",
        "SUBSCRIBE z",
        "PING",
        "GET a",
        "PING q",
        "EXEC",
        "PING",
        "UNSUBSCRIBE",
        "MULTI",
        "SUBSCRIBE q",
        "UNSUBSCRIBE",
        "GET a",
        "EXEC",
        "MULTI",
        "SSUBSCRIBE b",
        "EXEC",
    ],
    &[
        "MULTI",
        "PUBSUB foo",
        "PUBLISH a b",
        "EXEC",
        "MULTI",
        "PUBLISH a b",
        "PUBSUB NUMPAT",
        "EXEC",
    ],
    &["HELLO 3", "PSUBSCRIBE h[ae]llo", "PUBLISH hallo 1", "PUBLISH hillo 2", "PUBLISH hello 3"],
];

/// Runs a script in one pipeline, and returns all that the server answers.
fn answers<S: Read + Write>(client: &mut Client<S>, script: &[&str]) -> String {
    client.send(format!("{}\r\nQUIT\r\n", script.join("\r\n")).as_bytes());
    let mut all = Vec::new();
    client.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

/// Splits answers into lines, without the numbers of connections.
fn lines(answers: &str) -> Vec<&str> {
    let mut last = "";
    answers.split("\r\n").filter(|line| std::mem::replace(&mut last, line) != "id").collect()
}

#[test]
fn replies_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let local = Local::start(&["--threads=2"]);
    for script in SCRIPTS {
        let (ours, theirs) = (local.client(), redis.client());
        let [ours, theirs] = [answers(&mut { ours }, script), answers(&mut { theirs }, script)];
        let [ours, theirs] = [&ours, &theirs].map(|all| lines(all));
        assert!(theirs.len() > script.len());
        assert_eq!(ours, theirs, "{script:?}");
    }
}

fn message(parts: &[&str]) -> Reply {
    let items = parts.iter().map(|part| Reply::Bulk(part.as_bytes().to_vec())).collect();
    Reply::Many(format!("*{}", parts.len()), items)
}

/// Subscribes, and reads the reply.
fn subscribe(client: &mut Client, channel: &str) {
    let reply = client.run(&format!("SUBSCRIBE {channel}"));
    assert!(matches!(reply, Reply::Many(..)), "{reply:?}");
}

/// Subscribers of all threads get all messages; those of one publisher in order.
#[test]
fn messages_arrive_in_order() {
    const MESSAGES: usize = 3000;
    let local = Local::start(&["--threads=3"]);
    let mut subscribers: Vec<Client> = (0..6).map(|_| local.client()).collect();
    for (number, client) in subscribers.iter_mut().enumerate() {
        match number % 2 {
            0 => subscribe(client, "news"),
            _ => drop(client.run("PSUBSCRIBE n?w*")),
        }
    }
    std::thread::scope(|scope| {
        for publisher in ["0", "1"] {
            let mut client = local.client();
            scope.spawn(move || {
                // Some in pipelines, some alone.
                for first in (0..MESSAGES).step_by(100) {
                    let publish =
                        |at: usize| encode(&["PUBLISH", "news", &format!("{publisher}:{at}")]);
                    client.send(&(first..first + 99).flat_map(publish).collect::<Vec<u8>>());
                    (0..99).for_each(|_| assert_eq!(client.read(), Reply::Line(":6".into())));
                    client.send(&publish(first + 99));
                    assert_eq!(client.read(), Reply::Line(":6".into()));
                }
            });
        }
        for (number, client) in subscribers.iter_mut().enumerate() {
            scope.spawn(move || {
                let mut next = [0; 2];
                for _ in 0..2 * MESSAGES {
                    let Reply::Many(_, items) = client.read() else { panic!("no message") };
                    let Some(Reply::Bulk(payload)) = items.last() else { panic!("{items:?}") };
                    let payload = String::from_utf8_lossy(payload).into_owned();
                    let publisher = usize::from(payload.starts_with('1'));
                    let expected = format!("{publisher}:{}", next[publisher]);
                    let whole: &[&str] = match number % 2 {
                        0 => &["message", "news", &expected],
                        _ => &["pmessage", "n?w*", "news", &expected],
                    };
                    assert_eq!(Reply::Many(format!("*{}", whole.len()), items), message(whole));
                    next[publisher] += 1;
                }
            });
        }
    });
}

/// A message whose receiver was counted comes before the reply to what the receiver sends later.
#[test]
fn messages_come_before_later_replies() {
    let local = Local::start(&["--threads=2"]);
    let (mut publisher, mut subscriber) = (local.client(), local.client());
    for round in 0..300 {
        subscribe(&mut subscriber, "a");
        subscribe(&mut subscriber, "b");
        assert_eq!(publisher.line(&format!("PUBLISH a {round}")), ":1");
        let expected = message(&["message", "a", &round.to_string()]);
        let command = ["PING", "UNSUBSCRIBE", "RESET"][round % 3];
        assert_eq!(subscriber.run(command), expected);
        let replies = if command == "UNSUBSCRIBE" { 2 } else { 1 };
        (0..replies).for_each(|_| drop(subscriber.read()));
        if command == "PING" {
            subscriber.run("RESET");
        }
        assert_eq!(publisher.line("PUBLISH a nobody"), ":0");
        assert_eq!(publisher.line("PUBLISH b nobody"), ":0");
    }
    // More than the system's buffers take.
    subscribe(&mut subscriber, "a");
    let payload = "x".repeat(1 << 20);
    for _ in 0..20 {
        assert_eq!(publisher.line(&format!("PUBLISH a {payload}")), ":1");
    }
    subscriber.send(b"PING\r\n");
    for _ in 0..20 {
        assert_eq!(subscriber.read(), message(&["message", "a", &payload]));
    }
    assert_eq!(subscriber.read(), message(&["pong", ""]));
}

/// Messages of a transaction, and those that come meanwhile, are in front of its reply.
#[test]
fn transactions_do_not_mix_with_messages() {
    let local = Local::start(&["--threads=1"]);
    let mut client = local.client();
    for command in ["HELLO 3", "MULTI", "SUBSCRIBE a", "PUBLISH a hi", "UNSUBSCRIBE a"] {
        client.run(command);
    }
    let push = |parts: &[&str]| match message(parts) {
        Reply::Many(line, items) => Reply::Many(line.replace('*', ">"), items),
        other => other,
    };
    assert_eq!(client.run("EXEC"), push(&["message", "a", "hi"]));
    let confirm = |kind: &str, count: &str| {
        let words = [kind, "a"].map(|word| Reply::Bulk(word.into()));
        Reply::Many(">3".into(), [&words[..], &[Reply::Line(count.into())]].concat())
    };
    let replies =
        vec![confirm("subscribe", ":1"), Reply::Line(":1".into()), confirm("unsubscribe", ":0")];
    assert_eq!(client.read(), Reply::Many("*3".into(), replies));
    assert_eq!(client.line("PING"), "+PONG");
}

/// Waits until a client gets this reply.
fn wait_for(client: &mut Client, command: &str, expected: &Reply) {
    let begin = Instant::now();
    loop {
        let reply = client.run(command);
        if reply == *expected {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{command}: {reply:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn subscribers(channel: &str, count: usize) -> Reply {
    let items = vec![Reply::Bulk(channel.into()), Reply::Line(format!(":{count}"))];
    Reply::Many("*2".into(), items)
}

/// Subscriptions end with their connection.
#[test]
fn closed_connections_get_nothing() {
    let local = Local::start(&["--threads=2"]);
    let mut publisher = local.client();
    let mut clients: Vec<Client> = (0..4).map(|_| local.client()).collect();
    for client in &mut clients {
        subscribe(client, "a");
        client.run("PSUBSCRIBE b*");
        client.run("SSUBSCRIBE c");
    }
    assert_eq!(publisher.line("PUBLISH a x"), ":4");
    clients.truncate(1);
    wait_for(&mut publisher, "PUBSUB NUMSUB a", &subscribers("a", 1));
    assert_eq!(publisher.line("PUBLISH a x"), ":1");
    drop(clients);
    wait_for(&mut publisher, "PUBSUB NUMPAT", &Reply::Line(":0".into()));
    wait_for(&mut publisher, "PUBSUB SHARDCHANNELS", &Reply::Many("*0".into(), Vec::new()));
    assert_eq!(publisher.line("PUBLISH b x"), ":0");
}

/// A subscriber that does not read is closed when too much waits, and delays nobody.
#[test]
fn subscribers_that_do_not_read_are_closed() {
    let local = Local::start(&["--threads=2", "--client-output-buffer-limit=pubsub 1mb 0 0"]);
    let (mut publisher, mut reader) = (local.client(), local.client());
    let mut lazy: Vec<TcpStream> =
        (0..2).map(|_| TcpStream::connect(local.address).unwrap()).collect();
    for stream in &mut lazy {
        stream.write_all(b"SUBSCRIBE a\r\n").unwrap();
    }
    wait_for(&mut publisher, "PUBSUB NUMSUB a", &subscribers("a", 2));
    subscribe(&mut reader, "a");
    let payload = "x".repeat(100_000);
    // The system's buffers of a socket take some megabytes, too.
    for round in 0.. {
        assert!(round < 5000, "lazy subscribers are never closed");
        let Reply::Line(count) = publisher.run(&format!("PUBLISH a {payload}")) else { panic!() };
        assert_eq!(reader.read(), message(&["message", "a", &payload]));
        if count == ":1" {
            break;
        }
    }
    assert_eq!(reader.line("RESET"), "+RESET");
    for mut stream in lazy {
        let all = read_to_end(&mut stream);
        assert!(all.starts_with(b"*3\r\n$9\r\nsubscribe\r\n"));
    }
}

/// More than the soft limit may not wait for long, also if nothing more is published.
#[test]
fn slow_subscribers_are_closed_after_a_while() {
    let limit = "--client-output-buffer-limit=pubsub 0 64kb 1";
    let local = Local::start(&["--threads=1", limit]);
    let mut publisher = local.client();
    let mut lazy = TcpStream::connect(local.address).unwrap();
    lazy.write_all(b"SUBSCRIBE a\r\n").unwrap();
    wait_for(&mut publisher, "PUBSUB NUMSUB a", &subscribers("a", 1));
    let payload = "x".repeat(1 << 20);
    for _ in 0..64 {
        publisher.run(&format!("PUBLISH a {payload}"));
    }
    wait_for(&mut publisher, "PUBSUB NUMSUB a", &subscribers("a", 0));
}

/// Subscribers wait for messages as long as it takes.
#[test]
fn idle_subscribers_stay() {
    let local = Local::start(&["--threads=1", "--timeout=1"]);
    let (mut subscriber, mut idle) = (local.client(), local.client());
    subscribe(&mut subscriber, "a");
    assert_eq!(idle.line("PING"), "+PONG");
    assert_eq!(idle.try_read(), None);
    assert_eq!(local.client().line("PUBLISH a x"), ":1");
    assert_eq!(subscriber.read(), message(&["message", "a", "x"]));
}

/// Messages that fill the output one by one, so that the last one which was taken from the mailbox leaves no room
/// to look for others there.
#[test]
fn long_messages_pass() {
    let local = Local::start(&["--threads=2"]);
    let (mut subscriber, mut publisher) = (local.client(), local.client());
    assert!(matches!(subscriber.run("SUBSCRIBE news"), Reply::Many(..)));
    let text = |number: usize| vec![number as u8; 70_000];
    for round in 0..100 {
        for number in 0..50 {
            publisher.send(&encode(&[b"PUBLISH", &b"news"[..], &text(round + number)]));
        }
        for number in 0..50 {
            let Reply::Many(_, items) = subscriber.read() else { panic!("no message") };
            assert_eq!(items[2], Reply::Bulk(text(round + number)));
        }
        (0..50).for_each(|_| assert_eq!(publisher.read(), Reply::Line(":1".into())));
    }
}
