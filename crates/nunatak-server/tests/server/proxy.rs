//! Servers behind a proxy that hashes keys over them: twemproxy.

use crate::common::{Client, Process, Reply, encode};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const KEYS: usize = 2000;

/// Returns a port that nobody listens at.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

fn wait_for(port: u16) -> SocketAddr {
    let (address, begin) = (SocketAddr::from(([127, 0, 0, 1], port)), Instant::now());
    while TcpStream::connect(address).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "nobody listens at {address}");
        std::thread::sleep(Duration::from_millis(20));
    }
    address
}

fn serve(directory: &Path, port: u16) -> Process {
    let server = Command::new(env!("CARGO_BIN_EXE_nunatak-server"))
        .args(["--threads=1", &format!("--port={port}")])
        .arg("--file")
        .arg(directory.join(format!("{port}.map")))
        .stderr(Stdio::null())
        .spawn();
    let server = Process(server.expect("the server starts"));
    wait_for(port);
    server
}

/// Runs a command, again if the proxy has lost a server meanwhile.
fn run(client: &mut Client, proxy: SocketAddr, command: &str) -> Reply {
    for _ in 0..200 {
        client.send(&encode(&command.split(' ').collect::<Vec<_>>()));
        match client.try_read() {
            Some(Reply::Line(line)) if line.starts_with('-') => {}
            Some(reply) => return reply,
            None => *client = Client::connect(proxy),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{command}: no reply but errors");
}

/// Four servers with files behind twemproxy. One is killed: its quarter of the keys is missed, as in any
/// consistent hashing, and goes to the others. It returns, and has all it had.
#[test]
fn servers_behind_twemproxy_are_killed_and_return() {
    let directory = tempfile::tempdir().expect("a directory");
    let ports: Vec<u16> = (0..4).map(|_| free_port()).collect();
    let (port, stats) = (free_port(), free_port());
    let servers: String =
        ports.iter().map(|port| format!("    - 127.0.0.1:{port}:1 server{port}\n")).collect();
    let config = format!(
        "pool:\n  listen: 127.0.0.1:{port}\n  hash: murmur\n  distribution: ketama\n  redis: true\n  \
         auto_eject_hosts: true\n  server_failure_limit: 1\n  server_retry_timeout: 1000\n  timeout: 2000\n  \
         servers:\n{servers}"
    );
    let path = directory.path().join("proxy.yml");
    std::fs::write(&path, config).expect("a configuration");
    let proxy = Command::new("nutcracker")
        .arg("-c")
        .arg(&path)
        .args(["-s", &stats.to_string(), "-a", "127.0.0.1", "-o"])
        .arg(directory.path().join("proxy.log"))
        .stderr(Stdio::null())
        .spawn();
    let Ok(proxy) = proxy else {
        println!("nutcracker (twemproxy) is not installed: left out");
        return;
    };
    let _proxy = Process(proxy);
    let mut all: Vec<Process> = ports.iter().map(|&port| serve(directory.path(), port)).collect();
    let address = wait_for(port);
    let mut client = Client::connect(address);
    for key in 0..KEYS {
        let reply = run(&mut client, address, &format!("SET key:{key} {key}"));
        assert_eq!(reply, Reply::Line("+OK".into()));
    }
    let size = |port: u16| {
        let reply = Client::connect(SocketAddr::from(([127, 0, 0, 1], port))).line("DBSIZE");
        reply[1..].parse::<usize>().expect("a number")
    };
    let sizes: Vec<usize> = ports.iter().map(|&port| size(port)).collect();
    assert_eq!(sizes.iter().sum::<usize>(), KEYS);
    assert!(sizes.iter().all(|&size| size > KEYS / 10), "{sizes:?}");
    let missed = |client: &mut Client| {
        let mut missed = Vec::new();
        for key in 0..KEYS {
            match run(client, address, &format!("GET key:{key}")) {
                Reply::Bulk(value) => assert_eq!(value, key.to_string().into_bytes()),
                _ => missed.push(key),
            }
        }
        missed
    };
    assert_eq!(missed(&mut client), Vec::<usize>::new());
    drop(all.remove(0));
    let gone = missed(&mut client);
    assert_eq!(gone.len(), sizes[0], "the keys of the server that is gone, and no others");
    // What is stored meanwhile is at the others.
    assert_eq!(
        run(&mut client, address, &format!("SET key:{} {}", gone[0], gone[0])),
        Reply::Line("+OK".into())
    );
    all.push(serve(directory.path(), ports[0]));
    let begin = Instant::now();
    while !missed(&mut client).is_empty() {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "the proxy does not take the server back"
        );
    }
    assert_eq!(size(ports[0]), sizes[0]);
}
