//! Hints to the processor.

/// Fetches the line of an address, which need not be valid.
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

/// Fetches the line of an address, which need not be valid, into the second-level cache only.
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

/// Fetches the line of an address, which need not be valid, to write to it.
#[inline(always)]
pub(crate) fn prefetch_to_write<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // As an intrinsic it would be an ordinary prefetch, since a default build does
        // not assume that there is any other.
        // SAFETY: a hint; it does not access the address and never faults, and no
        // 64-bit processor faults where it does not know it.
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
