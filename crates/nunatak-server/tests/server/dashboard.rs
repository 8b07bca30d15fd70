//! The dashboard: its page, and the figures that it draws.

use crate::common::Local;
use crate::metrics::ask;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;

/// Returns the head and the body of an answer.
fn get(address: SocketAddr, target: &str) -> (String, String) {
    let answer = ask(address, format!("GET {target} HTTP/1.1\r\nHost: me\r\n\r\n").as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    (head.into(), body.into())
}

fn figures(address: SocketAddr, query: &str) -> Value {
    let (head, body) = get(address, &format!("/dashboard.json{query}"));
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"), "{head}");
    serde_json::from_str(&body).expect("JSON")
}

/// Waits for the next sample, and returns all figures.
fn after_a_sample(address: SocketAddr) -> Value {
    let before = figures(address, "")["next"].as_u64();
    for _ in 0..6000 {
        let told = figures(address, "");
        if told["next"].as_u64() > before {
            return told;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no sample");
}

#[test]
fn the_dashboard_tells_what_happens() {
    let local = Local::start(&["--threads=2", "--databases=2", "--dashboard=127.0.0.1:0"]);
    let address = local.dashboard.expect("an address");
    let mut client = local.client();
    for command in ["SET a 1", "GET a", "GET a", "GET b", "GET", "SELECT 1", "SET c 1"] {
        client.run(command);
    }
    // Samples may have been taken meanwhile; all of them together have all commands.
    let told = after_a_sample(address);
    let all = told["samples"].as_array().expect("samples");
    let last = all.last().expect("a sample");
    let sum = |of: &dyn Fn(&Value) -> f64| all.iter().map(of).sum::<f64>();
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    assert!(sum(&|sample| number(&sample["commands"]["get"]["calls"])) > 0.0, "{told}");
    for field in ["requests", "hits", "misses", "received", "sent", "errors", "memory"] {
        assert!(sum(&|sample| number(&sample[field])) > 0.0, "{field}: {told}");
    }
    for field in ["evicted", "expired", "log"] {
        assert!(sum(&|sample| number(&sample[field])) == 0.0, "{field}: {told}");
    }
    assert_eq!([&last["keys"], &last["clients"]], [2, 1]);
    let is_told = |latency: &Value| latency.as_array().is_some_and(|it| it.len() == 3);
    assert!(all.iter().any(|sample| is_told(&sample["latency"])), "{told}");
    assert!(all.iter().any(|sample| is_told(&sample["commands"]["set"]["latency"])), "{told}");
    assert_eq!(told["commands"]["get"], serde_json::json!([3, 1]));
    assert_eq!(told["databases"], serde_json::json!({"0": 1, "1": 1}));
    assert_eq!((&told["port"], &told["file"]), (&local.address.port().into(), &Value::Null));
    // A page asks for what it has not, and for all if another server told it its number.
    let next = told["next"].as_u64().expect("a number");
    let later = figures(address, &format!("?since={next}"));
    let more = later["next"].as_u64().expect("a number") - next;
    assert_eq!(later["samples"].as_array().map(Vec::len), Some(more as usize));
    for query in ["?since=1000000", "?since=x", "?x&since=0"] {
        let told = figures(address, query);
        assert_eq!(
            told["samples"].as_array().map(Vec::len),
            told["next"].as_u64().map(|it| it as usize)
        );
        assert_eq!(told["run"], later["run"]);
    }
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    let local = Local::start(&["--threads=1", "--dashboard=127.0.0.1:0"]);
    let address = local.dashboard.expect("an address");
    let (head, page) = get(address, "/");
    for header in [
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8",
        "\r\nContent-Security-Policy: default-src 'none'; ",
        "\r\nCache-Control: no-store",
    ] {
        assert!(head.contains(header), "{head}");
    }
    let names = "http://www.w3.org/2000/svg";
    let loads = ["http:", "https:", "//www", "src=", "@import", "innerHTML"];
    let page = page.replace(names, "");
    assert!(loads.iter().all(|word| !page.contains(word)));
    for (target, status) in [("/metrics", "404"), ("/index.html", "404"), ("/?x", "200")] {
        assert!(get(address, target).0.starts_with(&format!("HTTP/1.1 {status} ")), "{target}");
    }
    let posted = ask(address, b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
    assert!(posted.starts_with("HTTP/1.1 405 ") && posted.contains("\r\nAllow: GET, HEAD\r\n"));
    // At the same address as the metrics, both are there.
    let both = Local::start(&["--metrics-address=127.0.0.1:0", "--dashboard=127.0.0.1:0"]);
    assert_eq!(both.metrics, both.dashboard);
    for target in ["/", "/metrics", "/dashboard.json"] {
        let (head, _) = get(both.dashboard.expect("an address"), target);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{target}");
    }
}
