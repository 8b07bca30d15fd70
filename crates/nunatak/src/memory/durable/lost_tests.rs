//! What is read from a file whose page maps are damaged: each loss by itself, in a small file.

use super::header::Field;
use super::page_versions::{MAP_BYTES, PAGE_BYTES, Version};
use super::paged_region::PagedRegion;
use super::tests::image_of;
use super::{Backing, Forced, HEADER, Kind, Paged, Pool, Wanted};
use crate::memory::{Medium, Part, Region};
use crate::sync::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// The parts of the file, and how many pages each has.
const PARTS: [(Part, usize); 5] =
    [(Part::Front, 6), (Part::Values, 4), (Part::Segments, 2), (Part::Log, 1), (Part::Chains, 2)];

/// A page: its part's place in the list, and its number in the part.
type Place = (usize, usize);

const FRONT: usize = 0;
const VALUES: usize = 1;
const SEGMENTS: usize = 2;
const LOG: usize = 3;
const CHAINS: usize = 4;

/// In place of a version: it names none.
const DAMAGED: u64 = 0xA5A5_A5A5_A5A5_A5A5;

fn places() -> impl Iterator<Item = Place> {
    (0..PARTS.len()).flat_map(|part| (0..PARTS[part].1).map(move |page| (part, page)))
}

/// What changes in each epoch. The last one was not synced.
fn rounds() -> [Vec<Place>; 5] {
    [
        places().collect(),
        vec![(FRONT, 0), (FRONT, 1), (VALUES, 1)],
        // In the page that the first one was in at first.
        vec![(FRONT, 2), (LOG, 0)],
        // No other page is of this epoch.
        vec![(CHAINS, 1)],
        vec![(FRONT, 1), (FRONT, 3)],
    ]
}

fn value_of(round: usize, (part, page): Place) -> u64 {
    (round * 1000 + part * 100 + page) as u64
}

/// The last round, or the last one before another, that has changed a page.
fn last_before(end: usize, place: Place) -> usize {
    (0..end).rev().find(|&round| rounds()[round].contains(&place)).unwrap() + 1
}

struct Opened {
    regions: Vec<PagedRegion>,
    medium: Paged,
}

impl Opened {
    fn new(backing: Backing, kind: Kind, forced: Option<Forced>) -> Self {
        let wanted = Wanted { page_checksums: true, forced, ..Wanted::default() };
        let pool = match forced {
            None => Pool::create(backing, kind, &[0; 12], wanted),
            Some(_) => Pool::open(backing, kind, wanted),
        };
        let medium = Paged::new(pool.unwrap(), 1 << 24).unwrap();
        let regions = PARTS.iter().map(|&(part, _)| medium.region(part, 1 << 23).unwrap());
        let opened = Self { regions: regions.collect(), medium };
        let is_forced = (opened.medium.is_forced(), opened.medium.is_read_only());
        assert_eq!(is_forced, (forced.is_some(), forced.is_some()));
        match forced {
            None => opened.medium.end_recovery().unwrap(),
            Some(_) => opened.medium.find_lost_pages(),
        }
        opened
    }

    fn word(&self, (part, page): Place, at: usize) -> &AtomicU64 {
        let region = &self.regions[part];
        let address = Paged::address(region, region.base().as_ptr(), page * PAGE_BYTES + at);
        // SAFETY: within bytes that were committed, aligned, and of atomic words.
        unsafe { &*address.cast() }
    }

    fn value(&self, place: Place) -> u64 {
        self.word(place, 16).load(Relaxed)
    }

    fn may_be_earlier(&self, place: Place) -> bool {
        self.medium.may_be_earlier(self.word(place, 16))
    }

    /// Returns where the bytes of a part are in the file.
    fn bytes_of(&self, part: Part) -> Vec<usize> {
        let extents = self.medium.pool().extents.lock();
        let bytes = extents.of(part).flat_map(|one| one.offset()..one.end());
        bytes.step_by(MAP_BYTES).map(|at| at as usize).collect()
    }
}

/// A file that is damaged again and again.
struct File {
    kind: Kind,
    image: Vec<u8>,
    /// Where the map of each part is, by pages, and where the pages of the file are.
    maps: Vec<Vec<usize>>,
    pages: Vec<usize>,
}

impl File {
    fn new(kind: Kind) -> Self {
        let backing = Backing::simulated(&[], false, true, Arc::default()).unwrap();
        let opened = Opened::new(backing, kind, None);
        for (region, (_, pages)) in opened.regions.iter().zip(PARTS) {
            region.resize(pages * PAGE_BYTES).unwrap();
        }
        for (round, changed) in rounds().into_iter().enumerate() {
            if round > 0 {
                opened.medium.sync(|run| run()).unwrap();
            }
            for place in changed {
                let region = &opened.regions[place.0];
                Paged::make_writable(region, place.1 * PAGE_BYTES).unwrap();
                for at in [0, 16] {
                    let word = opened.word(place, at);
                    opened.medium.store_word(word, value_of(round + 1, place), Relaxed);
                }
            }
        }
        let image = image_of(opened.medium.pool());
        let maps = PARTS.iter().map(|&(part, _)| opened.bytes_of(part.map())).collect();
        let pages = opened.bytes_of(Part::Pages);
        let pages = pages.into_iter().step_by(PAGE_BYTES / MAP_BYTES).collect();
        Self { kind, image, maps, pages }
    }

    /// Returns where the versions of a page are in the file, the latest one last.
    fn versions(&self, (part, page): Place) -> Vec<(Version, usize)> {
        let words = (0..4).map(|word| self.maps[part][page] + 8 * word);
        let version =
            |at: usize| Version(u64::from_ne_bytes(self.image[at..at + 8].try_into().unwrap()));
        let mut all: Vec<_> = words.map(|at| (version(at), at)).collect();
        all.retain(|&(version, _)| version != Version::NONE);
        all.sort_unstable();
        all
    }

    /// Opens the file with other words in these places.
    fn with(&self, words: &[(usize, u64)], forced: Forced) -> Opened {
        let mut image = self.image.clone();
        for &(at, word) in words {
            image[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        self.open(&image, forced)
    }

    fn open(&self, image: &[u8], forced: Forced) -> Opened {
        let backing = Backing::simulated(image, false, false, Arc::default()).unwrap();
        Opened::new(backing.rehearsal().unwrap(), self.kind, Some(forced))
    }

    /// Opens the file with other words in these places, and compares the values of all pages: these
    /// have the one of a round, or are lost.
    fn check(&self, words: &[(usize, u64)], expected: &[(Place, Option<usize>)]) -> Opened {
        let opened = self.with(words, Forced::Everything);
        for place in places() {
            let of_place = expected.iter().find(|it| it.0 == place);
            let round = of_place.map_or_else(|| Some(last_before(5, place)), |it| it.1);
            let value = round.map_or(0, |round| value_of(round, place));
            let what = format!("{:?}: {place:?} of {expected:?}", self.kind);
            assert_eq!(opened.value(place), value, "{what}");
            let is_found = of_place.is_some_and(|it| it.1.is_some());
            assert_eq!(opened.may_be_earlier(place), is_found, "{what}");
        }
        opened
    }

    /// Whether a lost page of a part is looked for.
    fn is_wanted(&self, part: usize) -> bool {
        part != LOG && !(part == SEGMENTS && self.kind == Kind::Turbo)
    }
}

fn for_each_kind(test: impl Fn(File)) {
    [Kind::Pea, Kind::Turbo].map(File::new).into_iter().for_each(test);
}

#[test]
fn a_page_whose_versions_are_lost_is_found_by_its_checksum() {
    for_each_kind(|file| {
        for place in places() {
            // The last epoch has no checksums.
            let round = file.is_wanted(place.0).then(|| last_before(4, place));
            for fill in [0, DAMAGED] {
                let words = (0..4).map(|word| (file.maps[place.0][place.1] + 8 * word, fill));
                let opened = file.check(&words.collect::<Vec<_>>(), &[(place, round)]);
                let damages = format!("{:?}", opened.medium.pool().damages());
                assert_eq!(damages.matches("place of a page").count(), round.iter().count());
                if round == Some(last_before(5, place)) {
                    let number = file.versions(place).last().unwrap().0.number();
                    assert!(
                        damages.contains(&format!("Some({})", file.pages[number])),
                        "{damages}"
                    );
                }
            }
        }
        // The last page of a part, and the first one of the next part.
        let lost = [(FRONT, 4), (VALUES, 0)];
        let words = lost.map(|place| (file.versions(place)[0].1, DAMAGED));
        file.check(&words, &lost.map(|place| (place, Some(1))));
        // Only what is intact was asked for.
        assert_eq!(file.with(&words, Forced::Intact).value(lost[0]), 0);
    });
}

#[test]
fn a_damaged_version_hides_no_other_one() {
    for_each_kind(|file| {
        for place in places() {
            let versions = file.versions(place);
            let ((_, latest), earlier) = versions.split_last().unwrap();
            let round = file.is_wanted(place.0).then(|| last_before(4, place));
            file.check(&[(*latest, DAMAGED)], &[(place, round)]);
            for &(_, at) in earlier {
                file.check(&[(at, DAMAGED)], &[(place, Some(last_before(5, place)))]);
            }
        }
    });
}

/// The page of an earlier version may have become another one's.
#[test]
fn an_earlier_version_counts_if_its_page_is_still_there() {
    for_each_kind(|file| {
        let page_of = |place| file.pages[file.versions(place).last().unwrap().0.number()] + 16;
        let latest = |place| file.versions(place).last().unwrap().1;
        let moved = file.versions((FRONT, 0))[0].0.number();
        assert_eq!(file.versions((FRONT, 2)).last().unwrap().0.number(), moved);
        for (place, round) in
            [((FRONT, 0), None), ((FRONT, 1), Some(2)), ((FRONT, 2), None), ((CHAINS, 1), Some(1))]
        {
            let words = [(latest(place), DAMAGED), (page_of(place), 7)];
            file.check(&words, &[(place, round)]);
        }
        // The version that counts is of the last synced epoch, and its page is damaged.
        let place = (CHAINS, 1);
        let words = [(file.versions(place)[0].1, DAMAGED), (page_of(place), 7)];
        file.check(&words, &[(place, Some(1))]);
    });
}

#[test]
fn what_is_intact_is_asked_for() {
    for_each_kind(|file| {
        for (part, page) in places() {
            let (version, _) = *file.versions((part, page)).last().unwrap();
            let word = (file.pages[version.number()] + 16, 7);
            let value = |forced| file.with(&[word], forced).value((part, page));
            // The last epoch has no checksums, and these parts hold no entries.
            let is_left_out = version.epoch() < 5 && ![SEGMENTS, LOG].contains(&part);
            let intact = if is_left_out { 0 } else { 7 };
            assert_eq!((value(Forced::Everything), value(Forced::Intact)), (7, intact));
        }
    });
}

#[test]
fn words_of_a_later_epoch_belong_to_no_earlier_pointer() {
    for_each_kind(|file| {
        let place = (FRONT, 1);
        let opened = file.check(&[(file.versions(place)[2].1, DAMAGED)], &[(place, Some(2))]);
        let may_belong = |values| {
            let [values, pointer] = [values, place].map(|place| opened.word(place, 16));
            opened.medium.may_belong(values, pointer)
        };
        assert!(may_belong((VALUES, 0)) && may_belong((VALUES, 1)) && !may_belong((CHAINS, 1)));
    });
}

#[test]
fn a_shorter_file_is_read_as_far_as_it_goes() {
    for_each_kind(|file| {
        let numbers = places().map(|place| file.versions(place).last().unwrap().0.number());
        let last = numbers.max().unwrap();
        assert!(file.maps.iter().all(|map| map[0] < file.pages[last]));
        // The last page of all loses its value; or it is where the file ends, with its extent.
        let extents = file.pages[1..=last].windows(2).filter(|two| two[1] != two[0] + PAGE_BYTES);
        let begin = extents.map(|two| two[1]).next_back().expect("a second extent");
        for end in [file.pages[last] + 8, begin] {
            let opened = file.open(&file.image[..end], Forced::Everything);
            for place in places() {
                let number = file.versions(place).last().unwrap().0.number();
                let is_lost = file.pages[number] + 16 > end;
                let value = if is_lost { 0 } else { value_of(last_before(5, place), place) };
                assert_eq!(opened.value(place), value, "{place:?}");
            }
        }
    });
}

#[test]
fn changes_of_a_file_that_is_read_stay_in_their_pages() {
    for_each_kind(|file| {
        let opened = file.with(&[], Forced::Everything);
        let region = &opened.regions[FRONT];
        let is_absent = |page| region.is_absent(page * PAGE_BYTES);
        assert!(is_absent(6) && is_absent(7) && !is_absent(5));
        for place in [(FRONT, 5), (FRONT, 6)] {
            Paged::make_writable(region, place.1 * PAGE_BYTES).unwrap();
            opened.medium.store_word(opened.word(place, 16), 9, Relaxed);
        }
        let values = [5, 6, 7, 4].map(|page| opened.value((FRONT, page)));
        assert_eq!(values, [9, 9, 0, value_of(1, (FRONT, 4))]);
        assert!(!is_absent(6) && is_absent(7) && !is_absent(5));
        // Recovery changes pages so.
        assert_eq!(region.check(), Ok(()));
    });
}

#[test]
fn without_the_number_of_the_last_sync_all_epochs_count() {
    for_each_kind(|file| {
        let root = Field::Root as usize;
        for (words, settled) in [(vec![], 4), (vec![(root, 0), (HEADER + root, 0)], 5)] {
            let opened = file.check(&words, &[]);
            assert_eq!(opened.medium.settled(), settled);
        }
    });
}

/// The last pages of chains and of TurboHash may be lost, so all that a map describes may be there.
#[test]
fn a_damaged_part_ends_behind_its_last_page_or_with_its_map() {
    for_each_kind(|file| {
        let opened = file.with(&[], Forced::Everything);
        for (part, (region, (_, pages))) in opened.regions.iter().zip(PARTS).enumerate() {
            let all = file.maps[part].len();
            let is_whole = part == CHAINS || file.kind == Kind::Turbo;
            assert_eq!(region.committed(), if is_whole { all } else { pages } * PAGE_BYTES);
        }
    });
}
