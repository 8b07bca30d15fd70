//! Callers' code that takes its time.

use super::hooks::{Event, hooked};
use super::victim::{Shared, Victim, works};
use super::watch;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

type Operation = (&'static str, fn(&dyn Victim));

/// The operations of the thread that blocks.
const OPERATIONS: [Operation; 9] = [
    ("put", |map| map.put(3)),
    ("put of a new key", |map| map.put(1003)),
    ("try_put", |map| map.try_put(3)),
    ("get", |map| assert!(map.get(3).is_none_or(|value| value == 3))),
    ("remove", |map| map.remove(3)),
    ("decide", |map| map.decide(3)),
    ("batch", |map| map.batch(&[3, 4, 1004, 5])),
    ("retain", |map| map.retain(&mut |key| key != 4)),
    ("reclaim", |map| map.reclaim(3)),
];

/// Operations on other keys, which must not wait for the thread that blocks.
fn go_on(map: &dyn Victim) {
    let keys = 5000..5600;
    keys.clone().for_each(|key| map.put(key));
    keys.clone().for_each(|key| assert_eq!(map.get(key), Some(key)));
    assert!(map.iterate().len() >= 600 && map.cut().len() >= 600);
    map.batch(&[5001, 5002, 5003, 5700]);
    map.decide(5004);
    map.reserve(300);
    map.reclaim(5005);
    map.retain(&mut |key| key % 3 != 0 || key < 5000);
    keys.for_each(|key| map.remove(key));
    map.shrink();
    map.look();
}

/// While an operation runs the caller's `Eq`, `Clone`, `Drop` or closure, all operations of other
/// threads on other keys go on. So do growth, shrinking and snapshots.
///
/// # Panics
/// If the map fails the check.
pub fn callers_hold_nothing_up(build: fn() -> Shared) {
    for event in [Event::Eq, Event::Closure, Event::Clone, Event::Drop] {
        for (name, operation) in OPERATIONS {
            // At the first such call, or at a later one.
            for skipped in [0, 1, 3] {
                blocks(build, (event, skipped), name, operation);
            }
        }
    }
}

/// The same for the hasher, called for the operation's own key.
///
/// # Panics
/// If the map fails the check.
pub fn hashers_hold_nothing_up(build: fn() -> Shared) {
    for (name, operation) in OPERATIONS {
        blocks(build, (Event::Hash, 0), name, operation);
    }
}

fn blocks(
    build: fn() -> Shared,
    (at, skipped): (Event, usize),
    name: &str,
    operation: fn(&dyn Victim),
) {
    let (map, other) = (build(), build());
    (0..40).for_each(|key| map.put(key));
    let (entered, has_entered) = mpsc::channel();
    let (leave, may_leave) = mpsc::channel::<()>();
    let blocking = {
        let map = map.clone();
        thread::spawn(move || {
            let left = Cell::new(Some(skipped));
            let hook = move |event| {
                if event != at {
                    return;
                }
                match left.get() {
                    Some(0) => {
                        left.set(None);
                        let _ = entered.send(());
                        let _ = may_leave.recv();
                    }
                    Some(more) => left.set(Some(more - 1)),
                    None => {}
                }
            };
            hooked(Rc::new(hook), || operation(&*map));
        })
    };
    // An error means that the operation does not call it so often.
    let is_blocked = has_entered.recv().is_ok();
    watch::step(|| format!("{name} blocks in call {skipped} of {at:?}: {is_blocked}"));
    if is_blocked {
        go_on(&*other);
        watch::step(|| {
            format!("{name} blocks in call {skipped} of {at:?}, and another map goes on")
        });
        go_on(&*map);
    }
    drop(leave);
    watch::step(|| format!("{name} no longer blocks in {at:?}"));
    blocking.join().expect("it does not panic");
    works(&*map, 0);
}

/// Two threads take snapshots, grow and shrink the map, each within an operation of its own. They
/// don't wait for each other.
///
/// # Panics
/// If the map fails the check.
pub fn callers_may_cut_at_the_same_time(build: fn() -> Shared) {
    for at in [Event::Eq, Event::Closure, Event::Clone, Event::Drop, Event::Hash] {
        for (name, operation) in OPERATIONS {
            watch::step(|| format!("two threads in {at:?} of {name}"));
            let map = build();
            (0..40).for_each(|key| map.put(key));
            let inside = Arc::new(AtomicUsize::new(0));
            let threads = [0, 1].map(|_| {
                let (map, inside) = (map.clone(), inside.clone());
                thread::spawn(move || {
                    let entered = Cell::new(false);
                    let victim = map.clone();
                    let hook = move |event| {
                        if event == at && !entered.replace(true) {
                            inside.fetch_add(1, Ordering::SeqCst);
                            // The other thread may never come, or wait for this one.
                            let since = Instant::now();
                            while inside.load(Ordering::SeqCst) < 2
                                && since.elapsed() < Duration::from_millis(20)
                            {
                                thread::yield_now();
                            }
                            drop(victim.cut());
                            (6000..6200).for_each(|key| victim.put(key));
                            victim.shrink();
                            drop(victim.cut());
                        }
                    };
                    hooked(Rc::new(hook), || operation(&*map));
                })
            });
            threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
            works(&*map, 0);
        }
    }
}
