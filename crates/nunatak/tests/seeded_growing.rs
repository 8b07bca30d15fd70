//! The seeded bugs of tables that begin small which any schedule shows: each is switched on, and the
//! check that belongs to it must fail. (`loom_growing` finds the others.)
//!
//! ```sh
//! RUSTFLAGS="--cfg nunatak_seeded_bugs" cargo test --release -p nunatak --test seeded_growing
//! ```
#![cfg(all(nunatak_seeded_bugs, target_os = "linux", not(loom), not(shuttle)))]

use nunatak::seeded::{Bug, seed};
use nunatak::{PeaMultiMap, TurboMap};
use std::hash::{BuildHasher, DefaultHasher};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Limits the addresses of the process to what it has, or not at all.
fn limit_addresses(to_present: bool) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().next().unwrap().parse().unwrap();
    let limit = if to_present { pages * 4096 } else { libc::RLIM_INFINITY };
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is a valid structure for the length of the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

type Map = TurboMap<u64, u64, Meddling>;

/// When it is armed, it calls a function while the system refuses memory, once.
#[derive(Clone, Default)]
struct Meddling(Arc<(AtomicBool, OnceLock<Box<dyn Fn() + Send + Sync>>)>);

impl BuildHasher for Meddling {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        if self.0.0.swap(false, Ordering::Relaxed) {
            limit_addresses(true);
            self.0.1.get().unwrap()();
            limit_addresses(false);
        }
        DefaultHasher::new()
    }
}

/// While the pairs of a small map are stored in the full table, a key goes to the slots, since a
/// second full table is refused.
fn a_key_that_the_copy_missed_is_kept(_limit: Duration) -> bool {
    // Memory of the allocator, for the slots.
    drop(std::hint::black_box(vec![[1_u8; 50_000]; 2]));
    let hasher = Meddling::default();
    let builder = TurboMap::<u64, u64>::builder().hasher(hasher.clone());
    let map: Arc<Map> = Arc::new(builder.build().unwrap());
    let meddled = Arc::clone(&map);
    let meddle = move || assert_eq!(meddled.insert(1000, 1), None);
    assert!(hasher.0.1.set(Box::new(meddle)).is_ok());
    (0..32).for_each(|n| assert_eq!(map.insert(n, n), None));
    hasher.0.0.store(true, Ordering::Relaxed);
    (32..200).for_each(|n| assert_eq!(map.insert(n, n), None));
    assert!(map.stats().buckets > 0, "the map is large");
    map.get(&1000) == Some(1) && (0..200).all(|n| map.get(&n) == Some(n)) && map.len() == 201
}

/// The values of a key change their slots, but the key always has one.
fn a_key_that_always_has_a_value_is_found(limit: Duration) -> bool {
    let map: PeaMultiMap<u64, u64> = [(1, 10)].into_iter().collect();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let start = Instant::now();
            while start.elapsed() < limit {
                map.insert(1, 20);
                map.remove_one(&1, &10);
                map.insert(1, 10);
                map.remove_one(&1, &20);
                if ends.load(Ordering::Relaxed) {
                    break;
                }
            }
            ends.store(true, Ordering::Relaxed);
        });
        let mut is_found = true;
        while is_found && !ends.load(Ordering::Relaxed) {
            is_found = map.contains_key(&1) && map.get(&1).is_some();
        }
        ends.store(true, Ordering::Relaxed);
        is_found
    })
}

#[test]
fn every_seeded_bug_is_found() {
    let checks: [(Bug, fn(Duration) -> bool); 2] = [
        (Bug::GrownFromStaleCopy, a_key_that_the_copy_missed_is_kept),
        (Bug::SmallMissNotValidated, a_key_that_always_has_a_value_is_found),
    ];
    // A miss needs two processors, so a bug takes long to find while other programs have them.
    let [without, with] = [1, 120].map(Duration::from_secs);
    for (bug, check) in checks {
        let passed = catch_unwind(|| check(without)).unwrap_or(false);
        assert!(passed, "the check of {bug:?} fails without it");
        seed(Some(bug));
        let passed = catch_unwind(|| check(with)).unwrap_or(false);
        seed(None);
        assert!(!passed, "{bug:?} is not found");
    }
}
