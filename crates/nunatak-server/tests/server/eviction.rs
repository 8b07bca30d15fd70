//! Which keys make room when memory is full.

use crate::common::{Client, Local, Reply, encode};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, HashMap};

/// How many keys are asked for.
const UNIVERSE: f64 = 100_000.0;
const ASKED: usize = 150_000;

/// Returns a key; few are asked for often (about as a Zipf distribution of exponent 1).
fn draw(random: &mut StdRng) -> u64 {
    UNIVERSE.powf(random.random::<f64>()) as u64
}

/// Uses a server as a cache: what is missed is stored. Returns the share of hits in the second half, and
/// how many keys there are at the end.
fn hits(policy: &str) -> (f64, usize) {
    let server = Local::start(&[
        "--threads=1",
        "--maxmemory=600kb",
        &format!("--maxmemory-policy={policy}"),
    ]);
    let mut client = server.client();
    let (mut random, mut hits) = (StdRng::seed_from_u64(1), 0);
    for batch in 0..ASKED / 100 {
        let keys: Vec<u64> = (0..100).map(|_| draw(&mut random)).collect();
        let gets: Vec<u8> =
            keys.iter().flat_map(|key| encode(&["GET".into(), format!("key:{key}")])).collect();
        client.send(&gets);
        let missed: Vec<u64> =
            keys.iter().copied().filter(|_| !matches!(client.read(), Reply::Bulk(_))).collect();
        if batch >= ASKED / 200 {
            hits += keys.len() - missed.len();
        }
        let set = |key: &u64| encode(&["SET".into(), format!("key:{key}"), "v".repeat(32)]);
        client.send(&missed.iter().flat_map(set).collect::<Vec<u8>>());
        for _ in &missed {
            assert_eq!(client.read(), Reply::Line("+OK".into()));
        }
    }
    let keys = client.line("DBSIZE")[1..].parse().expect("a number");
    (hits as f64 / (ASKED / 2) as f64, keys)
}

/// The share of hits of a cache that knows the order of all uses.
fn hits_of_exact_lru(capacity: usize) -> f64 {
    let (mut last, mut order, mut hits) = (HashMap::new(), BTreeMap::new(), 0);
    let mut random = StdRng::seed_from_u64(1);
    for at in 0..ASKED {
        let key = draw(&mut random);
        if let Some(before) = last.insert(key, at) {
            order.remove(&before);
            hits += usize::from(at >= ASKED / 2);
        }
        order.insert(at, key);
        if order.len() > capacity
            && let Some((_, oldest)) = order.pop_first()
        {
            last.remove(&oldest);
        }
    }
    hits as f64 / (ASKED / 2) as f64
}

#[test]
fn keys_that_are_used_stay() {
    let (random, _) = hits("allkeys-random");
    let (lru, keys) = hits("allkeys-lru");
    let (lfu, _) = hits("allkeys-lfu");
    let exact = hits_of_exact_lru(keys);
    println!(
        "hits: random {random:.3}, LRU {lru:.3} of {keys} keys, exact LRU {exact:.3}, LFU {lfu:.3}"
    );
    assert!(lru > 0.97 * exact && lru > random, "{random} {lru} {exact}");
    assert!(lfu > lru, "{lfu} {lru}");
}

#[test]
fn keys_that_do_not_expire_stay_if_the_policy_says_so() {
    for policy in ["volatile-lru", "volatile-lfu", "volatile-ttl", "volatile-random"] {
        let server = Local::start(&["--threads=1", &format!("--maxmemory-policy={policy}")]);
        let mut client = server.client();
        for key in 0..1000 {
            client.run(&format!("SET stays:{key} x"));
            client.run(&format!("SET goes:{key} x EX 1000"));
        }
        client.run("CONFIG SET maxmemory 60kb");
        // Each change makes room for a while, before it may be refused.
        for _ in 0..200 {
            client.run("SET stays:0 x");
        }
        let count = |client: &mut Client, prefix| match client.run(&format!("KEYS {prefix}:*")) {
            Reply::Many(_, keys) => keys.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(count(&mut client, "stays"), 1000, "{policy}");
        let left = count(&mut client, "goes");
        assert!(left < 900, "{policy}: {left}");
    }
}

#[test]
fn the_last_use_is_told() {
    let server =
        Local::start(&["--threads=1", "--maxmemory=1mb", "--maxmemory-policy=allkeys-lfu"]);
    let mut client = server.client();
    client.run("SET key x");
    for _ in 0..500 {
        client.run("GET key");
    }
    let count: i64 = client.line("OBJECT FREQ key")[1..].parse().expect("a number");
    assert!((8..60).contains(&count), "{count}");
    assert!(
        client.line("OBJECT IDLETIME key").starts_with("-ERR An LFU maxmemory policy is selected")
    );
    client.run("CONFIG SET maxmemory-policy allkeys-lru");
    client.run("GET key");
    assert_eq!(client.line("OBJECT IDLETIME key"), ":0");
    assert!(
        client.line("OBJECT FREQ key").starts_with("-ERR An LFU maxmemory policy is not selected")
    );
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let idle: i64 = client.line("OBJECT IDLETIME key")[1..].parse().expect("a number");
    assert!(idle >= 2, "{idle}");
}
