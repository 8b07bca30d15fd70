//! What replaced entries cost: while a guard is held, and beside a thread that reads.
//!
//! ```sh
//! cargo run --release -p nunatak --example retired_entries
//! ```
//!
//! A replaced entry of a boxed map waits until no guard can see it ("What a guard costs others" in
//! `docs/guards.md`). The keys fit into the caches, so nothing hides what the waiting costs.

use nunatak::DlhtBoxedMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const KEYS: u64 = 1000;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(1);

fn filled() -> DlhtBoxedMap<u64, u64> {
    (0..KEYS).map(|key| (key, key)).collect()
}

/// Returns nanoseconds for each replacement.
fn replace_under_a_guard(replacements: u64) -> f64 {
    let map = filled();
    let guard = map.pin();
    let began = Instant::now();
    // Another thread's changes, since a guard is its thread's own.
    std::thread::scope(|scope| {
        scope.spawn(|| (0..replacements).for_each(|i| _ = map.insert(i % KEYS, i)));
    });
    let time = began.elapsed();
    drop(guard);
    time.as_nanos() as f64 / replacements as f64
}

/// Runs an operation with numbers that go up, until `ended`. Returns how often.
fn repeat(ended: &AtomicBool, mut operation: impl FnMut(u64)) -> u64 {
    let mut count = 0;
    while !ended.load(Relaxed) {
        (count..count + 64).for_each(&mut operation);
        count += 64;
    }
    count
}

/// Returns millions of replacements and of gets a second.
fn replace_beside_gets() -> (f64, f64) {
    let (map, ended) = (filled(), AtomicBool::new(false));
    let (replaced, read) = std::thread::scope(|scope| {
        // Factors without a divisor of `KEYS`: all keys, not one after the other.
        let writer =
            scope.spawn(|| repeat(&ended, |i| _ = map.insert(i.wrapping_mul(7919) % KEYS, i)));
        let reader = scope.spawn(|| {
            repeat(&ended, |i| _ = black_box(map.get(&(i.wrapping_mul(104_729) % KEYS))))
        });
        std::thread::sleep(ROUND);
        ended.store(true, Relaxed);
        (writer.join().expect("it does not panic"), reader.join().expect("it does not panic"))
    });
    let millions = |count: u64| count as f64 / ROUND.as_secs_f64() / 1e6;
    (millions(replaced), millions(read))
}

fn main() {
    for replacements in [50_000, 100_000, 200_000, 1_000_000] {
        let nanos = replace_under_a_guard(replacements);
        println!("{replacements} replacements under a held guard: {nanos:.0} ns each");
    }
    for _ in 0..ROUNDS {
        let (replaced, read) = replace_beside_gets();
        println!("beside each other: {replaced:.1} M replacements/s, {read:.1} M gets/s");
    }
}
