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
