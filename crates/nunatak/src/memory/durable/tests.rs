//! The order of a pool's steps, between which a crash may come.

use super::region::PoolRegion;
use super::{Backing, Durable, Event, Kind, Media, PAGE, Paged, Pool, Recorder, Wanted};
use crate::error::{Error, FileError};
use crate::memory::{Medium, Part, Region};
use crate::sync::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn pool(is_ordered: bool) -> (Durable, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let backing = Backing::simulated(&[], is_ordered, true, Arc::clone(&recorder)).unwrap();
    (
        Durable::new(Pool::create(backing, Kind::Iceberg, &[0; 12], Wanted::default()).unwrap()),
        recorder,
    )
}

/// Finds the first event of a kind from index `from` on.
fn first(events: &[Event], from: usize, is_it: impl Fn(&Event) -> bool) -> usize {
    from + events[from..].iter().position(is_it).expect("the event")
}

#[test]
fn an_extent_is_entered_when_the_file_has_it() {
    let (medium, recorder) = pool(true);
    let region = medium.region(Part::Front, 1 << 20).unwrap();
    let begin = recorder.len();
    region.resize(1).unwrap();
    let events = recorder.events();
    let resized = first(&events, begin, |event| matches!(event, Event::Resized { .. }));
    let durable = first(&events, resized, |event| matches!(event, Event::BarrierEnded { .. }));
    assert!(resized < durable);
    assert!(!events[begin..durable].iter().any(|event| matches!(event, Event::Store { .. })));
    assert_eq!(medium.pool().file_bytes(), 2 * PAGE as u64);
}

#[test]
fn what_is_given_back_is_gone_before_it_is_used_again() {
    let (medium, recorder) = pool(false);
    let front = medium.region(Part::Front, 1 << 20).unwrap();
    let back = medium.region(Part::Back, 1 << 20).unwrap();
    front.resize(PAGE).unwrap();
    front.resize(2 * PAGE).unwrap();
    let begin = recorder.len();
    front.release(PAGE);
    back.resize(PAGE).unwrap();
    let events = recorder.events();
    // The entry leaves the table, then the pages leave the file, then a barrier ends; only then
    // another part gets an entry.
    let taken_out = first(&events, begin, |event| matches!(event, Event::Store { word: 0, .. }));
    let given = first(&events, taken_out, |event| matches!(event, Event::GivenBack { .. }));
    let durable = first(&events, given, |event| matches!(event, Event::BarrierEnded { .. }));
    let entered = first(&events, given, |event| matches!(event, Event::Store { .. }));
    assert!(durable < entered, "{:?}", &events[begin..]);
    assert_eq!((front.committed(), back.committed()), (PAGE, PAGE));
}

#[test]
fn pages_come_again_empty_and_stay_accessible() {
    let (medium, _recorder) = pool(false);
    let region = medium.region(Part::Front, 1 << 20).unwrap();
    region.resize(PAGE).unwrap();
    region.resize(3 * PAGE).unwrap();
    // SAFETY: within the committed bytes, and only this test uses the byte.
    let byte = unsafe { &mut *region.base().as_ptr().add(2 * PAGE) };
    *byte = 7;
    region.release(PAGE);
    assert_eq!((region.committed(), *byte), (PAGE, 0));
    *byte = 8;
    region.resize(3 * PAGE).unwrap();
    assert_eq!(*byte, 0, "the page of another file was kept");
    assert!(region.resize((1 << 20) + 1).is_err());
}

#[test]
fn damage_is_located_in_each_extent_of_a_part() {
    let (medium, _recorder) = pool(false);
    let front = medium.region(Part::Front, 1 << 20).unwrap();
    let back = medium.region(Part::Back, 1 << 20).unwrap();
    // Behind the header's page: one page of the front, one of the back, two of the front.
    front.resize(PAGE).unwrap();
    back.resize(PAGE).unwrap();
    front.resize(3 * PAGE).unwrap();
    let place_of = |region: &PoolRegion, offset: usize| {
        let address = region.base().as_ptr().wrapping_add(offset);
        match medium.pool().locate(address, FileError::corrupt("a byte").into()) {
            Error::File(FileError::Corrupt { at, .. }) => at.map(|at| at as usize),
            other => panic!("{other:?}"),
        }
    };
    for (offset, place) in
        [(0, PAGE), (PAGE - 1, 2 * PAGE - 1), (PAGE, 3 * PAGE), (2 * PAGE + 8, 4 * PAGE + 8)]
    {
        assert_eq!(place_of(&front, offset), Some(place), "byte {offset}");
    }
    assert_eq!((place_of(&front, 3 * PAGE), place_of(&back, 8)), (None, Some(2 * PAGE + 8)));
}

/// A file that the pool itself makes shorter is not taken for one that another process has cut.
#[test]
fn a_shorter_file_is_no_cut_one() {
    let (medium, _recorder) = pool(false);
    let region = medium.region(Part::Front, 1 << 20).unwrap();
    region.resize(PAGE).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // More threads than most machines have processors, so that they stop at every step.
        for _ in 0..16 {
            scope.spawn(|| {
                while !is_done.load(Relaxed) {
                    assert_eq!(medium.pool().check(), Ok(()));
                }
            });
        }
        for _ in 0..5000 {
            region.resize(4 * PAGE).unwrap();
            region.release(PAGE);
        }
        is_done.store(true, Relaxed);
    });
}

/// A reader that has not learned of a shrink may access the pages that were given up.
#[test]
fn pages_that_were_given_up_read_as_zero() {
    let backing = Backing::simulated(&[], false, true, Arc::default()).unwrap();
    let pool = Pool::create(backing, Kind::Pea, &[0; 12], Wanted::default()).unwrap();
    let medium = Paged::new(pool, 1 << 30).unwrap();
    medium.end_recovery().unwrap();
    let region = medium.region(Part::Front, 1 << 30).unwrap();
    let word_at = |offset: usize| {
        let address = Paged::address(&region, region.base().as_ptr(), offset);
        // SAFETY: within bytes that were committed once, aligned, and of atomic words.
        unsafe { &*address.cast::<AtomicU64>() }
    };
    let last = (256 << 20) - 4096;
    for round in 1..4 {
        region.resize(256 << 20).unwrap();
        for offset in [0, last] {
            assert_eq!(word_at(offset).load(Relaxed), 0);
            Paged::make_writable(&region, offset).unwrap();
            medium.store_word(word_at(offset), round, Relaxed);
        }
        medium.sync(|run| run()).unwrap();
        region.release(0);
        Paged::trim(&region).unwrap();
        assert_eq!([0, last].map(|offset| word_at(offset).load(Relaxed)), [0; 2]);
    }
}

#[test]
fn a_file_appears_when_it_is_complete_or_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let names = || -> Vec<_> {
        std::fs::read_dir(directory.path()).unwrap().map(|it| it.unwrap().file_name()).collect()
    };
    let path = directory.path().join("map");
    let refused = Backing::create(&path, Media::PageCache).unwrap();
    assert!(!path.exists() && names().len() == 1);
    drop(refused);
    assert!(names().is_empty(), "{:?} is left", names());
    let mut kept = Backing::create(&path, Media::PageCache).unwrap();
    kept.unpublished().unwrap().publish().unwrap();
    drop(kept);
    assert_eq!(names(), ["map"]);
}
