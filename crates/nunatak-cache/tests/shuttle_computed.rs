//! Schedules of whole operations, under a randomised scheduler:
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/shuttle \
//!   cargo test --release -p nunatak-cache --test 'shuttle_*'
//! ```

#![cfg(shuttle)]

use nunatak_cache::{Builder, Cache};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use shuttle::thread;
use std::hash::{BuildHasherDefault, DefaultHasher};

const SCHEDULES: usize = 3000;

/// Not seeded, so that a schedule can be replayed.
type Hasher = BuildHasherDefault<DefaultHasher>;
type Tested = Cache<u64, usize, Hasher>;

fn cache(capacity: u64) -> Arc<Tested> {
    Arc::new(Builder::new(capacity).shards(1).hasher(Hasher::default()).build())
}

/// Schedules of two kinds: threads that take turns at random, and threads of which one runs far ahead
/// of the others.
fn schedules(check: impl Fn() + Send + Sync + 'static) {
    let check = std::sync::Arc::new(check);
    let again = check.clone();
    shuttle::check_random(move || check(), SCHEDULES);
    shuttle::check_pct(move || again(), SCHEDULES, 3);
}

fn together(threads: Vec<Box<dyn FnOnce() + Send>>) {
    let threads: Vec<_> = threads.into_iter().map(thread::spawn).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn one_thread_computes_and_all_get_its_value() {
    let check = || {
        let (cache, computed) = (cache(8), Arc::new(AtomicUsize::new(0)));
        let ask = || {
            let (cache, computed) = (cache.clone(), computed.clone());
            Box::new(move || {
                let value = cache.get_or_insert_with(&1, || {
                    thread::yield_now();
                    computed.fetch_add(1, SeqCst)
                });
                assert_eq!(value, 0);
            }) as Box<dyn FnOnce() + Send>
        };
        together((0..3).map(|_| ask()).collect());
        assert_eq!(computed.load(SeqCst), 1);
    };
    schedules(check);
}

#[test]
fn after_a_failure_another_thread_computes() {
    let check = || {
        let cache = cache(8);
        let (attempts, running) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let ask = || {
            let (cache, attempts, running) = (cache.clone(), attempts.clone(), running.clone());
            Box::new(move || {
                let value = cache.get_or_try_insert_with(&1, || {
                    assert_eq!(running.fetch_add(1, SeqCst), 0, "two compute");
                    let attempt = attempts.fetch_add(1, SeqCst);
                    thread::yield_now();
                    running.fetch_sub(1, SeqCst);
                    if attempt < 2 { Err(attempt) } else { Ok(attempt) }
                });
                assert!(matches!(value, Ok(2) | Err(0 | 1)));
            }) as Box<dyn FnOnce() + Send>
        };
        together((0..4).map(|_| ask()).collect());
        assert_eq!(attempts.load(SeqCst), 3);
    };
    schedules(check);
}

/// A value that was computed before a removal is not seen after it. (The change begins when the
/// computation has read the old value: the scheduler would seldom find that.)
#[test]
fn a_removed_value_does_not_come_back() {
    let check = || {
        let (cache, database) = (cache(8), Arc::new(AtomicUsize::new(0)));
        let change = {
            let (cache, database) = (cache.clone(), database.clone());
            move || {
                database.store(1, SeqCst);
                cache.invalidate(&1);
                assert!(cache.peek(&1).is_none_or(|value| value == 1));
                thread::yield_now();
                assert!(cache.peek(&1).is_none_or(|value| value == 1));
            }
        };
        let mut changer = None;
        let value = cache.get_or_insert_with(&1, || {
            let value = database.load(SeqCst);
            changer = Some(thread::spawn(change));
            value
        });
        changer.unwrap().join().unwrap();
        assert_eq!(value, 0);
        assert!(cache.peek(&1).is_none_or(|value| value == 1));
        assert_eq!(cache.weight(), cache.len() as u64);
    };
    schedules(check);
}

/// An insert that takes over the place of an entry, which another thread removes or evicts.
#[test]
fn a_place_is_taken_over_while_it_is_freed() {
    let check = || {
        let cache = cache(1);
        cache.insert(1, 0);
        let replace = {
            let cache = cache.clone();
            move || cache.insert(1, 1)
        };
        let change = {
            let cache = cache.clone();
            move || {
                cache.remove(&1);
                cache.insert(2, 0);
            }
        };
        together(vec![Box::new(replace), Box::new(change)]);
        assert_eq!(cache.weight(), cache.len() as u64);
        cache.insert(3, 0);
        assert_eq!((cache.len(), cache.weight(), cache.peek(&3)), (1, 1, Some(0)));
    };
    schedules(check);
}

/// Places in the queues are freed once, whoever replaces, removes and evicts the same key.
#[test]
fn places_belong_to_entries() {
    let check = || {
        let cache = cache(2);
        let each = |i: u64| {
            let cache = cache.clone();
            Box::new(move || {
                cache.insert(1, 0);
                match i {
                    0 => _ = cache.remove(&1),
                    1 => cache.insert(2, 0),
                    _ => _ = cache.get_or_insert_with(&3, || 0),
                }
                cache.insert(1, 1);
                assert!(cache.weight() <= 2);
            }) as Box<dyn FnOnce() + Send>
        };
        together((0..3).map(each).collect());
        assert_eq!(cache.weight(), cache.len() as u64);
        assert!(cache.len() <= 2);
        (10..13).for_each(|key| cache.insert(key, 0));
        assert_eq!((cache.len(), cache.weight()), (2, 2), "a place was lost");
    };
    schedules(check);
}
