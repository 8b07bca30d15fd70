//! The order of a pool's steps, between which a crash may come.

use super::header::{self, Field};
use super::page_versions::Version;
use super::paged::PagedRegion;
use super::region::PoolRegion;
use super::shadow_pages::ShadowPages;
use super::{Backing, Durable, Event, HEADER, Kind, Media, PAGE, Paged, Pool, Recorder, Wanted};
use crate::error::{Error, FileError};
use crate::memory::{Medium, Part, Region, ReservedArray};
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

fn paged(backing: Backing, kind: Kind, is_new: bool) -> (Paged, PagedRegion) {
    let wanted = Wanted { page_checksums: true, ..Wanted::default() };
    let pool = match is_new {
        true => Pool::create(backing, kind, &[0; 12], wanted),
        false => Pool::open(backing, kind, wanted),
    };
    let medium = Paged::new(pool.unwrap(), 1 << 30).unwrap();
    let region = medium.region(Part::Front, 1 << 30).unwrap();
    medium.end_recovery().unwrap();
    (medium, region)
}

fn store(medium: &Paged, region: &PagedRegion, offset: usize, value: u64) {
    Paged::make_writable(region, offset).unwrap();
    let address = Paged::address(region, region.base().as_ptr(), offset);
    // SAFETY: within bytes that were committed, aligned, and of atomic words.
    medium.store_word(unsafe { &*address.cast::<AtomicU64>() }, value, Relaxed);
}

/// The first sync after a process was killed computes the checksums of its last epoch, and of no
/// earlier one.
#[test]
fn a_sync_gives_no_damaged_page_a_new_checksum() {
    const VALUES: [u64; 3] = [1 << 50 | 1, 1 << 50 | 2, 1 << 50 | 3];
    let (medium, region) =
        paged(Backing::simulated(&[], false, true, Arc::default()).unwrap(), Kind::Pea, true);
    region.resize(3 * 4096).unwrap();
    for (page, value) in VALUES.into_iter().enumerate() {
        store(&medium, &region, 4096 * page + 16, value);
        if page < 2 {
            medium.sync(|run| run()).unwrap();
        }
    }
    let image = image_of(medium.pool());
    let places = VALUES.map(|value| {
        8 * image.chunks(8).position(|word| word == value.to_ne_bytes()).expect("the value")
    });
    for (page, damaged) in [None, Some(0), Some(1)].into_iter().enumerate() {
        let mut image = image.clone();
        damaged.into_iter().for_each(|page| image[places[page] + 4] ^= 4);
        let backing = Backing::simulated(&image, false, false, Arc::default()).unwrap();
        let (medium, region) = paged(backing, Kind::Pea, false);
        assert!(!medium.was_cut() && !medium.pool().was_closed());
        medium.sync(|run| run()).unwrap();
        assert_eq!(region.check().is_ok(), page == 0, "{:?}", region.check());
        assert_eq!(medium.checksums(), Some((3, 3)));
    }
}

/// The checksums of more than 8,192 pages take more than one page of the file.
#[test]
fn every_page_of_a_large_file_has_a_checksum() {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let backing = Backing::of_nameless(rustix::fs::memfd_create("nunatak", flags).unwrap());
    backing.extend(0, PAGE as u64).unwrap();
    let (medium, region) = paged(backing, Kind::Pea, true);
    region.resize(60 << 20).unwrap();
    let word_at = |offset: usize| {
        let address = Paged::address(&region, region.base().as_ptr(), offset);
        // SAFETY: within bytes that were committed, aligned, and of atomic words.
        unsafe { &*address.cast::<AtomicU64>() }
    };
    (0..60 << 20).step_by(4096).for_each(|at| store(&medium, &region, at + 16, 1 + at as u64));
    medium.sync(|run| run()).unwrap();
    // A file has room for few extents.
    let pages = medium.pool().bytes_of(Part::Pages);
    assert!((60 << 20..(60 << 20) * 9 / 8 + (1 << 20)).contains(&pages), "{pages}");
    assert!(medium.pool().extents.lock().of(Part::Pages).count() < 60);
    for bytes in [60 << 20, 36 << 20, 20 << 20] {
        region.release(bytes);
        medium.sync(|run| run()).unwrap();
        medium.trim_pages();
        let pages = bytes / 4096;
        assert_eq!((region.check(), medium.checksums()), (Ok(()), Some((pages, pages))));
        for offset in [0, bytes - 4096] {
            // Recovery builds the headers of buckets again.
            word_at(offset).fetch_add(1, Relaxed);
            assert_eq!(region.check(), Ok(()));
            word_at(offset + 16).fetch_add(1, Relaxed);
            assert!(region.check().is_err(), "byte {offset}");
            word_at(offset + 16).fetch_sub(1, Relaxed);
        }
    }
    assert_eq!(medium.pool().bytes_of(Part::Sums), PAGE);
    // What was given back is taken again.
    region.resize(60 << 20).unwrap();
    (0..60 << 20).step_by(4096).for_each(|at| store(&medium, &region, at + 16, 2 + at as u64));
    medium.sync(|run| run()).unwrap();
    assert_eq!((region.check(), word_at((59 << 20) + 16).load(Relaxed)), (Ok(()), 2 + (59 << 20)));
}

/// A page that is free only for copies, and that is the last one of its file.
#[test]
fn the_last_page_of_a_full_file_has_a_checksum() {
    const BYTES: usize = 64 << 20;
    let backing = Backing::simulated(&[], false, true, Arc::default()).unwrap();
    let wanted = Wanted { page_checksums: true, ..Wanted::default() };
    let pool = Pool::create(backing, Kind::Pea, &[0; 12], wanted).unwrap();
    let medium = Paged::new(pool, BYTES).unwrap();
    let region = medium.region(Part::Front, BYTES).unwrap();
    medium.end_recovery().unwrap();
    region.resize(BYTES).unwrap();
    let taken =
        (0..BYTES).step_by(4096).take_while(|&at| Paged::make_writable(&region, at).is_ok());
    let taken = taken.count();
    assert!(medium.is_tight() && taken > 16_000);
    medium.sync(|run| run()).unwrap();
    let copied = (0..taken).take_while(|page| Paged::make_writable(&region, 4096 * page).is_ok());
    assert_eq!(copied.count() + taken + 1, BYTES / 4096);
    medium.sync(|run| run()).unwrap();
    assert_eq!((region.check(), medium.is_tight()), (Ok(()), false));
}

#[test]
fn a_file_has_checksums_if_it_was_made_with_them() {
    for was_wanted in [true, false] {
        let backing = Backing::simulated(&[], false, true, Arc::default()).unwrap();
        let same = backing.rehearsal().unwrap();
        let wanted = |page_checksums| Wanted { page_checksums, ..Wanted::default() };
        let created = Pool::create(backing, Kind::Pea, &[0; 12], wanted(was_wanted)).unwrap();
        let created = Paged::new(created, 1 << 20).unwrap();
        let opened = Pool::open(same, Kind::Pea, wanted(!was_wanted)).unwrap();
        let opened = Paged::new(opened, 1 << 20).unwrap();
        let has = [created, opened].map(|medium| medium.checksums().is_some());
        assert_eq!(has, [was_wanted; 2]);
    }
}

#[test]
fn room_is_made_for_as_many_pages_as_are_asked_for() {
    let backing = Backing::simulated(&[], false, true, Arc::default()).unwrap();
    let (medium, _region) = paged(backing, Kind::Pea, true);
    // Of 16 pages one is the page of zeros. 64 stay free for copies.
    for (pages, expected) in [(500, 576), (500, 576), (511, 576), (512, 656)] {
        medium.has_room(pages * 4096).unwrap();
        assert_eq!(medium.usage().mapped, expected * 4096, "{pages} pages");
    }
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
        let (medium, _recorder) = pool(is_ordered);
        assert_eq!((medium.is_ordered(), medium.has_failed()), (is_ordered, false));
        medium.pool().poison();
        assert!(medium.has_failed());
        // On persistent memory nothing is lost that was stored.
        medium.pool().poison_by_failure(FileError::Full.into());
        let is_unknown = medium.pool().field(Field::Since) == header::UNKNOWN;
        assert_eq!(is_unknown, !is_ordered);
    }
}

#[test]
fn a_region_that_ends_takes_its_map_off_the_list() {
    let backing = Backing::simulated(&[], false, true, Arc::default()).unwrap();
    let (medium, front) = paged(backing, Kind::Pea, true);
    let back = medium.region(Part::Back, 1 << 20).unwrap();
    for region in [&front, &back] {
        region.resize(4096).unwrap();
        store(&medium, region, 16, 7);
    }
    medium.sync(|run| run()).unwrap();
    assert_eq!(medium.checksums(), Some((2, 2)));
    drop(back);
    assert_eq!(medium.checksums(), Some((1, 1)));
}

#[test]
fn a_page_is_taken_again_when_no_power_cut_brings_it_back() {
    let backing = Backing::simulated(&[], false, true, Arc::default()).unwrap();
    let (medium, region) = paged(backing, Kind::Pea, true);
    region.resize(8 * 4096).unwrap();
    let taken = |page: usize| {
        store(&medium, &region, page * 4096, 7);
        Paged::address(&region, region.base().as_ptr(), page * 4096)
    };
    let discard = |page: usize| Paged::discard(&region, page * 4096..(page + 1) * 4096);
    let first = taken(0);
    assert!(discard(0));
    // No sync has seen the page.
    assert_eq!(taken(1), first);
    medium.sync(|run| run()).unwrap();
    assert!(discard(1));
    assert_ne!(taken(2), first);
    medium.sync(|run| run()).unwrap();
    assert_eq!(taken(3), first);
}

/// A map has room for four versions of a page.
#[test]
fn a_power_cut_leaves_the_version_of_the_last_sync() {
    let backing = Backing::simulated(&[], false, true, Arc::default()).unwrap();
    let (medium, region) = paged(backing, Kind::Pea, true);
    region.resize(4096).unwrap();
    for round in 1..12 {
        store(&medium, &region, 16, round);
        let image = image_of(medium.pool());
        for (is_cut, value) in [(true, round - 1), (false, round)] {
            let backing = Backing::simulated(&image, false, is_cut, Arc::default()).unwrap();
            let (medium, region) = paged(backing, Kind::Pea, false);
            let address = Paged::address(&region, region.base().as_ptr(), 16);
            // SAFETY: within bytes that were committed, aligned, and of atomic words.
            let found = unsafe { &*address.cast::<AtomicU64>() }.load(Relaxed);
            assert_eq!((medium.was_cut(), found), (is_cut, value));
            // Pages that a version names are not taken.
            medium.sync(|run| run()).unwrap();
            region.resize(40 * 4096).unwrap();
            (1..40).for_each(|page| store(&medium, &region, page * 4096 + 16, 99));
            medium.sync(|run| run()).unwrap();
            (1..40).for_each(|page| store(&medium, &region, page * 4096 + 16, 98));
            // SAFETY: as above.
            let found = unsafe { &*address.cast::<AtomicU64>() }.load(Relaxed);
            assert_eq!((region.check(), found), (Ok(()), value), "round {round}");
        }
        medium.sync(|run| run()).unwrap();
    }
}

/// A version of an earlier session names a page that was there then.
#[test]
fn pages_that_were_added_since_are_of_no_earlier_version() {
    let backing = Backing::simulated(&[], false, true, Arc::default()).unwrap();
    let file = rustix::io::fcntl_dupfd_cloexec(backing.file(), 0).unwrap();
    let (medium, _region) = paged(backing, Kind::Pea, true);
    medium.sync(|run| run()).unwrap();
    let pages = |backing| {
        let pool = Pool::open(backing, Kind::Pea, Wanted::default()).unwrap();
        ShadowPages::new(Durable::new(pool).shared(), 1 << 24).unwrap()
    };
    let opened = pages(Backing::of_nameless(file));
    opened.has_room(100).unwrap();
    let (found, first) = (16, opened.epoch());
    let committed = opened.usage().mapped / 4096;
    assert!(first > 1 && committed > 100);
    let is_sound = |epoch, number| opened.is_sound(Version::new(epoch, number));
    assert!(is_sound(1, found - 1) && !is_sound(1, found) && !is_sound(1, found + 1));
    assert!(is_sound(first, found) && is_sound(first, committed - 1));
    assert!(!is_sound(first, committed) && !is_sound(first + 1, 1));
}

/// Buckets of other tables have words that recovery builds again.
#[test]
fn checksums_of_iceberg_are_of_all_words() {
    for (kind, is_noticed) in
        [(Kind::Iceberg, true), (Kind::IcebergBlobs, true), (Kind::Turbo, false)]
    {
        let backing = Backing::simulated(&[], false, true, Arc::default()).unwrap();
        let (medium, region) = paged(backing, kind, true);
        region.resize(4096).unwrap();
        store(&medium, &region, 16, 7);
        medium.sync(|run| run()).unwrap();
        let address = Paged::address(&region, region.base().as_ptr(), 8);
        // SAFETY: within bytes that were committed, aligned, and of atomic words.
        unsafe { &*address.cast::<AtomicU64>() }.store(1, Relaxed);
        assert_eq!(region.check().is_err(), is_noticed, "{kind:?}");
    }
}

#[test]
fn only_whole_pages_are_discarded() {
    const PER_PAGE: usize = 4096 / 8;
    let backing = Backing::simulated(&[], false, true, Arc::default()).unwrap();
    let (medium, region) = paged(backing, Kind::Pea, true);
    drop(region);
    let array: ReservedArray<AtomicU64, Paged> =
        ReservedArray::within(&medium, Part::Front, 4 * PER_PAGE, 1 << 20).unwrap();
    for at in (0..4 * PER_PAGE).step_by(PER_PAGE) {
        array.make_writable(at).unwrap();
        medium.store_word(array.at(at), 7, Relaxed);
    }
    let values = || [0, 1, 2, 3].map(|page| array.at(page * PER_PAGE).load(Relaxed));
    assert!(!array.discard(PER_PAGE..PER_PAGE + 9) && !array.discard(9..PER_PAGE + 9));
    assert_eq!(values(), [7; 4]);
    assert!(array.discard(PER_PAGE..3 * PER_PAGE));
    assert_eq!(values(), [7, 0, 0, 7]);
    medium.sync(|run| run()).unwrap();
    assert_eq!(medium.checksums(), Some((2, 2)));
}

#[test]
fn a_region_that_is_resized_gives_its_last_pages_back() {
    let backing = Backing::simulated(&[], false, true, Arc::default()).unwrap();
    let (medium, region) = paged(backing, Kind::Pea, true);
    region.resize(3 * 4096).unwrap();
    (0..3).for_each(|page| store(&medium, &region, 4096 * page, 7));
    region.resize(4096).unwrap();
    let value_at = |page: usize| {
        let address = Paged::address(&region, region.base().as_ptr(), 4096 * page);
        // SAFETY: within bytes that were committed once, aligned, and of atomic words.
        unsafe { &*address.cast::<AtomicU64>() }.load(Relaxed)
    };
    assert_eq!(region.committed(), 4096);
    region.resize(3 * 4096).unwrap();
    assert_eq!([0, 1, 2].map(value_at), [7, 0, 0]);
    medium.sync(|run| run()).unwrap();
    assert_eq!(medium.checksums(), Some((1, 1)));
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
