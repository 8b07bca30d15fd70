//! Who may read the metrics and the dashboard: passwords, permissions, TLS.

use crate::common::{Local, read_to_end};
use crate::metrics::ask;
use crate::tls::{Files, connect};
use clap::Parser;
use nunatak_server::{Config, Server};
use std::io::{Read, Write};
use std::net::SocketAddr;

const TARGETS: [&str; 3] = ["/metrics", "/", "/dashboard.json"];

/// Returns the status of an answer.
fn status(address: SocketAddr, target: &str, header: &str) -> String {
    let answer = ask(address, format!("GET {target} HTTP/1.1\r\n{header}\r\n").as_bytes());
    let status = answer.split(' ').nth(1).unwrap_or_default().to_string();
    let asks = answer.contains("\r\nWWW-Authenticate: Basic realm=");
    assert_eq!(asks, status == "401", "{answer}");
    status
}

fn start(others: &[&str]) -> Local {
    let both = ["--threads=1", "--metrics-address=127.0.0.1:0", "--dashboard=127.0.0.1:0"];
    Local::start(&[&both, others].concat())
}

fn statuses(local: &Local, header: &str) -> Vec<String> {
    let addresses =
        [local.metrics, local.dashboard, local.dashboard].map(|it| it.expect("an address"));
    addresses
        .into_iter()
        .zip(TARGETS)
        .map(|(address, target)| status(address, target, header))
        .collect()
}

/// `default:secret`, `:secret`, `default:wrong`, `alice:secret`, `bob:secret`.
const DEFAULT: &str = "Authorization: Basic ZGVmYXVsdDpzZWNyZXQ=\r\n";
const NAMELESS: &str = "authorization: basic OnNlY3JldA==\r\n";
const WRONG: &str = "Authorization: Basic ZGVmYXVsdDp3cm9uZw==\r\n";
const ALICE: &str = "Authorization: Basic YWxpY2U6c2VjcmV0\r\n";
const BOB: &str = "Authorization: Basic Ym9iOnNlY3JldA==\r\n";

#[test]
fn readers_need_a_password_if_clients_do() {
    let local = start(&["--user=alice on >secret +info", "--user=bob on >secret +get"]);
    assert_eq!(statuses(&local, ""), ["200"; 3], "nobody needs a password");
    let mut admin = local.client();
    admin.run("CONFIG SET requirepass secret");
    for (header, expected) in [
        ("", "401"),
        (DEFAULT, "200"),
        (NAMELESS, "200"),
        (WRONG, "401"),
        (ALICE, "200"),
        (BOB, "403"),
        ("Authorization: Bearer ZGVmYXVsdDpzZWNyZXQ=\r\n", "401"),
        ("Authorization: Basic default:secret\r\n", "401"),
        ("Authorization: Basic\r\n", "401"),
        ("Authorization: Basic ZGVmYXVsdA==\r\n", "401"),
        ("Authorization: \u{fffd}\r\n", "401"),
    ] {
        assert_eq!(statuses(&local, header), [expected; 3], "{header}");
    }
    // A change holds at once.
    admin.run("ACL SETUSER alice off");
    assert_eq!(statuses(&local, ALICE), ["401"; 3]);
    admin.run("CONFIG SET requirepass ");
    assert_eq!(statuses(&local, ""), ["200"; 3]);
}

#[test]
fn other_machines_need_a_password() {
    let files = Files::new();
    let certificates = [
        files.flag("tls-cert-file", "server.pem"),
        files.flag("tls-key-file", "server.key"),
        files.flag("tls-ca-cert-file", "ca.pem"),
    ];
    let certificates = certificates.each_ref().map(String::as_str);
    for option in ["--metrics-address=0.0.0.0:0", "--dashboard=0.0.0.0:0"] {
        let bind = |others: &[&str]| {
            let flags = [&["test", "--port=0", "--threads=1", option], others].concat();
            Server::bind(Config::parse_from(flags)).map(drop)
        };
        let with_tls = |others: &[&str]| bind(&[&certificates, others].concat());
        let refused = bind(&[]).expect_err("nobody would need a password").to_string();
        assert!(refused.contains("--requirepass"), "{refused}");
        bind(&["--user=default on >secret +@all"]).expect("a password is needed");
        bind(&["--requirepass=secret"]).expect("a password is needed");
        with_tls(&["--http-tls=yes", "--tls-auth-clients=optional"])
            .expect_err("no certificate is needed");
        with_tls(&["--http-tls=yes"]).expect("a certificate is needed");
        with_tls(&[]).expect_err("there is no TLS");
    }
    // Wherever a client is: the address is that of other machines.
    let local =
        Local::start(&["--threads=1", "--metrics-address=0.0.0.0:0", "--requirepass=secret"]);
    let address = SocketAddr::from(([127, 0, 0, 1], local.metrics.expect("an address").port()));
    local.client().run("AUTH secret");
    assert_eq!(status(address, "/metrics", ""), "401");
    assert_eq!(status(address, "/metrics", DEFAULT), "200");
}

#[test]
fn readers_come_by_tls() {
    let files = Files::new();
    let own = [files.flag("tls-cert-file", "server.pem"), files.flag("tls-key-file", "server.key")];
    let local = start(&["--http-tls=yes", "--requirepass=secret", &own[0], &own[1]]);
    for (address, target) in [(local.metrics, TARGETS[0]), (local.dashboard, TARGETS[1])] {
        let address = address.expect("an address");
        for (header, expected) in [("", "HTTP/1.1 401 "), (DEFAULT, "HTTP/1.1 200 ")] {
            let mut stream = connect(files.trusting("ca.pem", None), address);
            let request = format!("GET {target} HTTP/1.1\r\n{header}\r\n");
            // In two pieces, and with more behind it than is read.
            stream.write_all(&request.as_bytes()[..9]).expect("sent");
            stream.flush().expect("sent");
            std::thread::sleep(std::time::Duration::from_millis(20));
            stream.write_all(&request.as_bytes()[9..]).expect("sent");
            let mut answer = String::new();
            // To the end that the server announces: nothing is cut off.
            stream.read_to_string(&mut answer).expect("the whole answer");
            assert!(answer.starts_with(expected), "{answer}");
            let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
            assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        }
        // Plain HTTP is answered by an alert at most.
        let mut plain = std::net::TcpStream::connect(address).expect("a connection");
        plain.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent");
        assert!(!read_to_end(&mut plain).starts_with(b"HTTP"));
        // A client that does not trust the server tells it nothing.
        let mut stream = connect(files.trusting("other-ca.pem", None), address);
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect_err("not trusted");
    }
    // Clients' certificates, if authorities are given.
    let ca = files.flag("tls-ca-cert-file", "ca.pem");
    let local = start(&["--http-tls=yes", &own[0], &own[1], &ca]);
    let address = local.metrics.expect("an address");
    for (certificate, is_let_in) in [(None, false), (Some("other"), false), (Some("client"), true)]
    {
        let mut stream = connect(files.trusting("ca.pem", certificate), address);
        let mut answer = Vec::new();
        let sent = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
        let _ = sent.and_then(|()| stream.read_to_end(&mut answer));
        assert_eq!(answer.starts_with(b"HTTP/1.1 200 "), is_let_in, "{certificate:?}");
    }
}
