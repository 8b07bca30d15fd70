//! Changes.

use super::find::next;
use super::index::Index;
use super::layout::{
    Bin, FROZEN, LOCKED, Layout, MOVED, Words, first_free, next_version, with_slot_changed,
};
use super::{WideChange, WideTable};
use crate::error::Error;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, OpPin, Ordering, Shared, fence};

/// A bin that this thread has locked, with the header that it had before.
pub(super) struct Held<'i, L> {
    pub(super) bin: Bin<'i, L>,
    pub(super) header: u64,
}

/// What an attempt to lock a bin ends with.
pub(super) enum Locking<'i, L> {
    Held(Held<'i, L>),
    Moved,
    /// Another thread has the bin.
    Wait,
}

impl<'i, L: Layout> Bin<'i, L> {
    #[inline(always)]
    pub(super) fn lock(self) -> Locking<'i, L> {
        // Acquire: if the bin has moved, the next index is there.
        let header = self.header().load(Ordering::Acquire);
        if header & (MOVED | LOCKED | FROZEN) != 0 {
            return if header & MOVED != 0 { Locking::Moved } else { Locking::Wait };
        }
        // Relaxed: the load has acquired what belongs to this header, and no word has changed under it (invariant 2).
        let locked = self.header().compare_exchange(
            header,
            header | LOCKED,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if locked.is_err() {
            return Locking::Wait;
        }
        // Release: a reader that sees a word of this change sees the lock, or a later header.
        if !seeded(Bug::WideLockWithoutFence) {
            fence(Ordering::Release);
        }
        Locking::Held(Held { bin: self, header })
    }
}

impl<L: Layout> Held<'_, L> {
    /// Gives the bin back; nothing of it was changed.
    #[inline(always)]
    pub(super) fn unlock(self) {
        // Release: whoever reads this header has what came before it.
        self.bin.header().store(self.header, Ordering::Release);
    }

    /// Gives the bin back with these bits, in its next version.
    #[inline(always)]
    pub(super) fn publish(self, header: u64) {
        let header = if seeded(Bug::WideVersionKept) { header } else { next_version(header) };
        // Release: what this thread has stored comes before.
        self.bin.header().store(header, Ordering::Release);
    }
}

impl<L: Layout> WideTable<L> {
    /// Changes a key by its value, or inserts it. Returns the value that was present when the operation took
    /// effect. `change` must depend on its argument only; it may be called more than once.
    ///
    /// # Errors
    /// If the key would be new, there is no room for it, and memory is refused. Nothing was changed.
    #[inline(always)]
    pub(crate) fn apply(
        &self,
        key: &Words,
        fresh: Option<Words>,
        change: impl Fn(&Words) -> WideChange,
    ) -> Result<Option<Words>, Error> {
        self.apply_hashed(self.hash(key), key, fresh, change)
    }

    /// As [`apply`](Self::apply), of a key with this hash.
    #[inline(always)]
    pub(crate) fn apply_hashed(
        &self,
        hash: u64,
        key: &Words,
        fresh: Option<Words>,
        change: impl Fn(&Words) -> WideChange,
    ) -> Result<Option<Words>, Error> {
        let mut backoff = Backoff::new();
        loop {
            let pin = OpPin::<Shared>::new();
            let attempt = self.try_apply(&pin, hash, key, fresh.as_ref(), &change);
            drop(pin);
            match attempt {
                Some(result) => {
                    self.free_retired_if_any();
                    return result;
                }
                None => backoff.wait(),
            }
        }
    }

    /// Makes one attempt; `None` if another thread must act first.
    #[inline(always)]
    fn try_apply(
        &self,
        pin: &OpPin<Shared>,
        hash: u64,
        key: &Words,
        fresh: Option<&Words>,
        change: &impl Fn(&Words) -> WideChange,
    ) -> Option<Result<Option<Words>, Error>> {
        let mut index = self.root(pin);
        loop {
            let held = match index.bin(index.place(hash)).lock() {
                Locking::Held(held) => held,
                Locking::Wait => return None,
                Locking::Moved => {
                    if fresh.is_some() {
                        // Without memory others go on with the migration.
                        let _ = self.help(pin, index);
                    }
                    index = next(index);
                    continue;
                }
            };
            let header = held.header;
            if let Some((bin, slot)) = index.search::<false>(held.bin, header, key) {
                let before = bin.value(slot);
                match change(&before) {
                    WideChange::Keep => held.unlock(),
                    WideChange::To(value) => {
                        bin.set_value(slot, &value);
                        held.publish(header);
                    }
                    WideChange::Remove => {
                        give_back(held, bin, slot);
                        self.registry.count::<Shared>(-1);
                    }
                }
                return Some(Ok(Some(before)));
            }
            let Some(value) = fresh else {
                held.unlock();
                return Some(Ok(None));
            };
            if let Err(held) = store_new(index, held, key, value) {
                let at = index.place(hash);
                held.unlock();
                return match self.make_room(pin, index, at) {
                    Ok(()) => None,
                    Err(error) => Some(Err(error)),
                };
            }
            self.registry.count::<Shared>(1);
            return Some(Ok(None));
        }
    }
}

/// Gives the slot of a removed entry back.
fn give_back<L: Layout>(held: Held<'_, L>, bin: Bin<'_, L>, slot: usize) {
    let header = held.header;
    if core::ptr::eq(bin.header(), held.bin.header()) {
        return held.publish(with_slot_changed(header, slot));
    }
    let behind = bin.header().load(Ordering::Relaxed);
    // Relaxed: the first bin's header publishes it.
    bin.header().store(with_slot_changed(behind, slot), Ordering::Relaxed);
    held.publish(header);
}

/// Stores a new entry in the first free slot of a chain, and gives the bin back; the bin if there is none, and
/// no bin is left for a link.
fn store_new<'i, L: Layout>(
    index: &'i Index<L>,
    held: Held<'i, L>,
    key: &Words,
    value: &Words,
) -> Result<(), Held<'i, L>> {
    let header = held.header;
    if let Some(slot) = first_free::<L>(header) {
        held.bin.set(slot, key, value);
        held.publish(with_slot_changed(header, slot));
        return Ok(());
    }
    match set_behind(index, held.bin, key, value) {
        true => held.publish(header),
        false => return Err(held),
    }
    Ok(())
}

/// Stores a new entry behind a full bin that this thread holds.
pub(super) fn set_behind<L: Layout>(
    index: &Index<L>,
    full: Bin<'_, L>,
    key: &Words,
    value: &Words,
) -> bool {
    let mut bin = full;
    loop {
        let Some(behind) = index.behind(bin).or_else(|| index.link(bin)) else { return false };
        bin = behind;
        let header = bin.header().load(Ordering::Relaxed);
        if let Some(slot) = first_free::<L>(header) {
            bin.set(slot, key, value);
            // Relaxed: the first bin's header publishes it.
            bin.header().store(with_slot_changed(header, slot), Ordering::Relaxed);
            return true;
        }
    }
}
