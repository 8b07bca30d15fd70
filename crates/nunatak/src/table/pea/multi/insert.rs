//! Giving keys another value.

use super::{Held, OutOfOrder};
use crate::hash::Placement;
use crate::memory::Medium;
use crate::table::pea::Table;
use crate::table::pea::bucket::{Bucket, Flag, Item};
use crate::table::pea::geometry::{Strategy, fingerprint};
use crate::table::pea::values::Pointer;

impl<P: Placement, M: Medium> Table<P, M> {
    /// Stores another value of a key.
    #[inline]
    pub(crate) fn insert_value(&self, word: u64, value: u64) {
        self.change(word, |held, is_refused| self.insert_held(held, value, is_refused));
        self.registry.count::<crate::sync::Shared>(1);
    }

    /// `None` if there is no room under the segment's strategy.
    fn insert_held(
        &self,
        held: &mut Held<'_>,
        value: u64,
        is_refused: bool,
    ) -> Result<Option<()>, OutOfOrder> {
        let item = Item {
            fingerprint: fingerprint(held.hash),
            tag: held.tag,
            second: value,
            is_pointer: false,
        };
        if self.append(held.first, item) {
            return Ok(Some(()));
        }
        let strategy = held.found.entry.strategy();
        if strategy == Strategy::Single {
            if self.add(held.first, item) {
                return Ok(Some(()));
            }
        } else {
            held.lock_second()?;
            let free = |bucket: &Bucket| bucket.header().free_slots();
            let has_second = held.first.header().has(Flag::Second);
            if has_second && self.append(held.second, item) {
                return Ok(Some(()));
            }
            let in_second = free(held.second) > free(held.first);
            if !in_second && self.add(held.first, item) {
                return Ok(Some(()));
            }
            let second = held.second;
            if self.add(second, item) {
                held.first.set(&self.medium, Flag::Second);
                return Ok(Some(()));
            }
        }
        if strategy == Strategy::Stash {
            for bucket in self.lock_stash(held) {
                if self.append(bucket, item) || self.add(bucket, item) {
                    held.first.set(&self.medium, Flag::Stashed);
                    return Ok(Some(()));
                }
            }
        }
        if strategy == self.last_strategy() && (is_refused || self.is_degenerate(held.hash)) {
            held.first.set(&self.medium, Flag::Chained);
            // In RAM there is always room in chains.
            let _ = self.chains.push(held.hash, (item.tag, value));
            return Ok(Some(()));
        }
        Ok(None)
    }

    /// Puts a value into the buffer of its key, if that has one in the bucket.
    fn append(&self, bucket: &Bucket, item: Item) -> bool {
        let header = bucket.header();
        let pointers = header.pointers();
        header.matching(item.fingerprint).take_while(|&slot| slot < pointers).any(|slot| {
            let pointer = bucket.item(slot);
            if pointer.tag != item.tag {
                return false;
            }
            // Without memory for a larger buffer it is stored somewhere else.
            let appended = self.values().append(Pointer(pointer.second), item.second);
            appended.is_ok_and(|appended| {
                bucket.replace(&self.medium, slot, appended.0);
                true
            })
        })
    }

    /// Stores a value in a slot, if there is one or compaction makes one.
    fn add(&self, bucket: &Bucket, item: Item) -> bool {
        bucket.add(&self.medium, item)
            || self.compact_bucket(bucket)
                && (self.append(bucket, item) || bucket.add(&self.medium, item))
    }
}
