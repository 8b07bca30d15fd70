//! Changes of a key whose bin has one link, and lookups of it in batches. In a map of the planned size one key of sixteen is behind a
//! link.
//!
//! These are functions of their own, so that the code for the first bucket needs fewer registers. But they
//! go on where that code ended: an operation that starts again waits for the link's line with nothing else
//! under way.

use super::Table;
use super::apply::Claimed;
use super::index::Index;
use super::layout::{Bin, Header, PRIMARY_SLOTS, Slot};
use super::probe::still;
use crate::hash::HashCodec;
use crate::seeded::{Bug, seeded};
use crate::sync::{DATA, Mode, Ordering};

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    /// Looks for a tag that none of the first slots of its bin has under this header, which is open. Returns
    /// `None` if one link is not enough, or if the bin has changed meanwhile.
    #[inline(never)]
    pub(super) fn look_behind_first_link(
        index: &Index,
        (offset, tag): (usize, u64),
        header: Header,
    ) -> Option<Option<u64>> {
        let bin = index.bins.at_offset(offset);
        // Acquire: pairs with the publication of the tag.
        let mut slots = slots(index, offset, bin)?.iter();
        if let Some(slot) = slots.find(|slot| slot.load_first(Ordering::Acquire) == tag) {
            // Invariant 4 of the table: under one version a slot has one owner, so two loads read a pair.
            let second = slot.load_second(DATA);
            return still(bin, header, Bug::HitWithoutHeaderRecheck).then_some(Some(second));
        }
        let is_absent = !header.has_slots_of_further_links()
            && still(bin, header, Bug::MissWithoutHeaderRecheck);
        is_absent.then_some(None)
    }

    /// Removes a key that none of the first slots of its bin has under this header. Returns `None`, and has
    /// done nothing, if one link is not enough.
    #[inline(never)]
    pub(super) fn remove_behind_first_link(
        &self,
        index: &Index,
        (offset, tag): (usize, u64),
        header: Header,
    ) -> Option<Option<u64>> {
        let bin = index.bins.at_offset(offset);
        for (number, slot) in (PRIMARY_SLOTS..).zip(slots(index, offset, bin)?) {
            // Acquire: pairs with the publication.
            if slot.load_first(Ordering::Acquire) == tag {
                return self.remove_from((bin, header), (slot, number), tag);
            }
        }
        let is_absent = !header.has_slots_of_further_links()
            && still(bin, header, Bug::MissWithoutHeaderRecheck);
        is_absent.then_some(None)
    }

    /// Inserts a pair whose tag none of the first slots of its bin has under this header; none of them is
    /// pending. Returns `None`, and has done nothing, if one link is not enough, or if it has the tag.
    #[inline(never)]
    pub(super) fn insert_beside_first_link(
        &self,
        index: &Index,
        offset: usize,
        header: Header,
        pair: (u64, u64),
    ) -> Option<Option<u64>> {
        let bin = index.bins.at_offset(offset);
        if header.has_slots_of_further_links() {
            return None;
        }
        if header.has_linked_slots() {
            for (number, slot) in (PRIMARY_SLOTS..).zip(slots(index, offset, bin)?) {
                // Acquire: pairs with the publication.
                let first = slot.load_first(Ordering::Acquire);
                let is_pending = Y::SHARED && first == 0 && header.has_claimed(number);
                if first == pair.0 || is_pending && !seeded(Bug::ScanIgnoresPending) {
                    return None;
                }
            }
        }
        let number = header.first_free().filter(|&number| number < PRIMARY_SLOTS + 2)?;
        let at = offset / size_of::<Bin>();
        let links = index.ensure_link(at, bin, number)?;
        let slot = index.slot(at, bin, links, number);
        let headers = (header, header.with_claimed(number));
        match self.claim::<false>(bin, headers, (number, slot), pair, &self.registry) {
            Claimed::Published => Some(None),
            Claimed::Lost => None,
        }
    }
}

/// Returns the slots behind the first link of the bin at this offset, if it has one.
fn slots<'i>(index: &'i Index, offset: usize, bin: &Bin) -> Option<&'i [Slot; 2]> {
    // Acquire: pairs with the release that chains a link.
    Some(&index.first_link_of(offset, bin.links.load(Ordering::Acquire))?.slots)
}
