//! Values change in place while other threads remove their entries: no change is lost.

use nunatak::{
    BoxedMap, Dlht, DlhtBoxedMap, HashesWith, Iceberg, Pea, RandomState, Sealable, Turbo,
    Unshadowed,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

type Counts<D> = BoxedMap<u64, Sealable<AtomicU64>, RandomState, D>;

fn add_one(n: &AtomicU64) -> u64 {
    n.fetch_add(1, Relaxed)
}

fn value(n: &AtomicU64) -> u64 {
    n.load(Relaxed)
}

/// The number of each thread's attempts to remove an entry.
const ATTEMPTS: u64 = if cfg!(miri) { 50 } else { 4_000 };

/// Ends the other threads' work, also by a panic.
struct Leaves<'t>(&'t AtomicU64);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Some threads count; others remove by `remove`, which returns the count that it removed. No count
/// is lost.
fn conserves<D: HashesWith<RandomState> + Unshadowed>(
    (keys, attempts): (u64, u64),
    remove: impl Fn(&Counts<D>, u64) -> u64 + Sync,
) where
    Counts<D>: Sync,
{
    let map: Counts<D> = BoxedMap::new();
    let (removing, removed) = (AtomicU64::new(2), AtomicU64::new(0));
    let add = |thread: u64| {
        let (mut added, mut at) = (0, thread);
        while removing.load(Relaxed) > 0 {
            at += 1;
            if at % 4 == 0 {
                added += u64::from(map.modify(&(at % keys), add_one).is_some());
            } else {
                map.modify_or_insert_with(at % keys, AtomicU64::default, add_one);
                added += 1;
            }
        }
        added
    };
    let added: u64 = std::thread::scope(|scope| {
        let add = &add;
        let adders = [0, 1].map(|thread| scope.spawn(move || add(thread)));
        for thread in 0..2 {
            let (map, removing, removed, remove) = (&map, &removing, &removed, &remove);
            scope.spawn(move || {
                let _leaves = Leaves(removing);
                // Until the other threads have run, too.
                for at in (0..).take_while(|at| *at < attempts || removed.load(Relaxed) == 0) {
                    removed.fetch_add(remove(map, (at + thread) % keys), Relaxed);
                    if at % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
        adders.into_iter().map(|adder| adder.join().unwrap()).sum()
    });
    let present: u64 = map.pin().iter().map(|(_, n)| value(n.peek())).sum();
    let removed = removed.into_inner();
    assert_eq!(removed + present, added, "{removed} were removed, {present} are present");
}

fn conserves_by_all<D: HashesWith<RandomState> + Unshadowed>()
where
    Counts<D>: Sync,
{
    for keys in [1, 16] {
        let any = |_: &u64, _: &AtomicU64| true;
        conserves::<D>((keys, ATTEMPTS), |map, key| {
            map.remove_sealed_if(&key, any, |_, n| value(n)).unwrap_or(0)
        });
        // The removed value is the one that the condition saw.
        conserves::<D>((keys, ATTEMPTS), |map, key| {
            let mut seen = 0;
            let is_even = |_: &u64, n: &AtomicU64| {
                seen = value(n);
                // Time for other threads to interfere.
                if seen % 32 == 2 {
                    std::thread::yield_now();
                }
                seen.is_multiple_of(2)
            };
            let taken = map.remove_sealed_if(&key, is_even, |_, n| value(n));
            assert!(taken.is_none_or(|taken| taken == seen), "{taken:?} of {seen}");
            taken.unwrap_or(0)
        });
        // Each call goes through all buckets.
        conserves::<D>((keys, ATTEMPTS / 20), |map, _| {
            let mut removed = 0;
            map.retain_unsealed(|_, n| value(n) < 2, |_, n| removed += value(n));
            removed
        });
        // Removed first, then sealed, unless another thread has sealed it.
        conserves::<D>((keys, ATTEMPTS), |map, key| {
            let Some(taken_out) = map.remove_entry(&key) else { return 0 };
            while !taken_out.value().is_sealed() {
                if taken_out.value().seal_if(|_| true) {
                    return value(taken_out.value().peek());
                }
                std::hint::spin_loop();
            }
            0
        });
    }
}

#[test]
fn counts_of_dlht_are_conserved() {
    conserves_by_all::<Dlht>();
}

#[test]
fn counts_of_iceberg_are_conserved() {
    conserves_by_all::<Iceberg>();
}

#[test]
fn counts_of_pea_are_conserved() {
    conserves_by_all::<Pea>();
}

#[test]
fn counts_of_turbo_are_conserved() {
    conserves_by_all::<Turbo>();
}

#[test]
fn an_entry_in_use_is_not_removed() {
    let map: Counts<Dlht> = BoxedMap::new();
    let any = |_: &u64, _: &AtomicU64| true;
    map.modify_or_insert_with(1, AtomicU64::default, |_| {
        assert_eq!(map.remove_sealed_if(&1, any, |_, n| value(n)), None);
        map.retain_unsealed(|_, _| panic!("asked about a value in use"), |_, _| ());
        assert_eq!(map.modify(&1, add_one), Some(0));
        assert_eq!(map.modify_or_insert_with(1, || panic!("it is there"), add_one), 1);
    });
    assert_eq!(map.remove_sealed_if(&1, |_, n| value(n) > 2, |_, n| value(n)), None);
    assert_eq!(map.remove_sealed_if(&1, any, |_, n| value(n)), Some(2));
    assert_eq!(map.remove_sealed_if(&1, any, |_, n| value(n)), None);
    assert_eq!((map.modify(&1, add_one), map.len()), (None, 0));
}

/// A thread that has sealed a value, and did no more, blocks no other thread.
#[test]
fn a_sealed_entry_counts_as_absent() {
    let map: Counts<Dlht> = BoxedMap::new();
    let fill = || {
        for key in 0..4 {
            map.put(key, AtomicU64::new(7).into());
            assert!(map.pin().get(&key).unwrap().seal_if(|_| true));
        }
    };
    fill();
    assert_eq!(map.len(), 4);
    assert_eq!(map.modify(&0, add_one), None);
    assert_eq!(map.modify_or_insert_with(1, AtomicU64::default, add_one), 0);
    assert_eq!(map.remove_sealed_if(&2, |_, _| true, |_, n| value(n)), None);
    map.retain_unsealed(|_, _| true, |_, _| panic!("another's"));
    assert_eq!((map.len(), map.modify(&1, add_one)), (1, Some(1)));
    fill();
    map.clear();
    assert_eq!((map.len(), map.unreclaimed()), (0, 0));
}

#[test]
fn panics_lose_nothing() {
    let map: Counts<Dlht> = BoxedMap::new();
    let panics = |f: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
    let burn = || panic!("in a closure");
    panics(&|| map.modify_or_insert_with(1, || (burn(), AtomicU64::new(0)).1, |_| ()));
    assert!(map.is_empty());
    panics(&|| map.modify_or_insert_with(1, AtomicU64::default, |n| (add_one(n), burn()).1));
    panics(&|| assert!(map.modify(&1, |n| (add_one(n), burn()).1).is_some()));
    panics(&|| assert!(map.remove_sealed_if(&1, |_, _| (burn(), true).1, |_, _| ()).is_some()));
    panics(&|| map.retain_unsealed(|_, _| (burn(), true).1, |_, _| ()));
    // No use is left behind, so it can be removed.
    assert_eq!(map.remove_sealed_if(&1, |_, _| true, |_, n| value(n)), Some(2));
    map.modify_or_insert_with(2, AtomicU64::default, add_one);
    panics(&|| assert!(map.remove_sealed_if(&2, |_, _| true, |_, _| burn()).is_some()));
    assert!(map.is_empty());
    map.modify_or_insert_with(3, AtomicU64::default, add_one);
    panics(&|| map.retain_unsealed(|_, _| false, |_, _| burn()));
    assert_eq!((map.len(), map.reclaim()), (0, 0));
}

/// A value that is made in vain is dropped. A value that is stored is not removed before its first
/// use has ended.
#[test]
fn a_value_is_used_before_it_is_removed() {
    let map: DlhtBoxedMap<u64, Sealable<AtomicU64>> = DlhtBoxedMap::new();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                map.remove_sealed_if(&1, |_, _| true, |_, n| assert_ne!(value(n), 0, "unused"));
            }
        });
        for _ in 0..ATTEMPTS {
            map.modify_or_insert_with(1, AtomicU64::default, add_one);
        }
        stop.store(true, Relaxed);
    });
    // Another call stores the key while `make` runs.
    let map: DlhtBoxedMap<u64, Sealable<AtomicU64>> = DlhtBoxedMap::new();
    let make = || {
        map.modify_or_insert_with(1, || AtomicU64::new(10), add_one);
        AtomicU64::new(20)
    };
    assert_eq!((map.modify_or_insert_with(1, make, add_one), map.len()), (11, 1));
}
