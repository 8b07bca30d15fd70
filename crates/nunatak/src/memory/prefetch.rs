//! Hints to the processor.

/// Prefetches the line of an address, which need not be valid.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint; it does not access the address and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a hint; it does not access the address and never faults.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// Prefetches the line of an address, which need not be valid, into the second-level cache only.
#[inline(always)]
pub(crate) fn prefetch_to_second_level<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint; it does not access the address and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
    }
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    prefetch(address);
}

/// Prefetches the line of an address, which need not be valid, for a store.
#[inline(always)]
pub(crate) fn prefetch_to_write<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // The intrinsic would become an ordinary prefetch, since a default build does not assume
        // that the processor has another.
        // SAFETY: a hint; it does not access the address and never faults. 64-bit processors that
        // do not know the instruction do not fault either.
        unsafe {
            core::arch::asm!("prefetchw [{0}]", in(reg) address, options(nostack, readonly, preserves_flags));
        }
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a hint; it does not access the address and never faults.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{0}]", in(reg) address, options(nostack, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// Prefetches all lines of a bucket, whose address need not be valid, since the header tells too late which slot is
/// needed.
#[inline(always)]
pub(crate) fn prefetch_bucket<T>(bucket: *const T) {
    (0..size_of::<T>()).step_by(64).for_each(|at| prefetch(bucket.cast::<u8>().wrapping_add(at)));
}

/// Prefetches the lines of a bucket behind its header, which the caller loads at once.
#[inline(always)]
pub(crate) fn prefetch_behind_header<T>(bucket: *const T) {
    (64..size_of::<T>()).step_by(64).for_each(|at| prefetch(bucket.cast::<u8>().wrapping_add(at)));
}

/// Prefetches all lines of a bucket, as [`prefetch_bucket`] does, for stores.
#[inline(always)]
pub(crate) fn prefetch_bucket_to_write<T>(bucket: *const T) {
    const { assert!(cfg!(modelled) || size_of::<T>() == 256) };
    // One by one: four such instructions in one block make updates of Pea Hash a fifth slower on a Zen 3.
    prefetch_line_to_write::<0, T>(bucket);
    prefetch_line_to_write::<64, T>(bucket);
    prefetch_line_to_write::<128, T>(bucket);
    prefetch_line_to_write::<192, T>(bucket);
}

/// Prefetches the line at an offset from an address for a store. The offset is a part of the instruction.
#[inline(always)]
fn prefetch_line_to_write<const OFFSET: usize, T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as in `prefetch_to_write`.
    unsafe {
        core::arch::asm!(
            "prefetchw [{0} + {1}]",
            in(reg) address,
            const OFFSET,
            options(nostack, readonly, preserves_flags)
        );
    }
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    prefetch_to_write(address.cast::<u8>().wrapping_add(OFFSET));
}
