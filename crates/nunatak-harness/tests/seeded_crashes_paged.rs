//! Seeded bugs in the durability of tables whose pages are copied: a crash test shows each. A bug is
//! set for the whole process, so one test runs at a time; two processes may run one each.
#![cfg(all(nunatak_seeded_bugs, target_os = "linux"))]

use nunatak::Turbo;
use nunatak::durable::{
    IcebergBlobMap, InFile, PeaBlobMap, PeaMap, Persistency, TurboBlobMap, TurboMap,
};
use nunatak::seeded::{Bug, seed};
use nunatak_harness::crashed_histories::crashed_histories;
use nunatak_harness::crashes::{
    Action, Batched, Batches, Thoroughness, a_failed_sync_is_marked, batches,
    blobs_are_kept_for_power_cuts, crash_history, extents, history, killed_again_and_again,
    short_batches,
};
use std::panic::catch_unwind;
use std::sync::{Mutex, PoisonError};

/// Held by the test that runs.
static RUNNING: Mutex<()> = Mutex::new(());

const LOOK: Thoroughness = Thoroughness { images: 12, second: 11, moments: 1, journal: 0 };
const OF_BATCHES: [Bug; 5] = [
    Bug::UndoUnflushed,
    Bug::UndoUnfenced,
    Bug::UndoLengthUnfenced,
    Bug::UndoNotEmptied,
    Bug::BatchNotTakenBack,
];
const GLANCE: Thoroughness = Thoroughness { images: 8, second: 23, moments: 7, journal: 0 };

/// Returns whether a history of several threads shows the bug.
fn is_found_by_threads<M: Batches>(bug: Bug) -> bool {
    seed(Some(bug));
    let latency = std::time::Duration::from_micros(20);
    // Whether two threads meet depends on what else the machine does.
    let found = (0..4).any(|_| catch_unwind(|| crashed_histories::<M>(40, 60, latency)).is_err());
    seed(None);
    found
}

/// Returns whether any history shows the bug.
fn is_found<M: Batches>(persistency: Persistency, bug: Bug) -> bool {
    if OF_BATCHES.contains(&bug) {
        return [short_batches(), batches(1, 60)].into_iter().any(|actions| {
            seed(Some(bug));
            let crash = || crash_history::<Batched<M>>(&actions, persistency, LOOK);
            let found = catch_unwind(crash).is_err();
            seed(None);
            found
        });
    }
    let is_found_in = |actions: &[Action], look| {
        seed(Some(bug));
        let found = catch_unwind(|| crash_history::<M>(actions, persistency, look)).is_err();
        seed(None);
        found
    };
    let splits: Vec<Action> = (0..150).map(|key| Action::Insert(key, key + 1)).collect();
    let merges = (0..140).map(Action::Remove).chain([Action::Shrink, Action::Insert(150, 7)]);
    let merges: Vec<Action> = splits.iter().copied().chain(merges).collect();
    if bug == Bug::ExtentUnflushed {
        return is_found_in(&extents(), Thoroughness { moments: 401, ..GLANCE });
    }
    if matches!(bug, Bug::VersionOverwritten | Bug::FoundPagesNotSummed) {
        seed(Some(bug));
        let found = catch_unwind(|| killed_again_and_again::<M>(13)).is_err();
        seed(None);
        return found;
    }
    if bug == Bug::FailureUnmarked {
        seed(Some(bug));
        let found = catch_unwind(a_failed_sync_is_marked::<M>).is_err();
        seed(None);
        return found;
    }
    if bug == Bug::PlaceNotKept {
        seed(Some(bug));
        let found = catch_unwind(blobs_are_kept_for_power_cuts::<InFile<Turbo>>).is_err();
        seed(None);
        return found;
    }
    if bug == Bug::RootPairUnflushed {
        // The table of IcebergHT doubles after the sync.
        let before = (0..120).map(|key| Action::Insert(key, key + 1)).chain([Action::Sync]);
        let all: Vec<Action> =
            before.chain((120..160).map(|key| Action::Insert(key, key + 1))).collect();
        return is_found_in(&all, GLANCE);
    }
    if bug == Bug::SettledPageNotCopied {
        // A doubling moves keys out of pages that nothing else has changed since the sync.
        let before = (0..120).map(|key| Action::Insert(key, key + 1)).chain([Action::Sync]);
        let all: Vec<Action> = before.chain([Action::Reserve(300)]).collect();
        return is_found_in(&all, GLANCE);
    }
    if bug == Bug::ParentUnfenced {
        // After a split the same thread does nothing that would hide the missing fence.
        let inserts = (0..40).map(|key| Action::Insert(key, key + 1));
        let updates = (0..40).map(|key| Action::Update(key, key + 2));
        let all: Vec<Action> = inserts.chain([Action::Reserve(120)]).chain(updates).collect();
        return is_found_in(&all, GLANCE);
    }
    is_found_in(&history(0, 60, 30), LOOK)
        || is_found_in(&splits, GLANCE)
        || is_found_in(&merges, GLANCE)
        || is_found_in(&history(2, 400, 250), GLANCE)
}

/// A bug, and the durable media in which histories are to show it. Without media, threads are to show it.
type Seeded = (Option<Persistency>, Bug);

/// Returns these bugs with those of batches, and the bug of reads.
fn with_batches(bugs: &[(Persistency, Bug)]) -> Vec<Seeded> {
    let of_batches = OF_BATCHES.map(|bug| (Some(Persistency::Lines), bug));
    let all = in_media(bugs).into_iter().chain(of_batches);
    all.chain([(None, Bug::ReadUnpersisted)]).collect()
}

fn in_media(bugs: &[(Persistency, Bug)]) -> Vec<Seeded> {
    bugs.iter().map(|&(persistency, bug)| (Some(persistency), bug)).collect()
}

/// Returns the bugs that nothing shows.
fn missed_of<M: Batches>(bugs: Vec<Seeded>) -> Vec<Bug> {
    let begin = std::time::Instant::now();
    let missed = bugs.into_iter().filter(|&(persistency, bug)| {
        let found = match persistency {
            Some(persistency) => is_found::<M>(persistency, bug),
            None => is_found_by_threads::<M>(bug),
        };
        println!("{:?}: {bug:?} in {persistency:?}: {found}", begin.elapsed());
        !found
    });
    missed.map(|(_, bug)| bug).collect()
}

/// Fails if a bug was missed. Each failure that the tests expect would print a panic message.
fn none_is_missed(missed: impl FnOnce() -> Vec<Bug>) {
    let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    std::panic::set_hook(Box::new(|_| {}));
    let missed = missed();
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn bugs_of_numbers_are_found() {
    use Persistency::{Lines, Pages};
    let of_pea = [
        (Lines, Bug::InsertUnflushed),
        (Lines, Bug::InsertUnfenced),
        (Lines, Bug::ReplaceUnflushed),
        (Lines, Bug::ReplaceUnfenced),
        (Lines, Bug::RemoveUnflushed),
        (Lines, Bug::RemoveUnfenced),
        (Lines, Bug::TagBeforeValue),
        (Lines, Bug::DescriptorUnflushed),
        (Lines, Bug::ChildrenUnfenced),
        (Lines, Bug::ParentUnfenced),
        (Lines, Bug::ParentForgottenFirst),
        (Lines, Bug::ShallowestNotTaken),
        (Lines, Bug::StashNotRestored),
        (Lines, Bug::ExtentUnflushed),
        (Pages, Bug::TornVersionsKept),
        (Pages, Bug::SumsAfterBarrier),
        (Pages, Bug::FoundPagesNotSummed),
        (Pages, Bug::VersionOverwritten),
        (Pages, Bug::EpochBeforeBarrier),
        (Pages, Bug::EpochUnsynced),
        (Pages, Bug::FailureUnmarked),
        (Pages, Bug::SyncOmitted),
    ];
    let of_turbo = [
        (Lines, Bug::InsertUnflushed),
        (Lines, Bug::InsertUnfenced),
        (Lines, Bug::ReplaceUnflushed),
        (Lines, Bug::ReplaceUnfenced),
        (Lines, Bug::RemoveUnflushed),
        (Lines, Bug::RemoveUnfenced),
        (Lines, Bug::TagBeforeValue),
        (Lines, Bug::RunUnflushed),
        (Lines, Bug::RunUnfenced),
        (Lines, Bug::DescriptorUnflushed),
        (Lines, Bug::DescriptorUnfenced),
        (Lines, Bug::WayNotRestored),
        (Pages, Bug::TornVersionsKept),
        (Pages, Bug::SyncOmitted),
    ];
    none_is_missed(|| {
        let mut missed = missed_of::<PeaMap<u64, u64>>(with_batches(&of_pea));
        missed.extend(missed_of::<TurboMap<u64, u64>>(with_batches(&of_turbo)));
        missed
    });
}

#[test]
fn bugs_of_blobs_are_found() {
    use Persistency::{Lines, Pages};
    let of_blobs = [
        (Lines, Bug::InsertUnfenced),
        (Lines, Bug::ReplaceUnfenced),
        (Lines, Bug::RemoveUnfenced),
        (Lines, Bug::BlobUnflushed),
        (Lines, Bug::BlobUnfenced),
        (Lines, Bug::BlobsNotFound),
        (Pages, Bug::PlaceNotKept),
        (Pages, Bug::SyncOmitted),
    ];
    let of_iceberg_blobs = [
        (Lines, Bug::RootPairUnflushed),
        (Lines, Bug::RemoveUnflushed),
        (Pages, Bug::ChangedPageNotCopied),
        (Pages, Bug::SettledPageNotCopied),
        (Pages, Bug::TornVersionsKept),
    ];
    none_is_missed(|| {
        let mut missed = missed_of::<TurboBlobMap>(with_batches(&of_blobs));
        // Their log of batches and their reads are those of the maps above.
        missed.extend(missed_of::<PeaBlobMap>(in_media(&of_blobs)));
        missed.extend(missed_of::<IcebergBlobMap>(in_media(
            &[&of_blobs[..], &of_iceberg_blobs].concat(),
        )));
        missed
    });
}
