//! Bucket compaction: the values of a key become one slot.

use super::{At, Interrupted, LockedBuckets};
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::Ordering;
use crate::table::pea::Table;
use crate::table::pea::multi::log::Location;
use crate::table::pea::multi::values::Pointer;
use crate::table::shared::bucket::{Bucket, Header, Item, Layout, Marking, SLOTS};

/// How many values of a key are worth a buffer. The paper takes any two, which makes 32
/// bytes 272: the average utility is 0.44 to 0.41 then, by skew, instead of 0.48 to 0.47.
const LEAST: usize = if cfg!(any(loom, shuttle)) { 2 } else { 4 };

impl<P: HashCodec, M: Medium> Table<P, M> {
    /// Gives keys that have several values in a bucket buffers; whether there is more
    /// room then. The bucket may be changed.
    #[cold]
    pub(super) fn compact_held(
        &self,
        held: &mut LockedBuckets<'_, M>,
        at: At,
    ) -> Result<bool, Interrupted> {
        let bucket = held.bucket(at);
        if self.marking() == Marking::Place {
            return Ok(self.compact_by_place(bucket, &mut Vec::new()));
        }
        self.open_log(held)?;
        Ok(self.compact_by_tag(bucket, |_, slots, words| {
            let location = |slot, word| held.location(at, slot, word);
            let cleared = slots[1..].iter().map(|&slot| (location(slot, 0), 0));
            let kept = [(location(slots[0], 0), words.0), (location(slots[0], 1), words.1)];
            let stores: Vec<(Location, u64)> = kept.into_iter().chain(cleared).collect();
            if seeded(Bug::CompactedUnlogged) {
                self.store_words(&stores);
            } else {
                self.store_at_once(held.hash, &stores);
            }
        }))
    }
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// The same for a bucket that nobody else has; which buffers were made.
    #[cold]
    pub(in crate::table::pea) fn compact_new(
        &self,
        bucket: &Bucket,
        made: &mut Vec<Pointer>,
    ) -> bool {
        if self.duplicates.is_none() {
            return false;
        }
        if self.marking() == Marking::Place {
            return self.compact_by_place(bucket, made);
        }
        self.compact_by_tag(bucket, |pointer, slots, words| {
            made.push(pointer);
            // Relaxed: nobody else has it, and all of it is flushed later.
            let store = |slot: usize, word| {
                self.medium.store_first(bucket.slot(slot), word, Ordering::Relaxed);
            };
            slots[1..].iter().for_each(|&slot| store(slot, 0));
            store(slots[0], words.0);
            self.medium.store_second(bucket.slot(slots[0]), words.1, Ordering::Relaxed);
        })
    }

    /// Puts the values of each key that has so many of them in slots into a buffer: it is
    /// `commit`ted with its pointer, the slots of which the first becomes the pointer, and
    /// the words of that.
    fn compact_by_tag(
        &self,
        bucket: &Bucket,
        mut commit: impl FnMut(Pointer, &[usize], (u64, u64)),
    ) -> bool {
        let marking = Marking::Tag;
        let taken = (0..SLOTS).filter(|&slot| bucket.header().matching(0).all(|free| free != slot));
        let mut items: Vec<(usize, Item)> =
            taken.map(|slot| (slot, bucket.item(marking, slot))).collect();
        items.sort_by_key(|(_, item)| (item.tag, !item.is_pointer));
        let mut has_room = false;
        for of_key in items.chunk_by(|(_, a), (_, b)| a.tag == b.tag) {
            if of_key[0].1.is_pointer || of_key.len() < LEAST {
                continue;
            }
            let values: Vec<u64> = of_key.iter().map(|(_, item)| item.value_word).collect();
            let slots: Vec<usize> = of_key.iter().map(|&(slot, _)| slot).collect();
            // What is refused memory stays where it is.
            let Ok(pointer) = self.values().store(&values) else { continue };
            commit(pointer, &slots, (marking.word(of_key[0].1.tag, true), pointer.0));
            slots[1..].iter().for_each(|&slot| bucket.forget(&self.medium, slot));
            has_room = true;
        }
        has_room
    }

    fn compact_by_place(&self, bucket: &Bucket, made: &mut Vec<Pointer>) -> bool {
        let mut items: Vec<Item> = bucket.items(Marking::Place).collect();
        // Those of a key side by side, and its pointer before its values.
        items.sort_by_key(|item| (item.tag, !item.is_pointer));
        let mut kept = Vec::with_capacity(items.len());
        for of_key in items.chunk_by(|a, b| a.tag == b.tag) {
            let first = of_key[0];
            let values: Vec<u64> =
                of_key.iter().filter(|item| !item.is_pointer).map(|item| item.value_word).collect();
            // What is refused memory stays where it is.
            let pointer = match first.is_pointer {
                false if values.len() < LEAST => None,
                false => self.values().store(&values).ok(),
                true => None,
            };
            match pointer {
                Some(pointer) => {
                    made.push(pointer);
                    kept.push(Item { value_word: pointer.0, is_pointer: true, ..first });
                }
                None => kept.extend_from_slice(of_key),
            }
        }
        let has_room = kept.len() < items.len();
        if has_room {
            kept.sort_by_key(|item| !item.is_pointer);
            bucket.rewrite(&self.medium, kept.into_iter());
        }
        has_room
    }
}
