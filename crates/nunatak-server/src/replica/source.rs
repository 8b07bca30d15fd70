//! The connection to a primary: a socket with a buffer, which ends when it is not needed any more.

use super::Target;
use crate::protocol::socket::Socket;
use crate::shared::Shared;
use rustls::ClientConfig;
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a read waits before it looks whether the link is still needed.
const LOOK: Duration = Duration::from_millis(100);
/// How long a connection, and its handshake of TLS, may take.
const MOST_CONNECT: Duration = Duration::from_secs(5);
/// How often a primary hears that the replica is alive.
pub(super) const BEAT: Duration = Duration::from_secs(1);
/// The size of the buffer.
const BUFFER: usize = 256 << 10;

/// A connection to a primary. As a [`BufRead`] it waits for bytes, at most `repl-timeout`; it fails when the
/// server stops or follows another primary.
#[derive(Debug)]
pub(super) struct Source<'s> {
    shared: &'s Shared,
    generation: u64,
    socket: Socket,
    buffer: Box<[u8]>,
    /// The bytes of the buffer that were not used.
    at: usize,
    end: usize,
    /// How many bytes were used.
    used: u64,
    last_data: Instant,
    last_sent: Instant,
    /// Whether the primary gets a newline each second while bytes are awaited or read.
    pub(super) beats: bool,
}

impl<'s> Source<'s> {
    /// Connects to a primary, by TLS if there is a configuration for it.
    pub(super) fn open(
        shared: &'s Shared,
        target: &Target,
        generation: u64,
        tls: Option<&Arc<ClientConfig>>,
    ) -> io::Result<Self> {
        let timeout = shared.settings.repl_timeout();
        let socket = Socket::connect((&target.host, target.port), timeout.min(MOST_CONNECT), tls)?;
        socket.set_timeouts(LOOK, timeout)?;
        let now = Instant::now();
        Ok(Self {
            shared,
            generation,
            socket,
            buffer: vec![0; BUFFER].into(),
            at: 0,
            end: 0,
            used: 0,
            last_data: now,
            last_sent: now,
            beats: false,
        })
    }

    /// Whether the link is not needed any more.
    pub(super) fn is_over(&self) -> bool {
        self.shared.is_stopping() || !self.shared.replica.is_current(self.generation)
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.last_sent = Instant::now();
        self.socket.write_all(bytes)?;
        self.socket.flush()
    }

    /// Returns how long nothing was sent.
    pub(super) fn silence(&self) -> Duration {
        self.last_sent.elapsed()
    }

    /// Returns how many bytes were used so far.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Reads what there is, or waits for it a moment; 0 is the end.
    fn read_once(&mut self, into: Option<&mut [u8]>) -> io::Result<Option<usize>> {
        if self.is_over() {
            return Err(io::Error::other("the link is not needed any more"));
        }
        if self.beats && self.silence() >= BEAT {
            self.send(b"\n")?;
        }
        match self.socket.read(into.unwrap_or(&mut self.buffer)) {
            Ok(read) => {
                self.last_data = Instant::now();
                self.shared.replica.note_io();
                Ok(Some(read))
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {
                    match self.last_data.elapsed() > self.shared.settings.repl_timeout() {
                        true => Err(ErrorKind::TimedOut.into()),
                        false => Ok(None),
                    }
                }
                // A primary that ends without a notice of TLS is met as any end.
                ErrorKind::UnexpectedEof => Ok(Some(0)),
                _ => Err(error),
            },
        }
    }

    /// Reads into a buffer of the caller's what there is; `None` if there was nothing for a moment, 0 at the end.
    pub(super) fn read_some(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        if self.at < self.end {
            let len = (self.end - self.at).min(into.len());
            into[..len].copy_from_slice(&self.buffer[self.at..self.at + len]);
            self.consume(len);
            return Ok(Some(len));
        }
        let read = self.read_once(Some(into))?;
        self.used += read.unwrap_or(0) as u64;
        Ok(read)
    }

    /// Reads a line of at most `most` bytes, without its end.
    pub(super) fn line(&mut self, most: usize) -> io::Result<String> {
        let mut line = Vec::new();
        loop {
            let bytes = self.fill_buf()?;
            if bytes.is_empty() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let end = memchr::memchr(b'\n', bytes);
            let taken = end.map_or(bytes.len(), |end| end + 1);
            line.extend_from_slice(&bytes[..taken]);
            self.consume(taken);
            if line.len() > most {
                return Err(io::Error::new(ErrorKind::InvalidData, "a line is too long"));
            }
            if end.is_some() {
                let text = String::from_utf8_lossy(&line);
                return Ok(text.trim_end_matches(['\r', '\n']).into());
            }
        }
    }
}

impl Read for Source<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        self.consume(len);
        Ok(len)
    }
}

impl BufRead for Source<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at == self.end {
            if let Some(read) = self.read_once(None)? {
                (self.at, self.end) = (0, read);
                break;
            }
        }
        Ok(&self.buffer[self.at..self.end])
    }

    fn consume(&mut self, len: usize) {
        self.at += len;
        self.used += len as u64;
    }
}
