//! Callers that do what safe Rust allows.

use nunatak_cache::{Builder, Cache, Cause};
use std::cell::Cell;
use std::hash::{BuildHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

fn panics<R>(f: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

#[test]
fn a_cache_of_capacity_zero_stores_nothing() {
    let log = Arc::new(AtomicUsize::new(0));
    let told = log.clone();
    let listener = move |_: &u64, _: &u64, cause| {
        assert_eq!(cause, Cause::Size);
        told.fetch_add(1, Ordering::Relaxed);
    };
    let cache: Cache<u64, u64> = Builder::new(0).listener(listener).build();
    (0..10).for_each(|key| cache.insert(key, key));
    assert_eq!(cache.get_or_insert_with(&1, || 2), 2);
    assert_eq!((cache.get(&1), cache.len(), cache.weight()), (None, 0, 0));
    assert_eq!((log.load(Ordering::Relaxed), cache.stats().listener_panics), (11, 0));
}

#[test]
fn a_cache_of_capacity_one_holds_the_last_entry() {
    let cache: Cache<u64, u64> = Cache::new(1);
    for key in 0..100 {
        cache.insert(key, key);
        assert_eq!((cache.get(&key), cache.len(), cache.weight()), (Some(key), 1, 1));
        cache.insert(key, key + 1);
        assert_eq!((cache.get(&key), cache.len()), (Some(key + 1), 1));
    }
    assert_eq!(cache.stats().replaced, 100, "a new value needs no room");
}

#[test]
fn entries_that_are_too_heavy_leave_at_once_and_take_the_old_value_along() {
    let cache: Cache<u64, u64> = Builder::new(u64::MAX - 1).weigher(|_, weight| *weight).build();
    cache.insert(1, 1);
    cache.insert(1, u64::MAX);
    assert_eq!((cache.get(&1), cache.weight()), (None, 0));
    cache.insert(1, u64::MAX - 1);
    assert_eq!(cache.weight(), u64::MAX - 1);
    cache.insert(2, u64::MAX - 1);
    assert_eq!((cache.get(&1), cache.get(&2)), (None, Some(u64::MAX - 1)));
    // Zero counts as one.
    cache.insert(3, 0);
    assert_eq!((cache.get(&2), cache.weight()), (None, 1));
    let endless: Cache<u64, u64> = Builder::new(u64::MAX).weigher(|_, weight| *weight).build();
    endless.insert(1, u64::MAX);
    endless.insert(1, 7);
    assert_eq!((endless.get(&1), endless.weight()), (Some(7), 7));
}

#[test]
fn a_heavy_entry_evicts_many_in_all_shards() {
    let cache: Cache<u64, u64> =
        Builder::new(10_000).shards(8).weigher(|_, weight| *weight).build();
    (0..10_000).for_each(|key| cache.insert(key, 1));
    assert_eq!(cache.weight(), 10_000);
    cache.insert(10_000, 9_990);
    assert!(cache.contains_key(&10_000) && cache.weight() <= 10_000);
    assert_eq!(cache.len() as u64, cache.weight() - 9_990 + 1);
}

#[test]
fn a_weigher_that_panics_changes_nothing() {
    let weigher = |_: &u64, value: &u64| if *value == 13 { panic!("13") } else { 1 };
    let cache: Cache<u64, u64> = Builder::new(2).weigher(weigher).build();
    cache.insert(1, 1);
    assert!(panics(|| cache.insert(1, 13)));
    assert!(panics(|| cache.get_or_insert_with(&2, || 13)));
    assert_eq!((cache.get(&1), cache.get(&2), cache.weight()), (Some(1), None, 1));
    assert_eq!(cache.get_or_insert_with(&2, || 2), 2);
}

/// All keys collide.
#[derive(Clone, Default)]
struct Same;

impl BuildHasher for Same {
    type Hasher = SameHasher;

    fn build_hasher(&self) -> SameHasher {
        SameHasher
    }
}

struct SameHasher;

impl Hasher for SameHasher {
    fn write(&mut self, _: &[u8]) {}

    fn finish(&self) -> u64 {
        0
    }
}

#[test]
fn keys_that_collide_are_told_apart() {
    let cache: Cache<u64, u64, Same> = Builder::new(100).hasher(Same).shards(4).build();
    (0..300).for_each(|key| cache.insert(key, key));
    assert_eq!((cache.len(), cache.weight()), (100, 100));
    assert!(cache.iter().all(|(key, value)| key == value));
    // A computation of a key may use another key of the same hash.
    let sum = cache.get_or_insert_with(&1000, || cache.get_or_insert_with(&1001, || 1) + 1);
    assert_eq!(sum, 2);
    (0..300).for_each(|key| assert!(cache.remove(&key).is_none_or(|value| value == key)));
    assert_eq!(cache.len() as u64, cache.weight());
}

thread_local! {
    /// After so many comparisons one panics.
    static FUSE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// A key whose `Eq` panics when it is told to.
#[derive(Clone, Debug)]
struct Fused(u64);

impl PartialEq for Fused {
    fn eq(&self, other: &Self) -> bool {
        FUSE.with(|fuse| match fuse.get() {
            0 => panic!("an Eq that panics"),
            usize::MAX => {}
            left => fuse.set(left - 1),
        });
        self.0 == other.0
    }
}

impl Eq for Fused {}

impl Hash for Fused {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0 % 4);
    }
}

#[test]
fn an_eq_that_panics_leaves_the_cache_whole() {
    let cache: Cache<Fused, u64> = Cache::new(20);
    let mut panicked = 0;
    for i in 0..4000_u64 {
        FUSE.with(|fuse| fuse.set(i as usize % 7));
        let key = Fused(i * 31 % 40);
        panicked += usize::from(panics(|| match i % 5 {
            0 => drop(cache.get(&key)),
            1 => drop(cache.remove(&key)),
            2 => drop(cache.get_or_insert_with(&key, || key.0)),
            _ => cache.insert(key.clone(), key.0),
        }));
        FUSE.with(|fuse| fuse.set(usize::MAX));
        assert_eq!(cache.len() as u64, cache.weight(), "a place was lost, or freed too early");
    }
    assert!(panicked > 100, "{panicked}");
    assert!(cache.iter().all(|(key, value)| key.0 == value));
    (0..40).for_each(|key| cache.insert(Fused(key), key));
    assert_eq!(cache.len(), 20);
}

/// A value whose `Drop` uses its cache.
struct Reenters {
    cache: Weak<Cache<u64, Reenters>>,
    number: u64,
}

impl Drop for Reenters {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.upgrade() {
            cache.invalidate(&(self.number % 10));
            if self.number < 5000 {
                let value = Reenters { cache: self.cache.clone(), number: self.number + 5000 };
                cache.insert(self.number % 50, value);
            }
        }
    }
}

#[test]
fn a_drop_may_use_the_cache() {
    let cache = Arc::new(Builder::new(30).weigher(|_, _| 1).build());
    for number in 0..5000 {
        let value = Reenters { cache: Arc::downgrade(&cache), number };
        cache.insert(number % 50, value);
        assert!(cache.weight() <= 30);
    }
    cache.clear();
    cache.run_pending();
}

#[test]
fn a_listener_may_panic_and_use_the_cache() {
    static CACHE: OnceLock<Cache<u64, u64>> = OnceLock::new();
    let listener = |key: &u64, value: &u64, _| {
        let cache = CACHE.get().unwrap();
        if *value < 1000 {
            cache.insert(*key, value + 1000);
            cache.invalidate(&(key + 1));
            cache.retain(|key, _| !key.is_multiple_of(7));
        }
        if key.is_multiple_of(3) {
            panic!("a listener that panics");
        }
    };
    let cache = CACHE.get_or_init(|| Builder::new(10).listener(listener).build());
    for key in 0..200 {
        cache.insert(key % 30, key);
        assert!(cache.weight() <= 10);
        assert_eq!(cache.weight(), cache.len() as u64);
    }
    assert!(cache.stats().listener_panics > 10);
}

#[test]
fn a_closure_may_use_the_cache() {
    let cache: Cache<u64, u64> = Cache::new(10);
    (0..10).for_each(|key| cache.insert(key, key));
    let value = cache.get_with(&1, |value| {
        cache.remove(&1);
        cache.insert(1, 100);
        *value
    });
    assert_eq!((value, cache.get(&1)), (Some(1), Some(100)));
    cache.retain(|key, _| {
        cache.insert(key + 100, 0);
        true
    });
    assert!(panics(|| cache.retain(|_, _| panic!("a closure"))));
    assert!(panics(|| cache.remove_if(&1, |_, _| panic!("a closure"))));
    assert_eq!((cache.len(), cache.weight()), (10, 10));
}

/// A value that counts how many of them there are.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn values_that_have_left_do_not_pile_up() {
    let count = Arc::new(AtomicUsize::new(0));
    let cache: Cache<u64, Counted> = Builder::new(1600).weigher(|_, _| 100).build();
    for key in 0..1000 {
        cache.insert(key, Counted::new(&count));
        // Sixteen that are there, those that wait (a 16th of the capacity), and the new one.
        assert!(count.load(Ordering::Relaxed) <= 16 + 1 + 1);
    }
    let unweighed: Cache<u64, Counted> = Cache::new(10);
    for key in 0..10_000 {
        unweighed.insert(key, Counted::new(&count));
    }
    assert!(count.load(Ordering::Relaxed) <= 18 + 10 + 128);
    unweighed.run_pending();
    cache.run_pending();
    assert_eq!(count.load(Ordering::Relaxed), 16 + 10);
    drop((cache, unweighed));
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[test]
fn a_value_whose_drop_panics_is_dropped_once() {
    struct Bomb(Arc<AtomicBool>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(!self.0.swap(true, Ordering::Relaxed), "dropped twice");
            panic!("a drop that panics");
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let cache: Cache<u64, Bomb> = Cache::new(10);
    cache.insert(1, Bomb(dropped.clone()));
    assert!(panics(|| cache.clear()));
    assert!(dropped.load(Ordering::Relaxed) && cache.is_empty() && cache.weight() == 0);
}

#[test]
fn bounds() {
    fn is_shared<T: Send + Sync>(_: &T) {}
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let cache: Cache<String, Mutex<u64>> = Cache::new(10);
    is_shared(&cache);
    let cache: Cache<String, u64> = Cache::new(10);
    let wait = async || 1;
    drop(is_send(cache.get_or_insert_async("a", || is_send(wait()))));
    let debug = format!("{cache:?} {:?}", cache.pin());
    assert_eq!(debug, "{} Guard { .. }");
    cache.insert_with_ttl("a".into(), 1, Duration::from_secs(1000));
    assert_eq!(format!("{cache:?}"), r#"{"a": 1}"#);
}
