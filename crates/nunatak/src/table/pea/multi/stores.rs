//! Stores of several words, crash-atomic in durable tables.

use super::{Interrupted, LockedBuckets};
use crate::hash::HashCodec;
use crate::memory::Medium;
use crate::sync::{AtomicPair, AtomicU64, Ordering};
use crate::table::pea::Table;
use crate::table::pea::multi::log::{Location, MOST, Place};
use crate::table::pea::segments::STASH;

/// A word of a table.
#[derive(Debug, Clone, Copy)]
enum Word<'t> {
    First(&'t AtomicPair),
    Second(&'t AtomicPair),
    Value(&'t AtomicU64),
}

impl<P: HashCodec, M: Medium> Table<P, M> {
    /// Returns the word at a location, which must be valid.
    fn word_at(&self, location: Location) -> Word<'_> {
        let of = |slot, word| if word == 0 { Word::First(slot) } else { Word::Second(slot) };
        match location {
            Location::Bucket { bucket, slot, word } => {
                let per_segment = self.segments.per_segment;
                let (segment, place) = (bucket / per_segment, bucket % per_segment);
                of(self.segments.bucket(segment, place).slot(slot), word)
            }
            Location::Stash { bucket, slot, word } => {
                of(self.segments.stash(bucket / STASH)[bucket % STASH].slot(slot), word)
            }
            Location::Chain { slot, word } => match self.chains.slots().at(slot) {
                Some(pair) => of(pair, word),
                None => unreachable!("chains in RAM have no slots"),
            },
            Location::Value(word) => Word::Value(self.values().word(word)),
        }
    }

    /// Stores words, and makes them durable.
    pub(in crate::table::pea) fn store_words(&self, stores: &[(Location, u64)]) {
        for &(location, word) in stores {
            // Release for slots, which publishes the values that they point to. Relaxed for values,
            // which are stored before.
            match self.word_at(location) {
                Word::First(slot) => self.medium.store_first(slot, word, Ordering::Release),
                Word::Second(slot) => self.medium.store_second(slot, word, Ordering::Release),
                Word::Value(value) => self.medium.store_word(value, word, Ordering::Relaxed),
            }
        }
        if M::IS_DURABLE {
            let mut last = None;
            for &(location, _) in stores {
                let address = match self.word_at(location) {
                    Word::First(slot) | Word::Second(slot) => {
                        core::ptr::from_ref(slot).cast::<u8>()
                    }
                    Word::Value(value) => core::ptr::from_ref(value).cast(),
                };
                // Words of one line follow each other in `stores`.
                let line = address.addr() / 64;
                if last.replace(line) != Some(line) {
                    self.medium.flush(address, size_of::<u64>());
                }
            }
            self.medium.fence();
        }
    }

    /// Stores words that a key's locks protect, so that a crash leaves all of them stored or none.
    /// (If there are more than a record of the log holds, stores a record's worth at a time: values
    /// in chains because memory was refused.)
    pub(super) fn store_at_once(&self, hash: u64, stores: &[(Location, u64)]) {
        match &self.duplicates().log {
            Some(log) if stores.len() > 1 => {
                for stores in stores.chunks(MOST) {
                    let places = stores.iter().map(|&(location, word)| (Place::of(location), word));
                    let places: Vec<_> = places.collect();
                    log.run(hash, &places, || self.store_words(stores));
                }
            }
            _ => self.store_words(stores),
        }
    }

    /// Makes the log writable for [`store_at_once`](Self::store_at_once).
    pub(super) fn open_log(&self, held: &LockedBuckets<'_, M>) -> Result<(), Interrupted> {
        match &self.duplicates().log {
            Some(log) => log.make_writable(held.hash).map_err(|_| Interrupted::NoRoom),
            None => Ok(()),
        }
    }
}
