//! Taking values of keys out.

use super::chained::Chained;
use super::{At, Held, Interrupted, STASHES};
use crate::hash::Placement;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::Shared;
use crate::table::pea::Table;
use crate::table::pea::bucket::{Flag, Item, Marking, SLOTS};
use crate::table::pea::geometry::fingerprint;
use crate::table::pea::layout::{Header, Layout};
use crate::table::pea::log::Location;
use crate::table::pea::values::{Left, Pointer, Removal, Values};

impl<P: Placement, M: Medium> Table<P, M> {
    /// Takes one value of a key out that is equal to this one, if there is one.
    pub(crate) fn remove_value(&self, word: u64, value: u64) -> bool {
        let hash = self.placement.hash(word);
        let is_removed = self.change::<_, true>(hash, word, |held, _| {
            let found = self.remove_held(held, value)?;
            Ok(Some(found))
        });
        // Nothing is refused that takes something out.
        let is_removed = is_removed.unwrap_or(false);
        if is_removed {
            self.registry.count::<Shared>(-1);
        }
        is_removed
    }

    fn remove_held(&self, held: &mut Held<'_, M>, value: u64) -> Result<bool, Interrupted> {
        let header = held.first.header();
        if self.remove_in(held, At::First, value)? {
            return Ok(true);
        }
        if header.has(Flag::Second) {
            held.lock_second()?;
            if self.remove_in(held, At::Second, value)? {
                return Ok(true);
            }
        }
        if header.has(Flag::Stashed) {
            held.lock_stash();
            for at in STASHES {
                if self.remove_in(held, at, value)? {
                    return Ok(true);
                }
            }
        }
        if header.has(Flag::Chained) { self.remove_chained(held, value) } else { Ok(false) }
    }

    fn remove_in(&self, held: &mut Held<'_, M>, at: At, value: u64) -> Result<bool, Interrupted> {
        let marking = self.marking();
        for slot in held.bucket(at).header().matching(fingerprint(held.hash)) {
            let item = held.bucket(at).item(marking, slot);
            if item.tag != held.tag {
                continue;
            }
            if !item.is_pointer {
                if item.second == value {
                    held.open(at)?;
                    held.bucket(at).clear(&self.medium, slot);
                    return Ok(true);
                }
                continue;
            }
            let pointer = Pointer(item.second);
            if let Some(found) = self.values().locate(pointer, value) {
                held.open(at)?;
                self.open_log(held)?;
                let keeps_one = marking.has_only_pointers(held.tag);
                let removal = self.values().plan_removal(pointer, found, keeps_one);
                self.open_hole(removal.hole)?;
                self.take_from(held, (at, slot), item, removal);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes a value out of the buffer of a pointer. All may be changed.
    fn take_from(
        &self,
        held: &Held<'_, M>,
        (at, slot): (At, usize),
        item: Item,
        Removal { hole, left }: Removal,
    ) {
        let (bucket, marking) = (held.bucket(at), self.marking());
        let before = Pointer(item.second);
        match left {
            Left::Many(left) => {
                let hole = hole.map(|(word, value)| (Location::Value(word), value));
                let pointer = (held.location(at, slot, 1), left.0);
                match hole {
                    None => self.store_words(&[pointer]),
                    Some(hole) if seeded(Bug::HoleUnlogged) => self.store_words(&[hole, pointer]),
                    Some(hole) => self.store_at_once(held.hash, &[hole, pointer]),
                }
                self.values().replaced(before, left);
            }
            Left::One(left) if marking == Marking::Tag => {
                let word = (held.location(at, slot, 0), item.tag);
                self.store_at_once(held.hash, &[word, (held.location(at, slot, 1), left)]);
                self.values().free(before);
            }
            Left::One(left) => {
                bucket.clear_pointer(&self.medium, slot);
                if !seeded(Bug::LastValueLost) {
                    let one = Item { second: left, is_pointer: false, ..item };
                    bucket.add(&self.medium, marking, one);
                }
                self.values().free(before);
            }
            Left::Nothing => {
                bucket.clear(&self.medium, slot);
                self.values().free(before);
            }
        }
    }

    /// Takes all values of a key out; how many there were.
    pub(crate) fn remove_values(&self, word: u64) -> usize {
        self.remove_hashed::<true>(self.placement.hash(word), word)
    }

    /// The same, of a key whose hash is known.
    pub(super) fn remove_hashed<const FETCHES: bool>(&self, hash: u64, word: u64) -> usize {
        let count = |values: &Values<M>, pointer| values.count(pointer, || true);
        self.take_values::<FETCHES>((hash, word), count, |_| ())
    }

    /// Takes all values of a key out, and returns them.
    pub(crate) fn drain_values(&self, word: u64) -> Vec<u64> {
        let drained = core::cell::RefCell::new(Vec::new());
        self.take_values::<true>(
            (self.placement.hash(word), word),
            |values, pointer| {
                let before = drained.borrow().len();
                values.each(pointer, || true, |value| drained.borrow_mut().push(value));
                drained.borrow().len() - before
            },
            |value| drained.borrow_mut().push(value),
        );
        drained.into_inner()
    }

    /// Takes all values of a key out, and shows the buffers and the others.
    fn take_values<const FETCHES: bool>(
        &self,
        (hash, word): (u64, u64),
        buffer: impl Fn(&Values<M>, Pointer) -> usize,
        value: impl Fn(u64),
    ) -> usize {
        let removed = self.change::<_, FETCHES>(hash, word, |held, _| {
            let header = held.first.header();
            let mut all = [Some(At::First), None, None, None];
            if header.has(Flag::Second) {
                held.lock_second()?;
                all[1] = Some(At::Second);
            }
            if header.has(Flag::Stashed) {
                held.lock_stash();
                all[2..].copy_from_slice(&STASHES.map(Some));
            }
            let mut items = Vec::with_capacity(SLOTS);
            for at in all.into_iter().flatten() {
                self.add_items(held, at, &mut items);
            }
            let chained: Vec<Chained> = match header.has(Flag::Chained) {
                true => self.chained_of(held.hash, held.tag).collect(),
                false => Vec::new(),
            };
            self.clear_all(held, &items, &chained)?;
            let of_slots = items.iter().map(|(_, _, item)| (item.second, item.is_pointer));
            let of_chains = chained.iter().map(|chained| (chained.second, chained.is_pointer));
            let counts = of_slots.chain(of_chains).map(|(second, is_pointer)| {
                if !is_pointer {
                    value(second);
                    return 1;
                }
                let count = buffer(self.values(), Pointer(second));
                if !seeded(Bug::BuffersNotFreed) {
                    self.values().free(Pointer(second));
                }
                count
            });
            Ok(Some(counts.sum()))
        });
        let removed: usize = removed.unwrap_or(0);
        if removed > 0 {
            self.registry.count::<Shared>(-(removed as i64));
        }
        removed
    }

    /// Appends what a bucket holds of a key, from its last slot.
    fn add_items(&self, held: &Held<'_, M>, at: At, items: &mut Vec<(At, usize, Item)>) {
        let (bucket, before) = (held.bucket(at), items.len());
        let slots = bucket.header().matching(fingerprint(held.hash));
        let of_bucket = slots.map(|slot| (at, slot, bucket.item(self.marking(), slot)));
        items.extend(of_bucket.filter(|(_, _, item)| item.tag == held.tag));
        items[before..].reverse();
    }

    /// Takes all of a key out of its buckets, those of each from the last slot, and out of
    /// the chains.
    fn clear_all(
        &self,
        held: &mut Held<'_, M>,
        items: &[(At, usize, Item)],
        chained: &[Chained],
    ) -> Result<(), Interrupted> {
        if !M::IS_DURABLE {
            // What takes the place of a pointer comes from behind it.
            for &(at, slot, item) in items {
                match item.is_pointer {
                    true => held.bucket(at).clear_pointer(&self.medium, slot),
                    false => held.bucket(at).clear(&self.medium, slot),
                }
            }
            return chained.iter().try_for_each(|&chained| self.forget_chained(chained));
        }
        if items.is_empty() && chained.is_empty() {
            return Ok(());
        }
        items.iter().try_for_each(|&(at, ..)| held.open(at))?;
        self.open_log(held)?;
        let mut stores: Vec<(Location, u64)> =
            items.iter().map(|&(at, slot, _)| (held.location(at, slot, 0), 0)).collect();
        for &chained in chained {
            let (hash, pair) = self.filed(chained);
            if let Some(slot) = self.chains.slot_of(hash, pair) {
                self.chains.slots().make_writable(slot).map_err(|_| Interrupted::NoRoom)?;
                stores.push((Location::Chain { slot: slot as usize, word: 0 }, 0));
            }
        }
        if seeded(Bug::RemovedUnlogged) {
            self.store_words(&stores);
        } else {
            self.store_at_once(held.hash, &stores);
        }
        for &(at, slot, _) in items {
            held.bucket(at).forget(&self.medium, slot);
        }
        for &chained in chained {
            let (hash, pair) = self.filed(chained);
            self.chains.forget(hash, pair);
        }
        Ok(())
    }
}
