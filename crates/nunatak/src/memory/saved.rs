//! Words that a file keeps for the next process that opens it. They are stored in pairs, behind a
//! pair with their number.
//!
//! They are read while no thread stores any, so loads and stores are relaxed.

use super::{Addresses, Medium, Part, ReservedArray};
use crate::error::Error;
use crate::sync::{AtomicPair, Ordering::Relaxed};

/// Stores words from pair `first` on, or stores that there are none.
pub(crate) fn save<M: Medium>(
    medium: &M,
    pairs: &ReservedArray<AtomicPair, M>,
    first: usize,
    words: Option<&[u64]>,
) -> Result<(), Error> {
    let store = |at: usize, pair: [u64; 2]| -> Result<(), Error> {
        pairs.make_writable(first + at)?;
        let place = pairs.at(first + at);
        medium.store_second(place, pair[1], Relaxed);
        medium.store_first(place, pair[0], Relaxed);
        medium.flush(place, 1);
        Ok(())
    };
    store(0, [0, 0])?;
    let Some(words) = words else { return Ok(()) };
    pairs.grow(first + 1 + words.len().div_ceil(2))?;
    for (at, pair) in words.chunks(2).enumerate() {
        store(1 + at, [pair[0], pair.get(1).copied().unwrap_or(0)])?;
    }
    store(0, [words.len() as u64 + 1, 0])
}

/// Returns the stored words, if there are any.
pub(crate) fn saved<M: Medium>(
    pairs: &ReservedArray<AtomicPair, M>,
    first: usize,
) -> Option<Vec<u64>> {
    let len = pairs.len().checked_sub(first + 1)?;
    let count = pairs.at(first).load_first(Relaxed).checked_sub(1)? as usize;
    if count.div_ceil(2) > len {
        return None;
    }
    let pairs = (0..count.div_ceil(2)).map(|at| pairs.at(first + 1 + at));
    let words = pairs.flat_map(|pair| [pair.load_first(Relaxed), pair.load_second(Relaxed)]);
    Some(words.take(count).collect())
}

/// A part of a medium that holds such words.
#[derive(Debug)]
pub(crate) struct Saved<M: Medium> {
    medium: M,
    pairs: ReservedArray<AtomicPair, M>,
}

impl<M: Medium> Saved<M> {
    pub(crate) fn new(medium: &M, most: usize) -> Result<Self, Error> {
        let most = Addresses::at_most::<AtomicPair>(most.div_ceil(2));
        let pairs = ReservedArray::within(medium, Part::Log, 0, 1 + most)?;
        Ok(Self { medium: medium.clone(), pairs })
    }

    pub(crate) fn save(&self, words: Option<&[u64]>) -> Result<(), Error> {
        if words.is_none() && self.pairs.len() == 0 {
            return Ok(());
        }
        self.pairs.grow(1)?;
        save(&self.medium, &self.pairs, 0, words)
    }

    pub(crate) fn saved(&self) -> Option<Vec<u64>> {
        saved(&self.pairs, 0)
    }
}

impl Saved<super::durable::Paged> {
    /// Checks that the pages of this part are in the file.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.pairs.region().check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Epochs;
    use crate::memory::durable::{Backing, Kind, Paged, Pool, Wanted};
    use std::sync::Arc;

    #[test]
    fn pages_of_saved_words_are_compared_with_their_checksums() {
        let backing = Backing::simulated(&[], false, true, Arc::default()).unwrap();
        let wanted = Wanted { page_checksums: true, ..Wanted::default() };
        let pool = Pool::create(backing, Kind::PeaBlobs, &[0; 12], wanted).unwrap();
        let medium = Paged::new(pool, 1 << 24).unwrap();
        let saved = Saved::new(&medium, 100).unwrap();
        medium.end_recovery().unwrap();
        saved.save(Some(&[1, 2, 3])).unwrap();
        medium.sync(|run| run()).unwrap();
        assert_eq!(saved.check(), Ok(()));
        saved.pairs.at(1).store_first(9, Relaxed);
        assert!(saved.check().is_err());
    }

    #[test]
    fn words_are_read_as_they_were_saved() {
        let words: Vec<u64> = (7..20).collect();
        for count in 0..words.len() {
            // As many pairs as are needed, and no more.
            let saved = Saved::new(&Epochs::default(), 100).unwrap();
            assert_eq!((saved.saved(), saved.save(None), saved.pairs.len()), (None, Ok(()), 0));
            saved.save(Some(&words[..count])).unwrap();
            assert_eq!(saved.saved().as_deref(), Some(&words[..count]));
            // A number that is too large for the pairs.
            let more = 2 * saved.pairs.len() as u64;
            saved.pairs.at(0).store_first(more, Relaxed);
            assert_eq!(saved.saved(), None, "{more} words behind pair 0 of {count}");
            saved.save(None).unwrap();
            assert_eq!(saved.saved(), None);
        }
    }
}
