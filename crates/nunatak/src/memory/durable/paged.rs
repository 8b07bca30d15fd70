//! The medium of tables that rely only on the order of their stores: persistent memory as it is,
//! and the page cache by means of [copies].
//!
//! Invariants
//! 1. A page's word in RAM is zero, or the version of the page that counts.
//! 2. An element is stored to only if its page was made writable in the present operation.

use super::PAGE as EXTENT;
use super::page_sums::Placed;
use super::page_versions::{MAP_BYTES, Map, PAGE_BYTES, PAGE_SHIFT, Version, Versions};
use super::pool::Pool;
use super::region::{Durable, InPool, PoolRegion, grown};
use super::shadow_pages::ShadowPages;
use crate::error::{Error, FileError};
use crate::memory::{Heap, HeapRegion, Medium, Memory, MemoryUsage, Part, Region};
use crate::sync::{AtomicPair, AtomicU64, Ordering};
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::AtomicUsize;
use std::sync::Arc;

/// The medium of a table in a pool. Stores become durable in their order.
#[derive(Debug, Clone)]
pub struct Paged {
    durable: Durable,
    /// Copies of pages, if the medium itself has no order.
    copies: Option<Arc<ShadowPages>>,
}

impl Paged {
    /// Makes the medium of an open pool, with so many bytes of addresses.
    pub(crate) fn new(pool: Pool, bytes: usize) -> Result<Self, Error> {
        let is_direct = is_direct(&pool)?;
        let durable = Durable::new(pool);
        let copies = match is_direct {
            true => None,
            false => Some(Arc::new(ShadowPages::new(durable.shared(), bytes)?)),
        };
        Ok(Self { durable, copies })
    }

    pub(crate) fn pool(&self) -> &Pool {
        self.durable.pool()
    }

    /// Ends recovery when all regions exist: repairs what a crash has left, as far as the medium
    /// can.
    pub(crate) fn end_recovery(&self) -> Result<(), Error> {
        if self.copies.is_some() && self.pool().was_cut() {
            // Dropped versions must not come back.
            self.pool().barrier()?;
        }
        self.pool().begin_session()?;
        if let Some(copies) = &self.copies {
            copies.begin(copies.epoch());
        }
        Ok(())
    }

    /// Looks, in a damaged file, for pages that no map names. All regions exist, and nothing of them
    /// was read.
    pub(crate) fn find_lost_pages(&self) {
        if let Some(copies) = &self.copies {
            copies.find_lost();
        }
    }

    /// Returns the epoch of the page of an element of a damaged file, if the page is as its checksum says.
    /// Nothing is known of pages that are not copied: they are of the last epoch.
    pub(crate) fn epoch_of<T>(&self, element: &T) -> Option<u64> {
        let address = core::ptr::from_ref(element).cast();
        self.copies.as_ref().map_or(Some(u64::MAX), |copies| copies.epoch_of(address))
    }

    /// Notes that what is in the page of an element may be no later than of an epoch.
    pub(crate) fn doubt<T>(&self, element: &T, until: u64) {
        if let Some(copies) = &self.copies {
            copies.doubt(core::ptr::from_ref(element).cast(), until);
        }
    }

    #[inline(always)]
    pub(crate) fn is_tight(&self) -> bool {
        self.copies.as_ref().is_some_and(|copies| copies.is_tight())
    }

    /// Returns how many pages there are, and how many of them have a checksum. Nothing if the file
    /// keeps no checksums of pages.
    pub(crate) fn checksums(&self) -> Option<(usize, usize)> {
        self.copies.as_ref().and_then(|copies| copies.checksums())
    }

    /// Whether the power was cut since the file was open last.
    pub(crate) fn was_cut(&self) -> bool {
        self.copies.is_some() && self.pool().was_cut()
    }
}

impl InPool for Paged {
    fn pool(&self) -> &Pool {
        self.durable.pool()
    }
}

/// Whether the parts of a pool are mapped directly, and not page by page.
fn is_direct(pool: &Pool) -> Result<bool, Error> {
    let other_medium = |what| Err(FileError::OtherKind { what }.into());
    let is_ordered = pool.backing().is_ordered();
    match (pool.bytes_of(Part::Segments) > 0, pool.bytes_of(Part::Pages) > 0) {
        (false, false) => Ok(is_ordered),
        // Without fences the order of changes would be lost.
        (true, _) if !is_ordered && !pool.backing().is_read_only() => {
            other_medium("medium: it is for persistent memory")
        }
        (false, true) if is_ordered => other_medium("medium: it is for the page cache"),
        (is_direct, _) => Ok(is_direct),
    }
}

impl Medium for Paged {
    const IS_DURABLE: bool = true;
    const IS_PAGED: bool = true;

    type Direct = PoolRegion;

    fn direct(&self, part: Part, bytes: usize) -> Result<PoolRegion, Error> {
        self.durable.direct(part, bytes)
    }

    unsafe fn write(&self, address: *mut u8, parts: &[&[u8]]) {
        // SAFETY: as the caller promises.
        unsafe { self.durable.write(address, parts) }
    }

    #[inline(always)]
    fn epoch(&self) -> u64 {
        self.copies.as_ref().map_or(0, |copies| copies.epoch())
    }

    fn settled(&self) -> u64 {
        self.copies.as_ref().map_or(u64::MAX, |copies| copies.durable())
    }

    type Region = PagedRegion;

    fn region(&self, part: Part, bytes: usize) -> Result<PagedRegion, Error> {
        match &self.copies {
            None => Ok(PagedRegion::Direct(self.durable.region(part, bytes)?)),
            Some(copies) => Ok(PagedRegion::Copied(Copied::new(self, copies, part, bytes)?)),
        }
    }

    #[inline(always)]
    fn address(region: &PagedRegion, base: *const u8, offset: usize) -> *const u8 {
        match region {
            PagedRegion::Direct(_) => base.wrapping_add(offset),
            PagedRegion::Copied(region) => region.address(offset),
        }
    }

    #[inline(always)]
    fn make_writable(region: &PagedRegion, offset: usize) -> Result<(), Error> {
        match region {
            PagedRegion::Direct(_) => Ok(()),
            PagedRegion::Copied(region) => region.make_writable(offset),
        }
    }

    fn make_present(region: &PagedRegion, offset: usize) -> Result<(), Error> {
        match region {
            PagedRegion::Copied(region) if region.is_absent(offset >> PAGE_SHIFT) => {
                region.copy(offset >> PAGE_SHIFT)
            }
            _ => Ok(()),
        }
    }

    fn discard(region: &PagedRegion, bytes: Range<usize>) -> bool {
        match region {
            PagedRegion::Direct(_) => false,
            PagedRegion::Copied(region) => {
                let pages = bytes.start.div_ceil(PAGE_BYTES)..bytes.end / PAGE_BYTES;
                let is_whole = pages.len() * PAGE_BYTES == bytes.len();
                if is_whole {
                    region.discard(pages);
                }
                is_whole
            }
        }
    }

    fn has_room(&self, bytes: usize) -> Result<(), Error> {
        let pages = bytes.div_ceil(PAGE_BYTES);
        self.copies.as_ref().map_or(Ok(()), |copies| copies.has_room(pages))
    }

    fn trim(region: &PagedRegion) -> Result<(), Error> {
        match region {
            PagedRegion::Direct(_) => Ok(()),
            PagedRegion::Copied(region) => region.trim(),
        }
    }

    fn move_pages(&self) -> Result<(), Error> {
        self.copies.as_ref().map_or(Ok(()), |copies| copies.move_down())
    }

    fn trim_pages(&self) {
        if let Some(copies) = &self.copies {
            copies.trim();
        }
    }

    /// The pages of all regions.
    fn usage(&self) -> MemoryUsage {
        self.copies.as_ref().map_or_else(MemoryUsage::default, |copies| copies.usage())
    }

    fn is_forced(&self) -> bool {
        self.pool().forced().is_some()
    }

    fn may_be_earlier<T>(&self, element: &T) -> bool {
        let address = core::ptr::from_ref(element).cast();
        self.copies.as_ref().is_some_and(|copies| copies.may_be_earlier(address))
    }

    fn may_belong<T, U>(&self, values: &T, pointer: &U) -> bool {
        let values = core::ptr::from_ref(values).cast();
        let pointer = core::ptr::from_ref(pointer).cast();
        self.copies.as_ref().is_none_or(|copies| copies.may_belong(values, pointer))
    }

    fn is_read_only(&self) -> bool {
        self.pool().backing().is_read_only()
    }

    fn is_forked(&self) -> bool {
        self.pool().is_forked()
    }

    #[inline(always)]
    fn recycled(&self) -> u64 {
        self.copies.as_ref().map_or(0, |copies| copies.recycled())
    }

    #[inline(always)]
    fn is_ordered(&self) -> bool {
        // By copies, if the medium itself has none.
        true
    }

    #[inline(always)]
    fn has_fences(&self) -> bool {
        self.copies.is_none()
    }

    #[inline(always)]
    fn store_word(&self, word: &AtomicU64, value: u64, order: Ordering) {
        self.pool().store_table_word(word, value, order);
    }

    #[inline(always)]
    fn store_first(&self, slot: &AtomicPair, word: u64, order: Ordering) {
        self.durable.store_first(slot, word, order);
    }

    #[inline(always)]
    fn store_second(&self, slot: &AtomicPair, word: u64, order: Ordering) {
        self.durable.store_second(slot, word, order);
    }

    #[inline(always)]
    fn flush<T>(&self, first: *const T, count: usize) {
        self.durable.flush(first, count);
    }

    #[inline(always)]
    fn fence(&self) {
        self.durable.fence();
    }

    fn barrier(&self) -> Result<(), Error> {
        self.durable.barrier()
    }

    fn sync(&self, begin: impl FnOnce(&dyn Fn())) -> Result<(), Error> {
        match &self.copies {
            None => self.pool().barrier(),
            Some(copies) => copies.sync(begin),
        }
    }

    fn while_nothing_moves<R>(&self, run: impl FnOnce() -> R) -> R {
        match &self.copies {
            None => run(),
            Some(copies) => copies.while_nothing_moves(run),
        }
    }

    fn has_failed(&self) -> bool {
        self.durable.has_failed()
    }

    fn set_root(&self, word: u64) {
        self.durable.set_root(word);
    }
}

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
    fn new(
        medium: &Paged,
        copies: &Arc<ShadowPages>,
        part: Part,
        bytes: usize,
    ) -> Result<Self, Error> {
        let reserved = bytes.checked_next_multiple_of(PAGE_BYTES).ok_or(Error::CapacityOverflow)?;
        // For as many pages as whole extents of the map describe.
        let count = (reserved / PAGE_BYTES).next_multiple_of(EXTENT / MAP_BYTES);
        let map = medium.durable.region(part.map(), count * MAP_BYTES)?;
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
        if medium.was_cut() {
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
    fn is_absent(&self, page: usize) -> bool {
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
    fn address(&self, offset: usize) -> *const u8 {
        let number = self.version(offset >> PAGE_SHIFT).number();
        self.pages.wrapping_add(number << PAGE_SHIFT | offset & (PAGE_BYTES - 1))
    }

    #[inline(always)]
    fn make_writable(&self, offset: usize) -> Result<(), Error> {
        let page = offset >> PAGE_SHIFT;
        // Acquire: another thread's copy of this epoch is complete.
        let version = Version(self.word(page).load(Ordering::Acquire));
        if version.epoch() == self.copies.epoch() && version.number() != 0 {
            return Ok(());
        }
        self.copy(page)
    }

    #[cold]
    fn copy(&self, page: usize) -> Result<(), Error> {
        let versions = self.map().get(page).ok_or(Error::CapacityOverflow)?;
        // So that the checksum of the copied page is compared.
        self.version(page);
        self.copies.copy(versions, self.word(page))
    }

    fn discard(&self, pages: Range<usize>) {
        for page in pages {
            if let Some(versions) = self.map().get(page)
                && self.version(page).number() != 0
            {
                self.copies.discard(versions, self.word(page));
            }
        }
    }

    fn trim(&self) -> Result<(), Error> {
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
