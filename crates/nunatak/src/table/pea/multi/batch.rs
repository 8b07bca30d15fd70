//! Batches over keys: operations in order, with overlapping memory accesses.
//!
//! Operations go in [groups](crate::table::shared::prefetch_groups) through four stages. They fetch
//! the key's version and the headers of its buckets; fetch the slots that match; fetch the buffer
//! that a slot points to; run the operation.

use super::find::Count;
use crate::entry::Inline;
use crate::error::Error;
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::memory::prefetch::{prefetch, prefetch_to_write};
use crate::sync::Ordering;
use crate::table::pea::Table;
use crate::table::pea::directory::Found;
use crate::table::pea::geometry::{Strategy, fingerprint, first_bucket, second_bucket};
use crate::table::pea::multi::values::Pointer;
use crate::table::shared::bucket::{Bucket, BucketHeader, Header, Layout};
use crate::table::shared::prefetch_groups::StageDelays;

/// The delays of an operation's stages: fetching the slots, fetching the buffer, running.
const DELAYS: StageDelays<3> = StageDelays { near: [2, 3, 4], far: [3, 5, 7] };
const RING: usize = DELAYS.ring();

/// State of an operation before its turn.
#[derive(Clone, Copy)]
struct Ahead<'t> {
    hash: u64,
    /// The entry when the headers were fetched.
    found: Found<'t>,
}

impl<P: HashCodec, M: Medium> Table<P, M> {
    /// Runs `step` for every key of a batch, in order, while later keys' lines are fetched.
    #[inline(always)]
    fn for_each_key<'t, const CHANGES: bool>(
        &'t self,
        count: usize,
        word: impl Fn(usize) -> u64,
        mut step: impl FnMut(usize, u64, Ahead<'t>),
    ) {
        let fetch = |address| if CHANGES { prefetch_to_write(address) } else { prefetch(address) };
        let mut ring = [Ahead { hash: 0, found: self.directories.find(0) }; RING];
        let (groups, [slot_lag, buffer_lag, step_lag]) = DELAYS.groups(count);
        for turn in groups.turns() {
            for at in groups.at(turn, 0) {
                let hash = self.codec.hash(word(at));
                ring[at % RING] = Ahead { hash, found: self.locate(hash) };
            }
            for at in groups.at(turn, 0) {
                let ahead = ring[at % RING];
                let segment = ahead.found.entry.segment();
                for place in self.places(ahead) {
                    prefetch(core::ptr::from_ref(self.segments.version(segment, place).1));
                    fetch(self.segments.address(segment, place));
                }
            }
            for at in groups.at(turn, slot_lag) {
                self.prefetch_slots::<CHANGES>(ring[at % RING]);
            }
            for at in groups.at(turn, buffer_lag) {
                self.prefetch_buffers::<CHANGES>(ring[at % RING]);
            }
            for at in groups.at(turn, step_lag) {
                step(at, word(at), ring[at % RING]);
            }
        }
    }

    /// Iterates over the buckets that a key may be in, without the stash.
    #[inline(always)]
    fn places(&self, Ahead { hash, found }: Ahead<'_>) -> impl Iterator<Item = usize> {
        let mask = self.mask();
        let second = (found.entry.strategy() > Strategy::Single).then(|| second_bucket(hash, mask));
        core::iter::once(first_bucket(hash, mask)).chain(second)
    }

    #[inline(always)]
    fn buckets(&self, ahead: Ahead<'_>) -> impl Iterator<Item = (&Bucket, BucketHeader)> {
        let bucket = move |place| self.segments.bucket(ahead.found.entry.segment(), place);
        self.places(ahead).map(bucket).map(|bucket| (bucket, bucket.header()))
    }

    /// Fetches the slots that may be a key's. For a change fetches only the first, or a free slot.
    #[inline(always)]
    fn prefetch_slots<const CHANGES: bool>(&self, ahead: Ahead<'_>) {
        for (bucket, header) in self.buckets(ahead) {
            let mut slots = header.matching(fingerprint(ahead.hash));
            if CHANGES {
                let slot = slots.next().or_else(|| header.matching(0).next());
                prefetch_to_write(bucket.slot(slot.unwrap_or(0)));
            } else {
                slots.for_each(|slot| prefetch(bucket.slot(slot)));
            }
        }
    }

    #[inline(always)]
    fn prefetch_buffers<const CHANGES: bool>(&self, ahead: Ahead<'_>) {
        for (bucket, header) in self.buckets(ahead) {
            let Some(slot) = header.matching(fingerprint(ahead.hash)).next() else { continue };
            let slot_of_key = bucket.slot(slot);
            // Relaxed: only an address to prefetch.
            let marking = self.marking();
            let is_marked = || marking.is_pointer(slot_of_key.load_first(Ordering::Relaxed));
            if slot >= header.pointers(marking) && !(M::IS_DURABLE && is_marked()) {
                continue;
            }
            let pointer = Pointer(slot_of_key.load_second(Ordering::Relaxed));
            let values = self.values();
            if M::IS_PAGED && !values.is_mapped(pointer) {
                // The pointer is not valid: the page that `address` would look up may not exist.
                continue;
            }
            if CHANGES {
                prefetch_to_write(values.end(pointer));
            } else {
                // Copying fetches the rest.
                let (first, lines) = values.lines(pointer);
                (0..lines.min(8)).for_each(|line| prefetch(first.wrapping_add(line * 64)));
            }
        }
    }

    /// Stores values of keys, in order.
    ///
    /// # Errors
    /// As of [`insert_value`](Self::insert_value), if any insert fails.
    pub(crate) fn insert_values(
        &self,
        count: usize,
        pair: impl Fn(usize) -> (u64, u64),
    ) -> Result<(), Error> {
        let mut result = Ok(());
        self.for_each_key::<true>(
            count,
            |at| pair(at).0,
            |at, word, Ahead { hash, found }| {
                if result.is_ok() {
                    result = self.insert_hashed::<false>(Some(found), (hash, word), pair(at).1);
                }
            },
        );
        result
    }

    /// Stores values of keys that do not have equal ones, in order, and returns how many were stored.
    ///
    /// # Errors
    /// As of [`insert_absent`](Self::insert_absent), if any insert fails.
    pub(crate) fn insert_absent_values(
        &self,
        count: usize,
        pair: impl Fn(usize) -> (u64, u64),
    ) -> Result<usize, Error> {
        let mut result = Ok(0);
        self.for_each_key::<true>(
            count,
            |at| pair(at).0,
            |at, word, Ahead { hash, found }| {
                if let Ok(stored) = result {
                    let key = (hash, word);
                    let is_new = self.insert_absent_hashed::<false>(Some(found), key, pair(at).1);
                    result = is_new.map(|is_new| stored + usize::from(is_new));
                }
            },
        );
        result
    }

    /// Appends all values of each key. After each key tells how many values `to` has.
    pub(crate) fn copy_values_of<V: Inline>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        to: &mut Vec<V>,
        mut copied: impl FnMut(usize, usize),
    ) {
        self.for_each_key::<false>(count, word, |at, word, Ahead { hash, .. }| {
            self.copy_hashed::<false, _>(hash, word, to);
            copied(at, to.len());
        });
    }

    /// Returns the number of values of each key.
    pub(crate) fn count_values_of(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        mut counted: impl FnMut(usize, usize),
    ) {
        self.for_each_key::<false>(count, word, |at, word, Ahead { hash, .. }| {
            let mut count = Count::default();
            self.visit::<false>(hash, word, &mut count);
            counted(at, count.total());
        });
    }

    /// Removes all values of each key, and tells how many there were.
    pub(crate) fn remove_values_of(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        mut removed: impl FnMut(usize, usize),
    ) {
        self.for_each_key::<true>(count, word, |at, word, Ahead { hash, found }| {
            removed(at, self.remove_hashed::<false>(Some(found), (hash, word)));
        });
    }
}
