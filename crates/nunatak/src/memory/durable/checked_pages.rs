//! Checksums of copied pages: when they are stored, and when they are compared.
//!
//! A page that was found in the file is compared before its first use, and all of them by `verify`.

use super::damage::Forced;
use super::page_sums::{PageSums, Placed};
use super::page_versions::{PAGE_BYTES, Versions, until};
use super::shadow_pages::ShadowPages;
use crate::error::{Error, FileError};
use crate::memory::{Part, Region};
use crate::sync::{Ordering, fence};

impl ShadowPages {
    /// Stores the checksums of the pages of the epoch that a sync makes durable.
    pub(super) fn store_sums(&self, synced: u64) {
        let Some(sums) = &self.sums else { return };
        let mut ended = sums.take_until(synced);
        if sums.take_lack() {
            // Epochs of a process that was killed become durable now, too.
            let state = self.state.lock();
            for map in &state.maps {
                for (page, versions) in map.all().0.iter().enumerate() {
                    let version = until(self.load(versions), synced);
                    if version.epoch() > sums.found() && version.epoch() < self.first {
                        ended.push(Placed { part: map.part, page, version });
                    }
                }
            }
        }
        let is_there =
            |number: usize| number != 0 && (number + 1) * PAGE_BYTES <= self.pages.committed();
        for placed in ended.into_iter().filter(|placed| is_there(placed.version.number())) {
            sums.store(placed, self.words(placed.version.number()));
        }
    }

    /// Compares the checksum of a page that was found in the file, before its first use. Returns
    /// whether the page is to be used.
    pub(super) fn check_found(&self, placed: Placed) -> bool {
        if let Some(sums) = &self.sums
            && placed.version.epoch() <= sums.found()
            && let Err(error) = self.check_sum(sums, placed)
        {
            self.pool.note_damage(error);
            let holds_entries =
                matches!(placed.part, Part::Front | Part::Back | Part::Chains | Part::Values);
            return !holds_entries || self.pool.forced() != Some(Forced::Intact);
        }
        true
    }

    /// Compares the checksums of all pages of a part that have one.
    pub(super) fn check_sums(&self, part: Part, map: &[Versions]) -> Result<(), Error> {
        let Some(sums) = &self.sums else { return Ok(()) };
        let durable = self.durable();
        for (page, versions) in map.iter().enumerate() {
            let version = self.latest(versions);
            if version.epoch() <= durable {
                self.check_sum(sums, Placed { part, page, version })?;
            }
        }
        Ok(())
    }

    fn check_sum(&self, sums: &PageSums, placed: Placed) -> Result<(), Error> {
        let number = placed.version.number();
        let before = self.recycled();
        if number == 0 || sums.is_right(placed, self.words(number)) {
            return Ok(());
        }
        // The page may have been given out again meanwhile. Acquire: the words were read before; the
        // fence pairs with the one in `recycle`, which comes before any store to such a page.
        fence(Ordering::Acquire);
        if self.recycled() != before {
            return Ok(());
        }
        let wrong = FileError::corrupt("a page is not as its checksum says").into();
        Err(self.pool.locate(self.words(number).as_ptr(), wrong))
    }

    /// Returns how many pages there are, and how many of them have a checksum.
    pub(super) fn checksums(&self) -> Option<(usize, usize)> {
        self.sums.as_ref()?;
        let state = self.state.lock();
        let all = state.maps.iter().flat_map(|map| map.all().0);
        let latest = all.map(|versions| self.latest(versions)).filter(|one| one.number() != 0);
        Some(latest.fold((0, 0), |(pages, with), version| {
            (pages + 1, with + usize::from(version.epoch() <= state.durable))
        }))
    }
}
