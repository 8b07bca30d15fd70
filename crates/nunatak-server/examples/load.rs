//! Loads a server that speaks Redis's or memcached's protocol: tells how many requests a second it answers, and how
//! long they wait for it. One thread; each connection sends its next requests when it has the replies to the last.
//!
//! ```sh
//! cargo run --release -p nunatak-server --example load -- --command set --each-key-once --parts 16
//! cargo run --release -p nunatak-server --example load -- --protocol memcached --port 11211 --pipeline 64
//! ```

use clap::{Parser, ValueEnum};
use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::error::Error;
use std::io::{ErrorKind, Read as _, Write as _};
use std::time::{Duration, Instant};

#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long, default_value = "127.0.0.1")]
    host: std::net::IpAddr,
    #[arg(long, default_value_t = 6379)]
    port: u16,
    #[arg(long, value_enum, default_value_t = Protocol::Redis)]
    protocol: Protocol,
    #[arg(long, value_enum, default_value_t = Command::Get)]
    command: Command,
    /// How many keys there are: `key:` and twelve digits.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    keys: u64,
    #[arg(long, default_value_t = 32)]
    value_bytes: usize,
    /// How many requests; with --each-key-once as many as there are keys.
    #[arg(long, default_value_t = 1_000_000)]
    requests: u64,
    /// Each request has another key, so that a server without keys grows to all of them.
    #[arg(long)]
    each_key_once: bool,
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pipeline: u64,
    /// How many keys a `get` asks for: `MGET` for Redis, one `get` for memcached.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    keys_a_get: u64,
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    connections: u64,
    /// In how many parts the figures are told.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    parts: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Protocol {
    Redis,
    Memcached,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Command {
    Get,
    Set,
}

/// Which key each request has.
struct Keys {
    number: u64,
    all: u64,
    step: u64,
    each_once: bool,
    random: u64,
}

impl Keys {
    fn new(all: u64, each_once: bool) -> Self {
        fn greatest_divisor(one: u64, other: u64) -> u64 {
            if other == 0 { one } else { greatest_divisor(other, one % other) }
        }
        // Steps over a part of the keys that has no divisor in common with their number come to each key.
        let about = (all as f64 * 0.618) as u64;
        let step = (about.max(1)..).find(|&step| greatest_divisor(all, step) == 1).unwrap_or(1);
        Self { number: 0, all, step, each_once, random: 0x9E37_79B9_7F4A_7C15 }
    }

    fn next(&mut self) -> u64 {
        if self.each_once {
            self.number += 1;
            return (u128::from(self.number) * u128::from(self.step) % u128::from(self.all)) as u64;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((u128::from(self.random) * u128::from(self.all)) >> 64) as u64
    }
}

/// Appends `key:000000000042`.
fn append_key(to: &mut Vec<u8>, key: u64) {
    to.extend_from_slice(b"key:000000000000");
    let (mut at, mut rest) = (to.len(), key);
    while rest > 0 {
        at -= 1;
        to[at] += (rest % 10) as u8;
        rest /= 10;
    }
}

impl Arguments {
    fn append_request(&self, to: &mut Vec<u8>, keys: &mut Keys) {
        match (self.protocol, self.command) {
            (Protocol::Redis, Command::Get) if self.keys_a_get == 1 => {
                to.extend_from_slice(b"*2\r\n$3\r\nGET\r\n$16\r\n");
                append_key(to, keys.next());
                to.extend_from_slice(b"\r\n");
            }
            (Protocol::Redis, Command::Get) => {
                to.extend_from_slice(
                    format!("*{}\r\n$4\r\nMGET\r\n", self.keys_a_get + 1).as_bytes(),
                );
                for _ in 0..self.keys_a_get {
                    to.extend_from_slice(b"$16\r\n");
                    append_key(to, keys.next());
                    to.extend_from_slice(b"\r\n");
                }
            }
            (Protocol::Redis, Command::Set) => {
                to.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$16\r\n");
                append_key(to, keys.next());
                to.extend_from_slice(format!("\r\n${}\r\n", self.value_bytes).as_bytes());
                to.resize(to.len() + self.value_bytes, b'v');
                to.extend_from_slice(b"\r\n");
            }
            (Protocol::Memcached, Command::Get) => {
                to.extend_from_slice(b"get");
                for _ in 0..self.keys_a_get {
                    to.push(b' ');
                    append_key(to, keys.next());
                }
                to.extend_from_slice(b"\r\n");
            }
            (Protocol::Memcached, Command::Set) => {
                to.extend_from_slice(b"set ");
                append_key(to, keys.next());
                to.extend_from_slice(format!(" 0 0 {}\r\n", self.value_bytes).as_bytes());
                to.resize(to.len() + self.value_bytes, b'v');
                to.extend_from_slice(b"\r\n");
            }
        }
    }
}

/// A reply: its bytes, and how many values it has.
struct Reply {
    bytes: usize,
    values: u64,
}

/// Returns the line at the front, without its end.
fn line(of: &[u8]) -> Option<&[u8]> {
    memchr::memchr(b'\n', of).map(|end| &of[..end.saturating_sub(1)])
}

fn number(text: &[u8]) -> Result<i64, String> {
    let text = String::from_utf8_lossy(text);
    text.parse().map_err(|_| format!("{text} is no number"))
}

/// Returns the reply at the front, if it is there as a whole.
fn reply_of_redis(from: &[u8]) -> Result<Option<Reply>, String> {
    let Some(first) = line(from) else { return Ok(None) };
    let mut reply = Reply { bytes: first.len() + 2, values: 0 };
    match first.first() {
        Some(b'+') => {}
        Some(b'$') => {
            if let Ok(bytes) = usize::try_from(number(&first[1..])?) {
                reply = Reply { bytes: reply.bytes + bytes + 2, values: 1 };
            }
        }
        Some(b'*') => {
            for _ in 0..number(&first[1..])? {
                let rest = from.get(reply.bytes..).unwrap_or_default();
                let Some(part) = reply_of_redis(rest)? else { return Ok(None) };
                reply =
                    Reply { bytes: reply.bytes + part.bytes, values: reply.values + part.values };
            }
        }
        _ => return Err(String::from_utf8_lossy(first).into_owned()),
    }
    Ok((reply.bytes <= from.len()).then_some(reply))
}

/// Returns the reply at the front, if it is there as a whole.
fn reply_of_memcached(from: &[u8]) -> Result<Option<Reply>, String> {
    let mut reply = Reply { bytes: 0, values: 0 };
    loop {
        let Some(next) = from.get(reply.bytes..).and_then(line) else { return Ok(None) };
        reply.bytes += next.len() + 2;
        match next {
            b"STORED" | b"END" => return Ok(Some(reply)),
            _ if next.starts_with(b"VALUE ") => {
                let bytes = next.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
                reply.bytes += number(bytes)? as usize + 2;
                reply.values += 1;
            }
            _ => return Err(String::from_utf8_lossy(next).into_owned()),
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// What is yet to send, from `sent`.
    requests: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    waiting: u64,
    since: Instant,
}

impl Connection {
    /// Sends as much as there is room for.
    fn send(&mut self) -> std::io::Result<()> {
        while self.sent < self.requests.len() {
            match self.stream.write(&self.requests[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What is told of a part.
struct Figures {
    waits: Histogram<u64>,
    begin: Instant,
    requests: u64,
    values: u64,
}

impl Figures {
    fn new() -> Result<Self, Box<dyn Error>> {
        Ok(Self { waits: Histogram::new(3)?, begin: Instant::now(), requests: 0, values: 0 })
    }

    fn print(&self, name: &str) {
        let of = |quantile| self.waits.value_at_quantile(quantile) as f64 / 1e6;
        println!(
            "{name:>12}: {:>9.0} requests/s, {} values; milliseconds: p50 {:.3}, p99 {:.3}, p99.9 {:.3}, most {:.3}",
            self.requests as f64 / self.begin.elapsed().as_secs_f64(),
            self.values,
            of(0.5),
            of(0.99),
            of(0.999),
            self.waits.max() as f64 / 1e6
        );
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let total = if arguments.each_key_once { arguments.keys } else { arguments.requests };
    let reply_at = match arguments.protocol {
        Protocol::Redis => reply_of_redis,
        Protocol::Memcached => reply_of_memcached,
    };
    let mut keys = Keys::new(arguments.keys, arguments.each_key_once);
    let mut poll = Poll::new()?;
    let mut connections = Vec::new();
    for at in 0..arguments.connections as usize {
        let stream = std::net::TcpStream::connect((arguments.host, arguments.port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(
            &mut stream,
            Token(at),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        connections.push(Connection {
            stream,
            requests: Vec::new(),
            sent: 0,
            received: Vec::new(),
            waiting: 0,
            since: Instant::now(),
        });
    }
    let (mut asked, mut answered) = (0, 0);
    let (mut of_all, mut of_part, mut parts) = (Figures::new()?, Figures::new()?, 0);
    let mut events = Events::with_capacity(connections.len());
    let mut bytes = vec![0; 1 << 20];
    while answered < total {
        poll.poll(&mut events, Some(Duration::from_secs(60)))?;
        if events.is_empty() {
            return Err("no reply for a minute".into());
        }
        for event in &events {
            let connection = &mut connections[event.token().0];
            loop {
                match connection.stream.read(&mut bytes) {
                    Ok(0) => return Err("the server has closed a connection".into()),
                    Ok(count) => connection.received.extend_from_slice(&bytes[..count]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
            let (mut taken, before) = (0, connection.waiting);
            while connection.waiting > 0
                && let Some(reply) = reply_at(&connection.received[taken..])?
            {
                taken += reply.bytes;
                connection.waiting -= 1;
                for figures in [&mut of_all, &mut of_part] {
                    figures.values += reply.values;
                }
            }
            connection.received.drain(..taken);
            let replies = before - connection.waiting;
            if replies > 0 {
                // Replies that came together have waited equally long.
                let wait = connection.since.elapsed().as_nanos() as u64;
                for figures in [&mut of_all, &mut of_part] {
                    figures.waits.record_n(wait, replies)?;
                    figures.requests += replies;
                }
                answered += replies;
            }
            if connection.waiting == 0 && connection.sent == connection.requests.len() {
                connection.requests.clear();
                connection.sent = 0;
                connection.waiting = arguments.pipeline.min(total - asked);
                asked += connection.waiting;
                for _ in 0..connection.waiting {
                    arguments.append_request(&mut connection.requests, &mut keys);
                }
                connection.since = Instant::now();
            }
            connection.send()?;
        }
        if arguments.parts > 1 && answered >= total * (parts + 1) / arguments.parts {
            parts += 1;
            of_part.print(&answered.to_string());
            of_part = Figures::new()?;
        }
    }
    of_all.print("all");
    Ok(())
}
