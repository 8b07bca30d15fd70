//! What a table's slots are stored in, and how stores become durable.
//!
//! A table says what has to be durable before what, and compiles to nothing of
//! it in RAM. There are two kinds of durable media. In an *ordered* one, what was
//! [flushed](Medium::flush) before a [fence](Medium::fence) is durable before what
//! is stored after it, and both are cheap: persistent memory. In one that is not,
//! everything survives the process in the order in which it was stored, but what a
//! power cut leaves is, page by page, of any moment since the last
//! [barrier](Medium::barrier), which is expensive: a file in the page cache.

use super::{Heap, HeapRegion, Memory, Region};
use crate::error::Error;
use crate::sync::{AtomicPair, AtomicU64, Ordering};
use core::fmt::Debug;

/// Parts of a medium: what grows by itself. Numbers are written to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    any(not(target_os = "linux"), loom, shuttle, miri),
    allow(dead_code, reason = "there are no files")
)]
pub enum Part {
    /// Slots of the first level.
    Front = 1,
    /// Slots of the second level.
    Back = 2,
    /// Slots of whatever finds no room in those.
    Chains = 3,
    /// What was changed since all of it was written.
    Journal = 4,
    /// What segments there are, and which keys they are of.
    Segments = 5,
    /// Value buffers.
    Values = 6,
    /// What is about to be changed.
    Log = 7,
    /// Pages of all other parts, if these are copied before they are changed; those below
    /// say where.
    Pages = 8,
    FrontMap = 9,
    BackMap = 10,
    ChainsMap = 11,
    SegmentsMap = 13,
    ValuesMap = 14,
    LogMap = 15,
}

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
impl Part {
    /// What says where the pages of a part are.
    pub(crate) fn map(self) -> Self {
        match self {
            Self::Front => Self::FrontMap,
            Self::Back => Self::BackMap,
            Self::Chains => Self::ChainsMap,
            Self::Segments => Self::SegmentsMap,
            Self::Values => Self::ValuesMap,
            Self::Log => Self::LogMap,
            other => other,
        }
    }
}

/// A medium for slots.
#[cfg_attr(
    any(loom, shuttle),
    allow(private_interfaces, reason = "the trait is sealed: its module is private")
)]
pub trait Medium: Clone + Debug + Send + Sync + 'static {
    /// Whether anything is left of it when the process ends.
    const IS_DURABLE: bool;

    /// Whether the bytes of a region are looked for page by page.
    const IS_PAGED: bool = false;

    /// Where the bytes of a part are.
    #[cfg(not(any(loom, shuttle)))]
    type Region: Region + Debug;

    /// Bytes that stay where they are.
    type Direct: Region + Debug;

    /// Addresses for so many bytes of a part that are in no pages that are copied; with the
    /// bytes in it that there are. What a power cut is to leave of it must not be changed.
    ///
    /// # Errors
    /// If addresses are refused.
    fn direct(&self, part: Part, bytes: usize) -> Result<Self::Direct, Error>;

    /// Stores parts one behind the other, from an address on that is a multiple of eight.
    ///
    /// # Safety
    /// So many bytes there are the caller's, and nobody reads them meanwhile.
    unsafe fn write(&self, address: *mut u8, parts: &[&[u8]]) {
        let mut at = address;
        for part in parts {
            // SAFETY: as was promised; the parts are elsewhere.
            unsafe {
                at.copy_from_nonoverlapping(part.as_ptr(), part.len());
                at = at.add(part.len());
            }
        }
    }

    /// The present epoch of a medium whose pages are copied; zero if it has none.
    #[inline(always)]
    fn epoch(&self) -> u64 {
        0
    }

    /// The last epoch that is durable.
    #[inline(always)]
    fn settled(&self) -> u64 {
        u64::MAX
    }

    /// Addresses for so many bytes of a part; with the bytes in it that there are.
    #[cfg(not(any(loom, shuttle)))]
    fn region(&self, part: Part, bytes: usize) -> Result<Self::Region, Error>;

    /// The address of a byte of a region that begins at `base`.
    #[cfg(not(any(loom, shuttle)))]
    #[inline(always)]
    fn address(region: &Self::Region, base: *const u8, offset: usize) -> *const u8 {
        let _ = region;
        base.wrapping_add(offset)
    }

    /// Sees to it that the page of a byte may be stored to. Its address may be another
    /// one afterwards.
    ///
    /// # Errors
    /// If there is no room for a copy of it.
    #[cfg(not(any(loom, shuttle)))]
    #[inline(always)]
    fn make_writable(region: &Self::Region, offset: usize) -> Result<(), Error> {
        let _ = (region, offset);
        Ok(())
    }

    /// Sees to it that there is a page for a byte, which may have been zero without one.
    ///
    /// # Errors
    /// If there is no room for it.
    #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
    fn make_present(region: &Self::Region, offset: usize) -> Result<(), Error> {
        let _ = (region, offset);
        Ok(())
    }

    /// An error if there is so little room that a change might find none, or one that
    /// stores so many bytes where nothing was.
    ///
    /// # Errors
    /// If the file can't grow.
    fn has_room(&self, bytes: usize) -> Result<(), Error> {
        let _ = bytes;
        Ok(())
    }

    /// Gives whole pages of a region back, which read as zero from here on; whether it
    /// can.
    #[cfg(not(any(loom, shuttle)))]
    fn discard(region: &Self::Region, bytes: core::ops::Range<usize>) -> bool {
        let _ = (region, bytes);
        false
    }

    /// Gives what is known of a region's pages behind its end back. What was changed is
    /// durable, and nobody changes anything.
    ///
    /// # Errors
    /// If memory is refused.
    #[cfg(not(any(loom, shuttle)))]
    fn trim(region: &Self::Region) -> Result<(), Error> {
        let _ = region;
        Ok(())
    }

    /// Moves pages to the beginning of where they are, while nobody changes anything.
    ///
    /// # Errors
    /// If there is no room.
    fn move_pages(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Gives what is behind the last page that is needed back to the system. What was
    /// changed is durable, and nobody changes anything.
    fn trim_pages(&self) {}

    /// What the medium holds besides its regions.
    fn usage(&self) -> super::MemoryUsage {
        super::MemoryUsage::default()
    }

    /// Whether changes stay in this process.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Another number after pages were given out again that somebody may be reading who
    /// is in no operation.
    #[inline(always)]
    fn recycled(&self) -> u64 {
        0
    }

    /// Whether fences order what becomes durable; barriers do in every medium.
    fn is_ordered(&self) -> bool;

    /// Whether what was flushed and fenced is durable: if not, a reader need not do it.
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

    /// Starts to make the lines of so many elements durable.
    fn flush<T>(&self, first: *const T, count: usize);

    /// What this thread has flushed is durable before what it stores from here on,
    /// if the medium is ordered.
    fn fence(&self);

    /// All that was stored before is durable after it.
    ///
    /// # Errors
    /// If the system could not write it. It is not known then what is durable.
    fn barrier(&self) -> Result<(), Error>;

    /// All that was flushed before survives a power cut after it. Cheaper than a
    /// barrier, and in a medium that is not ordered it orders nothing.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    fn persist(&self) -> Result<(), Error> {
        self.barrier()
    }

    /// All that was changed before survives a power cut after it. `begin` is to keep
    /// everybody from changing anything while it runs what it is given, if it is given
    /// something.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    fn sync(&self, begin: impl FnOnce(&dyn Fn())) -> Result<(), Error> {
        let _ = begin;
        self.persist()
    }

    /// Buddies something while no page is copied.
    fn while_nothing_moves<R>(&self, run: impl FnOnce() -> R) -> R {
        run()
    }

    /// Whether a barrier has failed: none will succeed any more.
    fn has_failed(&self) -> bool {
        false
    }

    /// Stores the word by which the table finds itself again, and makes it durable
    /// if the medium is ordered.
    fn set_root(&self, word: u64);
}

/// Stores the second word of a slot if its first one is `first`; whether it was.
pub(crate) fn replace_second(slot: &AtomicPair, first: u64, second: u64) -> bool {
    loop {
        let current = slot.load_second(Ordering::Relaxed);
        // Relaxed: the exchange looks at both words again.
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

    #[cfg(not(any(loom, shuttle)))]
    type Region = HeapRegion;

    #[cfg(not(any(loom, shuttle)))]
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

/// Durable media for model checkers, of which only the order of stores is checked.
#[cfg(any(loom, shuttle))]
#[derive(Debug, Clone, Copy)]
pub struct Checked<const ORDERED: bool>;

#[cfg(any(loom, shuttle))]
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
