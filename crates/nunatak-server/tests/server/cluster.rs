//! Cluster mode: redirections, moving slots under load, values that go to a Redis and come back.

use crate::common::{Client, Local, Redis, Reply, encode};
use clap::Parser;
use nunatak_server::ClusterCommand;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Servers of one map.
struct Nodes {
    nodes: Vec<Local>,
    /// Removed when no server reads the map any more.
    directory: tempfile::TempDir,
}

const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

impl Nodes {
    /// Starts three nodes. Their ports are known then only, so the map is written again.
    fn start(slots: [&str; 3]) -> Self {
        Self::start_with(slots, &["--threads=2"])
    }

    fn start_with(slots: [&str; 3], flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("map");
        let write = |ports: [u16; 3]| {
            let line = |node: usize| {
                format!("{} 127.0.0.1:{} {}\n", NAMES[node], ports[node], slots[node])
            };
            std::fs::write(&path, (0..3).map(line).collect::<String>()).expect("a map");
        };
        write([1, 2, 3]);
        let start = |name: &str| {
            let map = format!("--cluster-map={}", path.display());
            let name = format!("--cluster-node={name}");
            Local::start(&[flags, &[&map, &name]].concat())
        };
        let this = Self { nodes: NAMES.map(start).into(), directory };
        write([0, 1, 2].map(|node| this.nodes[node].address.port()));
        let last = format!("{}@", this.nodes[2].address);
        for node in &this.nodes {
            wait_until("the map is read again", || {
                node.client().line("CLUSTER NODES").contains(&last)
            });
        }
        this
    }

    fn map(&self) -> PathBuf {
        self.directory.path().join("map")
    }

    fn client(&self, node: usize) -> Client {
        self.nodes[node].client()
    }

    fn manage(&self, command: &str) -> Result<(), String> {
        #[derive(Parser)]
        struct Manage {
            #[command(subcommand)]
            command: ClusterCommand,
        }
        let map = self.map().display().to_string();
        let words = command.split(' ').map(|word| word.replace("MAP", &map));
        let parsed = Manage::parse_from(["".into()].into_iter().chain(words));
        parsed.command.run().map_err(|error| error.to_string())
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A client that goes where it is sent.
struct Routed {
    clients: HashMap<SocketAddr, Client>,
    at: SocketAddr,
}

impl Routed {
    fn new(nodes: &Nodes) -> Self {
        Self { clients: HashMap::new(), at: nodes.nodes[0].address }
    }

    fn client(&mut self, address: SocketAddr) -> &mut Client {
        self.clients.entry(address).or_insert_with(|| Client::connect(address))
    }

    /// Runs a command; returns its reply, and how often it was redirected.
    fn run(&mut self, command: &str) -> Reply {
        let (mut at, mut asks) = (self.at, false);
        for _ in 0..10_000 {
            let client = self.client(at);
            if asks {
                assert_eq!(client.line("ASKING"), "+OK");
            }
            let reply = client.run(command);
            let Reply::Line(line) = &reply else { return reply };
            let words: Vec<&str> = line.split(' ').collect();
            match words[0] {
                "-MOVED" | "-ASK" => {
                    at = words[2].parse().expect("an address");
                    asks = words[0] == "-ASK";
                    if !asks {
                        self.at = at;
                    }
                }
                "-TRYAGAIN" => (at, asks) = (self.at, false),
                _ => return reply,
            }
        }
        panic!("{command}: sent from node to node");
    }
}

const THIRDS: [&str; 3] = ["0-5460", "5461-10922", "10923-16383"];

#[test]
fn the_command_looks_after_clusters() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("map").display().to_string();
    let make = || {
        Command::new(env!("CARGO_BIN_EXE_nunatak-server"))
            .args(["cluster", "make", "--map", &path, "alpha=127.0.0.1:7000"])
            .output()
            .expect("the command starts")
    };
    assert!(make().status.success());
    let map = std::fs::read_to_string(&path).expect("the map was made");
    assert!(map.contains("alpha 127.0.0.1:7000 0-16383"), "{map}");
    let again = make();
    let error = String::from_utf8_lossy(&again.stderr);
    assert!(!again.status.success() && error.contains(&path), "it must not exist: {error}");
}

/// `foo` has slot 12182, `bar` slot 5061.
#[test]
fn other_nodes_keys_are_redirected() {
    let nodes = Nodes::start(["0-5460", "5461-10922", "10923-12182"]);
    let gamma = nodes.nodes[2].address;
    let mut alpha = nodes.client(0);
    let moved = format!("-MOVED 12182 {gamma}");
    for command in [
        "GET foo",
        "SET foo 1",
        "MGET foo foo",
        "WATCH foo",
        "DUMP foo",
        "OBJECT ENCODING foo",
        "MEMORY USAGE foo",
        "SSUBSCRIBE foo",
        "SPUBLISH foo 1",
        "MIGRATE 127.0.0.1 1 foo 0 100",
    ] {
        let reply = alpha.line(command);
        let is_refused = command.starts_with("MIGRATE") && reply.starts_with("-IOERR");
        assert!(reply == moved || is_refused, "{command}: {reply}");
    }
    assert_eq!(alpha.line("SET bar 1"), "+OK");
    assert_eq!(alpha.line("GET bar"), "1");
    assert_eq!(
        alpha.line("MGET bar foo"),
        "-CROSSSLOT Keys in request don't hash to the same slot"
    );
    assert_eq!(alpha.line("MSET foo 1 bar 2"), alpha.line("MGET foo bar"));
    assert_eq!(alpha.line("GET {a}"), "-CLUSTERDOWN Hash slot not served");
    assert_eq!(alpha.line("SELECT 1"), "-ERR SELECT is not allowed in cluster mode");
    assert_eq!(alpha.line("SELECT 0"), "+OK");
    // In a pipeline, between lookups of this node's keys.
    alpha.send(&encode(&["GET", "bar"]).repeat(20));
    alpha.send(&encode(&["GET", "foo"]));
    alpha.send(&encode(&["GET", "bar"]).repeat(20));
    for at in 0..41 {
        let expected =
            if at == 20 { Reply::Line(moved.clone()) } else { Reply::Bulk(b"1".to_vec()) };
        assert_eq!(alpha.read(), expected);
    }
    // A transaction is discarded.
    assert_eq!(alpha.line("MULTI"), "+OK");
    assert_eq!(alpha.line("GET foo"), moved);
    assert_eq!(alpha.line("EXEC"), "-EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(alpha.line("MULTI"), "+OK");
    assert_eq!(alpha.line("INCR {bar}1"), "+QUEUED");
    assert_eq!(alpha.line("INCR {bar}2"), "+QUEUED");
    assert!(matches!(alpha.run("EXEC"), Reply::Many(..)));
    assert_eq!(nodes.client(2).line("SET foo 1"), "+OK");
    // A server that is in no cluster has none of these.
    let alone = Local::start(&["--threads=1"]);
    for command in ["CLUSTER INFO", "ASKING", "READONLY"] {
        let error = "-ERR This instance has cluster support disabled";
        assert_eq!(alone.client().line(command), error);
    }
}

#[test]
fn nodes_tell_who_has_which_slots() {
    let nodes = Nodes::start(THIRDS);
    let mut beta = nodes.client(1);
    let info = beta.line("CLUSTER INFO");
    assert!(info.contains("cluster_state:ok\r\ncluster_slots_assigned:16384"), "{info}");
    let id = beta.line("CLUSTER MYID");
    let told = beta.line("CLUSTER NODES");
    let mine = format!("{id} {}@", nodes.nodes[1].address);
    let mine = told.lines().find(|line| line.starts_with(&mine)).expect("a line");
    assert!(mine.contains(" myself,master - 0 0 ") && mine.ends_with(" connected 5461-10922"));
    let Reply::Many(_, slots) = beta.run("CLUSTER SLOTS") else { panic!("no array") };
    assert_eq!(slots.len(), 3);
    let Reply::Many(_, first) = &slots[0] else { panic!("no array") };
    assert_eq!(first[..2], [Reply::Line(":0".into()), Reply::Line(":5460".into())]);
    let Reply::Many(_, shards) = beta.run("CLUSTER SHARDS") else { panic!("no array") };
    assert_eq!(shards.len(), 3);
    assert_eq!(beta.line("CLUSTER KEYSLOT {user1000}.following"), ":3443");
    let hello = beta.run("HELLO 2");
    assert!(format!("{hello:?}").contains(&format!("{:?}", Reply::Bulk(b"cluster".to_vec()))));
    assert!(nodes.manage("check --map MAP").is_ok());
    // A map that the nodes have not read differs from them.
    let text = std::fs::read_to_string(nodes.map()).expect("a map");
    let other = nodes.directory.path().join("other");
    std::fs::write(&other, text.replace("0-5460", "0-5459")).expect("a map");
    let error = nodes.manage(&format!("check --map {}", other.display())).unwrap_err();
    assert!(error.ends_with("the map: alpha"), "{error}");
}

#[test]
fn keys_of_a_moving_slot_are_here_or_there() {
    let nodes = Nodes::start(THIRDS);
    let (mut alpha, mut beta) = (nodes.client(0), nodes.client(1));
    let [alpha_id, beta_id] = [alpha.line("CLUSTER MYID"), beta.line("CLUSTER MYID")];
    assert_eq!(alpha.line("MSET {bar}1 a {bar}2 b"), "+OK");
    assert_eq!(beta.line(&format!("CLUSTER SETSLOT 5061 IMPORTING {alpha_id}")), "+OK");
    assert_eq!(alpha.line(&format!("CLUSTER SETSLOT 5061 MIGRATING {beta_id}")), "+OK");
    let port = nodes.nodes[1].address.port();
    let ask = format!("-ASK 5061 {}", nodes.nodes[1].address);
    let again = "-TRYAGAIN Multiple keys request during rehashing of slot";
    // What is here is served here; what is not, there.
    assert_eq!(alpha.line("GET {bar}1"), "a");
    assert_eq!(alpha.line("SET {bar}3 c"), ask);
    assert_eq!(alpha.line(&format!("MIGRATE 127.0.0.1 {port} {{bar}}1 0 1000")), "+OK");
    assert_eq!(alpha.line("GET {bar}1"), ask);
    assert_eq!(alpha.line("MGET {bar}1 {bar}2"), again);
    let moved = format!("-MOVED 5061 {}", nodes.nodes[0].address);
    assert_eq!(beta.line("GET {bar}1"), moved);
    assert_eq!(beta.line("ASKING"), "+OK");
    assert_eq!(beta.line("GET {bar}1"), "a");
    assert_eq!(beta.line("GET {bar}1"), moved, "asking is about one command");
    assert_eq!(beta.line("ASKING"), "+OK");
    assert_eq!(beta.line("MGET {bar}1 {bar}2"), again);
    assert_eq!(beta.line("ASKING"), "+OK");
    assert_eq!(beta.line("SET {bar}3 c"), "+OK");
    assert_eq!(
        alpha.line(&format!("CLUSTER SETSLOT 5061 NODE {beta_id}")),
        "-ERR Can't assign hashslot 5061 to a different node while I still hold keys for this \
         hash slot."
    );
    // The rest, by a command; it may be given again.
    for _ in 0..2 {
        assert_eq!(nodes.manage("move --map MAP --slots 5061 --to beta"), Ok(()));
    }
    assert_eq!(alpha.line("GET {bar}2"), format!("-MOVED 5061 {}", nodes.nodes[1].address));
    let values = ["a", "b", "c"].map(|value| Reply::Bulk(value.into()));
    assert_eq!(beta.run("MGET {bar}1 {bar}2 {bar}3"), Reply::Many("*3".into(), values.into()));
    assert!(nodes.manage("check --map MAP").is_ok());
}

/// Stops clients, also if the test fails.
struct StopAtEnd<'s>(&'s AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Slots go round while clients increment: each increment that was answered is there at the end, once.
#[test]
fn nothing_is_lost_while_slots_move() {
    const KEYS: usize = 200;
    let nodes = Nodes::start(THIRDS);
    let mut client = Routed::new(&nodes);
    for n in 0..KEYS {
        assert_eq!(client.run(&format!("SET key:{n} 0")), Reply::Line("+OK".into()));
    }
    let stop = AtomicBool::new(false);
    let counted = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|thread| {
                let (nodes, stop) = (&nodes, &stop);
                scope.spawn(move || {
                    let mut client = Routed::new(nodes);
                    let (mut counts, mut n) = (vec![0_i64; KEYS], thread);
                    while !stop.load(Ordering::Relaxed) {
                        n = (n * 13 + 7) % KEYS;
                        let reply = client.run(&format!("INCR key:{n}"));
                        let Reply::Line(line) = reply else { panic!("{reply:?}") };
                        let now: i64 =
                            line[1..].parse().unwrap_or_else(|_| panic!("key:{n}: {line}"));
                        counts[n] += 1;
                        assert!(now >= counts[n], "key:{n} is {now} after {}", counts[n]);
                    }
                    counts
                })
            })
            .collect();
        for node in 0..3 {
            let (nodes, stop) = (&nodes, &stop);
            scope.spawn(move || {
                // In windows, which look many keys up together.
                let mut client = nodes.client(node);
                let gets: Vec<u8> =
                    (0..KEYS).flat_map(|n| encode(&["GET", &format!("key:{n}")])).collect();
                while !stop.load(Ordering::Relaxed) {
                    client.send(&gets);
                    for n in 0..KEYS {
                        let reply = client.read();
                        assert_ne!(reply, Reply::Line("$-1".into()), "key:{n} at {node}");
                    }
                }
            });
        }
        let stopping = StopAtEnd(&stop);
        let begin = Instant::now();
        let mut rounds = 0;
        while rounds < 2 || begin.elapsed() < Duration::from_secs(2) {
            for to in [1, 2, 0] {
                let command =
                    format!("move --map MAP --slots 0-16383 --to {} --batch 7", NAMES[to]);
                assert_eq!(nodes.manage(&command), Ok(()));
            }
            rounds += 1;
        }
        drop(stopping);
        let mut all = vec![0; KEYS];
        for client in clients {
            let counts = client.join().expect("a client");
            all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
        }
        all
    });
    for (n, &count) in counted.iter().enumerate() {
        let value = client.run(&format!("GET key:{n}"));
        let expected = Reply::Bulk(count.to_string().into());
        assert_eq!(value, expected, "key:{n}");
    }
    assert!(counted.iter().sum::<i64>() > 1000);
    for (node, expected) in [(0, KEYS), (1, 0), (2, 0)] {
        assert_eq!(nodes.client(node).line("DBSIZE"), format!(":{expected}"));
    }
}

/// A node that is started again while slots move knows that they do.
#[test]
fn moves_are_known_after_a_restart() {
    let nodes = Nodes::start(THIRDS);
    let mut alpha = nodes.client(0);
    let beta_id = nodes.client(1).line("CLUSTER MYID");
    assert_eq!(alpha.line(&format!("CLUSTER SETSLOTRANGE 0 99 MIGRATING {beta_id}")), "+OK");
    let map = format!("--cluster-map={}", nodes.map().display());
    let again = Local::start(&["--threads=1", &map, "--cluster-node=alpha"]);
    let line = again.client().line("CLUSTER NODES");
    assert!(line.contains(&format!("[99->-{beta_id}]")), "{line}");
    wait_until("the target knows it, too", || {
        nodes.client(1).line("CLUSTER NODES").contains("[99-<-")
    });
    assert_eq!(alpha.line("CLUSTER SETSLOTRANGE 0 99 STABLE"), "+OK");
}

/// Values go to a Redis and come back, in the encodings that it chooses.
#[test]
fn redis_restores_what_is_dumped_and_the_other_way_round() {
    let Some(redis) = Redis::start() else { return };
    let (server, mut theirs) = (Local::start(&["--threads=1"]), redis.client());
    let mut ours = server.client();
    let long = "ice ".repeat(1000);
    let many: String = (0..600).map(|n| format!(" f{n} v{n}")).collect();
    let members: String = (0..300).map(|n| format!(" m{n}")).collect();
    let commands = [
        ("SET key ice".to_string(), "GET key"),
        ("SET key 7".into(), "GET key"),
        ("SET key -300".into(), "GET key"),
        ("SET key 1234567890".into(), "GET key"),
        ("SET key 12345678901234567890".into(), "GET key"),
        (format!("SET key {}", long.replace(' ', "_")), "GET key"),
        ("SADD key 1 2 3".into(), "SMEMBERS key"),
        ("SADD key 1 -70000 3".into(), "SMEMBERS key"),
        ("SADD key 1 9000000000 3".into(), "SMEMBERS key"),
        ("SADD key a b 3".into(), "SMEMBERS key"),
        (format!("SADD key{members}"), "SMEMBERS key"),
        (
            "HSET key a 1 b -1 c 5000 d -5000 e 100000 f 9000000 g 5000000000 h x".into(),
            "HGETALL key",
        ),
        (format!("HSET key a {}", "x".repeat(63)), "HGETALL key"),
        (format!("HSET key a {} b {}", "x".repeat(64), "y".repeat(60)), "HGETALL key"),
        (format!("HSET key{many}"), "HGETALL key"),
    ];
    let sorted = |reply: Reply| match reply {
        Reply::Many(_, mut items) => {
            items.sort();
            items
        }
        other => vec![other],
    };
    for (make, read) in &commands {
        for redis_first in [true, false] {
            theirs.run("DEL key");
            ours.run("DEL key");
            let dumped = if redis_first {
                theirs.run(make);
                theirs.run("DUMP key")
            } else {
                ours.run(make);
                ours.run("DUMP key")
            };
            let Reply::Bulk(bytes) = dumped else { panic!("{make}: {dumped:?}") };
            let restore = encode(&[b"RESTORE", &b"key"[..], b"100000", &bytes]);
            let restored = if redis_first {
                ours.send(&restore);
                ours.read()
            } else {
                theirs.send(&restore);
                theirs.read()
            };
            assert_eq!(restored, Reply::Line("+OK".into()), "{make}");
            assert_eq!(sorted(ours.run(read)), sorted(theirs.run(read)), "{make}");
        }
    }
    // A type that is not here, what is damaged, and options.
    theirs.run("RPUSH list a b");
    let Reply::Bulk(list) = theirs.run("DUMP list") else { panic!("no dump") };
    ours.send(&encode(&[b"RESTORE", &b"list"[..], b"0", &list]));
    assert_eq!(ours.read(), Reply::Line("-ERR Bad data format".into()));
    let Reply::Bulk(mut value) = ours.run("DUMP key") else { panic!("no dump") };
    for options in [&["0"][..], &["-1", "REPLACE"], &["x", "REPLACE"], &["0", "REPLACE", "FREQ"]] {
        let mut command = vec![&b"RESTORE"[..], b"key", options[0].as_bytes(), &value];
        command.extend(options[1..].iter().map(|word| word.as_bytes()));
        ours.send(&encode(&command));
        theirs.send(&encode(&command));
        assert_eq!(ours.read(), theirs.read(), "{options:?}");
    }
    value[1] ^= 1;
    ours.send(&encode(&[b"RESTORE", &b"other"[..], b"0", &value]));
    let error = "-ERR DUMP payload version or checksum are wrong";
    assert_eq!(ours.read(), Reply::Line(error.into()));
}

/// `redis-cli -c` and `redis-benchmark --cluster` find their way.
#[test]
fn clients_of_redis_cluster_find_their_way() {
    let nodes = Nodes::start(THIRDS);
    let port = nodes.nodes[0].address.port().to_string();
    let Ok(cli) = Command::new("redis-cli").args(["-c", "-p", &port, "SET", "foo", "ice"]).output()
    else {
        println!("redis-cli is not installed: left out");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&cli.stdout).trim(), "OK");
    assert_eq!(nodes.client(2).line("GET foo"), "ice");
    let bench = Command::new("redis-benchmark")
        .args(["--cluster", "-p", &port, "-t", "set,get", "-n", "3000", "-r", "1000", "-q"])
        .output()
        .expect("redis-benchmark is beside redis-cli");
    assert!(bench.status.success(), "{}", String::from_utf8_lossy(&bench.stdout));
    let keys = |node| nodes.client(node).line("DBSIZE")[1..].parse::<i64>().expect("a number");
    assert!((0..3).all(|node| keys(node) > 100), "each node has got keys");
}

#[test]
fn wrong_maps_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("map");
    let bind = |name: &str| {
        let map = format!("--cluster-map={}", path.display());
        let flags = ["", "--port=0", &map, &format!("--cluster-node={name}")].map(str::to_string);
        let error = nunatak_server::Server::bind(nunatak_server::Config::parse_from(flags));
        error.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(bind("a").contains("No such file"), "{}", bind("a"));
    std::fs::write(&path, "a 127.0.0.1:1 0-9\nb 127.0.0.1:2 9\n").expect("a map");
    assert!(bind("a").ends_with("line 2: slot 9 has two owners"), "{}", bind("a"));
    std::fs::write(&path, "a 127.0.0.1:1 0-9\n").expect("a map");
    assert!(bind("c").ends_with("there is no node `c`"), "{}", bind("c"));
    assert_eq!(bind("a"), "");
}
