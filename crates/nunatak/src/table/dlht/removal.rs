//! Taking a key out of its slot, and giving the slot back.

use super::Table;
use super::layout::{Bin, BinState, Header, Slot};
use crate::hash::HashCodec;
use crate::seeded::{Bug, seeded};
use crate::sync::{DATA, Mode, Ordering};

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    /// Removes the key of this tag from a claimed slot of its bin, which was open under `header`. Returns
    /// `None` if the slot has another key. The caller counts the removal.
    ///
    /// Whether the header has changed since does not matter: the tag is this key's, and a transfer takes
    /// tags out before the next index has them.
    #[inline(always)]
    pub(super) fn remove_from(
        &self,
        (bin, header): (&Bin, Header),
        (slot, number): (&Slot, usize),
        tag: u64,
    ) -> Option<Option<u64>> {
        let second = take_out::<Y>(slot, tag)?;
        if !seeded(Bug::RemoveForgetsRelease) {
            self.give_back_under(bin, header, number);
        }
        Some(Some(second))
    }

    /// Frees a claimed slot of a bin that was open with this header.
    #[inline(always)]
    pub(super) fn give_back_under(&self, bin: &Bin, header: Header, number: usize) {
        debug_assert!(header.is_open());
        if Self::free(bin, header, number).is_err() {
            self.give_back(bin, number);
        }
    }

    /// Frees a claimed slot. Does nothing in a bin that is being moved or has moved.
    #[cold]
    #[inline(never)]
    pub(super) fn give_back(&self, bin: &Bin, number: usize) {
        let mut header = Header(bin.header.load(Ordering::Relaxed));
        while matches!(header.state(), BinState::Open | BinState::Special) {
            match Self::free(bin, header, number) {
                Ok(()) => return,
                Err(newer) => header = Header(newer),
            }
        }
    }

    /// Exchanges the header for one in which a slot is free. Returns the present one if it is another. The slot is this
    /// thread's, so the present header has it claimed, and `header` is another if it has not.
    #[inline(always)]
    fn free(bin: &Bin, header: Header, number: usize) -> Result<(), u64> {
        let mut free = header.with_free(number);
        if seeded(Bug::FreeWithoutVersion) {
            free = free.with_version_before();
        }
        // Release: the next claimant finds the slot's tag word empty.
        Y::cas(&bin.header, header.0, free.0, Ordering::Release)
    }
}

/// Takes a key out of a claimed slot. Returns its value, or `None` if the slot has another key.
///
/// The exchange of the tag alone decides: it finds the tag that the last exchange of the pair left, and
/// nothing replaces the value of a slot without a tag (invariant 2 of the table). So the value that is
/// read afterwards is the last one.
#[inline(always)]
fn take_out<Y: Mode>(slot: &Slot, tag: u64) -> Option<u64> {
    let stale = seeded(Bug::RemoveByStaleValue).then(|| slot.load_second(DATA));
    let is_taken = if Y::SHARED {
        slot.compare_exchange_first(tag, 0)
    } else {
        // Relaxed: one thread uses the table.
        let has_tag = slot.load_first(Ordering::Relaxed) == tag;
        if has_tag {
            slot.store_first(0, Ordering::Relaxed);
        }
        has_tag
    };
    is_taken.then(|| stale.unwrap_or_else(|| slot.load_second(DATA)))
}
