//! A small HTTP server for the metrics and the dashboard, in a thread of its own.
//!
//! It answers `GET` and `HEAD`, once for each connection. Whatever clients send, it keeps few connections,
//! for a short time, with few bytes of each. Clients name a user of the server and its password, unless they are
//! on this machine, or have shown a certificate, and the user `default` needs none.

use crate::acl::DEFAULT;
use crate::commands::table;
use crate::dashboard::{Dashboard, PAGE};
use crate::event::tls::TlsStream;
use crate::metrics;
use crate::protocol::request::{Args, Span};
use crate::shared::Shared;
use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use slab::Slab;
use std::borrow::Cow;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

const WAKER: Token = Token(usize::MAX);
const LISTENER: Token = Token(usize::MAX - 1);

/// How many connections there may be. One more takes the place of the oldest.
const MOST_CONNECTIONS: usize = 32;
/// How many bytes a request may have.
const MOST_BYTES: usize = 8 << 10;
/// How many headers a request may have.
const MOST_HEADERS: usize = 64;
/// How often the socket is read for bytes that nobody needs.
const MOST_READS: usize = 16;
/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A socket, perhaps with a session of TLS.
#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    fn socket(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &mut stream.socket,
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Self::Tls(stream) = self else { return self.socket().read(buffer) };
        let read = stream.read(buffer);
        // A handshake has to be answered. What the socket does not take now waits until it does.
        match stream.push() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => read,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    /// Writes what was taken and waits.
    fn push(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(stream) => stream.push(),
        }
    }

    /// Tells the client that nothing follows.
    fn close(&mut self) {
        if let Self::Tls(stream) = self {
            stream.close();
        }
    }
}

#[derive(Debug)]
struct Connection {
    stream: Stream,
    input: Vec<u8>,
    answer: Vec<u8>,
    written: usize,
    deadline: Instant,
}

/// What is served.
#[derive(Debug, Default)]
pub(crate) struct Content {
    metrics: Option<Registry>,
    dashboard: Option<Dashboard>,
}

/// An HTTP server that listens.
#[derive(Debug)]
pub(crate) struct Endpoint {
    poll: Poll,
    listener: TcpListener,
    address: SocketAddr,
    connections: Slab<Connection>,
    shared: Arc<Shared>,
    content: Content,
    access: Access,
}

/// Who may read.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// Whether every client has shown a certificate.
    pub(crate) knows_clients: bool,
}

/// Whether a client may read; if not, the status that says so.
fn admit(
    shared: &Shared,
    is_known: bool,
    headers: &[httparse::Header<'_>],
) -> Result<(), &'static str> {
    const UNKNOWN: &str = "401 Unauthorized";
    if is_known && shared.acl.default_user().is_open() {
        return Ok(());
    }
    let header = headers.iter().find(|it| it.name.eq_ignore_ascii_case("authorization"));
    let header = header.and_then(|it| std::str::from_utf8(it.value).ok()).ok_or(UNKNOWN)?;
    let (scheme, text) = header.split_once(' ').ok_or(UNKNOWN)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(UNKNOWN);
    }
    let pair = STANDARD.decode(text.trim()).map_err(|_| UNKNOWN)?;
    let colon = pair.iter().position(|&byte| byte == b':').ok_or(UNKNOWN)?;
    let (name, password) = (&pair[..colon], &pair[colon + 1..]);
    let name = if name.is_empty() { DEFAULT } else { name };
    let user = shared.acl.find(name).filter(|user| user.accepts(password)).ok_or(UNKNOWN)?;
    // What is shown is what `INFO` tells.
    let info = table::find(b"info").ok_or(UNKNOWN)?;
    let spans = [Span { start: 0, end: 4 }];
    user.check(info, Args::new(b"info", &spans)).map_err(|_| "403 Forbidden")
}

/// What an answer has beside its status.
struct Body<'b> {
    kind: &'b str,
    /// Whole lines.
    headers: &'b str,
    text: Cow<'b, str>,
}

/// Headers of the page: it loads nothing but the figures, and is no part of another page.
const PAGE_HEADERS: &str = "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; \
    style-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'; \
    base-uri 'none'; form-action 'none'\r\nReferrer-Policy: no-referrer\r\n";

impl Content {
    pub(crate) fn with_metrics(mut self, shared: &Arc<Shared>) -> Self {
        self.metrics = Some(metrics::registry(Arc::clone(shared)));
        self
    }

    pub(crate) fn with_dashboard(mut self, shared: &Arc<Shared>) -> Self {
        self.dashboard = Some(Dashboard::new(Arc::clone(shared)));
        self
    }

    /// Returns what there is at a path; `None` if there is nothing.
    fn find(&self, path: &str, query: &str) -> Option<Result<Body<'_>, Box<dyn Error>>> {
        let body = |kind, headers, text| Body { kind, headers, text };
        match (path, &self.metrics, &self.dashboard) {
            ("/metrics", Some(registry), _) => Some(
                metrics::write(registry)
                    .map(|text| body(metrics::CONTENT_TYPE, "", text.into()))
                    .map_err(Into::into),
            ),
            ("/", _, Some(_)) => {
                Some(Ok(body("text/html; charset=utf-8", PAGE_HEADERS, PAGE.into())))
            }
            ("/dashboard.json", _, Some(dashboard)) => Some(
                dashboard
                    .write(query)
                    .map(|text| body("application/json", "", text.into()))
                    .map_err(Into::into),
            ),
            _ => None,
        }
    }
}

/// Encodes an answer.
fn answer(status: &str, body: &Body<'_>, with_text: bool) -> Vec<u8> {
    let Body { kind, headers, text } = body;
    let len = text.len();
    let shown = if with_text { text } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n{headers}\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{shown}"
    )
    .into_bytes()
}

fn refuse(status: &str) -> Vec<u8> {
    let headers = match &status[..3] {
        "405" => "Allow: GET, HEAD\r\n",
        "401" => "WWW-Authenticate: Basic realm=\"nunatak\", charset=\"UTF-8\"\r\n",
        _ => "",
    };
    let text = format!("{status}\n").into();
    answer(status, &Body { kind: "text/plain; charset=utf-8", headers, text }, true)
}

/// Answers a request; `None` if it is not complete.
fn respond(
    input: &[u8],
    (content, shared, is_known): (&Content, &Shared, bool),
) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(input) {
        Ok(httparse::Status::Partial) if input.len() < MOST_BYTES => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Some(refuse("431 Request Header Fields Too Large"));
        }
        Err(_) => return Some(refuse("400 Bad Request")),
        Ok(httparse::Status::Complete(_)) => {}
    }
    if let Err(status) = admit(shared, is_known, request.headers) {
        return Some(refuse(status));
    }
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Some(match (content.find(path, query), request.method) {
        (None, _) => refuse("404 Not Found"),
        (Some(Ok(body)), Some(method @ ("GET" | "HEAD"))) => {
            answer("200 OK", &body, method == "GET")
        }
        (Some(Err(_)), Some("GET" | "HEAD")) => refuse("500 Internal Server Error"),
        (Some(_), _) => refuse("405 Method Not Allowed"),
    })
}

impl Connection {
    /// Reads and writes what the socket has and takes. Returns whether there is more to come.
    fn step(&mut self, served: (&Content, &Shared, bool)) -> io::Result<bool> {
        while self.answer.is_empty() {
            let mut buffer = [0; 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(read) => self.input.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            self.answer = respond(&self.input, served).unwrap_or_default();
        }
        while self.written < self.answer.len() {
            match self.stream.write(&self.answer[self.written..]) {
                Ok(0) => return Ok(false),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        match self.stream.push() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            pushed => pushed?,
        }
        self.stream.close();
        // Bytes behind the request, if unread, would reset the connection and lose the answer.
        let socket = self.stream.socket();
        socket.shutdown(Shutdown::Write)?;
        let mut rest = [0; MOST_BYTES];
        for _ in 0..MOST_READS {
            if !socket.read(&mut rest).is_ok_and(|read| read == rest.len()) {
                break;
            }
        }
        Ok(false)
    }
}

impl Endpoint {
    pub(crate) fn bind(
        address: SocketAddr,
        shared: Arc<Shared>,
        (content, access): (Content, Access),
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(address)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        shared.wakers.lock().push(Arc::new(Waker::new(poll.registry(), WAKER)?));
        let address = listener.local_addr()?;
        Ok(Self { poll, listener, address, connections: Slab::new(), shared, content, access })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until the server is stopped.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(64);
        while !self.shared.is_stopping() {
            // The accepted ones may be waiting for nothing but their deadlines.
            let deadlines = (!self.connections.is_empty()).then_some(PATIENCE / 10);
            let sample = self.content.dashboard.as_mut().map(Dashboard::sample);
            let timeout = deadlines.into_iter().chain(sample).min();
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                match event.token() {
                    WAKER => {}
                    LISTENER => self.accept(),
                    Token(index) => self.step(index),
                }
            }
            let now = Instant::now();
            self.connections.retain(|_, connection| connection.deadline > now);
        }
        Ok(())
    }

    fn step(&mut self, index: usize) {
        let is_known = self.address.ip().is_loopback() || self.access.knows_clients;
        let served = (&self.content, &*self.shared, is_known);
        if let Some(connection) = self.connections.get_mut(index)
            && !connection.step(served).unwrap_or(false)
        {
            // What was wrong, if the client has not been told yet.
            connection.stream.close();
            // Dropping the stream deregisters and closes it.
            self.connections.remove(index);
        }
    }

    fn accept(&mut self) {
        // An error, such as too many open files, ends the round; the next connection begins another.
        while !self.shared.is_stopping()
            && let Ok((mut stream, _)) = self.listener.accept()
        {
            if self.connections.len() >= MOST_CONNECTIONS {
                let oldest = self.connections.iter().min_by_key(|(_, it)| it.deadline);
                if let Some(index) = oldest.map(|(index, _)| index) {
                    self.connections.remove(index);
                }
            }
            let entry = self.connections.vacant_entry();
            let interest = Interest::READABLE | Interest::WRITABLE;
            if self.poll.registry().register(&mut stream, Token(entry.key()), interest).is_err() {
                continue;
            }
            let stream = match &self.access.tls {
                None => Stream::Plain(stream),
                Some(config) => match TlsStream::new(stream, Arc::clone(config)) {
                    Ok(stream) => Stream::Tls(Box::new(stream)),
                    Err(_) => continue,
                },
            };
            let deadline = Instant::now() + PATIENCE;
            let (input, answer) = (Vec::new(), Vec::new());
            let index = entry.key();
            entry.insert(Connection { stream, input, answer, written: 0, deadline });
            self.step(index);
        }
    }
}
