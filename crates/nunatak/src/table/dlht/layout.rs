//! Every byte of a DLHT index.
//!
//! ```text
//! bin (64 B)          0        8        16         32         48         64
//!                     | header | links  | slot 0   | slot 1   | slot 2   |
//! half bucket (32 B)  | slot a          | slot b              |
//! slot (16 B)         | tag of the key | value word |
//!
//! header  63                         32 31   30 29                        0
//!         | version                    | state | slot 14 | …    | slot 0  |
//! links   63          62         42 41         21 20          0
//!         | delegated | third      | second     | first       |
//! ```
//!
//! A bin holds 15 keys: slots 0–2 in the bin itself, 3–4 in a half bucket (the first link), 5–8 in
//! two half buckets (the second), 9–14 in three (the third). The paper's links are one and two
//! whole buckets; here the same memory for links lasts longer, since most bins with a link need one
//! or two slots of it. A link is the number of its first half bucket in the bin's group, counted
//! from one; zero is no link.

use crate::memory::Zeroed;
use crate::sync::{AtomicPair, AtomicU64};
use crate::table::shared::slot_branch::branch_on_slot;

/// A slot: the key's tag, which is never zero (see `HashCodec`), and the value word.
pub(super) type Slot = AtomicPair;

/// A primary bucket.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Bin {
    pub(super) header: AtomicU64,
    pub(super) links: AtomicU64,
    pub(super) slots: [Slot; PRIMARY_SLOTS],
}

/// The unit of the memory for links.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub(super) struct HalfBucket {
    pub(super) slots: [Slot; 2],
}

#[cfg(not(modelled))]
const _: () = {
    assert!(size_of::<Bin>() == 64 && align_of::<Bin>() == 64);
    assert!(size_of::<HalfBucket>() == 32 && align_of::<HalfBucket>() == 32);
    assert!(core::mem::offset_of!(Bin, slots) == 16);
};

// SAFETY: a bin consists of atomic integers, for which zero bytes are valid. It needs no drop.
unsafe impl Zeroed for Bin {
    #[cfg(modelled)]
    fn zeroed() -> Self {
        Self::default()
    }
}

// SAFETY: a half bucket consists of atomic integers, for which zero bytes are valid. It needs no
// drop.
unsafe impl Zeroed for HalfBucket {
    #[cfg(modelled)]
    fn zeroed() -> Self {
        Self::default()
    }
}

#[cfg(x86_64_assembly)]
mod comparisons {
    use super::{Bin, HalfBucket, Header};
    use crate::sync::first_of_pair_is;
    use core::mem::offset_of;
    use core::ptr;

    impl Bin {
        /// Returns whether this is the bin's header.
        #[inline(always)]
        pub(in super::super) fn has_header(&self, header: Header) -> bool {
            const AT: usize = offset_of!(Bin, header);
            // SAFETY: the bin's header is there.
            unsafe { first_of_pair_is::<AT, 0>(ptr::from_ref(self).cast(), header.0) }
        }

        /// Returns whether a slot has this tag. What is loaded afterwards is at least as new.
        #[inline(always)]
        pub(in super::super) fn slot_has_tag<const SLOT: usize>(&self, tag: u64) -> bool {
            const AT: usize = offset_of!(Bin, slots);
            const { assert!(SLOT < super::PRIMARY_SLOTS) };
            // SAFETY: slots are pairs, and there is one of this number.
            unsafe { first_of_pair_is::<AT, SLOT>(ptr::from_ref(self).cast(), tag) }
        }
    }

    impl HalfBucket {
        /// Returns whether a slot has this tag. What is loaded afterwards is at least as new.
        #[inline(always)]
        pub(in super::super) fn slot_has_tag<const SLOT: usize>(&self, tag: u64) -> bool {
            const { assert!(SLOT < 2) };
            // SAFETY: slots are pairs, and there is one of this number.
            unsafe { first_of_pair_is::<0, SLOT>(ptr::from_ref(self).cast(), tag) }
        }
    }
}

#[cfg(not(x86_64_assembly))]
mod comparisons {
    use super::{Bin, HalfBucket, Header};
    use crate::sync::Ordering;

    impl Bin {
        /// Returns whether this is the bin's header.
        #[inline(always)]
        pub(in super::super) fn has_header(&self, header: Header) -> bool {
            // Relaxed: the caller has a fence.
            self.header.load(Ordering::Relaxed) == header.0
        }

        /// Returns whether a slot has this tag. What is loaded afterwards is at least as new.
        #[inline(always)]
        pub(in super::super) fn slot_has_tag<const SLOT: usize>(&self, tag: u64) -> bool {
            // Acquire: pairs with the publication of the tag.
            self.slots[SLOT].load_first(Ordering::Acquire) == tag
        }
    }

    impl HalfBucket {
        /// Returns whether a slot has this tag. What is loaded afterwards is at least as new.
        #[inline(always)]
        pub(in super::super) fn slot_has_tag<const SLOT: usize>(&self, tag: u64) -> bool {
            // Acquire: pairs with the publication of the tag.
            self.slots[SLOT].load_first(Ordering::Acquire) == tag
        }
    }
}

/// Slots in a bin without links.
pub(super) const PRIMARY_SLOTS: usize = 3;
/// Slots in a bin with all of its links.
pub(super) const SLOTS: usize = 15;
/// The first slot of each link; the last element is the number of slots.
pub(super) const LINK_STARTS: [usize; 4] = [3, 5, 9, 15];
/// The number of half buckets of each link.
pub(super) const LINK_HALVES: [u64; 3] = [1, 2, 3];
const LINK_BITS: u32 = 21;
const LINK_MASK: u64 = (1 << LINK_BITS) - 1;
/// The highest number of half buckets in a group.
pub(super) const MAX_GROUP_HALVES: u64 = LINK_MASK;

/// In a link word: the bin's pairs are in the index's overflow.
pub(super) const DELEGATED: u64 = 1 << 63;

/// Returns the number of a link's first half bucket, counted from one; zero if the link is not set.
#[inline(always)]
pub(super) const fn link(links: u64, which: usize) -> u64 {
    links >> (which as u32 * LINK_BITS) & LINK_MASK
}

/// Sets a link, which must not be set yet, in a link word.
pub(super) const fn with_link(links: u64, which: usize, half: u64) -> u64 {
    links | half << (which as u32 * LINK_BITS)
}

/// Returns the link of a slot beyond the primary slots.
#[inline(always)]
pub(super) const fn link_of_slot(slot: usize) -> usize {
    if slot < LINK_STARTS[1] {
        0
    } else if slot < LINK_STARTS[2] {
        1
    } else {
        2
    }
}

/// The state that a bin's header shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BinState {
    /// Operations take place in this bin.
    Open,
    /// One thread is moving the bin's pairs. Hits are still true.
    InTransfer,
    /// The next index has the bin's keys.
    Moved,
    /// A snapshot has marked the bin, or the bin is delegated to the overflow.
    Special,
}

/// A bin's header: a version, the bin's state, and whether each slot is claimed. The version is
/// incremented when a slot is freed and when the state changes.
///
/// Each slot has two bits. The lower one says that the slot is claimed; the upper one is unused and
/// zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header(pub(super) u64);

impl Header {
    const STATE_SHIFT: u32 = 30;
    /// The bits of the state. They are zero in the header of an open bin.
    pub(super) const STATE: u64 = 3 << Self::STATE_SHIFT;
    const VERSION: u64 = 1 << 32;
    const CLAIMED: u64 = 0x1555_5555;
    const PRIMARY: u64 = 0x15;

    #[inline(always)]
    pub(super) const fn is_open(self) -> bool {
        self.0 & Self::STATE == 0
    }

    pub(super) const fn state(self) -> BinState {
        match self.0 >> Self::STATE_SHIFT & 3 {
            0 => BinState::Open,
            1 => BinState::InTransfer,
            2 => BinState::Moved,
            _ => BinState::Special,
        }
    }

    /// Returns the header with another state and the next version.
    pub(super) const fn with_state(self, state: BinState) -> Self {
        let code = match state {
            BinState::Open => 0,
            BinState::InTransfer => 1,
            BinState::Moved => 2,
            BinState::Special => 3,
        };
        let slots = self.0 & !Self::STATE;
        Self((slots | code << Self::STATE_SHIFT).wrapping_add(Self::VERSION))
    }

    pub(super) const fn has_claimed(self, slot: usize) -> bool {
        self.0 >> (2 * slot) & 1 != 0
    }

    /// Returns whether any slot beyond the bin's first bucket is claimed.
    #[inline(always)]
    pub(super) const fn has_linked_slots(self) -> bool {
        self.0 & Self::CLAIMED & !Self::PRIMARY != 0
    }

    /// Returns whether any slot behind the second or the third link is claimed.
    #[inline(always)]
    pub(super) const fn has_slots_of_further_links(self) -> bool {
        const NEARBY: u64 = (1 << (2 * LINK_STARTS[1])) - 1;
        self.0 & Self::CLAIMED & !NEARBY != 0
    }

    /// Yields the numbers of the claimed slots from `first` on.
    #[inline(always)]
    pub(super) fn claimed(self, first: usize) -> impl Iterator<Item = usize> {
        let mut bits = (self.0 & Self::CLAIMED) >> (2 * first) << (2 * first);
        core::iter::from_fn(move || {
            let slot = bits.trailing_zeros() as usize / 2;
            let any = bits != 0;
            bits &= bits.wrapping_sub(1);
            any.then_some(slot)
        })
    }

    /// Returns the bits of all claimed slots.
    #[inline(always)]
    pub(super) const fn claimed_slots(self) -> u64 {
        self.0 & Self::CLAIMED
    }

    pub(super) const fn claimed_count(self) -> usize {
        (self.0 & Self::CLAIMED).count_ones() as usize
    }

    #[inline(always)]
    pub(super) const fn first_free(self) -> Option<usize> {
        let free = !self.0 & Self::CLAIMED;
        if free == 0 { None } else { Some(free.trailing_zeros() as usize / 2) }
    }

    /// Returns the header with a free slot claimed. The version may stay: to become the same header
    /// again, that slot must be freed, which changes the version.
    #[inline(always)]
    pub(super) const fn with_claimed(self, slot: usize) -> Self {
        Self(self.0 | 1 << (2 * slot))
    }

    /// Returns the header with a claimed slot free and the next version. (If the slot is not claimed, the result is no
    /// header.)
    #[inline(always)]
    pub(super) const fn with_free(self, slot: usize) -> Self {
        // One addition of a constant where the slot is known.
        Self(self.0.wrapping_add(Self::VERSION - (1 << (2 * slot))))
    }

    /// Returns the header with the version before: a seeded bug.
    pub(super) const fn with_version_before(self) -> Self {
        Self(self.0.wrapping_sub(Self::VERSION))
    }
}

/// Acts on a slot of a bin. If the operation is no part of a batch (`ALONE`), the address of a slot in the first
/// bucket does not wait for the bin: see [`branch_on_slot`].
#[inline(always)]
pub(super) fn act_on_slot<const ALONE: bool, R>(
    bin: &Bin,
    (slot, number): (&Slot, usize),
    act: impl FnOnce(&Slot) -> R,
) -> R {
    match ALONE {
        true => branch_on_slot(PRIMARY_SLOTS, number, |number| {
            act(bin.slots.get(number).unwrap_or(slot))
        }),
        false => act(slot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[cfg(not(modelled))]
    #[test]
    fn a_word_is_compared_with_the_one_at_its_place() {
        let words = |bin: &Bin| {
            let slots =
                [bin.slot_has_tag::<0>(7), bin.slot_has_tag::<1>(7), bin.slot_has_tag::<2>(7)];
            (bin.has_header(Header(7)), slots)
        };
        for at in 0..8 {
            let bin = Bin::default();
            let place = match at {
                0 => &bin.header,
                1 => &bin.links,
                _ => {
                    let slot = &bin.slots[(at - 2) / 2];
                    match at % 2 {
                        0 => slot.store_first(7, Ordering::Relaxed),
                        _ => slot.store_second(7, Ordering::Relaxed),
                    }
                    assert_eq!(words(&bin), (false, [at == 2, at == 4, at == 6]));
                    continue;
                }
            };
            // In a comparison of halves these would be the same word.
            place.store(7 << 32, Ordering::Relaxed);
            assert_eq!(words(&bin), (false, [false; 3]));
            place.store(7, Ordering::Relaxed);
            assert_eq!(words(&bin), (at == 0, [false; 3]));
        }
        for at in 0..4 {
            let half = HalfBucket::default();
            match at % 2 {
                0 => half.slots[at / 2].store_first(7, Ordering::Relaxed),
                _ => half.slots[at / 2].store_second(7, Ordering::Relaxed),
            }
            let has = [half.slot_has_tag::<0>(7), half.slot_has_tag::<1>(7)];
            assert_eq!(has, [at == 0, at == 2]);
        }
    }

    #[test]
    fn slots_are_claimed_and_freed_one_by_one() {
        let mut header = Header(0);
        for slot in 0..SLOTS {
            assert_eq!(header.first_free(), Some(slot));
            header = header.with_claimed(slot);
            assert_eq!(header.has_linked_slots(), slot >= PRIMARY_SLOTS);
            assert_eq!(header.has_slots_of_further_links(), link_of_slot(slot) > 0);
        }
        assert_eq!((header.first_free(), header.claimed_count()), (None, SLOTS));
        assert!(header.is_open());
        let header = header.with_free(7).with_free(3);
        assert_eq!(header.first_free(), Some(3));
        assert!(header.claimed(2).eq([2, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14]));
        assert_eq!(header.0 >> 32, 2, "each freeing counts");
    }

    #[test]
    fn states_leave_slots_alone_and_count() {
        let header = Header(0).with_claimed(0).with_claimed(14);
        for state in [BinState::InTransfer, BinState::Moved, BinState::Special, BinState::Open] {
            let other = header.with_state(state);
            assert_eq!(other.state(), state);
            assert_eq!(other.is_open(), state == BinState::Open);
            assert!(other.claimed(0).eq([0, 14]));
            assert_ne!(other, header);
        }
        assert_eq!(Header(u64::MAX << 32 | 1).with_free(0), Header(0), "the version wraps");
    }

    #[test]
    fn links_do_not_touch_each_other() {
        let links = with_link(with_link(with_link(0, 2, MAX_GROUP_HALVES), 0, 1), 1, 77);
        assert_eq!([link(links, 0), link(links, 1), link(links, 2)], [1, 77, MAX_GROUP_HALVES]);
        assert_eq!(links & DELEGATED, 0);
        for which in 0..3 {
            let slots = LINK_STARTS[which]..LINK_STARTS[which + 1];
            assert!(slots.clone().all(|slot| link_of_slot(slot) == which));
            assert_eq!(slots.len(), 2 * LINK_HALVES[which] as usize);
        }
    }
}
