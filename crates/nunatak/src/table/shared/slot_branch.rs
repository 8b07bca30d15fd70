//! Stores whose address does not wait for a line.
//!
//! A change finds its slot in a header that may come from memory. If the address of the store is
//! computed from the slot, the processor learns it late. Some processors, and all where the system has
//! forbidden speculative bypass of stores (as many hosts of virtual machines have), run no later
//! load before they know the address of each earlier store. Then the next operation waits for this
//! operation's line. A branch for each slot lets the processor guess the slot, and go on with a known
//! address; the price of a wrong guess is small against that of the line (figures in
//! `docs/measurements.md`).

/// Acts on a slot, by a branch of its own for each number below `slots`, a constant of at most 32.
#[cfg(x86_64_assembly)]
#[inline(always)]
pub(in crate::table) fn branch_on_slot<R>(
    slots: usize,
    slot: usize,
    act: impl FnOnce(usize) -> R,
) -> R {
    /// Keeps the compiler from joining what the branches do at their ends: each has another text.
    macro_rules! branches {
        ($($number:literal)*) => {
            match slot {
                $($number if $number < slots => {
                    let result = act($number);
                    // SAFETY: no instruction.
                    unsafe {
                        core::arch::asm!(concat!("/* slot ", $number, " */"), options(nostack, preserves_flags));
                    }
                    result
                })*
                _ => act(slot),
            }
        };
    }
    branches!(
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
        16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    )
}

/// Acts on a slot.
#[cfg(not(x86_64_assembly))]
#[inline(always)]
pub(in crate::table) fn branch_on_slot<R>(
    _slots: usize,
    slot: usize,
    act: impl FnOnce(usize) -> R,
) -> R {
    act(slot)
}
