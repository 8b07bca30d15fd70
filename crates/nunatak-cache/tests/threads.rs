//! Many threads, and what must hold meanwhile and afterwards.

use nunatak_cache::{Builder, Cache, Cause, ManualClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::scope;
use std::time::Duration;

const THREADS: u64 = 4;
const STEPS: u64 = 60_000;

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A value tells its key, its weight, and how many values there are.
struct Value {
    key: u64,
    weight: u64,
    alive: Arc<AtomicU64>,
}

impl Value {
    fn new(key: u64, weight: u64, alive: &Arc<AtomicU64>) -> Self {
        alive.fetch_add(1, Relaxed);
        Self { key, weight, alive: alive.clone() }
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        Self::new(self.key, self.weight, &self.alive)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Relaxed);
    }
}

fn stress(capacity: u64, keys: u64, heaviest: u64, shards: usize, times: bool) {
    let clock = Arc::new(ManualClock::new());
    let alive = Arc::new(AtomicU64::new(0));
    let told: Arc<[AtomicU64; 4]> = Arc::default();
    let listener = {
        let told = told.clone();
        move |key: &u64, value: &Value, cause: Cause| {
            assert_eq!(*key, value.key);
            told[cause as usize].fetch_add(1, Relaxed);
        }
    };
    let mut builder = Builder::new(capacity).shards(shards).clock(clock.clone()).listener(listener);
    if heaviest > 1 {
        builder = builder.weigher(|_, value: &Value| value.weight);
    }
    if times {
        builder =
            builder.time_to_live(Duration::from_nanos(500)).time_to_idle(Duration::from_nanos(200));
    }
    let cache: Cache<u64, Value> = builder.build();
    let refused = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    scope(|scope| {
        let (cache, clock, alive, refused) = (&cache, &clock, &alive, &refused);
        let steps = move |thread: u64| {
            let mut state = thread;
            for _ in 0..STEPS {
                let number = random(&mut state);
                let key = (number >> 32) % keys;
                let value = || Value::new(key, (number >> 20) % heaviest + 1, alive);
                match number % 16 {
                    0..5 => assert!(cache.get(&key).is_none_or(|value| value.key == key)),
                    5..9 => cache.insert(key, value()),
                    9 => cache.insert_with_ttl(key, value(), Duration::from_nanos(number >> 54)),
                    10 => assert!(cache.remove(&key).is_none_or(|value| value.key == key)),
                    11 => drop(cache.remove_if(&key, |_, value| value.weight.is_multiple_of(2))),
                    12 | 13 => assert_eq!(cache.get_or_insert_with(&key, value).key, key),
                    14 => {
                        let made = cache.get_or_try_insert_with(&key, || match number >> 63 {
                            0 => Ok(value()),
                            _ => Err(()),
                        });
                        refused.fetch_add(made.is_err().into(), Relaxed);
                    }
                    _ if number >> 58 == 0 => cache.retain(|key, _| key % 4 != number % 4),
                    _ => clock.advance(Duration::from_nanos(1)),
                }
                assert!(cache.weight() <= capacity);
            }
        };
        let watch = scope.spawn(|| {
            while !done.load(Relaxed) {
                assert!(cache.weight() <= capacity);
                // A thread may have one entry that is not counted, inside of an insert.
                let guard = cache.pin();
                assert!(guard.iter().all(|(key, value)| *key == value.key));
                std::thread::yield_now();
            }
        });
        let threads: Vec<_> = (1..=THREADS).map(|i| scope.spawn(move || steps(i))).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("a thread's assertions"));
        done.store(true, Relaxed);
        watch.join().expect("the watcher's assertions");
    });
    // The counted weight is that of the entries: every place was freed once.
    let weights: u64 = cache.pin().iter().map(|(_, value)| value.weight).sum();
    if !times {
        cache.run_pending();
    }
    clock.advance(Duration::from_secs(1));
    cache.run_pending();
    let left = cache.pin().iter().map(|(_, value)| value.weight).sum::<u64>();
    assert!(left <= weights);
    assert_eq!(cache.weight(), if heaviest > 1 { left } else { cache.len() as u64 });
    let stats = cache.stats();
    let by_cause = [stats.expired, stats.replaced, stats.evicted, stats.removed];
    assert_eq!(by_cause, told.each_ref().map(|count| count.load(Relaxed)));
    // What was stored is there or has left. (What was refused has left without being stored.)
    assert!(by_cause.iter().sum::<u64>() + cache.len() as u64 >= stats.insertions);
    assert!(stats.insertions > 1000 && stats.failed_computations >= refused.load(Relaxed));
    assert_eq!(alive.load(Relaxed), cache.len() as u64, "values that left are dropped");
    drop(cache);
    assert_eq!(alive.load(Relaxed), 0);
}

#[test]
fn few_keys_in_a_tiny_cache() {
    stress(4, 8, 1, 1, false);
}

#[test]
fn one_entry() {
    stress(1, 3, 1, 1, true);
}

#[test]
fn many_keys_and_shards() {
    stress(500, 2000, 1, 8, false);
}

#[test]
fn weights() {
    stress(1000, 200, 30, 4, false);
}

#[test]
fn weights_that_mostly_do_not_fit_together() {
    stress(40, 20, 30, 2, true);
}

#[test]
fn times() {
    stress(300, 400, 1, 2, true);
}

/// A thread that inserts rising values of a key, with evictions and removals around it: another one
/// never sees a value fall.
#[test]
fn values_never_go_back() {
    let cache: Cache<u64, u64> = Builder::new(8).shards(1).build();
    let done = AtomicBool::new(false);
    scope(|scope| {
        let reader = scope.spawn(|| {
            let mut newest = 0;
            while !done.load(Relaxed) {
                if let Some(value) = cache.get(&1) {
                    assert!(value >= newest, "{value} after {newest}");
                    newest = value;
                }
            }
        });
        let crowd = scope.spawn(|| {
            let mut state = 1;
            while !done.load(Relaxed) {
                let key = random(&mut state) % 12;
                if key == 1 { _ = cache.remove(&1) } else { cache.insert(key, 0) }
            }
        });
        (1..200_000).for_each(|value| cache.insert(1, value));
        done.store(true, Relaxed);
        reader.join().expect("the reader's assertions");
        crowd.join().expect("the crowd");
    });
    assert_eq!(cache.len() as u64, cache.weight());
}
