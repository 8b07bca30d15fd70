//! Each flush, fence, barrier and order that durability rests on, left out: a crash
//! shows it.
#![cfg(all(nunatak_seeded_bugs, target_os = "linux"))]

use nunatak::durable::{InFile, Persistency};
use nunatak::seeded::{Bug, seed};
use nunatak::{Blocks, Iceberg};
use nunatak_harness::crashes::{
    Action, Thoroughness, crash_history, extents, history, settled_by_others,
};
use std::panic::catch_unwind;

type Small = InFile<Iceberg<Blocks<8, 2>>>;

const LOOK: Thoroughness = Thoroughness { images: 12, second: 11, moments: 1 };

/// What is long is looked at by samples.
const GLANCE: Thoroughness = Thoroughness { images: 6, second: 11, moments: 401 };

/// Whether some history shows a bug.
fn is_found(persistency: Persistency, bug: Bug) -> bool {
    let is_found_in = |actions: &[Action], look| {
        seed(Some(bug));
        let found = catch_unwind(|| crash_history::<Small>(actions, persistency, look)).is_err();
        seed(None);
        found
    };
    let t = std::time::Instant::now();
    let mut names = vec![];
    for number in 0..6 {
        let (actions, keys) = ([60, 200, 400][number % 3], [30, 120, 250][number % 3]);
        if is_found_in(&history(number as u64, actions, keys), LOOK) {
            names.push((format!("history {number}"), t.elapsed()));
            break;
        }
    }
    let t = std::time::Instant::now();
    if is_found_in(&extents(), GLANCE) {
        names.push(("extents".to_string(), t.elapsed()));
    }
    let t = std::time::Instant::now();
    for keys in 10..80 {
        if is_found_in(&settled_by_others(keys), LOOK) {
            names.push((format!("settled {keys}"), t.elapsed()));
            break;
        }
    }
    println!("{bug:?} {names:?}");
    !names.is_empty()
}

#[test]
fn seeded_bugs_are_found() {
    // What is expected to fail prints a panic for each.
    std::panic::set_hook(Box::new(|_| {}));
    use Persistency::{Lines, Pages};
    let bugs = [
        (Lines, Bug::InsertUnflushed),
        (Lines, Bug::InsertUnfenced),
        (Lines, Bug::ReplaceUnflushed),
        (Lines, Bug::ReplaceUnfenced),
        (Lines, Bug::RemoveUnflushed),
        (Lines, Bug::RemoveUnfenced),
        (Lines, Bug::VacateUnflushed),
        (Lines, Bug::VacateUnfenced),
        (Lines, Bug::ChainUnflushed),
        (Lines, Bug::ChainUnfenced),
        (Lines, Bug::RootUnflushed),
        (Lines, Bug::RootUnfenced),
        (Lines, Bug::ExtentUnflushed),
        (Lines, Bug::TagBeforeValue),
        (Lines, Bug::MoveErasesFirst),
        (Pages, Bug::TagBeforeValue),
        (Pages, Bug::MovedAtOnce),
        (Pages, Bug::CleanWithoutBarrier),
        (Pages, Bug::LeftoverOutlivesRemoval),
        (Pages, Bug::LeftoverOverwritten),
        (Pages, Bug::MendWithoutBarrier),
        (Pages, Bug::DoubledKept),
        (Pages, Bug::BehindRowsKept),
        (Pages, Bug::SyncOmitted),
    ];
    let begin = std::time::Instant::now();
    let missed: Vec<_> = bugs
        .into_iter()
        .filter(|&(persistency, bug)| {
            let found = is_found(persistency, bug);
            println!("{:?}: {bug:?} in {persistency:?}: {found}", begin.elapsed());
            !found
        })
        .collect();
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
