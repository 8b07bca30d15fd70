//! Where a table's slots are stored, and how stores become durable.
//!
//! A table says which stores must be durable before which others. In RAM this compiles to nothing.
//! There are two kinds of durable media:
//!
//! - In an *ordered* medium (persistent memory) stores that were [flushed](Medium::flush) before a
//!   [fence](Medium::fence) are durable before later stores. Both are cheap.
//! - In a medium that is not ordered (a file in the page cache) every store survives the process,
//!   in the order of the stores. After a power cut each page is as it was at some moment since the
//!   last [barrier](Medium::barrier), which is expensive.

use super::{Heap, HeapRegion, Memory, Region};
use crate::error::Error;
use crate::sync::{AtomicPair, AtomicU64, Ordering};
use core::fmt::Debug;

/// Parts of a medium, each of which grows by itself. The numbers are written to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(durable), allow(dead_code, reason = "there are no files"))]
pub enum Part {
    /// Slots of the first level.
    Front = 1,
    /// Slots of the second level.
    Back = 2,
    /// Slots for keys that find no room in the first two levels.
    Chains = 3,
    /// Changes since the last barrier.
    Journal = 4,
    /// The segments, and which keys belong to each.
    Segments = 5,
    /// Value buffers.
    Values = 6,
    /// Changes that are about to be made.
    Log = 7,
    /// Pages of all other parts, if pages are copied before they are changed. The parts below say
    /// where these pages are.
    Pages = 8,
    FrontMap = 9,
    BackMap = 10,
    ChainsMap = 11,
    SegmentsMap = 13,
    ValuesMap = 14,
    LogMap = 15,
    /// What a batch of changes that is under way has replaced.
    Undo = 16,
    UndoMap = 17,
    /// Checksums of the pages of the part `Pages`.
    Sums = 18,
}

#[cfg(durable)]
impl Part {
    /// The part that says where the pages of this part are.
    pub(crate) fn map(self) -> Self {
        match self {
            Self::Front => Self::FrontMap,
            Self::Back => Self::BackMap,
            Self::Chains => Self::ChainsMap,
            Self::Segments => Self::SegmentsMap,
            Self::Values => Self::ValuesMap,
            Self::Log => Self::LogMap,
            Self::Undo => Self::UndoMap,
            other => other,
        }
    }
}

/// A medium for slots.
#[cfg_attr(
    modelled,
    allow(private_interfaces, reason = "the trait is sealed: its module is private")
)]
pub trait Medium: Clone + Debug + Send + Sync + 'static {
    /// Whether stored bytes outlast the process.
    const IS_DURABLE: bool;

    /// Whether the bytes of a region are found page by page.
    const IS_PAGED: bool = false;

    /// The bytes of a part.
    #[cfg(not(modelled))]
    type Region: Region + Debug;

    /// Bytes that never move.
    type Direct: Region + Debug;

    /// Reserves addresses for so many bytes of a part whose pages are never copied, and maps the
    /// bytes that the part has already. Bytes that a power cut must leave intact must not be
    /// changed there.
    ///
    /// # Errors
    /// If the system refuses the addresses.
    fn direct(&self, part: Part, bytes: usize) -> Result<Self::Direct, Error>;

    /// Stores byte strings one behind the other, from an address that is a multiple of eight.
    ///
    /// # Safety
    /// The caller owns so many bytes at this address, and no thread reads them meanwhile.
    unsafe fn write(&self, address: *mut u8, parts: &[&[u8]]) {
        let mut at = address;
        for part in parts {
            // SAFETY: as the caller promises; the parts do not overlap the destination.
            unsafe {
                at.copy_from_nonoverlapping(part.as_ptr(), part.len());
                at = at.add(part.len());
            }
        }
    }

    /// Returns the present epoch of a medium that copies pages; zero of other media.
    #[inline(always)]
    fn epoch(&self) -> u64 {
        0
    }

    /// Returns the last durable epoch.
    #[inline(always)]
    fn settled(&self) -> u64 {
        u64::MAX
    }

    /// Reserves addresses for so many bytes of a part, and maps the bytes that it has already.
    #[cfg(not(modelled))]
    fn region(&self, part: Part, bytes: usize) -> Result<Self::Region, Error>;

    /// Returns the address of a byte in a region that begins at `base`.
    #[cfg(not(modelled))]
    #[inline(always)]
    fn address(region: &Self::Region, base: *const u8, offset: usize) -> *const u8 {
        let _ = region;
        base.wrapping_add(offset)
    }

    /// Makes the page of a byte writable. The byte's address may be another one afterwards.
    ///
    /// # Errors
    /// If there is no room for a copy of the page.
    #[cfg(not(modelled))]
    #[inline(always)]
    fn make_writable(region: &Self::Region, offset: usize) -> Result<(), Error> {
        let _ = (region, offset);
        Ok(())
    }

    /// Makes sure that a byte has a page. (A byte without a page reads as zero.)
    ///
    /// # Errors
    /// If there is no room for the page.
    #[cfg(durable)]
    fn make_present(region: &Self::Region, offset: usize) -> Result<(), Error> {
        let _ = (region, offset);
        Ok(())
    }

    /// Checks that there is room for a change that fills so many new bytes, and for ordinary
    /// changes.
    ///
    /// # Errors
    /// If the file can't grow.
    fn has_room(&self, bytes: usize) -> Result<(), Error> {
        let _ = bytes;
        Ok(())
    }

    /// Gives whole pages of a region back; they read as zero afterwards. Returns whether the medium
    /// can.
    #[cfg(not(modelled))]
    fn discard(region: &Self::Region, bytes: core::ops::Range<usize>) -> bool {
        let _ = (region, bytes);
        false
    }

    /// Gives back what the medium knows of pages behind the region's end. All changes must be
    /// durable, and no thread may change anything.
    ///
    /// # Errors
    /// If the system refuses memory.
    #[cfg(not(modelled))]
    fn trim(region: &Self::Region) -> Result<(), Error> {
        let _ = region;
        Ok(())
    }

    /// Moves pages to the lowest free places of their part. No thread may change anything
    /// meanwhile.
    ///
    /// # Errors
    /// If there is no room.
    fn move_pages(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Gives the memory behind the last needed page back to the system. All changes must be
    /// durable, and no thread may change anything.
    fn trim_pages(&self) {}

    /// Returns the memory that the medium holds besides its regions.
    fn usage(&self) -> super::MemoryUsage {
        super::MemoryUsage::default()
    }

    /// Whether a file is read in spite of damage.
    fn is_forced(&self) -> bool {
        false
    }

    /// Whether an element of a damaged file may be in an earlier page than the last one of its place.
    fn may_be_earlier<T>(&self, _element: &T) -> bool {
        false
    }

    /// Whether words of a value buffer may be those that a pointer of a damaged file has named.
    fn may_belong<T, U>(&self, _values: &T, _pointer: &U) -> bool {
        true
    }

    /// Whether changes stay in this process.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Whether the medium belongs to another process, of which this one is a fork.
    fn is_forked(&self) -> bool {
        false
    }

    /// Returns a number that changes when pages are given out again. A reader that has announced no
    /// operation may still be reading such a page.
    #[inline(always)]
    fn recycled(&self) -> u64 {
        0
    }

    /// Whether fences order what becomes durable. Barriers do in every medium.
    fn is_ordered(&self) -> bool;

    /// Whether flushed and fenced stores are durable. If not, a reader need not flush and fence.
    #[inline(always)]
    fn has_fences(&self) -> bool {
        true
    }

    /// Stores a word.
    #[inline(always)]
    fn store_word(&self, word: &AtomicU64, value: u64, order: Ordering) {
        word.store(value, order);
    }

    /// Stores the first word of a slot.
    #[inline(always)]
    fn store_first(&self, slot: &AtomicPair, word: u64, order: Ordering) {
        slot.store_first(word, order);
    }

    /// Stores the second word of a slot.
    #[inline(always)]
    fn store_second(&self, slot: &AtomicPair, word: u64, order: Ordering) {
        slot.store_second(word, order);
    }

    /// Stores zero to the first word of a slot if it is `current`.
    fn clear_first(&self, slot: &AtomicPair, current: u64) {
        slot.compare_exchange_first(current, 0);
    }

    /// Stores the second word of a slot if its first one is `first`.
    fn replace_second(&self, slot: &AtomicPair, first: u64, second: u64) {
        replace_second(slot, first, second);
    }

    /// Starts to make the cache lines of so many elements durable.
    fn flush<T>(&self, first: *const T, count: usize);

    /// In an ordered medium, makes this thread's flushed stores durable before its later stores.
    fn fence(&self);

    /// Makes all earlier stores durable.
    ///
    /// # Errors
    /// If the system could not write. Then it is unknown which stores are durable.
    fn barrier(&self) -> Result<(), Error>;

    /// Makes all stores that were flushed before survive a power cut. Cheaper than a barrier. In a
    /// medium that is not ordered it orders nothing.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    fn persist(&self) -> Result<(), Error> {
        self.barrier()
    }

    /// Makes all earlier changes survive a power cut. A medium that needs a moment without changes
    /// calls `begin`, which runs its argument while no thread changes anything.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    fn sync(&self, begin: impl FnOnce(&dyn Fn())) -> Result<(), Error> {
        let _ = begin;
        self.persist()
    }

    /// Runs a function while no page is copied.
    fn while_nothing_moves<R>(&self, run: impl FnOnce() -> R) -> R {
        run()
    }

    /// Whether a barrier has failed. Then no later barrier succeeds.
    fn has_failed(&self) -> bool {
        false
    }

    /// Stores the word by which the table finds its state again. In an ordered medium makes it
    /// durable.
    fn set_root(&self, word: u64);
}

/// Stores the second word of a slot if its first one is `first`. Returns whether it was.
pub(crate) fn replace_second(slot: &AtomicPair, first: u64, second: u64) -> bool {
    loop {
        let current = slot.load_second(Ordering::Relaxed);
        // Relaxed: the exchange compares both words again.
        if slot.load_first(Ordering::Relaxed) != first {
            return false;
        }
        if slot.compare_exchange((first, current), (first, second)) {
            return true;
        }
    }
}

impl Medium for Heap {
    const IS_DURABLE: bool = false;

    type Direct = HeapRegion;

    fn direct(&self, _part: Part, bytes: usize) -> Result<HeapRegion, Error> {
        self.reserve(bytes)
    }

    #[cfg(not(modelled))]
    type Region = HeapRegion;

    #[cfg(not(modelled))]
    fn region(&self, _part: Part, bytes: usize) -> Result<HeapRegion, Error> {
        self.reserve(bytes)
    }

    #[inline(always)]
    fn is_ordered(&self) -> bool {
        true
    }

    #[inline(always)]
    fn flush<T>(&self, _first: *const T, _count: usize) {}

    #[inline(always)]
    fn fence(&self) {}

    fn barrier(&self) -> Result<(), Error> {
        Ok(())
    }

    #[inline(always)]
    fn set_root(&self, _word: u64) {}
}

/// Durable media for model checkers. The models check only the order of stores.
#[cfg(modelled)]
#[derive(Debug, Clone, Copy)]
pub struct Checked<const ORDERED: bool>;

#[cfg(modelled)]
impl<const ORDERED: bool> Medium for Checked<ORDERED> {
    const IS_DURABLE: bool = true;

    type Direct = HeapRegion;

    fn direct(&self, _part: Part, bytes: usize) -> Result<HeapRegion, Error> {
        Heap.reserve(bytes)
    }

    fn is_ordered(&self) -> bool {
        ORDERED
    }

    fn flush<T>(&self, _first: *const T, _count: usize) {}

    fn fence(&self) {}

    fn barrier(&self) -> Result<(), Error> {
        Ok(())
    }

    fn set_root(&self, _word: u64) {}
}
