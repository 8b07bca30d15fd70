//! Allocators of [`RecordMap`](crate::RecordMap)s: the traits of the crate `allocator-api2`, which
//! stand for the standard library's traits until these are stable, and an allocator that keeps
//! records side by side.

pub use allocator_api2::alloc::{AllocError, Allocator, Global, Layout};

use crate::error::Error;
use crate::memory::{Addresses, Arena as Spans, Heap, MemoryUsage};
use core::ptr::NonNull;
use std::sync::Arc;

/// An allocator of memory in huge pages, by size classes in spans of 64 KiB: for records of up to
/// some KiB that are looked up at random. With the program's allocator each of them would need an
/// entry of its own in the processor's table of pages.
///
/// Clones share the memory, which is freed when the last clone is dropped. Memory is aligned to 8
/// bytes; a larger alignment is refused.
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
    /// Makes an arena without memory.
    ///
    /// # Errors
    /// If the system refuses addresses for it.
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

    /// Returns how much memory the arena has.
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

// SAFETY: places of the arena are aligned to 8 bytes, belong to one caller until they are given
// back, and stay valid as long as any clone lives. A place has the bytes of its layout, no more, so
// the layout of `deallocate` has as many.
unsafe impl Allocator for Arena {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        const ALIGN: usize = 8;
        if layout.align() > ALIGN {
            return Err(AllocError);
        }
        let offset = self.0.spans.allocate(layout.size().max(1)).map_err(|_| AllocError)?;
        let place = NonNull::new(self.0.spans.address(offset)).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(place, layout.size()))
    }

    unsafe fn deallocate(&self, place: NonNull<u8>, layout: Layout) {
        self.0.spans.give_back(place.addr().get() - self.base(), layout.size().max(1));
    }
}
