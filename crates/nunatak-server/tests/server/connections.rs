//! Connections that are many, slow, hostile or half open.

use crate::common::{Client, Local, Reply, encode, read_to_end};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// A value of a megabyte is one; pipelines may be longer than any buffer.
#[test]
fn long_values_and_pipelines() {
    let local = Local::start(&["--threads=1"]);
    let mut client = local.client();
    let long = vec![b'x'; 1 << 20];
    client.send(&encode(&[b"SET", &b"long"[..], &long]));
    assert_eq!(client.read(), Reply::Line("+OK".into()));
    client.send(&encode(&["GET", "long"]));
    assert_eq!(client.read(), Reply::Bulk(long));
    let mut pipeline = Vec::new();
    for number in 0..5000 {
        pipeline.extend(encode(&["SET", &format!("key:{number}"), &number.to_string()]));
        pipeline.extend(encode(&["GET", &format!("key:{number}")]));
    }
    client.send(&pipeline);
    for number in 0..5000 {
        assert_eq!(client.read(), Reply::Line("+OK".into()));
        assert_eq!(client.read(), Reply::Bulk(number.to_string().into_bytes()));
    }
}

/// What is no request is answered after the requests in front of it, and ends the connection.
#[test]
fn malformed_requests_end_the_connection() {
    let local = Local::start(&["--threads=1"]);
    for (bytes, error) in [
        ("*1\r\n$4\r\nPING\r\n*x\r\n", "-ERR Protocol error: invalid multibulk length"),
        ("*1\r\n$4\r\nPING\r\n*1\r\n:4\r\n", "-ERR Protocol error: expected '$', got ':'"),
        ("PING\r\n*1\r\n$-5\r\n", "-ERR Protocol error: invalid bulk length"),
        ("PING\r\nSET \"a\r\n", "-ERR Protocol error: unbalanced quotes in request"),
    ] {
        let mut client = local.client();
        client.send(bytes.as_bytes());
        assert_eq!(client.read(), Reply::Line("+PONG".into()), "{bytes:?}");
        assert_eq!(client.read(), Reply::Line(error.into()), "{bytes:?}");
        assert_eq!(client.try_read(), None);
    }
}

/// A length that was only announced takes no memory.
#[test]
fn announced_lengths_take_no_memory() {
    let local = Local::start(&["--threads=1"]);
    let mut hostile: Vec<Client> = (0..50).map(|_| local.client()).collect();
    for client in &mut hostile {
        client.send(b"*2147483647\r\n$536870912\r\nabc");
    }
    let mut other = local.client();
    assert_eq!(other.line("PING"), "+PONG");
    let text = other.line("INFO memory");
    let field = text.lines().find_map(|line| line.strip_prefix("used_memory_rss:"));
    let resident: usize = field.expect("a field").parse().expect("a number");
    assert!(resident < 1 << 30, "{resident}");
}

/// A client that asks for much and reads nothing keeps neither the others nor much memory.
#[test]
fn clients_that_stop_reading_are_bounded() {
    let local = Local::start(&["--threads=1"]);
    let mut setup = local.client();
    setup.send(&encode(&[b"SET", &b"long"[..], &vec![b'x'; 100_000]]));
    setup.read();
    let mut lazy = TcpStream::connect(local.address).unwrap();
    lazy.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let get = encode(&["GET", "long"]).repeat(1000);
    // 100 GB of replies, unless the server stops reading.
    for _ in 0..1000 {
        if lazy.write_all(&get).is_err() {
            break;
        }
    }
    assert_eq!(setup.line("PING"), "+PONG");
    let text = setup.line("INFO memory");
    let field = text.lines().find_map(|line| line.strip_prefix("used_memory_rss:"));
    let resident: usize = field.expect("a field").parse().expect("a number");
    assert!(resident < 1 << 30, "{resident}");
    // It gets its replies when it reads.
    lazy.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let (mut seen, mut buffer) = (0, vec![0; 1 << 20]);
    while seen < 50_000_000 {
        seen += lazy.read(&mut buffer).expect("replies");
    }
}

/// A client that has ended its half is answered before the connection ends.
#[test]
fn half_open_connections_get_their_replies() {
    let local = Local::start(&["--threads=1"]);
    let mut client = local.client();
    client.send(b"PING\r\nECHO a\r\nPI");
    client.stream().shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(), Reply::Line("+PONG".into()));
    assert_eq!(client.read(), Reply::Bulk(b"a".to_vec()));
    assert_eq!(client.try_read(), None);
}

/// The end of a client's bytes is seen if it comes together with them, while the thread is busy.
#[test]
fn an_end_that_comes_with_bytes_is_seen() {
    let local = Local::start(&["--threads=1"]);
    let (mut client, mut other) = (local.client(), local.client());
    for number in 0..5000 {
        other.run(&format!("SET key:{number} 1"));
    }
    assert_eq!(client.line("PING"), "+PONG");
    // A few hundred milliseconds.
    other.send(&encode(&["KEYS", "*none"]).repeat(500));
    std::thread::sleep(Duration::from_millis(20));
    client.send(b"PING\r\nPI");
    client.stream().shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(client.stream()), b"+PONG\r\n");
}

#[test]
fn strangers_may_do_nothing() {
    let local = Local::start(&["--threads=1", "--requirepass=secret"]);
    let mut client = local.client();
    assert_eq!(client.line("GET a"), "-NOAUTH Authentication required.");
    assert!(client.line("AUTH wrong").starts_with("-WRONGPASS"));
    assert!(client.line("AUTH other secret").starts_with("-WRONGPASS"));
    assert!(client.line("HELLO 3").starts_with("-NOAUTH"));
    assert_eq!(client.line("AUTH secret"), "+OK");
    assert_eq!(client.line("GET a"), "$-1");
    let mut client = local.client();
    assert!(matches!(client.run("HELLO 3 AUTH default secret"), Reply::Many(..)));
    assert_eq!(client.line("GET a"), "_");
}

#[test]
fn too_many_connections_are_refused() {
    let local = Local::start(&["--threads=1", "--maxclients=3"]);
    let mut clients: Vec<Client> = (0..3).map(|_| local.client()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.line("PING"), "+PONG"));
    let mut refused = local.client();
    assert_eq!(refused.try_read(), Some(Reply::Line("-ERR max number of clients reached".into())));
    assert_eq!(refused.try_read(), None);
}

fn many_connections(count: usize) {
    let local = Local::start(&["--threads=2", "--maxclients=20000"]);
    let mut clients: Vec<Client> = (0..count).map(|_| local.client()).collect();
    let mut send = |command: &dyn Fn(usize) -> Vec<u8>, reply: &dyn Fn(usize) -> Reply| {
        clients.iter_mut().enumerate().for_each(|(number, client)| client.send(&command(number)));
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.read(), reply(number));
        }
    };
    let key = |number: usize| format!("key:{number}");
    let ok = |_| Reply::Line("+OK".into());
    send(&|number| encode(&["SET", &key(number), &number.to_string()]), &ok);
    send(&|number| encode(&["GET", &key(number)]), &|number| {
        Reply::Bulk(number.to_string().into_bytes())
    });
}

#[test]
fn many_connections_are_served() {
    many_connections(300);
}

/// Needs `ulimit -n` of more than 20,000: `cargo test -p nunatak-server -- --ignored`.
#[test]
#[ignore = "needs 20,000 files"]
fn ten_thousand_connections_are_served() {
    many_connections(10_000);
}

/// Every key that stays is scanned, whatever happens to the others meanwhile.
#[test]
fn scans_find_all_that_stays() {
    let local = Local::start(&["--threads=1"]);
    let (mut client, mut other) = (local.client(), local.client());
    for number in 0..3000 {
        client.send(&encode(&["SET", &format!("stays:{number}"), "1"]));
    }
    (0..3000).for_each(|_| drop(client.read()));
    let (mut cursor, mut found, mut round) = ("0".to_string(), Vec::new(), 0);
    loop {
        let reply = client.run(&format!("SCAN {cursor} MATCH stays:* COUNT 17"));
        let Reply::Many(_, items) = reply else { panic!("{reply:?}") };
        let [Reply::Bulk(next), Reply::Many(_, keys)] = &items[..] else { panic!("{items:?}") };
        found.extend(keys.iter().cloned());
        cursor = String::from_utf8_lossy(next).into_owned();
        let set = |number: usize| encode(&["SET", &format!("comes:{round}:{number}"), "1"]);
        other.send(&(0..100).flat_map(set).collect::<Vec<u8>>());
        (0..100).for_each(|_| drop(other.read()));
        round += 1;
        if cursor == "0" {
            break;
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 3000);
    assert!(round > 20);
}

/// Keys that have expired are removed though nobody asks for them.
#[test]
fn expired_keys_are_removed() {
    let local = Local::start(&["--threads=1"]);
    let mut client = local.client();
    for number in 0..500 {
        client.run(&format!("SET key:{number} 1 PX 50"));
    }
    client.run("SET stays 1");
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(50));
        if client.line("DBSIZE") == ":1" {
            return;
        }
    }
    panic!("{} keys are left", client.line("DBSIZE"));
}

/// A full server makes room as its policy says, or refuses.
#[test]
fn memory_is_limited() {
    let local = Local::start(&["--threads=1", "--maxmemory=2mb"]);
    let mut client = local.client();
    let value = "x".repeat(1000);
    let fill = |client: &mut Client| {
        (0..6000).map(|number| client.line(&format!("SET key:{number} {value}"))).last().unwrap()
    };
    assert!(fill(&mut client).starts_with("-OOM"));
    assert_eq!(client.line("GET key:0").len(), 1000);
    client.run("CONFIG SET maxmemory-policy allkeys-random");
    assert_eq!(fill(&mut client), "+OK");
    let len: usize = client.line("DBSIZE")[1..].parse().unwrap();
    assert!((500..3000).contains(&len), "{len}");
}
