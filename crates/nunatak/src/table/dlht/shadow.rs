//! Keys that are inserted hidden, and shown or removed later (section 3.2.2).
//!
//! The paper hides a key by a state in its bin's header, so every operation must look at it. Here a
//! hidden key is a pair of a word that is no tag and the key's tag. Lookups, puts and deletes pass
//! over it without knowing, and a transfer moves it like other pairs. Its value comes with the
//! commit.

use super::apply::Detour;
use super::find::{Request, Scan, Sought, scan};
use super::index::Index;
use super::layout::{Bin, Header, Slot};
use super::probe::still;
use super::{Step, Table};
use crate::hash::HashCodec;
use crate::seeded::{Bug, seeded};
use crate::sync::{Mode, OpPin, Ordering};
use crate::table::{ByEntry, Change, KeyTest, Shadowed};

impl<P: HashCodec, Y: Mode> Table<P, Y> {
    /// Returns the hash and the tag of a word, for [`hide`](Self::hide) and
    /// [`unhide`](Self::unhide). May run the caller's hasher.
    pub(crate) fn hashed(&self, word: u64) -> (u64, u64) {
        let hash = self.codec.hash(word);
        (hash, self.codec.tag(word, hash))
    }

    /// Inserts a hidden key, which only inserts look at. Returns the value word of the key if it is
    /// present.
    pub(crate) fn hide<T: KeyTest>(
        &self,
        (hash, tag): (u64, u64),
        test: &T,
    ) -> Result<Option<u64>, Shadowed> {
        let change = &|_| Change::Keep;
        let before =
            self.apply_slowly(&Request { hash, tag, test, fresh: Some(0), hides: true, change })?;
        if before.is_none() {
            self.registry.count_hidden::<Y>(1);
        }
        Ok(before)
    }

    /// Shows a hidden key with its value, or removes it. Returns false if the key is not hidden.
    pub(crate) fn unhide(&self, (hash, tag): (u64, u64), value: Option<u64>) -> bool {
        let is_done = self.repeat(|pin| self.try_unhide(pin, self.root(pin), (hash, tag), value));
        if is_done {
            self.registry.count_hidden::<Y>(-1);
            if value.is_none() {
                self.registry.count::<Y>(-1);
            }
        }
        is_done
    }

    fn try_unhide<'p>(
        &'p self,
        pin: &'p OpPin<Y>,
        mut index: &'p Index,
        (hash, tag): (u64, u64),
        value: Option<u64>,
    ) -> Step<bool> {
        loop {
            let at = self.place(hash, index);
            let bin = index.bins.at(at);
            let hidden = self.hidden(at, index);
            // Acquire: the slots are at least as new as the header.
            let header = Header(bin.header.load(Ordering::Acquire));
            let detour = if header.is_open() {
                // The scan looks for the hidden key only.
                let none = ByEntry(|_| false);
                let sought = Sought { pending: false, hidden };
                match scan(index, at, bin, header, tag, &none, sought) {
                    Scan::Hidden(slot, number) => {
                        if self.unhide_slot(bin, (slot, number), (hidden, tag), value) {
                            return Step::Done(true);
                        }
                        Detour::Again
                    }
                    Scan::Miss if still(bin, header, Bug::MissWithoutHeaderRecheck) => {
                        return Step::Done(false);
                    }
                    _ => Detour::Again,
                }
            } else {
                self.detour(pin, index, at, header, false)
            };
            match detour {
                Detour::Again => {}
                Detour::Next(next) => index = next,
                // A search inserts nothing, so it is not refused.
                Detour::Wait | Detour::Refused => return Step::Wait,
                Detour::Overflow => {
                    if let Some(step) = self.unhide_in_overflow(pin, index, at, tag, value) {
                        return step;
                    }
                }
            }
        }
    }

    /// Shows or removes the hidden key of a slot. Returns false if the key was moved first.
    fn unhide_slot(
        &self,
        bin: &Bin,
        (slot, number): (&Slot, usize),
        pair: (u64, u64),
        value: Option<u64>,
    ) -> bool {
        let (_, tag) = pair;
        let Some(value) = value else {
            let is_done = Y::cas_pair(slot, pair, (0, tag));
            if is_done {
                self.give_back(bin, number);
            }
            return is_done;
        };
        if seeded(Bug::ShownBeforeValue) {
            slot.store_first(tag, Ordering::Release);
            slot.store_second(value, Ordering::Relaxed);
            return true;
        }
        Y::cas_pair(slot, pair, (tag, value))
    }
}
