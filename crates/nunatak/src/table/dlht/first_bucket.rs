//! Changes of a key whose bin has one bucket: most changes of most maps.
//!
//! This is the protocol of [`apply`](super::apply) without the parts that a bin of one bucket does
//! not need. A removal or an insert that is no part of a batch (`ALONE`) has a branch for each slot. The processor
//! mispredicts every second one; but meanwhile it runs on and asks for the lines of the operations that follow, and
//! its stores do not wait for the bin ([`slot_branch`](crate::table::shared::slot_branch)). So what counts is how few
//! instructions an operation has. Other changes, and those of a batch, whose bin has arrived, find the slot without a branch.
//! (Figures: `docs/measurements.md`.)

use super::Table;
use super::apply::Claimed;
use super::index::Index;
use super::layout::{Bin, Header, Slot};
use super::probe::still;
use super::tags::{SLOT_BITS, Tags};
use crate::hash::HashCodec;
use crate::seeded::{Bug, seeded};
use crate::sync::{DATA, EntryCounts, Mode, Ordering};
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
        if ALONE {
            let [a, b, c] = &bin.slots;
            if bin.slot_has_tag::<0>(tag) {
                return self.remove_from((bin, header), (a, 0), tag);
            }
            if bin.slot_has_tag::<1>(tag) {
                return self.remove_from((bin, header), (b, 1), tag);
            }
            if bin.slot_has_tag::<2>(tag) {
                return self.remove_from((bin, header), (c, 2), tag);
            }
        } else {
            let holding = Tags::holding(index.tag_ways, bin, tag).holding;
            if holding != 0 {
                // SAFETY: `holding` is a part of `SLOT_BITS`, and not zero.
                let (number, slot) = unsafe { lowest_slot(bin, holding) };
                return self.remove_from((bin, header), (slot, number), tag);
            }
        }
        if header.has_linked_slots() {
            return self.remove_behind_first_link(index, (offset, tag), header);
        }
        still(bin, header, Bug::MissWithoutHeaderRecheck).then_some(None)
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
        counts: &impl EntryCounts,
    ) -> Option<Option<u64>> {
        let bin = index.bins.at_offset(offset);
        // Acquire: the slots are at least as new as the header.
        let header = Header(bin.header.load(Ordering::Acquire));
        if !header.is_open() {
            return None;
        }
        let (at, pair) = ((bin, header), (tag, fresh.unwrap_or_default()));
        let [a, b, c] = &bin.slots;
        // A change that inserts nothing gains nothing by branches.
        let empty = if ALONE && fresh.is_some() {
            // The key may be hidden, which only a look at the values shows.
            let inserts = !Y::SHADOWS;
            let claimed = header.claimed_slots();
            if inserts && claimed == 0 {
                return self.insert_free::<ALONE>(at, (0, a), pair, counts);
            }
            // One load shows that a slot neither has the tag nor is about to. Acquire: pairs with the
            // publication.
            let first = a.load_first(Ordering::Acquire);
            if first == tag {
                return self.change_found(at, (0, a), tag, test, change);
            }
            if inserts && claimed == 0b1 && !is_pending::<Y>(first) {
                return self.insert_free::<ALONE>(at, (1, b), pair, counts);
            }
            let second = b.load_first(Ordering::Acquire);
            if second == tag {
                return self.change_found(at, (1, b), tag, test, change);
            }
            if inserts && claimed == 0b101 && !is_pending::<Y>(first) && !is_pending::<Y>(second) {
                return self.insert_free::<ALONE>(at, (2, c), pair, counts);
            }
            let third = c.load_first(Ordering::Acquire);
            if third == tag {
                return self.change_found(at, (2, c), tag, test, change);
            }
            let empty = |word| u64::from(word == 0);
            empty(first) | empty(second) << 2 | empty(third) << 4
        } else {
            let tags = match fresh {
                Some(_) => Tags::of(index.tag_ways, bin, tag),
                None => Tags::holding(index.tag_ways, bin, tag),
            };
            if tags.holding != 0 {
                // SAFETY: `holding` is a part of `SLOT_BITS`, and not zero.
                let slot = unsafe { lowest_slot(bin, tags.holding) };
                return self.change_found(at, slot, tag, test, change);
            }
            tags.empty
        };
        if fresh.is_none() {
            let is_absent =
                !header.has_linked_slots() && still(bin, header, Bug::MissWithoutHeaderRecheck);
            return is_absent.then_some(None);
        }
        if Y::SHADOWS {
            return None;
        }
        if Y::SHARED && header.0 & empty != 0 && !seeded(Bug::ScanIgnoresPending) {
            return None;
        }
        let free = !header.0 & SLOT_BITS;
        if free == 0 || header.has_linked_slots() {
            return self.insert_beside_first_link(index, offset, header, pair);
        }
        // SAFETY: `free` is a part of `SLOT_BITS`, and not zero.
        let slot = unsafe { lowest_slot(bin, free) };
        self.insert_free::<ALONE>(at, slot, pair, counts)
    }

    /// Changes the pair of a slot that has had the tag under this header.
    #[inline(always)]
    fn change_found<T: KeyTest>(
        &self,
        (bin, header): (&Bin, Header),
        (number, slot): (usize, &Slot),
        tag: u64,
        test: &T,
        change: &impl Fn(u64) -> Change,
    ) -> Option<Option<u64>> {
        let second = slot.load_second(DATA);
        if !still(bin, header, Bug::HitWithoutHeaderRecheck) || !test.accepts(second) {
            return None;
        }
        self.change((bin, header), (slot, number), (tag, second), change).map(Some)
    }

    /// Inserts a pair whose tag no claimed slot has under this header, into a free slot.
    #[inline(always)]
    fn insert_free<const ALONE: bool>(
        &self,
        (bin, header): (&Bin, Header),
        (number, slot): (usize, &Slot),
        pair: (u64, u64),
        counts: &impl EntryCounts,
    ) -> Option<Option<u64>> {
        let headers = (header, header.with_claimed(number));
        match self.claim::<ALONE>(bin, headers, (number, slot), pair, counts) {
            Claimed::Published => Some(None),
            Claimed::Lost => None,
        }
    }
}

/// Whether an insert has claimed the slot with this first word, and has not stored its tag yet.
#[inline(always)]
fn is_pending<Y: Mode>(first: u64) -> bool {
    Y::SHARED && first == 0 && !seeded(Bug::ScanIgnoresPending)
}
