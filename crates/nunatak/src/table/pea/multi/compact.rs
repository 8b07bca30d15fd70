//! Bucket compaction: the values of a key become one slot.

use crate::hash::Placement;
use crate::memory::Medium;
use crate::table::pea::Table;
use crate::table::pea::bucket::{Bucket, Item};

/// How many values of a key are worth a buffer. The paper takes any two, which makes 32
/// bytes 272: the average utility is 0.44 to 0.41 then, by skew, instead of 0.48 to 0.47.
const LEAST: usize = if cfg!(any(loom, shuttle)) { 2 } else { 4 };

impl<P: Placement, M: Medium> Table<P, M> {
    /// Gives keys that have several values in a bucket buffers; whether there is more
    /// room then. The caller holds its lock, or nobody else has it.
    #[cold]
    pub(in crate::table::pea) fn compact_bucket(&self, bucket: &Bucket) -> bool {
        let Some(duplicates) = &self.duplicates else { return false };
        let mut items: Vec<Item> = bucket.items().collect();
        // Those of a key side by side, and its pointer before its values.
        items.sort_by_key(|item| (item.tag, !item.is_pointer));
        let mut kept = Vec::with_capacity(items.len());
        for of_key in items.chunk_by(|a, b| a.tag == b.tag) {
            let first = of_key[0];
            let values: Vec<u64> =
                of_key.iter().filter(|item| !item.is_pointer).map(|item| item.second).collect();
            // What is refused memory stays where it is.
            let pointer = match first.is_pointer {
                false if values.len() < LEAST => None,
                false => duplicates.values.store(&values).ok(),
                true => None,
            };
            match pointer {
                Some(pointer) => {
                    kept.push(Item { second: pointer.0, is_pointer: true, ..first });
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
