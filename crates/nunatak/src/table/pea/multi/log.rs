//! A redo log, which makes changes of several words crash-atomic.
//!
//! Most changes of a durable table are one store. For other changes, first the words and their
//! places become durable in the log. Then the words are stored. When they are durable, the log is
//! emptied, and only then the locks of the changed words are released. So recovery can repeat what
//! the log says, whatever part of it was done before.
//!
//! ```text
//! record   how many words, 0        as many words as fit one cache line are written
//!          place, word              with the number, in this order; more of them before
//!          …
//! place    63 … 56   55 … 0
//!          | part    | number of the word in it |
//! ```
//!
//! There are a few records, so that threads seldom wait for each other. Behind them is what a
//! closed table says of its value buffers: a number of words, and the words.
//!
//! Invariants
//! 1. The holder of a record's lock fills the record. It is empty when the lock is released.
//! 2. The thread that fills a record holds the locks of all words that the record names.
//!
//! Words are stored relaxed: they are read when the table is opened. Their order is the order of
//! the flushes and fences, or of the program.

use crate::error::Error;
use crate::memory::{Addresses, Medium, Part, ReservedArray};
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicPair, Mutex, Ordering::Relaxed, Ordering::Release};
use crate::table::shared::bucket::SLOTS;

const RECORDS: usize = if cfg!(modelled) { 1 } else { 16 };

/// Pairs of a record, which is a page.
const PAIRS: usize = if cfg!(modelled) { 64 } else { 256 };

/// The most words of a record.
pub(in crate::table::pea) const MOST: usize = PAIRS - 1;

/// The words that share a cache line with the number of words.
const IN_LINE: usize = 3;

/// The words about buffers that there are addresses for.
const MOST_SAVED: usize = if cfg!(modelled) { 2 } else { 1 << 28 };

const PART_SHIFT: u32 = 56;

/// Words of a bucket, header included.
const BUCKET_WORDS: usize = 2 + 2 * SLOTS;

/// The place of a word of a durable table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::table::pea) struct Place(u64);

/// The meaning of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::table::pea) enum Location {
    /// The first or second word of a slot in a bucket, by the bucket's number.
    Bucket { bucket: usize, slot: usize, word: usize },
    /// The same in a stash bucket.
    Stash { bucket: usize, slot: usize, word: usize },
    /// A word of a slot in the chains.
    Chain { slot: usize, word: usize },
    /// A word of a value buffer.
    Value(usize),
}

impl Place {
    fn new(part: Part, number: usize) -> Self {
        Self((part as u64) << PART_SHIFT | number as u64)
    }

    pub(in crate::table::pea) fn of(location: Location) -> Self {
        let in_bucket = |slot, word| 2 + 2 * slot + word;
        match location {
            Location::Bucket { bucket, slot, word } => {
                Self::new(Part::Front, bucket * BUCKET_WORDS + in_bucket(slot, word))
            }
            Location::Stash { bucket, slot, word } => {
                Self::new(Part::Back, bucket * BUCKET_WORDS + in_bucket(slot, word))
            }
            Location::Chain { slot, word } => Self::new(Part::Chains, 2 * slot + word),
            Location::Value(word) => Self::new(Part::Values, word),
        }
    }

    #[cfg(durable)]
    pub(in crate::table::pea) fn location(self) -> Option<Location> {
        let number = (self.0 & ((1 << PART_SHIFT) - 1)) as usize;
        let (bucket, rest) = (number / BUCKET_WORDS, number % BUCKET_WORDS);
        let in_slot = rest.checked_sub(2).map(|rest| (rest / 2, rest % 2));
        match self.0 >> PART_SHIFT {
            part if part == Part::Front as u64 => {
                in_slot.map(|(slot, word)| Location::Bucket { bucket, slot, word })
            }
            part if part == Part::Back as u64 => {
                in_slot.map(|(slot, word)| Location::Stash { bucket, slot, word })
            }
            part if part == Part::Chains as u64 => {
                Some(Location::Chain { slot: number / 2, word: number % 2 })
            }
            part if part == Part::Values as u64 => Some(Location::Value(number)),
            _ => None,
        }
    }
}

/// A word to be stored, and its place.
pub(in crate::table::pea) type Store = (Place, u64);

#[derive(Debug)]
pub(in crate::table::pea) struct Log<M: Medium> {
    medium: M,
    pairs: ReservedArray<AtomicPair, M>,
    locks: [Mutex<()>; RECORDS],
}

impl<M: Medium> Log<M> {
    pub(in crate::table::pea) fn new(medium: &M) -> Result<Self, Error> {
        let saved = Addresses::at_most::<AtomicPair>(MOST_SAVED);
        let pairs = ReservedArray::within(medium, Part::Log, 0, RECORDS * PAIRS + saved)?;
        pairs.grow(RECORDS * PAIRS + 1)?;
        let locks = core::array::from_fn(|_| Mutex::new(()));
        Ok(Self { medium: medium.clone(), pairs, locks })
    }

    /// Makes the record for a hash writable.
    pub(in crate::table::pea) fn make_writable(&self, hash: u64) -> Result<(), Error> {
        self.pairs.make_writable(hash as usize % RECORDS * PAIRS)
    }

    /// Runs `store`, which stores the words and makes them durable, so that a crash leaves all of
    /// them stored or none. At most [`MOST`] words.
    pub(in crate::table::pea) fn run(&self, hash: u64, stores: &[Store], store: impl FnOnce()) {
        debug_assert!((1..=MOST).contains(&stores.len()));
        let record = hash as usize % RECORDS;
        let _held = self.locks[record].lock();
        let first = record * PAIRS;
        for (at, &(place, word)) in stores.iter().enumerate() {
            let pair = self.pairs.at(first + 1 + at);
            self.medium.store_second(pair, word, Relaxed);
            self.medium.store_first(pair, place.0, Relaxed);
        }
        if stores.len() > IN_LINE && !seeded(Bug::LogUnflushed) {
            self.medium.flush(self.pairs.address(first), 1 + stores.len());
            self.medium.fence();
        }
        let count = self.pairs.at(first);
        self.say(count, stores.len() as u64, seeded(Bug::LogUnfenced));
        store();
        if !seeded(Bug::LogNotEmptied) {
            self.say(count, 0, false);
        }
    }

    /// Stores the number of words of a record, durably.
    fn say(&self, count: &AtomicPair, words: u64, is_late: bool) {
        // Release: after the words, for a reader of what a killed process leaves.
        self.medium.store_first(count, words, Release);
        self.medium.flush(count, 1);
        if !is_late {
            self.medium.fence();
        }
    }

    pub(in crate::table::pea) fn usage(&self) -> crate::memory::MemoryUsage {
        self.pairs.usage()
    }

    /// Gives back what the medium knows of pages behind the last record.
    pub(in crate::table::pea) fn trim_map(&self) -> Result<(), Error> {
        self.pairs.trim_map()
    }
}

#[cfg(durable)]
impl<M: Medium> Log<M> {
    /// Returns the words of each record, which a crash may have kept from being stored.
    pub(in crate::table::pea) fn records(&self) -> Vec<Vec<Store>> {
        let record = |first: usize| {
            let count = self.pairs.at(first).load_first(Relaxed) as usize;
            let pairs = (0..count.min(MOST)).map(|at| self.pairs.at(first + 1 + at));
            pairs.map(|pair| (Place(pair.load_first(Relaxed)), pair.load_second(Relaxed))).collect()
        };
        (0..RECORDS).map(|number| record(number * PAIRS)).collect()
    }

    /// Allocates the pages of all records, so that no change is refused one.
    pub(in crate::table::pea) fn make_present(&self) -> Result<(), Error> {
        (0..=RECORDS).try_for_each(|record| self.pairs.make_present(record * PAIRS))
    }

    /// Empties all records. Their words are durable.
    pub(in crate::table::pea) fn empty(&self) -> Result<(), Error> {
        for first in (0..RECORDS).map(|number| number * PAIRS) {
            if self.pairs.at(first).load_first(Relaxed) != 0 {
                self.pairs.make_writable(first)?;
                self.say(self.pairs.at(first), 0, false);
            }
        }
        Ok(())
    }

    /// Saves words for the next open of the table, or saves that there are none.
    pub(in crate::table::pea) fn save(&self, words: Option<&[u64]>) -> Result<(), Error> {
        crate::memory::save(&self.medium, &self.pairs, RECORDS * PAIRS, words)
    }

    /// Returns the saved words, if there are any.
    pub(in crate::table::pea) fn saved(&self) -> Option<Vec<u64>> {
        crate::memory::saved(&self.pairs, RECORDS * PAIRS)
    }
}

#[cfg(durable)]
impl Log<crate::memory::durable::Paged> {
    /// Returns an error if a map names pages that are not in the file.
    pub(in crate::table::pea) fn check(&self) -> Result<(), Error> {
        self.pairs.region().check()
    }
}

#[cfg(all(test, durable))]
mod tests {
    use super::*;

    #[test]
    fn places_say_where_words_are() {
        for location in [
            Location::Bucket { bucket: 7, slot: 14, word: 1 },
            Location::Bucket { bucket: 1 << 40, slot: 0, word: 0 },
            Location::Stash { bucket: 3, slot: 2, word: 1 },
            Location::Chain { slot: 5, word: 0 },
            Location::Value(1 << 50),
        ] {
            assert_eq!(Place::of(location).location(), Some(location));
        }
        assert_eq!(Place::new(Part::Front, BUCKET_WORDS + 1).location(), None, "a header");
        assert_eq!(Place(0).location(), None);
        assert_eq!(Place(u64::MAX).location(), None);
    }
}
