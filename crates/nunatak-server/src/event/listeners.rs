//! The sockets that clients connect to.

use super::connection::Stream;
use super::tls::TlsStream;
use mio::net::{TcpListener, TcpStream, UnixListener};
use mio::{Interest, Registry, Token};
use rustls::ServerConfig;
use std::io::{self, ErrorKind};
use std::sync::Arc;

pub(super) const TCP: Token = Token(usize::MAX - 1);
pub(super) const UNIX: Token = Token(usize::MAX - 2);
pub(super) const TLS: Token = Token(usize::MAX - 3);

/// A socket for TLS, with what a session of it is made from.
#[derive(Debug)]
pub(crate) struct TlsListener {
    pub(crate) socket: TcpListener,
    pub(crate) config: Arc<ServerConfig>,
}

/// All sockets that clients connect to.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) tcp: Option<TcpListener>,
    pub(crate) tls: Option<TlsListener>,
    pub(crate) unix: Option<UnixListener>,
}

/// Accepts a connection by TCP.
fn accept_tcp(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = listener.accept()?;
    // Replies of a batch are one write, which need not wait for more.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

impl Listeners {
    pub(super) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        let Self { tcp, tls, unix } = self;
        if let Some(tcp) = tcp {
            registry.register(tcp, TCP, Interest::READABLE)?;
        }
        if let Some(tls) = tls {
            registry.register(&mut tls.socket, TLS, Interest::READABLE)?;
        }
        if let Some(unix) = unix {
            registry.register(unix, UNIX, Interest::READABLE)?;
        }
        Ok(())
    }

    /// Accepts a connection from the first socket that has one.
    pub(super) fn accept(&self) -> io::Result<Stream> {
        let mut accepted = Err(ErrorKind::WouldBlock.into());
        let is_none = |accepted: &io::Result<Stream>| {
            accepted.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        };
        if let Some(tcp) = &self.tcp {
            accepted = accept_tcp(tcp).map(Stream::Tcp);
        }
        if is_none(&accepted)
            && let Some(TlsListener { socket, config }) = &self.tls
        {
            let stream = accept_tcp(socket).and_then(|it| TlsStream::new(it, Arc::clone(config)));
            accepted = stream.map(|stream| Stream::Tls(Box::new(stream)));
        }
        if is_none(&accepted)
            && let Some(unix) = &self.unix
        {
            accepted = unix.accept().map(|(stream, _)| Stream::Unix(stream));
        }
        accepted
    }
}
