//! Threads that come and go, and the map's length when all have ended.

use super::together;
use crate::effort::scaled;
use crate::random::Random;
use crate::sample::Sample;
use crate::subject::Subject;
use nunatak::ConcurrentMap;
use std::thread;

/// The length is exact when all threads have stopped.
///
/// # Panics
/// If the map fails the check.
pub fn length_is_exact_at_rest<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    let map = &subject.adversarial();
    for round in 0..scaled(20) as u64 {
        together(4, |thread| {
            let mut random = Random::new(round * 4 + thread as u64);
            for _ in 0..2000 {
                let key = K::sample(random.below(3000));
                match random.below(5) {
                    0 | 1 => drop(map.remove(&key)),
                    2 => drop(map.try_insert(key, V::sample(0))),
                    _ => drop(map.insert(key, V::sample(1))),
                }
            }
            if thread == 0 {
                map.shrink_to_fit().expect("memory for a smaller table");
            }
        });
        let present = (0..3000).filter(|key| map.contains_key(&K::sample(*key))).count();
        assert_eq!(map.len(), present, "round {round}");
        assert_eq!(map.iter().count(), present, "round {round}");
        assert_eq!(map.is_empty(), present == 0);
    }
}

/// More threads use the map, one after the other, than a fixed table of threads may have room for.
/// What each wrote stays.
///
/// # Panics
/// If the map fails the check.
pub fn threads_come_and_go<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    let map = &subject.adversarial();
    let (waves, threads, each) = (scaled(40) as u64, 16, 30);
    for wave in 0..waves {
        together(threads, |thread| {
            let from = (wave * threads as u64 + thread as u64) * each;
            for key in from..from + each {
                assert_eq!(map.insert(K::sample(key), V::sample(key)), None);
            }
            drop(map.iter().next());
        });
    }
    let all = waves * threads as u64 * each;
    assert_eq!(map.len() as u64, all);
    for key in 0..all {
        assert_eq!(map.get(&K::sample(key)), Some(V::sample(key)), "key {key}");
    }
}

/// Maps come and go on threads that live on, and a map outlives the thread that made it.
///
/// # Panics
/// If entries of one map are seen in another.
pub fn maps_come_and_go<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Send,
{
    together(3, |_| {
        let mut kept = Vec::new();
        for round in 0..scaled(150) as u64 {
            let map = subject.adversarial();
            assert_eq!(map.len(), 0, "a new map is empty");
            for key in 0..100 {
                assert_eq!(map.insert(K::sample(key), V::sample(round)), None);
            }
            if round.is_multiple_of(10) {
                kept.push((round, map));
            }
        }
        for (round, map) in kept {
            assert!(map.iter().all(|(_, value)| value.number() == round));
            assert_eq!(map.len(), 100);
        }
    });
    let made_elsewhere = thread::scope(|scope| {
        let make = scope.spawn(|| {
            let map = subject.adversarial();
            (0..1000).for_each(|key| drop(map.insert(K::sample(key), V::sample(key))));
            map
        });
        make.join().expect("the thread that makes the map")
    });
    for key in 0..1000 {
        assert_eq!(made_elsewhere.remove(&K::sample(key)), Some(V::sample(key)), "key {key}");
    }
}
