//! A client that shows replies as they came, and servers to talk to.

#![allow(dead_code, reason = "each test uses a part")]

use clap::Parser;
use nunatak_server::{Config, Server, Stopper};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A server of this process.
pub(crate) struct Local {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<SocketAddr>,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) dashboard: Option<SocketAddr>,
    stopper: Stopper,
    serving: Option<JoinHandle<()>>,
}

impl Local {
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_with(&[&["--port=0"], flags].concat())
    }

    /// Starts a server that may have no port but that of TLS.
    pub(crate) fn start_with(flags: &[&str]) -> Self {
        let flags = ["test"].into_iter().chain(flags.iter().copied());
        let server = Server::bind(Config::parse_from(flags)).expect("a server");
        let (tls, metrics) = (server.tls_address(), server.metrics_address());
        let dashboard = server.dashboard_address();
        let (address, stopper) = (server.address().or(tls).expect("a port"), server.stopper());
        let serving = std::thread::spawn(move || server.run().expect("the server ends well"));
        Self { address, tls, metrics, dashboard, stopper, serving: Some(serving) }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.stopper.stop();
        let served = self.serving.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            served.expect("it was started").expect("it did not panic");
        }
    }
}

/// Ends the other threads of a test, also if this one panics.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A process that is killed at the end.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a Redis in a directory, if it is installed.
pub(crate) fn run_redis(directory: &Path, flags: &[&str]) -> Option<Process> {
    let child = Command::new("redis-server")
        .args(["--save", "", "--appendonly", "no", "--dir", "."])
        .args(flags)
        .current_dir(directory)
        .stdout(Stdio::null())
        .spawn();
    if child.is_err() {
        println!("redis-server is not installed: left out");
    }
    child.ok().map(Process)
}

/// A Redis that listens at a socket of its own directory: no other program can take the address before it.
pub(crate) struct Redis {
    _process: Process,
    directory: tempfile::TempDir,
}

impl Redis {
    /// Starts one, if it is installed.
    pub(crate) fn start() -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let process = run_redis(directory.path(), &["--port", "0", "--unixsocket", "socket"])?;
        Some(Self { _process: process, directory })
    }

    pub(crate) fn client(&self) -> Client<UnixStream> {
        let socket = self.directory.path().join("socket");
        for _ in 0..3000 {
            if let Ok(stream) = UnixStream::connect(&socket) {
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                return Client { reader: BufReader::new(stream) };
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the Redis does not listen at {}", socket.display());
    }
}

/// How long a client waits for a reply.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Reads all bytes up to the end of a connection, which may be a reset.
pub(crate) fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut all = Vec::new();
    unless_ended(stream.read_to_end(&mut all));
    all
}

/// Returns what was read; `None` if the connection has ended by an error.
///
/// # Panics
/// If nothing has come for too long: then the connection has not ended.
fn unless_ended<T>(read: std::io::Result<T>) -> Option<T> {
    if let Err(error) = &read {
        let is_late = [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind());
        assert!(!is_late, "neither a reply nor the end of the connection");
    }
    read.ok()
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reply {
    /// A line with its kind.
    Line(String),
    Bulk(Vec<u8>),
    /// An array, a map or a set, with the line that begins it.
    Many(String, Vec<Reply>),
}

pub(crate) struct Client<S = TcpStream> {
    reader: BufReader<S>,
}

pub(crate) fn encode(command: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for arg in command {
        bytes.extend_from_slice(format!("${}\r\n", arg.as_ref().len()).as_bytes());
        bytes.extend_from_slice(arg.as_ref());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self { reader: BufReader::new(stream) }
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { reader: BufReader::new(stream) }
    }

    pub(crate) fn stream(&mut self) -> &mut S {
        self.reader.get_mut()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream().write_all(bytes).expect("the server reads");
    }

    /// Reads a reply; `None` at the end of the connection.
    pub(crate) fn try_read(&mut self) -> Option<Reply> {
        let mut line = String::new();
        unless_ended(self.reader.read_line(&mut line)).filter(|&len| len > 0)?;
        let line = line.trim_end().to_string();
        let len = || line[1..].parse::<i64>().expect("a length");
        Some(match line.as_bytes()[0] {
            b'$' | b'=' if len() >= 0 => {
                let mut bytes = vec![0; len() as usize + 2];
                unless_ended(self.reader.read_exact(&mut bytes))?;
                bytes.truncate(bytes.len() - 2);
                Reply::Bulk(bytes)
            }
            kind @ (b'*' | b'~' | b'%' | b'>') if len() >= 0 => {
                let count = len() * if kind == b'%' { 2 } else { 1 };
                let items = (0..count).map(|_| self.read()).collect();
                Reply::Many(line, items)
            }
            _ => Reply::Line(line),
        })
    }

    /// Reads all bytes up to the end of the connection.
    pub(crate) fn read_to_end(&mut self, all: &mut Vec<u8>) {
        self.reader.read_to_end(all).expect("the connection ends");
    }

    pub(crate) fn read(&mut self) -> Reply {
        self.try_read().expect("a reply")
    }

    /// Sends requests in one piece, and returns their replies.
    pub(crate) fn pipeline(&mut self, requests: &[Vec<impl AsRef<[u8]>>]) -> Vec<Reply> {
        self.send(&requests.iter().flat_map(|request| encode(request)).collect::<Vec<u8>>());
        requests.iter().map(|_| self.read()).collect()
    }

    /// Runs a command of words.
    pub(crate) fn run(&mut self, command: &str) -> Reply {
        let words: Vec<&str> = command.split(' ').collect();
        self.send(&encode(&words));
        self.read()
    }

    /// Runs a command whose reply is a line.
    pub(crate) fn line(&mut self, command: &str) -> String {
        match self.run(command) {
            Reply::Line(line) => line,
            Reply::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            other => panic!("{command}: {other:?}"),
        }
    }
}
