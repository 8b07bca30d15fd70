//! Allocators of [`RecordMap`](crate::RecordMap)s: the traits of the crate `allocator-api2`,
//! which stand for those that the standard library has not made stable yet, and one that
//! keeps records side by side.

pub use allocator_api2::alloc::{AllocError, Allocator, Global, Layout};

use crate::error::Error;
use crate::memory::{Addresses, Arena as Spans, Heap, MemoryUsage};
use core::ptr::NonNull;
use std::sync::Arc;

/// An allocator of memory in huge pages, by size classes in pieces of 64 KiB: for records of
/// up to some KiB that are looked up at random, of which the program's allocator would leave
/// each to a page of its own in the processor's table of pages.
///
/// Clones share the memory, which goes with the last of them. Memory is aligned to 8 bytes;
/// more is refused.
///
/// ```
/// use nunatak::{DlhtRecordMap, alloc::Arena, entry::Format};
/// let arena = Arena::new()?;
/// let map: DlhtRecordMap<Format<8, 32>, Arena> = DlhtRecordMap::new_in(arena.clone());
/// map.put(b"some key", &[7; 32])?;
/// assert!(arena.memory_usage().mapped > 0);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Arena(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    spans: Spans,
    _addresses: Addresses,
}

impl Arena {
    /// An arena without memory yet.
    ///
    /// # Errors
    /// If the addresses for it are not to be had.
    ///
    /// ```
    /// # use nunatak::alloc::Arena;
    /// Arena::new()?;
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn new() -> Result<Self, Error> {
        let most = Addresses::share();
        let spans = Spans::new(&Heap, most as usize)?;
        Ok(Self(Arc::new(Owned { spans, _addresses: Addresses::count(most) })))
    }

    /// How much memory it has.
    ///
    /// ```
    /// # use nunatak::alloc::Arena;
    /// assert_eq!(Arena::new()?.memory_usage().resident, 0);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn memory_usage(&self) -> MemoryUsage {
        self.0.spans.usage()
    }

    /// Gives memory behind the last record back to the system.
    ///
    /// ```
    /// # use nunatak::alloc::Arena;
    /// Arena::new()?.trim();
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    pub fn trim(&self) {
        self.0.spans.trim();
    }

    fn base(&self) -> usize {
        self.0.spans.address(0).addr()
    }
}

// SAFETY: places of the arena are aligned to 8 bytes, nobody else's until they are given back,
// and as long there as any clone is; the layout is not asked for when they are.
unsafe impl Allocator for Arena {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        const ALIGN: usize = 8;
        if layout.align() > ALIGN {
            return Err(AllocError);
        }
        let offset = self.0.spans.take(layout.size().max(1)).map_err(|_| AllocError)?;
        let place = NonNull::new(self.0.spans.address(offset)).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(place, layout.size()))
    }

    unsafe fn deallocate(&self, place: NonNull<u8>, _layout: Layout) {
        self.0.spans.give_back(place.addr().get() - self.base());
    }
}
