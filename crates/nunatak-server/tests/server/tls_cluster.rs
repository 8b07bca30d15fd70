//! Nodes of a cluster that listen on TLS only: keys move between them, if the certificates are right.

use crate::common::{Client, Local, Reply};
use crate::tls::{Files, Tls, connect};
use clap::Parser;
use nunatak_server::ClusterCommand;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

struct Nodes {
    files: Files,
    nodes: [Local; 2],
    directory: tempfile::TempDir,
}

impl Nodes {
    /// Starts two nodes, the second with this certificate, and the map in which the first has all slots.
    fn start(second: &str, tls_cluster: &str) -> Self {
        let files = Files::new();
        let directory = tempfile::tempdir().expect("a directory");
        let map = directory.path().join("map");
        let write = |ports: [u16; 2]| {
            let [alpha, beta] = ports;
            let text = format!("alpha 127.0.0.1:{alpha} 0-16383\nbeta 127.0.0.1:{beta}\n");
            fs::write(&map, text).expect("a map");
        };
        write([1, 2]);
        let start = |node: &str, certificate: &str| {
            let flags = [
                "--port=off".to_string(),
                "--tls-port=any".into(),
                "--threads=1".into(),
                format!("--tls-cluster={tls_cluster}"),
                files.flag("tls-ca-cert-file", "ca.pem"),
                files.flag("tls-cert-file", &format!("{certificate}.pem")),
                files.flag("tls-key-file", &format!("{certificate}.key")),
                format!("--cluster-map={}", map.display()),
                format!("--cluster-node={node}"),
            ];
            Local::start_with(&flags.each_ref().map(String::as_str))
        };
        let nodes = [start("alpha", "server"), start("beta", second)];
        write(nodes.each_ref().map(|node| node.address.port()));
        let this = Self { files, nodes, directory };
        let (begin, last) = (Instant::now(), format!("{}@", this.nodes[1].address));
        while !this.client(0).line("CLUSTER NODES").contains(&last) {
            assert!(begin.elapsed() < Duration::from_secs(60), "the map is not read again");
            std::thread::sleep(Duration::from_millis(20));
        }
        this
    }

    fn client(&self, node: usize) -> Client<Tls> {
        let config = self.files.trusting("ca.pem", Some("client"));
        Client::over(connect(config, self.nodes[node].address))
    }

    fn map(&self) -> PathBuf {
        self.directory.path().join("map")
    }

    /// Runs the command that looks after a cluster, with an authority and a client's certificate.
    fn manage(&self, words: &[&str], ca: Option<&str>, own: Option<&str>) -> Result<(), String> {
        #[derive(Parser)]
        struct Manage {
            #[command(subcommand)]
            command: ClusterCommand,
        }
        let path = |name: &str| self.files.path(name).display().to_string();
        let mut words: Vec<String> =
            [&[""], words].concat().into_iter().map(str::to_owned).collect();
        words.extend(["--map".into(), self.map().display().to_string()]);
        words.extend(ca.into_iter().flat_map(|ca| ["--tls".into(), "--cacert".into(), path(ca)]));
        if let Some(name) = own {
            words.extend(["--cert".into(), path(&format!("{name}.pem"))]);
            words.extend(["--key".into(), path(&format!("{name}.key"))]);
        }
        let parsed = Manage::try_parse_from(words).map_err(|error| error.to_string())?;
        parsed.command.run().map_err(|error| error.to_string())
    }
}

const MOVE: [&str; 5] = ["move", "--slots", "0-9000", "--to", "beta"];

#[test]
fn keys_move_by_tls() {
    let nodes = Nodes::start("server", "yes");
    let mut alpha = nodes.client(0);
    assert_eq!(alpha.run("CONFIG GET tls-cluster"), {
        Reply::Many("*2".into(), ["tls-cluster", "yes"].map(|it| Reply::Bulk(it.into())).into())
    });
    for number in 0..500 {
        assert_eq!(alpha.line(&format!("SET key{number} {number}")), "+OK");
    }
    // Those who are not trusted, and those who do not trust, do nothing.
    for (ca, own, why) in [
        (None, None, ""),
        (Some("other-ca.pem"), Some("client"), "certificate"),
        (Some("ca.pem"), None, ""),
        (Some("ca.pem"), Some("other"), ""),
    ] {
        let refused = nodes.manage(&MOVE, ca, own).expect_err("not trusted");
        assert!(refused.contains(why), "{ca:?} {own:?}: {refused}");
        assert_eq!(alpha.line("DBSIZE"), ":500");
    }
    nodes.manage(&MOVE, Some("ca.pem"), Some("client")).expect("the keys move");
    nodes.manage(&["check"], Some("ca.pem"), Some("client")).expect("the nodes have their slots");
    let mut beta = nodes.client(1);
    let (mut here, mut moved) = (0, 0);
    for number in 0..500 {
        let command = format!("GET key{number}");
        let value = match alpha.run(&command) {
            Reply::Line(line) if line.starts_with("-MOVED") => {
                moved += 1;
                beta.run(&command)
            }
            reply => {
                here += 1;
                reply
            }
        };
        assert_eq!(value, Reply::Bulk(number.to_string().into_bytes()));
    }
    assert!(here > 100 && moved > 100, "{here} {moved}");
    assert_eq!(
        (alpha.line("DBSIZE"), beta.line("DBSIZE")),
        (format!(":{here}"), format!(":{moved}"))
    );
}

/// A node checks the other one's certificate, and speaks TLS only if it is told to.
#[test]
fn keys_stay_if_the_other_node_is_not_trusted() {
    for (certificate, tls_cluster, why) in [
        ("other", "yes", "-IOERR invalid peer certificate: "),
        ("server", "no", "-IOERR error or timeout "),
    ] {
        let nodes = Nodes::start(certificate, tls_cluster);
        let mut alpha = nodes.client(0);
        assert_eq!(alpha.line("SET key value"), "+OK");
        let port = nodes.nodes[1].address.port();
        let refused = alpha.line(&format!("MIGRATE 127.0.0.1 {port} key 0 500"));
        assert!(refused.starts_with(why), "{certificate}: {refused}");
        assert_eq!(alpha.line("GET key"), "value", "{certificate}");
        // The certificate has no such name.
        if tls_cluster == "yes" {
            let refused = alpha.line(&format!("MIGRATE 127.0.0.2 {port} key 0 500"));
            assert!(refused.starts_with("-IOERR "), "{refused}");
        }
    }
}

/// The certificate must be that of the address which the map has.
#[test]
fn a_certificate_of_another_name_is_refused() {
    let files = Files::new();
    let own = files.flags(&["--bind=127.0.0.2", "--threads=1", "--tls-auth-clients=no"]);
    let target = Local::start(&own.iter().map(String::as_str).collect::<Vec<_>>());
    let trust = [files.flag("tls-ca-cert-file", "ca.pem"), "--tls-cluster=yes".into()];
    let source = Local::start(&[&trust[0], &trust[1], "--threads=1"]);
    let mut client = source.client();
    client.run("SET key value");
    let port = target.tls.expect("a port").port();
    let refused = client.line(&format!("MIGRATE 127.0.0.2 {port} key 0 5000"));
    assert!(
        refused.starts_with("-IOERR invalid peer certificate: certificate not valid for name"),
        "{refused}"
    );
    assert_eq!(client.line("EXISTS key"), ":1");
}

#[test]
fn authorities_are_needed() {
    let config = nunatak_server::Config::parse_from(["", "--port=0", "--tls-cluster=yes"]);
    let error = nunatak_server::Server::bind(config).expect_err("no authorities").to_string();
    assert!(error.contains("--tls-ca-cert-file"), "{error}");
}
