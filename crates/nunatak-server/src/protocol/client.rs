//! A client of another server: for keys that move, and for those who look after a cluster.

use super::socket::Socket;
use rustls::ClientConfig;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::time::Duration;

/// The longest line of a reply.
const MOST_LINE: u64 = 64 << 10;
/// The longest bulk string, and the most elements of an array: nothing is reserved for what was only
/// announced.
const MOST: i64 = 1 << 30;

/// A reply in version 2 of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Answer>),
}

impl Answer {
    /// Returns the text of a line or a bulk string; of anything else, how it looks.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Simple(text) | Self::Error(text) => text.clone(),
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => format!("{other:?}"),
        }
    }
}

/// Appends a command.
pub(crate) fn encode<'a>(out: &mut Vec<u8>, args: impl ExactSizeIterator<Item = &'a [u8]>) {
    let mut reply = super::reply::Reply { out, is_resp3: false };
    reply.array(args.len());
    args.for_each(|arg| reply.bulk(arg));
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Connection {
    reader: BufReader<Socket>,
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server's reply has {what}"))
}

impl Connection {
    /// Connects, by TLS if there is a configuration of it. Each reply may take so long.
    pub(crate) fn open(
        host: &str,
        port: u16,
        timeout: Duration,
        tls: Option<&Arc<ClientConfig>>,
    ) -> io::Result<Self> {
        let socket = Socket::connect((host, port), timeout, tls)?;
        Ok(Self { reader: BufReader::new(socket) })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let socket = self.reader.get_mut();
        socket.write_all(bytes)?;
        socket.flush()
    }

    /// Reads a reply.
    pub(crate) fn read(&mut self) -> io::Result<Answer> {
        self.read_nested(0)
    }

    fn read_nested(&mut self, depth: usize) -> io::Result<Answer> {
        let mut line = Vec::new();
        (&mut self.reader).take(MOST_LINE).read_until(b'\n', &mut line)?;
        let Some(line) = line.strip_suffix(b"\r\n") else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let Some((&kind, rest)) = line.split_first() else { return Err(wrong("an empty line")) };
        let text = || String::from_utf8_lossy(rest).into_owned();
        let number = || super::numbers::parse_i64(rest).ok_or_else(|| wrong("no number"));
        match kind {
            b'+' => Ok(Answer::Simple(text())),
            b'-' => Ok(Answer::Error(text())),
            b':' => Ok(Answer::Integer(number()?)),
            b'$' | b'*' if number()? == -1 => Ok(Answer::Null),
            b'$' | b'*' if !(0..=MOST).contains(&number()?) => Err(wrong("a wrong length")),
            b'$' => {
                let (len, mut bytes) = (number()? as u64, Vec::new());
                (&mut self.reader).take(len + 2).read_to_end(&mut bytes)?;
                match bytes.len() as u64 == len + 2 {
                    true => bytes.truncate(len as usize),
                    false => return Err(io::ErrorKind::UnexpectedEof.into()),
                }
                Ok(Answer::Bulk(bytes))
            }
            b'*' if depth < 8 => {
                let items = (0..number()?).map(|_| self.read_nested(depth + 1));
                Ok(Answer::Array(items.collect::<io::Result<_>>()?))
            }
            _ => Err(wrong("an unknown type")),
        }
    }

    /// Runs a command, and returns its reply; an error that the server told is one of this.
    pub(crate) fn run(&mut self, command: &[&[u8]]) -> io::Result<Answer> {
        let mut bytes = Vec::new();
        encode(&mut bytes, command.iter().copied());
        self.send(&bytes)?;
        match self.read()? {
            Answer::Error(text) => Err(io::Error::other(text)),
            answer => Ok(answer),
        }
    }
}
