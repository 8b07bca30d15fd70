//! Compares the hit rates of caches on traces of requests: a get, and an insert if it misses.
//!
//! ```sh
//! cargo run --release -p nunatak-cache --example hit_rates
//! ```
//!
//! `belady` evicts the key that is needed last: no cache can do better. `lru` and `sieve` are
//! simulated, to show what the choice of the algorithm changes.

mod shared;
#[path = "hit_rates/simulated.rs"]
mod simulated;

use shared::{Random, Zipf};

const KEYS: usize = 200_000;
const REQUESTS: usize = 2_000_000;

/// A cache that is asked for keys: returns whether the key was there, and stores it otherwise.
trait Asked {
    fn ask(&mut self, key: u64) -> bool;
}

impl Asked for nunatak_cache::Cache<u64, u64> {
    fn ask(&mut self, key: u64) -> bool {
        let hit = self.get(&key).is_some();
        if !hit {
            self.insert(key, key);
        }
        hit
    }
}

impl Asked for moka::sync::Cache<u64, u64> {
    fn ask(&mut self, key: u64) -> bool {
        let hit = self.get(&key).is_some();
        if !hit {
            self.insert(key, key);
        }
        hit
    }
}

impl Asked for quick_cache::sync::Cache<u64, u64> {
    fn ask(&mut self, key: u64) -> bool {
        let hit = self.get(&key).is_some();
        if !hit {
            self.insert(key, key);
        }
        hit
    }
}

fn zipf(skew: f64) -> Vec<u64> {
    let (zipf, mut random) = (Zipf::new(KEYS, skew), Random(1));
    (0..REQUESTS).map(|_| zipf.key(&mut random)).collect()
}

/// Skewed requests, interrupted by scans of new keys: a third of all requests.
fn scanned(skew: f64) -> Vec<u64> {
    let (zipf, mut random) = (Zipf::new(KEYS, skew), Random(2));
    let mut new_keys = KEYS as u64..;
    let mut requests = Vec::with_capacity(REQUESTS);
    while requests.len() < REQUESTS {
        requests.extend((0..20_000).map(|_| zipf.key(&mut random)));
        requests.extend(new_keys.by_ref().take(10_000));
    }
    requests
}

/// The same keys again and again, in order.
fn looped(keys: u64) -> Vec<u64> {
    (0..keys).cycle().take(REQUESTS).collect()
}

/// A loop, and skewed requests of other keys: half of each.
fn looped_and_skewed(keys: u64, skew: f64) -> Vec<u64> {
    let (zipf, mut random) = (Zipf::new(KEYS, skew), Random(3));
    let looped = (0..keys).cycle().map(|key| key + KEYS as u64);
    looped.take(REQUESTS / 2).flat_map(|key| [key, zipf.key(&mut random)]).collect()
}

/// Popular keys change: every tenth of the trace has others.
fn shifting(skew: f64) -> Vec<u64> {
    let (zipf, mut random) = (Zipf::new(KEYS, skew), Random(4));
    let request = |i: usize| {
        let shift = (i / (REQUESTS / 10) * 7919) as u64;
        (zipf.key(&mut random) + shift) % KEYS as u64
    };
    (0..REQUESTS).map(request).collect()
}

fn hit_rate(mut cache: impl Asked, trace: &[u64]) -> f64 {
    trace.iter().filter(|key| cache.ask(**key)).count() as f64 / trace.len() as f64 * 100.0
}

fn main() {
    let loop_keys = KEYS as u64 / 50;
    let traces = [
        ("zipf 0.6", zipf(0.6)),
        ("zipf 0.9", zipf(0.9)),
        ("zipf 1.0", zipf(1.0)),
        ("zipf 1.2", zipf(1.2)),
        ("zipf 0.9, scans", scanned(0.9)),
        ("zipf 1.2, scans", scanned(1.2)),
        ("zipf 1.0, shifting", shifting(1.0)),
        ("loop", looped(loop_keys)),
        ("loop, zipf 1.0", looped_and_skewed(loop_keys, 1.0)),
    ];
    println!(
        "Hits in percent: {KEYS} keys (loop: {loop_keys}), {REQUESTS} requests, one thread.\n"
    );
    println!("| trace | entries | nunatak-cache | moka | quick_cache | sieve | lru | belady |");
    println!("|---|---|---|---|---|---|---|---|");
    for (name, trace) in &traces {
        for entries in [KEYS / 1000, KEYS / 100, KEYS / 10] {
            let capacity = entries as u64;
            let rates = [
                hit_rate(nunatak_cache::Cache::new(capacity), trace),
                hit_rate(moka::sync::Cache::new(capacity), trace),
                hit_rate(quick_cache::sync::Cache::new(entries), trace),
                hit_rate(simulated::Sieve::new(entries), trace),
                hit_rate(simulated::Lru::new(entries), trace),
                simulated::belady(trace, entries) * 100.0,
            ];
            print!("| {name} | {entries} |");
            rates.iter().for_each(|rate| print!(" {rate:.1} |"));
            println!();
        }
    }
}
