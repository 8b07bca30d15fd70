//! Closures that panic, use the map, or take their time.

use crate::failures::{Fuse, catch};
use crate::sample::Sample;
use crate::subject::Subject;
use nunatak::{Compute, ConcurrentMap};
use std::cell::Cell;
use std::sync::mpsc;
use std::thread;

/// As many entries as make a small table grow several times.
const MANY: u64 = 600;

fn fill<K: Sample, V: Sample, M: ConcurrentMap<K, V>>(map: &M, from: u64) {
    (from..from + MANY).for_each(|key| drop(map.insert(K::sample(key), V::sample(key))));
}

/// A closure that panics changes nothing and leaves nothing held.
///
/// # Panics
/// If the map fails the check.
pub fn panics_change_nothing<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S) {
    let map = subject.adversarial();
    fill(&map, 0);
    let burn = || {
        let fuse = Fuse::default();
        fuse.arm(0);
        fuse.call();
    };
    for key in 0..MANY {
        let (present, absent) = (K::sample(key), K::sample(key + 2 * MANY));
        let panics: [&dyn Fn(); 7] = [
            &|| drop(map.compute(present.clone(), |_| (burn(), Compute::Remove).1)),
            &|| drop(map.compute(absent.clone(), |_| (burn(), Compute::Keep).1)),
            &|| drop(map.fetch_update(&present, |_| (burn(), None).1)),
            &|| drop(map.remove_if(&present, |_| (burn(), true).1)),
            &|| drop(map.get_or_insert_with(absent.clone(), || (burn(), V::sample(0)).1)),
            &|| map.retain(|_, _| (burn(), false).1),
            // Not at the first call, but later.
            &|| {
                let seen = Cell::new(0);
                map.retain(|_, _| {
                    seen.set(seen.get() + 1);
                    if seen.get() == MANY / 2 {
                        burn();
                    }
                    true
                });
            },
        ];
        for panic in panics {
            assert!(catch(panic).is_none(), "the panic was swallowed");
            assert_eq!(map.get(&present), Some(V::sample(key)));
            assert_eq!(map.get(&absent), None);
        }
        assert_eq!(map.update(&present, V::sample(key + 1)), Some(V::sample(key)));
        assert_eq!(map.insert(present, V::sample(key)), Some(V::sample(key + 1)));
    }
    assert_eq!(map.len() as u64, MANY);
    fill(&map, MANY);
    assert_eq!(map.iter().count() as u64, 2 * MANY);
}

/// Closures may do anything to the map. They may make it grow and shrink, and change the very entry
/// that they decide about: then they run again.
///
/// # Panics
/// If the map fails the check.
pub fn closures_may_use_the_map<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S) {
    let map = subject.adversarial();
    let key = || K::sample(0);
    let upset = |value: u64| {
        fill(&map, 1);
        assert_eq!(map.len() as u64, MANY + u64::from(map.contains_key(&key())));
        (1..=MANY).for_each(|key| drop(map.remove(&K::sample(key))));
        map.shrink_to_fit().expect("memory for a smaller table");
        drop(map.insert(key(), V::sample(value)));
    };

    // Each closure runs twice, since its first run makes its argument stale.
    let mut arguments = Vec::new();
    let before = map.compute(key(), |value| {
        arguments.push(value.map(V::number));
        if arguments.len() == 1 {
            upset(10);
        }
        Compute::Put(V::sample(11))
    });
    assert_eq!(arguments, [None, Some(10)]);
    assert_eq!((before, map.get(&key())), (Some(V::sample(10)), Some(V::sample(11))));

    let mut arguments = Vec::new();
    let before = map.fetch_update(&key(), |value| {
        arguments.push(value.number());
        if arguments.len() == 1 {
            upset(20);
        }
        Some(V::sample(21))
    });
    assert_eq!(arguments, [11, 20]);
    assert_eq!((before, map.get(&key())), (Ok(V::sample(20)), Some(V::sample(21))));

    let mut arguments = Vec::new();
    let removed = map.remove_if(&key(), |value| {
        arguments.push(value.number());
        if arguments.len() == 1 {
            upset(30);
        }
        true
    });
    assert_eq!(arguments, [21, 30]);
    assert_eq!((removed, map.get(&key())), (Some(V::sample(30)), None));

    let got = map.get_or_insert_with(key(), || {
        upset(40);
        V::sample(41)
    });
    assert_eq!((got, map.get(&key())), (V::sample(40), Some(V::sample(40))));
    assert_eq!(map.len(), 1);
}

/// An entry that changes while `retain` looks at it is looked at again.
///
/// # Panics
/// If the map fails the check.
pub fn retain_looks_again<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S) {
    let map = subject.adversarial();
    fill(&map, 0);
    let values = |by: u64| move |key: &K| V::sample(key.number() + by);
    map.retain(|key, value| {
        let (old, new) = (values(0)(key), values(1000)(key));
        if *value == old {
            map.update(key, new);
            return false;
        }
        assert_eq!(*value, new);
        true
    });
    assert_eq!(map.len() as u64, MANY, "entries were taken out that had changed");
    let changed = map.iter().all(|(key, value)| value == values(1000)(&key));
    assert!(changed, "an entry was passed over");

    // Its closure may change other entries, too.
    map.retain(|key, _| {
        drop(map.insert(K::sample(key.number() % MANY + MANY), V::sample(0)));
        key.number() >= MANY
    });
    assert_eq!(map.len() as u64, MANY, "the second half alone is kept");
}

/// Without concurrent changes `retain` calls its closure once for each entry, and follows its
/// answer. So the closure may count, or toss a coin.
///
/// # Panics
/// If the map fails the check.
pub fn retain_asks_once<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S) {
    let map = subject.adversarial();
    fill(&map, 0);
    let mut left = MANY as usize;
    for one_of in [2, 3, u64::MAX] {
        let (mut asked, mut rejected) = (Vec::new(), 0);
        map.retain(|key, value| {
            assert_eq!(key.number(), value.number(), "the value of another key");
            asked.push(key.number());
            let is_kept = !(asked.len() as u64 - 1).is_multiple_of(one_of);
            rejected += usize::from(!is_kept);
            is_kept
        });
        let calls = asked.len();
        asked.sort_unstable();
        asked.dedup();
        assert_eq!((calls, asked.len()), (left, left), "calls, keys asked about");
        left -= rejected;
        assert_eq!((map.len(), map.iter().count()), (left, left), "{rejected} were rejected");
    }
}

/// Entries may come and go while an iterator or a snapshot exists.
///
/// # Panics
/// If the map fails the check.
pub fn changes_during_iteration<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S) {
    let map = subject.adversarial();
    fill(&map, 0);
    let snapshot = map.snapshot().expect("memory for a snapshot");
    let mut iteration = map.iter();
    let mut seen: Vec<u64> = iteration.by_ref().take(10).map(|(key, _)| key.number()).collect();
    (1..20).for_each(|chunk| fill(&map, chunk * MANY));
    (MANY..10 * MANY).for_each(|key| drop(map.remove(&K::sample(key))));
    map.shrink_to_fit().expect("memory for a smaller table");
    seen.extend(iteration.map(|(key, _)| key.number()).filter(|key| *key < MANY));
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..MANY), "an iterator missed or repeated a key");
    map.clear();
    let mut cut: Vec<_> = snapshot.map(|(k, v)| (k.number(), v.number())).collect();
    cut.sort_unstable();
    assert!(cut.into_iter().eq((0..MANY).map(|key| (key, key))), "a snapshot changed");
}

/// An iterator that lives while the table grows and shrinks many times continues, in about the time
/// of one resize.
///
/// # Panics
/// If it misses or repeats a key. If its work multiplies with every resize, this does not return.
pub fn iteration_outlives_many_resizes<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S) {
    let map = subject.adversarial();
    (0..20).for_each(|key| drop(map.insert(K::sample(key), V::sample(key))));
    let mut iteration = map.iter();
    let mut seen: Vec<u64> = iteration.by_ref().take(2).map(|(key, _)| key.number()).collect();
    for _ in 0..30 {
        fill(&map, 20);
        (20..20 + MANY).for_each(|key| drop(map.remove(&K::sample(key))));
        map.shrink_to_fit().expect("memory for a smaller table");
    }
    seen.extend(iteration.map(|(key, _)| key.number()));
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..20), "an iterator missed or repeated a key");
}

/// While a closure runs, operations on other keys go on, and the map grows.
///
/// # Panics
/// If the map loses an entry. If a closure holds the map up, this does not return.
pub fn closures_hold_nothing_up<K: Sample, V: Sample, S: Subject<K, V>>(subject: &S)
where
    S::Map: Sync,
{
    let map = &subject.adversarial();
    for kind in 0..4 {
        drop(map.insert(K::sample(0), V::sample(5)));
        let (entered, has_entered) = mpsc::channel();
        let (leave, may_leave) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let wait = || {
                    let _ = entered.send(());
                    // A second run finds the channel closed; the error is ignored.
                    let _ = may_leave.recv();
                };
                let key = K::sample(0);
                match kind {
                    0 => drop(map.compute(key, |_| (wait(), Compute::Keep).1)),
                    1 => drop(map.fetch_update(&key, |_| (wait(), Some(V::sample(6))).1)),
                    2 => drop(map.remove_if(&key, |_| (wait(), false).1)),
                    _ => drop(map.get_or_insert_with(K::sample(u64::MAX), || {
                        wait();
                        V::sample(7)
                    })),
                }
            });
            has_entered.recv().expect("the closure runs");
            (0..5).for_each(|chunk| fill(map, 1 + chunk * MANY));
            (1..=5 * MANY).for_each(|key| assert!(map.remove(&K::sample(key)).is_some()));
            drop(leave);
        });
    }
    assert_eq!(map.get(&K::sample(0)), Some(V::sample(5)));
    assert_eq!(map.get(&K::sample(u64::MAX)), Some(V::sample(7)));
    assert_eq!(map.len(), 2);
}
