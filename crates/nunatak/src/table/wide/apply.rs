//! Changes.

use super::find::next;
use super::index::Index;
use super::layout::{Bin, FROZEN, LOCKED, MOVED, Shape, Words, next_version};
use super::{WideChange, WideTable};
use crate::error::Error;
use crate::seeded::{Bug, seeded};
use crate::sync::{Backoff, OpPin, Ordering, Shared, fence};

/// A bin that this thread has locked, with the header that it had before.
pub(super) struct Held<'i, S> {
    pub(super) bin: Bin<'i, S>,
    pub(super) header: u64,
}

/// What an attempt to lock a bin ends with.
pub(super) enum Locking<'i, S> {
    Held(Held<'i, S>),
    Moved,
    /// Another thread has the bin.
    Wait,
}

impl<'i, S: Shape> Bin<'i, S> {
    #[inline(always)]
    pub(super) fn lock(self) -> Locking<'i, S> {
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

impl<S: Shape> Held<'_, S> {
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

impl<S: Shape> WideTable<S> {
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
            let bin = index.bin(index.place(hash));
            S::prefetch_entry(bin, hash);
            let held = match bin.lock() {
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
            let sought = index.sought(hash, key);
            if let Some((bin, slot)) = index.search::<false>(held.bin, header, &sought) {
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
            if let Err(held) = store_new(index, held, hash, key, value) {
                let at = index.place(hash);
                held.unlock();
                return match self.make_room(pin, index, at) {
                    Ok(()) => None,
                    Err(error) => Some(Err(error)),
                };
            }
            let added = self.registry.count::<Shared>(1);
            if S::GROWS_BY_LOAD && index.looks.is_due(added) {
                self.grow_if_full(pin);
            }
            return Some(Ok(None));
        }
    }
}

/// Gives the slot of a removed entry back.
#[inline(always)]
fn give_back<S: Shape>(held: Held<'_, S>, bin: Bin<'_, S>, slot: usize) {
    let header = held.header;
    if !bin.is_behind {
        return held.publish(S::free(bin, header, slot));
    }
    bin.set_state(S::free(bin, bin.state(), slot));
    held.publish(header);
}

/// Stores a new entry in the first free slot of a chain, and gives the bin back; the bin if there is none, and
/// no bin is left for a link.
#[inline(always)]
fn store_new<'i, S: Shape>(
    index: &'i Index<S>,
    held: Held<'i, S>,
    hash: u64,
    key: &Words,
    value: &Words,
) -> Result<(), Held<'i, S>> {
    let header = held.header;
    if let Some(slot) = S::free_slot(held.bin, header, hash, index.matcher) {
        let header = held.bin.fill(header, slot, hash, key, value);
        held.publish(header);
        return Ok(());
    }
    match set_behind(index, held.bin, hash, key, value) {
        true => held.publish(header),
        false => return Err(held),
    }
    Ok(())
}

/// Stores a new entry behind a full bin that this thread holds.
pub(super) fn set_behind<S: Shape>(
    index: &Index<S>,
    full: Bin<'_, S>,
    hash: u64,
    key: &Words,
    value: &Words,
) -> bool {
    let mut bin = full;
    loop {
        let Some(behind) = index.behind(bin).or_else(|| index.link(bin)) else { return false };
        bin = behind;
        let state = bin.state();
        if let Some(slot) = S::free_slot(bin, state, hash, index.matcher) {
            bin.set_state(bin.fill(state, slot, hash, key, value));
            return true;
        }
    }
}
