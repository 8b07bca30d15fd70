//! Stores whose address does not wait for a line.
//!
//! A change finds its slot in a header, which may come from memory. If the address of the store is computed
//! from the header, the processor knows it late, and some processors run hardly any later load before they know
//! the address of each earlier store. So the next operation waits for this one's line. A branch for each slot
//! lets the processor guess the slot, and go on with an address that it knows. A wrong guess costs less than the
//! line: what ran on meanwhile has asked for the next operation's lines (figures in `docs/measurements.md`,
//! "Stores that wait").
//!
//! In a batch the lines are there already, and a wrong guess gains nothing.

/// Acts on a slot, by a branch of its own for each number below `slots`, a constant of at most 32.
#[cfg(x86_64_assembly)]
#[inline(always)]
pub(in crate::table) fn branch_on_slot<R>(
    slots: usize,
    slot: usize,
    act: impl FnOnce(usize) -> R,
) -> R {
    macro_rules! branches {
        ($($number:literal)*) => {
            match slot {
                $($number if $number < slots => {
                    let result = act($number);
                    keep_apart::<$number>();
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

/// Ends a branch. The compiler would join branches that end alike, and compute the address again; these end in
/// different texts.
#[inline(always)]
pub(in crate::table) fn keep_apart<const BRANCH: usize>() {
    #[cfg(x86_64_assembly)]
    // SAFETY: a comment, no instruction.
    unsafe {
        core::arch::asm!("/* slot {} */", const BRANCH, options(nostack, preserves_flags));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_acted_on_by_its_number() {
        for slots in [0, 3, 15, 28, 32] {
            assert!((0..40).all(|slot| branch_on_slot(slots, slot, |number| number) == slot));
        }
    }
}
