//! Removals of values.

use super::chained::Chained;
use super::{At, Interrupted, LockedBuckets, STASHES};
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::Shared;
use crate::table::pea::Table;
use crate::table::pea::directory::Found;
use crate::table::pea::geometry::fingerprint;
use crate::table::pea::multi::log::Location;
use crate::table::pea::multi::values::{Left, Pointer, Removal, Values};
use crate::table::shared::bucket::{Flag, Header, Item, Layout, Marking};

/// Takes the values that are removed.
trait Receiver {
    fn value(&mut self, value: u64);

    /// Takes the values of a key's buffers. Returns their number.
    fn buffer<M: Medium>(&mut self, values: &Values<M>, pointer: Pointer) -> usize;
}

/// Drops the values.
struct Uncopied;

impl Receiver for Uncopied {
    fn value(&mut self, _value: u64) {}

    fn buffer<M: Medium>(&mut self, values: &Values<M>, pointer: Pointer) -> usize {
        values.count(pointer, || true)
    }
}

impl Receiver for Vec<u64> {
    fn value(&mut self, value: u64) {
        self.push(value);
    }

    fn buffer<M: Medium>(&mut self, values: &Values<M>, pointer: Pointer) -> usize {
        let before = self.len();
        values.each(pointer, || true, |value| self.push(value));
        self.len() - before
    }
}

impl<P: HashCodec, M: Medium> Table<P, M> {
    /// Removes one value of a key that equals `value`. Returns whether there was one.
    pub(crate) fn remove_value(&self, word: u64, value: u64) -> bool {
        let key = (self.codec.hash(word), word);
        let remove = |held: &mut LockedBuckets<'_, M>| self.remove_held(held, value).map(Some);
        let is_removed = match self.change_once::<_, true>(None, key, remove) {
            Some(is_removed) => is_removed,
            // A removal is never refused.
            None => self.change_again(key, |held, _| remove(held)).unwrap_or(false),
        };
        if is_removed {
            self.registry.count::<Shared>(-1);
        }
        is_removed
    }

    fn remove_held(
        &self,
        held: &mut LockedBuckets<'_, M>,
        value: u64,
    ) -> Result<bool, Interrupted> {
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

    fn remove_in(
        &self,
        held: &mut LockedBuckets<'_, M>,
        at: At,
        value: u64,
    ) -> Result<bool, Interrupted> {
        let marking = self.marking();
        for slot in held.bucket(at).header().matching(fingerprint(held.hash)) {
            let item = held.bucket(at).item(marking, slot);
            if item.tag != held.tag {
                continue;
            }
            if !item.is_pointer {
                if item.value_word == value {
                    held.open(at)?;
                    held.bucket(at).clear(&self.medium, slot);
                    return Ok(true);
                }
                continue;
            }
            let pointer = Pointer(item.value_word);
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

    /// Removes a value from a pointer's buffer. All its places are writable.
    fn take_from(
        &self,
        held: &LockedBuckets<'_, M>,
        (at, slot): (At, usize),
        item: Item,
        Removal { hole, left }: Removal,
    ) {
        let (bucket, marking) = (held.bucket(at), self.marking());
        let before = Pointer(item.value_word);
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
                    let one = Item { value_word: left, is_pointer: false, ..item };
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

    /// Removes all values of a key. Returns their number.
    pub(crate) fn remove_values(&self, word: u64) -> usize {
        self.remove_hashed::<true>(None, (self.codec.hash(word), word))
    }

    /// Removes all values of a key whose hash is known. Fetches its buckets if `FETCHES`; otherwise
    /// they are on their way, and `ahead` was the key's entry.
    #[inline(always)]
    pub(super) fn remove_hashed<const FETCHES: bool>(
        &self,
        ahead: Option<Found<'_>>,
        key: (u64, u64),
    ) -> usize {
        self.take_values::<FETCHES>(ahead, key, &mut Uncopied)
    }

    /// Removes all values of a key, and returns them.
    pub(crate) fn drain_values(&self, word: u64) -> Vec<u64> {
        let mut drained = Vec::new();
        self.take_values::<true>(None, (self.codec.hash(word), word), &mut drained);
        drained
    }

    /// Removes all values of a key, and shows them to a receiver. Returns their number.
    #[inline(always)]
    fn take_values<const FETCHES: bool>(
        &self,
        ahead: Option<Found<'_>>,
        key: (u64, u64),
        to: &mut impl Receiver,
    ) -> usize {
        let removed = self.change_once::<_, FETCHES>(ahead, key, |held| {
            match !M::IS_DURABLE && held.first.header().has_no_flag() {
                true => Ok(Some(self.take_in(held, At::First, to))),
                false => self.take_all(held, to).map(Some),
            }
        });
        let removed = match removed {
            Some(removed) => removed,
            // A removal is never refused.
            None => {
                self.change_again(key, |held, _| self.take_all(held, to).map(Some)).unwrap_or(0)
            }
        };
        if removed > 0 {
            self.registry.count::<Shared>(-(removed as i64));
        }
        removed
    }

    /// Removes all that a bucket in RAM holds of a key.
    #[inline(always)]
    fn take_in(&self, held: &LockedBuckets<'_, M>, at: At, to: &mut impl Receiver) -> usize {
        let bucket = held.bucket(at);
        let mut count = 0;
        // From the last slot on: the item that replaces a pointer comes from a later slot.
        for slot in bucket.header().matching(fingerprint(held.hash)).rev() {
            let item = bucket.item(Marking::Place, slot);
            if item.tag != held.tag {
                continue;
            }
            if item.is_pointer {
                bucket.clear_pointer(&self.medium, slot);
            } else {
                bucket.clear(&self.medium, slot);
            }
            count += self.hand_over(item.value_word, item.is_pointer, to);
        }
        count
    }

    /// Shows removed values to a receiver, and gives their buffers back. Returns their number.
    #[inline(always)]
    fn hand_over(&self, second: u64, is_pointer: bool, to: &mut impl Receiver) -> usize {
        if !is_pointer {
            to.value(second);
            return 1;
        }
        let count = to.buffer(self.values(), Pointer(second));
        if !seeded(Bug::BuffersNotFreed) {
            self.values().free(Pointer(second));
        }
        count
    }

    /// Removes all values of a key that may be in several buckets, or durably.
    #[inline(never)]
    fn take_all(
        &self,
        held: &mut LockedBuckets<'_, M>,
        to: &mut impl Receiver,
    ) -> Result<usize, Interrupted> {
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
        let all = all.into_iter().flatten();
        let chained: Vec<Chained> = match header.has(Flag::Chained) {
            true => self.chained_of(held.hash, held.tag).collect(),
            false => Vec::new(),
        };
        let mut count = 0;
        if M::IS_DURABLE {
            let mut items = Vec::new();
            all.for_each(|at| self.add_items(held, at, &mut items));
            self.clear_all(held, &items, &chained)?;
            for (_, _, item) in items {
                count += self.hand_over(item.value_word, item.is_pointer, to);
            }
        } else {
            all.for_each(|at| count += self.take_in(held, at, to));
            chained.iter().try_for_each(|&chained| self.forget_chained(chained))?;
        }
        for Chained { value_word: second, is_pointer, .. } in chained {
            count += self.hand_over(second, is_pointer, to);
        }
        Ok(count)
    }

    /// Appends the items of a key in a bucket.
    fn add_items(&self, held: &LockedBuckets<'_, M>, at: At, items: &mut Vec<(At, usize, Item)>) {
        let bucket = held.bucket(at);
        let slots = bucket.header().matching(fingerprint(held.hash));
        let of_bucket = slots.map(|slot| (at, slot, bucket.item(self.marking(), slot)));
        items.extend(of_bucket.filter(|(_, _, item)| item.tag == held.tag));
    }

    /// Clears all items of a key in its buckets and the chains, durably and crash-atomically.
    fn clear_all(
        &self,
        held: &mut LockedBuckets<'_, M>,
        items: &[(At, usize, Item)],
        chained: &[Chained],
    ) -> Result<(), Interrupted> {
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
