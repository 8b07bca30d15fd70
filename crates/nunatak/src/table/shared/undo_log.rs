//! What a batch of changes has replaced, so that a crash in its middle takes back all of it.
//!
//! Before a change is made, its record is durable: the key's word, and its value words before and
//! after. When all changes are durable, the log is emptied by one store. So a log with records
//! belongs to a batch that has not ended, whatever part of its last change was made.
//!
//! ```text
//! pair 0          number of records (low half) and its checksum (high half); 0
//! pairs of one    word, which value words there are (1: before, 2: after) and a checksum (62 bits)
//!                 value word before, value word after
//! ```
//!
//! Invariants
//! 1. A thread that is alone with the table stores records; no other thread changes a key between
//!    the record and the end of the batch.
//! 2. The number of records is stored after the record, and durable before the change.
//!
//! Words are stored relaxed, except for the number: they are read when the table is opened, or by
//! the thread itself.

use crate::error::{Error, FileError};
use crate::memory::{Addresses, Finder, Medium, MemoryUsage, Part, ReservedArray};
use crate::seeded::{Bug, seeded};
use crate::sync::{AtomicPair, Ordering::Relaxed, Ordering::Release};
use xxhash_rust::xxh3::xxh3_64;

/// The most records that there are addresses for.
const MOST: usize = 1 << 28;

const BEFORE: u64 = 1;
const AFTER: u64 = 2;

/// Returns the word that says a number of records.
fn word_of_len(records: u64) -> u64 {
    match records {
        0 => 0,
        _ => xxh3_64(&records.to_le_bytes()) << 32 | records,
    }
}

/// Returns the second word of a record's first pair.
fn which(word: u64, before: Option<u64>, after: Option<u64>) -> u64 {
    let flag = |value: Option<u64>, flag: u64| value.map_or(0, |_| flag);
    let flags = flag(before, BEFORE) | flag(after, AFTER);
    let mut bytes = [0; 32];
    let words = [word, before.unwrap_or(0), after.unwrap_or(0), flags];
    bytes
        .chunks_exact_mut(8)
        .zip(words)
        .for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
    xxh3_64(&bytes) & !(BEFORE | AFTER) | flags
}

/// A change of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replaced {
    /// The key's word.
    pub(crate) word: u64,
    /// Its value word before the change, if it was present.
    pub(crate) before: Option<u64>,
    /// Its value word after the change, if it is present then.
    pub(crate) after: Option<u64>,
}

impl Replaced {
    /// Tells the finder that the change was taken back; `found` is the value word that the key had.
    pub(in crate::table) fn tell(&self, found: Option<u64>, finder: &dyn Finder) {
        if found != self.before {
            // If the place is taken already, the file is damaged, and `verify` says so.
            let _ = self.before.map(|before| finder.find(before));
            if let Some(after) = found {
                finder.forget(after);
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct UndoLog<M: Medium> {
    medium: M,
    pairs: ReservedArray<AtomicPair, M>,
}

impl<M: Medium> UndoLog<M> {
    pub(in crate::table) fn new(medium: &M) -> Result<Self, Error> {
        let most = Addresses::at_most::<AtomicPair>(2 * MOST);
        let pairs = ReservedArray::within(medium, Part::Undo, 0, 1 + most)?;
        Ok(Self { medium: medium.clone(), pairs })
    }

    /// Makes room for the records of a batch.
    pub(crate) fn reserve(&self, records: usize) -> Result<(), Error> {
        let pairs = records.checked_mul(2).ok_or(Error::CapacityOverflow)?;
        self.pairs.grow(1 + pairs)
    }

    /// Adds a record, durably. The caller has announced an operation, and made room.
    pub(crate) fn push(&self, at: usize, replaced: &Replaced) -> Result<(), Error> {
        let first = 1 + 2 * at;
        for pair in [0, first, first + 1] {
            self.pairs.make_writable(pair)?;
        }
        let Replaced { word, before, after } = *replaced;
        let values = (before.unwrap_or(0), after.unwrap_or(0));
        let all = [(first, (word, which(word, before, after))), (first + 1, values)];
        for (at, (one, other)) in all {
            let pair = self.pairs.at(at);
            self.medium.store_second(pair, other, Relaxed);
            self.medium.store_first(pair, one, Relaxed);
            if !seeded(Bug::UndoUnflushed) {
                self.medium.flush(pair, 1);
            }
        }
        if !seeded(Bug::UndoUnfenced) {
            self.medium.fence();
        }
        self.set_len(at + 1);
        Ok(())
    }

    fn set_len(&self, records: usize) {
        // Release: after the record, or after the changes, for the reader of what a killed process
        // leaves.
        self.medium.store_first(self.pairs.at(0), word_of_len(records as u64), Release);
        self.medium.flush(self.pairs.at(0), 1);
        if !seeded(Bug::UndoLengthUnfenced) {
            self.medium.fence();
        }
    }

    /// Empties the log: the batch has ended, or was taken back. The caller has announced an
    /// operation.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        if !self.is_empty() && !seeded(Bug::UndoNotEmptied) {
            self.pairs.make_writable(0)?;
            self.set_len(0);
        }
        Ok(())
    }

    pub(in crate::table) fn is_empty(&self) -> bool {
        self.pairs.len() == 0 || self.pairs.at(0).load_first(Relaxed) == 0
    }

    /// Returns the records of a batch that has not ended, the last one first.
    ///
    /// # Errors
    /// If the log is damaged.
    pub(in crate::table) fn records(&self) -> Result<Vec<Replaced>, Error> {
        let damaged = Error::from(FileError::corrupt("the log of a batch is damaged"));
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let word = self.pairs.at(0).load_first(Relaxed);
        let count = word & u64::from(u32::MAX);
        let most = (self.pairs.len() - 1) / 2;
        if word != word_of_len(count) || count as usize > most {
            return Err(damaged);
        }
        let record = |at: usize| {
            let (first, second) = (self.pairs.at(1 + 2 * at), self.pairs.at(2 + 2 * at));
            let (word, flags) = (first.load_first(Relaxed), first.load_second(Relaxed));
            let before = (flags & BEFORE != 0).then(|| second.load_first(Relaxed));
            let after = (flags & AFTER != 0).then(|| second.load_second(Relaxed));
            let is_whole = flags == which(word, before, after);
            is_whole.then_some(Replaced { word, before, after }).ok_or(damaged)
        };
        (0..count as usize).rev().map(record).collect()
    }

    /// Gives back the room of earlier batches. No batch is under way.
    pub(in crate::table) fn shrink(&self) {
        if self.is_empty() {
            self.pairs.shrink(0);
        }
    }

    /// Gives back what the medium knows of pages behind the end.
    pub(in crate::table) fn trim_map(&self) -> Result<(), Error> {
        self.pairs.trim_map()
    }

    pub(in crate::table) fn usage(&self) -> MemoryUsage {
        self.pairs.usage()
    }
}

impl UndoLog<crate::memory::durable::Paged> {
    /// Returns an error if a map names pages that are not in the file.
    pub(in crate::table) fn check(&self) -> Result<(), Error> {
        self.pairs.region().check()
    }
}
