//! Who is connected: `CLIENT LIST`, `KILL`, `REPLY`.

use crate::common::{Client, Local, Redis, Reply, encode};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

fn id(client: &mut Client) -> String {
    client.line("CLIENT ID")[1..].to_string()
}

/// Waits until a connection is closed.
fn wait_for_end(client: &mut Client) {
    assert_eq!(client.try_read(), None);
}

#[test]
fn all_connections_are_listed() {
    let server = Local::start(&["--threads=2"]);
    let [mut one, mut other, mut subscriber, mut monitor] = [(); 4].map(|()| server.client());
    one.run("CLIENT SETNAME ice");
    one.run("SELECT 3");
    subscriber.run("PSUBSCRIBE a*");
    monitor.run("MONITOR");
    other.run("MULTI");
    other.run("GET a");
    let list = one.line("CLIENT LIST");
    let of = |text: &str| list.lines().filter(|line| line.contains(text)).count();
    assert_eq!(list.lines().count(), 4, "{list}");
    assert_eq!((of(" name=ice "), of(" db=3 "), of(" cmd=client|list ")), (1, 1, 1), "{list}");
    assert_eq!((of(" flags=P "), of(" psub=1 "), of(" flags=O ")), (1, 1, 1), "{list}");
    assert_eq!((of(" multi=1 "), of(" cmd=get "), of(" laddr=127.0.0.1:")), (1, 1, 4), "{list}");
    let mine = one.line("CLIENT INFO");
    assert!(mine.contains(" name=ice ") && mine.lines().count() == 1, "{mine}");
    let (first, second) = (id(&mut one), list.lines().count());
    assert_eq!(one.line(&format!("CLIENT LIST ID {first}")).lines().count(), 1);
    assert_eq!(one.line("CLIENT LIST TYPE pubsub").lines().count(), 1);
    assert_eq!(one.line("CLIENT LIST TYPE normal").lines().count(), second - 2);
    assert_eq!(one.line("CLIENT LIST TYPE replica"), "");
    // A connection that has ended is listed no more.
    drop(other);
    let begin = Instant::now();
    while one.line("CLIENT LIST").lines().count() > 3 {
        assert!(begin.elapsed() < Duration::from_secs(60), "it is listed still");
    }
}

#[test]
fn connections_of_any_thread_are_killed() {
    let server = Local::start(&["--threads=2"]);
    let mut killer = server.client();
    let mut others: Vec<Client> = (0..6).map(|_| server.client()).collect();
    let address = |client: &mut Client| {
        let info = client.line("CLIENT INFO");
        let word = info.split(' ').find(|word| word.starts_with("addr=")).expect("an address");
        word["addr=".len()..].to_string()
    };
    let by_id = id(&mut others[0]);
    assert_eq!(killer.line(&format!("CLIENT KILL ID {by_id}")), ":1");
    let by_address = address(&mut others[1]);
    assert_eq!(killer.line(&format!("CLIENT KILL {by_address}")), "+OK");
    let by_address = address(&mut others[2]);
    assert_eq!(killer.line(&format!("CLIENT KILL ADDR {by_address}")), ":1");
    others[3].run("SUBSCRIBE a");
    assert_eq!(killer.line("CLIENT KILL TYPE pubsub"), ":1");
    others.truncate(5);
    for killed in &mut others[..4] {
        wait_for_end(killed);
    }
    assert_eq!(others[4].line("PING"), "+PONG");
    // All but this one, then this one, which gets its reply.
    killer.line("CLIENT KILL TYPE normal SKIPME yes");
    wait_for_end(&mut others[4]);
    assert_eq!(killer.line("PING"), "+PONG");
    assert_eq!(killer.line("CLIENT KILL TYPE normal SKIPME no"), ":1");
    wait_for_end(&mut killer);
}

#[test]
fn replies_can_be_silent() {
    let server = Local::start(&["--threads=1"]);
    let mut client = server.client();
    let mut send = |command: &str| {
        client.send(&encode(&command.split(' ').collect::<Vec<_>>()));
    };
    for command in ["CLIENT REPLY SKIP", "SET a 1", "INCR a", "CLIENT REPLY OFF", "INCR a"] {
        send(command);
    }
    (0..20).for_each(|_| send("GET a"));
    for command in ["CLIENT REPLY SKIP", "NOSUCH", "CLIENT REPLY ON", "GET a"] {
        send(command);
    }
    assert_eq!(client.read(), Reply::Line(":2".into()));
    assert_eq!(client.read(), Reply::Line("+OK".into()));
    assert_eq!(client.read(), Reply::Bulk("3".into()));
}

/// Errors and replies that do not depend on the connection are those of Redis.
#[test]
fn errors_are_those_of_redis() {
    fn replies<S: Read + Write>(client: &mut Client<S>) -> Vec<Reply> {
        [
            "CLIENT KILL 1.2.3.4:5",
            "CLIENT KILL ID x",
            "CLIENT KILL ID 0",
            "CLIENT KILL ID 999999",
            "CLIENT KILL TYPE foo",
            "CLIENT KILL USER foo",
            "CLIENT KILL SKIPME maybe",
            "CLIENT KILL ID 1 ADDR",
            "CLIENT KILL FOO 1",
            "CLIENT LIST foo",
            "CLIENT LIST TYPE foo",
            "CLIENT LIST ID x",
            "CLIENT LIST ID 999999",
            "CLIENT LIST TYPE replica",
            "CLIENT REPLY foo",
            "CLIENT GETREDIR",
            "CLIENT UNBLOCK 1",
            "CLIENT NOSUCH",
            "CLIENT REPLY ON",
        ]
        .map(|command| client.run(command))
        .to_vec()
    }
    let Some(redis) = Redis::start() else { return };
    let server = Local::start(&["--threads=1"]);
    assert_eq!(replies(&mut server.client()), replies(&mut redis.client()));
}
