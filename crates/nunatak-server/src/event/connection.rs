//! Connections: their sockets and buffers.

use super::tls::TlsStream;
use crate::protocol::request::{Limits, Malformed, Parser, Span};
use crate::session::Session;
use mio::event::Event;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::io::{self, Read, Write};
use std::sync::atomic::Ordering::Relaxed;

/// A buffer for requests at first. Also the most bytes that are read at a time.
pub(super) const READ: usize = 64 << 10;

/// The largest buffer for replies that is kept for other connections.
const MOST_SPARE: usize = 256 << 10;

/// A connection whose replies wait is not read from beyond so many bytes.
pub(super) const MOST_WAITING: usize = 1 << 20;

/// For how many seconds a handshake may last. A client that never ends it would hold a connection.
const MOST_HANDSHAKE: u64 = 10;

/// A socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Self::Tcp(stream) => registry.register(stream, token, interest),
            Self::Unix(stream) => registry.register(stream, token, interest),
            Self::Tls(stream) => registry.register(&mut stream.socket, token, interest),
        }
    }

    pub(crate) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => registry.deregister(stream),
            Self::Unix(stream) => registry.deregister(stream),
            Self::Tls(stream) => registry.deregister(&mut stream.socket),
        }
    }

    /// Returns the client's address. That of a Unix socket is the server's, with the port 0.
    pub(crate) fn address(&self, socket: &str) -> String {
        let peer = match self {
            Self::Tcp(stream) => stream.peer_addr(),
            Self::Tls(stream) => stream.socket.peer_addr(),
            Self::Unix(_) => return format!("{socket}:0"),
        };
        peer.map_or_else(|_| "?:0".into(), |it| it.to_string())
    }

    /// Returns the server's address.
    pub(crate) fn local_address(&self, socket: &str) -> String {
        let local = match self {
            Self::Tcp(stream) => stream.local_addr(),
            Self::Tls(stream) => stream.socket.local_addr(),
            Self::Unix(_) => return format!("{socket}:0"),
        };
        local.map_or_else(|_| "?:0".into(), |it| it.to_string())
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    /// Whether it holds bytes that the socket did not take.
    fn is_holding(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.is_holding())
    }

    /// Whether a read would tell something though the socket is empty.
    fn has_more(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.has_more())
    }

    /// Writes the bytes that it holds.
    fn push(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(stream) => stream.push(),
            Self::Tcp(_) | Self::Unix(_) => Ok(()),
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    pub(super) session: Session,
    /// Bytes that were read; those from `filled` on mean nothing. Without memory if nothing waits.
    pub(super) input: Vec<u8>,
    filled: usize,
    parser: Parser,
    pub(super) out: Vec<u8>,
    /// How many bytes of `out` were written.
    written: usize,
    /// Whether the socket may have bytes.
    pub(super) may_read: bool,
    /// Whether the client has sent its last byte, which may be unread.
    is_ending: bool,
    /// Whether the socket may take bytes.
    may_write: bool,
    /// Whether the input may have whole requests.
    pub(super) may_have_requests: bool,
    /// Whether the connection is in its thread's list already.
    pub(super) is_listed: bool,
    /// Whether nothing more is read: the client has ended, or has sent what is no request.
    pub(super) has_ended: bool,
    /// Whether the connection is of no use any more.
    pub(super) is_broken: bool,
    bytes_read: u64,
    bytes_written: u64,
}

impl Connection {
    pub(super) fn new(stream: Stream, session: Session) -> Self {
        Self {
            stream,
            session,
            input: Vec::new(),
            filled: 0,
            parser: Parser::default(),
            out: Vec::new(),
            written: 0,
            may_read: true,
            is_ending: false,
            may_write: true,
            may_have_requests: false,
            is_listed: false,
            has_ended: false,
            is_broken: false,
            bytes_read: 0,
            bytes_written: 0,
        }
    }

    pub(super) fn note_event(&mut self, event: &Event) {
        self.may_read |= event.is_readable();
        self.is_ending |= event.is_read_closed();
        self.may_write |= event.is_writable();
    }

    /// How many bytes of replies wait for the client.
    pub(super) fn waiting(&self) -> usize {
        self.out.len() - self.written
    }

    /// Tells other threads how many bytes wait.
    pub(super) fn note_bytes(&self) {
        let client = &*self.session.client;
        client.waiting.store(self.waiting(), Relaxed);
        client.unread.store(self.filled, Relaxed);
    }

    /// Whether requests are read and run.
    pub(super) fn takes_requests(&self) -> bool {
        !self.is_broken && !self.session.is_closing && self.waiting() < MOST_WAITING
    }

    /// Whether bytes wait: a part of a request, or requests.
    pub(super) fn has_input(&self) -> bool {
        self.filled > 0
    }

    /// Whether requests may wait that were not run.
    pub(super) fn has_unparsed(&self) -> bool {
        self.may_have_requests && self.filled > 0
    }

    /// Reads what the socket has, up to a limit. Takes a buffer from `spare` if it has none.
    pub(super) fn fill(&mut self, spare: &mut Vec<Vec<u8>>, most: usize) {
        if !self.may_read || self.has_ended || self.is_broken {
            return;
        }
        if self.input.is_empty() {
            self.input = spare.pop().unwrap_or_else(|| vec![0; READ]);
        }
        if self.filled == self.input.len() {
            if self.filled >= most {
                self.is_broken = true;
                return;
            }
            self.input.resize(2 * self.filled, 0);
        }
        match self.stream.read(&mut self.input[self.filled..]) {
            Ok(0) => self.has_ended = true,
            Ok(read) => {
                self.filled += read;
                self.bytes_read += read as u64;
                // A socket that had less than was asked for is empty; it tells of more. But it has told
                // already if the end of the bytes came together with them.
                let is_full = self.filled == self.input.len();
                self.may_read = is_full || self.is_ending || self.stream.has_more();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.may_read = false;
                self.release(spare);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.is_broken = true,
        }
    }

    /// Finds the next request; its arguments are appended to `found`.
    pub(super) fn parse(
        &mut self,
        max_bulk: usize,
        found: &mut Vec<Span>,
    ) -> Result<bool, Malformed> {
        let is_authenticated = !self.session.needs_password();
        let limits = Limits { bulk: max_bulk, is_authenticated };
        self.parser.parse(&mut self.input[..self.filled], limits, found)
    }

    pub(super) fn position(&self) -> usize {
        self.parser.position()
    }

    /// Takes away the requests in front of an offset; `is_last`: all that were parsed were run.
    pub(super) fn consume(&mut self, end: usize, is_last: bool, spare: &mut Vec<Vec<u8>>) {
        if is_last {
            self.parser.shift(end);
        } else {
            self.parser.restart(0);
        }
        self.input.copy_within(end..self.filled, 0);
        self.filled -= end;
        self.release(spare);
    }

    /// Gives the buffer away if it is empty.
    fn release(&mut self, spare: &mut Vec<Vec<u8>>) {
        if self.filled == 0 {
            let buffer = std::mem::take(&mut self.input);
            if buffer.len() == READ && spare.len() < 64 {
                spare.push(buffer);
            }
        }
    }

    /// Forgets all bytes that were read.
    pub(super) fn discard_input(&mut self) {
        self.input = Vec::new();
        self.filled = 0;
        self.parser.restart(0);
        self.has_ended = true;
    }

    /// Writes what the socket takes.
    pub(super) fn flush(&mut self) {
        while self.may_write && self.waiting() > 0 && !self.is_broken {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => self.is_broken = true,
                Ok(written) => {
                    self.written += written;
                    self.bytes_written += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.may_write = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.is_broken = true,
            }
        }
        if self.may_write && self.stream.is_holding() && !self.is_broken {
            match self.stream.push() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.may_write = false,
                Err(_) => self.is_broken = true,
            }
        }
        if self.waiting() == 0 {
            self.out.clear();
            self.written = 0;
        }
    }

    /// Takes a large buffer for replies, if there is one and the connection has none. A new one would grow step by
    /// step, in memory that the system has to clear.
    pub(super) fn take_output(&mut self, spare: &mut Vec<Vec<u8>>) {
        if self.out.capacity() == 0
            && let Some(buffer) = spare.pop()
        {
            self.out = buffer;
        }
    }

    /// Gives a large buffer away if nothing waits in it, so that idle connections take little memory.
    pub(super) fn give_output(&mut self, spare: &mut Vec<Vec<u8>>) {
        if self.out.is_empty() && self.out.capacity() > READ {
            let buffer = std::mem::take(&mut self.out);
            if buffer.capacity() <= MOST_SPARE && spare.len() < 64 {
                spare.push(buffer);
            }
        }
    }

    /// Moves messages to the output and to the socket. A connection for which too many bytes wait is of no
    /// use any more.
    pub(super) fn deliver(&mut self) {
        if self.is_broken || self.has_ended || self.session.is_closing {
            return;
        }
        let Some(subscriber) = &mut self.session.subscriber else { return };
        if subscriber.deliver((&mut self.out, self.written), self.session.is_resp3, READ) {
            self.flush();
        } else {
            self.is_broken = true;
        }
    }

    /// Tells the mailbox how many bytes wait. Returns whether messages can be moved at once.
    pub(super) fn note_waiting(&self) -> bool {
        let Some(subscriber) = &self.session.subscriber else { return false };
        let waiting = self.waiting();
        subscriber.note_waiting(waiting) && waiting == 0
    }

    /// Returns how many bytes were read and written since the last call.
    pub(super) fn take_counts(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.bytes_read), std::mem::take(&mut self.bytes_written))
    }

    /// Whether the connection is done.
    pub(super) fn is_done(&self) -> bool {
        let is_silent = self.session.is_closing || self.has_ended;
        self.is_broken || is_silent && self.waiting() == 0 && !self.stream.is_holding()
    }

    /// Returns for how many seconds nobody has used the connection.
    pub(super) fn idle(&self, seconds: u64) -> u64 {
        seconds.saturating_sub(self.session.client.last_used.load(Relaxed))
    }

    /// Whether a handshake takes too long.
    pub(super) fn is_late(&self, seconds: u64) -> bool {
        let is_handshaking = matches!(&self.stream, Stream::Tls(stream) if stream.is_handshaking());
        is_handshaking && seconds.saturating_sub(self.session.created) > MOST_HANDSHAKE
    }

    pub(super) fn close(&mut self, registry: &Registry) {
        if let Stream::Tls(stream) = &mut self.stream {
            stream.close();
        }
        // It is closed when it is dropped, registered or not.
        let _ = self.stream.deregister(registry);
    }
}
