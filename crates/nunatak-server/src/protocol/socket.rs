//! A connection that this server opens to another one, perhaps by TLS.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// A socket, perhaps with a session of TLS.
#[derive(Debug)]
pub(crate) enum Socket {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// Begins a session of TLS: checks that the server's certificate is the host's.
fn begin_tls(mut stream: TcpStream, host: &str, config: &Arc<ClientConfig>) -> io::Result<Socket> {
    let name = ServerName::try_from(host.to_string())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let session = ClientConnection::new(Arc::clone(config), name);
    let mut session = session.map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    Ok(Socket::Tls(Box::new(StreamOwned::new(session, stream))))
}

impl Socket {
    /// Connects to the first address of a host that answers, by TLS if there is a configuration of it.
    /// Connecting, each read and each write may take so long.
    pub(crate) fn connect(
        (host, port): (&str, u16),
        timeout: Duration,
        tls: Option<&Arc<ClientConfig>>,
    ) -> io::Result<Self> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(timeout))?;
                    stream.set_write_timeout(Some(timeout))?;
                    return match tls {
                        Some(config) => begin_tls(stream, host, config),
                        None => Ok(Self::Plain(stream)),
                    };
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Changes how long each read and each write may take.
    pub(crate) fn set_timeouts(&self, read: Duration, write: Duration) -> io::Result<()> {
        let stream = match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => &stream.sock,
        };
        stream.set_read_timeout(Some(read))?;
        stream.set_write_timeout(Some(write))
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
