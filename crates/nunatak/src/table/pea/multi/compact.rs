//! Bucket compaction: replaces the values of a key by one slot with a pointer.

use super::{At, Interrupted, LockedBuckets};
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::sync::Ordering;
use crate::table::pea::Table;
use crate::table::pea::multi::log::Location;
use crate::table::pea::multi::values::Pointer;
use crate::table::shared::bucket::{Bucket, Header, Item, Layout, Marking, SLOTS};

/// The fewest values that get a buffer. The paper combines any two, so 32 bytes become 272, and the
/// average utility is less (`docs/measurements.md`).
const LEAST: usize = if cfg!(modelled) { 2 } else { 4 };

impl<P: HashCodec, M: Medium> Table<P, M> {
    /// Moves the values of keys that have several in a bucket to buffers. Returns whether that made
    /// room. The bucket is writable.
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
    /// Compacts a bucket that no other thread knows. Appends the buffers that were made.
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
            // Relaxed: no other thread knows the bucket, and all of it is flushed later.
            let store = |slot: usize, word| {
                self.medium.store_first(bucket.slot(slot), word, Ordering::Relaxed);
            };
            slots[1..].iter().for_each(|&slot| store(slot, 0));
            store(slots[0], words.0);
            self.medium.store_second(bucket.slot(slots[0]), words.1, Ordering::Relaxed);
        })
    }

    /// Moves the values of each key with [`LEAST`] or more in slots to a buffer. `commit` gets the
    /// buffer's pointer, the slots, the first of which shall hold the pointer, and this slot's
    /// words.
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
            // If memory is refused, the values stay where they are.
            let Ok(pointer) = self.values().store(&values) else { continue };
            commit(pointer, &slots, (marking.word(of_key[0].1.tag, true), pointer.0));
            slots[1..].iter().for_each(|&slot| bucket.forget(&self.medium, slot));
            has_room = true;
        }
        has_room
    }

    fn compact_by_place(&self, bucket: &Bucket, made: &mut Vec<Pointer>) -> bool {
        let mut items: Vec<Item> = bucket.items(Marking::Place).collect();
        // Sorts the items of a key side by side, its pointer before its values.
        items.sort_by_key(|item| (item.tag, !item.is_pointer));
        let mut kept = Vec::with_capacity(items.len());
        for of_key in items.chunk_by(|a, b| a.tag == b.tag) {
            let first = of_key[0];
            let values: Vec<u64> =
                of_key.iter().filter(|item| !item.is_pointer).map(|item| item.value_word).collect();
            // If memory is refused, the values stay where they are.
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
