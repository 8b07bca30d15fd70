//! Compares the throughput of caches on mixes of operations.
//!
//! ```sh
//! cargo run --release -p nunatak-cache --example throughput
//! ```
//!
//! Rounds of the caches take turns, so that a slow moment of the machine hits all of them. The table
//! has medians. The keys are skewed (Zipf 1.0) and drawn beforehand. `hits` reads keys that are all
//! there. `hits of 8 keys` is what popular keys do to each other. The mixes are gets and inserts of skewed keys, of which a tenth fits.

mod shared;

use shared::{Random, Zipf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

const KEYS: usize = 1_000_000;
const CAPACITY: usize = KEYS / 10;
const DRAWN: usize = 1 << 20;
const ROUNDS: usize = 11;
const ROUND: Duration = Duration::from_millis(200);

/// What is measured of a cache.
trait Measured: Sync {
    fn get(&self, key: u64) -> Option<u64>;
    fn insert(&self, key: u64, value: u64);
}

macro_rules! measured {
    ($($cache:ty),*) => {$(
        impl Measured for $cache {
            #[inline]
            fn get(&self, key: u64) -> Option<u64> {
                self.get(&key)
            }

            #[inline]
            fn insert(&self, key: u64, value: u64) {
                self.insert(key, value);
            }
        }
    )*};
}

measured!(
    nunatak_cache::Cache<u64, u64>,
    moka::sync::Cache<u64, u64>,
    quick_cache::sync::Cache<u64, u64>
);

#[derive(Clone, Copy)]
enum Mix {
    /// Gets of keys that are all there.
    Hits,
    /// Gets of the eight keys that are the most popular.
    Popular,
    /// Of a hundred operations, so many are inserts.
    Inserts(u64),
    /// A get, and an insert if it misses.
    ReadThrough,
}

/// Runs a mix for a round. Returns millions of operations a second.
fn round(cache: &impl Measured, threads: usize, mix: Mix, keys: &[u64], present: &[u64]) -> f64 {
    let barrier = Barrier::new(threads);
    let run = |thread: usize| {
        let mut random = Random(thread as u64);
        let keys = if matches!(mix, Mix::Hits) { present } else { keys };
        let mut at = random.next() as usize % keys.len();
        let mut operations = 0_u64;
        let mut found = 0_u64;
        barrier.wait();
        let began = Instant::now();
        while began.elapsed() < ROUND {
            for _ in 0..1000 {
                at = if at + 1 == keys.len() { 0 } else { at + 1 };
                let key = if matches!(mix, Mix::Popular) { keys[at] % 8 } else { keys[at] };
                match mix {
                    Mix::Inserts(of_100) if random.next() % 100 < of_100 => cache.insert(key, key),
                    Mix::ReadThrough => match cache.get(key) {
                        Some(value) => found ^= value,
                        None => cache.insert(key, key),
                    },
                    _ => found ^= cache.get(key).unwrap_or(0),
                }
            }
            operations += 1000;
        }
        std::hint::black_box(found);
        operations as f64 / began.elapsed().as_secs_f64() / 1e6
    };
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..threads).map(|i| scope.spawn(move || run(i))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a round")).sum()
    })
}

/// Returns the drawn keys that a full cache has, in a random order.
fn present(cache: &impl Measured, keys: &[u64]) -> Vec<u64> {
    keys.iter().copied().filter(|key| cache.get(*key).is_some()).collect()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let (zipf, mut random) = (Zipf::new(KEYS, 1.0), Random(7));
    let keys: Vec<u64> = (0..DRAWN).map(|_| zipf.key(&mut random)).collect();
    let ours: nunatak_cache::Cache<u64, u64> = nunatak_cache::Cache::new(CAPACITY as u64);
    let uncounted: nunatak_cache::Cache<u64, u64> =
        nunatak_cache::Builder::new(CAPACITY as u64).count(false).build();
    let moka: moka::sync::Cache<u64, u64> = moka::sync::Cache::new(CAPACITY as u64);
    let quick: quick_cache::sync::Cache<u64, u64> = quick_cache::sync::Cache::new(CAPACITY);
    println!(
        "Millions of operations a second: {KEYS} keys, {CAPACITY} entries, medians of {ROUNDS} \
         rounds.\n"
    );
    println!("| mix | threads | nunatak-cache | without counters | moka | quick_cache |");
    println!("|---|---|---|---|---|---|");
    let mixes = [
        ("hits", Mix::Hits),
        ("hits of 8 keys", Mix::Popular),
        ("95 % gets", Mix::Inserts(5)),
        ("50 % gets", Mix::Inserts(50)),
        ("read through", Mix::ReadThrough),
    ];
    for (name, mix) in mixes {
        for threads in [1, 2] {
            let mut figures: [Vec<f64>; 4] = Default::default();
            macro_rules! measure {
                ($($at:literal $cache:ident)*) => {
                    $(
                        // Filled, and warm.
                        keys.iter().for_each(|key| Measured::insert(&$cache, *key, *key));
                        let there = present(&$cache, &keys);
                        round(&$cache, threads, mix, &keys, &there);
                        let $cache = (&$cache, there);
                    )*
                    for _ in 0..ROUNDS {
                        $(
                            let (cache, there) = &$cache;
                            figures[$at].push(round(*cache, threads, mix, &keys, there));
                        )*
                    }
                };
            }
            measure!(0 ours 1 uncounted 2 moka 3 quick);
            print!("| {name} | {threads} |");
            figures.into_iter().for_each(|figures| print!(" {:.1} |", median(figures)));
            println!();
        }
    }
}
