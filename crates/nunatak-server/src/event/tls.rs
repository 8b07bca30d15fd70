//! Sockets with TLS.
//!
//! A [`TlsStream`] reads and writes like a non-blocking socket, with two differences. It may hold encrypted
//! bytes that the socket did not take: [`TlsStream::is_holding`]. It may have more to tell though its socket
//! is empty: [`TlsStream::has_more`].

use super::connection::READ;
use mio::net::TcpStream;
use rustls::{ServerConfig, ServerConnection};
use std::cell::Cell;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

/// How many encrypted bytes a connection holds, beside the replies that wait.
const MOST_ENCRYPTED: usize = READ;

thread_local! {
    /// A buffer for encrypted bytes. A stream has it while it reads, and keeps it only if bytes are left.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A socket with a session of TLS.
#[derive(Debug)]
pub(crate) struct TlsStream {
    pub(crate) socket: TcpStream,
    session: ServerConnection,
    /// Bytes from the socket. Those in `start..end` were not decrypted yet.
    encrypted: Vec<u8>,
    start: usize,
    end: usize,
    /// How the session has ended, if it has and nobody was told.
    ended: Option<io::Result<()>>,
}

impl TlsStream {
    pub(crate) fn new(socket: TcpStream, config: Arc<ServerConfig>) -> io::Result<Self> {
        let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
        session.set_buffer_limit(Some(MOST_ENCRYPTED));
        Ok(Self { socket, session, encrypted: Vec::new(), start: 0, end: 0, ended: None })
    }

    /// Reads what the client has sent. If that is less than asked for, the socket is empty.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.encrypted.is_empty() {
            self.encrypted = SPARE.take();
            self.encrypted.resize(READ, 0);
        }
        let filled = self.fill(buffer);
        if self.start == self.end {
            SPARE.set(std::mem::take(&mut self.encrypted));
        }
        match self.ended.take() {
            // After the bytes in front of the end.
            Some(ended) if filled > 0 => self.ended = Some(ended),
            Some(ended) => return ended.map(|()| 0),
            None if filled == 0 => return Err(ErrorKind::WouldBlock.into()),
            None => {}
        }
        Ok(filled)
    }

    /// Decrypts bytes until the buffer is full, the socket is empty or the session has ended.
    fn fill(&mut self, buffer: &mut [u8]) -> usize {
        let (mut filled, mut is_drained) = (0, false);
        while filled < buffer.len() && self.ended.is_none() {
            match self.session.reader().read(&mut buffer[filled..]) {
                Ok(0) => self.ended = Some(Ok(())),
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.start == self.end && is_drained {
                        break;
                    }
                    match self.decrypt(&mut is_drained) {
                        Ok(()) => {}
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) => self.ended = Some(Err(error)),
                    }
                }
                // The socket has ended, the session has not. Each command tells its own length, so no
                // command is taken for whole that is not: this end is as good as that of a plain socket.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => self.ended = Some(Ok(())),
                Err(error) => self.ended = Some(Err(error)),
            }
        }
        filled
    }

    /// Gives the session encrypted bytes, those of the socket if there are no others.
    fn decrypt(&mut self, is_drained: &mut bool) -> io::Result<()> {
        if self.start == self.end {
            let count = self.socket.read(&mut self.encrypted)?;
            (self.start, self.end) = (0, count);
            *is_drained = count < self.encrypted.len();
        }
        self.start += self.session.read_tls(&mut &self.encrypted[self.start..self.end])?;
        match self.session.process_new_packets() {
            Ok(_) => Ok(()),
            // The session has an alert for the client, which is written when the stream is closed.
            Err(error) => Err(io::Error::new(ErrorKind::InvalidData, error)),
        }
    }

    /// Encrypts bytes, and writes what the socket takes. Takes none while earlier ones wait.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push()?;
        let taken = self.session.writer().write(bytes)?;
        match self.push() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Writes encrypted bytes until none are held.
    pub(crate) fn push(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether encrypted bytes wait for the socket: of replies, or of a handshake.
    pub(crate) fn is_holding(&self) -> bool {
        self.session.wants_write()
    }

    /// Whether a read would tell something though the socket is empty.
    pub(super) fn has_more(&self) -> bool {
        self.ended.is_some()
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Tells the client that nothing follows, or what was wrong, if the socket takes that.
    pub(crate) fn close(&mut self) {
        self.session.send_close_notify();
        // A client that does not read sees the end of the socket only.
        let _ = self.push();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::ring::default_provider;
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
    use std::net::TcpListener;
    use std::time::Duration;

    type Client = StreamOwned<ClientConnection, std::net::TcpStream>;

    /// Returns both ends of a connection whose handshake is done.
    fn pair() -> (TlsStream, Client) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let provider = Arc::new(default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        let mut stream = TlsStream::new(TcpStream::from_std(accepted), Arc::new(server)).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::new(client), name).unwrap();
        let mut client = StreamOwned::new(session, socket);
        let connecting = std::thread::spawn(move || {
            client.conn.complete_io(&mut client.sock).unwrap();
            client
        });
        while stream.is_handshaking() {
            let error = stream.read(&mut [0; 10]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            stream.push().unwrap();
        }
        (stream, connecting.join().unwrap())
    }

    /// A client that does not read is sent no more than the socket takes, and few bytes are held.
    #[test]
    fn few_bytes_are_held() {
        let (mut stream, mut client) = pair();
        let (bytes, mut taken) = (vec![b'x'; 1 << 20], 0);
        let error = loop {
            match stream.write(&bytes) {
                Ok(count) => taken += count,
                Err(error) => break error,
            }
            assert!(taken < 1 << 28, "a socket takes no more");
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(stream.is_holding());
        client.sock.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let (mut received, mut buffer) = (0, vec![0; 1 << 16]);
        while let Ok(count) = client.read(&mut buffer) {
            received += count;
        }
        // A record is whole, or the client can't decrypt it.
        assert!(taken - received < MOST_ENCRYPTED + (1 << 14), "{taken} {received}");
        stream.push().unwrap();
        assert!(!stream.is_holding());
        while received < taken {
            received += client.read(&mut buffer).unwrap();
        }
    }
}
