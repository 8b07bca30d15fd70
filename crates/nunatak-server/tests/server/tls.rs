//! Connections by TLS: that bytes pass, who is let in, and clients that do what they should not.

use crate::common::{Client, Local, PATIENCE, Reply, encode, read_to_end};
use clap::Parser;
use nunatak_server::{Config, ServeError, Server};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

/// An authority, the server's certificate, a client's, and one that another authority has given.
pub(crate) struct Files(tempfile::TempDir);

/// What a certificate says of its owner. OpenSSL takes a certificate for self-signed if its authority has the
/// same name.
fn params(owner: &str) -> CertificateParams {
    let names = vec!["localhost".to_string(), "127.0.0.1".to_string()];
    let mut params = CertificateParams::new(names).expect("names");
    params.distinguished_name.push(DnType::CommonName, owner);
    params
}

fn authority(name: &str) -> (Issuer<'static, KeyPair>, String) {
    let mut params = params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    (Issuer::new(params, key), certificate.pem())
}

impl Files {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let put = |name: &str, text: String| {
            fs::write(directory.path().join(name), text).expect("a file");
        };
        let ((ours, ca), (theirs, other_ca)) = (authority("ours"), authority("theirs"));
        put("ca.pem", ca);
        put("other-ca.pem", other_ca);
        for (name, issuer) in [("server", &ours), ("client", &ours), ("other", &theirs)] {
            let key = KeyPair::generate().expect("a key");
            put(
                &format!("{name}.pem"),
                params(name).signed_by(&key, issuer).expect("signed").pem(),
            );
            put(&format!("{name}.key"), key.serialize_pem());
        }
        Self(directory)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn flag(&self, option: &str, name: &str) -> String {
        format!("--{option}={}", self.path(name).display())
    }

    /// The flags of a server with a port for TLS, and others.
    pub(crate) fn flags(&self, others: &[&str]) -> Vec<String> {
        let own =
            [self.flag("tls-cert-file", "server.pem"), self.flag("tls-key-file", "server.key")];
        let all = [&["--tls-port=any"], others].concat();
        all.into_iter().map(str::to_owned).chain(own).collect()
    }

    /// Starts a server of one thread.
    fn start(&self, others: &[&str]) -> Local {
        self.start_with(&[&["--threads=1"], others].concat())
    }

    fn start_with(&self, others: &[&str]) -> Local {
        let flags = self.flags(others);
        Local::start(&flags.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The configuration of a client that trusts an authority, perhaps with a certificate of its own.
    pub(crate) fn trusting(&self, ca: &str, own: Option<&str>) -> ClientConfig {
        self.speaking(&[&TLS13, &TLS12], ca, own)
    }

    fn speaking(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        ca: &str,
        own: Option<&str>,
    ) -> ClientConfig {
        let certificate = |name: &str| CertificateDer::from_pem_file(self.path(name)).expect("PEM");
        let mut roots = RootCertStore::empty();
        roots.add(certificate(ca)).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots);
        let Some(own) = own else { return builder.with_no_client_auth() };
        let key = PrivateKeyDer::from_pem_file(self.path(&format!("{own}.key"))).expect("a key");
        let chain = vec![certificate(&format!("{own}.pem"))];
        builder.with_client_auth_cert(chain, key).expect("a pair")
    }

    fn client(&self, local: &Local) -> Client<Tls> {
        Client::over(connect(self.trusting("ca.pem", None), address(local)))
    }
}

fn address(local: &Local) -> SocketAddr {
    local.tls.expect("a port for TLS")
}

fn session(config: ClientConfig) -> ClientConnection {
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a session")
}

pub(crate) fn connect(config: ClientConfig, address: SocketAddr) -> Tls {
    let socket = TcpStream::connect(address).expect("a connection");
    socket.set_nodelay(true).expect("an option");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    StreamOwned::new(session(config), socket)
}

/// Asserts that the server has refused the client or the client has refused the server: nobody waits.
fn assert_refused(mut stream: Tls) {
    let asked = stream.write_all(&encode(&["PING"])).and_then(|()| stream.read(&mut [0; 100]));
    match asked {
        Ok(read) => assert_eq!(read, 0),
        Err(error) => {
            assert!(![ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()));
        }
    }
}

fn ok() -> Reply {
    Reply::Line("+OK".into())
}

/// Bytes that show it if a part is missing or in a wrong place.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 251 + at) as u8).collect()
}

#[test]
fn values_and_pipelines_pass() {
    let files = Files::new();
    let local = files.start(&[]);
    for version in [&TLS12, &TLS13] {
        let stream = connect(files.speaking(&[version], "ca.pem", None), address(&local));
        let mut client = Client::over(stream);
        // Around the sizes of a record and of the server's buffers.
        let sizes = [1 << 14, 1 << 16, 1 << 17].into_iter().flat_map(|size| size - 40..size + 40);
        for len in sizes.step_by(3).chain([1 << 20, 3 << 20]) {
            client.send(&encode(&[b"SET", &b"long"[..], &pattern(len)]));
            assert_eq!(client.read(), ok());
            client.send(&encode(&["GET", "long"]));
            assert_eq!(client.read(), Reply::Bulk(pattern(len)));
        }
        let mut pipeline = Vec::new();
        for number in 0..5000 {
            pipeline.extend(encode(&["SET", &format!("key:{number}"), &number.to_string()]));
            pipeline.extend(encode(&["GET", &format!("key:{number}")]));
        }
        client.send(&pipeline);
        for number in 0..5000 {
            assert_eq!(client.read(), ok());
            assert_eq!(client.read(), Reply::Bulk(number.to_string().into_bytes()));
        }
        // Each byte in a record of its own.
        for byte in encode(&["GET", "key:17"]).repeat(100) {
            client.send(&[byte]);
        }
        (0..100).for_each(|_| assert_eq!(client.read(), Reply::Bulk(b"17".to_vec())));
        assert_eq!(client.stream().conn.protocol_version(), Some(version.version));
    }
}

/// Records that come in parts are decrypted when they are whole, also those of a handshake.
#[test]
fn handshakes_may_come_byte_by_byte() {
    let files = Files::new();
    let local = files.start(&[]);
    let mut other = files.client(&local);
    for version in [&TLS12, &TLS13] {
        let mut session = session(files.speaking(&[version], "ca.pem", None));
        let mut socket = TcpStream::connect(address(&local)).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        session.writer().write_all(&encode(&["PING"])).unwrap();
        let mut reply = Vec::new();
        while reply.len() < 7 {
            let mut encrypted = Vec::new();
            while session.wants_write() {
                session.write_tls(&mut encrypted).unwrap();
            }
            for byte in encrypted {
                socket.write_all(&[byte]).unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
            assert_eq!(other.line("PING"), "+PONG");
            assert!(session.read_tls(&mut (&mut socket).take(1)).unwrap() > 0);
            session.process_new_packets().unwrap();
            let _ = session.reader().read_to_end(&mut reply);
        }
        assert_eq!(reply, b"+PONG\r\n");
    }
}

/// A client that does not speak TLS gets an alert and is closed, whatever it sends.
#[test]
fn plain_clients_are_refused() {
    let files = Files::new();
    let local = files.start(&[]);
    let mut other = files.client(&local);
    assert_eq!(other.line("PING"), "+PONG");
    for bytes in [&b"PING\r\n"[..], b"*1\r\n$4\r\nPING\r\n", &[0; 100_000], &[22; 100_000], b"\x15"]
    {
        let mut plain = TcpStream::connect(address(&local)).unwrap();
        // The server closes while this is sent.
        let _ = plain.write_all(bytes);
        let _ = plain.shutdown(Shutdown::Write);
        let reply = read_to_end(&mut plain);
        assert!(reply.is_empty() || reply[0] == 21, "{reply:?}");
        if bytes.starts_with(b"PING") {
            assert_eq!(reply.len(), 7, "an alert");
        }
        assert_eq!(other.line("PING"), "+PONG");
    }
    assert_refused(connect(files.trusting("ca.pem", None), local.address));
    assert_eq!(other.line("PING"), "+PONG");
}

/// A client that asks for much and reads nothing keeps neither the others nor much memory.
#[test]
fn clients_that_stop_reading_are_bounded() {
    let files = Files::new();
    let local = files.start(&[]);
    let mut setup = files.client(&local);
    setup.send(&encode(&[b"SET", &b"long"[..], &pattern(100_000)]));
    assert_eq!(setup.read(), ok());
    let mut lazy = connect(files.trusting("ca.pem", None), address(&local));
    lazy.sock.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let get = encode(&["GET", "long"]).repeat(1000);
    // 100 GB of replies, unless the server stops reading.
    let sent = (0..1000).take_while(|_| lazy.write_all(&get).is_ok()).count();
    assert!(sent < 1000);
    assert_eq!(setup.line("PING"), "+PONG");
    let text = setup.line("INFO memory");
    let field = text.lines().find_map(|line| line.strip_prefix("used_memory_rss:"));
    let resident: usize = field.expect("a field").parse().expect("a number");
    assert!(resident < 1 << 30, "{resident}");
    // It gets its replies when it reads. Its own bytes still wait, so the session must not write first.
    let (mut seen, mut buffer) = (0, vec![0; 1 << 20]);
    while seen < 50_000_000 {
        assert!(lazy.conn.read_tls(&mut lazy.sock).expect("replies") > 0);
        lazy.conn.process_new_packets().expect("a record");
        if let Ok(read) = lazy.conn.reader().read(&mut buffer) {
            seen += read;
        }
    }
}

/// What the socket did not take is written when it takes more, though no replies are left to encrypt, and though
/// the connection is to be closed.
#[test]
fn the_last_encrypted_bytes_are_written() {
    let files = Files::new();
    let local = files.start(&[]);
    let mut setup = files.client(&local);
    let long = pattern(30_000);
    setup.send(&encode(&[b"SET", &b"long"[..], &long]));
    assert_eq!(setup.read(), ok());
    // At some of these sizes the socket is full within the last bytes.
    for count in (1..300).step_by(2) {
        let mut client = files.client(&local);
        client.stream().sock.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let requests = [encode(&["GET", "long"]).repeat(count), encode(&["QUIT"])].concat();
        client.send(&requests);
        // The others' request is answered after all of these were encrypted.
        assert_eq!(setup.line("PING"), "+PONG");
        for _ in 0..count {
            assert_eq!(client.read(), Reply::Bulk(long.clone()));
        }
        let mut rest = Vec::new();
        client.read_to_end(&mut rest);
        assert_eq!(rest, b"+OK\r\n");
    }
}

#[test]
fn certificates_of_clients_are_asked_for() {
    let files = Files::new();
    let ca = files.flag("tls-ca-cert-file", "ca.pem");
    for (flags, without, with, with_other) in [
        (&[ca.as_str()][..], false, true, false),
        (&[&ca, "--tls-auth-clients=yes"], false, true, false),
        (&[&ca, "--tls-auth-clients=optional"], true, true, false),
        (&[&ca, "--tls-auth-clients=no"], true, true, true),
        (&[], true, true, true),
    ] {
        let local = files.start(flags);
        for version in [&TLS12, &TLS13] {
            for (own, is_let_in) in
                [(None, without), (Some("client"), with), (Some("other"), with_other)]
            {
                let config = files.speaking(&[version], "ca.pem", own);
                let stream = connect(config, address(&local));
                if is_let_in {
                    assert_eq!(Client::over(stream).line("PING"), "+PONG", "{flags:?} {own:?}");
                } else {
                    assert_refused(stream);
                }
            }
        }
    }
}

/// A client that does not trust the server's certificate goes away, and does no harm.
#[test]
fn clients_refuse_a_server_of_another_authority() {
    let files = Files::new();
    let local = files.start(&[]);
    let mut other = files.client(&local);
    for _ in 0..20 {
        let mut stream = connect(files.trusting("other-ca.pem", None), address(&local));
        let error = stream.write_all(&encode(&["PING"])).expect_err("an unknown authority");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert_eq!(other.line("PING"), "+PONG");
    }
}

#[test]
fn messages_pass() {
    let files = Files::new();
    let local = files.start_with(&["--threads=2"]);
    let (mut subscriber, mut publisher) = (files.client(&local), local.client());
    assert!(matches!(subscriber.run("SUBSCRIBE news"), Reply::Many(..)));
    let text = |number: usize| {
        let mut text = pattern(number * 37 % 50_000);
        text.extend_from_slice(number.to_string().as_bytes());
        text
    };
    for number in 0..1000 {
        publisher.send(&encode(&[b"PUBLISH", &b"news"[..], &text(number)]));
    }
    for number in 0..1000 {
        let Reply::Many(_, items) = subscriber.read() else { panic!("no message") };
        assert_eq!(items[2], Reply::Bulk(text(number)));
    }
    (0..1000).for_each(|_| assert_eq!(publisher.read(), Reply::Line(":1".into())));
}

/// The server says that nothing follows when it closes: after QUIT, after the client has said so, and when
/// it is stopped.
#[test]
fn ends_are_told() {
    let files = Files::new();
    let local = files.start(&[]);
    let mut client = files.client(&local);
    client.send(b"PING\r\nQUIT\r\nPING\r\n");
    let mut all = Vec::new();
    client.read_to_end(&mut all);
    assert_eq!(all, b"+PONG\r\n+OK\r\n");
    // The end in the same bytes as the requests: they are answered.
    let mut client = files.client(&local);
    assert_eq!(client.line("PING"), "+PONG");
    let stream = client.stream();
    stream.conn.writer().write_all(b"PING\r\nECHO a\r\nPI").unwrap();
    stream.conn.send_close_notify();
    stream.conn.complete_io(&mut stream.sock).unwrap();
    let mut all = Vec::new();
    client.read_to_end(&mut all);
    assert_eq!(all, b"+PONG\r\n$1\r\na\r\n");
    // The end of the socket without the session's.
    let mut client = files.client(&local);
    client.send(b"PING\r\nPI");
    client.stream().sock.shutdown(Shutdown::Write).unwrap();
    let mut all = Vec::new();
    client.read_to_end(&mut all);
    assert_eq!(all, b"+PONG\r\n");
    let mut client = files.client(&local);
    assert_eq!(client.line("PING"), "+PONG");
    drop(local);
    client.read_to_end(&mut Vec::new());
}

/// Clients that never end their handshakes hold no connections; others may be silent.
#[test]
fn handshakes_have_a_time() {
    let files = Files::new();
    let local = files.start(&[]);
    let (mut silent, mut plain) = (files.client(&local), local.client());
    assert_eq!(silent.line("PING"), "+PONG");
    let begun = Instant::now();
    let mut hello = Vec::new();
    session(files.trusting("ca.pem", None)).write_tls(&mut hello).unwrap();
    let mut lates: Vec<TcpStream> = [&hello[..], &hello[..hello.len() / 2], &[]]
        .map(|bytes| {
            let mut stream = TcpStream::connect(address(&local)).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        })
        .into();
    for late in &mut lates {
        read_to_end(late);
        assert!(begun.elapsed() > Duration::from_secs(9), "{:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    }
    assert_eq!((silent.line("PING"), plain.line("PING")), ("+PONG".into(), "+PONG".into()));
    assert!(plain.line("INFO clients").contains("connected_clients:2\r\n"));
}

#[test]
fn options_are_told_but_not_changed() {
    let files = Files::new();
    let flags = files.flags(&["--port=off", &files.flag("tls-ca-cert-file", "ca.pem")]);
    let local = Local::start_with(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    let stream = connect(files.trusting("ca.pem", Some("client")), address(&local));
    let mut client = Client::over(stream);
    let path = |name: &str| files.path(name).display().to_string();
    let port = address(&local).port().to_string();
    for (name, value) in [
        ("port", "0".into()),
        ("tls-port", port.clone()),
        ("tls-cert-file", path("server.pem")),
        ("tls-key-file", path("server.key")),
        ("tls-ca-cert-file", path("ca.pem")),
        ("tls-auth-clients", "yes".into()),
    ] {
        let Reply::Many(_, items) = client.run(&format!("CONFIG GET {name}")) else { panic!() };
        assert_eq!(items, [name.to_string(), value].map(|it| Reply::Bulk(it.into_bytes())));
        let refused = client.line(&format!("CONFIG SET {name} 1"));
        assert!(refused.ends_with("can't set immutable config"), "{refused}");
    }
    assert!(client.line("INFO server").contains(&format!("tcp_port:{port}\r\n")));
    let own = client.stream().sock.local_addr().unwrap();
    assert!(client.line("CLIENT INFO").contains(&format!("addr={own} ")));
}

/// Returns the certificate that the server shows to a new client.
fn shown(files: &Files, local: &Local) -> Vec<u8> {
    let mut stream = connect(files.trusting("ca.pem", None), address(local));
    stream.write_all(&encode(&["PING"])).expect("a handshake");
    let chain = stream.conn.peer_certificates().expect("a handshake");
    chain[0].as_ref().to_vec()
}

/// A renewed certificate is shown to new clients. Connections go on, and so does the old certificate while the files are
/// wrong.
#[test]
fn a_changed_certificate_is_read_again() {
    let files = Files::new();
    let local = files.start(&[]);
    let mut client = files.client(&local);
    let certificate = |name: &str| {
        CertificateDer::from_pem_file(files.path(name)).expect("a certificate").as_ref().to_vec()
    };
    let (before, renewed) = (certificate("server.pem"), certificate("client.pem"));
    assert_eq!(shown(&files, &local), before);
    let replace = |from: &str, to: &str| {
        fs::copy(files.path(from), files.path("new")).expect("a copy");
        fs::rename(files.path("new"), files.path(to)).expect("the file");
    };
    let looks_twice = || std::thread::sleep(Duration::from_millis(700));
    replace("client.pem", "server.pem");
    looks_twice();
    assert_eq!(shown(&files, &local), before, "the key belongs to the other one");
    replace("client.key", "server.key");
    let began = Instant::now();
    while shown(&files, &local) != renewed {
        assert!(began.elapsed() < PATIENCE, "the certificate is not read again");
        std::thread::sleep(Duration::from_millis(20));
    }
    fs::write(files.path("server.key"), "").expect("a file");
    looks_twice();
    assert_eq!(shown(&files, &local), renewed);
    fs::remove_file(files.path("server.pem")).expect("a file");
    looks_twice();
    assert_eq!(shown(&files, &local), renewed);
    assert_eq!(client.line("PING"), "+PONG");
}

/// Tries to make a server, and returns the error.
fn refused(flags: &[&str]) -> ServeError {
    let flags = ["test"].into_iter().chain(flags.iter().copied());
    Server::bind(Config::parse_from(flags)).expect_err("an error")
}

#[test]
fn bad_files_are_refused() {
    let files = Files::new();
    let put = |name: &str, text: &[u8]| fs::write(files.path(name), text).expect("a file");
    put("garbage.pem", &pattern(10_000));
    put("begun.pem", b"-----BEGIN CERTIFICATE-----\nAAAA\n");
    put("letters.pem", b"-----BEGIN CERTIFICATE-----\n!?!?\n-----END CERTIFICATE-----\n");
    put("zeros.pem", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    put("zeros.key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    put(
        "locked.key",
        b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    put("empty.pem", b"");
    let check = |cert: &str, key: &str, ca: Option<&str>, text: &str| {
        let mut flags = vec!["--port=0".into(), "--tls-port=any".into()];
        flags.push(files.flag("tls-cert-file", cert));
        flags.push(files.flag("tls-key-file", key));
        flags.extend(ca.map(|ca| files.flag("tls-ca-cert-file", ca)));
        let error = refused(&flags.iter().map(String::as_str).collect::<Vec<_>>());
        let ServeError::Tls(path, _) = &error else { panic!("{error}") };
        let blamed = [ca.unwrap_or_default(), cert, key];
        assert!(blamed.iter().any(|name| path.ends_with(Path::new(name))), "{error}");
        assert!(error.to_string().contains(text), "{error}");
    };
    check("none.pem", "server.key", None, "none.pem: No such file");
    check("server.pem", "none.key", None, "none.key: No such file");
    check(".", "server.key", None, "directory");
    check("server.pem", "client.key", None, "client.key: is not the key of");
    check("server.key", "server.key", None, "server.key: has no certificate");
    check("server.pem", "server.pem", None, "server.pem: has no private key");
    check("server.pem", "locked.key", None, "locked.key: has no private key without a password");
    check("garbage.pem", "server.key", None, "garbage.pem: has no certificate");
    check("begun.pem", "server.key", None, "begun.pem: has a section of PEM without an end");
    check("letters.pem", "server.key", None, "letters.pem: has a section of PEM that is no Base64");
    check("zeros.pem", "server.key", None, "zeros.pem: invalid peer certificate");
    check("empty.pem", "server.key", None, "empty.pem: has no certificate");
    check("server.pem", "garbage.pem", None, "garbage.pem: has no private key");
    check("server.pem", "zeros.key", None, "zeros.key: ");
    check("server.pem", "server.key", Some("none.pem"), "none.pem: No such file");
    check("server.pem", "server.key", Some("garbage.pem"), "garbage.pem: has no certificate");
    check("server.pem", "server.key", Some("zeros.pem"), "zeros.pem: ");
}

#[test]
fn missing_options_are_named() {
    let files = Files::new();
    let (cert, key) =
        (files.flag("tls-cert-file", "server.pem"), files.flag("tls-key-file", "server.key"));
    let ca = files.flag("tls-ca-cert-file", "ca.pem");
    let text = |flags: &[&str]| refused(flags).to_string();
    let port = "--tls-port=any";
    assert_eq!(text(&["--port=0", port, &key]), "--tls-port needs --tls-cert-file");
    assert_eq!(text(&["--port=0", port, &cert]), "--tls-port needs --tls-key-file");
    for auth in ["--tls-auth-clients=yes", "--tls-auth-clients=optional"] {
        let refusal = text(&["--port=0", port, &cert, &key, auth]);
        assert_eq!(refusal, "--tls-auth-clients needs --tls-ca-cert-file");
    }
    assert!(matches!(refused(&["--port=off"]), ServeError::Nowhere));
    // Other machines: only with a password, or if all clients show certificates.
    let open = ["--bind=0.0.0.0", "--threads=1", port, &cert, &key, &ca];
    for flags in [
        &["--port=0"][..],
        &["--port=off", "--tls-auth-clients=optional"],
        &["--port=off", "--tls-auth-clients=no"],
    ] {
        assert!(matches!(refused(&[&open, flags].concat()), ServeError::Unprotected(_)));
    }
    for flags in [&["--port=off"][..], &["--port=0", "--requirepass=secret"]] {
        let flags = [&["test"], &open[..], flags].concat();
        let server = Server::bind(Config::parse_from(flags)).expect("a server");
        assert!(server.tls_address().is_some());
    }
}

/// The client of Redis.
#[test]
fn redis_cli_speaks_tls() {
    let help = Command::new("redis-cli").arg("--help").output();
    let help = help.map(|it| [it.stdout, it.stderr].concat()).unwrap_or_default();
    if !String::from_utf8_lossy(&help).contains("--tls ") {
        println!("a redis-cli with TLS is not installed: left out");
        return;
    }
    let files = Files::new();
    let local = files.start(&[&files.flag("tls-ca-cert-file", "ca.pem")]);
    let run = |own: &str, words: &[&str], input: &[u8]| {
        let mut child = Command::new("redis-cli")
            .args(["--tls", "-h", "localhost", "-p", &address(&local).port().to_string()])
            .arg("--cacert")
            .arg(files.path("ca.pem"))
            .arg("--cert")
            .arg(files.path(&format!("{own}.pem")))
            .arg("--key")
            .arg(files.path(&format!("{own}.key")))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process");
        child.stdin.take().expect("an input").write_all(input).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        [output.stdout, output.stderr].concat()
    };
    assert_eq!(run("client", &["SET", "ice", "cold"], b""), b"OK\n");
    assert_eq!(run("client", &["GET", "ice"], b""), b"cold\n");
    let long = "x".repeat(2 << 20);
    assert_eq!(run("client", &["-x", "SET", "long"], long.as_bytes()), b"OK\n");
    assert_eq!(run("client", &["GET", "long"], b"").len(), long.len() + 1);
    let refused = run("other", &["GET", "ice"], b"");
    let refused = String::from_utf8_lossy(&refused);
    assert!(refused.contains("rror") && !refused.contains("cold"), "{refused}");
}
