//! Where the bytes of a table live.
//!
//! A table asks a [`Memory`] for a [`Region`]: a reserved array of address space that is reserved once and
//! committed from its beginning. So it grows and shrinks in place, and its base never moves. The
//! heap is anonymous memory with huge pages. A durable table stores through its medium.
//!
//! Invariants
//! 1. `base()` never changes while the region lives, and is aligned to [`ALIGNMENT`] at least.
//! 2. Bytes in `0..committed()` are readable and writable. A byte reads as zero when it is
//!    committed for the first time, or again after a shrink.
//! 3. A region frees its address space when it is dropped, and not before.

mod addresses;
mod arena;
mod buddies;
#[cfg(durable)]
pub(crate) mod durable;
#[cfg(all(test, durable))]
mod epochs;
mod heap;
mod medium;
pub(crate) mod prefetch;
mod reserved_array;
#[cfg(durable)]
mod saved;
mod slab;
pub(crate) mod spare;
#[cfg(any(test, feature = "accounting"))]
pub(crate) mod touched;

pub(crate) use addresses::Addresses;
pub use arena::BlobStats;
pub(crate) use arena::{Arena, Places, Totals};
pub(crate) use buddies::{Buddies, BuddyExtent, MOST_SIZE};
#[cfg(all(test, durable))]
pub(crate) use epochs::Epochs;
pub use heap::{Heap, HeapRegion};
#[cfg(modelled)]
pub(crate) use medium::Checked;
pub(crate) use medium::{Medium, Part};
#[cfg(modelled)]
pub(crate) use reserved_array::Released;
pub(crate) use reserved_array::ReservedArray;
#[cfg(durable)]
pub(crate) use saved::{Saved, save, saved};
pub(crate) use slab::{Slab, Zeroed};

use crate::error::Error;
use core::ptr::NonNull;

/// The alignment of every region's base: a cache line.
///
/// ```
/// assert_eq!(nunatak::memory::ALIGNMENT, 64);
/// ```
pub const ALIGNMENT: usize = 64;

/// Learns after a crash which words of a table name places in the finder's own memory.
#[cfg(durable)]
pub(crate) trait Finder: core::fmt::Debug + Send + Sync {
    /// Learns of a word in a slot. Returns false if the word can't be valid; the slot then counts
    /// as empty.
    fn find(&self, word: u64) -> bool;

    /// Learns that a slot has lost a word that was found. No thread has seen the word.
    fn forget(&self, word: u64);

    /// Ends the search: all words were found.
    fn end(&self);
}

/// How much memory something holds, in bytes.
///
/// ```
/// use nunatak::DlhtMap;
/// let map: DlhtMap<u64, u64> = DlhtMap::with_capacity(1 << 16);
/// let usage = map.memory_usage();
/// assert!(usage.resident <= usage.mapped);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUsage {
    /// Bytes that are mapped: they can be used without asking the system again.
    pub mapped: usize,
    /// Mapped bytes that occupy physical memory now.
    pub resident: usize,
}

impl MemoryUsage {
    /// Bytes of the allocator's, which count as resident.
    pub(crate) fn allocated(bytes: usize) -> Self {
        Self { mapped: bytes, resident: bytes }
    }
}

impl core::ops::Add for MemoryUsage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { mapped: self.mapped + other.mapped, resident: self.resident + other.resident }
    }
}

/// A source of regions.
///
/// ```
/// use nunatak::memory::{Heap, Memory, Region};
/// let region = Heap.reserve(1 << 30)?;   // a gibibyte of addresses, no memory yet
/// region.resize(4096)?;
/// assert_eq!(region.committed(), 4096);
/// # Ok::<(), nunatak::Error>(())
/// ```
pub trait Memory: Send + Sync {
    /// The regions that this memory hands out.
    ///
    /// ```
    /// use nunatak::memory::{Heap, HeapRegion, Memory, Region};
    /// let region: HeapRegion = Heap.reserve(4096)?;
    /// # assert_eq!(region.committed(), 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    type Region: Region;

    /// Reserves addresses for `bytes` bytes and commits none of them.
    ///
    /// # Errors
    /// If the system refuses the addresses.
    ///
    /// ```
    /// use nunatak::memory::{Heap, Memory, Region};
    /// assert_eq!(Heap.reserve(1 << 40)?.committed(), 0);   // a tebibyte of addresses
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    fn reserve(&self, bytes: usize) -> Result<Self::Region, Error>;
}

/// A reserved array of address space, committed from its beginning.
///
/// ```
/// use nunatak::memory::{Heap, Memory, Region};
/// let region = Heap.reserve(1 << 20)?;
/// region.resize(1 << 16)?;
/// let base = region.base();
/// region.resize(1 << 20)?;
/// assert_eq!(region.base(), base);
/// # Ok::<(), nunatak::Error>(())
/// ```
pub trait Region: Send + Sync {
    /// Returns the address of the first byte. It never moves.
    ///
    /// ```
    /// use nunatak::memory::{Heap, Memory, Region};
    /// assert!(Heap.reserve(4096)?.base().cast::<[u64; 8]>().is_aligned());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    fn base(&self) -> NonNull<u8>;

    /// Returns how many bytes may be used, from the base.
    ///
    /// ```
    /// use nunatak::memory::{Heap, Memory, Region};
    /// assert_eq!(Heap.reserve(4096)?.committed(), 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    fn committed(&self) -> usize;

    /// Returns how many bytes the region can grow to.
    ///
    /// ```
    /// use nunatak::memory::{Heap, Memory, Region};
    /// assert!(Heap.reserve(4096)?.reserved() >= 4096);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    fn reserved(&self) -> usize;

    /// Commits memory or gives it back at the end, so that `bytes` bytes are usable. When it asks
    /// for a shrink, the caller must not touch the bytes beyond any more.
    ///
    /// # Errors
    /// If `bytes` exceeds the reservation, or the system refuses. The region then stays as it was.
    ///
    /// ```
    /// use nunatak::memory::{Heap, Memory, Region};
    /// let region = Heap.reserve(1 << 20)?;
    /// region.resize(1 << 20)?;
    /// region.resize(0)?;
    /// assert!(region.resize(2 << 20).is_err());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    fn resize(&self, bytes: usize) -> Result<(), Error>;

    /// Gives memory back at the end, in whole pages of the system, so that `bytes` bytes are
    /// committed. Does nothing if no more are committed. Unlike after a [`resize`](Self::resize),
    /// the bytes beyond stay accessible for threads that have not learned of the shrink. They read
    /// as zero or as before.
    ///
    /// ```
    /// use nunatak::memory::{Heap, Memory, Region};
    /// let region = Heap.reserve(1 << 20)?;
    /// region.resize(1 << 20)?;
    /// region.release(1 << 12);
    /// assert_eq!(region.committed(), 1 << 12);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    fn release(&self, bytes: usize);

    /// Makes a range of committed bytes resident, so that the first access does not wait for the
    /// system to find and clear a page. Changes no byte. Does nothing where the system can't
    /// populate memory or has none left.
    ///
    /// ```
    /// use nunatak::memory::{Heap, Memory, Region};
    /// let region = Heap.reserve(1 << 20)?;
    /// region.resize(1 << 20)?;
    /// region.populate(0..1 << 16);
    /// assert!(region.usage().resident >= 1 << 16 || cfg!(not(target_os = "linux")));
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    fn populate(&self, range: core::ops::Range<usize>);

    /// Asks the system how much memory the region holds.
    ///
    /// ```
    /// use nunatak::memory::{Heap, Memory, Region};
    /// let region = Heap.reserve(1 << 20)?;
    /// region.resize(1 << 16)?;
    /// assert!(region.usage().mapped >= 1 << 16);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    fn usage(&self) -> MemoryUsage;
}
