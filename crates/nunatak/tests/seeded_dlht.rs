//! The seeded bugs of DLHT that need no interleaving to be found: each is
//! switched on in turn, and the check that belongs to it must fail.
//!
//! ```sh
//! RUSTFLAGS="--cfg nunatak_seeded_bugs" cargo test --release -p nunatak --test seeded_dlht
//! ```
#![cfg(all(nunatak_seeded_bugs, not(loom), not(shuttle)))]

use nunatak::seeded::{Bug, seed};
use nunatak::{DlhtBoxedMap, DlhtMap};
use std::hash::{BuildHasher, Hash, Hasher};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Longer than any check here takes that ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether a check passes. A check that does not end fails.
fn passes(check: fn() -> bool) -> bool {
    let (sender, result) = mpsc::channel();
    // Not joined: with a bug the thread may never end.
    std::thread::spawn(move || sender.send(catch_unwind(check).unwrap_or(false)));
    result.recv_timeout(PATIENCE).unwrap_or(false)
}

/// A map whose bins need links keeps all keys when it grows.
fn links_are_moved() -> bool {
    let map: DlhtMap<u64, u64> = DlhtMap::with_capacity(1000);
    (0..1000).for_each(|key| assert_eq!(map.insert(key, key), None));
    map.reserve(100_000).unwrap();
    (0..1000).all(|key| map.get(&key) == Some(key))
}

/// Gives every key the same hash.
#[derive(Clone, Default)]
struct Constant;

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

/// Keeps more keys of one hash than a bin has slots.
fn colliding_keys_are_kept() -> bool {
    let map: DlhtBoxedMap<u64, u64, Constant> =
        DlhtMap::<u64, u64>::builder().hasher(Constant).build_boxed().unwrap();
    (0..40).for_each(|key| assert_eq!(map.insert(key, key), None));
    (0..40).all(|key| map.get(&key) == Some(key))
}

/// A key whose comparison can be made to stop.
#[derive(Debug, Clone)]
struct Slow(u64, Option<Arc<Gate>>);

#[derive(Debug, Default)]
struct Gate {
    is_reached: AtomicBool,
    is_open: AtomicBool,
}

impl PartialEq for Slow {
    fn eq(&self, other: &Self) -> bool {
        if let Some(gate) = self.1.as_ref().or(other.1.as_ref()) {
            gate.is_reached.store(true, Ordering::SeqCst);
            while !gate.is_open.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
        self.0 == other.0
    }
}
impl Eq for Slow {}

impl Hash for Slow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// An index is not freed while an operation reads it, here a lookup under a guard. The lookup goes
/// on only if the index is not freed, so that the bug does no harm.
fn a_running_operation_holds_its_index() -> bool {
    // Measured before, since an operation holds the indexes of all maps.
    let unheld: DlhtBoxedMap<Slow, u64> = DlhtBoxedMap::with_capacity(100_000);
    unheld.reserve(1_000_000).unwrap();
    let unheld = unheld.memory_usage().mapped;
    let map: Arc<DlhtBoxedMap<Slow, u64>> = Arc::new(DlhtBoxedMap::with_capacity(100_000));
    map.insert(Slow(1, None), 10);
    let gate = Arc::new(Gate::default());
    let reader = {
        let (map, gate) = (Arc::clone(&map), Arc::clone(&gate));
        std::thread::spawn(move || map.get(&Slow(1, Some(gate))))
    };
    while !gate.is_reached.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    map.reserve(1_000_000).unwrap();
    let holds = map.memory_usage().mapped > unheld;
    if holds {
        gate.is_open.store(true, Ordering::SeqCst);
        assert_eq!(reader.join().unwrap(), Some(10));
    }
    holds
}

#[test]
fn every_seeded_bug_is_found() {
    let checks: [(Bug, fn() -> bool); 4] = [
        (Bug::TransferSkipsLinks, links_are_moved),
        (Bug::DelegateLosesPairs, colliding_keys_are_kept),
        (Bug::ReclaimWithoutGrace, a_running_operation_holds_its_index),
        (Bug::ReclaimUnderGuard, a_running_operation_holds_its_index),
    ];
    for (bug, check) in checks {
        assert!(passes(check), "the check for {bug:?} fails without it");
        seed(Some(bug));
        let passed = passes(check);
        seed(None);
        assert!(!passed, "{bug:?} is not found");
    }
}
