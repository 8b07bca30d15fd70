//! Primaries for the tests of replicas: a Redis at a port, a primary that sends what the test wants, and a proxy
//! that cuts connections.

use crate::common::{Client, Local, PATIENCE, Process, Reply, encode, run_redis};
use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A Redis that listens at a port.
pub(crate) struct Primary {
    _process: Process,
    _directory: tempfile::TempDir,
    pub(crate) address: SocketAddr,
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

impl Primary {
    /// Starts one, if it is installed.
    pub(crate) fn start(flags: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        // Another program may take the port first.
        for _ in 0..5 {
            let port = free_port().to_string();
            let all = [&["--port", &port, "--repl-diskless-sync-delay", "0"], flags].concat();
            let mut process = run_redis(directory.path(), &all)?;
            let address = SocketAddr::new([127, 0, 0, 1].into(), port.parse().expect("a port"));
            let begin = Instant::now();
            while begin.elapsed() < PATIENCE {
                if process.0.try_wait().expect("a state").is_some() {
                    break;
                }
                if TcpStream::connect(address).is_ok() {
                    return Some(Self { _process: process, _directory: directory, address });
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        panic!("the Redis does not listen");
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }
}

/// Starts a replica of an address.
pub(crate) fn replica_of(address: SocketAddr, flags: &[&str]) -> Local {
    let of = format!("--replicaof={} {}", address.ip(), address.port());
    Local::start(&[&["--threads=2", &of], flags].concat())
}

/// Returns a field of `INFO`; empty if there is none.
pub(crate) fn info(client: &mut Client, section: &str, name: &str) -> String {
    let text = client.line(&format!("INFO {section}"));
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_default().trim().to_string()
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "it takes too long: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a replica has all that its primary has sent so far.
pub(crate) fn catch_up(primary: &mut Client, replica: &mut Client) {
    let offset = info(primary, "replication", "master_repl_offset");
    let offset: u64 = offset.parse().expect("an offset");
    wait_until("the replica has everything", || {
        let reached = info(replica, "replication", "slave_repl_offset");
        info(replica, "replication", "master_link_status") == "up"
            && reached.parse::<u64>().is_ok_and(|reached| reached >= offset)
    });
}

/// Waits until a link is down, and returns why.
pub(crate) fn failure(replica: &mut Client) -> String {
    let mut why = String::new();
    wait_until("the link is down", || {
        why = info(replica, "replication", "master_link_failure");
        !why.is_empty()
    });
    why
}

/// All keys of some databases, with what they have, and when they expire.
pub(crate) type Snapshot = BTreeMap<(usize, Vec<u8>), (Reply, Reply)>;

pub(crate) fn snapshot(client: &mut Client, databases: usize) -> Snapshot {
    let mut all = Snapshot::new();
    for db in 0..databases {
        assert_eq!(client.line(&format!("SELECT {db}")), "+OK");
        let Reply::Many(_, keys) = client.run("KEYS *") else { panic!("no keys") };
        let keys: Vec<Vec<u8>> = keys
            .into_iter()
            .map(|key| match key {
                Reply::Bulk(key) => key,
                other => panic!("{other:?}"),
            })
            .collect();
        for key in keys {
            let mut ask = |words: &[&[u8]]| {
                client.send(&encode(words));
                client.read()
            };
            let kind = ask(&[b"TYPE", &key]);
            let value = match &kind {
                Reply::Line(line) if line == "+string" => ask(&[b"GET", &key]),
                Reply::Line(line) if line == "+set" => {
                    let Reply::Many(line, mut items) = ask(&[b"SMEMBERS", &key]) else { panic!() };
                    items.sort();
                    Reply::Many(line, items)
                }
                Reply::Line(line) if line == "+hash" => {
                    let Reply::Many(line, items) = ask(&[b"HGETALL", &key]) else { panic!() };
                    let mut pairs: Vec<&[Reply]> = items.chunks(2).collect();
                    pairs.sort();
                    Reply::Many(line, pairs.concat())
                }
                // It has expired meanwhile.
                Reply::Line(line) if line == "+none" => continue,
                other => panic!("{other:?}"),
            };
            let expiry = ask(&[b"PEXPIRETIME", &key]);
            all.insert((db, key), (value, expiry));
        }
    }
    client.run("SELECT 0");
    all
}

/// Compares two servers, and names the first key that differs.
pub(crate) fn assert_same(ours: &Snapshot, theirs: &Snapshot) {
    for (key, value) in theirs {
        assert!(ours.get(key) == Some(value), "{key:?}: {:?}, not {value:?}", ours.get(key));
    }
    assert_eq!(ours.len(), theirs.len(), "keys that the primary has not");
}

/// A proxy in front of a primary.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    open: Arc<Mutex<Vec<TcpStream>>>,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Proxy {
    /// Starts one. `limits`: after how many bytes of the primary each connection is cut; those behind the last
    /// one are not.
    pub(crate) fn start(to: SocketAddr, limits: &[u64]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (open, connections) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicUsize>::default());
        let mut limits: VecDeque<u64> = limits.iter().copied().collect();
        let this = Self { address, open: Arc::clone(&open), connections: Arc::clone(&connections) };
        // The thread ends with the process: it waits for connections.
        std::thread::spawn(move || {
            for downstream in listener.incoming().map_while(Result::ok) {
                connections.fetch_add(1, Ordering::Relaxed);
                let Ok(upstream) = TcpStream::connect(to) else { continue };
                let limit = limits.pop_front().unwrap_or(u64::MAX);
                let both = [&downstream, &upstream].map(|it| it.try_clone().expect("a copy"));
                open.lock().expect("a lock").extend(both);
                let pass = |mut from: TcpStream, mut to: TcpStream, limit| {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut (&mut from).take(limit), &mut to);
                        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                    })
                };
                let copies = [&downstream, &upstream].map(|it| it.try_clone().expect("a copy"));
                let [down, up] = copies;
                pass(upstream, down, limit);
                pass(downstream, up, u64::MAX);
            }
        });
        this
    }

    /// Cuts all connections.
    pub(crate) fn cut(&self) {
        for stream in self.open.lock().expect("a lock").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// A file of a primary without keys, and without a checksum.
pub(crate) const EMPTY: &[u8] = b"REDIS0011\xFF\0\0\0\0\0\0\0\0";

/// The answer to `PSYNC` for a full synchronisation.
pub(crate) fn full() -> Vec<u8> {
    format!("+FULLRESYNC {} 0\r\n", "a".repeat(40)).into_bytes()
}

/// A primary that answers the handshake, and sends `bytes` after `PSYNC`. It serves connections until it is
/// dropped.
pub(crate) struct Script {
    pub(crate) address: SocketAddr,
    is_over: Arc<Mutex<bool>>,
    serving: Option<JoinHandle<()>>,
    /// What the replicas have sent.
    pub(crate) heard: Arc<Mutex<Vec<u8>>>,
}

/// Reads a command of a replica.
fn read_command(client: &mut Client) -> Option<Vec<u8>> {
    match client.try_read()? {
        Reply::Many(_, words) => Some(
            words
                .into_iter()
                .flat_map(|word| match word {
                    Reply::Bulk(bytes) => [bytes, b" ".to_vec()].concat(),
                    other => panic!("{other:?}"),
                })
                .collect(),
        ),
        _ => Some(Vec::new()),
    }
}

impl Script {
    pub(crate) fn start(bytes: impl Fn(usize) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (is_over, heard) = (Arc::<Mutex<bool>>::default(), Arc::<Mutex<Vec<u8>>>::default());
        let (over, hears) = (Arc::clone(&is_over), Arc::clone(&heard));
        let serving = std::thread::spawn(move || {
            for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                if *over.lock().expect("a lock") {
                    return;
                }
                let mut client = Client::over(stream);
                while let Some(command) = read_command(&mut client) {
                    hears.lock().expect("a lock").extend(&command);
                    let reply = match &command[..] {
                        b"PING " => b"+PONG\r\n".to_vec(),
                        psync if psync.starts_with(b"PSYNC") => bytes(number),
                        conf if conf.starts_with(b"REPLCONF ACK") => Vec::new(),
                        _ => b"+OK\r\n".to_vec(),
                    };
                    if client.stream().write_all(&reply).is_err() {
                        break;
                    }
                }
            }
        });
        Self { address, is_over, serving: Some(serving), heard }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        *self.is_over.lock().expect("a lock") = true;
        // It looks at the mark when a connection comes. The replica's own ends with the replica.
        let _ = TcpStream::connect(self.address);
        drop(self.serving.take());
    }
}
