//! Anonymous memory: reserved without commitment, with advice to use huge pages.

use super::{ALIGNMENT, Memory, MemoryUsage, Region};
use crate::error::Error;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Memory that ends with the process.
///
/// ```
/// use nunatak::memory::{Heap, Memory, Region};
/// assert_eq!(Heap.reserve(1 << 20)?.reserved(), 1 << 20);
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Heap;

impl Memory for Heap {
    type Region = HeapRegion;

    fn reserve(&self, bytes: usize) -> Result<HeapRegion, Error> {
        // The alignment to a huge page must not overflow either.
        if bytes > isize::MAX as usize - (4 << 20) {
            return Err(Error::CapacityOverflow);
        }
        let block = system::Block::reserve(bytes.max(1))?;
        Ok(HeapRegion { block, reserved: bytes, committed: AtomicUsize::new(0) })
    }
}

/// A region of the [`Heap`].
///
/// ```
/// use nunatak::memory::{Heap, Memory, Region};
/// let region = Heap.reserve(100)?;
/// assert!(region.resize(101).is_err());
/// # Ok::<(), nunatak::Error>(())
/// ```
#[derive(Debug)]
pub struct HeapRegion {
    block: system::Block,
    reserved: usize,
    committed: AtomicUsize,
}

#[cfg(all(test, unix, not(miri)))]
impl HeapRegion {
    pub(super) fn forbid_stores(&self) {
        self.block.forbid_stores(self.committed());
    }
}

impl Region for HeapRegion {
    fn base(&self) -> NonNull<u8> {
        self.block.base()
    }

    fn committed(&self) -> usize {
        // Acquire: pairs with the release in `resize`. So a thread that sees the size may touch the
        // bytes.
        self.committed.load(Ordering::Acquire)
    }

    fn reserved(&self) -> usize {
        self.reserved
    }

    fn resize(&self, bytes: usize) -> Result<(), Error> {
        if bytes > self.reserved {
            return Err(Error::CapacityOverflow);
        }
        self.block.commit(self.committed(), bytes)?;
        self.committed.store(bytes, Ordering::Release);
        Ok(())
    }

    fn release(&self, bytes: usize) {
        if bytes < self.committed() {
            self.block.release(bytes, self.committed());
            self.committed.store(bytes, Ordering::Release);
        }
    }

    fn populate(&self, range: core::ops::Range<usize>) {
        let end = range.end.min(self.committed());
        if range.start < end {
            self.block.populate(range.start, end);
        }
    }

    fn usage(&self) -> MemoryUsage {
        self.block.usage(self.committed())
    }
}

/// Returns how many bytes of a mapping occupy memory.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn resident(base: *const u8, mapped: usize) -> usize {
    // The system fills one byte a page. Ask about a few thousand pages at a time.
    const PAGES: usize = 4096;
    let page = system::page_size();
    let mut resident = 0;
    let mut offset = 0;
    while offset < mapped {
        let bytes = (mapped - offset).min(PAGES * page);
        resident += system::incore(base.wrapping_add(offset).cast_mut(), bytes) * page;
        offset += bytes;
    }
    resident.min(mapped)
}

#[cfg(all(unix, not(miri)))]
mod system {
    use super::{ALIGNMENT, Error, MemoryUsage, NonNull};
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

    const HUGE_PAGE: usize = 2 << 20;

    /// A private anonymous mapping. Small mappings are aligned to a page; those that can hold a
    /// huge page are aligned to a huge page.
    #[derive(Debug)]
    pub(super) struct Block {
        mapping: *mut core::ffi::c_void,
        mapped: usize,
        base: NonNull<u8>,
        #[cfg(target_os = "linux")]
        huge: bool,
    }

    // SAFETY: the block owns its mapping and has no state of a thread.
    unsafe impl Send for Block {}
    // SAFETY: all methods but `drop` only read the fields.
    unsafe impl Sync for Block {}

    impl Block {
        pub(super) fn reserve(bytes: usize) -> Result<Self, Error> {
            let huge = bytes >= HUGE_PAGE;
            let align = if huge { HUGE_PAGE } else { page_size().max(ALIGNMENT) };
            let mapped = bytes.next_multiple_of(page_size()) + if huge { align } else { 0 };
            // SAFETY: a new anonymous mapping at an address of the kernel's
            // choice touches no memory that is in use.
            let mapping = unsafe {
                rustix::mm::mmap_anonymous(
                    core::ptr::null_mut(),
                    mapped,
                    ProtFlags::empty(),
                    MapFlags::PRIVATE | MapFlags::NORESERVE,
                )
            }
            .map_err(|_| Error::OutOfMemory { bytes })?;
            let skip = mapping.addr().next_multiple_of(align) - mapping.addr();
            // SAFETY: `skip` is below `align`, by which the mapping is longer.
            let base = unsafe { mapping.cast::<u8>().add(skip) };
            let base = NonNull::new(base).ok_or(Error::OutOfMemory { bytes })?;
            Ok(Self {
                mapping,
                mapped,
                base,
                #[cfg(target_os = "linux")]
                huge,
            })
        }

        pub(super) fn base(&self) -> NonNull<u8> {
            self.base
        }

        pub(super) fn commit(&self, from: usize, to: usize) -> Result<(), Error> {
            let (from, to) = (from.next_multiple_of(page_size()), to.next_multiple_of(page_size()));
            if to > from {
                let bytes = to - from;
                // SAFETY: the range lies in the mapping and is not accessible yet, so no thread
                // uses it.
                let result = unsafe {
                    let start = self.base.as_ptr().add(from).cast();
                    let flags = MprotectFlags::READ | MprotectFlags::WRITE;
                    rustix::mm::mprotect(start, bytes, flags)
                };
                result.map_err(|_| Error::OutOfMemory { bytes })?;
                #[cfg(target_os = "linux")]
                if self.huge {
                    // SAFETY: advice changes no content. A kernel without huge
                    // pages refuses it, which costs speed and nothing else.
                    let _ = unsafe {
                        let start = self.base.as_ptr().add(from).cast();
                        rustix::mm::madvise(start, bytes, rustix::mm::Advice::LinuxHugepage)
                    };
                }
            } else if to < from {
                // SAFETY: the caller gave up the bytes beyond `to`, and they lie in the mapping. On
                // every Unix new pages replace the old ones and free them; what advice does
                // differs.
                let given_back = unsafe {
                    rustix::mm::mmap_anonymous(
                        self.base.as_ptr().add(to).cast(),
                        from - to,
                        ProtFlags::empty(),
                        MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED,
                    )
                };
                given_back.map_err(|_| Error::OutOfMemory { bytes: from - to })?;
            }
            Ok(())
        }

        pub(super) fn release(&self, from: usize, to: usize) {
            let (from, to) = (from.next_multiple_of(page_size()), to.next_multiple_of(page_size()));
            if from < to {
                // SAFETY: the range is committed, and the caller gave up its contents. If the
                // system refuses the advice, the memory is only kept.
                let _ = unsafe {
                    let start = self.base.as_ptr().add(from).cast();
                    #[cfg(target_os = "linux")]
                    let advice = rustix::mm::Advice::LinuxDontNeed;
                    #[cfg(not(target_os = "linux"))]
                    let advice = rustix::mm::Advice::DontNeed;
                    rustix::mm::madvise(start, to - from, advice)
                };
            }
        }

        #[cfg(target_os = "linux")]
        pub(super) fn populate(&self, from: usize, to: usize) {
            let from = from / page_size() * page_size();
            let to = to.next_multiple_of(page_size());
            // SAFETY: the range is committed; the advice changes no content. A kernel that does not
            // know the advice refuses it.
            let _ = unsafe {
                let start = self.base.as_ptr().add(from).cast();
                rustix::mm::madvise(start, to - from, rustix::mm::Advice::LinuxPopulateWrite)
            };
        }

        #[cfg(not(target_os = "linux"))]
        pub(super) fn populate(&self, _from: usize, _to: usize) {}

        #[cfg(all(test, not(miri)))]
        pub(super) fn forbid_stores(&self, committed: usize) {
            let bytes = committed.next_multiple_of(page_size());
            // SAFETY: a test's own region, which the test only reads from now on.
            unsafe { rustix::mm::mprotect(self.base.as_ptr().cast(), bytes, MprotectFlags::READ) }
                .expect("a committed range can be made read-only");
        }

        pub(super) fn usage(&self, committed: usize) -> MemoryUsage {
            let mapped = committed.next_multiple_of(page_size());
            MemoryUsage { mapped, resident: self.resident(mapped) }
        }

        #[cfg(target_os = "linux")]
        fn resident(&self, mapped: usize) -> usize {
            super::resident(self.base.as_ptr(), mapped)
        }

        #[cfg(not(target_os = "linux"))]
        fn resident(&self, mapped: usize) -> usize {
            mapped
        }
    }

    impl Drop for Block {
        fn drop(&mut self) {
            // SAFETY: the mapping is this block's own and no thread uses it afterwards. The call
            // fails only for arguments that were never mapped.
            let _ = unsafe { rustix::mm::munmap(self.mapping, self.mapped) };
        }
    }

    pub(super) fn page_size() -> usize {
        rustix::param::page_size()
    }

    #[cfg(target_os = "linux")]
    pub(super) fn incore(start: *mut u8, bytes: usize) -> usize {
        let pages = bytes.div_ceil(page_size());
        let mut present = vec![0_u8; pages];
        // SAFETY: `start` is page-aligned and the range is mapped; the kernel
        // writes one byte per page into a vector of that length.
        let result = unsafe { libc::mincore(start.cast(), bytes, present.as_mut_ptr()) };
        if result != 0 {
            return pages;
        }
        present.iter().filter(|&&page| page & 1 != 0).count()
    }
}

#[cfg(any(not(unix), miri))]
mod system {
    use super::{ALIGNMENT, Error, MemoryUsage, NonNull};
    use std::alloc::Layout;

    /// Systems that can't reserve addresses: the block is allocated at its full size, zeroed.
    #[derive(Debug)]
    pub(super) struct Block {
        base: NonNull<u8>,
        layout: Layout,
    }

    // SAFETY: the block owns its allocation and has no state of a thread.
    unsafe impl Send for Block {}
    // SAFETY: all methods but `commit` and `drop` only read the fields.
    unsafe impl Sync for Block {}

    impl Block {
        pub(super) fn reserve(bytes: usize) -> Result<Self, Error> {
            let layout =
                Layout::from_size_align(bytes, ALIGNMENT).map_err(|_| Error::CapacityOverflow)?;
            // SAFETY: the size is not zero; the only caller makes sure of that.
            let base = unsafe { std::alloc::alloc_zeroed(layout) };
            let base = NonNull::new(base).ok_or(Error::OutOfMemory { bytes })?;
            Ok(Self { base, layout })
        }

        pub(super) fn base(&self) -> NonNull<u8> {
            self.base
        }

        pub(super) fn commit(&self, from: usize, to: usize) -> Result<(), Error> {
            if to < from {
                // SAFETY: the caller gave up the bytes from `to`, and they lie
                // in the allocation; they must read as zero when they return.
                unsafe { self.base.as_ptr().add(to).write_bytes(0, from - to) };
            }
            Ok(())
        }

        pub(super) fn release(&self, _from: usize, _to: usize) {}

        pub(super) fn populate(&self, _from: usize, _to: usize) {}

        pub(super) fn usage(&self, _committed: usize) -> MemoryUsage {
            MemoryUsage { mapped: self.layout.size(), resident: self.layout.size() }
        }
    }

    impl Drop for Block {
        fn drop(&mut self) {
            // SAFETY: allocated in `reserve` with this layout.
            unsafe { std::alloc::dealloc(self.base.as_ptr(), self.layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(region: &HeapRegion, range: core::ops::Range<usize>) -> Vec<u8> {
        // SAFETY: the tests only ask for committed bytes.
        range.map(|at| unsafe { *region.base().as_ptr().add(at) }).collect()
    }

    #[test]
    fn grows_in_place_and_reads_zero() {
        let region = Heap.reserve(64 << 20).unwrap();
        region.resize(10_000).unwrap();
        let base = region.base();
        // SAFETY: committed just above.
        unsafe { base.as_ptr().add(9_999).write(7) };
        region.resize(32 << 20).unwrap();
        assert_eq!(region.base(), base);
        assert_eq!(bytes(&region, 9_998..10_001), [0, 7, 0]);
        assert_eq!(bytes(&region, (32 << 20) - 2..32 << 20), [0, 0]);
    }

    #[test]
    fn shrinking_returns_memory_and_growing_again_reads_zero() {
        let region = Heap.reserve(16 << 20).unwrap();
        region.resize(16 << 20).unwrap();
        // SAFETY: all of it is committed.
        unsafe { region.base().as_ptr().write_bytes(0xFF, 16 << 20) };
        assert_eq!(region.usage().resident, 16 << 20);
        region.resize(4096).unwrap();
        if cfg!(target_os = "linux") {
            assert_eq!(region.usage(), MemoryUsage { mapped: 4096, resident: 4096 });
        }
        region.resize(8 << 20).unwrap();
        assert!(bytes(&region, 8192..20_000).iter().all(|&byte| byte == 0));
    }

    #[test]
    fn memory_that_was_released_is_the_systems() {
        let region = Heap.reserve(16 << 20).unwrap();
        region.resize(16 << 20).unwrap();
        // SAFETY: all of it is committed.
        unsafe { region.base().as_ptr().write_bytes(0xFF, 16 << 20) };
        region.release(2 << 20);
        region.resize(16 << 20).unwrap();
        assert_eq!(bytes(&region, (2 << 20) - 1..2 << 20), [0xFF]);
        if cfg!(all(target_os = "linux", not(miri))) {
            assert_eq!(region.usage(), MemoryUsage { mapped: 16 << 20, resident: 2 << 20 });
            region.populate(4 << 20..6 << 20);
            assert_eq!(region.usage().resident, 4 << 20);
        }
    }

    /// The system puts new mappings beside each other.
    #[test]
    fn what_a_region_gives_back_is_its_own() {
        let filled = || {
            let region = Heap.reserve(4 << 20).unwrap();
            region.resize(4 << 20).unwrap();
            // SAFETY: all of it is committed.
            unsafe { region.base().as_ptr().write_bytes(0xFF, 4 << 20) };
            region
        };
        let regions: Vec<HeapRegion> = (0..8).map(|_| filled()).collect();
        let is_kept = |bytes: usize| {
            let all = regions.iter().all(|region| {
                (0..bytes).step_by(4096).all(|at| self::bytes(region, at..at + 1) == [0xFF])
            });
            assert!(all, "the first {bytes} bytes of each");
        };
        regions.iter().for_each(|region| region.release(3 << 20));
        is_kept(3 << 20);
        regions.iter().for_each(|region| region.resize(2 << 20).unwrap());
        is_kept(2 << 20);
        // Up to the end of a reservation, and no further.
        let region = Heap.reserve(64 << 20).unwrap();
        assert_eq!((region.resize(60 << 20), region.resize(64 << 20)), (Ok(()), Ok(())));
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn only_resident_pages_of_a_large_region_count() {
        let region = Heap.reserve(20 << 20).unwrap();
        region.resize(20 << 20).unwrap();
        // SAFETY: committed just above.
        unsafe { region.base().as_ptr().add(17 << 20).write(7) };
        let resident = region.usage().resident;
        assert!((4096..=2 << 20).contains(&resident), "{resident}");
    }

    /// The system has 128 TiB of addresses.
    #[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
    #[test]
    fn addresses_are_given_back() {
        assert!((0..150).all(|_| Heap.reserve(1 << 40).is_ok()));
    }

    #[test]
    fn a_reservation_costs_no_memory() {
        let region = Heap.reserve(1 << 36).unwrap();
        region.resize(1 << 21).unwrap();
        if cfg!(target_os = "linux") {
            assert_eq!(region.usage().mapped, 1 << 21);
            assert_eq!(region.usage().resident, 0);
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert_eq!(Heap.reserve(usize::MAX).unwrap_err(), Error::CapacityOverflow);
        assert!(Heap.reserve(isize::MAX as usize - (8 << 20)).is_err());
        assert_eq!(Heap.reserve(10).unwrap().resize(11), Err(Error::CapacityOverflow));
    }
}
