//! Memory of entries that were freed, which their thread keeps for the entries that it makes next.
//!
//! Entries are freed many at a time, when no guard can see them any more. An allocator keeps few such blocks for a
//! thread (glibc's keeps seven of a size). For the others it reads the block's surroundings, which no cache has by then, and
//! takes a lock, for which other threads wait. Here a block that is freed costs a store, and one that is used again a load.
//!
//! Invariants
//! 1. A block of a class was allocated with the [layout](layout_of_class) of that class, and nothing refers to it.
//! 2. Only its thread uses a kept block. A thread that ends gives its blocks back to the allocator.

use crate::memory::prefetch::prefetch_to_write;
use core::alloc::Layout;
use core::cell::RefCell;
use core::ptr::NonNull;
use std::alloc::{alloc, dealloc, handle_alloc_error};

/// Sizes of classes differ by so many bytes. By no more: glibc's blocks have 24, 40, 56 bytes, those of others 32 and 48, and an
/// entry of 24 bytes would take 48 if it asked for 32.
const STEP: usize = 8;
const CLASSES: usize = 16;
/// Of one class. A thread that frees entries of all classes keeps 272 KiB; limbo frees 128 entries at once.
const MOST_BLOCKS: usize = 256;
/// Checkers of memory have to see each block come and go.
const KEEPS: bool = cfg!(not(any(miri, modelled, nunatak_asan)));

/// Returns the layout of the block that a value has, and the block's class, if blocks of its size are kept.
const fn block_of<T>() -> (Layout, Option<usize>) {
    let layout = Layout::new::<T>();
    // A value without bytes has a block, too: an address of its own.
    let bytes = if layout.size() == 0 { 1 } else { layout.size() };
    if KEEPS && bytes <= CLASSES * STEP {
        let class = (bytes - 1) / STEP;
        let block = layout_of_class(class);
        if layout.align() <= block.align() {
            return (block, Some(class));
        }
    }
    match Layout::from_size_align(bytes, layout.align()) {
        Ok(layout) => (layout, None),
        Err(_) => unreachable!(),
    }
}

/// Blocks of a multiple of 16 bytes may be of a type with that alignment, which allocators give them anyway.
const fn layout_of_class(class: usize) -> Layout {
    let bytes = (class + 1) * STEP;
    match Layout::from_size_align(bytes, if bytes.is_multiple_of(16) { 16 } else { STEP }) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    }
}

/// The blocks of a thread, by class.
struct Kept([Vec<NonNull<u8>>; CLASSES]);

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept([const { Vec::new() }; CLASSES])) };
}

impl Kept {
    #[inline(always)]
    fn take(&mut self, class: usize) -> Option<NonNull<u8>> {
        let blocks = &mut self.0[class];
        let block = blocks.pop()?;
        // By the time that the next entry is made, the line has arrived. Otherwise the exchange that publishes the
        // entry waits for it.
        if let Some(next) = blocks.last() {
            prefetch_to_write(next.as_ptr());
        }
        Some(block)
    }

    /// Keeps a block if there is room.
    #[inline(always)]
    fn keep(&mut self, class: usize, block: NonNull<u8>) -> bool {
        let blocks = &mut self.0[class];
        if blocks.len() == blocks.capacity()
            && (blocks.len() >= MOST_BLOCKS || blocks.try_reserve_exact(MOST_BLOCKS).is_err())
        {
            return false;
        }
        blocks.push(block);
        true
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for (class, blocks) in self.0.iter_mut().enumerate() {
            for block in blocks.drain(..) {
                // SAFETY: invariant 1.
                unsafe { dealloc(block.as_ptr(), layout_of_class(class)) };
            }
        }
    }
}

/// Runs a function on the thread's blocks. `None` while the thread ends, or in an allocator that uses a map itself.
#[inline(always)]
fn with_kept<R>(act: impl FnOnce(&mut Kept) -> R) -> Option<R> {
    KEPT.try_with(|kept| kept.try_borrow_mut().ok().map(|mut kept| act(&mut kept))).ok().flatten()
}

/// Returns memory for a value. Aborts if memory is refused, as a box does.
#[inline]
pub(crate) fn allocate<T>() -> NonNull<T> {
    let (layout, class) = const { block_of::<T>() };
    if let Some(block) = class.and_then(|class| with_kept(|kept| kept.take(class)).flatten()) {
        return block.cast();
    }
    // SAFETY: the size is not zero.
    let block = unsafe { alloc(layout) };
    NonNull::new(block.cast()).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Frees the memory of a value, and does not drop the value.
///
/// # Safety
/// The address came from [`allocate`] for the same type, is freed once, and not used afterwards.
#[inline]
pub(crate) unsafe fn free<T>(value: NonNull<T>) {
    let (layout, class) = const { block_of::<T>() };
    let is_kept = class
        .is_some_and(|class| with_kept(|kept| kept.keep(class, value.cast())).unwrap_or_default());
    if !is_kept {
        // SAFETY: the caller's promise; the layout is the one of `allocate`.
        unsafe { dealloc(value.as_ptr().cast(), layout) };
    }
}

#[cfg(all(test, not(any(modelled, miri))))]
mod tests {
    use super::*;

    fn kept(class: usize) -> usize {
        KEPT.with(|kept| kept.borrow().0[class].len())
    }

    #[test]
    fn a_block_that_was_freed_is_used_again() {
        std::thread::spawn(|| {
            let first = allocate::<[u64; 3]>();
            // SAFETY: the block is ours.
            unsafe { free(first) };
            assert_eq!((kept(2), allocate::<[u8; 17]>().cast()), (1, first));
            assert_eq!(kept(2), 0);
            // SAFETY: the block is ours, and of one class for both types.
            unsafe { free(first) };
        })
        .join()
        .unwrap();
    }

    #[test]
    fn blocks_are_as_large_as_their_values() {
        fn bytes<T>() -> usize {
            block_of::<T>().0.size()
        }
        assert_eq!((bytes::<[u64; 3]>(), bytes::<[u64; 4]>(), bytes::<[u64; 7]>()), (24, 32, 56));
        assert_eq!((bytes::<u8>(), bytes::<[u8; 17]>(), bytes::<[u8; 129]>()), (8, 24, 129));
    }

    /// Sizes and alignments that have no class, and values without bytes.
    #[test]
    fn blocks_have_the_size_and_alignment_of_their_values() {
        #[repr(align(64))]
        struct Aligned(#[expect(dead_code, reason = "it has bytes")] u8);
        fn check<T>() {
            let blocks: Vec<NonNull<T>> = (0..2 * MOST_BLOCKS).map(|_| allocate()).collect();
            let mut addresses: Vec<usize> = blocks.iter().map(|block| block.addr().get()).collect();
            addresses.sort_unstable();
            for pair in addresses.windows(2) {
                assert!(
                    pair[1] - pair[0] >= size_of::<T>().max(1) && pair[0] % align_of::<T>() == 0
                );
            }
            for block in blocks {
                // SAFETY: all bytes of the block are ours, and it is freed once.
                unsafe {
                    block.write_bytes(0xA5, 1);
                    free(block);
                }
            }
        }
        for _ in 0..3 {
            check::<()>();
            check::<u8>();
            check::<[u8; 16]>();
            check::<[u8; 17]>();
            check::<[u128; 8]>();
            check::<[u8; 129]>();
            check::<Aligned>();
        }
        assert!((0..CLASSES).all(|class| kept(class) <= MOST_BLOCKS));
    }

    /// An entry that is freed while the thread ends, after its blocks were given back.
    #[test]
    fn entries_may_be_freed_while_the_thread_ends() {
        struct Late(NonNull<u64>);
        impl Drop for Late {
            fn drop(&mut self) {
                // SAFETY: the blocks are this value's.
                unsafe {
                    free(self.0);
                    free(allocate::<u64>());
                }
            }
        }
        thread_local!(static LATE: RefCell<Option<Late>> = const { RefCell::new(None) });
        std::thread::spawn(|| {
            // The first thread-local value that is used is dropped last.
            LATE.with(|late| *late.borrow_mut() = Some(Late(allocate())));
            // SAFETY: the block is ours.
            unsafe { free(allocate::<u64>()) };
        })
        .join()
        .unwrap();
    }
}
