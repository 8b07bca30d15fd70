//! Values in chains, of keys whose buckets have no room.
//!
//! Chains file pointers and values under different hashes: the lowest bit says which they are,
//! instead of the key's bit. (In a durable table the words say it, too.)

use super::{Interrupted, LockedBuckets};
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::table::pea::Table;
use crate::table::pea::multi::log::Location;
use crate::table::pea::multi::values::{Left, Pointer};
use crate::table::shared::bucket::Layout;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::table::pea) struct Chained {
    pub(in crate::table::pea) hash: u64,
    pub(in crate::table::pea) tag: u64,
    /// A value, or a pointer to many.
    pub(in crate::table::pea) value_word: u64,
    pub(in crate::table::pea) is_pointer: bool,
}

impl Chained {
    /// Returns the hash that the item is filed under.
    fn filed(&self) -> u64 {
        self.hash & !1 | u64::from(self.is_pointer)
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Iterates over every item in the chains. If keys may have several values, clears the lowest
    /// bit of the hashes.
    pub(in crate::table::pea) fn all_chained(&self) -> impl Iterator<Item = Chained> {
        let pointer_bit = u64::from(self.duplicates.is_some());
        self.chains.all().into_iter().map(move |(filed, (word, value_word))| Chained {
            hash: filed & !pointer_bit,
            tag: self.marking().tag(word),
            value_word,
            is_pointer: filed & pointer_bit != 0,
        })
    }
}

impl<P: HashCodec, M: Medium> Table<P, M> {
    /// Returns the pair that the chains store for an item.
    fn pair(&self, chained: Chained) -> (u64, u64) {
        (self.marking().word(chained.tag, chained.is_pointer), chained.value_word)
    }

    /// Returns the hash that an item is filed under, and its pair.
    pub(in crate::table::pea) fn filed(&self, chained: Chained) -> (u64, (u64, u64)) {
        let filed = match self.duplicates {
            Some(_) => chained.filed(),
            None => chained.hash,
        };
        (filed, self.pair(chained))
    }

    /// Iterates over the items of a key, values first.
    pub(super) fn chained_of(&self, hash: u64, tag: u64) -> impl Iterator<Item = Chained> {
        [false, true].into_iter().flat_map(move |is_pointer| {
            let of = move |value_word| Chained { hash, tag, value_word, is_pointer };
            let (filed, (word, _)) = self.filed(of(0));
            self.chains.of(filed, word).into_iter().map(of)
        })
    }

    /// Stores a value in the chains, together with other values of its key there.
    pub(super) fn push_chained(
        &self,
        held: &mut LockedBuckets<'_, M>,
        value: u64,
    ) -> Result<(), Interrupted> {
        let (hash, tag) = (held.hash, held.tag);
        let before: Vec<Chained> = self.chained_of(hash, tag).collect();
        let of = |value_word, is_pointer| Chained { hash, tag, value_word, is_pointer };
        if let Some(&pointer) = before.iter().find(|chained| chained.is_pointer)
            && let Ok(appended) = self.values().append(Pointer(pointer.value_word), value)
        {
            return self.change_chained(held, pointer, of(appended.0, true), None);
        }
        let has_only_pointers = self.marking().has_only_pointers(tag);
        let has_pointer = before.iter().any(|chained| chained.is_pointer);
        if !has_pointer && before.len() == usize::from(!has_only_pointers) {
            let values: Vec<u64> =
                before.iter().map(|value| value.value_word).chain([value]).collect();
            // If memory is refused, the values stay as they are.
            if let Ok(pointer) = self.values().store(&values) {
                let pointer = of(pointer.0, true);
                return match before.first() {
                    Some(&single) => self.change_chained(held, single, pointer, None),
                    None => self.push(pointer),
                };
            }
        }
        // In RAM chains always have room. A durable map asks for room before.
        match has_only_pointers {
            true => Err(Interrupted::Refused),
            false => self.push(of(value, false)),
        }
    }

    fn push(&self, chained: Chained) -> Result<(), Interrupted> {
        let (hash, pair) = self.filed(chained);
        if self.chains.slots().must_refuse() {
            if chained.is_pointer {
                self.values().free(Pointer(chained.value_word));
            }
            return Err(Interrupted::Refused);
        }
        self.chains.push(hash, pair).map_err(|_| {
            if chained.is_pointer {
                self.values().free(Pointer(chained.value_word));
            }
            Interrupted::NoRoom
        })
    }

    /// Replaces an item in the chains, and stores another word with it.
    fn change_chained(
        &self,
        held: &mut LockedBuckets<'_, M>,
        from: Chained,
        to: Chained,
        hole: Option<(usize, u64)>,
    ) -> Result<(), Interrupted> {
        let (before, after) = (self.filed(from), self.filed(to));
        let mut stores: Vec<(Location, u64)> = Vec::new();
        stores.extend(hole.map(|(word, value)| (Location::Value(word), value)));
        if M::IS_DURABLE
            && let Some(slot) = self.chains.slot_of(before.0, before.1)
        {
            let opened = self.open_log(held).and_then(|()| {
                let opened = self.chains.slots().make_writable(slot);
                opened.map_err(|_| Interrupted::NoRoom)
            });
            if opened.is_err() {
                if to.is_pointer {
                    self.take_back(from, Pointer(to.value_word));
                }
                return opened;
            }
            let slot = slot as usize;
            if before.1.0 != after.1.0 {
                stores.push((Location::Chain { slot, word: 0 }, after.1.0));
            }
            stores.push((Location::Chain { slot, word: 1 }, after.1.1));
        }
        if !stores.is_empty() {
            self.store_at_once(held.hash, &stores);
        }
        self.chains.refile(before, after);
        match (from.is_pointer, to.is_pointer) {
            (true, true) => {
                self.values().replaced(Pointer(from.value_word), Pointer(to.value_word))
            }
            (true, false) => self.values().free(Pointer(from.value_word)),
            _ => {}
        }
        Ok(())
    }

    /// Gives back a buffer whose pointer was not published.
    fn take_back(&self, from: Chained, to: Pointer) {
        match from.is_pointer {
            // Gives back only the last buffer, if it is a new one.
            true => self.values().replaced(to, Pointer(from.value_word)),
            false => self.values().free(to),
        }
    }

    /// Removes a value from the chains. Returns whether it was there.
    pub(super) fn remove_chained(
        &self,
        held: &mut LockedBuckets<'_, M>,
        value: u64,
    ) -> Result<bool, Interrupted> {
        let (hash, tag) = (held.hash, held.tag);
        let all: Vec<Chained> = self.chained_of(hash, tag).collect();
        for chained in all {
            if !chained.is_pointer {
                if chained.value_word == value {
                    self.forget_chained(chained)?;
                    return Ok(true);
                }
                continue;
            }
            let (pointer, keeps_one) =
                (Pointer(chained.value_word), self.marking().has_only_pointers(tag));
            let Some(found) = self.values().locate(pointer, value) else { continue };
            let removal = self.values().plan_removal(pointer, found, keeps_one);
            self.open_hole(removal.hole)?;
            let of = |value_word, is_pointer| Chained { hash, tag, value_word, is_pointer };
            match removal.left {
                Left::Many(left) => {
                    self.change_chained(held, chained, of(left.0, true), removal.hole)?;
                }
                Left::One(left) => self.change_chained(held, chained, of(left, false), None)?,
                Left::Nothing => {
                    self.forget_chained(chained)?;
                    self.values().free(pointer);
                }
            }
            return Ok(true);
        }
        Ok(false)
    }

    pub(super) fn forget_chained(&self, chained: Chained) -> Result<(), Interrupted> {
        let (hash, pair) = self.filed(chained);
        self.chains.remove(hash, pair).map_err(|_| Interrupted::NoRoom)
    }

    /// Makes the word of the hole writable.
    pub(super) fn open_hole(&self, hole: Option<(usize, u64)>) -> Result<(), Interrupted> {
        match hole {
            Some((word, _)) => self.values().open(word).map_err(|_| Interrupted::NoRoom),
            None => Ok(()),
        }
    }
}
