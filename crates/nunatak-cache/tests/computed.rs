//! One computation for all who ask at the same time.

use nunatak_cache::Cache;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{scope, sleep};
use std::time::Duration;

/// Long enough for a thread to begin to wait. (If it is not, a test checks less.)
const MOMENT: Duration = Duration::from_millis(30);

fn cache() -> Cache<String, u64> {
    Cache::new(100)
}

#[test]
fn all_threads_get_the_value_of_one_computation() {
    let (cache, computed, barrier) = (cache(), AtomicUsize::new(0), Barrier::new(8));
    scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for round in 0..50 {
                    barrier.wait();
                    let value = cache.get_or_insert_with(&round.to_string(), || {
                        sleep(Duration::from_micros(200));
                        computed.fetch_add(1, Relaxed);
                        round
                    });
                    assert_eq!(value, round);
                }
            });
        }
    });
    assert_eq!(computed.load(Relaxed), 50);
    let stats = cache.stats();
    assert_eq!((stats.computations, stats.failed_computations, stats.insertions), (50, 0, 50));
    assert_eq!(stats.hits + stats.misses, 400);
}

/// A value that no one can store reaches all who wait, too.
#[test]
fn those_who_wait_get_a_value_that_is_not_stored() {
    let (cache, computed) = (Cache::<u64, u64>::new(0), AtomicUsize::new(0));
    let (began, begun) = channel();
    scope(|scope| {
        let (cache, computed) = (&cache, &computed);
        let compute = move || computed.fetch_add(1, Relaxed) as u64;
        scope.spawn(move || {
            cache.get_or_insert_with(&1, || {
                began.send(()).unwrap();
                sleep(MOMENT);
                compute()
            })
        });
        begun.recv().unwrap();
        assert_eq!(cache.get_or_insert_with(&1, compute), 0);
    });
    assert_eq!(cache.len(), 0);
}

#[test]
fn after_a_failure_one_who_waits_tries() {
    for panics in [false, true] {
        let (cache, attempts, barrier) = (cache(), AtomicUsize::new(0), Barrier::new(4));
        let results: Vec<_> = scope(|scope| {
            let ask = || {
                barrier.wait();
                catch_unwind(AssertUnwindSafe(|| {
                    cache.get_or_try_insert_with("a", || {
                        sleep(MOMENT);
                        match attempts.fetch_add(1, Relaxed) {
                            0 if panics => panic!("a computation that panics"),
                            0 => Err("the first one fails"),
                            _ => Ok(7),
                        }
                    })
                }))
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(attempts.load(Relaxed), 2);
        assert_eq!(results.iter().filter(|result| matches!(result, Ok(Ok(7)))).count(), 3);
        assert_eq!(cache.stats().failed_computations, 1);
    }
}

#[test]
fn a_computation_that_asks_for_its_own_key_panics() {
    let cache = cache();
    let own = catch_unwind(AssertUnwindSafe(|| {
        cache.get_or_insert_with("a", || cache.get_or_insert_with("a", || 1))
    }));
    let message = *own.unwrap_err().downcast::<&str>().unwrap();
    assert!(message.contains("asks the cache for its own key"), "{message}");
    // Nothing is left of it, and other keys can be asked for, and asked for in turn.
    let (b, c) = ("b", "c");
    let deep = cache.get_or_insert_with("a", || {
        cache.get_or_insert_with(b, || cache.get_or_insert_with(c, || 5) + 1) + 1
    });
    assert_eq!(deep, 7);
    let asleep = catch_unwind(AssertUnwindSafe(|| {
        let inner = async || cache.get_or_insert_async("d", async || 1).await;
        ready(cache.get_or_insert_async("d", inner))
    }));
    assert!(asleep.is_err());
    assert_eq!(cache.peek("d"), None);
}

#[test]
fn a_value_that_is_older_than_a_change_is_not_stored() {
    type Change = fn(&Cache<String, u64>);
    let changes: [(Change, Option<u64>, u64); 6] = [
        (|cache| _ = cache.remove("a"), None, 1),
        (|cache| _ = cache.invalidate("a"), None, 1),
        (|cache| cache.clear(), None, 1),
        // The newer value stays, and is returned.
        (|cache| cache.insert("a".into(), 2), Some(2), 2),
        (
            |cache| {
                cache.insert("a".into(), 2);
                cache.remove("a");
            },
            None,
            1,
        ),
        // Of another key: no matter.
        (|cache| _ = cache.remove("b"), Some(1), 1),
    ];
    for (number, (change, stored, returned)) in changes.into_iter().enumerate() {
        let cache = cache();
        let value = cache.get_or_insert_with("a", || {
            change(&cache);
            1
        });
        assert_eq!((value, cache.peek("a")), (returned, stored), "change {number}");
        assert_eq!(cache.len() as u64, cache.weight());
        assert_eq!(cache.get_or_insert_with("a", || 3), stored.unwrap_or(3));
    }
}

/// As above; the newer value is evicted before the computation ends.
#[test]
fn a_value_that_is_older_than_an_evicted_one_is_not_stored() {
    let cache: Cache<u64, u64> = Cache::new(1);
    let value = cache.get_or_insert_with(&1, || {
        cache.insert(1, 2);
        cache.insert(3, 0);
        1
    });
    assert_eq!((value, cache.peek(&1)), (1, None));
}

/// Keys are incremented "in the database" and then removed from the cache. A get never returns a
/// value from before a removal that had returned.
#[test]
fn a_removed_value_never_comes_back() {
    let (cache, database) = (Cache::<u64, usize>::new(100), AtomicUsize::new(0));
    scope(|scope| {
        for reader in 0..2 {
            let (cache, database) = (&cache, &database);
            scope.spawn(move || {
                let mut newest = 0;
                while newest < 5_000 {
                    let value = cache.get_or_insert_with(&1, || {
                        let value = database.load(Relaxed);
                        if value % 16 == reader {
                            std::thread::yield_now();
                        }
                        value
                    });
                    // Removals return in order, so values only grow.
                    assert!(value >= newest, "{value} after {newest}");
                    newest = value;
                }
            });
        }
        for _ in 0..5_000 {
            database.fetch_add(1, Relaxed);
            cache.invalidate(&1);
            let now = database.load(Relaxed);
            assert!(cache.peek(&1).is_none_or(|value| value >= now), "older than its removal");
            std::thread::yield_now();
        }
    });
}

/// Polls a future that must be ready at once.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future waits"),
    }
}

struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A task, which is polled by hand.
struct Task<'f, T> {
    future: Pin<Box<dyn Future<Output = T> + 'f>>,
    wakes: Arc<Counter>,
}

impl<'f, T> Task<'f, T> {
    fn new(future: impl Future<Output = T> + 'f) -> Self {
        Self { future: Box::pin(future), wakes: Arc::new(Counter(AtomicUsize::new(0))) }
    }

    fn poll(&mut self) -> Poll<T> {
        let waker = Waker::from(self.wakes.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(Relaxed)
    }
}

/// A future that waits until a value is sent.
async fn received(values: std::sync::mpsc::Receiver<Result<u64, String>>) -> Result<u64, String> {
    std::future::poll_fn(move |_| values.try_recv().map_or(Poll::Pending, Poll::Ready)).await
}

#[test]
fn futures_wait_for_one_of_them() {
    let (cache, (send, receive)) = (cache(), sync_channel(1));
    let mut first = Task::new(cache.get_or_try_insert_async("a", || received(receive)));
    let never = || -> std::future::Ready<Result<u64, String>> { unreachable!("one computes") };
    let mut others: Vec<_> =
        (0..3).map(|_| Task::new(cache.get_or_try_insert_async("a", never))).collect();
    assert!(first.poll().is_pending());
    assert!(others.iter_mut().all(|task| task.poll().is_pending() && task.poll().is_pending()));
    // One that gives up leaves nothing behind.
    let wakes = others.pop().map(|task| task.wakes);
    assert_eq!(Arc::strong_count(&wakes.unwrap()), 1);
    send.send(Ok(5)).unwrap();
    assert_eq!(first.poll(), Poll::Ready(Ok(5)));
    for mut task in others {
        assert_eq!((task.wakes(), task.poll()), (1, Poll::Ready(Ok(5))));
    }
    assert_eq!(ready(cache.get_or_insert_async("a", async || 6)), 5);
}

#[test]
fn a_future_that_is_dropped_hands_over() {
    let (cache, (_send, receive)) = (cache(), sync_channel(1));
    let mut first = Task::new(cache.get_or_try_insert_async("a", || received(receive)));
    let other = || Task::new(cache.get_or_try_insert_async("a", async || Ok::<_, String>(7)));
    let (mut second, mut third) = (other(), other());
    assert!(first.poll().is_pending() && second.poll().is_pending() && third.poll().is_pending());
    drop(first);
    assert_eq!((second.wakes(), third.wakes()), (1, 1));
    drop(third);
    assert_eq!(second.poll(), Poll::Ready(Ok(7)));
    assert_eq!((cache.get("a"), cache.stats().failed_computations), (Some(7), 1));
}

#[test]
fn a_future_that_fails_or_panics_hands_over() {
    let (cache, (send, receive)) = (cache(), sync_channel(1));
    let mut first = Task::new(cache.get_or_try_insert_async("a", || received(receive)));
    let mut second =
        Task::new(cache.get_or_try_insert_async("a", || std::future::ready(Err("no".to_string()))));
    let mut third = Task::new(cache.get_or_try_insert_async("a", || async {
        let fails = || -> Result<u64, String> { panic!("a future that panics") };
        fails()
    }));
    let mut fourth = Task::new(cache.get_or_try_insert_async("a", async || Ok::<_, String>(9)));
    for task in [&mut first, &mut second, &mut third, &mut fourth] {
        assert!(task.poll().is_pending());
    }
    send.send(Err("the first one".into())).unwrap();
    assert_eq!(first.poll(), Poll::Ready(Err("the first one".into())));
    assert_eq!(second.poll(), Poll::Ready(Err("no".into())));
    assert!(catch_unwind(AssertUnwindSafe(|| third.poll())).is_err());
    assert_eq!(fourth.poll(), Poll::Ready(Ok(9)));
}

#[test]
fn a_thread_waits_for_a_future_and_a_future_for_a_thread() {
    let (cache, (send, receive)) = (cache(), sync_channel(1));
    let mut first = Task::new(cache.get_or_try_insert_async("a", || received(receive)));
    assert!(first.poll().is_pending());
    scope(|scope| {
        let thread = scope.spawn(|| cache.get_or_insert_with("a", || unreachable!()));
        sleep(MOMENT);
        send.send(Ok(5)).unwrap();
        assert_eq!(first.poll(), Poll::Ready(Ok(5)));
        assert_eq!(thread.join().unwrap(), 5);

        let (go, may_go) = channel::<()>();
        let (began, begun) = channel();
        let thread = scope.spawn({
            let cache = &cache;
            move || {
                cache.get_or_insert_with("b", || {
                    began.send(()).unwrap();
                    may_go.recv().unwrap();
                    6
                })
            }
        });
        begun.recv().unwrap();
        let mut future = Task::new(cache.get_or_insert_async("b", async || 7));
        assert!(future.poll().is_pending());
        go.send(()).unwrap();
        assert_eq!(thread.join().unwrap(), 6);
        assert_eq!((future.wakes(), future.poll()), (1, Poll::Ready(6)));
    });
}
