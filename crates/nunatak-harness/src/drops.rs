//! Keys and values are dropped exactly once.

use crate::effort::scaled;
use crate::random::Random;
use crate::stress::together;
use crate::subject::Subject;
use nunatak::{Compute, ConcurrentMap, Op, Request, Stop};
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts which tracked numbers are alive.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    book: Arc<Mutex<Book>>,
}

#[derive(Debug, Default)]
struct Book {
    born: u64,
    alive: HashSet<u64>,
    mistakes: Vec<String>,
}

impl Ledger {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a tracked number.
    pub fn track(&self, number: u64) -> Tracked {
        let mut book = self.book();
        let id = book.born;
        book.born += 1;
        book.alive.insert(id);
        Tracked { number: Box::new(number), id, ledger: self.clone() }
    }

    /// Returns how many are alive.
    pub fn alive(&self) -> usize {
        self.book().alive.len()
    }

    /// Checks that all are dropped, and that none was dropped twice or used after its drop.
    ///
    /// # Panics
    /// If the map fails the check.
    pub fn settle(&self) {
        let book = self.book();
        assert!(book.mistakes.is_empty(), "{:?}", book.mistakes);
        assert_eq!(book.alive.len(), 0, "of {} were leaked", book.born);
    }

    /// Notes that a number is dropped.
    pub fn note_drop(&self, tracked: &Tracked) {
        let mut book = self.book();
        if !book.alive.remove(&tracked.id) {
            book.mistakes.push(format!("{} was dropped twice", tracked.number));
        }
    }

    fn used(&self, id: u64, number: u64) {
        let mut book = self.book();
        if !book.alive.contains(&id) {
            book.mistakes.push(format!("{number} was used after it was dropped"));
        }
    }
}

/// A number on the heap whose life is tracked.
#[derive(Debug)]
pub struct Tracked {
    number: Box<u64>,
    id: u64,
    ledger: Ledger,
}

impl Clone for Tracked {
    fn clone(&self) -> Self {
        self.ledger.used(self.id, *self.number);
        self.ledger.track(*self.number)
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.ledger.note_drop(self);
    }
}

impl PartialEq for Tracked {
    fn eq(&self, other: &Self) -> bool {
        self.ledger.used(self.id, *self.number);
        self.number == other.number
    }
}

impl Eq for Tracked {}

impl Hash for Tracked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(*self.number);
    }
}

/// Runs random operations of one thread on few keys.
fn operate<M: ConcurrentMap<Tracked, Tracked>>(
    map: &M,
    ledger: &Ledger,
    random: &mut Random,
    operations: usize,
) {
    let keys = 40;
    for _ in 0..operations {
        let key = ledger.track(random.below(keys));
        let value = ledger.track(random.below(3));
        match random.below(14) {
            0 | 1 => drop(map.insert(key, value)),
            2 => drop(map.try_insert(key, value)),
            3 => drop(map.update(&key, value)),
            4 => drop(map.remove(&key)),
            5 => drop(map.compare_exchange(&key, &ledger.track(1), value)),
            6 => drop(map.fetch_update(&key, |present| {
                (*present.number < 2).then(|| ledger.track(*present.number + 1))
            })),
            7 => drop(map.compute(key, |present| match present {
                Some(_) => Compute::Remove,
                None => Compute::Put(value.clone()),
            })),
            8 => drop(map.get_or_insert_with(key, || value)),
            9 => drop(map.remove_if(&key, |present| *present == value)),
            10 => drop(map.get(&key)),
            11 => {
                let other = ledger.track(random.below(keys));
                let entries = [(key.clone(), value.clone()), (other.clone(), value)];
                let keys = [other, key];
                let room = "room for two";
                map.insert_many(&entries, &mut [None, None]).expect(room);
                map.get_many(&keys, &mut [None, None]).expect(room);
                map.remove_many(&keys, &mut [None, None]).expect(room);
            }
            12 => {
                let mut batch = [
                    Op::new(Request::TryInsert(key.clone(), value.clone())),
                    Op::new(Request::Remove(key.clone())),
                    Op::new(Request::Insert(key, value)),
                ];
                map.execute(&mut batch, Stop::AtFirstFailure);
            }
            _ => whole(map, ledger, random),
        }
    }
}

fn whole<M: ConcurrentMap<Tracked, Tracked>>(map: &M, ledger: &Ledger, random: &mut Random) {
    match random.below(40) {
        0 => map.retain(|_, value| *value.number > 0),
        1 => map.clear(),
        2 => drop(map.shrink_to_fit()),
        3 => drop(map.reserve(500)),
        4 => drop(map.iter().take(5).collect::<Vec<_>>()),
        5 => drop(map.snapshot().map(|entries| entries.take(5).collect::<Vec<_>>())),
        6 => {
            // Held while entries that it may show are removed.
            let snapshot = map.snapshot();
            map.clear();
            drop(snapshot);
        }
        7 => (1000..1300).for_each(|key| drop(map.insert(ledger.track(key), ledger.track(key)))),
        _ => (1000..1010).for_each(|key| drop(map.remove(&ledger.track(key)))),
    }
}

/// One thread: when the map is dropped, every key and value has been dropped, once.
///
/// # Panics
/// If the map fails the check.
pub fn everything_is_dropped_once<S: Subject<Tracked, Tracked>>(subject: &S) {
    for seed in 0..scaled(30) as u64 {
        let ledger = Ledger::default();
        let map = if seed.is_multiple_of(2) { subject.adversarial() } else { subject.build(100) };
        operate(&map, &ledger, &mut Random::new(seed), 1500);
        drop(map);
        ledger.settle();
    }
}

/// Many threads: when the map is dropped, every key and value has been dropped, once.
///
/// # Panics
/// If the map fails the check.
pub fn everything_is_dropped_once_by_threads<S: Subject<Tracked, Tracked>>(subject: &S)
where
    S::Map: Sync,
{
    for seed in 0..scaled(12) as u64 {
        let ledger = Ledger::default();
        let map = subject.adversarial();
        together(4, |thread| {
            operate(&map, &ledger, &mut Random::new(seed * 4 + thread as u64), 2500);
        });
        drop(map);
        ledger.settle();
    }
}

/// When `clear` and `retain` return, the entries that they and earlier operations removed are
/// dropped, unless a guard may see them.
///
/// # Panics
/// If the map fails the check.
pub fn clearing_drops_everything<S: Subject<Tracked, Tracked>>(subject: &S) {
    let ledger = Ledger::default();
    let map = subject.build(0);
    for entries in [1, 7, 1000] {
        let fill = || {
            for key in 0..entries {
                drop(map.insert(ledger.track(key), ledger.track(key)));
                drop(map.insert(ledger.track(key), ledger.track(key + 1)));
            }
        };
        fill();
        drop(map.remove(&ledger.track(0)));
        map.clear();
        assert_eq!((map.len(), ledger.alive()), (0, 0), "{entries} entries were cleared");

        fill();
        map.retain(|key, _| key.number.is_multiple_of(2));
        assert_eq!(ledger.alive(), 2 * map.len(), "one key and one value an entry");
        map.retain(|_, _| false);
        assert_eq!(ledger.alive(), 0);
    }
    drop(map);
    ledger.settle();
}

/// Replaced and removed entries are dropped soon, not with the map.
///
/// # Panics
/// If the map fails the check.
pub fn garbage_is_bounded<S: Subject<Tracked, Tracked>>(subject: &S) {
    let ledger = Ledger::default();
    let map = subject.build(0);
    let population = 100;
    for at in 0..scaled(60_000) as u64 {
        drop(map.insert(ledger.track(at % population), ledger.track(at)));
        if at.is_multiple_of(3) {
            drop(map.remove(&ledger.track(at % population)));
        }
        let alive = ledger.alive();
        assert!(alive < 10_000, "{alive} keys and values for {population} entries");
    }
    drop(map);
    ledger.settle();
}
