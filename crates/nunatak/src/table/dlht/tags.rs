//! One look at the tags of a bin's first bucket, without a branch on the slot, for changes.
//!
//! Invariants
//! 1. Each tag is read by one load, so it is whole. A word that is loaded after the look is at least as
//!    new as the tags that the look saw.

use super::layout::{Bin, PRIMARY_SLOTS};
use crate::sync::Ordering;
#[cfg(x86_64_assembly)]
use core::ptr;

/// The result of a look. A slot is shown by its bit in the header: 0, 2 or 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tags {
    /// The slots that hold the tag.
    pub(super) holding: u64,
    pub(super) empty: u64,
}

pub(super) const SLOT_BITS: u64 = 0x15;

/// Which instructions the processor has for a look. Compilers make thirty instructions of a look at
/// words, and eighteen if the empty slots do not matter; the fewer there are, the more operations
/// fit into the processor's window.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ways {
    #[cfg(x86_64_assembly)]
    avx: bool,
    #[cfg(x86_64_assembly)]
    avx512: bool,
}

impl Ways {
    /// Asks the processor.
    pub(super) fn detect() -> Self {
        Self {
            #[cfg(x86_64_assembly)]
            avx: std::is_x86_feature_detected!("avx"),
            #[cfg(x86_64_assembly)]
            avx512: std::is_x86_feature_detected!("avx512f"),
        }
    }
}

impl Tags {
    /// Looks for a tag only, which is not zero: for an operation that inserts nothing.
    #[inline(always)]
    pub(super) fn holding(ways: Ways, bin: &Bin, tag: u64) -> Self {
        #[cfg(x86_64_assembly)]
        {
            // SAFETY: `ways` has the processor's own answer.
            let holding = unsafe {
                match ways.avx512 {
                    true => holding_by_one_load(bin, tag),
                    false => holding_by_comparisons(bin, tag),
                }
            };
            Self { holding, empty: 0 }
        }
        #[cfg(not(x86_64_assembly))]
        Self { empty: 0, ..Self::of(ways, bin, tag) }
    }

    /// Looks for a tag, which is not zero, and for empty slots.
    #[inline(always)]
    pub(super) fn of(ways: Ways, bin: &Bin, tag: u64) -> Self {
        #[cfg(x86_64_assembly)]
        // SAFETY: `ways` has the processor's own answer.
        unsafe {
            if ways.avx512 {
                return Self::by_one_load(bin, tag);
            }
            if ways.avx {
                return Self::by_packing(bin, tag);
            }
        }
        let _ = ways;
        // Acquire: pairs with the publication, so that a value is at least as new as its tag.
        let tags = [0, 1, 2].map(|slot: usize| bin.slots[slot].load_first(Ordering::Acquire));
        let bits = |is: [bool; PRIMARY_SLOTS]| {
            u64::from(is[0]) | u64::from(is[1]) << 2 | u64::from(is[2]) << 4
        };
        Self { holding: bits(tags.map(|other| other == tag)), empty: bits(tags.map(|t| t == 0)) }
    }

    /// Compares all tags by one load, in eight instructions.
    ///
    /// # Safety
    /// The processor has AVX-512F.
    #[cfg(x86_64_assembly)]
    #[inline(always)]
    unsafe fn by_one_load(bin: &Bin, tag: u64) -> Self {
        let (equal, zero): (u64, u64);
        // No processor splits such a load into pieces smaller than a word. Whole words suffice:
        // each word is compared by itself, and a value is loaded afterwards. x86 keeps loads in
        // order, so this load acquires.
        // SAFETY: the block reads the 64 aligned bytes of the bin and changes no flags. The caller
        // promises AVX-512F.
        unsafe {
            core::arch::asm!(
                "vpbroadcastq zmm16, {tag}",
                "vmovdqa64 zmm17, zmmword ptr [{bin}]",
                "vpcmpeqq k1, zmm16, zmm17",
                "vptestnmq k2, zmm17, zmm17",
                "kmovw {equal:e}, k1",
                "kmovw {zero:e}, k2",
                bin = in(reg) ptr::from_ref(bin),
                tag = in(reg) tag,
                equal = lateout(reg) equal,
                zero = lateout(reg) zero,
                // The compiler uses these registers for nothing else unless it is told to.
                out("zmm16") _,
                out("zmm17") _,
                out("k1") _,
                out("k2") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        acquired();
        // The words are header, links, tag, value, tag, value, tag, value.
        Self { holding: equal >> 2 & SLOT_BITS, empty: zero >> 2 & SLOT_BITS }
    }

    /// As [`by_one_load`](Self::by_one_load), in eighteen instructions: packs two comparisons of
    /// three tags into bytes, two for each slot.
    ///
    /// # Safety
    /// The processor has AVX.
    #[cfg(x86_64_assembly)]
    #[inline(always)]
    unsafe fn by_packing(bin: &Bin, tag: u64) -> Self {
        let bits: u64;
        // SAFETY: the block reads aligned words of the bin and changes no flags. The caller promises
        // AVX.
        unsafe {
            core::arch::asm!(
                "vmovq {tags}, {tag}",
                "vpunpcklqdq {tags}, {tags}, {tags}",
                "vmovq {two}, qword ptr [{bin} + 16]",
                "vmovhps {two}, {two}, qword ptr [{bin} + 32]",
                "vmovq {last}, qword ptr [{bin} + 48]",
                "vpcmpeqq {equal}, {tags}, {two}",
                "vpcmpeqq {equal_last}, {tags}, {last}",
                "vpackssdw {equal}, {equal}, {equal_last}",
                "vpxor {tags}, {tags}, {tags}",
                "vpcmpeqq {two}, {two}, {tags}",
                "vpcmpeqq {last}, {last}, {tags}",
                "vpackssdw {two}, {two}, {last}",
                "vpacksswb {equal}, {equal}, {two}",
                "vpmovmskb {bits:e}, {equal}",
                bin = in(reg) ptr::from_ref(bin),
                tag = in(reg) tag,
                bits = lateout(reg) bits,
                tags = out(xmm_reg) _,
                two = out(xmm_reg) _,
                last = out(xmm_reg) _,
                equal = out(xmm_reg) _,
                equal_last = out(xmm_reg) _,
                options(nostack, readonly, preserves_flags),
            );
        }
        acquired();
        Self { holding: bits & SLOT_BITS, empty: bits >> 8 & SLOT_BITS }
    }
}

/// Returns the slots that hold a tag, in six instructions.
///
/// # Safety
/// The processor has AVX-512F.
#[cfg(x86_64_assembly)]
#[inline(always)]
unsafe fn holding_by_one_load(bin: &Bin, tag: u64) -> u64 {
    let equal: u64;
    // SAFETY: as in `by_one_load`.
    unsafe {
        core::arch::asm!(
            "vpbroadcastq zmm16, {tag}",
            "vpcmpeqq k1, zmm16, zmmword ptr [{bin}]",
            "kmovw {equal:e}, k1",
            bin = in(reg) ptr::from_ref(bin),
            tag = in(reg) tag,
            equal = lateout(reg) equal,
            out("zmm16") _,
            out("k1") _,
            options(nostack, readonly, preserves_flags),
        );
    }
    acquired();
    equal >> 2 & SLOT_BITS
}

/// Returns the slots that hold a tag, in twelve instructions of any x86-64.
#[cfg(x86_64_assembly)]
#[inline(always)]
fn holding_by_comparisons(bin: &Bin, tag: u64) -> u64 {
    let holding: u64;
    // SAFETY: the block reads aligned words of the bin.
    unsafe {
        core::arch::asm!(
            "xor {holding:e}, {holding:e}",
            "xor {next:e}, {next:e}",
            "xor {last:e}, {last:e}",
            "cmp qword ptr [{bin} + 16], {tag}",
            "sete {holding:l}",
            "cmp qword ptr [{bin} + 32], {tag}",
            "sete {next:l}",
            "cmp qword ptr [{bin} + 48], {tag}",
            "sete {last:l}",
            "lea {next:e}, [{next} + 4 * {last}]",
            "lea {holding:e}, [{holding} + 4 * {next}]",
            bin = in(reg) ptr::from_ref(bin),
            tag = in(reg) tag,
            holding = out(reg) holding,
            next = out(reg) _,
            last = out(reg) _,
            options(nostack, readonly),
        );
    }
    acquired();
    holding
}

/// Ends a look: no instruction. But the compiler could move the load of a value before a block of
/// assembly that only reads, as it may before a relaxed load.
#[cfg(x86_64_assembly)]
#[inline(always)]
fn acquired() {
    crate::sync::fence(Ordering::Acquire);
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    /// The ways of this processor and all slower ones.
    fn all_ways() -> Vec<Ways> {
        let mut all = vec![Ways::detect()];
        #[cfg(x86_64_assembly)]
        all.extend([Ways { avx512: false, ..all[0] }, Ways::default()]);
        all
    }

    #[test]
    fn all_ways_to_look_at_tags_agree() {
        const TAG: u64 = 1 << 63 | 7;
        // Each slot is empty, holds the tag, or another tag.
        for state in 0..27_u32 {
            let bin = Bin::default();
            let (mut holding, mut empty) = (0, 0);
            for (number, slot) in (0..).zip(&bin.slots) {
                let bit = 1 << (2 * number);
                match state / 3_u32.pow(number) % 3 {
                    0 => empty |= bit,
                    1 => {
                        holding |= bit;
                        slot.store_first(TAG, Ordering::Relaxed);
                    }
                    _ => slot.store_first(TAG ^ 1 << (8 * number), Ordering::Relaxed),
                }
                // Values that look like tags and like nothing.
                slot.store_second([TAG, 0][number as usize % 2], Ordering::Relaxed);
            }
            for header in [0, 0x15, TAG] {
                bin.header.store(header, Ordering::Relaxed);
                for ways in all_ways() {
                    assert_eq!(
                        Tags::of(ways, &bin, TAG),
                        Tags { holding, empty },
                        "{state} {ways:?}"
                    );
                    assert_eq!(
                        Tags::holding(ways, &bin, TAG),
                        Tags { holding, empty: 0 },
                        "{state} {ways:?}"
                    );
                }
            }
        }
    }
}
