//! Parts of a pool for [`Paged`](super::Paged): mapped directly, or page by page by means of copies.
//!
//! Invariants
//! 1. A page's word in RAM is zero, or the version of the page that counts.
//! 2. An element is stored to only if its page was made writable in the present operation.

use super::PAGE as EXTENT;
use super::page_sums::Placed;
use super::page_versions::{MAP_BYTES, Map, PAGE_BYTES, PAGE_SHIFT, Version, Versions};
use super::region::{Durable, PoolRegion, grown};
use super::shadow_pages::ShadowPages;
use crate::error::{Error, FileError};
use crate::memory::{Heap, HeapRegion, Medium, Memory, MemoryUsage, Part, Region};
use crate::sync::{AtomicU64, Ordering};
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::AtomicUsize;
use std::sync::Arc;

/// A part of a pool, mapped directly or page by page.
#[derive(Debug)]
pub enum PagedRegion {
    Direct(PoolRegion),
    Copied(Copied),
}

/// A part of a pool whose pages are copied before they change.
#[derive(Debug)]
pub struct Copied {
    copies: Arc<ShadowPages>,
    part: Part,
    map: PoolRegion,
    /// The versions that count, as far as they were looked up.
    words: HeapRegion,
    first_word: *const AtomicU64,
    pages: *const u8,
    reserved: usize,
    /// How many bytes were requested last, in whole pages.
    asked: AtomicUsize,
}

// SAFETY: the region owns its map and words, which are atomic; the pages belong to the copies.
unsafe impl Send for Copied {}
// SAFETY: as above.
unsafe impl Sync for Copied {}

impl Copied {
    pub(super) fn new(
        medium: &Durable,
        copies: &Arc<ShadowPages>,
        part: Part,
        bytes: usize,
    ) -> Result<Self, Error> {
        let reserved = bytes.checked_next_multiple_of(PAGE_BYTES).ok_or(Error::CapacityOverflow)?;
        // For as many pages as whole extents of the map describe.
        let count = (reserved / PAGE_BYTES).next_multiple_of(EXTENT / MAP_BYTES);
        let map = medium.region(part.map(), count * MAP_BYTES)?;
        // The file may have more than was asked for.
        let count = count.max(map.reserved() / MAP_BYTES);
        let reserved = reserved.max(map.committed() / MAP_BYTES * PAGE_BYTES);
        let words = Heap.reserve(count * size_of::<AtomicU64>())?;
        let region = Self {
            first_word: words.base().as_ptr().cast_const().cast(),
            pages: copies.base(),
            copies: Arc::clone(copies),
            part,
            map,
            words,
            reserved,
            asked: AtomicUsize::new(0),
        };
        region.commit_words()?;
        if medium.pool().was_cut() {
            copies.drop_torn(region.map());
            // The other versions were durable, and so were their pages. If one is not in the file,
            // the file was cut short, and an older version is no substitute.
            medium.pool().tolerate(region.check_versions(), || ())?;
        }
        let is_used = |versions| copies.latest(versions).number() != 0;
        let pages = match medium.pool().forced() {
            // The last ones may be lost.
            Some(_) if part == Part::Chains || medium.pool().kind().is_turbo() => {
                region.map().len()
            }
            // Up to the last page that exists.
            _ => region.map().iter().rposition(is_used).map_or(0, |last| last + 1),
        };
        // Relaxed: no other thread has the region yet.
        region.asked.store(pages * PAGE_BYTES, Ordering::Relaxed);
        Ok(region)
    }

    /// Commits a word for each page that the map describes.
    fn commit_words(&self) -> Result<(), Error> {
        let count = self.map.committed() / MAP_BYTES;
        let bytes = count * size_of::<AtomicU64>();
        if bytes < self.words.committed() {
            // The words stay accessible for readers who have not learned of a shrink.
            self.words.release(bytes);
        } else {
            self.words.resize(bytes)?;
        }
        self.copies.set_map(Map {
            part: self.part,
            pages: count,
            versions: self.map().as_ptr().addr(),
            words: self.first_word.addr(),
        });
        Ok(())
    }

    fn map(&self) -> &[Versions] {
        let count = self.map.committed() / MAP_BYTES;
        // SAFETY: so many are mapped, aligned by pages; zero is no version.
        unsafe { core::slice::from_raw_parts(self.map.base().as_ptr().cast(), count) }
    }

    #[inline(always)]
    fn word(&self, page: usize) -> &AtomicU64 {
        debug_assert!(page < self.reserved / PAGE_BYTES);
        // SAFETY: elements lie in pages that were committed once, and the words of these pages stay
        // accessible (invariants of `ReservedArray`).
        unsafe { &*self.first_word.add(page) }
    }

    #[inline(always)]
    fn version(&self, page: usize) -> Version {
        // Acquire: the page that the version names was filled before.
        match self.word(page).load(Ordering::Acquire) {
            0 => self.look_up(page),
            version => Version(version),
        }
    }

    /// Whether there is no page yet. Does not read the page: opening a file asks this of all pages.
    pub(super) fn is_absent(&self, page: usize) -> bool {
        // Acquire: as above.
        match self.word(page).load(Ordering::Acquire) {
            0 => self.map().get(page).is_none_or(|all| self.copies.latest(all).number() == 0),
            version => Version(version).number() == 0,
        }
    }

    #[cold]
    fn look_up(&self, page: usize) -> Version {
        let Some(versions) = self.map().get(page) else { return Version(0) };
        let latest = self.copies.latest(versions);
        if !self.copies.check_found(Placed { part: self.part, page, version: latest }) {
            return Version(0);
        }
        // Acquire: as in the load; another thread may have changed the word since.
        let word = self.word(page);
        match word.compare_exchange(0, latest.0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => latest,
            Err(version) => Version(version),
        }
    }

    #[inline(always)]
    pub(super) fn address(&self, offset: usize) -> *const u8 {
        let number = self.version(offset >> PAGE_SHIFT).number();
        self.pages.wrapping_add(number << PAGE_SHIFT | offset & (PAGE_BYTES - 1))
    }

    #[inline(always)]
    pub(super) fn make_writable(&self, offset: usize) -> Result<(), Error> {
        let page = offset >> PAGE_SHIFT;
        // Acquire: another thread's copy of this epoch is complete.
        let version = Version(self.word(page).load(Ordering::Acquire));
        if version.epoch() == self.copies.epoch() && version.number() != 0 {
            return Ok(());
        }
        self.copy(page)
    }

    #[cold]
    pub(super) fn copy(&self, page: usize) -> Result<(), Error> {
        let versions = self.map().get(page).ok_or(Error::CapacityOverflow)?;
        // So that the checksum of the copied page is compared.
        self.version(page);
        self.copies.copy(versions, self.word(page))
    }

    pub(super) fn discard(&self, pages: Range<usize>) {
        for page in pages {
            if let Some(versions) = self.map().get(page)
                && self.version(page).number() != 0
            {
                self.copies.discard(versions, self.word(page));
            }
        }
    }

    pub(super) fn trim(&self) -> Result<(), Error> {
        self.map.release(self.committed() / PAGE_BYTES * MAP_BYTES);
        self.commit_words()
    }

    /// Returns an error if the map names pages that are not in the file.
    fn check_versions(&self) -> Result<(), Error> {
        match self.copies.is_map_sound(self.map()) {
            true => Ok(()),
            false => Err(FileError::corrupt("a page is not in the file").into()),
        }
    }

    fn committed(&self) -> usize {
        // Acquire: pairs with the release in `resize`.
        self.asked.load(Ordering::Acquire)
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        self.copies.remove_map(self.map.base().addr().get());
    }
}

impl PagedRegion {
    /// Whether there is no page at an offset: it reads as zero.
    pub(crate) fn is_absent(&self, offset: usize) -> bool {
        match self {
            Self::Direct(region) => offset >= region.committed(),
            Self::Copied(region) => region.is_absent(offset >> PAGE_SHIFT),
        }
    }

    /// Returns an error if the map names pages that are not in the file, or if a page is not as its
    /// checksum says.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self {
            Self::Copied(region) => {
                region.check_versions()?;
                if !region.copies.has_zeros() {
                    return Err(FileError::corrupt("the page of zeros is none").into());
                }
                region.copies.check_sums(region.part, region.map())
            }
            Self::Direct(_) => Ok(()),
        }
    }
}

impl Region for PagedRegion {
    fn base(&self) -> NonNull<u8> {
        match self {
            Self::Direct(region) => region.base(),
            // No byte is looked up from this base.
            Self::Copied(region) => region.map.base(),
        }
    }

    fn committed(&self) -> usize {
        match self {
            Self::Direct(region) => region.committed(),
            Self::Copied(region) => region.committed(),
        }
    }

    fn reserved(&self) -> usize {
        match self {
            Self::Direct(region) => region.reserved(),
            Self::Copied(region) => region.reserved,
        }
    }

    fn resize(&self, bytes: usize) -> Result<(), Error> {
        match self {
            Self::Direct(region) => grown(region, bytes),
            Self::Copied(region) if bytes <= region.committed() => {
                self.release(bytes);
                Ok(())
            }
            Self::Copied(region) => {
                if bytes > region.reserved {
                    return Err(Error::CapacityOverflow);
                }
                let map_bytes = bytes.div_ceil(PAGE_BYTES) * MAP_BYTES;
                if map_bytes > region.map.committed() {
                    grown(&region.map, map_bytes)?;
                    region.commit_words()?;
                }
                // Release: the words of its pages exist.
                region.asked.store(bytes.next_multiple_of(PAGE_BYTES), Ordering::Release);
                Ok(())
            }
        }
    }

    fn release(&self, bytes: usize) {
        match self {
            Self::Direct(region) => region.release(bytes),
            Self::Copied(region) => {
                let pages = bytes.div_ceil(PAGE_BYTES);
                let before = region.committed() / PAGE_BYTES;
                if pages < before {
                    region.asked.store(pages * PAGE_BYTES, Ordering::Release);
                    region.discard(pages..before);
                }
            }
        }
    }

    fn populate(&self, range: Range<usize>) {
        if let Self::Direct(region) = self {
            region.populate(range);
        }
    }

    fn usage(&self) -> MemoryUsage {
        match self {
            Self::Direct(region) => region.usage(),
            Self::Copied(region) => region.map.usage() + region.words.usage(),
        }
    }
}
