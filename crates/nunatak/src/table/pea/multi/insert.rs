//! Inserts of values.

use super::{At, Interrupted, LockedBuckets, STASHES};
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::sync::Shared;
use crate::table::pea::Table;
use crate::table::pea::directory::Found;
use crate::table::pea::geometry::{Strategy, fingerprint};
use crate::table::pea::multi::values::Pointer;
use crate::table::shared::bucket::{Flag, Header, Layout, Marking};

impl<P: HashCodec, M: Medium> Table<P, M> {
    /// Stores one more value of a key.
    ///
    /// # Errors
    /// If a file has no room. In RAM the chains always have room.
    #[inline]
    pub(crate) fn insert_value(&self, word: u64, value: u64) -> Result<(), Error> {
        self.insert_hashed::<true>(None, (self.codec.hash(word), word), value)
    }

    /// Stores a value of a key whose hash is known. Fetches its buckets if `FETCHES`; otherwise
    /// they are on their way, and `ahead` was the key's entry.
    #[inline(always)]
    pub(super) fn insert_hashed<const FETCHES: bool>(
        &self,
        ahead: Option<Found<'_>>,
        key: (u64, u64),
        value: u64,
    ) -> Result<(), Error> {
        let inserted = self.change_once::<_, FETCHES>(ahead, key, |held| {
            match self.insert_in_first(held, value)? {
                true => Ok(Some(())),
                false => self.insert_held(held, value, false),
            }
        });
        if inserted.is_none() {
            let again =
                |held: &mut LockedBuckets<'_, M>, refused| self.insert_held(held, value, refused);
            self.change_again(key, again)?;
        }
        self.registry.count::<Shared>(1);
        Ok(())
    }

    /// Stores a value of a key unless the key has an equal one. Returns whether it was stored.
    ///
    /// # Errors
    /// As [`insert_value`](Self::insert_value).
    pub(crate) fn insert_absent(&self, word: u64, value: u64) -> Result<bool, Error> {
        self.insert_absent_hashed::<true>(None, (self.codec.hash(word), word), value)
    }

    /// As [`insert_absent`](Self::insert_absent), of a key whose hash is known; the parameters are
    /// those of [`insert_hashed`](Self::insert_hashed).
    pub(super) fn insert_absent_hashed<const FETCHES: bool>(
        &self,
        ahead: Option<Found<'_>>,
        key: (u64, u64),
        value: u64,
    ) -> Result<bool, Error> {
        // All changes to a key hold its first bucket, so the key gets no equal value in between.
        let attempt = |held: &mut LockedBuckets<'_, M>, is_refused| {
            if self.has_held(held, value)? {
                return Ok(Some(false));
            }
            Ok(self.insert_held(held, value, is_refused)?.map(|()| true))
        };
        let inserted = self.change_once::<_, FETCHES>(ahead, key, |held| attempt(held, false));
        let is_inserted = match inserted {
            Some(is_inserted) => is_inserted,
            None => self.change_again(key, attempt)?,
        };
        if is_inserted {
            self.registry.count::<Shared>(1);
        }
        Ok(is_inserted)
    }

    /// Stores a value in the first bucket, or in the buffer that the key has there, as most inserts
    /// do. Returns false if this is not possible.
    #[inline(always)]
    fn insert_in_first(
        &self,
        held: &mut LockedBuckets<'_, M>,
        value: u64,
    ) -> Result<bool, Interrupted> {
        held.open(At::First)?;
        if let Some((slot, pointer)) = self.pointer_in(held, At::First) {
            let Ok(Some(appended)) = self.values().append_behind(pointer, value) else {
                return Ok(false);
            };
            self.replace_pointer(held, (At::First, slot), appended);
            return Ok(true);
        }
        let is_single = held.found.entry.strategy() == Strategy::Single;
        Ok(is_single && self.put_value(held, At::First, value))
    }

    /// Stores a value anywhere. Returns `None` if the segment's strategy has no room.
    #[inline(never)]
    fn insert_held(
        &self,
        held: &mut LockedBuckets<'_, M>,
        value: u64,
        is_refused: bool,
    ) -> Result<Option<()>, Interrupted> {
        held.open(At::First)?;
        if self.append(held, At::First, value)? {
            return Ok(Some(()));
        }
        let strategy = held.found.entry.strategy();
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
            let free = |at| held.bucket(at).header().free_slots();
            let in_second = free(At::Second) > free(At::First);
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

    /// Returns the slot and the pointer of a key in a bucket, if it has one there.
    #[inline(always)]
    fn pointer_in(&self, held: &LockedBuckets<'_, M>, at: At) -> Option<(usize, Pointer)> {
        let bucket = held.bucket(at);
        let header = bucket.header();
        let marking = self.marking();
        let pointers = header.pointers(marking);
        header.matching(fingerprint(held.hash)).find_map(|slot| {
            if marking == Marking::Place && slot >= pointers {
                return None;
            }
            let item = bucket.item(marking, slot);
            (item.tag == held.tag && item.is_pointer).then_some((slot, Pointer(item.value_word)))
        })
    }

    #[inline(always)]
    fn replace_pointer(&self, held: &LockedBuckets<'_, M>, (at, slot): (At, usize), by: Pointer) {
        let bucket = held.bucket(at);
        bucket.replace(&self.medium, slot, by.0);
        bucket.persist_value(&self.medium, slot);
    }

    /// Appends a value to the key's buffer, if the bucket has a pointer to one.
    fn append(
        &self,
        held: &mut LockedBuckets<'_, M>,
        at: At,
        value: u64,
    ) -> Result<bool, Interrupted> {
        let Some((slot, pointer)) = self.pointer_in(held, at) else { return Ok(false) };
        held.open(at)?;
        // If a larger buffer is refused memory, the value is stored elsewhere.
        let Ok(appended) = self.values().append(pointer, value) else { return Ok(false) };
        self.replace_pointer(held, (at, slot), appended);
        self.values().replaced(pointer, appended);
        Ok(true)
    }

    /// Stores a value in a slot, or in a buffer that compaction made. The bucket is writable.
    fn add(
        &self,
        held: &mut LockedBuckets<'_, M>,
        at: At,
        value: u64,
    ) -> Result<bool, Interrupted> {
        Ok(self.put_value(held, at, value)
            || self.compact_held(held, at)?
                && (self.append(held, at, value)? || self.put_value(held, at, value)))
    }

    /// Stores a value in a free slot, if there is one.
    #[inline(always)]
    fn put_value(&self, held: &LockedBuckets<'_, M>, at: At, value: u64) -> bool {
        let (bucket, marking, tag) = (held.bucket(at), self.marking(), held.tag);
        let Some(slot) = bucket.header().matching(0).next() else { return false };
        let (second, is_pointer) = match marking.has_only_pointers(tag) {
            false => (value, false),
            true => match self.values().store(&[value]) {
                Ok(pointer) => (pointer.0, true),
                Err(_) => return false,
            },
        };
        let pair = (marking.word(tag, is_pointer), second);
        bucket.note_half(&self.medium, held.hash);
        bucket.put(&self.medium, slot, fingerprint(held.hash), pair);
        bucket.persist(&self.medium, slot);
        true
    }
}
