//! Finds pages of a damaged file that no map names any more.
//!
//! A lost sector of a map loses the places of 16 pages. The pages are in the file all the same, and
//! each has a checksum that is seeded by its part, its place in the part, and its epoch. So a page
//! tells its place: it has the right checksum for one place and one epoch, and for no other. Of
//! several versions of a place the latest one counts.
//!
//! The last version of a page may be damaged, too. Then the one that is found is earlier. So this is
//! for tables where an earlier page does not show keys that were never stored, and entries of such
//! pages are doubtful.

use super::damage::Forced;
use super::page_sums::{PageSums, Placed, sum_of};
use super::page_versions::{MAP_BYTES, Map, PAGE_BYTES, PAGE_SHIFT, Version, Versions};
use super::shadow_pages::ShadowPages;
use crate::error::FileError;
use crate::memory::Part;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use std::collections::{BTreeMap, BTreeSet};

/// The parts whose pages are looked for: those of slots, and descriptors of segments. TurboHash finds
/// descriptors again from its buckets.
const PARTS: [Part; 4] = [Part::Front, Part::Back, Part::Chains, Part::Segments];

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
    /// Puts pages that no map names back into the maps, if the file is read in spite of all damage.
    pub(super) fn find_lost(&self) {
        let Some(sums) = &self.sums else { return };
        let is_wanted = self.pool.forced() == Some(Forced::Everything);
        if !is_wanted || !self.pool.kind().has_whole_keys() {
            return;
        }
        let maps = self.state.lock().maps.clone();
        let Named { pages, epochs, lost } = self.named(&maps, sums);
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
        let mut recovered = BTreeSet::new();
        for ((_, page), (part, version)) in search.found {
            let map = maps.iter().find(|map| map.part == part);
            let Some(versions) = map.and_then(|map| map.all().0.get(page)) else { continue };
            if version < self.latest(versions) {
                continue;
            }
            let all = self.load(versions);
            let word = all.iter().position(|&one| one == Version::NONE).unwrap_or(0);
            self.store(&versions.0[word], version);
            recovered.insert(version.number());
            let lost = FileError::corrupt("the place of a page was lost").into();
            let words = self.words(version.number()).as_ptr();
            self.pool.note_damage(self.pool.locate(words, lost));
        }
        // It was not set before: a file is opened once.
        let _ = self.recovered.set(recovered);
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
                // Relaxed: the file is only read.
                let is_damaged = |word: &AtomicU64| {
                    let version = Version(word.load(Relaxed));
                    version != Version::NONE && !self.is_sound(version)
                };
                let may_be_lost = latest == Version::NONE || versions.0.iter().any(is_damaged);
                if may_be_lost && self.is_wanted(map.part) {
                    lost[usize::from(page >= end)].push((map.part, page));
                }
            }
        }
        Named { pages, epochs, lost }
    }

    /// Whether these bytes are in a page that no map named.
    pub(super) fn was_lost(&self, address: *const u8) -> bool {
        let number = address.addr().wrapping_sub(self.base().addr()) >> PAGE_SHIFT;
        self.recovered.get().is_some_and(|recovered| recovered.contains(&number))
    }
}
