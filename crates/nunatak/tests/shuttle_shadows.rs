//! Hidden keys and records under a randomised scheduler: whole operations of several threads,
//! through growth, shrinking, snapshots and delegated bins.
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" cargo test --release -p nunatak --test shuttle_shadows
//! ```
#![cfg(shuttle)]
#![allow(dead_code, reason = "scenarios of other maps")]

mod schedules;

use nunatak::alloc::Global;
use nunatak::entry::Format;
use nunatak::{DlhtMap, DlhtShadowMap, DlhtShadowRecordMap, Modulo};
use schedules::{Constant, Scenario};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type Map = DlhtShadowMap<u64, u64, Modulo>;
type Records = DlhtShadowRecordMap<Format, Global, Constant>;

/// Two bins; even keys share one.
fn small() -> Arc<Map> {
    let builder = DlhtMap::<u64, u64>::builder().hasher(Modulo).initial_bins(2);
    Arc::new(builder.growth_factor(2).transfer_chunk(1).build_shadow().unwrap())
}

/// A map in which all keys share one bin.
fn colliding() -> Arc<Records> {
    let builder = DlhtMap::<u64, u64>::builder().hasher(Constant).initial_bins(2);
    Arc::new(builder.growth_factor(2).transfer_chunk(1).build_shadow_records(Global).unwrap())
}

/// Threads hide the same keys while others grow, shrink and cut the map. Each key has one owner at
/// a time, which finds it hidden.
fn hidden_keys_have_one_owner() {
    let map = small();
    let owners: Arc<[AtomicUsize; 2]> = Arc::default();
    let mut threads: Vec<_> = (1..3)
        .map(|thread| {
            let (map, owners) = (Arc::clone(&map), Arc::clone(&owners));
            thread::spawn(move || {
                for round in 0..3 {
                    let key = 2 * (round % 2);
                    let Ok(shadow) = map.shadow_insert(key) else { continue };
                    let owner = &owners[round as usize % 2];
                    assert_eq!(owner.swap(thread, Ordering::SeqCst), 0, "two owners");
                    assert!(map.get(&key).is_none() && map.insert(key, 9).is_err());
                    assert_eq!(owner.swap(0, Ordering::SeqCst), thread);
                    if round == 0 {
                        drop(shadow);
                    } else {
                        shadow.commit(thread as u64);
                        map.remove(&key);
                    }
                }
            })
        })
        .collect();
    let others = Arc::clone(&map);
    threads.push(thread::spawn(move || {
        for key in 10..24 {
            others.insert(2 * key, key).unwrap();
        }
        assert_eq!(others.snapshot().unwrap().filter(|(key, _)| *key >= 20).count(), 14);
        (10..24).for_each(|key| assert_eq!(others.remove(&(2 * key)), Some(key)));
        others.shrink_to_fit().unwrap();
    }));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((map.len(), map.iter().count()), (0, 0));
}

/// Records whose keys share one word, in a bin that is delegated: each is inserted once, hidden or
/// not.
fn colliding_records_are_inserted_once() {
    let map = colliding();
    for key in 0..14_u8 {
        map.put(&[key; 12], b"").unwrap();
    }
    let threads: Vec<_> = (0..3_u8)
        .map(|thread| {
            let map = Arc::clone(&map);
            thread::spawn(move || {
                let mut inserted = 0;
                for key in 100..102_u8 {
                    let key = [key; 12];
                    if thread == 0 {
                        inserted += usize::from(map.try_insert(&key, b"seen") == Ok(Ok(())));
                    } else if let Ok(shadow) = map.shadow_insert(&key, b"hidden") {
                        shadow.commit();
                        inserted += 1;
                    }
                }
                inserted
            })
        })
        .collect();
    let inserted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!((inserted, map.len()), (2, 16));
    for key in 100..102_u8 {
        assert!(map.delete(&[key; 12]) && !map.delete(&[key; 12]), "inserted twice");
    }
    assert_eq!((map.reclaim(), map.blob_stats().blobs), (0, 14));
}

const SCENARIOS: [Scenario; 2] = [
    ("hidden keys have one owner", 6_000, hidden_keys_have_one_owner),
    ("colliding records are inserted once", 3_000, colliding_records_are_inserted_once),
];

#[test]
fn every_scenario_holds() {
    schedules::every_scenario_holds(&SCENARIOS);
}

#[cfg(nunatak_seeded_bugs)]
#[test]
fn seeded_bugs_are_found() {
    use nunatak::seeded::Bug;
    schedules::seeded_bugs_are_found(
        &[
            (Bug::HiddenIgnored, "hidden keys have one owner"),
            (Bug::HiddenNotMoved, "hidden keys have one owner"),
        ],
        &SCENARIOS,
    );
}
