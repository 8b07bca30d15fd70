//! Replicas of a real Redis: they have what it has, and take its place.

use crate::common::{Client, Ends, Local, Process, Reply, encode};
use crate::primary::{
    Primary, Proxy, assert_same, catch_up, failure, free_port, info, replica_of, snapshot,
    wait_until,
};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DATABASES: usize = 4;

fn run_all(client: &mut Client, commands: &[Vec<Vec<u8>>]) {
    client.send(&commands.iter().flat_map(|command| encode(command)).collect::<Vec<u8>>());
    for command in commands {
        if let Reply::Line(line) = client.read() {
            assert!(!line.starts_with('-'), "{:?}: {line}", command[0].escape_ascii().to_string());
        }
    }
}

fn command(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

/// Fills a server with values in every encoding that Redis has for them.
fn fill(client: &mut Client) {
    let mut all = Vec::new();
    let mut add = |words: &[&[u8]]| all.push(command(words));
    for db in 0..DATABASES {
        add(&[b"SELECT", db.to_string().as_bytes()]);
        for number in
            [0_i64, 7, -1, 127, -128, 128, 40_000, -40_000, 1 << 20, i64::from(i32::MIN), 1 << 40]
        {
            add(&[b"SET", format!("number {number}").as_bytes(), number.to_string().as_bytes()]);
        }
        for len in [0, 1, 20, 63, 64, 65, 16_383, 16_384, 300_000] {
            // One that can be compressed, and one that can't.
            let noise: Vec<u8> =
                (0..len).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
            add(&[b"SET", format!("text {len}").as_bytes(), "abc".repeat(len as usize).as_bytes()]);
            add(&[b"SET", format!("noise {len}").as_bytes(), &noise]);
        }
        for width in [10_i64, 100_000, 1 << 40] {
            let key = format!("intset {width}");
            for at in -20..20 {
                add(&[b"SADD", key.as_bytes(), (at * width).to_string().as_bytes()]);
            }
        }
        for (name, count) in [("few", 5), ("some", 100), ("many", 3000)] {
            for at in 0..count {
                let (item, long) = (format!("item {at}"), "x".repeat(at % 90));
                add(&[b"SADD", format!("set {name}").as_bytes(), item.as_bytes()]);
                let key = format!("hash {name}");
                add(&[
                    b"HSET",
                    key.as_bytes(),
                    item.as_bytes(),
                    (at * 1000).to_string().as_bytes(),
                ]);
                add(&[b"HSET", key.as_bytes(), format!("long {at}").as_bytes(), long.as_bytes()]);
            }
        }
        add(&[b"SET", b"expires", b"1", b"PXAT", b"4102444800123"]);
        add(&[b"EXPIREAT", b"set few", b"4102444800"]);
        add(&[b"PEXPIREAT", b"hash many", b"4102444800001"]);
        add(&[b"SET", b"\xFF\0 no text\r\n", b"\0\r\n\xFF"]);
    }
    add(&[b"SELECT", b"0"]);
    add(&[
        b"FUNCTION",
        b"LOAD",
        b"#!lua name=f\nredis.register_function('f', function() return 1 end)",
    ]);
    run_all(client, &all);
}

/// Both forms of a transfer: a file with its length, and one that ends with a mark.
#[test]
fn a_replica_takes_over_all_keys() {
    for (diskless, others) in [
        ("no", &[][..]),
        ("yes", &[]),
        ("yes", &["--rdbchecksum", "no", "--rdbcompression", "no"]),
        ("no", &["--hash-max-listpack-entries", "8", "--set-max-intset-entries", "8"]),
    ] {
        let flags = [&["--repl-diskless-sync", diskless], others].concat();
        let Some(primary) = Primary::start(&flags) else { return };
        let mut theirs = primary.client();
        fill(&mut theirs);
        let replica = Local::start(&["--threads=2"]);
        let mut ours = replica.client();
        ours.run("SET old 1");
        ours.run("WATCH old");
        let address = primary.address;
        let of = format!("REPLICAOF {} {}", address.ip(), address.port());
        assert_eq!(replica.client().line(&of), "+OK");
        let mut other = replica.client();
        catch_up(&mut theirs, &mut other);
        assert_eq!(other.line(&of), "+OK Already connected to specified master");
        assert_same(&snapshot(&mut other, 16), &snapshot(&mut theirs, 16));
        assert_eq!(other.line("EXISTS old"), ":0");
        for request in ["MULTI", "GET old", "EXEC"] {
            let reply = ours.line(request);
            assert!(request != "EXEC" || reply == "*-1", "a watched key was removed: {reply}");
        }
        assert_eq!(info(&mut theirs, "replication", "connected_slaves"), "1");
        // The stream goes on, and is acknowledged.
        theirs.run("SET new 1");
        assert_eq!(theirs.line("WAIT 1 20000"), ":1");
        assert_eq!(other.line("GET new"), "1");
    }
}

/// Commands whose effects may depend on each other's order.
const CHANGES: &[&str] = &[
    "SET KEY VALUE",
    "SET KEY VALUE PX 40",
    "SET KEY VALUE EX 1000",
    "SET KEY VALUE NX",
    "SETNX KEY VALUE",
    "APPEND KEY VALUE",
    "INCR n:KEY",
    "INCRBYFLOAT n:KEY 0.25",
    "DECRBY n:KEY 7",
    "SETRANGE KEY 3 VALUE",
    "DEL KEY",
    "UNLINK KEY KEY",
    "RENAME KEY KEY",
    "COPY KEY KEY REPLACE",
    "COPY KEY KEY db DB",
    "MOVE KEY DB",
    "GETDEL KEY",
    "GETEX KEY PX 60",
    "GETEX KEY PERSIST",
    "EXPIRE KEY 1000",
    "PEXPIRE KEY 30",
    "PERSIST KEY",
    "MSET KEY VALUE KEY VALUE",
    "SADD s:KEY VALUE VALUE",
    "SREM s:KEY VALUE",
    "SPOP s:KEY",
    "SMOVE s:KEY s:KEY VALUE",
    "SUNIONSTORE s:KEY s:KEY s:KEY",
    "SDIFFSTORE s:KEY s:KEY s:KEY",
    "HSET h:KEY VALUE VALUE",
    "HDEL h:KEY VALUE",
    "HINCRBY i:KEY VALUE 3",
    "HINCRBYFLOAT i:KEY VALUE 0.5",
    "HSETNX h:KEY VALUE VALUE",
    "SELECT DB",
    "MULTI",
    "EXEC",
    "EXEC",
    "PUBLISH channel VALUE",
    "PEXPIREAT KEY 1",
    "SET KEY VALUE KEEPTTL",
    "GETSET KEY VALUE",
    "RENAMENX KEY KEY",
    "MSETNX KEY VALUE KEY VALUE",
];

/// Sends random changes until the mark is set. Errors of single commands are part of it.
fn change(address: SocketAddr, seed: u64, is_over: &AtomicBool) -> usize {
    let (mut client, mut random) = (Client::connect(address), SmallRng::seed_from_u64(seed));
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        let mut sent = Vec::new();
        for _ in 0..50 {
            let template = CHANGES.choose(&mut random).expect("a template");
            let words: Vec<String> = template
                .split(' ')
                .map(|word| match word.strip_suffix("KEY") {
                    Some(prefix) => format!("{prefix}{}", random.random_range(0..200)),
                    None if word == "VALUE" => "v".repeat(random.random_range(1..9)),
                    None if word == "DB" => random.random_range(0..DATABASES).to_string(),
                    None => word.to_string(),
                })
                .collect();
            sent.extend(encode(&words));
        }
        client.send(&sent);
        for _ in 0..50 {
            client.read();
        }
        count += 50;
        // A server that was built for tests keeps up with so many.
        std::thread::sleep(Duration::from_millis(5));
    }
    // Keys that are still to expire would do so at different moments of the comparison.
    client.send(b"DISCARD\r\n");
    client.read();
    count
}

/// A replica that begins while the primary is written to, and whose connection is cut again and again.
#[test]
fn a_replica_follows_a_primary_under_load() {
    let Some(primary) = Primary::start(&["--repl-backlog-size", "64mb"]) else { return };
    let mut theirs = primary.client();
    fill(&mut theirs);
    let proxy = Proxy::start(primary.address, &[]);
    let is_over = AtomicBool::new(false);
    let replica = std::thread::scope(|scope| {
        let (is_over, _end) = (&is_over, Ends(&is_over));
        let writers: Vec<_> = (0..3)
            .map(|seed| scope.spawn(move || change(primary.address, seed, is_over)))
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        let replica = replica_of(proxy.address, &[]);
        let mut ours = replica.client();
        catch_up(&mut theirs, &mut ours);
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(300));
            proxy.cut();
            wait_until("the link is down", || {
                proxy.connections.load(Ordering::Relaxed) > 0
                    && info(&mut ours, "replication", "master_link_status") == "down"
            });
            catch_up(&mut theirs, &mut ours);
        }
        is_over.store(true, Ordering::Relaxed);
        let count: usize = writers.into_iter().map(|writer| writer.join().expect("a writer")).sum();
        assert!(count > 1000, "only {count} changes");
        replica
    });
    // What was to expire has, and the primary has removed it.
    std::thread::sleep(Duration::from_millis(200));
    let mut ours = replica.client();
    let all = snapshot(&mut theirs, DATABASES);
    catch_up(&mut theirs, &mut ours);
    assert_same(&snapshot(&mut ours, DATABASES), &all);
    assert_eq!(info(&mut theirs, "stats", "sync_full"), "1");
    assert_eq!(info(&mut theirs, "stats", "sync_partial_ok"), "4");
    let offset = info(&mut theirs, "replication", "master_repl_offset");
    wait_until("the offsets are equal", || {
        let theirs = info(&mut theirs, "replication", "master_repl_offset");
        info(&mut ours, "replication", "slave_repl_offset") == theirs
    });
    assert!(offset.parse::<u64>().is_ok_and(|offset| offset > 10_000));
}

/// A replica keeps up with pipelines of a benchmark.
#[test]
fn a_replica_keeps_up() {
    let Some(primary) = Primary::start(&["--client-output-buffer-limit", "replica 0 0 0"]) else {
        return;
    };
    let mut theirs = primary.client();
    let replica = replica_of(primary.address, &[]);
    let mut ours = replica.client();
    catch_up(&mut theirs, &mut ours);
    let done = Command::new("redis-benchmark")
        .args(["-p", &primary.address.port().to_string(), "-q", "-n", "200000", "-P", "64"])
        .args(["-r", "100000", "-t", "set,incr,mset"])
        .stdout(Stdio::null())
        .status();
    let Ok(done) = done else { return };
    assert!(done.success());
    catch_up(&mut theirs, &mut ours);
    assert_eq!(ours.line("DBSIZE"), theirs.line("DBSIZE"));
    assert_eq!(info(&mut theirs, "stats", "sync_full"), "1");
}

#[test]
fn clients_of_a_replica_read_and_a_promoted_one_is_written_to() {
    let Some(primary) = Primary::start(&[]) else { return };
    let mut theirs = primary.client();
    theirs.run("SET ice cold");
    let replica = replica_of(primary.address, &["--replica-priority=7"]);
    let mut ours = replica.client();
    catch_up(&mut theirs, &mut ours);
    let refused = "-READONLY You can't write against a read only replica.";
    assert_eq!(ours.line("SET ice warm"), refused);
    // In a window of a pipeline, too.
    ours.send(&[encode(&["GET", "ice"]), encode(&["SET", "ice", "warm"])].concat().repeat(8));
    for _ in 0..8 {
        assert_eq!(ours.read(), Reply::Bulk(b"cold".into()));
        assert_eq!(ours.read(), Reply::Line(refused.into()));
    }
    assert_eq!(ours.line("MULTI"), "+OK");
    assert_eq!(ours.line("DEL ice"), refused);
    assert_eq!(ours.line("EXEC"), "-EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(ours.line("FLUSHALL"), refused);
    for line in ["role:slave", "slave_read_only:1", "slave_priority:7", "connected_slaves:0"] {
        assert!(ours.line("INFO replication").contains(line), "{line}");
    }
    assert_eq!(info(&mut ours, "replication", "master_port"), primary.address.port().to_string());
    let Reply::Many(_, role) = ours.run("ROLE") else { panic!("no role") };
    let text = |text: &str| Reply::Bulk(text.into());
    assert_eq!(role[..2], [text("slave"), text("127.0.0.1")]);
    assert_eq!(role[3], text("connected"));
    let Reply::Many(_, of) = ours.run("CONFIG GET replicaof") else { panic!("no parameter") };
    assert_eq!(of[1], text(&format!("127.0.0.1 {}", primary.address.port())));
    // It has no replicas of its own.
    for command in ["PSYNC ? -1", "SYNC", "REPLCONF capa eof"] {
        assert!(ours.line(command).starts_with("-ERR this server can't have replicas"));
    }
    for (command, reply) in [
        ("REPLICAOF a x", "-ERR Invalid master port"),
        ("REPLICAOF a 70000", "-ERR Invalid master port"),
        ("CONFIG SET replica-read-only no", "+OK"),
        ("SET ice warm", "+OK"),
        ("CONFIG SET slave-read-only yes", "+OK"),
        ("SET ice warm", refused),
    ] {
        assert_eq!(ours.line(command), reply, "{command}");
    }
    // A transaction that was queued before is refused as a whole afterwards.
    let mut queued = replica.client();
    assert_eq!(ours.line("SLAVEOF NO ONE"), "+OK");
    for command in ["MULTI", "SET ice hot"] {
        assert!(queued.line(command).starts_with('+'));
    }
    assert_eq!(ours.line("SET ice hot"), "+OK");
    theirs.run("SET ice freezing");
    assert_eq!(ours.line("REPLICAOF NO ONE"), "+OK");
    assert_eq!(info(&mut ours, "replication", "role"), "master");
    wait_until("the primary knows it", || {
        info(&mut theirs, "replication", "connected_slaves") == "0"
    });
    assert_eq!(ours.line("GET ice"), "hot");
    let of = format!("REPLICAOF 127.0.0.1 {}", primary.address.port());
    assert_eq!(ours.line(&of), "+OK");
    assert!(queued.line("EXEC").starts_with("-EXECABORT Transaction discarded because of: "));
    catch_up(&mut theirs, &mut ours);
    assert_eq!(ours.line("GET ice"), "freezing");
}

/// Nothing of a primary is stored after the promotion was answered.
#[test]
fn a_promotion_ends_the_stream_at_once() {
    let Some(primary) = Primary::start(&[]) else { return };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = Ends(&is_over);
        scope.spawn(|| {
            let mut client = primary.client();
            while !is_over.load(Ordering::Relaxed) {
                // So many that the replica is in the middle of them when it is promoted.
                client.send(&encode(&["SET", "key", "theirs"]).repeat(5000));
                (0..5000).for_each(|_| drop(client.read()));
            }
        });
        for _ in 0..10 {
            let replica = replica_of(primary.address, &[]);
            let mut ours = replica.client();
            wait_until("the stream is there", || ours.line("GET key") == "theirs");
            ours.send(
                &[encode(&["REPLICAOF", "NO", "ONE"]), encode(&["SET", "key", "ours"])].concat(),
            );
            assert_eq!(
                (ours.read(), ours.read()),
                (Reply::Line("+OK".into()), Reply::Line("+OK".into()))
            );
            for _ in 0..50 {
                assert_eq!(ours.line("GET key"), "ours");
            }
        }
    });
}

#[test]
fn a_type_that_is_not_there_ends_the_synchronisation() {
    let Some(primary) = Primary::start(&[]) else { return };
    let mut theirs = primary.client();
    theirs.run("RPUSH list a b");
    theirs.run("SET a 1");
    let replica = replica_of(primary.address, &[]);
    let mut ours = replica.client();
    let why = failure(&mut ours);
    assert!(why.starts_with("key \"list\" of database 0 is a list (type "), "{why}");
    // It is not tried again: the primary would make a file again and again.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(info(&mut theirs, "stats", "sync_full"), "1");
    assert_eq!(
        (ours.line("DBSIZE"), ours.line("SET a 1")),
        (":0".into(), "-READONLY You can't write against a read only replica.".into())
    );
    theirs.run("DEL list");
    let of = format!("REPLICAOF 127.0.0.1 {}", primary.address.port());
    assert_eq!(ours.line(&of), "+OK");
    catch_up(&mut theirs, &mut ours);
    // A command of the stream ends it, too, and all before it was run.
    theirs.send(
        &[encode(&["SET", "b", "2"]), encode(&["RPUSH", "l", "x"]), encode(&["SET", "c", "3"])]
            .concat(),
    );
    (0..3).for_each(|_| drop(theirs.read()));
    let why = failure(&mut ours);
    assert!(why.contains("\"RPUSH\" on key \"l\""), "{why}");
    assert_eq!(ours.run("MGET a b c"), {
        let bulk = |text: &str| Reply::Bulk(text.into());
        Reply::Many("*3".into(), vec![bulk("1"), bulk("2"), Reply::Line("$-1".into())])
    });
    // In a transaction none of it is run.
    theirs.run("DEL l");
    assert_eq!((ours.line("REPLICAOF NO ONE"), ours.line(&of)), ("+OK".into(), "+OK".into()));
    catch_up(&mut theirs, &mut ours);
    let queue = ["MULTI", "SET d 4", "RPUSH l x", "EXEC"];
    queue.iter().for_each(|command| drop(theirs.run(command)));
    assert!(failure(&mut ours).contains("\"RPUSH\""));
    assert_eq!(ours.line("EXISTS d"), ":0");
}

#[test]
fn a_replica_has_a_name_and_a_password() {
    let Some(primary) = Primary::start(&["--requirepass", "other"]) else {
        return;
    };
    let mut theirs = primary.client();
    theirs.run("AUTH other");
    let rules = "ACL SETUSER replica on >secret +psync +replconf +ping";
    assert_eq!(theirs.line(rules), "+OK");
    theirs.run("SET a 1");
    let replica = replica_of(primary.address, &["--masteruser=replica", "--masterauth=wrong"]);
    let mut ours = replica.client();
    assert!(failure(&mut ours).contains("AUTH: -WRONGPASS"));
    assert_eq!(ours.line("CONFIG SET masterauth secret"), "+OK");
    catch_up(&mut theirs, &mut ours);
    assert_eq!(ours.line("GET a"), "1");
    drop(replica);
    let replica = replica_of(primary.address, &["--primaryauth=other"]);
    let mut ours = replica.client();
    catch_up(&mut theirs, &mut ours);
    drop(replica);
    let replica = replica_of(primary.address, &[]);
    assert!(failure(&mut replica.client()).contains("NOAUTH"));
}

/// A primary that is itself a replica passes its primary's stream on, which may go on in any database.
#[test]
fn a_replica_of_a_replica_goes_on_in_its_database() {
    let (Some(first), Some(second)) = (Primary::start(&[]), Primary::start(&[])) else { return };
    let (mut top, mut middle) = (first.client(), second.client());
    let of = format!("REPLICAOF 127.0.0.1 {}", first.address.port());
    assert_eq!(middle.line(&of), "+OK");
    wait_until("the first link", || info(&mut middle, "replication", "master_link_status") == "up");
    for command in ["SELECT 3", "SET a 1"] {
        assert_eq!(top.line(command), "+OK");
    }
    assert_eq!(top.line("WAIT 1 20000"), ":1");
    let replica = replica_of(second.address, &[]);
    let mut ours = replica.client();
    catch_up(&mut middle, &mut ours);
    top.run("SET b 2");
    catch_up(&mut top, &mut ours);
    assert_same(&snapshot(&mut ours, 4), &snapshot(&mut top, 4));
    // The second one becomes a primary, whose stream has another name from then on.
    assert_eq!(middle.line("REPLICAOF NO ONE"), "+OK");
    for command in ["SELECT 3", "SET c 3"] {
        assert_eq!(middle.line(command), "+OK");
    }
    catch_up(&mut middle, &mut ours);
    assert_same(&snapshot(&mut ours, 4), &snapshot(&mut middle, 4));
    assert_eq!(info(&mut middle, "stats", "sync_full"), "1");
}

/// Starts a replica with a file as a process of its own.
fn serve(file: &std::path::Path, flags: &[&str]) -> (Process, SocketAddr) {
    let port = free_port();
    let child = Command::new(env!("CARGO_BIN_EXE_nunatak-server"))
        .args(["--threads=1", &format!("--port={port}"), &format!("--file={}", file.display())])
        .args(flags)
        .stderr(Stdio::null())
        .spawn();
    let (process, address) =
        (Process(child.expect("the server")), SocketAddr::from(([127, 0, 0, 1], port)));
    wait_until("the server listens", || TcpStream::connect(address).is_ok());
    (process, address)
}

/// What a replica has is in its file, and survives a kill.
#[test]
fn a_replica_with_a_file_is_durable() {
    let Some(primary) = Primary::start(&[]) else { return };
    let mut theirs = primary.client();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("data.map");
    let of = format!("--replicaof=127.0.0.1 {}", primary.address.port());
    for durability in ["--durability=always", "--durability=process"] {
        theirs.run("MSET a 1 b 2");
        let (mut process, address) = serve(&file, &[&of, durability]);
        let mut ours = Client::connect(address);
        catch_up(&mut theirs, &mut ours);
        for at in 0..500 {
            theirs.send(&encode(&["SET", &format!("key {at}"), "1"]));
            theirs.read();
        }
        theirs.run("DEL b");
        catch_up(&mut theirs, &mut ours);
        process.0.kill().expect("the process is killed");
        process.0.wait().expect("the process has ended");
        let (_process, address) = serve(&file, &[durability]);
        let mut ours = Client::connect(address);
        assert_same(&snapshot(&mut ours, 1), &snapshot(&mut theirs, 1));
    }
    // Other databases have files, too.
    for command in ["SELECT 3", "SET three 1", "SELECT 0"] {
        theirs.run(command);
    }
    let (_process, address) = serve(&file, &[&of]);
    let mut ours = Client::connect(address);
    catch_up(&mut theirs, &mut ours);
    assert_same(&snapshot(&mut ours, 16), &snapshot(&mut theirs, 16));
    let few = directory.path().join("few.map");
    let (_process, address) = serve(&few, &[&of, "--databases=2"]);
    let mut ours = Client::connect(address);
    let why = failure(&mut ours);
    assert_eq!(why, "key \"three\" is in database 3, and this server has 2");
    assert_eq!(ours.line("DBSIZE"), ":0");
}

/// Sentinel promotes a replica when the primary is gone.
#[test]
fn sentinel_promotes_a_replica() {
    let Some(primary) = Primary::start(&[]) else { return };
    let mut theirs = primary.client();
    theirs.run("SET ice cold");
    let replica = replica_of(primary.address, &[]);
    let mut ours = replica.client();
    catch_up(&mut theirs, &mut ours);
    let (directory, port) = (tempfile::tempdir().expect("a directory"), free_port());
    let file = directory.path().join("sentinel.conf");
    let config = format!(
        "port {port}\nsentinel monitor it 127.0.0.1 {} 1\nsentinel down-after-milliseconds it 1000\n\
         sentinel failover-timeout it 10000\n",
        primary.address.port()
    );
    std::fs::write(&file, config).expect("a file");
    let child =
        Command::new("redis-server").arg(&file).arg("--sentinel").stdout(Stdio::null()).spawn();
    let _sentinel = Process(child.expect("a sentinel"));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    wait_until("the sentinel listens", || TcpStream::connect(address).is_ok());
    let mut sentinel = Client::connect(address);
    wait_until(
        "the sentinel knows the replica",
        || matches!(sentinel.run("SENTINEL REPLICAS it"), Reply::Many(_, all) if all.len() == 1),
    );
    // It looks at replicas every ten seconds, and takes none that it has not seen for five.
    drop(primary);
    // (It closes the connections of clients, which are to ask it for the address.)
    wait_until("the replica is promoted", || {
        info(&mut replica.client(), "replication", "role") == "master"
    });
    let mut ours = replica.client();
    assert_eq!((ours.line("SET ice warm"), ours.line("GET ice")), ("+OK".into(), "warm".into()));
    let port = replica.address.port().to_string();
    wait_until("clients are sent to the replica", || {
        let told = sentinel.run("SENTINEL GET-MASTER-ADDR-BY-NAME it");
        matches!(told, Reply::Many(_, parts) if parts[1] == Reply::Bulk(port.clone().into()))
    });
}
