//! Giving keys another value.

use super::{At, Held, Interrupted, STASHES};
use crate::error::Error;
use crate::hash::Placement;
use crate::memory::Medium;
use crate::table::pea::Table;
use crate::table::pea::bucket::{Bucket, Flag, Item, Marking};
use crate::table::pea::geometry::{Strategy, fingerprint};
use crate::table::pea::layout::{Header, Layout};
use crate::table::pea::values::Pointer;

impl<P: Placement, M: Medium> Table<P, M> {
    /// Stores another value of a key.
    ///
    /// # Errors
    /// If there is no room in a file. In RAM there always is: in chains.
    #[inline]
    pub(crate) fn insert_value(&self, word: u64, value: u64) -> Result<(), Error> {
        self.insert_hashed::<true>(self.placement.hash(word), word, value)
    }

    /// The same, of a key whose hash is known, and whose buckets are to be fetched or are
    /// on their way.
    #[inline]
    pub(super) fn insert_hashed<const FETCHES: bool>(
        &self,
        hash: u64,
        word: u64,
        value: u64,
    ) -> Result<(), Error> {
        self.change::<_, FETCHES>(hash, word, |held, is_refused| {
            self.insert_held(held, value, is_refused)
        })?;
        self.registry.count::<crate::sync::Shared>(1);
        Ok(())
    }

    /// `None` if there is no room under the segment's strategy.
    fn insert_held(
        &self,
        held: &mut Held<'_, M>,
        value: u64,
        is_refused: bool,
    ) -> Result<Option<()>, Interrupted> {
        if self.append(held, At::First, value)? {
            return Ok(Some(()));
        }
        let strategy = held.found.entry.strategy();
        held.open(At::First)?;
        if strategy == Strategy::Single {
            if self.add(held, At::First, value)? {
                return Ok(Some(()));
            }
        } else {
            held.lock_second()?;
            if held.first.header().has(Flag::Second) && self.append(held, At::Second, value)? {
                return Ok(Some(()));
            }
            held.open(At::Second)?;
            let free = |bucket: &Bucket| bucket.header().free_slots();
            let in_second = free(held.second) > free(held.first);
            if !in_second && self.add(held, At::First, value)? {
                return Ok(Some(()));
            }
            if self.add(held, At::Second, value)? {
                held.first.set(&self.medium, Flag::Second);
                return Ok(Some(()));
            }
        }
        if strategy == Strategy::Stash {
            held.lock_stash();
            held.open(At::Stash(0))?;
            for at in STASHES {
                if self.append(held, at, value)? || self.add(held, at, value)? {
                    held.first.set(&self.medium, Flag::Stashed);
                    return Ok(Some(()));
                }
            }
        }
        if strategy == self.last_strategy() && (is_refused || self.is_degenerate(held.hash)) {
            held.first.set(&self.medium, Flag::Chained);
            return self.push_chained(held, value).map(Some);
        }
        Ok(None)
    }

    /// Puts a value into the buffer of its key, if that has one in the bucket.
    fn append(&self, held: &mut Held<'_, M>, at: At, value: u64) -> Result<bool, Interrupted> {
        let bucket = held.bucket(at);
        let header = bucket.header();
        let (marking, pointers) = (self.marking(), header.pointers());
        let found = header.matching(fingerprint(held.hash)).find_map(|slot| {
            if marking == Marking::Place && slot >= pointers {
                return None;
            }
            let item = bucket.item(marking, slot);
            (item.tag == held.tag && item.is_pointer).then_some((slot, Pointer(item.second)))
        });
        let Some((slot, pointer)) = found else { return Ok(false) };
        held.open(at)?;
        // Without memory for a larger buffer it is stored somewhere else.
        let Ok(appended) = self.values().append(pointer, value) else { return Ok(false) };
        let bucket = held.bucket(at);
        bucket.replace(&self.medium, slot, appended.0);
        bucket.persist_value(&self.medium, slot);
        self.values().replaced(pointer, appended);
        Ok(true)
    }

    /// Stores a value in a slot, if there is one or compaction makes one. The bucket may
    /// be changed.
    fn add(&self, held: &mut Held<'_, M>, at: At, value: u64) -> Result<bool, Interrupted> {
        Ok(self.put_value(held, at, value)
            || self.compact_held(held, at)?
                && (self.append(held, at, value)? || self.put_value(held, at, value)))
    }

    /// Stores a value in a slot, if there is one.
    fn put_value(&self, held: &Held<'_, M>, at: At, value: u64) -> bool {
        let (bucket, marking) = (held.bucket(at), self.marking());
        let (fingerprint, tag) = (fingerprint(held.hash), held.tag);
        let mut item = Item { fingerprint, tag, second: value, is_pointer: false };
        if marking.has_only_pointers(tag) && bucket.header().free_slots() > 0 {
            let Ok(pointer) = self.values().store(&[value]) else { return false };
            item = Item { second: pointer.0, is_pointer: true, ..item };
        }
        match bucket.add(&self.medium, marking, item) {
            Some(slot) => {
                bucket.persist(&self.medium, slot);
                true
            }
            None => false,
        }
    }
}
