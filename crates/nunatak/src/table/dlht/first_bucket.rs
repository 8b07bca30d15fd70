//! Changes of a key whose bin has one bucket: most changes of most maps.
//!
//! This is the protocol of [`apply`](super::apply) without the parts that a bin of one bucket does
//! not need, and without a branch on the slot. Such a branch waits until the bin arrives from
//! memory. It is mispredicted every second time, and then the next operation starts late.

use super::Table;
use super::apply::Claimed;
use super::index::Index;
use super::layout::{Bin, Header, PRIMARY_SLOTS, Slot};
use super::probe::still;
use crate::hash::HashCodec;
use crate::seeded::{Bug, seeded};
use crate::sync::{DATA, Mode, Ordering};
use crate::table::{Change, KeyTest};

/// The result of one look at the tags of a bin's first bucket. A slot is shown by its bit in the
/// header: 0, 2 or 4.
struct Tags {
    /// The slots that hold the tag.
    holding: u64,
    empty: u64,
}

const SLOT_BITS: u64 = 0x15;

impl Tags {
    /// Looks for a tag only: for an operation that inserts nothing.
    #[inline(always)]
    fn holding(index: &Index, bin: &Bin, tag: u64) -> Self {
        #[cfg(x86_64_assembly)]
        if index.has_avx512 {
            // SAFETY: `has_avx512` was set from the processor's own answer.
            return Self { holding: unsafe { Self::holding_by_one_load(bin, tag) }, empty: 0 };
        }
        Self { empty: 0, ..Self::of(index, bin, tag) }
    }

    #[inline(always)]
    fn of(index: &Index, bin: &Bin, tag: u64) -> Self {
        #[cfg(x86_64_assembly)]
        if index.has_avx512 {
            // SAFETY: `has_avx512` was set from the processor's own answer.
            return unsafe { Self::by_one_load(bin, tag) };
        }
        let _ = index.has_avx512;
        // Acquire: pairs with the publication, so that a value is at least as new as its tag.
        let tags = [0, 1, 2].map(|slot: usize| bin.slots[slot].load_first(Ordering::Acquire));
        let bits = |is: [bool; PRIMARY_SLOTS]| {
            u64::from(is[0]) | u64::from(is[1]) << 2 | u64::from(is[2]) << 4
        };
        Self { holding: bits(tags.map(|other| other == tag)), empty: bits(tags.map(|t| t == 0)) }
    }

    /// As [`by_one_load`](Self::by_one_load), in half of the instructions.
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
                bin = in(reg) core::ptr::from_ref(bin),
                tag = in(reg) tag,
                equal = lateout(reg) equal,
                out("zmm16") _,
                out("k1") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        // As in `by_one_load`.
        crate::sync::fence(Ordering::Acquire);
        equal >> 2 & SLOT_BITS
    }

    /// Compares all tags by one load: six instructions instead of thirty. More operations then fit
    /// into the processor's window of instructions.
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
                bin = in(reg) core::ptr::from_ref(bin),
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
        // The fence is no instruction. But the compiler could move the load of a value before the
        // block above, which only reads, as a relaxed load does.
        crate::sync::fence(Ordering::Acquire);
        // The words are header, links, tag, value, tag, value, tag, value.
        Self { holding: equal >> 2 & SLOT_BITS, empty: zero >> 2 & SLOT_BITS }
    }
}

/// Returns the slot of the lowest bit that is set.
///
/// # Safety
/// `bits` is not zero, and its lowest bit is one of `SLOT_BITS`.
#[inline(always)]
unsafe fn lowest_slot(bin: &Bin, bits: u64) -> (usize, &Slot) {
    let number = bits.trailing_zeros() as usize / 2;
    // SAFETY: by the caller's promise the number is 0, 1 or 2.
    (number, unsafe { bin.slots.get_unchecked(number) })
}

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    /// Performs an operation as `apply` does, on the key whose bin is at this offset. Returns `None`, and has done nothing, if the first
    /// bucket is not enough.
    #[inline(always)]
    pub(super) fn apply_in_first_bucket<T: KeyTest>(
        &self,
        index: &Index,
        (offset, tag): (usize, u64),
        test: &T,
        fresh: Option<u64>,
        change: &impl Fn(u64) -> Change,
    ) -> Option<Option<u64>> {
        let bin = index.bins.at_offset(offset);
        // Acquire: the slots are at least as new as the header.
        let header = Header(bin.header.load(Ordering::Acquire));
        if !header.is_open() {
            return None;
        }
        let tags = match fresh {
            Some(_) => Tags::of(index, bin, tag),
            None => Tags::holding(index, bin, tag),
        };
        if tags.holding != 0 {
            // SAFETY: `holding` is a part of `SLOT_BITS`, and not zero.
            let (number, slot) = unsafe { lowest_slot(bin, tags.holding) };
            let second = slot.load_second(DATA);
            if !still(bin, header, Bug::HitWithoutHeaderRecheck) || !test.accepts(second) {
                return None;
            }
            return self.change((bin, header), (slot, number), (tag, second), change).map(Some);
        }
        if header.has_linked_slots() {
            return None;
        }
        let Some(value) = fresh else {
            return still(bin, header, Bug::MissWithoutHeaderRecheck).then_some(None);
        };
        // The key may be hidden, which only a look at the values shows.
        if Y::SHADOWS {
            return None;
        }
        if Y::SHARED && header.0 & tags.empty != 0 && !seeded(Bug::ScanIgnoresPending) {
            return None;
        }
        let free = !header.0 & SLOT_BITS;
        if free == 0 {
            return None;
        }
        // SAFETY: `free` is a part of `SLOT_BITS`, and not zero.
        let (number, slot) = unsafe { lowest_slot(bin, free) };
        let claimed = Header(header.0 | (free & free.wrapping_neg()));
        match self.claim(bin, (header, claimed), number, slot, (tag, value)) {
            Claimed::Published => Some(None),
            Claimed::Lost => None,
        }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_look_at_tags_agree() {
        const TAG: u64 = 1 << 63 | 7;
        let mut index = Index::new(2, 8).unwrap();
        let ways = if index.has_avx512 { vec![true, false] } else { vec![false] };
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
            }
            for header in [0, 0x15, TAG] {
                bin.header.store(header, Ordering::Relaxed);
                for &way in &ways {
                    index.has_avx512 = way;
                    let tags = Tags::of(&index, &bin, TAG);
                    assert_eq!((tags.holding, tags.empty), (holding, empty), "{state} {way}");
                    assert_eq!(Tags::holding(&index, &bin, TAG).holding, holding, "{state} {way}");
                }
            }
        }
    }
}
