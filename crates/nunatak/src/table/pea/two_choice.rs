//! Inserts by two-choice hashing in RAM, in one of a key's two buckets.

use super::Table;
use super::directory::Found;
use super::geometry::{Strategy, fingerprint, second_bucket};
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::seeded::{Bug, seeded};
use crate::table::shared::attempts::Request;
use crate::table::shared::bucket::{Flag, Header, Layout};
use crate::table::shared::memoised_key_test::NO_ANSWERS;
use crate::table::shared::slot_branch::keep_apart;
use crate::table::{ByWord, KeyTest};

/// The result of an insert in one of two buckets.
pub(super) enum Either {
    Inserted,
    /// The key is in this slot of the second bucket.
    InSecond(usize),
    /// Nothing was done: there is no room, or the key may be elsewhere, or another thread has the lock.
    Elsewhere,
}

impl<P: HashCodec, M: Medium, L: Layout> Table<P, M, L> {
    /// Returns whether [`insert_in_either`](Self::insert_in_either) may be enough.
    #[inline(always)]
    pub(super) fn goes_to_either<T: KeyTest, F>(
        &self,
        found: Found<'_>,
        request: &Request<'_, T, F>,
    ) -> bool {
        // In a durable medium the second bucket may share a lock with the first, and pages move.
        T::BY_WORD
            && !M::IS_DURABLE
            && request.fresh.is_some()
            && found.entry.strategy() > Strategy::Single
    }

    /// Inserts a key that its first bucket does not have, whose lock the caller holds, by two-choice hashing.
    ///
    /// This is what `place_behind` and `insert_balanced` of [`apply`](super::apply) do for most
    /// inserts of a full table, in line and in half of their loads and instructions: so few that the processor gets to
    /// the next operation's buckets while it waits for these. It loads the first header and computes the second place
    /// again: with more values to keep it had more loads, and was slower (`docs/measurements.md`).
    #[inline(always)]
    pub(super) fn insert_in_either<const FETCHES: bool>(
        &self,
        first: &L,
        segment: usize,
        (hash, tag): (u64, u64),
        second: u64,
    ) -> Either {
        let other = self.segments.bucket(segment, second_bucket(hash, self.mask()));
        let (header, print) = (first.header(), fingerprint(hash));
        if header.has(Flag::Stashed) || header.has(Flag::Chained) {
            return Either::Elsewhere;
        }
        if header.has(Flag::Second) {
            let pair = |slot| self.segments.pair(other, slot, self.pairs_load_whole);
            let matching = other.header().matching(print);
            if let Ok(Some((slot, _))) = NO_ANSWERS.slot_of::<ByWord>(tag, matching, pair) {
                return Either::InSecond(slot);
            }
        }
        // Not in the order of locks, so without waiting.
        let is_unlocked = seeded(Bug::SecondUnlocked);
        if !is_unlocked && !other.try_lock() {
            return Either::Elsewhere;
        }
        let of_other = other.header();
        let pair = (tag, second);
        let inserted = if of_other.has_more_room_than(header)
            && let Some(slot) = of_other.matching(0).next()
        {
            if !seeded(Bug::SecondUnflagged) {
                first.set(&self.medium, Flag::Second);
            }
            self.put::<FETCHES>(other, slot, hash, pair);
            // Otherwise the compiler would select the bucket's address.
            keep_apart::<32>();
            Either::Inserted
        } else if let Some(slot) = header.matching(0).next() {
            self.put::<FETCHES>(first, slot, hash, pair);
            Either::Inserted
        } else {
            Either::Elsewhere
        };
        if !is_unlocked {
            other.unlock();
        }
        inserted
    }
}
