//! Seeded bugs: without any one of the flushes, fences, barriers and orders that durability relies
//! on, a crash test fails. (One test, since a bug is set for the whole process.)
#![cfg(all(nunatak_seeded_bugs, target_os = "linux"))]

use nunatak::durable::{InFile, Map, Options, Persistency};
use nunatak::seeded::{Bug, seed};
use nunatak::{Blocks, Iceberg};
use nunatak_harness::Subject;
use nunatak_harness::crashed_histories::crashed_histories;
use nunatak_harness::crashes::{
    Action, Thoroughness, crash_after, extents, history, reinserted, settled_by_others,
    synced_while_moving,
};
use nunatak_harness::infallible::Infallible;
use nunatak_harness::stress::cuts::reads_keep_the_order;
use std::panic::catch_unwind;

type Small = Map<u64, u64, InFile<Iceberg<Blocks<8, 2>>>>;

/// Room for a few transactions.
const JOURNAL: u64 = 64 << 10;

const LOOK: Thoroughness = Thoroughness { images: 12, second: 11, moments: 1, journal: 0 };

/// Returns whether a history of several threads shows the bug.
fn is_found_by_threads(bug: Bug) -> bool {
    seed(Some(bug));
    let latency = std::time::Duration::from_micros(20);
    let found = catch_unwind(|| crashed_histories::<Small>(40, 60, latency)).is_err();
    seed(None);
    found
}

/// Maps in files that were unlinked after their creation.
struct File;

impl Subject<u64, u64> for File {
    type Map = Infallible<Map<u64, u64, InFile<Iceberg>>>;

    fn build(&self, capacity: usize) -> Self::Map {
        let directory = tempfile::tempdir().expect("a directory");
        let options = Options::new().capacity(capacity);
        let map = Map::create_with(directory.path().join("map"), &options);
        Infallible(map.expect("a new file"))
    }
}

/// Returns whether batches that read one key after the other show the bug.
fn is_found_by_batches(bug: Bug) -> bool {
    seed(Some(bug));
    let found =
        (0..30).any(|_| catch_unwind(|| reads_keep_the_order::<u64, u64, _>(&File)).is_err());
    seed(None);
    found
}

/// Long histories are checked at sampled moments.
const GLANCE: Thoroughness = Thoroughness { images: 6, second: 11, moments: 401, journal: 0 };

/// Returns whether any history shows the bug.
fn is_found(persistency: Persistency, journal: u64, bug: Bug, first: usize) -> bool {
    let is_found_after = |before: &[Action], actions: &[Action], look| {
        let look = Thoroughness { journal, ..look };
        seed(Some(bug));
        let crash = || crash_after::<Small>(before, actions, persistency, look);
        let found = catch_unwind(crash).is_err();
        seed(None);
        found
    };
    let is_found_in = |actions: &[Action], look| is_found_after(&[], actions, look);
    let (before, moving) = synced_while_moving();
    // A history that is known to show the bug comes first, then the others.
    let mut order: Vec<usize> = (0..7).collect();
    order.swap(0, first);
    order.into_iter().any(|number| match number {
        0 => is_found_in(&extents(), GLANCE),
        1 => is_found_in(&reinserted(), LOOK),
        2 => is_found_in(&settled_by_others(38), LOOK),
        3 => is_found_after(&before, &moving, LOOK),
        4 => is_found_in(&history(0, 60, 30), LOOK),
        5 => is_found_in(&history(1, 200, 120), LOOK),
        _ => is_found_in(&history(2, 400, 250), LOOK),
    })
}

/// Returns the number of a history that is known to show the bug, so that the others need not run.
fn first_for(journal: u64, bug: Bug) -> usize {
    match bug {
        Bug::RemoveUnflushed | Bug::RemoveUnfenced if journal == 0 => 1,
        Bug::DoubledKept => 1,
        Bug::VacateUnfenced | Bug::LeftoverOutlivesRemoval | Bug::BehindRowsKept => 2,
        Bug::LeftoverOutlivesUpdate | Bug::MendWithoutBarrier => 3,
        Bug::ReplaceUnflushed | Bug::ChainUnflushed if journal > 0 => 3,
        Bug::RemoveUnflushed => 4,
        _ if journal > 0 => 1,
        _ => 0,
    }
}

#[test]
fn bugs_of_numbers_are_found() {
    // Each failure that the test expects would print a panic message.
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
        (Pages, Bug::LeftoverOutlivesUpdate),
        (Pages, Bug::LeftoverOverwritten),
        (Pages, Bug::MendWithoutBarrier),
        (Pages, Bug::DoubledKept),
        (Pages, Bug::BehindRowsKept),
        (Pages, Bug::SyncOmitted),
    ];
    // Bugs in a sync that writes a journal.
    let of_journals = [
        Bug::InsertUnflushed,
        Bug::ReplaceUnflushed,
        Bug::RemoveUnflushed,
        Bug::ChainUnflushed,
        Bug::JournalUnsynced,
        Bug::JournalNotEnded,
        Bug::JournalEndsEarly,
        Bug::JournalTornRepeated,
        Bug::JournalAlwaysRepeated,
    ];
    let bugs = bugs.map(|(persistency, bug)| (persistency, 0, bug));
    let of_journals = of_journals.map(|bug| (Pages, JOURNAL, bug));
    let begin = std::time::Instant::now();
    let of_threads = [(Lines, 0, Bug::ReadUnpersisted)];
    let missed: Vec<_> = bugs
        .into_iter()
        .chain(of_journals)
        .chain(of_threads)
        .filter(|&(persistency, journal, bug)| {
            let found = match of_threads.contains(&(persistency, journal, bug)) {
                true => is_found_by_threads(bug),
                false => is_found(persistency, journal, bug, first_for(journal, bug)),
            };
            println!("{:?}: {bug:?} in {persistency:?}, {journal}: {found}", begin.elapsed());
            !found
        })
        .collect();
    let is_found = is_found_by_batches(Bug::BatchReadsLeftovers);
    let _ = std::panic::take_hook();
    assert!(is_found, "no batch has read what a resize has left");
    assert!(missed.is_empty(), "not found: {missed:?}");
}
