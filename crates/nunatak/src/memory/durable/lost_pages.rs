//! Finds pages of a damaged file that no map names any more.
//!
//! A lost sector of a map loses the places of 16 pages. The pages are in the file all the same, and
//! each has a checksum that is seeded by its part, its place in the part, and its epoch. So a page
//! tells its place: it has the right checksum for one place and one epoch, and for no other. Of
//! several versions of a place the latest one counts.
//!
//! The last version of a page may be damaged, too. Then the one that is found is earlier, as is the one
//! that a map names beside a damaged word. Tables take from such pages only what was stored there
//! once, and entries of such pages are doubtful.

use super::damage::Forced;
use super::earlier_pages::EarlierPages;
use super::page_sums::{PageSums, Placed, sum_of};
use super::page_versions::{MAP_BYTES, Map, PAGE_BYTES, PAGE_SHIFT, Version, Versions};
use super::shadow_pages::ShadowPages;
use crate::error::FileError;
use crate::memory::Part;
use crate::sync::{Mutex, Ordering::Relaxed};
use std::collections::{BTreeMap, BTreeSet};

/// The parts whose pages are looked for: those of slots and values, and descriptors of segments. TurboHash
/// finds descriptors again from its buckets.
const PARTS: [Part; 5] = [Part::Front, Part::Back, Part::Chains, Part::Values, Part::Segments];

/// How many pages may be lost behind the last one of a part that a map names: those that a page of
/// the map describes.
const BEHIND: usize = PAGE_BYTES / MAP_BYTES;

/// The most checksums that are computed: a few seconds.
const MOST: usize = 1 << 24;

/// A place of a page in its part.
type Place = (Part, usize);

/// What is looked for, and what was found.
struct Search<'s> {
    copies: &'s ShadowPages,
    sums: &'s PageSums,
    /// Pages of the file that no map names.
    unnamed: Vec<usize>,
    found: BTreeMap<(u8, usize), (Part, Version)>,
    /// How many checksums may still be computed.
    left: usize,
}

impl Search<'_> {
    /// Looks for the pages of these places and epochs.
    fn find(&mut self, places: &[Place], epochs: impl Iterator<Item = u64> + Clone) {
        let mut unnamed = core::mem::take(&mut self.unnamed);
        unnamed.retain(|&number| {
            // The places of a part follow each other.
            let mut parts = places.chunk_by(|one, other| one.0 == other.0);
            let placed = parts.find_map(|places| self.place_of(number, places, epochs.clone()));
            if let Some(Placed { part, page, version }) = placed {
                let latest = self.found.entry((part as u8, page)).or_insert((part, version));
                latest.1 = latest.1.max(version);
            }
            placed.is_none()
        });
        self.unnamed = unnamed;
    }

    /// Returns the place, of these of a part, whose page has the checksum of an unnamed page.
    fn place_of(
        &mut self,
        number: usize,
        places: &[Place],
        epochs: impl Iterator<Item = u64>,
    ) -> Option<Placed> {
        let bytes = self.sums.summed(places.first()?.0, self.copies.words(number));
        let stored = self.sums.stored(number);
        for epoch in epochs {
            self.left = self.left.checked_sub(places.len())?;
            let version = Version::new(epoch, number);
            let mut placed = places.iter().map(|&(part, page)| Placed { part, page, version });
            if let Some(placed) = placed.find(|&placed| sum_of(placed, &bytes) == stored) {
                return Some(placed);
            }
        }
        None
    }
}

/// What the maps name.
struct Named {
    /// Which pages of the file.
    pages: Vec<bool>,
    epochs: BTreeSet<u64>,
    /// Places of no page, or of an earlier one than the map may have named: between others, and
    /// behind them.
    lost: [Vec<Place>; 2],
}

impl ShadowPages {
    /// Puts pages that no map names back into the maps, if the file is read in spite of all damage, and
    /// learns which pages may be earlier ones.
    pub(super) fn find_lost(&self) {
        let Some(forced) = self.pool.forced() else { return };
        let maps = self.state.lock().maps.clone();
        let mut earlier = EarlierPages::default();
        if forced == Forced::Everything
            && let Some(sums) = &self.sums
        {
            self.put_back(&maps, sums).into_iter().for_each(|number| earlier.insert(number));
        }
        for map in &maps {
            for (page, versions) in map.all().0.iter().enumerate() {
                let version = self.latest(versions);
                if version.number() == 0 {
                    continue;
                }
                earlier.set_place(Placed { part: map.part, page, version });
                if self.is_damaged(versions) {
                    earlier.insert(version.number());
                }
            }
        }
        for number in earlier.pages() {
            let lost = FileError::corrupt("the place of a page was lost").into();
            let words = self.words(number).as_ptr();
            self.pool.note_damage(self.pool.locate(words, lost));
        }
        // It was not set before: a file is opened once.
        let _ = self.earlier.set(Mutex::new(earlier));
    }

    /// Puts pages that no map names back into the maps, and returns their numbers.
    fn put_back(&self, maps: &[Map], sums: &PageSums) -> Vec<usize> {
        let mut put_back = Vec::new();
        maps.iter().for_each(|map| self.drop_others(map, sums));
        let Named { pages, epochs, lost } = self.named(maps, sums);
        let unnamed = (1..self.found).filter(|&page| !pages[page] && sums.stored(page) != 0);
        let mut search = Search {
            copies: self,
            sums,
            unnamed: unnamed.collect(),
            found: BTreeMap::new(),
            left: MOST,
        };
        // Most likely are epochs of other pages, and places between others.
        for places in &lost {
            search.find(places, epochs.iter().rev().copied());
        }
        for places in &lost {
            search.find(places, (1..=sums.found()).rev().filter(|epoch| !epochs.contains(epoch)));
        }
        for ((_, page), (part, version)) in search.found {
            let map = maps.iter().find(|map| map.part == part);
            let Some(versions) = map.and_then(|map| map.all().0.get(page)) else { continue };
            if version < self.latest(versions) {
                continue;
            }
            let all = self.load(versions);
            let word = all.iter().position(|&one| one == Version::NONE).unwrap_or(0);
            self.store(&versions.0[word], version);
            put_back.push(version.number());
        }
        put_back
    }

    /// Takes versions out of a map that are beside damaged words and whose pages are not as their checksums
    /// say: since then these pages may have been used for something else.
    fn drop_others(&self, map: &Map, sums: &PageSums) {
        for (page, versions) in map.all().0.iter().enumerate() {
            if !self.is_damaged(versions) {
                continue;
            }
            for word in &versions.0 {
                // Relaxed: the file is only read.
                let version = Version(word.load(Relaxed));
                let has_sum = version.number() != 0 && version.epoch() <= sums.found();
                let placed = Placed { part: map.part, page, version };
                if self.is_sound(version)
                    && has_sum
                    && !sums.is_right(placed, self.words(version.number()))
                {
                    self.store(word, Version::NONE);
                }
            }
        }
    }

    /// Whether a page's map has words that name no version.
    fn is_damaged(&self, versions: &Versions) -> bool {
        // Relaxed: the file is only read.
        versions.0.iter().any(|word| {
            let version = Version(word.load(Relaxed));
            version != Version::NONE && !self.is_sound(version)
        })
    }

    fn is_wanted(&self, part: Part) -> bool {
        PARTS.contains(&part) && !(part == Part::Segments && self.pool.kind().is_turbo())
    }

    fn named(&self, maps: &[Map], sums: &PageSums) -> Named {
        let (mut pages, mut epochs) = (vec![false; self.found], BTreeSet::new());
        let mut lost: [Vec<Place>; 2] = Default::default();
        for map in maps {
            let (all, _) = map.all();
            let is_there = |versions: &Versions| self.latest(versions).number() != 0;
            let end = all.iter().rposition(is_there).map_or(0, |last| last + 1);
            for (page, versions) in all.iter().enumerate().take(end + BEHIND) {
                let latest = self.latest(versions);
                for version in self.load(versions) {
                    let number = version.number();
                    if number == 0 || version.epoch() > sums.found() {
                        continue;
                    }
                    epochs.insert(version.epoch());
                    // The page of an earlier version may have been used again.
                    let placed = Placed { part: map.part, page, version };
                    if version == latest || sums.is_right(placed, self.words(number)) {
                        pages[number] = true;
                    }
                }
                let may_be_lost = latest == Version::NONE || self.is_damaged(versions);
                if may_be_lost && self.is_wanted(map.part) {
                    lost[usize::from(page >= end)].push((map.part, page));
                }
            }
        }
        Named { pages, epochs, lost }
    }

    /// Whether these bytes are in a page that may be earlier than the last one of its place.
    pub(super) fn may_be_earlier(&self, address: *const u8) -> bool {
        let number = self.number_of(address);
        self.earlier.get().is_some_and(|earlier| earlier.lock().contains(number))
    }

    /// Whether words of a value buffer may be those that a pointer has named.
    pub(super) fn may_belong(&self, values: *const u8, pointer: *const u8) -> bool {
        let [values, pointer] = [values, pointer].map(|address| self.number_of(address));
        self.earlier.get().is_none_or(|earlier| earlier.lock().may_belong(values, pointer))
    }

    /// Whether these bytes are in a page that is as its checksum says, if the file keeps checksums, and how
    /// late the page is.
    pub(super) fn epoch_of(&self, address: *const u8) -> Option<u64> {
        let number = self.number_of(address);
        let placed = self.earlier.get()?.lock().place(number)?;
        let is_right = self.sums.as_ref().is_none_or(|sums| {
            placed.version.epoch() > sums.found() || sums.is_right(placed, self.words(number))
        });
        is_right.then_some(placed.version.epoch())
    }

    /// Notes that the bytes of a page may have been in use no longer than until an epoch.
    pub(super) fn doubt(&self, address: *const u8, until: u64) {
        let number = self.number_of(address);
        if let Some(earlier) = self.earlier.get().filter(|_| number != 0) {
            earlier.lock().doubt(number, until);
        }
    }

    fn number_of(&self, address: *const u8) -> usize {
        address.addr().wrapping_sub(self.base().addr()) >> PAGE_SHIFT
    }
}
