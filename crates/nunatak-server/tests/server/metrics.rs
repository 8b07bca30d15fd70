//! The metrics, and hostile requests for them.

use crate::common::{Client, Local, Reply, read_to_end};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream
}

/// Returns the whole answer to a request.
pub(crate) fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = connect(address);
    // A server that has enough closes the connection; what it said is there, or a reset.
    let _ = stream.write_all(request);
    String::from_utf8(read_to_end(&mut stream)).expect("text")
}

/// Returns the metrics by their names with labels.
fn metrics(address: SocketAddr) -> HashMap<String, f64> {
    let text = ask(address, b"GET /metrics HTTP/1.1\r\nHost: me\r\n\r\n");
    let (head, body) = text.split_once("\r\n\r\n").expect("a body");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0"));
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
    assert!(body.ends_with("# EOF\n"));
    let mut found = HashMap::new();
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a value");
        let value = value.parse().expect("a number");
        assert!(found.insert(name.to_string(), value).is_none(), "{name} twice");
        let family = name.split('{').next().unwrap_or_default();
        let typed = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            words[..2] == ["#", "TYPE"] && family.starts_with(words[2])
        };
        assert!(body.lines().any(typed), "{name} has no type");
    }
    found
}

fn start(flags: &[&str]) -> Local {
    Local::start(&[&["--metrics-address=127.0.0.1:0"], flags].concat())
}

#[test]
fn metrics_count_what_happens() {
    let local = start(&["--threads=2", "--maxmemory=100mb", "--databases=3"]);
    let address = local.metrics.expect("an address");
    let mut client = local.client();
    let mut other = local.client();
    client.run("SELECT 2");
    for command in
        ["SET a 1", "SET b 1", "GET a", "GET c", "INCR a", "GET", "SET d 1 EX 1000", "SUBSCRIBE x"]
    {
        client.run(command);
    }
    assert_eq!(other.line("SET gone 1 PX 1"), "+OK");
    // The thread counts after it has answered. Each must be counted in the end.
    let expected: &[(&str, f64)] = &[
        ("nunatak_connected_clients", 2.0),
        ("nunatak_connections_total", 2.0),
        ("nunatak_connections_rejected_total", 0.0),
        ("nunatak_commands_processed_total", 10.0),
        ("nunatak_errors_total", 1.0),
        ("nunatak_keyspace_hits_total", 1.0),
        ("nunatak_keyspace_misses_total", 1.0),
        ("nunatak_expired_keys_total", 1.0),
        ("nunatak_evicted_keys_total", 0.0),
        ("nunatak_keys{db=\"0\"}", 0.0),
        ("nunatak_keys{db=\"1\"}", 0.0),
        ("nunatak_keys{db=\"2\"}", 3.0),
        ("nunatak_expiring_keys{db=\"0\"}", 0.0),
        ("nunatak_expiring_keys{db=\"2\"}", 1.0),
        ("nunatak_memory_max_bytes", f64::from(100 << 20)),
        ("nunatak_pubsub_channels", 1.0),
        ("nunatak_pubsub_patterns", 0.0),
        ("nunatak_command_calls_total{command=\"get\"}", 2.0),
        ("nunatak_command_failures_total{command=\"get\"}", 1.0),
        ("nunatak_command_duration_seconds_count{command=\"get\"}", 2.0),
        ("nunatak_command_duration_seconds_bucket{le=\"+Inf\",command=\"get\"}", 2.0),
        ("nunatak_batch_duration_seconds_count", 10.0),
        ("nunatak_batch_duration_seconds_bucket{le=\"+Inf\"}", 10.0),
    ];
    let mut found = HashMap::new();
    let differ = |found: &HashMap<String, f64>| {
        let is_other = |(name, value): &&(&str, f64)| found.get(*name) != Some(value);
        expected.iter().filter(is_other).map(|it| it.0.to_string()).collect::<Vec<_>>()
    };
    for _ in 0..3000 {
        found = metrics(address);
        if differ(&found).is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(differ(&found), Vec::<String>::new(), "{found:#?}");
    for name in [
        "nunatak_memory_used_bytes",
        "nunatak_memory_resident_bytes",
        "nunatak_network_received_bytes_total",
        "nunatak_network_sent_bytes_total",
        "nunatak_command_duration_seconds_sum{command=\"get\"}",
        "nunatak_batch_duration_seconds_sum",
    ] {
        assert!(found[name] > 0.0, "{name}");
    }
    assert!(found["nunatak_uptime_seconds"] >= 0.0);
    for (family, label) in [("batch", ""), ("command", ",command=\"get\"")] {
        let prefix = format!("nunatak_{family}_duration_seconds_bucket{{le=\"");
        let bound = |name: &str| {
            let (bound, rest) = name.strip_prefix(&prefix)?.split_once('"')?;
            (rest == format!("{label}}}")).then(|| bound.parse::<f64>().expect("a bound"))
        };
        let bounds = found.iter().filter_map(|(name, count)| Some((bound(name)?, *count)));
        let mut bounds: Vec<(f64, f64)> = bounds.collect();
        bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert_eq!(bounds.len(), 24, "{family}");
        assert!(bounds.windows(2).all(|two| two[0].1 <= two[1].1), "{bounds:?}");
    }
}

/// What is no request for metrics is refused.
#[test]
fn other_requests_are_refused() {
    let local = start(&["--threads=1"]);
    let address = local.metrics.expect("an address");
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("GET /metrics/../x HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200 OK"),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405 Method Not Allowed"),
        ("PING\r\n\r\n", "400 Bad Request"),
        ("*1\r\n$4\r\nPING\r\n", "400 Bad Request"),
        ("\0\u{1}\u{2}\r\n\r\n", "400 Bad Request"),
        (&many, "431 Request Header Fields Too Large"),
        (&long, "431 Request Header Fields Too Large"),
    ] {
        let answer = ask(address, request.as_bytes());
        let is_refused = answer.starts_with(&format!("HTTP/1.1 {status}\r\n"));
        // A client that sends more than is read may see a reset only.
        assert!(is_refused || answer.is_empty() && request.len() > 10_000, "{request}: {answer}");
    }
    let head = ask(address, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    // In pieces, it is the same request.
    let mut stream = connect(address);
    for piece in [&b"GET /met"[..], b"rics HTTP/1.1\r", b"\n\r", b"\n"] {
        stream.write_all(piece).expect("the server reads");
        std::thread::yield_now();
    }
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("an answer");
    assert!(all.starts_with("HTTP/1.1 200 OK\r\n"));
}

/// Connections that ask for nothing keep nobody from the metrics, and end by themselves.
#[test]
fn silent_connections_end() {
    let local = start(&["--threads=1"]);
    let address = local.metrics.expect("an address");
    let mut silent: Vec<TcpStream> = (0..100).map(|_| connect(address)).collect();
    for (number, stream) in silent.iter_mut().enumerate() {
        if number % 2 == 0 {
            // Some are closed already.
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost");
        }
    }
    assert!(metrics(address).contains_key("nunatak_connected_clients"));
    let ended = connect(address);
    ended.shutdown(Shutdown::Write).expect("a half-open connection");
    silent.push(ended);
    for mut stream in silent {
        assert_eq!(read_to_end(&mut stream), b"");
    }
    let mut client: Client = local.client();
    assert_eq!(client.run("PING"), Reply::Line("+PONG".into()));
}

/// `INFO` tells how many keys have a time to live, and how much they have left.
#[test]
fn keys_that_expire_are_told() {
    let local = Local::start(&["--threads=1"]);
    let mut client = local.client();
    // Waits for a walk over all keys that finds it so.
    let mut wait_for = |is_so: &dyn Fn(&str) -> bool| {
        let mut text = String::new();
        for _ in 0..500 {
            let Reply::Bulk(bytes) = client.run("INFO keyspace") else { panic!("a text") };
            text = String::from_utf8(bytes).expect("text");
            if is_so(&text) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{text}");
    };
    let mut other = local.client();
    for command in ["SET a 1", "SET b 1 EX 1000", "SET c 1 EX 3000"] {
        other.run(command);
    }
    wait_for(&|text| {
        let ttl = text.split("db0:keys=3,expires=2,avg_ttl=").nth(1);
        let ttl = ttl.and_then(|rest| rest.trim().parse::<u64>().ok());
        ttl.is_some_and(|ttl| (1_900_000..=2_000_000).contains(&ttl))
    });
    other.run("PERSIST b");
    other.run("DEL c");
    wait_for(&|text| text.contains("db0:keys=2,expires=0,avg_ttl=0\r\n"));
    other.run("FLUSHALL");
    wait_for(&|text| !text.contains("db0"));
}
