//! Maps of byte strings whose entries are in memory of the caller's allocator.

use crate::arguments::{reference, store, store_new};
use crate::blobs::nunatak_blob_map;
use crate::file::table;
use crate::status::{Failure, guarded, nunatak_status};
use core::ffi::c_void;
use core::ptr::NonNull;
use nunatak::alloc::{AllocError, Allocator, Layout};
use nunatak_dynamic::{Table, records_in};

/// Returns `size` bytes of memory, aligned to `alignment`, which is a power of two; or null if there are none.
pub type nunatak_allocate = Option<
    unsafe extern "C" fn(context: *mut c_void, size: usize, alignment: usize) -> *mut c_void,
>;

/// Takes memory back, with the size and the alignment that it was asked for.
pub type nunatak_deallocate = Option<
    unsafe extern "C" fn(context: *mut c_void, memory: *mut c_void, size: usize, alignment: usize),
>;

/// An allocator of the caller's, for entries of byte strings. Any threads may call both functions at the same
/// time, also those that only look keys up and so find that a removed entry can go. What `allocate` has
/// returned stays valid until `deallocate` takes it, and is within the first 2^48 bytes of addresses. Neither
/// function may use the map, or unwind. Both may be called until the map is freed.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct nunatak_allocator {
    /// What both functions get.
    pub context: *mut c_void,
    /// Must not be null.
    pub allocate: nunatak_allocate,
    /// Must not be null.
    pub deallocate: nunatak_deallocate,
}

/// The functions of a `nunatak_allocator`.
pub(crate) struct Callbacks {
    context: *mut c_void,
    allocate: unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void,
    deallocate: unsafe extern "C" fn(*mut c_void, *mut c_void, usize, usize),
}

// SAFETY: the promise of `Callbacks::new`: any threads may call the functions at the same time.
unsafe impl Send for Callbacks {}
// SAFETY: as above.
unsafe impl Sync for Callbacks {}

impl Callbacks {
    /// # Safety
    /// The functions keep what `nunatak_allocator` says.
    pub(crate) unsafe fn new(given: &nunatak_allocator) -> Result<Self, Failure> {
        let (Some(allocate), Some(deallocate)) = (given.allocate, given.deallocate) else {
            return Err(Failure::invalid("a function of the allocator is null"));
        };
        Ok(Self { context: given.context, allocate, deallocate })
    }
}

// SAFETY: the promise of `Callbacks::new`: memory is the caller's of `allocate` alone, and valid until it is
// given back. That it is aligned the map checks itself.
unsafe impl Allocator for Callbacks {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the promise of `Callbacks::new`.
        let memory = unsafe { (self.allocate)(self.context, layout.size(), layout.align()) };
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(memory, layout.size()))
    }

    unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
        let memory = memory.as_ptr().cast();
        // SAFETY: the memory is one of `allocate` with this layout.
        unsafe { (self.deallocate)(self.context, memory, layout.size(), layout.align()) };
    }
}

/// Makes an empty map in RAM with room for `capacity` entries, each of which is in memory of `allocator`: the
/// value, and the key if it has more than 8 bytes. The table grows in memory of its own. `table_number` is a
/// `nunatak_table`; the default is DLHT. The allocator's functions and context are copied.
///
/// Memory of removed and replaced entries goes back when no guard can see them any more: in portions, or by
/// `nunatak_blob_map_reclaim`. If `allocate` returns null, the insert fails with `NUNATAK_MEMORY`; if memory is
/// not aligned or not within the first 2^48 bytes, it is given back, and the insert fails with
/// `NUNATAK_INVALID`.
///
/// # Safety
/// `map` is null or valid, and `allocator` null, or to callbacks that keep what `nunatak_allocator` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_new_in(
    allocator: *const nunatak_allocator,
    table_number: i32,
    capacity: usize,
    map: *mut *mut nunatak_blob_map,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store_new(map, || {
            let allocator = Callbacks::new(reference(allocator, "the allocator")?)?;
            let table = table(table_number)?.unwrap_or(Table::Dlht);
            Ok(nunatak_blob_map::in_ram(records_in(table, capacity, allocator)?))
        })
    })
}

/// Gives back the memory of removed and replaced entries that no guard can see any more. `waiting` gets how
/// many bytes wait for guards, and may be null. A map does so by itself from time to time.
///
/// # Safety
/// `map` is null or live, and `waiting` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nunatak_blob_map_reclaim(
    map: *const nunatak_blob_map,
    waiting: *mut usize,
) -> nunatak_status {
    // SAFETY: the caller's promise.
    guarded(|| unsafe {
        store(waiting, reference(map, "the map")?.blobs().reclaim());
        Ok(())
    })
}
