//! Addresses that the compiler computes once.

/// Returns a reference of which the compiler forgets how its address came about. Else it may compute the address
/// anew for each access.
#[cfg_attr(
    x86_64_assembly,
    expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is read behind the pointer")
)]
#[inline(always)]
pub(crate) fn kept<T>(place: &T) -> &T {
    #[cfg(x86_64_assembly)]
    // SAFETY: a comment, no instruction: the same reference.
    unsafe {
        let same: *const T;
        core::arch::asm!(
            "/* {0} */",
            inlateout(reg) core::ptr::from_ref(place) => same,
            options(pure, nomem, nostack, preserves_flags),
        );
        &*same
    }
    #[cfg(not(x86_64_assembly))]
    place
}
