//! A fixed number of zeroed elements: few in memory of the allocator, many in a region of their own.
//!
//! Invariants
//! 1. There are `bytes` bytes from `base` on, a whole number of elements of `T`: in an allocation
//!    that the slab owns, or committed in its region. The base is aligned to [`ALIGNMENT`].
//! 2. All zero bytes are a valid `T` ([`Zeroed`]), so fresh memory needs no initialisation.
//!
//! Under a model checker the elements are constructed one by one, since its atomics are not plain
//! words.

use super::MemoryUsage;
use crate::error::Error;

/// A type for which all zero bytes are a valid value, and that needs no drop.
///
/// # Safety
/// Both must hold, and `zeroed` must return that value.
pub(crate) unsafe trait Zeroed: Sized {
    /// Returns the value whose bytes are all zero.
    #[cfg(modelled)]
    fn zeroed() -> Self;
}

#[cfg(not(modelled))]
mod backing {
    use super::{Error, MemoryUsage, Zeroed};
    use crate::memory::{ALIGNMENT, Heap, HeapRegion, Memory, Region};
    use core::marker::PhantomData;
    use core::ops::Range;
    use std::alloc::Layout;

    /// From so many bytes on a slab is a region, which takes whole pages and has huge ones. The
    /// system bounds the number of mappings of a process: maps of few entries must not need one.
    const REGION: usize = 32 << 10;

    #[derive(Debug)]
    pub(crate) struct Slab<T> {
        base: *const T,
        bytes: usize,
        /// Nothing if the bytes are the allocator's.
        region: Option<HeapRegion>,
        elements: PhantomData<T>,
    }

    // SAFETY: the slab owns its elements, like a boxed slice.
    unsafe impl<T: Send> Send for Slab<T> {}
    // SAFETY: it hands out shared references only, like a boxed slice.
    unsafe impl<T: Sync> Sync for Slab<T> {}

    impl<T: Zeroed> Slab<T> {
        pub(crate) fn new(len: usize) -> Result<Self, Error> {
            const { assert!(align_of::<T>() <= ALIGNMENT && size_of::<T>() > 0) };
            let bytes = len.checked_mul(size_of::<T>()).ok_or(Error::CapacityOverflow)?;
            if bytes < REGION && bytes > 0 {
                let layout = Layout::from_size_align(bytes, ALIGNMENT)
                    .map_err(|_| Error::CapacityOverflow)?;
                // SAFETY: the size is not zero.
                let base = unsafe { std::alloc::alloc_zeroed(layout) };
                if base.is_null() {
                    return Err(Error::OutOfMemory { bytes });
                }
                let base = base.cast_const().cast();
                return Ok(Self { base, bytes, region: None, elements: PhantomData });
            }
            let region = Heap.reserve(bytes)?;
            region.resize(bytes)?;
            let base = region.base().as_ptr().cast_const().cast();
            Ok(Self { base, bytes, region: Some(region), elements: PhantomData })
        }

        pub(crate) fn usage(&self) -> MemoryUsage {
            let allocated = || MemoryUsage::allocated(self.bytes);
            self.region.as_ref().map_or_else(allocated, HeapRegion::usage)
        }

        /// Makes the elements of a range resident, if the slab is a region and the system can.
        pub(crate) fn populate(&self, elements: Range<usize>) {
            if let Some(region) = &self.region {
                let size = size_of::<T>();
                region.populate(elements.start * size..elements.end * size);
            }
        }

        /// Makes the pages read-only: a store to an element faults. The slab is a region.
        #[cfg(all(test, unix, not(miri)))]
        pub(crate) fn forbid_stores(&self) {
            let region = self.region.as_ref().expect("the slab has pages of its own");
            region.forbid_stores();
        }

        #[inline(always)]
        pub(crate) fn len(&self) -> usize {
            self.bytes / size_of::<T>()
        }

        /// Returns the bytes of all elements.
        #[inline(always)]
        pub(crate) fn bytes(&self) -> usize {
            self.bytes
        }

        /// Returns the address of an element, to prefetch it.
        #[inline(always)]
        pub(crate) fn address(&self, index: usize) -> *const T {
            self.base.wrapping_add(index)
        }

        #[inline(always)]
        pub(crate) fn at(&self, index: usize) -> &T {
            self.at_offset(index * size_of::<T>())
        }

        /// Returns the address of the element so many bytes behind the first, to prefetch it.
        #[inline(always)]
        pub(crate) fn address_at_offset(&self, offset: usize) -> *const T {
            self.base.wrapping_byte_add(offset)
        }

        /// Returns the element so many bytes behind the first.
        #[inline(always)]
        pub(crate) fn at_offset(&self, offset: usize) -> &T {
            debug_assert!(offset < self.bytes && offset.is_multiple_of(size_of::<T>()));
            #[cfg(any(test, feature = "accounting"))]
            crate::memory::touched::record(self.address_at_offset(offset).addr(), false);
            // Callers compute the offset from a place in this slab: a bin number below the number
            // of bins, or a link that the cursor of links handed out.
            // SAFETY: so it is the offset of an element's first byte; invariants 1 and 2.
            unsafe { &*self.base.byte_add(offset) }
        }
    }

    impl<T> Drop for Slab<T> {
        fn drop(&mut self) {
            if self.region.is_some() {
                return;
            }
            if let Ok(layout) = Layout::from_size_align(self.bytes, ALIGNMENT) {
                // SAFETY: invariant 1: `new` allocated the bytes with this layout, and no thread
                // uses them any more. Elements need no drop ([`Zeroed`]).
                unsafe { std::alloc::dealloc(self.base.cast_mut().cast(), layout) };
            }
        }
    }
}

#[cfg(modelled)]
mod backing {
    use super::{Error, MemoryUsage, Zeroed};
    use core::ops::Range;

    #[derive(Debug)]
    pub(crate) struct Slab<T> {
        elements: Box<[T]>,
    }

    impl<T: Zeroed> Slab<T> {
        pub(crate) fn new(len: usize) -> Result<Self, Error> {
            if len > 1 << 16 {
                return Err(Error::CapacityOverflow);
            }
            Ok(Self { elements: (0..len).map(|_| T::zeroed()).collect() })
        }

        pub(crate) fn usage(&self) -> MemoryUsage {
            let bytes = self.bytes();
            MemoryUsage::allocated(bytes)
        }

        pub(crate) fn len(&self) -> usize {
            self.elements.len()
        }

        pub(crate) fn address(&self, index: usize) -> *const T {
            &raw const self.elements[index]
        }

        pub(crate) fn populate(&self, _elements: Range<usize>) {}

        pub(crate) fn at(&self, index: usize) -> &T {
            &self.elements[index]
        }

        pub(crate) fn bytes(&self) -> usize {
            self.elements.len() * size_of::<T>()
        }

        pub(crate) fn address_at_offset(&self, offset: usize) -> *const T {
            self.address(offset / size_of::<T>())
        }

        pub(crate) fn at_offset(&self, offset: usize) -> &T {
            self.at(offset / size_of::<T>())
        }
    }
}

pub(crate) use backing::Slab;
