//! Guards and operations in destructors of thread-local values.

use super::hooks::{self, Witness};
use super::watch;
use crate::effort::scaled;
use nunatak::{BoxedGuard, BoxedMap, Design, Dlht, DlhtBoxedMap, DlhtMap, RandomState};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

type Map = DlhtBoxedMap<u64, Witness>;

/// Static, so that no tool takes it for a leak.
static MAP: OnceLock<&'static Map> = OnceLock::new();

fn map() -> &'static Map {
    MAP.get_or_init(|| Box::leak(Box::new(Map::new())))
}

/// Guards that outlive their thread's own thread-local.
#[derive(Debug, Default)]
struct Kept(Vec<BoxedGuard<'static, u64, Witness, RandomState, Dlht>>);

static READ: AtomicUsize = AtomicUsize::new(0);

impl Drop for Kept {
    fn drop(&mut self) {
        // Another thread may have this thread's number by now.
        let Some(first) = self.0.pop() else { return };
        let found = first.get(&3);
        drop(map().remove_entry(&3));
        for (number, guard) in self.0.drain(..).enumerate() {
            if number % 32 == 0 {
                thread::yield_now();
                let key = number as u64 / 32 % 3;
                assert!(guard.get(&key).is_none_or(|value| value.number() == key));
            }
        }
        map().reclaim();
        if let Some(value) = found {
            assert_eq!(value.number(), 3);
            READ.fetch_add(1, Ordering::Relaxed);
        }
        drop(map().put(3, Witness::new(3)));
    }
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// Leaves so many guards to the thread's destructors.
fn keep_guards(guards: usize) {
    // Before this thread's first operation, so that this destructor may run last.
    KEPT.with(|kept| kept.borrow_mut().0.clear());
    for key in 0..4 {
        drop(map().put(key, Witness::new(key)));
    }
    KEPT.with_borrow_mut(|kept| kept.0.extend((0..guards).map(|_| map().pin())));
}

fn nothing_is_held() {
    assert_eq!(map().reclaim(), 0, "guards of threads that have ended hold entries");
    drop(map().put(9, Witness::new(9)));
    let removed = map().remove_entry(&9).expect("just stored");
    assert!(removed.into_owned().is_ok(), "there is no guard");
    hooks::nothing_is_used_after_its_end();
}

/// Empties the map, since leak checkers don't look into tables.
fn nothing_is_left() {
    map().clear();
    assert_eq!((map().reclaim(), hooks::alive()), (0, 0));
}

/// Guards in thread-local values that were made before the thread's first operation protect entries
/// until they are dropped, and hold nothing afterwards. Here threads run one after the other.
///
/// # Panics
/// If the map fails the check.
pub fn guards_outlive_their_threads() {
    for thread in 0..scaled(1000) {
        watch::tick();
        thread::spawn(move || keep_guards(1 + thread % 300)).join().expect("it does not panic");
        // This thread may get the same number.
        thread::spawn(|| drop(map().pin())).join().expect("it does not panic");
        nothing_is_held();
    }
    assert!(READ.load(Ordering::Relaxed) > 0);
    nothing_is_left();
}

/// The same with threads beside each other, some of which begin while others end.
///
/// # Panics
/// If the map fails the check.
pub fn guards_of_many_threads_outlive_them() {
    for _ in 0..scaled(20) {
        thread::scope(|scope| {
            for spawner in 0..8 {
                scope.spawn(move || {
                    for thread in 0..12 {
                        watch::tick();
                        let ends = thread::spawn(move || {
                            keep_guards(100 + spawner * 40);
                            for round in 0..400 {
                                let key = (thread + round) % 3;
                                let guard = map().pin();
                                let found = guard.get(&key);
                                drop(map().put(key, Witness::new(key)));
                                drop(map().pin());
                                assert!(found.is_none_or(|value| value.number() == key));
                            }
                        });
                        ends.join().expect("it does not panic");
                    }
                });
            }
        });
        nothing_is_held();
    }
    nothing_is_left();
}

/// Guards that the thread's last destructor drops, while another thread uses the map that began
/// when this one's number was free again.
struct Last {
    guards: Vec<BoxedGuard<'static, u64, Witness, RandomState, Dlht>>,
    both: Arc<Both>,
}

/// A place where two running threads meet, so that both go on at the same moment.
#[derive(Default)]
struct Both(AtomicUsize);

impl Both {
    fn wait(&self, until: usize) {
        self.0.fetch_add(1, Ordering::SeqCst);
        while self.0.load(Ordering::SeqCst) < until {
            std::hint::spin_loop();
        }
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        self.both.wait(2);
        self.both.wait(4);
        self.guards.drain(..).for_each(drop);
    }
}

/// A thread that gets the number of another one, whose guards live on, does not share their count.
///
/// # Panics
/// If the map fails the check.
pub fn numbers_are_free_after_the_last_guard() {
    thread_local! {
        static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    const GUARDS: usize = 20_000;
    for _ in 0..scaled(600) {
        watch::tick();
        drop(map().put(3, Witness::new(3)));
        let both = Arc::new(Both::default());
        let ending = {
            let both = both.clone();
            thread::spawn(move || {
                // Before this thread's first operation.
                LAST.set(Some(Last { guards: Vec::new(), both }));
                LAST.with_borrow_mut(|last| {
                    let last = last.as_mut().expect("just set");
                    last.guards.extend((0..GUARDS).map(|_| map().pin()));
                });
            })
        };
        let other = thread::spawn(move || {
            both.wait(2);
            let guard = map().pin();
            let found = guard.get(&3).expect("always present");
            both.wait(4);
            for _ in 0..GUARDS {
                drop(map().pin());
            }
            drop(map().put(3, Witness::new(3)));
            map().reclaim();
            assert_eq!(found.number(), 3);
        });
        ending.join().expect("it does not panic");
        other.join().expect("it does not panic");
        nothing_is_held();
    }
    nothing_is_left();
}

/// Uses a map in its destructor.
struct AtEnd(&'static DlhtMap<u64, u64>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        self.0.insert(1, 2);
        assert_eq!(self.0.get(&1), Some(2));
        drop(map().put(1, Witness::new(1)));
        assert_eq!(map().pin().get(&1).map(Witness::number), Some(1));
    }
}

/// Returns the resident bytes of this process; 0 if unknown.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").ok().and_then(|sizes| {
        sizes.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok())
    });
    pages.unwrap_or(0) * 4096
}

/// Returns the bytes of sixty-four new maps that one new thread uses.
fn of_many_maps() -> usize {
    let before = resident();
    let maps: Vec<DlhtBoxedMap<u64, u64>> = (0..64).map(|_| DlhtBoxedMap::new()).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            for map in &maps {
                drop(map.put(1, 1));
                assert_eq!(map.pin().get(&1), Some(&1));
                assert!(map.remove(&1).is_some());
            }
        });
    });
    resident().saturating_sub(before)
}

fn operations_at_the_end_leave_nothing(used_before: bool) {
    thread_local! {
        static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    }
    static INLINE: OnceLock<&'static DlhtMap<u64, u64>> = OnceLock::new();
    let inline: &'static _ = INLINE.get_or_init(|| Box::leak(Box::new(DlhtMap::new())));
    let before = of_many_maps();
    for _ in 0..scaled(10_000) {
        watch::tick();
        let last = thread::spawn(move || {
            AT_END.set(Some(AtEnd(inline)));
            if used_before {
                drop(map().put(1, Witness::new(1)));
            }
        });
        last.join().expect("it does not panic");
    }
    nothing_is_held();
    nothing_is_left();
    assert_eq!((inline.len(), inline.get(&1)), (1, Some(2)));
    let after = of_many_maps();
    assert!(
        after < before + (8 << 20),
        "64 maps have {after} resident bytes, {before} before 10,000 threads came and went"
    );
}

/// Ten thousand threads that never used a map before their destructors run keep no numbers. So maps
/// of later threads need no more memory than before.
///
/// # Panics
/// If the map fails the check.
pub fn operations_in_destructors_leave_nothing() {
    operations_at_the_end_leave_nothing(false);
}

/// The same with threads that used a map before: their number may be gone.
///
/// # Panics
/// If the map fails the check.
pub fn last_operations_of_threads_leave_nothing() {
    operations_at_the_end_leave_nothing(true);
}

/// Thousands of threads forget guards at their end. The entries that these guards hold are never
/// freed, and their memory is never used again.
///
/// # Panics
/// If the map fails the check.
pub fn forgotten_guards_of_threads_are_harmless<D: Design>()
where
    BoxedMap<u64, Witness, RandomState, D>: Sync,
{
    let map = BoxedMap::<u64, Witness, RandomState, D>::default();
    drop(map.put(0, Witness::new(0)));
    for thread in 0..scaled(2000) {
        watch::tick();
        thread::scope(|scope| {
            scope.spawn(|| {
                let guard = map.pin();
                let found = guard.get(&0).expect("always present").number();
                assert_eq!(found, 0);
                if thread % 2 == 0 {
                    std::mem::forget(guard);
                }
                drop(map.put(1, Witness::new(1)));
                drop(map.remove_entry(&1));
            });
        });
    }
    map.reclaim();
    assert_eq!(map.len(), 1);
    drop(map);
    hooks::nothing_is_used_after_its_end();
    assert_eq!(hooks::alive(), 0, "the map's own end frees all");
}
