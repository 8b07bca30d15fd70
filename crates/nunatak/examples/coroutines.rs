//! Lookups of independent tasks with overlapped memory latencies. Each task prefetches its key,
//! yields, and looks the key up when its turn comes again (DLHT, section 3.3).
//!
//! ```sh
//! cargo run --release -p nunatak --example coroutines
//! ```

use nunatak::DlhtMap;
use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// How many keys the map has. In release builds the map exceeds the caches.
const KEYS: u64 = if cfg!(debug_assertions) { 1 << 12 } else { 1 << 23 };

/// Is ready when it is polled again. A task that awaits it lets the other tasks run once.
#[derive(Default)]
struct Yield {
    has_yielded: bool,
}

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.has_yielded, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// How many lookups all tasks do together.
const LOOKUPS: u64 = KEYS / 2;

/// A task as a user would write it: dependent requests in turn, like a walk through a graph. Each
/// request depends on the result of the one before.
async fn walk(map: &DlhtMap<u64, u64>, start: u64, steps: u64) -> u64 {
    let mut at = start;
    for _ in 0..steps {
        map.prefetch(&at);
        Yield::default().await;
        at = map.get(&at).unwrap_or(start);
    }
    at
}

/// Walks without prefetches and yields.
fn walk_alone(map: &DlhtMap<u64, u64>, start: u64, steps: u64) -> u64 {
    (0..steps).fold(start, |at, _| map.get(&at).unwrap_or(start))
}

/// Polls tasks in turn until all are done, as a minimal executor.
fn run_in_turn<F: Future<Output = u64>>(tasks: impl IntoIterator<Item = F>) -> u64 {
    let mut tasks: Vec<Pin<Box<F>>> = tasks.into_iter().map(Box::pin).collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut sum = 0;
    while !tasks.is_empty() {
        tasks.retain_mut(|task| match task.as_mut().poll(&mut context) {
            Poll::Ready(part) => {
                sum += part;
                false
            }
            Poll::Pending => true,
        });
    }
    sum
}

fn measure(what: &str, run: impl FnOnce() -> u64) -> u64 {
    let start = Instant::now();
    let sum = black_box(run());
    let rate = LOOKUPS as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("{what:>26}: {rate:5.1} million lookups a second");
    sum
}

fn main() {
    // The value of a key is a pseudorandom other key. All keys form one cycle.
    let next = |key: u64| key.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1) % KEYS;
    let map: DlhtMap<u64, u64> = (0..KEYS).map(|key| (key, next(key))).collect();
    for tasks in [1, 4, 8, 16, 32] {
        let steps = LOOKUPS / tasks;
        let alone = measure(&format!("{tasks} walks, one by one"), || {
            (0..tasks).map(|task| walk_alone(&map, task * 1001, steps)).sum()
        });
        let in_turn = measure(&format!("{tasks} walks, in turn"), || {
            run_in_turn((0..tasks).map(|task| walk(&map, task * 1001, steps)))
        });
        assert_eq!(alone, in_turn, "they came to the same ends");
    }
    // A walk that is polled alone takes a poll for each step, and one more.
    let mut single = pin!(walk(&map, 0, 3));
    let mut context = Context::from_waker(Waker::noop());
    let polls = (1..).find(|_| single.as_mut().poll(&mut context).is_ready());
    assert_eq!(polls, Some(4));
}
