//! A value that a guard has found stays, whichever thread reclaims.

use super::hooks::{self, Witness};
use super::watch;
use crate::effort::scaled;
use nunatak::alloc::Global;
use nunatak::entry::Format;
use nunatak::{BlobMap, BoxedMap, ByteMap, Design, RandomState, RecordMap, entry};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

type Boxed<D> = BoxedMap<u64, Witness, RandomState, D>;

/// Runs `collect` repeatedly on other threads while `run` runs. Usually there are more threads than
/// processors, so that each is descheduled anywhere now and then.
fn beside(collect: impl Fn() + Sync, run: impl FnOnce()) {
    struct Ends<'e>(&'e AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ended.load(Ordering::SeqCst) {
                    collect();
                }
            });
        }
        let _ends = Ends(&ended);
        run();
    });
}

/// Lets many threads use the map at a time. Then a look at all threads' guards takes long enough
/// for the thread that was looked at first to act meanwhile.
fn used_by_many<M: Sync>(map: &M, use_it: impl Fn(&M) + Sync) {
    use_it(map);
    const THREADS: usize = 300;
    let all_are_here = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                use_it(map);
                all_are_here.wait();
            });
        }
    });
}

/// A thread finds a value under a guard, removes it and another entry, and asks for the other one
/// by value, while another thread reclaims. The guard's value stays.
///
/// # Panics
/// If the map fails the check.
pub fn guards_keep_what_they_found<D: Design>()
where
    Boxed<D>: Sync,
{
    let map = Boxed::<D>::default();
    used_by_many(&map, |map| assert!(map.pin().get(&1).is_none()));
    beside(
        || _ = map.reclaim(),
        || {
            for round in 0..scaled(300_000) {
                watch::tick();
                drop(map.put(1, Witness::new(1)));
                drop(map.put(2, Witness::new(2)));
                let guard = map.pin();
                let found = guard.get(&1).expect("just stored");
                drop(map.remove_entry(&1));
                if let Some(removed) = map.remove_entry(&2) {
                    assert!(removed.into_owned().is_err(), "a guard may see it, round {round}");
                }
                assert_eq!(found.number(), 1, "round {round}");
            }
        },
    );
    drop(map);
    hooks::nothing_is_used_after_its_end();
    assert_eq!(hooks::alive(), 0, "values were leaked");
}

/// A thread removes entries and asks for them by value, while another one looks at them under
/// guards: no entry goes to both.
///
/// # Panics
/// If the map fails the check.
pub fn owned_values_are_seen_by_nobody<D: Design>()
where
    Boxed<D>: Sync,
{
    let map = Boxed::<D>::default();
    used_by_many(&map, |map| assert!(map.pin().get(&1).is_none()));
    beside(
        || {
            let guard = map.pin();
            let found = [1, 2, 3].map(|key| guard.get(&key));
            map.reclaim();
            for value in found.into_iter().flatten() {
                assert!((1..4).contains(&value.number()));
            }
        },
        || {
            let (mut owned, mut rounds) = (0, 0);
            // The system may suspend the other thread under its guard for as long as all of them take.
            while rounds < scaled(50_000) || (owned == 0 && rounds < scaled(50_000_000)) {
                rounds += 1;
                watch::tick();
                (1..4).for_each(|key| drop(map.put(key, Witness::new(key))));
                for key in 1..4 {
                    if let Some(Ok((_, value))) = map.remove_entry(&key).map(|it| it.into_owned()) {
                        assert_eq!(value.number(), key);
                        owned += 1;
                    }
                }
            }
            assert!(owned > 0, "a guard was seen always");
        },
    );
    drop(map);
    hooks::nothing_is_used_after_its_end();
    assert_eq!(hooks::alive(), 0, "values were leaked");
}

fn bytes_stay<E, D>(map: &ByteMap<E, D>)
where
    E: for<'v> entry::Entries<Naming = entry::Plain, Value<'v> = &'v [u8]>,
    D: Design,
    ByteMap<E, D>: Sync,
{
    let (first, second) = ([1; 40], [2; 40]);
    used_by_many(map, |map| assert!(map.pin().get(b"1").is_none()));
    beside(
        || _ = map.reclaim(),
        || {
            for round in 0..scaled(50_000) {
                watch::tick();
                map.put(b"1", &first).expect("memory");
                map.put(b"2", &second).expect("memory");
                let guard = map.pin();
                let found = guard.get(b"1").expect("just stored");
                map.delete(b"1");
                drop(map.detach(b"2"));
                // It may lie in the memory of the first one, if that was free.
                map.put(b"3", &second).expect("memory");
                assert_eq!(found, first, "round {round}");
            }
        },
    );
}

/// The same for records and blobs: detached and replaced ones are not freed while a guard may see
/// them.
///
/// # Panics
/// If the map fails the check.
pub fn guards_keep_bytes<D>()
where
    D: nunatak::HashesWith<RandomState> + nunatak::Unshadowed,
    D: Design<Medium = <nunatak::Dlht as Design>::Medium>,
    RecordMap<Format, Global, RandomState, D>: Sync,
    BlobMap<RandomState, D>: Sync,
{
    bytes_stay(&RecordMap::<Format, Global, RandomState, D>::new());
    bytes_stay(&BlobMap::<RandomState, D>::new());
}
