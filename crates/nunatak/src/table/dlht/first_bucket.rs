//! Changes of a key whose bin has one bucket: most changes of most maps.
//!
//! This is the protocol of [`apply`](super::apply) without the parts that a bin of one bucket does
//! not need. Which slot has the key, or is free, is found without a branch. Then a removal or an
//! insert that is no part of a batch (`ALONE`) has a branch for each slot, so that its store does not wait for the bin
//! ([`slot_branch`](crate::table::shared::slot_branch)); a replacement gains nothing by it.

use super::Table;
use super::apply::Claimed;
use super::index::Index;
use super::layout::{Bin, Header, Slot};
use super::probe::still;
use super::tags::{SLOT_BITS, Tags};
use crate::hash::HashCodec;
use crate::seeded::{Bug, seeded};
use crate::sync::{DATA, Mode, Ordering};
use crate::table::shared::slot_branch::keep_apart;
use crate::table::{Change, KeyTest};

/// Returns the slot of the lowest bit that is set.
///
/// # Safety
/// `bits` is not zero, and its lowest bit is one of `SLOT_BITS`.
#[inline(always)]
unsafe fn lowest_slot(bin: &Bin, bits: u64) -> (usize, &Slot) {
    let lowest = bits.trailing_zeros() as usize;
    // The bit of a slot is twice its number. (With an index the compiler would divide first.)
    // SAFETY: by the caller's promise the bit is that of one of the three slots.
    let slot = unsafe { &*bin.slots.as_ptr().byte_add(size_of::<Slot>() / 2 * lowest) };
    (lowest / 2, slot)
}

/// Acts on the slot of the lowest bit that is set. If the operation is no part of a batch (`ALONE`), the slot's
/// address does not wait for the bin: see [`keep_apart`].
///
/// # Safety
/// As of [`lowest_slot`].
#[inline(always)]
unsafe fn with_lowest_slot<const ALONE: bool, R>(
    bin: &Bin,
    bits: u64,
    act: impl FnOnce(usize, &Slot) -> R,
) -> R {
    if !ALONE {
        // SAFETY: the caller's promise.
        let (number, slot) = unsafe { lowest_slot(bin, bits) };
        return act(number, slot);
    }
    let [a, b, c] = &bin.slots;
    if bits & 1 != 0 {
        let result = act(0, a);
        keep_apart::<0>();
        result
    } else if bits & 4 != 0 {
        let result = act(1, b);
        keep_apart::<1>();
        result
    } else {
        act(2, c)
    }
}

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    /// Removes the key that its word identifies and whose bin is at this offset. Returns `None`, and has
    /// done nothing, if the first bucket and its link are not enough.
    #[inline(always)]
    pub(super) fn remove_in_first_bucket<const ALONE: bool>(
        &self,
        index: &Index,
        (offset, tag): (usize, u64),
    ) -> Option<Option<u64>> {
        let bin = index.bins.at_offset(offset);
        // Acquire: the slots are at least as new as the header.
        let header = Header(bin.header.load(Ordering::Acquire));
        if !header.is_open() {
            return None;
        }
        let holding = Tags::holding(index.tag_ways, bin, tag).holding;
        if holding == 0 {
            if header.has_linked_slots() {
                return self.remove_behind_first_link(index, (offset, tag), header);
            }
            return still(bin, header, Bug::MissWithoutHeaderRecheck).then_some(None);
        }
        // SAFETY: `holding` is a part of `SLOT_BITS`, and not zero.
        unsafe {
            with_lowest_slot::<ALONE, _>(bin, holding, |number, slot| {
                self.remove_from((bin, header), (slot, number), tag)
            })
        }
    }

    /// Performs an operation as `apply` does, on the key whose bin is at this offset. Returns `None`,
    /// and has done nothing, if the first bucket and its link are not enough.
    #[inline(always)]
    pub(super) fn apply_in_first_bucket<const ALONE: bool, T: KeyTest>(
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
            Some(_) => Tags::of(index.tag_ways, bin, tag),
            None => Tags::holding(index.tag_ways, bin, tag),
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
        let Some(value) = fresh else {
            let is_absent =
                !header.has_linked_slots() && still(bin, header, Bug::MissWithoutHeaderRecheck);
            return is_absent.then_some(None);
        };
        // The key may be hidden, which only a look at the values shows.
        if Y::SHADOWS {
            return None;
        }
        if Y::SHARED && header.0 & tags.empty != 0 && !seeded(Bug::ScanIgnoresPending) {
            return None;
        }
        let free = !header.0 & SLOT_BITS;
        if free == 0 || header.has_linked_slots() {
            return self.insert_beside_first_link(index, offset, header, (tag, value));
        }
        // SAFETY: `free` is a part of `SLOT_BITS`, and not zero.
        let (number, slot) = unsafe { lowest_slot(bin, free) };
        let claimed = Header(header.0 | (free & free.wrapping_neg()));
        match self.claim::<ALONE>(bin, (header, claimed), number, slot, (tag, value)) {
            Claimed::Published => Some(None),
            Claimed::Lost => None,
        }
    }
}
