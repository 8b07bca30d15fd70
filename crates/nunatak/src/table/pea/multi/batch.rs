//! Batches over keys: the operations in order, the memory accesses overlapped.
//!
//! They go in [groups](crate::table::shared::prefetch_groups) through four stages: a key's version and the headers
//! of its buckets are fetched; the slots that these tell of; the buffer that a slot points to; and
//! the operation is executed.

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

/// When an operation's slots are fetched, its buffer, and it is executed.
const DELAYS: StageDelays<3> = StageDelays { near: [2, 3, 4], far: [3, 5, 7] };
const RING: usize = DELAYS.ring();

/// What is known of an operation before its turn.
#[derive(Clone, Copy)]
struct Ahead<'t> {
    hash: u64,
    /// As it was when the headers were fetched.
    found: Found<'t>,
}

impl<P: HashCodec, M: Medium> Table<P, M> {
    /// Runs `step` for every key of a batch, in order, while the lines of later ones are fetched.
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

    /// The buckets that a key may be in, but for the stash.
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

    /// Fetches the slots that may be a key's; for a change the first of them, or one that is free.
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
            let is_marked = || self.marking().is_pointer(slot_of_key.load_first(Ordering::Relaxed));
            if slot >= header.pointers() && !(M::IS_DURABLE && is_marked()) {
                continue;
            }
            let pointer = Pointer(slot_of_key.load_second(Ordering::Relaxed));
            let values = self.values();
            if M::IS_PAGED && !values.is_mapped(pointer) {
                // It is looked for by its page, of which there is none.
                continue;
            }
            if CHANGES {
                prefetch_to_write(values.end(pointer));
            } else {
                // The rest is fetched while it is copied.
                let (first, lines) = values.lines(pointer);
                (0..lines.min(8)).for_each(|line| prefetch(first.wrapping_add(line * 64)));
            }
        }
    }

    /// Stores values of keys, in order.
    ///
    /// # Errors
    /// As [`insert_value`](Self::insert_value), of any of them.
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

    /// Appends all values of each key, and says after each how many there are.
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

    /// How many values each key has.
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

    /// Takes all values of each key out, and says how many there were.
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
