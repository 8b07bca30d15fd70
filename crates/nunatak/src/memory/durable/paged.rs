//! The medium of tables that rely only on the order of their stores: persistent memory as it is,
//! and the page cache by means of [copies].

use super::page_versions::{PAGE_BYTES, PAGE_SHIFT};
use super::paged_region::{Copied, PagedRegion};
use super::pool::Pool;
use super::region::{Durable, InPool, PoolRegion};
use super::shadow_pages::ShadowPages;
use crate::error::{Error, FileError};
use crate::memory::{Medium, MemoryUsage, Part};
use crate::sync::{AtomicPair, AtomicU64, Ordering};
use core::ops::Range;
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
            Some(copies) => {
                Ok(PagedRegion::Copied(Copied::new(&self.durable, copies, part, bytes)?))
            }
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
