//! Scenarios of whole operations of several threads under a randomised scheduler, for the maps of
//! every design.

#[path = "../effort/mod.rs"]
mod effort;

use effort::effort;
use nunatak::{
    BoxedMap, Compute, ConcurrentMap, HashesWith, InlineMap, Op, Request, Stop, Unshadowed,
};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// A step is left out in the whole process, so no other test runs meanwhile.
static LEFT_OUT: RwLock<()> = RwLock::new(());

/// A map of numbers.
pub(crate) type Map<S> = InlineMap<u64, u64, <S as Subject>::Hash, <S as Subject>::Design>;

/// The maps of a design, as small as they can be.
pub(crate) trait Subject: Sized + 'static {
    type Hash: nunatak::hash::Hashing;
    type Design: HashesWith<Self::Hash> + HashesWith<Constant> + Unshadowed;

    /// Makes an empty map.
    fn small() -> Arc<Map<Self>>;

    /// Returns keys from 1000 on. With these the map must grow for a few more keys.
    fn fillers() -> Vec<u64>;

    /// Makes an empty map of boxed entries.
    fn colliding() -> Arc<BoxedMap<u64, Counted, Constant, Self::Design>>;
}

/// A name, the number of schedules of each kind, and the scenario.
pub(crate) type Scenario = (&'static str, usize, fn());

/// All scenarios.
pub(crate) fn scenarios<S: Subject>() -> [Scenario; 10]
where
    Map<S>: Send + Sync,
    BoxedMap<u64, Counted, Constant, S::Design>: Send + Sync,
{
    [
        ("growth loses nothing", 6_000, growth_loses_nothing::<S>),
        ("no increment is lost", 6_000, no_increment_is_lost::<S>),
        ("one wins", 10_000, one_wins::<S>),
        ("a stable key is never missed", 4_000, a_stable_key_is_never_missed::<S>),
        ("resizing loses nothing", 4_000, resizing_loses_nothing::<S>),
        ("snapshots are cuts", 6_000, snapshots_are_cuts::<S>),
        (
            "snapshots are cuts of several writers",
            10_000,
            snapshots_are_cuts_of_several_writers::<S>,
        ),
        ("batches keep their order", 6_000, batches_keep_their_order::<S>),
        ("colliding boxed entries are kept", 4_000, colliding_boxed_entries_are_kept::<S>),
        ("an iterator yields a key once", 6_000, an_iterator_yields_a_key_once::<S>),
    ]
}

/// Runs all scenarios.
pub(crate) fn every_scenario_holds(scenarios: &[Scenario]) {
    let _nothing = LEFT_OUT.read().unwrap_or_else(PoisonError::into_inner);
    for &(name, schedules, scenario) in scenarios {
        let start = std::time::Instant::now();
        // Half of the number with which a step that is left out is surely found.
        check((schedules as f64 * effort() / 2.0).ceil() as usize, scenario);
        println!("{name}: {:?}", start.elapsed());
    }
}

/// Whether a scenario fails for each step that is left out. The named scenario is tried first and
/// mostly fails.
#[cfg(nunatak_seeded_bugs)]
pub(crate) fn seeded_bugs_are_found(bugs: &[(nunatak::seeded::Bug, &str)], scenarios: &[Scenario]) {
    use nunatak::seeded::seed;
    let _something = LEFT_OUT.write().unwrap_or_else(PoisonError::into_inner);
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let mut missed = Vec::new();
    for &(bug, mostly) in bugs {
        seed(Some(bug));
        let first = scenarios.iter().filter(|(name, ..)| *name == mostly);
        assert_eq!(first.clone().count(), 1, "there is no scenario {mostly:?}");
        let others = scenarios.iter().filter(|(name, ..)| *name != mostly);
        let found = first.chain(others).find(|&&(_, schedules, scenario)| {
            // A task that the scheduler drops while it unwinds leaves its thread panicking, where
            // no hook may be set.
            std::thread::spawn(move || check(schedules, scenario)).join().is_err()
        });
        seed(None);
        match found {
            Some((name, ..)) => println!("{bug:?}: {name}"),
            None => missed.push(bug),
        }
    }
    std::panic::set_hook(loud);
    assert!(missed.is_empty(), "no scenario finds {missed:?}");
}

/// Half of the schedules are random; the other half look for bugs that need a few changes of thread
/// at the worst moments.
fn check(schedules: usize, scenario: fn()) {
    let mut config = Config::new();
    config.max_steps = shuttle::MaxSteps::FailAfter(1_000_000);
    config.stack_size = 1 << 17;
    Runner::new(RandomScheduler::new(schedules), config.clone()).run(scenario);
    Runner::new(PctScheduler::new(4, schedules), config).run(scenario);
}

fn nearly_full<S: Subject>() -> Arc<Map<S>> {
    let map = S::small();
    for key in S::fillers() {
        map.insert(key, 0);
    }
    map
}

fn spawn<M: Send + Sync + 'static, T: Send + 'static>(
    map: &Arc<M>,
    operate: impl FnOnce(&M) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let map = Arc::clone(map);
    thread::spawn(move || operate(&map))
}

/// Threads insert and remove keys of their own while the map grows from its smallest size.
fn growth_loses_nothing<S: Subject>()
where
    Map<S>: Send + Sync,
{
    let map = S::small();
    let threads: Vec<_> = (0..3_u64)
        .map(|thread| {
            spawn(&map, move |map| {
                for i in 0..12 {
                    let key = 3 * i + thread;
                    assert_eq!(map.insert(key, key + 100), None);
                    assert_eq!(map.get(&key), Some(key + 100));
                    if i % 2 == 1 {
                        assert_eq!(map.remove(&key), Some(key + 100));
                        assert_eq!(map.get(&key), None);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    for i in 0..12 {
        for thread in 0..3 {
            let key = 3 * i + thread;
            assert_eq!(map.get(&key), (i % 2 == 0).then_some(key + 100));
        }
    }
    assert_eq!(map.len(), 18);
}

/// Increments of shared counters add up, by every kind of read-modify-write.
fn no_increment_is_lost<S: Subject>()
where
    Map<S>: Send + Sync,
{
    let map = nearly_full::<S>();
    let threads: Vec<_> = (0..3_u64)
        .map(|thread| {
            spawn(&map, move |map| {
                for key in [2, 4, 2, 6] {
                    match thread {
                        0 => drop(map.compute(key, |n| Compute::Put(n.copied().unwrap_or(0) + 1))),
                        1 => {
                            map.get_or_insert_with(key, || 0);
                            while let Err(Some(_)) = map.fetch_update(&key, |n| Some(n + 1)) {}
                        }
                        _ => {
                            let mut seen = map.get_or_insert_with(key, || 0);
                            while let Err(now) = map.compare_exchange(&key, &seen, seen + 1) {
                                seen = now.expect("nobody removes");
                            }
                        }
                    }
                    // Enough other keys that the map grows meanwhile.
                    map.insert(100 + 10 * key + thread, 0);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!([2, 4, 6].map(|key| map.get(&key)), [Some(6), Some(3), Some(3)]);
}

/// One of several inserts of a key wins, and one of several removals.
fn one_wins<S: Subject>()
where
    Map<S>: Send + Sync,
{
    let map = nearly_full::<S>();
    let threads: Vec<_> = (0..3_u64)
        .map(|thread| spawn(&map, move |map| map.try_insert(2, thread).is_ok()))
        .collect();
    let wins = threads.into_iter().map(|thread| thread.join().unwrap());
    assert_eq!(wins.filter(|&won| won).count(), 1);
    let threads: Vec<_> = (0..3).map(|_| spawn(&map, |map| map.remove(&2).is_some())).collect();
    let wins = threads.into_iter().map(|thread| thread.join().unwrap());
    assert_eq!(wins.filter(|&won| won).count(), 1);
    assert_eq!((map.get(&2), map.len()), (None, S::fillers().len()));
}

/// Gets, batches and iterators find keys that are always there while the map grows and shrinks. Some of them are not in
/// their buckets at first.
fn a_stable_key_is_never_missed<S: Subject>()
where
    Map<S>: Send + Sync,
{
    let map = nearly_full::<S>();
    for key in [2, 4, 6] {
        map.insert(key, key);
    }
    let writer = spawn(&map, |map| {
        for key in 10..20 {
            map.insert(2 * key, 0);
        }
        for key in S::fillers().into_iter().step_by(2) {
            map.remove(&key);
        }
        map.shrink_to_fit().unwrap();
    });
    let reader = spawn(&map, |map| {
        for _ in 0..10 {
            assert_eq!(map.get(&4), Some(4));
            for key in S::fillers().into_iter().skip(1).step_by(2) {
                assert_eq!(map.get(&key), Some(0));
            }
            let mut values = [None; 3];
            assert_eq!(map.get_many(&[2, 4, 6], &mut values), Ok(3));
            assert_eq!(values, [Some(2), Some(4), Some(6)]);
        }
    });
    for _ in 0..2 {
        let mut seen: Vec<_> = map.iter().filter(|&(key, _)| key <= 6).collect();
        seen.sort_unstable();
        assert_eq!(seen, [(2, 2), (4, 4), (6, 6)]);
    }
    writer.join().unwrap();
    reader.join().unwrap();
}

/// An iterator began in an index that has become a larger one. While it reads on, the map shrinks and grows again.
pub(crate) fn yields_a_key_once<M, V>(map: &Arc<M>, value: impl Fn(u64) -> V)
where
    M: ConcurrentMap<u64, V> + Send + Sync + 'static,
    V: Clone + Ord + std::fmt::Debug,
{
    for key in 0..6 {
        map.insert(key, value(key));
    }
    let iter = map.iter();
    map.reserve(40).unwrap();
    let resizer = spawn(map, |map| {
        map.shrink_to_fit().unwrap();
        map.reserve(40).unwrap();
    });
    let mut seen: Vec<_> = iter.collect();
    seen.sort_unstable();
    assert!(seen.iter().cloned().eq((0..6).map(|n| (n, value(n)))), "{seen:?}");
    resizer.join().unwrap();
}

fn an_iterator_yields_a_key_once<S: Subject>()
where
    Map<S>: Send + Sync,
{
    yields_a_key_once(&S::small(), |n| n);
}

/// Threads change keys while another shrinks the map and grows it again.
fn resizing_loses_nothing<S: Subject>()
where
    Map<S>: Send + Sync,
{
    let map = S::small();
    for key in 0..12 {
        map.insert(key, 0);
    }
    let resizer = spawn(&map, |map| {
        for _ in 0..3 {
            map.reserve(40).unwrap();
            map.shrink_to_fit().unwrap();
        }
    });
    let writers: Vec<_> = (0..2_u64)
        .map(|thread| {
            spawn(&map, move |map| {
                for i in 0..12 {
                    let key = 2 * (i % 6) + thread;
                    assert_eq!(map.update(&key, i + 1), Some(if i < 6 { 0 } else { i - 5 }));
                    assert_eq!(map.insert(100 + key, i), (i >= 6).then(|| i - 6));
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|thread| thread.join().unwrap());
    resizer.join().unwrap();
    assert_eq!(map.len(), 24);
    assert!((0..12).all(|key| map.get(&key) == Some(7 + key / 2)));
}

/// One thread keeps two keys in step, the first one ahead. A snapshot shows them so.
fn snapshots_are_cuts<S: Subject>()
where
    Map<S>: Send + Sync,
{
    let map = nearly_full::<S>();
    map.insert(2, 0);
    map.insert(3, 0);
    let writer = spawn(&map, |map| {
        for n in 1..6 {
            map.insert(2, n);
            map.insert(3, n);
            map.insert(10 + n, n);
        }
    });
    for _ in 0..2 {
        let snapshot: std::collections::HashMap<_, _> = map.snapshot().unwrap().collect();
        let (ahead, behind) = (snapshot[&2], snapshot[&3]);
        assert!(ahead == behind || ahead == behind + 1, "{ahead} {behind}");
        // All changes before the last step are there.
        assert!((1..behind).all(|n| snapshot.get(&(10 + n)) == Some(&n)), "{snapshot:?}");
    }
    writer.join().unwrap();
}

/// If a key was seen to change before another one, it does not change after it in a snapshot,
/// whichever threads change them.
fn snapshots_are_cuts_of_several_writers<S: Subject>()
where
    Map<S>: Send + Sync,
{
    let map = S::small();
    // The hashes of these keys are in both halves.
    let counters = [2, 3, 4, 5];
    for key in counters {
        map.insert(key, 0);
    }
    let writers = counters.map(|key| {
        spawn(&map, move |map| {
            let mut seen = Vec::new();
            for n in 1..3 {
                map.update(&key, n);
                seen.push(counters.map(|key| map.get(&key).unwrap()));
            }
            seen
        })
    });
    let snapshot: std::collections::HashMap<_, _> = map.snapshot().unwrap().collect();
    let cut = counters.map(|key| snapshot[&key]);
    for (at, writer) in writers.into_iter().enumerate() {
        for (n, seen) in (1..).zip(writer.join().unwrap()) {
            // If the cut lacks a change, it lacks every change that had not been made by then.
            let is_later = cut[at] < n;
            assert!(!is_later || (0..4).all(|other| cut[other] <= seen[other]), "{cut:?} {seen:?}");
        }
    }
}

/// A batch runs its operations in order, also while other threads grow the map.
fn batches_keep_their_order<S: Subject>()
where
    Map<S>: Send + Sync,
{
    let map = nearly_full::<S>();
    let other = spawn(&map, |map| {
        for key in 0..6 {
            map.insert(100 + 2 * key, 0);
        }
    });
    let batch = spawn(&map, |map| {
        let requests = [
            Request::Insert(2, 1),
            Request::Get(2),
            Request::TryInsert(2, 9),
            Request::Remove(2),
            Request::Get(2),
            Request::TryInsert(2, 3),
        ];
        let mut operations = requests.map(Op::new);
        assert_eq!(map.execute(&mut operations, Stop::Never), 6);
        operations.map(|operation| operation.outcome.is_success())
    });
    other.join().unwrap();
    assert_eq!(batch.join().unwrap(), [true, true, false, true, false, true]);
    assert_eq!(map.get(&2), Some(3));
    assert_eq!(map.len(), S::fillers().len() + 6 + 1);
}

#[derive(Clone, Default)]
pub(crate) struct Constant;

impl BuildHasher for Constant {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        Self
    }
}

impl Hasher for Constant {
    fn finish(&self) -> u64 {
        7
    }
    fn write(&mut self, _bytes: &[u8]) {}
}

static LIVING: AtomicUsize = AtomicUsize::new(0);

/// Counts how many values of this type exist.
pub(crate) struct Counted(u64);

impl Counted {
    fn new(number: u64) -> Self {
        LIVING.fetch_add(1, Ordering::SeqCst);
        Self(number)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Boxed entries of one hash stay correct under concurrent use: guards see whole entries, and each
/// entry is dropped once.
fn colliding_boxed_entries_are_kept<S: Subject>()
where
    BoxedMap<u64, Counted, Constant, S::Design>: Send + Sync,
{
    LIVING.store(0, Ordering::SeqCst);
    let map = S::colliding();
    let threads: Vec<_> = (0..2_u64)
        .map(|thread| {
            spawn(&map, move |map| {
                for i in 0..15 {
                    let key = 2 * i + thread;
                    assert!(map.try_put(key, Counted::new(key)).is_ok());
                    let guard = map.pin();
                    assert_eq!(guard.get(&key).map(|value| value.0), Some(key));
                    drop(guard);
                    if i % 3 == 0 {
                        assert!(map.remove_entry(&key).is_some());
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(map.len(), 20);
    let guard = map.pin();
    assert!((0..30).all(|key| guard.get(&key).is_some() == (key / 2 % 3 != 0)));
    drop(guard);
    drop(map);
    assert_eq!(LIVING.load(Ordering::SeqCst), 0);
}
