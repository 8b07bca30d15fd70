//! Batches over keys: the operations in order, the memory accesses overlapped.
//!
//! They go in [groups](crate::table::groups) through three stages: a key's version and all of
//! its buckets are fetched; the buffer that a slot points to; and the operation is executed.

use super::find::Count;
use crate::entry::Inline;
use crate::error::Error;
use crate::hash::Placement;
use crate::memory::Medium;
use crate::memory::prefetch::{prefetch, prefetch_to_write};
use crate::sync::Ordering;
use crate::table::groups::{Groups, ring};
use crate::table::pea::Table;
use crate::table::pea::geometry::{Entry, Strategy, fingerprint, first_bucket, second_bucket};
use crate::table::pea::layout::{Header, Layout};
use crate::table::pea::values::Pointer;

/// How many groups later than its buckets an operation's buffer is fetched, and it is executed.
const BUFFER_LAG: usize = 2;
const STEP_LAG: usize = BUFFER_LAG + 1;
const RING: usize = ring(STEP_LAG);

impl<P: Placement, M: Medium> Table<P, M> {
    /// Runs `step` for every key of a batch, in order, with its hash, while the lines of
    /// later ones are fetched.
    #[inline(always)]
    fn for_each_key<const CHANGES: bool>(
        &self,
        count: usize,
        word: impl Fn(usize) -> u64,
        mut step: impl FnMut(usize, u64, u64),
    ) {
        let mut ring = [(0_u64, Entry(0)); RING];
        let groups = Groups::new(count);
        for turn in groups.turns(STEP_LAG) {
            for at in groups.at(turn, 0) {
                let hash = self.placement.hash(word(at));
                let entry = self.locate(hash).entry;
                ring[at % RING] = (hash, entry);
                for place in self.places(hash, entry) {
                    prefetch(core::ptr::from_ref(self.segments.version(entry.segment(), place).1));
                    self.prefetch_bucket::<CHANGES>(entry.segment(), place);
                }
            }
            for at in groups.at(turn, BUFFER_LAG) {
                self.prefetch_buffers::<CHANGES>(ring[at % RING]);
            }
            for at in groups.at(turn, STEP_LAG) {
                step(at, word(at), ring[at % RING].0);
            }
        }
    }

    /// The buckets that a key may be in, but for the stash.
    #[inline(always)]
    fn places(&self, hash: u64, entry: Entry) -> impl Iterator<Item = usize> {
        let mask = self.mask();
        let second = (entry.strategy() > Strategy::Single).then(|| second_bucket(hash, mask));
        core::iter::once(first_bucket(hash, mask)).chain(second)
    }

    #[inline(always)]
    fn prefetch_buffers<const CHANGES: bool>(&self, (hash, entry): (u64, Entry)) {
        for place in self.places(hash, entry) {
            let bucket = self.segments.bucket(entry.segment(), place);
            let header = bucket.header();
            let Some(slot) = header.matching(fingerprint(hash)).next() else { continue };
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
            |at, word, hash| {
                if result.is_ok() {
                    result = self.insert_hashed::<false>(hash, word, pair(at).1);
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
        self.for_each_key::<false>(count, word, |at, word, hash| {
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
        self.for_each_key::<false>(count, word, |at, word, hash| {
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
        self.for_each_key::<true>(count, word, |at, word, hash| {
            removed(at, self.remove_hashed::<false>(hash, word));
        });
    }
}
