//! A table's access to a pool: the medium of its stores, and its parts, which grow.

use super::extents::Extent;
use super::header::Field;
use super::pool::Pool;
use super::{ALIGNMENT, PAGE};
use crate::error::Error;
use crate::memory::medium::replace_second;
use crate::memory::{Medium, MemoryUsage, Part, Region};
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicPair, Ordering};
use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::AtomicUsize;
use rustix::mm::{MapFlags, ProtFlags};
use std::sync::Arc;

/// A medium in a pool.
pub trait InPool: Medium {
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "the trait is sealed: its module is private")]
    fn pool(&self) -> &Pool;
}

#[allow(private_interfaces, reason = "the trait is sealed: its module is private")]
impl InPool for Durable {
    fn pool(&self) -> &Pool {
        &self.0
    }
}

/// The medium of a table in a pool.
#[derive(Debug)]
pub struct Durable(Arc<Pool>);

impl Durable {
    pub(crate) fn new(pool: Pool) -> Self {
        Self(Arc::new(pool))
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.0
    }

    pub(super) fn shared(&self) -> &Arc<Pool> {
        &self.0
    }
}

impl Clone for Durable {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl Medium for Durable {
    const IS_DURABLE: bool = true;

    type Direct = PoolRegion;

    fn direct(&self, part: Part, bytes: usize) -> Result<PoolRegion, Error> {
        self.region(part, bytes)
    }

    unsafe fn write(&self, address: *mut u8, parts: &[&[u8]]) {
        self.0.backing.write(address, parts, || {
            // SAFETY: as the caller promises.
            unsafe { crate::memory::Heap.write(address, parts) }
        });
    }

    type Region = PoolRegion;

    fn region(&self, part: Part, bytes: usize) -> Result<PoolRegion, Error> {
        PoolRegion::reserve(&self.0, part, bytes)
    }

    #[inline(always)]
    fn is_ordered(&self) -> bool {
        self.0.backing.is_ordered()
    }

    #[inline(always)]
    fn store_first(&self, slot: &AtomicPair, word: u64, order: Ordering) {
        let address = core::ptr::from_ref(slot).cast();
        self.0.backing.store(address, word, || slot.store_first(word, order));
    }

    #[inline(always)]
    fn store_second(&self, slot: &AtomicPair, word: u64, order: Ordering) {
        let address = core::ptr::from_ref(slot).cast::<u8>().wrapping_add(8);
        self.0.backing.store(address, word, || slot.store_second(word, order));
    }

    fn clear_first(&self, slot: &AtomicPair, current: u64) {
        let address = core::ptr::from_ref(slot).cast();
        self.0.backing.store_if(address, 0, || slot.compare_exchange_first(current, 0));
        self.flush(slot, 1);
    }

    fn replace_second(&self, slot: &AtomicPair, first: u64, second: u64) {
        let address = core::ptr::from_ref(slot).cast::<u8>().wrapping_add(8);
        self.0.backing.store_if(address, second, || replace_second(slot, first, second));
        self.flush(slot, 1);
    }

    #[inline(always)]
    fn flush<T>(&self, first: *const T, count: usize) {
        self.0.backing.flush(first.cast(), count * size_of::<T>());
        if let Some(journal) = self.0.journal.get() {
            journal.note(first.addr(), count * size_of::<T>());
        }
    }

    #[inline(always)]
    fn fence(&self) {
        self.0.backing.fence();
    }

    fn barrier(&self) -> Result<(), Error> {
        self.0.barrier()
    }

    fn persist(&self) -> Result<(), Error> {
        self.0.persist()
    }

    fn has_failed(&self) -> bool {
        self.0.is_poisoned()
    }

    fn set_root(&self, word: u64) {
        self.0.store_field(Field::Root, word);
        if !seeded(Bug::RootUnflushed) {
            self.0.flush_field(Field::Root);
        }
        if !seeded(Bug::RootUnfenced) {
            self.0.backing.fence();
        }
    }
}

/// A part of a pool.
#[derive(Debug)]
pub struct PoolRegion {
    pool: Arc<Pool>,
    part: Part,
    mapping: *mut c_void,
    mapped: usize,
    base: NonNull<u8>,
    reserved: usize,
    committed: AtomicUsize,
}

// SAFETY: the region owns its mapping and has no state of a thread.
unsafe impl Send for PoolRegion {}
// SAFETY: its methods only read the fields, or change atomic ones; the pool orders changes of the
// mapping.
unsafe impl Sync for PoolRegion {}

impl PoolRegion {
    pub(super) fn reserve(pool: &Arc<Pool>, part: Part, bytes: usize) -> Result<Self, Error> {
        if bytes > isize::MAX as usize - 2 * ALIGNMENT {
            return Err(Error::CapacityOverflow);
        }
        // A process that may have few addresses opens a large file all the same.
        let present = pool.bytes_of(part);
        let reserved = bytes.max(present + present / 8).max(1).next_multiple_of(PAGE);
        let mapped = reserved + ALIGNMENT;
        // SAFETY: a new mapping without memory, at an address of the kernel's choice.
        let mapping = unsafe {
            rustix::mm::mmap_anonymous(
                core::ptr::null_mut(),
                mapped,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let mapping = mapping.map_err(|_| Error::OutOfMemory { bytes })?;
        let skip = mapping.addr().next_multiple_of(ALIGNMENT) - mapping.addr();
        // SAFETY: the mapping is longer by the alignment.
        let base = NonNull::new(unsafe { mapping.cast::<u8>().add(skip) });
        let base = base.ok_or(Error::OutOfMemory { bytes })?;
        let region = Self {
            pool: Arc::clone(pool),
            part,
            mapping,
            mapped,
            base,
            reserved,
            committed: AtomicUsize::new(0),
        };
        let extents: Vec<Extent> = pool.extents.lock().of(part).collect();
        for extent in extents {
            let committed = region.committed();
            if extent.bytes() > reserved - committed {
                return Err(Error::CapacityOverflow);
            }
            // SAFETY: within the reservation, as was just checked.
            let address = unsafe { base.as_ptr().add(committed) };
            pool.map(address, &extent)?;
            region.committed.store(committed + extent.bytes(), Ordering::Release);
        }
        // Exposed: the journal finds granules by their addresses.
        let first = base.as_ptr().expose_provenance();
        pool.regions.lock().push((part, first..first + reserved));
        Ok(region)
    }
}

impl Drop for PoolRegion {
    fn drop(&mut self) {
        let base = self.base.addr().get();
        self.pool.regions.lock().retain(|(_, addresses)| addresses.start != base);
        // SAFETY: the mapping is the region's own.
        let _ = unsafe { rustix::mm::munmap(self.mapping, self.mapped) };
    }
}

/// Grows a part by an eighth at least, since a file has room for few extents.
pub(super) fn grown(region: &PoolRegion, bytes: usize) -> Result<(), Error> {
    let before = region.committed();
    if bytes <= before {
        return region.resize(bytes);
    }
    let eighth = (before + before / 8).min(region.reserved());
    let resized = region.resize(eighth.max(bytes));
    if eighth > bytes { resized.or_else(|_| region.resize(bytes)) } else { resized }
}

impl Region for PoolRegion {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn committed(&self) -> usize {
        // Acquire: pairs with the release in `resize`.
        self.committed.load(Ordering::Acquire)
    }

    fn reserved(&self) -> usize {
        self.reserved
    }

    /// Grows by whole pages; a shrink is a [`release`](Region::release).
    fn resize(&self, bytes: usize) -> Result<(), Error> {
        let committed = self.committed();
        if bytes > self.reserved {
            return Err(Error::CapacityOverflow);
        }
        if bytes <= committed {
            self.release(bytes);
            return Ok(());
        }
        let more = bytes.next_multiple_of(PAGE) - committed;
        // SAFETY: within the reservation, which is whole pages.
        let address = unsafe { self.base.as_ptr().add(committed) };
        self.pool.extend(self.part, address, more)?;
        self.committed.store(committed + more, Ordering::Release);
        Ok(())
    }

    fn release(&self, bytes: usize) {
        // If the system refuses, the pages stay in the file, and the pool knows that it still has
        // them.
        let bytes = bytes.min(self.committed());
        let left = self.pool.give_back(self.part, self.base.as_ptr(), bytes);
        let left = left.unwrap_or_else(|_| self.pool.bytes_of(self.part));
        self.committed.store(left, Ordering::Release);
    }

    fn populate(&self, range: core::ops::Range<usize>) {
        let (start, end) = (range.start / PAGE * PAGE, range.end.min(self.committed()));
        if start < end {
            // SAFETY: the range is mapped; the advice changes no content.
            let _ = unsafe {
                let address = self.base.as_ptr().add(start).cast();
                rustix::mm::madvise(address, end - start, rustix::mm::Advice::LinuxPopulateWrite)
            };
        }
    }

    fn usage(&self) -> MemoryUsage {
        let committed = self.committed();
        let resident = crate::memory::heap::resident(self.base.as_ptr(), committed);
        MemoryUsage { mapped: committed, resident }
    }
}
