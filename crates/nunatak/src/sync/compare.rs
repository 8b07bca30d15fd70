//! Comparing a word in memory with one instruction. Compilers load an atomic word first, which takes a second
//! one; in a lookup that waits for memory each instruction counts (see `docs/measurements.md`).

/// Returns whether the first word of pair number `PAIR`, of pairs that begin `BEFORE` bytes behind `base`, is
/// this one. Later loads are at least as new.
///
/// # Safety
/// That word is an aligned atomic one, and lives.
#[inline(always)]
pub(crate) unsafe fn first_of_pair_is<const BEFORE: usize, const PAIR: usize>(
    base: *const u8,
    expected: u64,
) -> bool {
    // The processor keeps loads in order. Memory is a clobber, so the compiler does, too.
    // SAFETY: the block reads the caller's word.
    unsafe {
        core::arch::asm!(
            "cmp qword ptr [{base} + {at}], {expected}",
            "jne {other}",
            base = in(reg) base,
            at = const BEFORE + 16 * PAIR,
            expected = in(reg) expected,
            other = label { return false },
            options(nostack),
        );
    }
    true
}
