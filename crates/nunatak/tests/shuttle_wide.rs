//! Wide entries, in DLHT's bins and in IcebergHT's blocks, under a randomised scheduler: whole operations of several threads, through growth,
//! shrinking and snapshots, on schedules that a real machine seldom takes.
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" cargo test --release -p nunatak --test shuttle_wide
//! ```
//!
//! With `--cfg nunatak_seeded_bugs` as well it must find the bugs that need no weak memory order.
#![cfg(shuttle)]

#[allow(dead_code, reason = "the scenarios of maps of words")]
mod schedules;

use nunatak::{Dlht, DlhtBuilder, Iceberg, IcebergBuilder, WideDesign, WideMap};
use schedules::Scenario;
use shuttle::thread;
use std::sync::Arc;

type Map<D> = WideMap<u64, (u64, u64), D>;

const fn scenarios<D: Small>() -> [Scenario; 7] {
    [
        ("values are whole", 4_000, values_are_whole::<D>),
        ("growth loses nothing", 6_000, growth_loses_nothing::<D>),
        ("no increment is lost", 6_000, no_increment_is_lost::<D>),
        ("a stable key is never missed", 4_000, a_stable_key_is_never_missed::<D>),
        ("an iterator yields a key once", 6_000, an_iterator_yields_a_key_once::<D>),
        ("resizing loses nothing", 4_000, resizing_loses_nothing::<D>),
        ("snapshots are cuts", 6_000, snapshots_are_cuts::<D>),
    ]
}

trait Small: WideDesign + Sized {
    fn map() -> Map<Self>;
}

impl Small for Dlht {
    /// Two bins of two slots; the index doubles, and moves one bin at a time.
    fn map() -> Map<Self> {
        let builder = DlhtBuilder::default().initial_bins(2).growth_factor(2).transfer_chunk(1);
        builder.link_ratio(64).build_wide().unwrap()
    }
}

impl Small for Iceberg {
    /// Two blocks of four slots.
    fn map() -> Map<Self> {
        IcebergBuilder::default().build_wide().unwrap()
    }
}

/// A value whose halves belong together.
fn value(n: u64) -> (u64, u64) {
    (n, !n)
}

fn spawn<D: Small, T: Send + 'static>(
    map: &Arc<Map<D>>,
    operate: impl FnOnce(&Map<D>) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let map = Arc::clone(map);
    thread::spawn(move || operate(&map))
}

/// One thread changes a key and the key that takes its slot. Another one never sees half of a value.
fn values_are_whole<D: Small>() {
    let map = Arc::new(D::map());
    map.insert(2, value(0));
    let writer = spawn(&map, |map| {
        for n in 1..6 {
            map.update(&2, value(n));
            map.remove(&2);
            map.insert(4, value(100 + n));
            map.remove(&4);
            map.insert(2, value(n));
        }
    });
    for _ in 0..20 {
        let (first, second) = (map.get(&2), map.get(&4));
        assert!(first.is_none_or(|it| it == value(it.0) && it.0 < 100), "{first:?}");
        assert!(second.is_none_or(|it| it == value(it.0) && it.0 > 100), "{second:?}");
    }
    writer.join().unwrap();
}

/// Threads insert and remove keys of their own while the map grows from its smallest size.
fn growth_loses_nothing<D: Small>() {
    let map = Arc::new(D::map());
    let threads: Vec<_> = (0..3_u64)
        .map(|thread| {
            spawn(&map, move |map| {
                for i in 0..12 {
                    let key = 3 * i + thread;
                    assert_eq!(map.insert(key, value(key)), None);
                    assert_eq!(map.get(&key), Some(value(key)));
                    if i % 2 == 1 {
                        assert_eq!(map.remove(&key), Some(value(key)));
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
            assert_eq!(map.get(&key), (i % 2 == 0).then_some(value(key)));
        }
    }
    assert_eq!(map.len(), 18);
}

/// Increments of shared counters add up while the map grows.
fn no_increment_is_lost<D: Small>() {
    let map = Arc::new(D::map());
    let threads: Vec<_> = (0..3_u64)
        .map(|thread| {
            spawn(&map, move |map| {
                for key in [2, 4, 2, 6] {
                    map.get_or_insert_with(key, || value(0));
                    map.fetch_update(&key, |n| Some(value(n.0 + 1))).unwrap();
                    map.insert(100 + 10 * key + thread, value(0));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!([2, 4, 6].map(|key| map.get(&key)), [6, 3, 3].map(|n| Some(value(n))));
}

/// Gets, batches and iterators find keys that are always there while the map grows and shrinks.
fn a_stable_key_is_never_missed<D: Small>() {
    let map = Arc::new(D::map());
    for key in [2, 4, 6] {
        map.insert(key, value(key));
    }
    let writer = spawn(&map, |map| {
        for key in 10..30 {
            map.insert(2 * key, value(0));
        }
        for key in 10..30 {
            map.remove(&(2 * key));
        }
        map.shrink_to_fit().unwrap();
    });
    let reader = spawn(&map, |map| {
        for _ in 0..10 {
            assert_eq!(map.get(&4), Some(value(4)));
            let mut values = [None; 3];
            assert_eq!(map.get_many(&[2, 4, 6], &mut values), Ok(3));
            assert_eq!(values, [2, 4, 6].map(|n| Some(value(n))));
        }
    });
    for _ in 0..2 {
        let mut seen: Vec<_> = map.iter().filter(|&(key, _)| key <= 6).collect();
        seen.sort_unstable();
        assert_eq!(seen, [2, 4, 6].map(|n| (n, value(n))));
    }
    writer.join().unwrap();
    reader.join().unwrap();
}

fn an_iterator_yields_a_key_once<D: Small>() {
    schedules::yields_a_key_once(&Arc::new(D::map()), value);
}

/// Threads change keys while another shrinks the map and grows it again.
fn resizing_loses_nothing<D: Small>() {
    let map = Arc::new(D::map());
    for key in 0..12 {
        map.insert(key, value(0));
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
                    let before = value(if i < 6 { 0 } else { i - 5 });
                    assert_eq!(map.update(&key, value(i + 1)), Some(before));
                    assert_eq!(map.insert(100 + key, value(i)), (i >= 6).then(|| value(i - 6)));
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|thread| thread.join().unwrap());
    resizer.join().unwrap();
    assert_eq!(map.len(), 24);
    assert!((0..12).all(|key| map.get(&key) == Some(value(7 + key / 2))));
}

/// One thread keeps two keys in step, the first one ahead. A snapshot shows them so.
fn snapshots_are_cuts<D: Small>() {
    let map = Arc::new(D::map());
    map.insert(2, value(0));
    map.insert(3, value(0));
    let writer = spawn(&map, |map| {
        for n in 1..6 {
            map.insert(2, value(n));
            map.insert(3, value(n));
            map.insert(10 + n, value(n));
        }
    });
    for _ in 0..2 {
        let snapshot: std::collections::HashMap<_, _> = map.snapshot().unwrap().collect();
        let (ahead, behind) = (snapshot[&2].0, snapshot[&3].0);
        assert!(ahead == behind || ahead == behind + 1, "{ahead} {behind}");
        // All changes before the last step are there.
        assert!((1..behind).all(|n| snapshot.get(&(10 + n)) == Some(&value(n))), "{snapshot:?}");
    }
    writer.join().unwrap();
}

#[test]
fn every_scenario_holds_in_bins() {
    schedules::every_scenario_holds(&scenarios::<Dlht>());
}

#[test]
fn every_scenario_holds_in_blocks() {
    schedules::every_scenario_holds(&scenarios::<Iceberg>());
}

#[cfg(nunatak_seeded_bugs)]
#[test]
fn seeded_bugs_are_found() {
    use nunatak::seeded::Bug;
    let bugs = [
        (Bug::WideVersionKept, "values are whole"),
        (Bug::WideReadNotValidated, "values are whole"),
        (Bug::WideNotMarkedMoved, "growth loses nothing"),
        (Bug::WideLinksNotMoved, "growth loses nothing"),
        (Bug::WideCutWithoutFreezing, "snapshots are cuts"),
        (Bug::IterFollowsLastOnly, "an iterator yields a key once"),
    ];
    schedules::seeded_bugs_are_found(&bugs, &scenarios::<Dlht>());
    schedules::seeded_bugs_are_found(&bugs, &scenarios::<Iceberg>());
}
