//! Zeroed elements in a region of their own, whose number changes in place.
//!
//! Invariants
//! 1. The region is committed for `len` elements of `T`, and its base is aligned for `T`.
//! 2. Elements that were committed once stay accessible until the reserved array is dropped, also after it
//!    has shrunk: operations that have not learned of a shrink may access them.
//! 3. All zero bytes are a valid `T` ([`Zeroed`]), so fresh memory needs no initialisation.
//!    Elements that were given up and taken again read as zero or as before.
//!
//! Under a model checker all elements are constructed at the start.

use super::{MemoryUsage, Zeroed};
use crate::error::Error;
use crate::sync::{AtomicPair, AtomicU8, AtomicU64};

// SAFETY: zero bytes are zero words; there is nothing to drop.
unsafe impl Zeroed for AtomicU64 {
    #[cfg(modelled)]
    fn zeroed() -> Self {
        Self::new(0)
    }
}

// SAFETY: as above.
unsafe impl Zeroed for AtomicU8 {
    #[cfg(modelled)]
    fn zeroed() -> Self {
        Self::new(0)
    }
}

// SAFETY: as above.
unsafe impl Zeroed for AtomicPair {
    #[cfg(modelled)]
    fn zeroed() -> Self {
        Self::default()
    }
}

/// Elements whose pages were released.
#[cfg(modelled)]
pub(crate) trait Released {
    fn release(&self);
}

#[cfg(modelled)]
mod released {
    use super::Released;
    use crate::sync::{AtomicPair, AtomicU8, AtomicU64, Ordering};

    impl Released for AtomicU64 {
        fn release(&self) {
            self.store(0, Ordering::Relaxed);
        }
    }

    impl Released for AtomicU8 {
        fn release(&self) {
            self.store(0, Ordering::Relaxed);
        }
    }

    impl Released for AtomicPair {
        fn release(&self) {
            self.store_second(0, Ordering::Relaxed);
            self.store_first(0, Ordering::Relaxed);
        }
    }
}

#[cfg(not(modelled))]
mod backing {
    use super::{Error, MemoryUsage, Zeroed};
    use crate::memory::{ALIGNMENT, Heap, Medium, Part, Region};
    use core::marker::PhantomData;

    /// A huge page: the system finds and clears it at once.
    const PIECE: usize = 2 << 20;

    #[derive(Debug)]
    pub(crate) struct ReservedArray<T, M: Medium = Heap> {
        base: *const T,
        region: M::Region,
        elements: PhantomData<T>,
    }

    // SAFETY: the reserved array owns its elements, like a boxed slice.
    unsafe impl<T: Send, M: Medium> Send for ReservedArray<T, M> {}
    // SAFETY: it hands out shared references only, like a boxed slice.
    unsafe impl<T: Sync, M: Medium> Sync for ReservedArray<T, M> {}

    impl<T: Zeroed> ReservedArray<T> {
        /// Makes `len` elements; the reserved array can grow to `most`.
        pub(crate) fn new(len: usize, most: usize) -> Result<Self, Error> {
            Self::within(&Heap, Part::Front, len, most)
        }
    }

    impl<T: Zeroed, M: Medium> ReservedArray<T, M> {
        /// Makes `len` elements in a part of a medium; the reserved array can grow to `most`.
        pub(crate) fn within(
            medium: &M,
            part: Part,
            len: usize,
            most: usize,
        ) -> Result<Self, Error> {
            const { assert!(align_of::<T>() <= ALIGNMENT && size_of::<T>() > 0) };
            let bytes = |elements: usize| {
                elements.checked_mul(size_of::<T>()).ok_or(Error::CapacityOverflow)
            };
            let region = medium.region(part, bytes(most)?)?;
            let base = region.base().as_ptr().cast_const().cast();
            let reserved_array = Self { base, region, elements: PhantomData };
            reserved_array.grow(len)?;
            Ok(reserved_array)
        }

        pub(crate) fn len(&self) -> usize {
            self.region.committed() / size_of::<T>()
        }

        /// Makes room for `len` elements; does nothing if there is room.
        pub(crate) fn grow(&self, len: usize) -> Result<(), Error> {
            let bytes = len.checked_mul(size_of::<T>()).ok_or(Error::CapacityOverflow)?;
            if bytes <= self.region.committed() { Ok(()) } else { self.region.resize(bytes) }
        }

        /// Gives the memory of all but the first `len` elements back.
        pub(crate) fn shrink(&self, len: usize) {
            self.region.release(len * size_of::<T>());
        }

        /// The region of the elements.
        #[cfg(all(target_os = "linux", not(miri)))]
        pub(crate) fn region(&self) -> &M::Region {
            &self.region
        }

        /// Gives back what the medium knows of pages behind the end: see [`Medium::trim`].
        pub(crate) fn trim_map(&self) -> Result<(), Error> {
            M::trim(&self.region)
        }

        /// Makes an element writable: see [`Medium::make_writable`].
        #[inline(always)]
        pub(crate) fn make_writable(&self, index: usize) -> Result<(), Error> {
            M::make_writable(&self.region, index * size_of::<T>())
        }

        /// Makes sure that an element has a page: see [`Medium::make_present`].
        #[cfg(all(target_os = "linux", not(miri)))]
        pub(crate) fn make_present(&self, index: usize) -> Result<(), Error> {
            M::make_present(&self.region, index * size_of::<T>())
        }

        /// Makes elements zero by giving up their pages. Returns false if the medium can't.
        pub(crate) fn discard(&self, elements: core::ops::Range<usize>) -> bool {
            let bytes = elements.start * size_of::<T>()..elements.end * size_of::<T>();
            M::discard(&self.region, bytes)
        }

        /// Returns how many pieces a growth from `from` elements adds, to populate. Less than one
        /// piece counts as zero.
        pub(crate) fn pieces(&self, from: usize) -> usize {
            let (from, to) = (from * size_of::<T>(), self.region.committed());
            if to.saturating_sub(from) < PIECE {
                return 0;
            }
            to.div_ceil(PIECE) - from / PIECE
        }

        /// Makes one of these pieces resident.
        pub(crate) fn populate(&self, from: usize, piece: usize) {
            let start = (from * size_of::<T>() / PIECE + piece) * PIECE;
            self.region.populate(start.max(from * size_of::<T>())..start + PIECE);
        }

        pub(crate) fn usage(&self) -> MemoryUsage {
            self.region.usage()
        }

        /// Returns the address of an element, to prefetch it.
        #[inline(always)]
        pub(crate) fn address(&self, index: usize) -> *const T {
            if M::IS_PAGED {
                M::address(&self.region, self.base.cast(), index * size_of::<T>()).cast()
            } else {
                self.base.wrapping_add(index)
            }
        }

        #[inline(always)]
        pub(crate) fn at(&self, index: usize) -> &T {
            debug_assert!((index + 1) * size_of::<T>() <= self.region.reserved());
            let address = self.address(index);
            #[cfg(any(test, feature = "accounting"))]
            crate::memory::touched::record(address.addr(), M::IS_DURABLE);
            // SAFETY: every caller computes the index under a size that the table has published,
            // for which the elements were committed before; invariants 1 to 3. In a paged medium
            // the elements' pages stay mapped, too.
            unsafe { &*address }
        }

        /// Returns neighbouring elements. In a paged medium they must be in one page.
        #[inline(always)]
        pub(crate) fn slice(&self, from: usize, count: usize) -> &[T] {
            debug_assert!((from + count) * size_of::<T>() <= self.region.reserved());
            let last = (from + count - 1) * size_of::<T>();
            debug_assert!(!M::IS_PAGED || from * size_of::<T>() / 4096 == last / 4096);
            #[cfg(any(test, feature = "accounting"))]
            for at in (0..count).step_by((64 / size_of::<T>()).max(1)).chain([count - 1]) {
                let address = self.address(from + at).addr();
                crate::memory::touched::record(address, M::IS_DURABLE);
            }
            // SAFETY: as in `at`, for every index. The elements are side by side; in a paged medium
            // the caller stays within one page.
            unsafe { core::slice::from_raw_parts(self.address(from), count) }
        }
    }

    #[cfg(all(test, unix, not(miri)))]
    impl<T> ReservedArray<T> {
        /// Makes the pages read-only: a store to an element faults.
        pub(crate) fn forbid_stores(&self) {
            self.region.forbid_stores();
        }
    }
}

#[cfg(modelled)]
mod backing {
    use super::{Error, MemoryUsage, Released, Zeroed};
    use crate::memory::{Heap, Medium, Part};
    use core::marker::PhantomData;

    #[derive(Debug)]
    pub(crate) struct ReservedArray<T, M: Medium = Heap> {
        elements: Box<[T]>,
        len: std::sync::atomic::AtomicUsize,
        medium: PhantomData<M>,
    }

    impl<T, M: Medium> ReservedArray<T, M> {
        pub(crate) fn pieces(&self, _from: usize) -> usize {
            0
        }

        pub(crate) fn populate(&self, _from: usize, _piece: usize) {}
    }

    impl<T: Zeroed + Released> ReservedArray<T> {
        pub(crate) fn new(len: usize, most: usize) -> Result<Self, Error> {
            Self::within(&Heap, Part::Front, len, most)
        }
    }

    impl<T: Zeroed + Released, M: Medium> ReservedArray<T, M> {
        pub(crate) fn within(
            _medium: &M,
            _part: Part,
            len: usize,
            most: usize,
        ) -> Result<Self, Error> {
            if most > 1 << 16 {
                return Err(Error::CapacityOverflow);
            }
            let elements = (0..most).map(|_| T::zeroed()).collect();
            Ok(Self { elements, len: len.into(), medium: PhantomData })
        }

        pub(crate) fn len(&self) -> usize {
            self.len.load(std::sync::atomic::Ordering::SeqCst)
        }

        pub(crate) fn grow(&self, len: usize) -> Result<(), Error> {
            if len > self.elements.len() {
                return Err(Error::CapacityOverflow);
            }
            self.len.fetch_max(len, std::sync::atomic::Ordering::SeqCst);
            Ok(())
        }

        pub(crate) fn make_writable(&self, _index: usize) -> Result<(), Error> {
            Ok(())
        }

        pub(crate) fn trim_map(&self) -> Result<(), Error> {
            Ok(())
        }

        pub(crate) fn discard(&self, _elements: core::ops::Range<usize>) -> bool {
            false
        }

        pub(crate) fn shrink(&self, len: usize) {
            let before = self.len.fetch_min(len, std::sync::atomic::Ordering::SeqCst);
            // The worst that releasing pages can do.
            self.elements[len..before.max(len)].iter().for_each(Released::release);
        }

        pub(crate) fn usage(&self) -> MemoryUsage {
            let bytes = self.len() * size_of::<T>();
            MemoryUsage { mapped: bytes, resident: bytes }
        }

        pub(crate) fn address(&self, index: usize) -> *const T {
            &raw const self.elements[index]
        }

        pub(crate) fn at(&self, index: usize) -> &T {
            &self.elements[index]
        }

        pub(crate) fn slice(&self, from: usize, count: usize) -> &[T] {
            &self.elements[from..from + count]
        }
    }
}

pub(crate) use backing::ReservedArray;

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::sync::Ordering::Relaxed;

    #[test]
    fn elements_stay_where_they_are() {
        let reserved_array: ReservedArray<AtomicU64> = ReservedArray::new(10, 1 << 20).unwrap();
        reserved_array.at(9).store(7, Relaxed);
        let address = reserved_array.address(9);
        reserved_array.grow(1 << 20).unwrap();
        assert_eq!((reserved_array.address(9), reserved_array.at(9).load(Relaxed)), (address, 7));
        assert_eq!(reserved_array.at((1 << 20) - 1).load(Relaxed), 0);
        assert!(reserved_array.grow(2 << 20).is_err());
        assert_eq!(reserved_array.len(), 1 << 20);
    }

    #[test]
    fn what_a_growth_brings_is_made_resident_by_the_piece() {
        let reserved_array: ReservedArray<AtomicU64> =
            ReservedArray::new(1 << 17, 4 << 20).unwrap();
        assert_eq!(reserved_array.pieces(1 << 17), 0, "nothing was brought");
        reserved_array.grow(1 << 20).unwrap();
        // Seven of the eight MiB are new; pieces begin at multiples of two MiB.
        assert_eq!(reserved_array.pieces(1 << 17), 4);
        let resident = |reserved_array: &ReservedArray<AtomicU64>| reserved_array.usage().resident;
        let before = resident(&reserved_array);
        (0..4).for_each(|piece| reserved_array.populate(1 << 17, piece));
        if cfg!(all(target_os = "linux", not(miri))) {
            assert!(
                resident(&reserved_array) >= before.max(7 << 20),
                "{}",
                resident(&reserved_array)
            );
        }
        assert_eq!(reserved_array.at((1 << 20) - 1).load(Relaxed), 0);
    }

    #[test]
    fn pieces_begin_where_the_growth_does() {
        const MIB: usize = 1 << 17;
        let array: ReservedArray<AtomicU64> = ReservedArray::new(3 * MIB, 16 * MIB).unwrap();
        array.grow(8 * MIB).unwrap();
        assert_eq!(array.pieces(3 * MIB), 3);
        (0..3).for_each(|piece| array.populate(3 * MIB, piece));
        if cfg!(all(target_os = "linux", not(miri))) {
            let resident = array.usage().resident;
            assert!((5 << 20..=6 << 20).contains(&resident), "{resident}");
        }
    }

    #[test]
    fn elements_that_are_given_up_stay_accessible() {
        let reserved_array: ReservedArray<AtomicU64> =
            ReservedArray::new(1 << 20, 1 << 20).unwrap();
        (0..1 << 20).for_each(|at| reserved_array.at(at).store(1, Relaxed));
        reserved_array.shrink(10);
        assert_eq!((reserved_array.len(), reserved_array.at(9).load(Relaxed)), (10, 1));
        assert!(reserved_array.usage().mapped <= 1 << 14);
        assert!(reserved_array.at(1 << 19).load(Relaxed) <= 1);
        reserved_array.at(1 << 19).store(5, Relaxed);
        reserved_array.grow(1 << 20).unwrap();
        assert_eq!(reserved_array.at(1 << 19).load(Relaxed), 5);
    }
}
