//! The order of a pool's steps, between which a crash may come.

use super::header::{self, Field};
use super::region::PoolRegion;
use super::{Backing, Durable, Event, HEADER, Kind, Media, PAGE, Paged, Pool, Recorder, Wanted};
use crate::error::{Error, FileError};
use crate::memory::{Medium, Part, Region};
use crate::sync::Ordering::Relaxed;
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
    let place_at = |address: *const u8| match medium
        .pool()
        .locate(address, FileError::corrupt("a byte").into())
    {
        Error::File(FileError::Corrupt { at, .. }) => at.map(|at| at as usize),
        other => panic!("{other:?}"),
    };
    let place_of =
        |region: &PoolRegion, offset| place_at(region.base().as_ptr().wrapping_add(offset));
    for (offset, place) in
        [(0, PAGE), (PAGE - 1, 2 * PAGE - 1), (PAGE, 3 * PAGE), (2 * PAGE + 8, 4 * PAGE + 8)]
    {
        assert_eq!(place_of(&front, offset), Some(place), "byte {offset}");
    }
    assert_eq!((place_of(&front, 3 * PAGE), place_of(&back, 8)), (None, Some(2 * PAGE + 8)));
    let address = front.base().as_ptr();
    drop(front);
    assert_eq!((place_at(address), place_of(&back, 8)), (None, Some(2 * PAGE + 8)));
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

#[test]
fn what_is_given_back_between_other_parts_takes_no_room() {
    let (medium, _recorder) = pool(false);
    let front = medium.region(Part::Front, 1 << 20).unwrap();
    let back = medium.region(Part::Back, 1 << 20).unwrap();
    front.resize(8 * PAGE).unwrap();
    // SAFETY: all of it is committed, and only this test uses it.
    unsafe { front.base().as_ptr().write_bytes(7, 8 * PAGE) };
    back.resize(PAGE).unwrap();
    let blocks = || rustix::fs::fstat(medium.pool().backing().file()).unwrap().st_blocks;
    let before = blocks();
    front.release(0);
    assert!(before - blocks() >= (8 * PAGE / 512) as i64, "{before} blocks, then {}", blocks());
    assert_eq!(medium.pool().actual_bytes(), Ok(10 * PAGE as u64));
}

/// Returns the bytes of a file.
pub(super) fn image_of(pool: &Pool) -> Vec<u8> {
    let mut image = vec![0; pool.actual_bytes().unwrap() as usize];
    assert_eq!(rustix::io::pread(pool.backing().file(), &mut image, 0), Ok(image.len()));
    image
}

#[test]
fn a_part_grows_by_an_eighth_at_least_and_not_in_vain() {
    let (medium, _recorder) = pool(true);
    let medium_of_pages = Paged::new(
        Pool::create(
            Backing::simulated(&[], true, true, Arc::default()).unwrap(),
            Kind::Pea,
            &[0; 12],
            Wanted::default(),
        )
        .unwrap(),
        1 << 30,
    )
    .unwrap();
    let region = medium_of_pages.region(Part::Front, 1 << 30).unwrap();
    for pages in 1..400 {
        region.resize(pages * PAGE).unwrap();
        let committed = region.committed();
        assert!((pages * PAGE..=pages * PAGE * 9 / 8 + PAGE).contains(&committed), "{committed}");
        region.resize(committed).unwrap();
        assert_eq!(region.committed(), committed);
    }
    assert!(medium_of_pages.pool().extents.lock().of(Part::Front).count() < 60);
    let committed = region.committed();
    assert!(region.is_absent(committed) && !region.is_absent(committed - 1));
    // A part that is larger than what is asked for has an eighth more addresses.
    let region = medium.region(Part::Front, 1 << 20).unwrap();
    region.resize(16 * PAGE).unwrap();
    assert_eq!((region.reserved(), region.resize(17 * PAGE).is_err()), (16 * PAGE, true));
    drop(region);
    let region = medium.region(Part::Front, 1).unwrap();
    assert_eq!((region.reserved(), region.committed()), (18 * PAGE, 16 * PAGE));
}

/// What was mended or cut off must not come back when the file grows.
#[test]
fn a_file_that_is_mended_is_durable_before_its_session() {
    let (medium, _recorder) = pool(false);
    let region = medium.region(Part::Front, 1 << 20).unwrap();
    region.resize(PAGE).unwrap();
    let image = image_of(medium.pool());
    let entry = 2 * HEADER;
    let words = [0, 8, 16].map(|at| [entry + at, entry + at + 512 * 32]);
    for damaged in [None, Some(image.len())].into_iter().chain(words.concat().into_iter().map(Some))
    {
        let mut other = image.clone();
        match damaged {
            Some(at) if at < image.len() => other[at] ^= 4,
            Some(_) => other.resize(image.len() + PAGE, 7),
            None => {}
        }
        let recorder = Arc::new(Recorder::default());
        let backing = Backing::simulated(&other, false, false, Arc::clone(&recorder)).unwrap();
        let opened = Pool::open(backing, Kind::Iceberg, Wanted::default()).unwrap();
        opened.begin_session().unwrap();
        assert_eq!(image_of(&opened), image, "byte {damaged:?}");
        let events = recorder.events();
        let is_barrier = |event: &Event| matches!(event, Event::BarrierEnded { .. });
        let is_change =
            |event: &Event| matches!(event, Event::GivenBack { .. } | Event::Store { .. });
        let barrier = events.iter().rposition(is_barrier);
        let change = events.iter().rposition(is_change);
        assert_eq!((barrier.is_some(), change.is_some()), (damaged.is_some(), damaged.is_some()));
        assert!(barrier >= change, "byte {damaged:?}");
    }
}

#[test]
fn a_pool_says_what_its_medium_orders_and_whether_it_has_failed() {
    for is_ordered in [true, false] {
        let (medium, recorder) = pool(is_ordered);
        assert_eq!((medium.is_ordered(), medium.has_failed()), (is_ordered, false));
        let begin = recorder.len();
        medium.pool().set_items(5);
        let events = recorder.events();
        let flushed = events[begin..].iter().filter_map(|event| match event {
            Event::Flush { offset, .. } => Some(*offset as usize),
            _ => None,
        });
        let items = Field::Items as usize;
        let expected = if is_ordered { vec![items, HEADER + items] } else { vec![] };
        assert_eq!(flushed.collect::<Vec<_>>(), expected);
        assert!(!medium.pool().is_closed());
        medium.pool().set_session(false);
        assert!(medium.pool().is_closed());
        medium.pool().poison();
        assert!(medium.has_failed());
        // On persistent memory nothing is lost that was stored.
        medium.pool().poison_by_failure(FileError::Full.into());
        let is_unknown = medium.pool().field(Field::Since) == header::UNKNOWN;
        assert_eq!(is_unknown, !is_ordered);
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
