//! Where the bytes of a table live.
//!
//! A table asks a [`Memory`] for a [`Region`]: a reserved_array of address space that
//! is reserved once and committed from its beginning, so that it grows and
//! shrinks in place and its base never moves. The heap is anonymous, huge-paged
//! memory. What a durable table stores goes through its medium.
//!
//! Invariants
//! 1. `base()` never changes while the region lives, and is aligned to
//!    [`ALIGNMENT`] at least.
//! 2. Bytes in `0..committed()` are readable and writable; a byte reads as zero
//!    when it is committed for the first time or again after a shrink.
//! 3. A region frees its address space when it is dropped, and not before.

mod addresses;
mod arena;
mod buddies;
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
pub(crate) mod durable;
mod heap;
mod medium;
pub(crate) mod prefetch;
mod reserved_array;
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
mod saved;
mod slab;
#[cfg(any(test, feature = "accounting"))]
pub(crate) mod touched;

pub(crate) use addresses::Addresses;
pub(crate) use arena::Arena;
pub use arena::BlobStats;
pub(crate) use buddies::{Buddies, BuddyExtent, MOST_SIZE};
pub use heap::{Heap, HeapRegion};
#[cfg(any(loom, shuttle))]
pub(crate) use medium::Checked;
pub(crate) use medium::{Medium, Part};
#[cfg(any(loom, shuttle))]
pub(crate) use reserved_array::Released;
pub(crate) use reserved_array::ReservedArray;
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
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

/// Who learns, after a crash, which words of a table name places in memory of its own.
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
pub(crate) trait Finder: core::fmt::Debug + Send + Sync {
    /// A slot holds a word; false if it can't, so that the slot is as if it were empty.
    fn find(&self, word: u64) -> bool;

    /// That was the last.
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
    /// Bytes that are mapped: they may be used without asking again.
    pub mapped: usize,
    /// Bytes of them that occupy physical memory now.
    pub resident: usize,
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
    /// What this memory hands out.
    ///
    /// ```
    /// use nunatak::memory::{Heap, HeapRegion, Memory, Region};
    /// let region: HeapRegion = Heap.reserve(4096)?;
    /// # assert_eq!(region.committed(), 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    type Region: Region;

    /// Reserves address space for `bytes` bytes and commits none of it.
    ///
    /// # Errors
    /// If the address space is refused.
    ///
    /// ```
    /// use nunatak::memory::{Heap, Memory, Region};
    /// assert_eq!(Heap.reserve(1 << 40)?.committed(), 0);   // a tebibyte of addresses
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    fn reserve(&self, bytes: usize) -> Result<Self::Region, Error>;
}

/// A reserved_array of address space, committed from its beginning.
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
    /// The first byte. It never moves.
    ///
    /// ```
    /// use nunatak::memory::{Heap, Memory, Region};
    /// assert!(Heap.reserve(4096)?.base().cast::<[u64; 8]>().is_aligned());
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    fn base(&self) -> NonNull<u8>;

    /// How many bytes may be used, from the base.
    ///
    /// ```
    /// use nunatak::memory::{Heap, Memory, Region};
    /// assert_eq!(Heap.reserve(4096)?.committed(), 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    fn committed(&self) -> usize;

    /// How many bytes the region can grow to.
    ///
    /// ```
    /// use nunatak::memory::{Heap, Memory, Region};
    /// assert!(Heap.reserve(4096)?.reserved() >= 4096);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    fn reserved(&self) -> usize;

    /// Commits or gives back memory at the end, so that `bytes` bytes are
    /// usable. The caller must not touch the bytes beyond from the moment it
    /// asks for a shrink.
    ///
    /// # Errors
    /// If `bytes` exceeds the reservation or the system refuses; the region is
    /// as it was.
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

    /// Gives memory back at the end, so that `bytes` bytes are committed, as far
    /// as the system takes it back by whole pages. Unlike after a
    /// [`resize`](Self::resize) the bytes beyond stay accessible, for whoever has
    /// not learned of it yet; what they hold is zero or what was there. Nothing
    /// if no more than that is committed.
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

    /// Makes a range of the committed bytes resident, so that who comes to them first
    /// does not wait for the system to find and clear a page. Changes no byte. Where
    /// the system can't do that, or has no memory left, nothing.
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

    /// How much memory the region holds, asked of the system.
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
