//! Expiry, by a clock that stands still until it is told.

use nunatak_cache::{Builder, Cache, Cause, ManualClock};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

type Log = Arc<Mutex<Vec<(u64, u64, Cause)>>>;

fn logged(builder: Builder<u64, u64>) -> (Cache<u64, u64>, Arc<ManualClock>, Log) {
    let (clock, log) = (Arc::new(ManualClock::new()), Log::default());
    let listener = {
        let log = log.clone();
        move |key: &u64, value: &u64, cause| log.lock().unwrap().push((*key, *value, cause))
    };
    (builder.clock(clock.clone()).listener(listener).build(), clock, log)
}

#[test]
fn entries_expire_at_their_time_and_not_before() {
    let (cache, clock, log) = logged(Builder::new(10).time_to_live(10 * SECOND));
    cache.insert(1, 1);
    clock.advance(10 * SECOND - Duration::from_nanos(1));
    assert_eq!((cache.get(&1), cache.peek(&1), cache.contains_key(&1)), (Some(1), Some(1), true));
    clock.advance(Duration::from_nanos(1));
    assert_eq!(cache.pin().get(&1), None);
    assert_eq!(cache.iter().count() + cache.pin().iter().count(), 0);
    assert_eq!(cache.len(), 1);
    assert_eq!((cache.peek(&1), cache.contains_key(&1), cache.get(&1)), (None, false, None));
    assert_eq!((cache.len(), cache.weight()), (0, 0));
    assert_eq!(*log.lock().unwrap(), [(1, 1, Cause::Expired)]);
}

#[test]
fn a_removed_or_replaced_entry_that_had_expired_is_told_as_expired() {
    let (cache, clock, log) = logged(Builder::new(10).time_to_live(SECOND));
    (0..3).for_each(|key| cache.insert(key, key));
    clock.advance(SECOND);
    assert_eq!(cache.remove(&0), None);
    cache.insert(1, 10);
    cache.retain(|_, _| true);
    let mut log = log.lock().unwrap();
    log.sort_unstable();
    assert_eq!(*log, [0, 1, 2].map(|key| (key, key, Cause::Expired)));
    assert_eq!(cache.get(&1), Some(10));
}

#[test]
fn an_insert_has_a_time_of_its_own() {
    let (cache, clock, _) = logged(Builder::new(10).time_to_live(10 * SECOND));
    cache.insert_with_ttl(1, 1, 20 * SECOND);
    cache.insert_with_ttl(2, 2, 5 * SECOND);
    cache.insert_with_ttl(3, 3, Duration::MAX);
    clock.advance(5 * SECOND);
    assert_eq!((cache.get(&1), cache.get(&2)), (Some(1), None));
    clock.advance(15 * SECOND);
    assert_eq!((cache.get(&1), cache.get(&3)), (None, Some(3)));
    clock.advance(Duration::MAX);
    assert_eq!(cache.get(&3), Some(3), "a time that long does not end");
}

#[test]
fn a_cache_without_times_takes_entries_with_times() {
    let (cache, clock, log) = logged(Builder::new(10));
    cache.insert(1, 1);
    cache.insert_with_ttl(2, 2, SECOND);
    clock.advance(100 * SECOND);
    cache.run_pending();
    assert_eq!((cache.get(&1), cache.len()), (Some(1), 1));
    assert_eq!(*log.lock().unwrap(), [(2, 2, Cause::Expired)]);
}

#[test]
fn a_new_value_has_its_own_time_whether_longer_or_shorter() {
    for shorter in [false, true] {
        let (cache, clock, _) = logged(Builder::new(10));
        let (first, second) = if shorter { (10, 1) } else { (1, 10) };
        cache.insert_with_ttl(1, 1, first * SECOND);
        cache.insert_with_ttl(1, 2, second * SECOND);
        clock.advance(SECOND);
        cache.run_pending();
        assert_eq!((cache.len(), cache.get(&1)), if shorter { (0, None) } else { (1, Some(2)) });
        clock.advance(9 * SECOND);
        cache.run_pending();
        assert_eq!(cache.len(), 0);
    }
}

#[test]
fn a_use_prolongs_the_time_to_idle_but_not_the_time_to_live() {
    let (cache, clock, _) =
        logged(Builder::new(10).time_to_idle(3 * SECOND).time_to_live(7 * SECOND));
    (1..=4).for_each(|key| cache.insert(key, key));
    for _ in 0..3 {
        clock.advance(2 * SECOND);
        assert_eq!(cache.get(&1), Some(1));
        cache.peek(&2);
        cache.contains_key(&3);
    }
    assert_eq!([2, 3, 4].map(|key| cache.get(&key)), [None; 3]);
    clock.advance(SECOND);
    assert_eq!(cache.get(&1), None);
}

#[test]
fn used_entries_survive_the_timers_of_idle_ones() {
    let (cache, clock, log) = logged(Builder::new(10).time_to_idle(3 * SECOND));
    (1..=2).for_each(|key| cache.insert(key, key));
    for _ in 0..10 {
        clock.advance(2 * SECOND);
        assert_eq!(cache.get(&1), Some(1));
        cache.run_pending();
    }
    assert_eq!((cache.len(), log.lock().unwrap().clone()), (1, vec![(2, 2, Cause::Expired)]));
}

#[test]
fn zero_times_store_nothing() {
    for builder in [
        Builder::new(10).time_to_live(Duration::ZERO),
        Builder::new(10).time_to_idle(Duration::ZERO),
    ] {
        let (cache, _, log) = logged(builder);
        cache.insert(1, 1);
        assert_eq!(cache.get_or_insert_with(&2, || 2), 2);
        assert_eq!((cache.get(&1), cache.get(&2), cache.len()), (None, None, 0));
        assert_eq!(*log.lock().unwrap(), [1, 2].map(|key| (key, key, Cause::Expired)));
    }
    let (cache, _, log) = logged(Builder::new(10));
    cache.insert(1, 1);
    cache.insert_with_ttl(1, 2, Duration::ZERO);
    assert_eq!(cache.get(&1), None, "the old value is gone, too");
    assert_eq!(*log.lock().unwrap(), [(1, 1, Cause::Replaced), (1, 2, Cause::Expired)]);
}

#[test]
fn endless_times_never_end() {
    let (cache, clock, _) =
        logged(Builder::new(10).time_to_live(Duration::MAX).time_to_idle(Duration::MAX));
    cache.insert(1, 1);
    clock.advance(Duration::from_secs(500 * 365 * 24 * 3600));
    cache.run_pending();
    assert_eq!(cache.get(&1), Some(1));
}

#[test]
fn inserts_take_expired_entries_out() {
    let (cache, clock, log) = logged(Builder::new(10_000).time_to_live(SECOND).shards(1));
    (0..1000).for_each(|key| cache.insert(key, key));
    clock.advance(SECOND);
    (1000..1250).for_each(|key| cache.insert(key, key));
    assert_eq!(cache.len(), 250);
    assert_eq!(log.lock().unwrap().len(), 1000);
    // In the order of their times.
    assert!(log.lock().unwrap().is_sorted());
}

#[test]
fn expired_entries_go_before_live_ones() {
    let (cache, clock, log) = logged(Builder::new(100).shards(1));
    (0..50).for_each(|key| cache.insert_with_ttl(key, key, SECOND));
    (50..100).for_each(|key| cache.insert(key, key));
    clock.advance(SECOND);
    (100..150).for_each(|key| cache.insert(key, key));
    assert_eq!((50..150).filter(|key| cache.contains_key(key)).count(), 100);
    assert!(
        log.lock().unwrap().iter().all(|(key, _, cause)| *key < 50 && *cause == Cause::Expired)
    );
}

#[test]
fn timers_of_entries_that_are_gone_do_not_pile_up() {
    let (cache, clock, _) = logged(Builder::new(10).time_to_live(1000 * SECOND));
    for key in 0..100_000 {
        cache.insert(key % 100, key);
        cache.invalidate(&(key % 7));
    }
    clock.advance(1000 * SECOND);
    cache.run_pending();
    assert!(cache.is_empty());
}

#[test]
fn an_expired_value_is_computed_again() {
    let (cache, clock, _) = logged(Builder::new(10).time_to_live(SECOND));
    assert_eq!(cache.get_or_insert_with(&1, || 1), 1);
    clock.advance(SECOND);
    assert_eq!(cache.get_or_insert_with(&1, || 2), 2);
    // One that expires while another one is computed gives way.
    let three = cache.get_or_insert_with(&2, || {
        cache.insert_with_ttl(2, 9, SECOND);
        clock.advance(SECOND);
        3
    });
    assert_eq!(three, 3);
}
