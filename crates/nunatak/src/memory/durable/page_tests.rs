//! Pages that are copied before they change: their versions, room for them, and their checksums.

use super::page_versions::Version;
use super::paged_region::PagedRegion;
use super::shadow_pages::{MARGIN, ShadowPages};
use super::tests::image_of;
use super::{Backing, Durable, Kind, PAGE, Paged, Pool, Wanted};
use crate::memory::{Medium, Part, Region, ReservedArray};
use crate::sync::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

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
    // The others are for copies, beside the page of zeros.
    assert!(medium.is_tight() && taken + MARGIN + 1 == BYTES / 4096);
    medium.sync(|run| run()).unwrap();
    let copied = (0..taken).take_while(|page| Paged::make_writable(&region, 4096 * page).is_ok());
    assert_eq!(copied.count() + taken + 1, BYTES / 4096);
    medium.sync(|run| run()).unwrap();
    assert_eq!((region.check(), medium.is_tight()), (Ok(()), false));
    // An operation that has begun must end, though no page is free. It gets no new page.
    let copied = (0..taken).take_while(|page| Paged::make_writable(&region, 4096 * page).is_ok());
    let next = 4096 * copied.count();
    medium.pool().poison();
    assert!(Paged::make_writable(&region, next).is_ok());
    assert!(Paged::make_writable(&region, 4096 * taken).is_err());
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
    // A page of its map is in the file, which describes 2,048 pages.
    let again = medium.region(Part::Back, 1).unwrap();
    assert_eq!((again.reserved(), again.committed()), (8 << 20, 4096));
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
            // Pages that a version names are not taken, not even if another power cut comes.
            region.resize(40 * 4096).unwrap();
            (1..40).for_each(|page| store(&medium, &region, page * 4096 + 16, 97));
            let image = image_of(medium.pool());
            let backing = Backing::simulated(&image, false, true, Arc::default()).unwrap();
            let (_again, cut) = paged(backing, Kind::Pea, false);
            let of_cut = Paged::address(&cut, cut.base().as_ptr(), 16);
            // SAFETY: as above.
            let found = unsafe { &*of_cut.cast::<AtomicU64>() }.load(Relaxed);
            assert_eq!((cut.check(), found), (Ok(()), round - 1));
            medium.sync(|run| run()).unwrap();
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
