//! Replicas whose primary or network is at fault.

use crate::common::{Client, Local, Process, Reply, encode};
use crate::primary::{
    EMPTY, Primary, Proxy, Script, assert_same, catch_up, failure, free_port, full, info,
    replica_of, snapshot, wait_until,
};
use crate::tls::Files;
use clap::Parser;
use nunatak_server::Config;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The connection is cut in the middle of the file, several times, and in the middle of commands.
#[test]
fn cut_connections_are_made_again() {
    for diskless in ["no", "yes"] {
        let Some(primary) =
            Primary::start(&["--repl-diskless-sync", diskless, "--rdbcompression", "no"])
        else {
            return;
        };
        let mut theirs = primary.client();
        let set = |at: usize| encode(&["SET", &format!("key {at}"), &"x".repeat(at % 700)]);
        theirs.send(&(0..2000).flat_map(set).collect::<Vec<u8>>());
        (0..2000).for_each(|_| drop(theirs.read()));
        // In the handshake, in the file, and in the stream behind it.
        let proxy = Proxy::start(primary.address, &[5, 1000, 400_000, 1_000_000]);
        let replica = replica_of(proxy.address, &[]);
        let mut ours = replica.client();
        catch_up(&mut theirs, &mut ours);
        for round in 0..40 {
            let queue = ["MULTI", "INCR a", "INCR b", "EXEC"];
            let sent: Vec<u8> =
                queue.iter().flat_map(|it| encode(&it.split(' ').collect::<Vec<_>>())).collect();
            theirs.send(&[sent, set(round)].concat().repeat(100));
            (0..500).for_each(|_| drop(theirs.read()));
            if round % 10 == 3 {
                proxy.cut();
            }
        }
        catch_up(&mut theirs, &mut ours);
        assert_same(&snapshot(&mut ours, 1), &snapshot(&mut theirs, 1));
        let partial: usize = info(&mut theirs, "stats", "sync_partial_ok").parse().unwrap();
        let full: usize = info(&mut theirs, "stats", "sync_full").parse().unwrap();
        assert!(partial >= 1 && (3..=4).contains(&full), "{partial} partial, {full} full");
    }
}

/// A stream whose name changes (`+CONTINUE` with an id), and a transaction that is cut in the middle: it is
/// sent again as a whole.
#[test]
fn a_stream_goes_on_where_it_was() {
    // What is no command ends the link.
    let cut = |commands: &[&[&str]]| {
        let commands = commands.iter().flat_map(|command| encode(command));
        commands.chain(*b"!").collect::<Vec<u8>>()
    };
    let queue: [&[&str]; 3] = [&["MULTI"], &["INCR", "b"], &["EXEC"]];
    let script = Script::start(move |number| match number {
        0 => [full(), b"$18\r\n".to_vec(), EMPTY.to_vec(), cut(&[&["SET", "a", "1"]])].concat(),
        1 => [
            format!("+CONTINUE {}\r\n", "b".repeat(40)).into_bytes(),
            cut(&[&["APPEND", "a", "2"], queue[0], queue[1]]),
        ]
        .concat(),
        _ => {
            let whole = [&queue[..], &[&["INCR", "a"]]].concat();
            [b"+CONTINUE\r\n".to_vec(), whole.iter().flat_map(|it| encode(it)).collect()].concat()
        }
    });
    let replica = replica_of(script.address, &[]);
    let mut ours = replica.client();
    wait_until("all of it", || ours.line("GET a") == "13");
    assert_eq!(ours.line("GET b"), "1");
    let heard = String::from_utf8(script.heard.lock().unwrap().clone()).unwrap();
    let (first, second) = (encode(&["SET", "a", "1"]).len(), encode(&["APPEND", "a", "2"]).len());
    for psync in [
        "PSYNC ? -1 ".to_string(),
        format!("PSYNC {} {} ", "a".repeat(40), first + 1),
        format!("PSYNC {} {} ", "b".repeat(40), first + second + 1),
    ] {
        assert!(heard.contains(&psync), "{psync} in {heard}");
    }
}

/// What an empty primary sends, and a stream behind it.
fn stream_of(commands: &[&[&str]]) -> Vec<u8> {
    let commands = commands.iter().flat_map(|command| encode(command));
    [full(), b"\n\n$18\r\n".to_vec(), EMPTY.to_vec(), commands.collect()].concat()
}

/// A replica that is late sees times that are over: the primary decides what becomes of the keys.
#[test]
fn keys_expire_by_the_primary_only() {
    let script = Script::start(|_| {
        stream_of(&[
            &["SET", "saved", "1", "PXAT", "1000"],
            &["PERSIST", "saved"],
            &["SET", "late", "1", "PXAT", "1000"],
            &["SADD", "set", "x"],
            &["PEXPIREAT", "set", "1000"],
            &["SADD", "set", "y"],
            &["SET", "gone", "1", "PXAT", "1000"],
            &["DEL", "gone"],
            &["SET", "count", "5", "PXAT", "1000"],
            &["INCR", "count"],
            &["RENAME", "count", "number"],
            &["PERSIST", "number"],
            &["SET", "end", "1"],
        ])
    });
    let replica = replica_of(script.address, &[]);
    let mut ours = replica.client();
    wait_until("the end", || ours.line("GET end") == "1");
    assert_eq!(ours.line("GET saved"), "1");
    assert_eq!(ours.line("GET number"), "6");
    // They read as absent, and are there: saved, late, set, number, end.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!((ours.line("EXISTS late set"), ours.line("DBSIZE")), (":0".into(), ":5".into()));
    let queue = ["WATCH late", "MULTI", "GET late"];
    queue.iter().for_each(|command| assert!(ours.line(command).starts_with('+')));
    assert_eq!(ours.run("EXEC"), Reply::Many("*1".into(), vec![Reply::Line("$-1".into())]));
    // A primary removes them itself.
    assert_eq!(ours.line("REPLICAOF NO ONE"), "+OK");
    wait_until("they are removed", || ours.line("DBSIZE") == ":3");
    drop(replica);
    let heard = script.heard.lock().unwrap().clone();
    assert!(heard.windows(12).any(|part| part == b"REPLCONF ACK"));
}

/// `GETACK` is answered with the offset in front of it, and transactions count at their end.
#[test]
fn offsets_count_bytes() {
    let parts: [&[&str]; 5] = [
        &["MULTI"],
        &["SET", "a", "1"],
        &["EXEC"],
        &["REPLCONF", "GETACK", "*"],
        &["SET", "b", "1"],
    ];
    let len = |parts: &[&[&str]]| parts.iter().map(|part| encode(part).len()).sum::<usize>();
    let script = Script::start(move |_| stream_of(&parts));
    let replica = replica_of(script.address, &[]);
    let mut ours = replica.client();
    wait_until("the end", || ours.line("GET b") == "1");
    let offset = || info(&mut replica.client(), "replication", "slave_repl_offset");
    wait_until("the offset", || offset() == len(&parts).to_string());
    let ack = format!("REPLCONF ACK {} ", len(&parts[..3]));
    let heard = || String::from_utf8(script.heard.lock().unwrap().clone()).unwrap();
    wait_until("the answer", || heard().contains(&ack));
}

#[test]
fn stale_data_may_be_refused() {
    let script = Script::start(|_| stream_of(&[&["SET", "a", "1"]]));
    let replica = replica_of(script.address, &["--replica-serve-stale-data=no"]);
    let mut ours = replica.client();
    wait_until("the data", || ours.line("GET a") == "1");
    assert_eq!(ours.line("REPLICAOF 127.0.0.1 1"), "+OK");
    let refused =
        "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
    // In a window, too.
    ours.send(&encode(&["GET", "a"]).repeat(20));
    (0..20).for_each(|_| assert_eq!(ours.read(), Reply::Line(refused.into())));
    assert_eq!(ours.line("KEYS *"), refused);
    assert!(failure(&mut ours).contains("refused"));
    assert_eq!(ours.line("CONFIG SET replica-serve-stale-data yes"), "+OK");
    assert_eq!(ours.line("GET a"), "1");
}

/// While keys are taken over none is served, and the server can't become a primary.
#[test]
fn a_half_synchronisation_is_never_seen() {
    let (bytes, at) = ([&b"REDIS0011\xFE\0\0\x01a\x011\0\x01b\x012"[..], &[0xFF; 1]].concat(), 19);
    let script =
        Script::start(move |_| [full(), b"$100\r\n".to_vec(), bytes[..at].to_vec()].concat());
    let replica = Local::start(&[]);
    let mut ours = replica.client();
    ours.run("SET old 1");
    let of = format!("REPLICAOF 127.0.0.1 {}", script.address.port());
    assert_eq!(ours.line(&of), "+OK");
    let loading = "-LOADING Redis is loading the dataset in memory";
    wait_until("it loads", || ours.line("GET a") == loading);
    assert_eq!(info(&mut ours, "persistence", "loading"), "1");
    assert_eq!(info(&mut ours, "replication", "master_sync_total_bytes"), "100");
    for command in ["KEYS *", "MGET a b", "PING", "REPLICAOF NO ONE"] {
        assert_eq!(ours.line(command), loading, "{command}");
    }
    // The primary is silent for too long: what came of its keys is removed.
    assert_eq!(ours.line("CONFIG SET repl-timeout 1"), "+OK");
    assert!(failure(&mut ours).contains("silent"));
    assert_eq!((ours.line("DBSIZE"), ours.line("GET a")), (":0".into(), "$-1".into()));
    assert_eq!(ours.line("REPLICAOF NO ONE"), "+OK");
}

#[test]
fn a_node_of_a_cluster_is_no_replica() {
    let directory = tempfile::tempdir().expect("a directory");
    let map = directory.path().join("map");
    std::fs::write(&map, "a 127.0.0.1:1 0-16383\n").expect("a file");
    let map = format!("--cluster-map={}", map.display());
    let flags = [map.as_str(), "--cluster-node=a"];
    let refused = "-ERR REPLICAOF not allowed in cluster mode.";
    assert_eq!(Local::start(&flags).client().line("REPLICAOF 127.0.0.1 1"), refused);
    let flags = [&["test"], &flags[..], &["--replicaof=127.0.0.1 1"]].concat();
    assert!(Config::try_parse_from(flags).is_err());
}

/// The link is encrypted; both sides show certificates.
#[test]
fn a_replica_may_speak_tls() {
    let (files, port) = (Files::new(), free_port());
    let path = |name: &str| files.flag("x", name).split_once('=').expect("a path").1.to_string();
    let (cert, key, ca) = (path("server.pem"), path("server.key"), path("ca.pem"));
    let port_text = port.to_string();
    let flags = ["--tls-port", &port_text, "--tls-cert-file", &cert, "--tls-key-file", &key];
    let flags = [&flags[..], &["--tls-ca-cert-file", &ca, "--tls-auth-clients", "yes"]].concat();
    let Some(primary) = Primary::start(&flags) else { return };
    let mut theirs = primary.client();
    theirs.send(&encode(&["SET", "long", &"x".repeat(1_000_000)]));
    theirs.read();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let start = |ca: &str, own: &str| {
        let own = [("tls-cert-file", "pem"), ("tls-key-file", "key")]
            .map(|(option, end)| files.flag(option, &format!("{own}.{end}")));
        let flags =
            ["--tls-replication=yes", &files.flag("tls-ca-cert-file", ca), &own[0], &own[1]];
        replica_of(address, &flags)
    };
    let replica = start("ca.pem", "client");
    let mut ours = replica.client();
    catch_up(&mut theirs, &mut ours);
    theirs.run("SET ice cold");
    catch_up(&mut theirs, &mut ours);
    assert_same(&snapshot(&mut ours, 1), &snapshot(&mut theirs, 1));
    let why = failure(&mut start("other-ca.pem", "client").client());
    assert!(why.contains("certificate"), "{why}");
    failure(&mut start("ca.pem", "other").client());
}

/// A server as a process of its own, whose memory can be looked at.
fn serve(address: SocketAddr) -> (Process, Client) {
    let port = free_port();
    let child = Command::new(env!("CARGO_BIN_EXE_nunatak-server"))
        .args(["--threads=1", &format!("--port={port}")])
        .arg(format!("--replicaof=127.0.0.1 {}", address.port()))
        .stderr(Stdio::null())
        .spawn();
    let process = Process(child.expect("the server"));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    wait_until("the server listens", || TcpStream::connect(address).is_ok());
    (process, Client::connect(address))
}

fn resident_kib(process: &Process) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", process.0.id())).expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Whatever a primary sends, the server says what is wrong, lives, and takes no memory for it.
#[test]
fn hostile_primaries_are_refused() {
    let rdb = |bytes: &[u8]| {
        [full(), format!("${}\r\n", bytes.len()).into_bytes(), bytes.to_vec()].concat()
    };
    let key = b"REDIS0011\xFE\0\0\x01a\x011\xFF";
    let stream = |bytes: &[u8]| [stream_of(&[]), bytes.to_vec()].concat();
    let mark = "0123456789012345678901234567890123456789";
    let with_mark = |end: &str| {
        [full(), format!("$EOF:{mark}\r\n").into_bytes(), EMPTY.to_vec(), end.into()].concat()
    };
    let endless = vec![b'x'; 1 << 20];
    for (what, bytes, text) in [
        ("no answer to PSYNC", b"-ERR unknown command\r\n".to_vec(), "PSYNC: -ERR unknown"),
        ("an answer to another question", b"+OK\r\n".to_vec(), "PSYNC: +OK"),
        ("a continuation of nothing", b"+CONTINUE\r\n".to_vec(), "goes on with nothing"),
        ("a short id", b"+FULLRESYNC abc 0\r\n".to_vec(), "FULLRESYNC abc"),
        ("a negative offset", format!("+FULLRESYNC {mark} -5\r\n").into_bytes(), "FULLRESYNC"),
        ("an endless line", endless.clone(), "too long"),
        ("no length", [full(), b"hello\r\n".to_vec()].concat(), "no file: hello"),
        ("a negative length", [full(), b"$-7\r\n".to_vec()].concat(), "no file: $-7"),
        (
            "an error instead of a file",
            [full(), b"-ERR disk\r\n".to_vec()].concat(),
            "no file: -ERR disk",
        ),
        ("no RDB", rdb(b"hello, this is no RDB"), "begins otherwise"),
        ("a file of nothing", [full(), b"$0\r\n".to_vec()].concat(), "can't be read"),
        ("a wrong checksum", rdb(&[&key[..], b"12345678"].concat()), "checksum"),
        ("a longer length", rdb(&[&key[..], &[0; 8], b"more"].concat()), "4 bytes follow"),
        ("a shorter length", rdb(&[&key[..], &[0; 7]].concat()), "can't be read"),
        ("another mark", with_mark(&"9".repeat(40)), "does not end where"),
        (
            "a huge string",
            rdb(b"REDIS0011\0\x01a\x81\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF"),
            "longer than",
        ),
        (
            "a huge set",
            rdb(b"REDIS0011\x02\x01a\x81\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF"),
            "can't be read",
        ),
        (
            "a huge compressed string",
            rdb(b"REDIS0011\0\x01a\xC3\x01\x81\0\0\0\x7F\xFF\xFF\xFF\xFF"),
            "longer than",
        ),
        (
            "a huge database",
            rdb(b"REDIS0011\xFE\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\x01a\x011\xFF12345678"),
            "this server has 16",
        ),
        ("a stream that is none", stream(b"hello\r\n"), "no command begins with"),
        ("a huge argument", stream(b"*1\r\n$99999999999\r\n"), "invalid bulk length"),
        ("a huge command", stream(b"*99999999999\r\n"), "invalid multibulk length"),
        (
            "a line without an end",
            stream(&[b"*", &endless[..]].concat()),
            "too big mbulk count string",
        ),
        (
            "a command with wrong arguments",
            stream_of(&[&["SET", "a"]]),
            "SET on key \"a\", which failed",
        ),
        ("a command that reads", stream_of(&[&["GET", "a"]]), "\"GET\""),
        (
            "a command that connects",
            stream_of(&[&["MIGRATE", "h", "1", "a", "0", "9"]]),
            "\"MIGRATE\"",
        ),
        ("a command for operators", stream_of(&[&["SHUTDOWN"]]), "\"SHUTDOWN\""),
        (
            "a database that is not there",
            stream_of(&[&["SELECT", "99"]]),
            "SELECT on key \"99\", which failed",
        ),
        ("a script", stream_of(&[&["EVAL", "return 1", "0"]]), "\"EVAL\""),
        ("a wrong type", stream_of(&[&["SET", "a", "1"], &["SADD", "a", "1"]]), "WRONGTYPE"),
        (
            "an error in a transaction",
            stream_of(&[&["MULTI"], &["INCR", "a"], &["SADD", "a", "1"], &["EXEC"]]),
            "WRONGTYPE",
        ),
        ("an end without a beginning", stream_of(&[&["EXEC"]]), "EXEC without MULTI"),
    ] {
        let script = Script::start(move |_| bytes.clone());
        let (process, mut ours) = serve(script.address);
        let why = failure(&mut ours);
        assert!(why.contains(text), "{what}: {why}");
        assert!(resident_kib(&process) < 100 << 10, "{what}: {} KiB", resident_kib(&process));
        // (The next attempt may be loading.)
        wait_until(what, || ours.line("REPLICAOF NO ONE") == "+OK");
        assert_eq!(ours.line("SET alive 1"), "+OK", "{what}");
    }
}

/// A primary that sends bytes for ever: as a command, in a transaction, as the line in front of a file.
#[test]
fn endless_primaries_take_no_memory() {
    for (what, begin, rest) in [
        ("a transaction", stream_of(&[&["MULTI"]]), encode(&["SET", "a", &"x".repeat(10_000)])),
        ("lines without a meaning", stream_of(&[]), b"\r\n".repeat(5000)),
        ("newlines in front of a file", full(), b"\n".repeat(10_000)),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let sending = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut first = Client::over(stream.try_clone().expect("a copy"));
            for reply in ["+PONG\r\n", "+OK\r\n", "+OK\r\n"] {
                first.read();
                stream.write_all(reply.as_bytes()).expect("it is read");
            }
            first.read();
            stream.write_all(&begin).expect("it is read");
            let mut sent = 0;
            // More than the limit that the test sets.
            while sent < 64 << 20 && stream.write_all(&rest).is_ok() {
                sent += rest.len();
            }
            sent
        });
        let port = free_port();
        let child = Command::new(env!("CARGO_BIN_EXE_nunatak-server"))
            .args(["--threads=1", &format!("--port={port}"), "--client-query-buffer-limit=16mb"])
            .arg(format!("--replicaof=127.0.0.1 {}", address.port()))
            .stderr(Stdio::null())
            .spawn();
        let process = Process(child.expect("the server"));
        sending.join().expect("the primary has ended");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        wait_until("the server listens", || TcpStream::connect(address).is_ok());
        assert!(Client::connect(address).line("INFO server").contains("redis_version"));
        assert!(resident_kib(&process) < 60 << 10, "{what}: {} KiB", resident_kib(&process));
    }
}
